//! The dual queue of the service with low latency, low loss and scalable throughput (L4S).

use super::served::{Discipline, Served, served_element};
use super::sojourn::{SojournQueue, Waiting};
use crate::{Ecn, Header, Random};

/// DualPI2 (RFC 9332, section 2 and appendix A): a queue for packets that request the low latency service
/// (ECT(1) or CE) and one for the others. A PI controller adjusts one probability p to the delay of both; the
/// classic queue drops (or marks) with p squared, the other one marks with K times p, K = 2, or more if it is
/// itself delayed.
#[derive(Debug, Clone)]
pub struct DualPi2(Served<DualQueues>);

#[derive(Debug, Clone)]
pub(super) struct DualQueues {
    low_latency: SojournQueue,
    classic: SojournQueue,
    limit_packets: usize,
    target_ns: i64,
    probability: f64,
    wait_before_ns: i64,
    next_update_ns: Option<i64>,
    /// Bytes that the low latency queue has sent beyond its share since the classic one was last served.
    ahead_bytes: i64,
    random: Random,
}

// RFC 9332, appendix A.1, for a target of 15 ms and a typical round trip.
const UPDATE_NS: i64 = 16_000_000;
const ALPHA_HZ: f64 = 0.16;
const BETA_HZ: f64 = 3.2;
/// The coupling factor K (section 2.1).
const COUPLING: f64 = 2.0;
/// The ramp of the low latency queue's own marks: from 0.8 ms over 0.4 ms.
const RAMP_FROM_NS: i64 = 800_000;
const RAMP_NS: i64 = 400_000;
/// Above this the low latency queue drops too (section 2.5.1): the classic drop probability at which its
/// marks reach 1.
const MOST_CLASSIC: f64 = 1.0 / (COUPLING * COUPLING);
/// The classic queue is served at least a tenth of the time (section 2.5.1.1: protection against starvation).
const CLASSIC_SHARE: i64 = 10;
/// After this many updates without a packet the state has decayed to zero.
const UPDATES_TO_FORGET: i64 = 10_000;

impl DualPi2 {
    pub fn new(drain_rate_bps: u64, limit_packets: u64, seed: u64) -> Self {
        Self(Served::new(
            drain_rate_bps,
            DualQueues {
                low_latency: SojournQueue::default(),
                classic: SojournQueue::default(),
                limit_packets: usize::try_from(limit_packets.max(1)).unwrap_or(usize::MAX),
                target_ns: 15_000_000,
                probability: 0.0,
                wait_before_ns: 0,
                next_update_ns: None,
                ahead_bytes: 0,
                random: Random::new(seed),
            },
        ))
    }

    pub fn with_target(mut self, target_ns: i64) -> Self {
        self.0.discipline.target_ns = target_ns.max(1);
        self
    }
}

impl DualQueues {
    fn advance(&mut self, now_ns: i64) {
        let mut due_ns = self
            .next_update_ns
            .unwrap_or(now_ns.saturating_add(UPDATE_NS));
        if now_ns.saturating_sub(due_ns) / UPDATE_NS > UPDATES_TO_FORGET {
            (self.probability, self.wait_before_ns) = (0.0, 0);
            due_ns = now_ns.saturating_add(UPDATE_NS);
        }
        while due_ns <= now_ns {
            self.update(due_ns);
            due_ns = due_ns.saturating_add(UPDATE_NS);
            if due_ns == i64::MAX {
                break;
            }
        }
        self.next_update_ns = Some(due_ns);
    }

    /// Appendix A.1, `dualpi2_update`.
    fn update(&mut self, now_ns: i64) {
        let of = |queue: &SojournQueue| {
            let head = queue.head();
            head.map_or(0, |head| now_ns.saturating_sub(head.arrived_ns).max(0))
        };
        let wait_ns = of(&self.low_latency).max(of(&self.classic));
        let seconds = |ns: i64| ns as f64 / 1e9;
        let step = ALPHA_HZ * seconds(wait_ns.saturating_sub(self.target_ns))
            + BETA_HZ * seconds(wait_ns.saturating_sub(self.wait_before_ns));
        self.probability = (self.probability + step).clamp(0.0, 1.0);
        self.wait_before_ns = wait_ns;
    }

    fn classic_probability(&self) -> f64 {
        (self.probability * self.probability).min(1.0)
    }

    /// Mark probability of the low latency queue for a packet with this delay: its own ramp, or the coupled
    /// probability.
    fn mark_probability(&self, wait_ns: i64) -> f64 {
        let own = (wait_ns - RAMP_FROM_NS) as f64 / RAMP_NS as f64;
        own.clamp(0.0, 1.0)
            .max((COUPLING * self.probability).min(1.0))
    }

    /// True if the low latency queue is served next.
    fn low_latency_is_next(&self) -> bool {
        match (self.low_latency.len(), self.classic.len()) {
            (0, _) => false,
            (_, 0) => true,
            _ => self.ahead_bytes < (CLASSIC_SHARE - 1) * 1_514,
        }
    }
}

impl Discipline for DualQueues {
    fn enqueue(&mut self, waiting: Waiting, header: Header, _: &mut Vec<Waiting>) -> bool {
        self.advance(waiting.arrived_ns);
        if self.waiting() >= self.limit_packets {
            return false;
        }
        match header.ecn {
            Ecn::Ect1 | Ecn::Ce => self.low_latency.push(waiting),
            Ecn::Ect0 | Ecn::NotCapable => self.classic.push(waiting),
        }
        true
    }

    /// Appendix A.1, `dualpi2_dequeue`.
    fn dequeue(&mut self, now_ns: i64, dropped: &mut Vec<Waiting>) -> Option<(Waiting, bool)> {
        self.advance(now_ns);
        loop {
            let overload = self.classic_probability() > MOST_CLASSIC;
            if self.low_latency_is_next() {
                let head = self.low_latency.pop()?;
                if overload && self.random.chance(self.classic_probability()) {
                    dropped.push(head);
                    continue;
                }
                self.ahead_bytes += i64::try_from(head.bytes).unwrap_or(i64::MAX);
                let probability = self.mark_probability(now_ns.saturating_sub(head.arrived_ns));
                let marked = self.random.chance(probability);
                return Some((head, marked));
            }
            let head = self.classic.pop()?;
            let chosen = self.random.chance(self.classic_probability());
            if chosen && (overload || !head.capable) {
                dropped.push(head);
                continue;
            }
            self.ahead_bytes = 0;
            return Some((head, chosen));
        }
    }

    fn waiting(&self) -> usize {
        self.low_latency.len() + self.classic.len()
    }

    fn reset(&mut self) {
        self.low_latency = SojournQueue::default();
        self.classic = SojournQueue::default();
        (self.probability, self.wait_before_ns) = (0.0, 0);
        (self.next_update_ns, self.ahead_bytes) = (None, 0);
        self.random.reset();
    }
}

served_element!(DualPi2);
