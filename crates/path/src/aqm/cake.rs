//! The essentials of cake.

use super::fair::FlowQueues;
use super::served::{Discipline, Served, served_element};
use super::sojourn::Waiting;
use crate::{Header, Random};

/// Cake (T. Høiland-Jørgensen, D. Täht and J. Morton, Piece of CAKE, IEEE LANMAN 2018) in its essentials: a shaper
/// without burst, flow queues by deficit round robin with new flows first, each kept short by COBALT, and a limit in
/// bytes that drops from the head of the fattest queue. Not modelled: its tins by DSCP, fairness between hosts, the
/// 8-way set-associative hash, and the acknowledgment filter.
#[derive(Debug, Clone)]
pub struct Cake(Served<CakeQueues>);

#[derive(Debug, Clone)]
pub(super) struct CakeQueues {
    flows: FlowQueues<Cobalt>,
    times: Times,
    limit_bytes: u64,
    random: Random,
}

/// The times of COBALT: see `cake_set_rate` of Linux.
#[derive(Debug, Clone, Copy)]
struct Times {
    target_ns: i64,
    interval_ns: i64,
    /// A delay of less than this is never too long.
    floor_ns: i64,
}

/// COBALT: CoDel that leaves its state by counting down instead of resetting, and BLUE (W. Feng and others,
/// The BLUE active queue management algorithms, IEEE/ACM Transactions on Networking 10(4), 2002) for flows
/// that do not respond: a drop probability that an overflow raises and an empty queue lowers. As in Linux
/// `sch_cake`: drops that were due while the delay was short do not come later, and the first one of a flow does not
/// wait for an interval.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cobalt {
    count: u32,
    /// 1 over the square root of the count that was set last; 0 before the first.
    inverse_root: f64,
    dropping: bool,
    drop_next_ns: i64,
    blue_probability: f64,
    blue_moved_ns: Option<i64>,
}

const FLOWS: usize = 1_024;
const PACKET_BYTES: u32 = 1_514;
/// Bytes that a flow may send in its turn: what is sent in 1/4096 s, within these bounds.
const QUANTUM_BYTES: [u64; 2] = [300, PACKET_BYTES as u64];
const QUANTA_PER_S: u64 = 4_096;
/// `sch_cake`: the probability rises by 1/256 and falls by 1/4096, at most once per target.
const BLUE_UP: f64 = 1.0 / 256.0;
const BLUE_DOWN: f64 = 1.0 / 4_096.0;

impl Cake {
    /// With the defaults of `rtt internet`: target 5 ms, interval 100 ms. ECN-capable packets are always
    /// marked, as in Linux.
    pub fn new(rate_bps: u64, limit_bytes: u64, seed: u64) -> Self {
        let quantum = (rate_bps / 8 / QUANTA_PER_S).clamp(QUANTUM_BYTES[0], QUANTUM_BYTES[1]);
        let discipline = CakeQueues {
            flows: FlowQueues::new(FLOWS, quantum as u32, seed).dividing(),
            times: Times::at(rate_bps, 5_000_000, 100_000_000),
            limit_bytes,
            random: Random::new(seed),
        };
        Self(Served::new(rate_bps, discipline))
    }

    pub fn with_target(mut self, target_ns: i64, interval_ns: i64) -> Self {
        let rate_bps = self.0.rate_bps();
        self.0.discipline.times = Times::at(rate_bps, target_ns.max(0), interval_ns.max(1));
        self
    }
}

impl Times {
    /// At low rates the target is one and a half packets' time, and four of them are no delay.
    fn at(rate_bps: u64, target_ns: i64, interval_ns: i64) -> Self {
        let packet_ns = (f64::from(PACKET_BYTES) * 8e9 / rate_bps.max(1) as f64) as i64;
        let least_ns = packet_ns.saturating_mul(3) / 2;
        let raised_ns = least_ns.max(target_ns);
        Self {
            target_ns: raised_ns,
            interval_ns: interval_ns
                .saturating_add(raised_ns - target_ns)
                .max(raised_ns.saturating_mul(2)),
            floor_ns: packet_ns.saturating_mul(4),
        }
    }
}

impl Cobalt {
    fn blue_may_move(&mut self, now_ns: i64, target_ns: i64) -> bool {
        let due = self
            .blue_moved_ns
            .is_none_or(|moved_ns| now_ns.saturating_sub(moved_ns) > target_ns);
        if due {
            self.blue_moved_ns = Some(now_ns);
        }
        due
    }

