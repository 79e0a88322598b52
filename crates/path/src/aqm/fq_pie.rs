//! Flow queueing with PIE.

use super::fair::FlowQueues;
use super::pie::{Control, Rules};
use super::served::{Discipline, Served, served_element};
use super::sojourn::Waiting;
use crate::{Header, Random};

/// FQ-PIE (draft-tahiliani-tsvwg-fq-pie; Linux `fq_pie`): the flow queues of FQ-CoDel, with a PIE for each
/// that drops at arrival. Its input is the delay at the head of its queue; [`FqPie::like_linux`] takes that of the packet
/// that the flow sent last.
#[derive(Debug, Clone)]
pub struct FqPie(Served<FqPieQueues>);

#[derive(Debug, Clone)]
pub(super) struct FqPieQueues {
    flows: FlowQueues<Control>,
    rules: Rules,
    marks: bool,
    limit_packets: usize,
    random: Random,
}

/// As in Linux: 1024 queues, a quantum of one frame.
const FLOWS: usize = 1_024;
const QUANTUM_BYTES: u32 = 1_514;

impl FqPie {
    /// With PIE's target of 15 ms (RFC 8033).
    pub fn new(drain_rate_bps: u64, limit_packets: u64, seed: u64) -> Self {
        Self(Served::new(
            drain_rate_bps,
            FqPieQueues {
                flows: FlowQueues::new(FLOWS, QUANTUM_BYTES, seed),
                rules: Rules::default(),
                marks: false,
                limit_packets: usize::try_from(limit_packets.max(1)).unwrap_or(usize::MAX),
                random: Random::new(seed),
            },
        ))
    }

    pub fn with_target(mut self, target_ns: i64) -> Self {
        self.0.discipline.rules.target_ns = target_ns.max(1);
        self
    }

    /// Update the probabilities so often: see [`Pie::with_period`](crate::Pie::with_period).
    pub fn with_period(mut self, period_ns: i64) -> Self {
        self.0.discipline.rules.period_ns = period_ns.max(1);
        self
    }

    /// Follow Linux where it departs from RFC 8033, apart from its period.
    pub fn like_linux(mut self) -> Self {
        self.0.discipline.rules.like_linux = true;
        self
    }

    /// Mark ECN-capable packets instead of dropping them early, while the probability is low.
    pub fn marking(mut self) -> Self {
        self.0.discipline.marks = true;
        self
    }
}

impl Discipline for FqPieQueues {
    fn enqueue(&mut self, mut waiting: Waiting, header: Header, _: &mut Vec<Waiting>) -> bool {
        let is_full = self.flows.packets() >= self.limit_packets;
        let (rules, now_ns) = (self.rules, waiting.arrived_ns);
        let place = self.flows.place(header.flow);
        let flow = self.flows.get_mut(place);
        if is_full {
            if rules.like_linux {
                flow.state.chosen();
            }
            return false;
        }
        if rules.like_linux {
            flow.state
                .advance_by_own(now_ns, flow.queue.len() > 0, rules);
        } else {
            let head_ns = flow.queue.head().map(|head| head.arrived_ns);
            let wait_ns =
                |due_ns: i64| head_ns.map_or(0, |head_ns| due_ns.saturating_sub(head_ns).max(0));
            flow.state.advance(now_ns, rules, wait_ns);
        }
        let backlog_bytes = flow.queue.bytes();
        if (flow.state).chooses(rules, backlog_bytes, &mut self.random) {
            if !(self.marks && waiting.capable && flow.state.may_mark()) {
                return false;
            }
            waiting.marked = true;
        }
        self.flows.push(place, waiting);
        true
    }

    fn dequeue(&mut self, now_ns: i64, dropped: &mut Vec<Waiting>) -> Option<(Waiting, bool)> {
        let rules = self.rules;
        self.flows.next(dropped, |flow, _, _| {
            let head = flow.queue.pop()?;
            if rules.like_linux {
                let leaves_others = flow.queue.len() > 0;
                let wait_ns = now_ns.saturating_sub(head.arrived_ns);
                flow.state
                    .advance_by_own(now_ns.saturating_sub(1), true, rules);
                flow.state
                    .sent(now_ns, if leaves_others { wait_ns } else { 0 }, rules);
            }
            Some((head, head.marked))
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

served_element!(FqPie);
