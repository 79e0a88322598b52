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
    target_ns: i64,
    interval_ns: i64,
    limit_bytes: u64,
    random: Random,
}

/// COBALT: CoDel that leaves its state by counting down instead of resetting, and BLUE (W. Feng and others,
/// The BLUE active queue management algorithms, IEEE/ACM Transactions on Networking 10(4), 2002) for flows
/// that do not respond: a drop probability that an overflow raises and an empty queue lowers. As in Linux
/// `sch_cake`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cobalt {
    count: u32,
    dropping: bool,
    drop_next_ns: i64,
    blue_probability: f64,
    blue_moved_ns: Option<i64>,
}

const FLOWS: usize = 1_024;
const QUANTUM_BYTES: u32 = 1_514;
/// `sch_cake`: the probability rises by 1/256 and falls by 1/4096, at most once per target.
const BLUE_UP: f64 = 1.0 / 256.0;
const BLUE_DOWN: f64 = 1.0 / 4_096.0;

impl Cake {
    /// With the defaults of `rtt internet`: target 5 ms, interval 100 ms. ECN-capable packets are always
    /// marked, as in Linux.
    pub fn new(rate_bps: u64, limit_bytes: u64, seed: u64) -> Self {
        // At low rates the target is one and a half packets' time (`cake_set_rate`).
        let packet_ns = (f64::from(QUANTUM_BYTES) * 12e9 / rate_bps.max(1) as f64) as i64;
        Self(Served::new(
            rate_bps,
            CakeQueues {
                flows: FlowQueues::new(FLOWS, QUANTUM_BYTES, seed),
                target_ns: packet_ns.max(5_000_000),
                interval_ns: 100_000_000.max(packet_ns.saturating_mul(2)),
                limit_bytes,
                random: Random::new(seed),
            },
        ))
    }

    pub fn with_target(mut self, target_ns: i64, interval_ns: i64) -> Self {
        self.0.discipline.target_ns = target_ns.max(0);
        self.0.discipline.interval_ns = interval_ns.max(1);
        self
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
    fn on_full(&mut self, now_ns: i64, target_ns: i64, interval_ns: i64) {
        if self.blue_may_move(now_ns, target_ns) {
            self.blue_probability = (self.blue_probability + BLUE_UP).min(1.0);
        }
        self.dropping = true;
        self.drop_next_ns = now_ns;
        if self.count == 0 {
            self.count = 1;
            self.drop_next_ns = self.next_ns(now_ns, interval_ns);
        }
    }

    /// Called when the queue becomes empty.
    fn on_empty(&mut self, now_ns: i64, target_ns: i64, interval_ns: i64) {
        if self.blue_probability > 0.0 && self.blue_may_move(now_ns, target_ns) {
            self.blue_probability = (self.blue_probability - BLUE_DOWN).max(0.0);
        }
        self.dropping = false;
        if self.count > 0 && now_ns >= self.drop_next_ns {
            self.count -= 1;
            self.drop_next_ns = self.next_ns(now_ns, interval_ns);
        }
    }

    fn next_ns(&self, from_ns: i64, interval_ns: i64) -> i64 {
        let step_ns = interval_ns as f64 / f64::from(self.count.max(1)).sqrt();
        from_ns.saturating_add((step_ns as i64).max(1))
    }

    /// `cobalt_should_drop`: whether to drop, and to mark, this packet.
    fn judge(
        &mut self,
        now_ns: i64,
        head: &Waiting,
        (target_ns, interval_ns): (i64, i64),
        random: &mut Random,
    ) -> (bool, bool) {
        let over = now_ns.saturating_sub(head.arrived_ns) > target_ns;
        let mut due = self.count > 0 && now_ns >= self.drop_next_ns;
        if over {
            if !self.dropping {
                self.dropping = true;
                self.drop_next_ns = self.next_ns(now_ns, interval_ns);
                due = false;
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let (mut drop, mut mark) = (false, false);
        if due && self.dropping {
            mark = head.capable;
            drop = !mark;
            self.count = self.count.saturating_add(1);
            self.drop_next_ns = self.next_ns(self.drop_next_ns, interval_ns);
        } else if !self.dropping {
            // Count down one step for each interval that has passed.
            while due && self.count > 0 {
                self.count -= 1;
                self.drop_next_ns = self.next_ns(self.drop_next_ns, interval_ns);
                due = now_ns >= self.drop_next_ns;
            }
        }
        drop |= self.blue_probability > 0.0 && random.chance(self.blue_probability);
        (drop, mark && !drop)
    }
}

impl Discipline for CakeQueues {
    fn enqueue(&mut self, waiting: Waiting, header: Header, dropped: &mut Vec<Waiting>) -> bool {
        let place = self.flows.place(header.flow);
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
            cobalt.on_full(waiting.arrived_ns, self.target_ns, self.interval_ns);
            if head.packet == waiting.packet {
                kept = false;
            } else {
                dropped.push(head);
            }
        }
        kept
    }

    fn dequeue(&mut self, now_ns: i64, dropped: &mut Vec<Waiting>) -> Option<(Waiting, bool)> {
        let times = (self.target_ns, self.interval_ns);
        let random = &mut self.random;
        self.flows.next(dropped, |flow, _, dropped| {
            loop {
                let Some(head) = flow.queue.pop() else {
                    flow.state.on_empty(now_ns, times.0, times.1);
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