    /// Called when the queue overflows.
    fn on_full(&mut self, now_ns: i64, times: Times) {
        if self.blue_may_move(now_ns, times.target_ns) {
            self.blue_probability = (self.blue_probability + BLUE_UP).min(1.0);
        }
        self.dropping = true;
        self.drop_next_ns = now_ns;
        self.count = self.count.max(1);
    }

    /// Called when the queue is empty in its turn, and for the time since then when a packet comes.
    fn on_empty(&mut self, now_ns: i64, times: Times) {
        if self.blue_probability > 0.0 {
            let moved_ns = self.blue_moved_ns.unwrap_or(now_ns);
            let steps = now_ns.saturating_sub(moved_ns) / times.target_ns.max(1);
            if steps > 0 {
                self.blue_probability = (self.blue_probability - BLUE_DOWN * steps as f64).max(0.0);
                self.blue_moved_ns = Some(now_ns);
            }
        }
        self.dropping = false;
        self.count_down(now_ns, times);
    }

    /// One step for each interval that has passed.
    fn count_down(&mut self, now_ns: i64, times: Times) {
        while self.is_due(now_ns) {
            self.step_to(self.count - 1, times);
        }
    }

    fn is_due(&self, now_ns: i64) -> bool {
        self.count > 0 && now_ns >= self.drop_next_ns
    }

    /// Sets the count, and the next drop by it.
    fn step_to(&mut self, count: u32, times: Times) {
        self.count = count;
        self.inverse_root = f64::from(count.max(1)).sqrt().recip();
        self.drop_next_ns = self.next_ns(self.drop_next_ns, times);
    }

    fn next_ns(&self, from_ns: i64, times: Times) -> i64 {
        from_ns.saturating_add((times.interval_ns as f64 * self.inverse_root) as i64)
    }

