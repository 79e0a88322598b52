//! Flow queueing with controlled delay (RFC 8290).

use super::fair::FlowQueues;
use super::served::{Discipline, Served, served_element};
use super::sojourn::{Settings, Waiting};
use crate::Header;

/// FQ-CoDel (RFC 8290): a queue for each of 1024 buckets of flows, served by deficit round robin with new
/// flows first, each kept short by its own CoDel. A packet that finds no room makes the fattest queue drop
/// from its head.
#[derive(Debug, Clone)]
pub struct FqCoDel(Served<FqCoDelQueues>);

#[derive(Debug, Clone)]
pub(super) struct FqCoDelQueues {
    flows: FlowQueues<()>,
    settings: Settings,
    limit_packets: usize,
}

/// RFC 8290, sections 5.2.1 to 5.2.4.
const FLOWS: usize = 1_024;
const QUANTUM_BYTES: u32 = 1_514;
/// Section 4.1: half of the fattest queue is dropped, but at most this many packets at a time.
const DROP_BATCH: usize = 64;

impl FqCoDel {
    /// With the RFC's 1024 queues, quantum of 1514 bytes, target of 5 ms and interval of 100 ms.
    pub fn new(drain_rate_bps: u64, limit_packets: u64, salt: u64) -> Self {
        Self(Served::new(
            drain_rate_bps,
            FqCoDelQueues {
                flows: FlowQueues::new(FLOWS, QUANTUM_BYTES, salt),
                settings: Settings::default(),
                limit_packets: usize::try_from(limit_packets.max(1)).unwrap_or(usize::MAX),
            },
        ))
    }

    pub fn with_target(mut self, target_ns: i64, interval_ns: i64) -> Self {
        let settings = &mut self.0.discipline.settings;
        settings.target_ns = target_ns.max(0);
        settings.interval_ns = interval_ns.max(1);
        self
    }

    /// Mark ECN-capable packets instead of dropping them early: see [`Header`].
    pub fn marking(mut self) -> Self {
        self.0.discipline.settings.marks = true;
        self
    }

    /// Follow Linux where it departs from RFC 8289: square roots are approximated, and drops come sooner.
    pub fn like_linux(mut self) -> Self {
        self.0.discipline.settings.like_linux = true;
        self
    }
}

impl Discipline for FqCoDelQueues {
    fn enqueue(&mut self, waiting: Waiting, header: Header, dropped: &mut Vec<Waiting>) -> bool {
        let place = self.flows.place(header.flow);
        self.flows.push(place, waiting);
        if self.flows.packets() <= self.limit_packets {
            return true;
        }
        let mut kept = true;
        if let Some(fattest) = self.flows.fattest() {
            let half = self.flows.get_mut(fattest).queue.bytes() / 2;
            let mut freed = 0;
            for _ in 0..DROP_BATCH {
                let Some(head) = self.flows.drop_head(fattest) else {
                    break;
                };
                freed += head.bytes;
                if head.packet == waiting.packet {
                    kept = false;
                } else {
                    dropped.push(head);
                }
                if freed >= half {
                    break;
                }
            }
        }
        kept
    }

    fn dequeue(&mut self, now_ns: i64, dropped: &mut Vec<Waiting>) -> Option<(Waiting, bool)> {
        let settings = self.settings;
        self.flows.next(dropped, |flow, beside_bytes, dropped| {
            // as in Linux: packets in all queues count as the backlog that allows drops
            let settings = Settings {
                beside_bytes,
                ..settings
            };
            flow.queue.dequeue(now_ns, settings, dropped)
        })
    }

    fn waiting(&self) -> usize {
        self.flows.packets()
    }

    fn reset(&mut self) {
        self.flows.reset();
    }
}

served_element!(FqCoDel);
