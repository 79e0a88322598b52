//! Transfers with only their acknowledgments in the capture: paths differ by direction, or a tap sees one side.

use crate::flow::Endpoint;

/// An initial window (RFC 6928): a smaller amount is not worth reporting.
const LEAST_BYTES: u64 = 14_600;
/// The most flows that are named.
const MOST_NAMED: usize = 100;

/// Acknowledged data of one connection, in a direction without captured packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnseenFlow {
    pub source: Endpoint,
    pub destination: Endpoint,
    pub bytes: u64,
    pub lasted_ns: i64,
}

/// The same for all connections, with or without data in the other direction.
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
