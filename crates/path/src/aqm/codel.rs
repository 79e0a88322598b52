//! Controlled delay (RFC 8289).

use super::sojourn::{Settings, SojournQueue, Waiting};
use crate::element::with_overhead;
use crate::transmitter::Transmitter;
use crate::{Arrival, Backlog, Decision, Header, Limit, Outcome, PathElement};

/// CoDel (RFC 8289, section 5): a FIFO that, once packets have waited longer than `target` for a whole
/// `interval`, drops at its head, at first one packet per interval and then at a rising rate (by the square
/// root of the count) until the delay is short again.
///
/// It decides when a packet's transmission begins, so it answers [`Outcome::Queued`] to every packet that
/// enters.
#[derive(Debug, Clone)]
pub struct CoDel {
    line: Transmitter,
    limit: Limit,
    overhead_bytes: u32,
    settings: Settings,
    queue: SojournQueue,
    decided: Vec<Decision>,
    arrivals: u64,
    now_ns: i64,
}

impl CoDel {
    /// With the RFC's target of 5 ms and interval of 100 ms.
    pub fn new(drain_rate_bps: u64, limit: Limit) -> Self {
        Self {
            line: Transmitter::new(drain_rate_bps),
            limit,
            overhead_bytes: 0,
            settings: Settings::default(),
            queue: SojournQueue::default(),
            decided: Vec::new(),
            arrivals: 0,
            now_ns: i64::MIN,
        }
    }

    pub fn with_target(mut self, target_ns: i64, interval_ns: i64) -> Self {
        self.settings.target_ns = target_ns.max(0);
        self.settings.interval_ns = interval_ns.max(1);
        self
    }

    /// Mark ECN-capable packets instead of dropping them early: see [`Header`].
    pub fn marking(mut self) -> Self {
        self.settings.marks = true;
        self
    }

    /// Follow Linux where it departs from RFC 8289: square roots are approximated, and drops come sooner.
    pub fn like_linux(mut self) -> Self {
        self.settings.like_linux = true;
        self
    }

    with_overhead!();

    fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.queue.len() as u64,
            bytes: self.queue.bytes(),
        }
    }

    fn next_start_ns(&self) -> Option<i64> {
        self.queue
            .head()
            .map(|head| head.arrived_ns.max(self.line.free_ns()))
    }

    /// Start every transmission that falls due up to and including `now_ns`.
    fn advance(&mut self, now_ns: i64) {
        let mut dropped = Vec::new();
        while let Some(start_ns) = self.next_start_ns().filter(|&start_ns| start_ns <= now_ns) {
            let sent = self.queue.dequeue(start_ns, self.settings, &mut dropped);
            self.decided
                .extend(dropped.drain(..).map(|lost| lost.lost_at(start_ns)));
            if let Some((sent, marked)) = sent {
                let end_ns = self.line.send(start_ns, sent.bytes).end_ns;
                self.decided.push(sent.sent_at(start_ns, end_ns, marked));
            }
        }
    }
}

