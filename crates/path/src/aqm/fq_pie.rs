//! Flow queueing with PIE.

use super::fair::FlowQueues;
use super::pie::Control;
use super::served::{Discipline, Served, served_element};
use super::sojourn::Waiting;
use crate::{Header, Random};

/// FQ-PIE (draft-tahiliani-tsvwg-fq-pie; Linux `fq_pie`): the flow queues of FQ-CoDel, with a PIE for each
/// that drops at arrival. Its input is the delay at the head of its queue.
#[derive(Debug, Clone)]
pub struct FqPie(Served<FqPieQueues>);

#[derive(Debug, Clone)]
pub(super) struct FqPieQueues {
    flows: FlowQueues<Control>,
    target_ns: i64,
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
                target_ns: 15_000_000,
                marks: false,
                limit_packets: usize::try_from(limit_packets.max(1)).unwrap_or(usize::MAX),
                random: Random::new(seed),
            },
        ))
    }

    pub fn with_target(mut self, target_ns: i64) -> Self {
        self.0.discipline.target_ns = target_ns.max(1);
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
        if self.flows.packets() >= self.limit_packets {
            return false;
        }
        let place = self.flows.place(header.flow);
        let flow = self.flows.get_mut(place);
        let head_ns = flow.queue.head().map(|head| head.arrived_ns);
        let wait_ns =
            |due_ns: i64| head_ns.map_or(0, |head_ns| due_ns.saturating_sub(head_ns).max(0));
        flow.state
            .advance(waiting.arrived_ns, self.target_ns, wait_ns);
        let backlog_bytes = flow.queue.bytes();
        if (flow.state).chooses(self.target_ns, backlog_bytes, &mut self.random) {
            if !(self.marks && waiting.capable && flow.state.may_mark()) {
                return false;
            }
            waiting.marked = true;
        }
        self.flows.push(place, waiting);
        true
    }

    fn dequeue(&mut self, _: i64, dropped: &mut Vec<Waiting>) -> Option<(Waiting, bool)> {
        self.flows.next(dropped, |flow, _, _| {
            flow.queue.pop().map(|head| (head, head.marked))
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
