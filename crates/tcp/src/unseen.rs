//! Transfers of which the capture holds the acknowledgments alone: the other way of a path that divides, or one side of a tap.

use crate::flow::Endpoint;

/// An initial window (RFC 6928): less is no transfer worth a word.
const LEAST_BYTES: u64 = 14_600;
/// Flows named at most.
const MOST_NAMED: usize = 100;

/// Data of one connection that was acknowledged, and of whose direction no packet was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnseenFlow {
    pub source: Endpoint,
    pub destination: Endpoint,
    pub bytes: u64,
    pub lasted_ns: i64,
}

/// The same of all connections, with or without data in the other direction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnseenData {
    pub flows: u64,
    pub bytes: u64,
    pub lasted_ns: i64,
    /// Source and destination of the first of the flows.
    pub named: Vec<(Endpoint, Endpoint)>,
}

impl UnseenData {
    pub(crate) fn take(&mut self, flow: Option<UnseenFlow>) {
        let Some(flow) = flow.filter(|flow| flow.bytes >= LEAST_BYTES) else {
            return;
        };
        self.flows += 1;
        self.bytes = self.bytes.saturating_add(flow.bytes);
        self.lasted_ns = self.lasted_ns.saturating_add(flow.lasted_ns);
        if self.named.len() < MOST_NAMED {
            self.named.push((flow.source, flow.destination));
        }
    }
}