impl PathElement for CoDel {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        self.arrive_with(packet, Header::default())
    }

    fn arrive_with(&mut self, packet: Arrival, header: Header) -> Outcome {
        self.now_ns = self.now_ns.max(packet.time_ns);
        self.advance(self.now_ns);
        let bytes = u64::from(packet.bytes) + u64::from(self.overhead_bytes);
        let number = self.arrivals;
        self.arrivals += 1;
        let waits = self.line.free_ns() > self.now_ns;
        if waits && !self.limit.admits(self.backlog(), bytes) {
            return Outcome::Dropped;
        }
        self.queue.push(Waiting {
            packet: number,
            arrived_ns: self.now_ns,
            bytes,
            capable: header.ecn.is_capable(),
            marked: false,
        });
        Outcome::Queued { packet: number }
    }

    fn reset(&mut self) {
        let settings = self.settings;
        *self = Self::new(self.line.rate_bps(), self.limit).with_overhead(self.overhead_bytes);
        self.settings = settings;
    }

    fn next_event_ns(&self) -> Option<i64> {
        if self.decided.is_empty() {
            self.next_start_ns()
        } else {
            Some(self.now_ns)
        }
    }

    fn poll(&mut self, now_ns: i64, decided: &mut Vec<Decision>) {
        self.now_ns = self.now_ns.max(now_ns);
        self.advance(self.now_ns);
        decided.append(&mut self.decided);
    }

    fn decides_at_arrival(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fifo, replay};

    /// Packets of 1500 bytes at a steady rate into a link of 12 Mbit/s (1 ms each).
    fn steady(packets: i64, every_ns: i64) -> Vec<Arrival> {
        (0..packets)
            .map(|i| Arrival {
                time_ns: i * every_ns,
                bytes: 1_500,
            })
            .collect()
    }

    #[test]
    fn a_burst_that_drains_within_an_interval_is_not_touched() {
        // 90 packets at once: the last waits 89 ms, so delays exceed the target for less than the interval of
        // 100 ms.
        let arrivals = vec![
            Arrival {
                time_ns: 0,
                bytes: 1_500
            };
            90
        ];
        let codel = replay(
            &mut CoDel::new(12_000_000, Limit::packets(1_000)),
            &arrivals,
        );
        assert_eq!(
            codel,
            replay(&mut Fifo::new(12_000_000, Limit::packets(1_000)), &arrivals)
        );
    }

    #[test]
    fn the_first_drop_follows_one_interval_after_the_target_is_exceeded_and_others_by_the_square_root()
     {
        // 20 % overload: the queue grows by 1/6 ms in each 0.8333 ms; packet k starts at k ms and has waited
        // k/6 ms. The delay reaches 5 ms with k = 30 (30 ms); the first drop is at 130 ms, the next at +100
        // ms / sqrt(1), then + 100 ms / sqrt(2), always at the next start of a transmission.
        let arrivals = steady(1_000, 833_333);
        let mut codel = CoDel::new(12_000_000, Limit::packets(10_000));
        let mut decided = Vec::new();
        let queued = arrivals
            .iter()
            .filter(|&&a| matches!(codel.arrive(a), Outcome::Queued { .. }))
            .count();
        assert_eq!(queued, 1_000);
        codel.poll(i64::MAX, &mut decided);
        let drops_ms: Vec<i64> = decided
            .iter()
            .filter(|d| d.outcome.is_dropped())
            .map(|d| d.time_ns / 1_000_000)
            .collect();
        assert_eq!(drops_ms[..2], [130, 230]);
        assert!((300..=302).contains(&drops_ms[2]), "{drops_ms:?}");
        let gaps: Vec<i64> = drops_ms.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(
            gaps.windows(2).all(|g| g[1] <= g[0] + 1),
            "the gaps shrink: {gaps:?}"
        );
    }

    #[test]
    fn the_second_step_of_linux_is_half_an_interval() {
        // As above, with the approximations 1, 1/2, 0.5625 and 0.488 of the inverse root: 100, 50, 56 and 49 ms.
        let codel = CoDel::new(12_000_000, Limit::NONE).like_linux();
        let outcomes = replay(&mut codel.marking(), &steady(1_000, 833_333));
        let marked_ms: Vec<i64> = (outcomes.iter().enumerate())
            .filter(|(_, outcome)| matches!(outcome, Outcome::Marked { .. }))
            .map(|(packet, _)| packet as i64)
            .collect();
        assert_eq!(marked_ms[..5], [130, 230, 280, 337, 386]);
    }

    #[test]
    fn marking_loses_nothing() {
        let outcomes = replay(
            &mut CoDel::new(12_000_000, Limit::NONE).marking(),
            &steady(1_000, 833_333),
        );
        assert!(outcomes.iter().all(|o| !o.is_dropped()));
        let marked = outcomes
            .iter()
            .filter(|o| matches!(o, Outcome::Marked { .. }))
            .count();
        assert!(marked > 5, "{marked}");
    }

    #[test]
    fn the_queue_limit_still_holds() {
        let outcomes = replay(
            &mut CoDel::new(12_000_000, Limit::packets(10)),
            &[Arrival {
                time_ns: 0,
                bytes: 1_500,
            }; 20],
        );
        // One in service, ten wait.
        assert_eq!(outcomes.iter().filter(|o| o.is_dropped()).count(), 9);
    }

    #[test]
    fn polling_in_steps_decides_the_same_as_polling_once() {
        let arrivals = steady(2_000, 700_000);
        let expected = replay(&mut CoDel::new(12_000_000, Limit::packets(200)), &arrivals);
        let mut codel = CoDel::new(12_000_000, Limit::packets(200));
        let mut outcomes = Vec::new();
        let mut decided = Vec::new();
        for &arrival in &arrivals {
            while let Some(due_ns) = codel
                .next_event_ns()
                .filter(|&due_ns| due_ns <= arrival.time_ns)
            {
                codel.poll(due_ns, &mut decided);
            }
            outcomes.push(codel.arrive(arrival));
        }
        codel.poll(i64::MAX, &mut decided);
        decided
            .iter()
            .for_each(|d| outcomes[d.packet as usize] = d.outcome);
        assert!(expected.iter().any(|o| o.is_dropped()));
        assert_eq!(outcomes, expected);
    }
}