    /// `cobalt_should_drop`: whether to drop, and to mark, this packet.
    fn judge(
        &mut self,
        now_ns: i64,
        head: &Waiting,
        times: Times,
        random: &mut Random,
    ) -> (bool, bool) {
        let sojourn_ns = now_ns.saturating_sub(head.arrived_ns);
        let due = self.is_due(now_ns);
        let mut late = now_ns > self.drop_next_ns;
        if sojourn_ns > times.target_ns && sojourn_ns > times.floor_ns {
            if !self.dropping {
                self.dropping = true;
                self.drop_next_ns = self.next_ns(now_ns, times);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let chosen = due && self.dropping;
        if chosen {
            self.step_to(self.count.saturating_add(1), times);
            late = now_ns > self.drop_next_ns;
        } else if due {
            self.count_down(now_ns, times);
            late = now_ns > self.drop_next_ns;
        }
        let by_blue = self.blue_probability > 0.0 && random.chance(self.blue_probability);
        let drop = (chosen && !head.capable) || by_blue;
        if self.count == 0 {
            self.drop_next_ns = now_ns.saturating_add(times.interval_ns);
        } else if late && !drop {
            self.drop_next_ns = now_ns;
        }
        (drop, chosen && head.capable)
    }
}

impl Discipline for CakeQueues {
    fn enqueue(&mut self, waiting: Waiting, header: Header, dropped: &mut Vec<Waiting>) -> bool {
        let place = self.flows.place(header.flow);
        if self.flows.is_idle(place) {
            let cobalt = &mut self.flows.get_mut(place).state;
            cobalt.on_empty(waiting.arrived_ns, self.times);
        }
        self.flows.push(place, waiting);
        let mut kept = true;
        while self.flows.bytes() > self.limit_bytes {
            let Some(fattest) = self.flows.fattest() else {
                break;
            };
            let Some(head) = self.flows.drop_head(fattest) else {
                break;
            };
            let cobalt = &mut self.flows.get_mut(fattest).state;
            cobalt.on_full(waiting.arrived_ns, self.times);
            if head.packet == waiting.packet {
                kept = false;
            } else {
                dropped.push(head);
            }
        }
        kept
    }

    fn dequeue(&mut self, now_ns: i64, dropped: &mut Vec<Waiting>) -> Option<(Waiting, bool)> {
        let times = self.times;
        let random = &mut self.random;
        self.flows.next(dropped, |flow, _, dropped| {
            loop {
                let Some(head) = flow.queue.pop() else {
                    flow.state.on_empty(now_ns, times);
                    return None;
                };
                let (drop, mark) = flow.state.judge(now_ns, &head, times, random);
                // The last packet of a flow is never dropped.
                if !drop || flow.queue.len() == 0 {
                    return Some((head, mark));
                }
                dropped.push(head);
            }
        })
    }

    fn waiting(&self) -> usize {
        self.flows.packets()
    }

    fn reset(&mut self) {
        self.flows.reset();
        self.random.reset();
    }
}

served_element!(Cake);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn head(arrived_ns: i64, capable: bool) -> Waiting {
        Waiting {
            packet: 0,
            arrived_ns,
            bytes: 1_514,
            capable,
            marked: false,
        }
    }

    #[test]
    fn at_low_rates_the_target_is_of_packets_and_the_interval_grows_with_it() {
        // a packet takes 12.112 ms at 1 Mbit/s
        let slow = Times::at(1_000_000, 5 * MS, 100 * MS);
        assert_eq!(slow.target_ns, 18_168_000);
        assert_eq!(slow.interval_ns, 113_168_000);
        assert_eq!(slow.floor_ns, 48_448_000);
        let fast = Times::at(100_000_000, 5 * MS, 100 * MS);
        assert_eq!((fast.target_ns, fast.interval_ns), (5 * MS, 100 * MS));
    }

    #[test]
    fn a_delay_of_fewer_than_four_packets_is_never_too_long() {
        let (times, mut random) = (Times::at(8_000_000, 5 * MS, 100 * MS), Random::new(1));
        let mut cobalt = Cobalt::default();
        for now_ms in 0..1_000 {
            let waiting = head((now_ms - 6) * MS, true);
            assert_eq!(
                cobalt.judge(now_ms * MS, &waiting, times, &mut random),
                (false, false)
            );
        }
        let waiting = head(993 * MS, true);
        cobalt.judge(1_000 * MS, &waiting, times, &mut random);
        assert!(cobalt.dropping, "7 ms are more than four packets of 1.5 ms");
    }

    #[test]
    fn what_was_due_while_no_packet_came_is_not_made_up_for() {
        let (times, mut random) = (Times::at(100_000_000, 5 * MS, 100 * MS), Random::new(1));
        let mut cobalt = Cobalt {
            count: 9,
            inverse_root: 1.0 / 3.0,
            dropping: true,
            drop_next_ns: 0,
            ..Cobalt::default()
        };
        // 1 s later: those that were due at intervals of 33 ms since are not marked now
        let marked: Vec<i64> = (1_000..1_050)
            .filter(|now_ms| {
                let waiting = head((now_ms - 10) * MS, true);
                cobalt.judge(now_ms * MS, &waiting, times, &mut random).1
            })
            .collect();
        assert_eq!(marked, [1_000, 1_001, 1_031]);
    }

    #[test]
    fn an_idle_flow_counts_down_and_blue_with_it() {
        let times = Times::at(100_000_000, 5 * MS, 100 * MS);
        let mut cobalt = Cobalt {
            count: 3,
            blue_probability: BLUE_UP,
            blue_moved_ns: Some(0),
            ..Cobalt::default()
        };
        // from 3 to 2 at once, to 1 after 71 ms, and to 0 after 100 ms more
        cobalt.on_empty(100 * MS, times);
        assert_eq!(cobalt.count, 1);
        assert_eq!(cobalt.blue_probability, 0.0, "20 steps of 1/16 each");
        cobalt.on_empty(180 * MS, times);
        assert_eq!(cobalt.count, 0);
    }

    #[test]
    fn packets_that_are_not_capable_are_dropped_where_others_are_marked() {
        let (times, mut random) = (Times::at(100_000_000, 5 * MS, 100 * MS), Random::new(1));
        for capable in [true, false] {
            let mut cobalt = Cobalt::default();
            let chosen: Vec<(bool, bool)> = (0..400)
                .map(|now_ms| {
                    cobalt.judge(
                        now_ms * MS,
                        &head((now_ms - 10) * MS, capable),
                        times,
                        &mut random,
                    )
                })
                .filter(|(drop, mark)| *drop || *mark)
                .collect();
            assert!(chosen.len() > 3);
            assert!(chosen.iter().all(|one| *one == (!capable, capable)));
        }
    }
}
