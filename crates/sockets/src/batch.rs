//! The rows collected since the last call, in the format of a recording's tables.

use std::net::SocketAddr;

use crate::sample::TcpSample;

/// The description of a connection. Its own flow number is for data that this host sends; the next number is for data
/// that it receives.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    pub flow: u32,
    /// When it certainly existed.
    pub seen_ns: i64,
    /// True if it existed at the first poll.
    pub older: bool,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub cookie: u64,
    pub uid: u32,
    pub inode: u32,
    pub interface: Option<u32>,
    pub congestion_control: Option<String>,
    pub ecn: bool,
    pub traffic_class: Option<u8>,
    pub mark: Option<u32>,
    pub cgroup_id: Option<u64>,
    pub upper_layer: Option<String>,
    pub mptcp_token: Option<u32>,
}

/// Payload that was acknowledged (for a connection's own flow), or received in order (for the next number).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub flow: u32,
    pub start_ns: i64,
    pub end_ns: i64,
    pub payload_bytes: u64,
}

/// A value that a congestion control reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    pub flow: u32,
    pub time_ns: i64,
    pub key: &'static str,
    pub value: f64,
}

/// A connection that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub flow: u32,
    pub time_ns: i64,
}

/// The queue of a UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramSample {
    pub time_ns: i64,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub cookie: u64,
    pub receive_queue_bytes: u32,
    pub drops: Option<u32>,
}

/// One poll of all sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Poll {
    pub start_ns: i64,
    pub end_ns: i64,
    /// Processor time that the poll took.
    pub cpu_ns: i64,
    /// Sockets that the kernel listed.
    pub sockets: u32,
    /// Polls due since the previous one that could not be made.
    pub missed: u64,
    /// The list of sockets changed during the poll.
    pub interrupted: bool,
}

/// All rows not collected yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// New connections, and those with a changed description.
    pub connections: Vec<Connection>,
    pub tcp: Vec<TcpSample>,
    pub intervals: Vec<Interval>,
    pub values: Vec<Value>,
    pub ended: Vec<Ended>,
    pub datagrams: Vec<DatagramSample>,
    pub polls: Vec<Poll>,
    /// Rows discarded because they were not collected.
    pub lost_rows: u64,
}

impl Batch {
    /// Appends later rows.
    pub fn append(&mut self, later: Batch) {
        self.connections.extend(later.connections);
        self.tcp.extend(later.tcp);
        self.intervals.extend(later.intervals);
        self.values.extend(later.values);
        self.ended.extend(later.ended);
        self.datagrams.extend(later.datagrams);
        self.polls.extend(later.polls);
        self.lost_rows += later.lost_rows;
    }

    /// Discards all rows when they occupy more than this; the set of connections is kept.
    pub fn bound(&mut self, most_bytes: usize) {
        let bytes = size_of_val(self.tcp.as_slice())
            + size_of_val(self.intervals.as_slice())
            + size_of_val(self.values.as_slice())
            + size_of_val(self.datagrams.as_slice())
            + size_of_val(self.polls.as_slice());
        if bytes <= most_bytes {
            return;
        }
        let rows = self.tcp.len()
            + self.intervals.len()
            + self.values.len()
            + self.datagrams.len()
            + self.polls.len();
        *self = Batch {
            connections: std::mem::take(&mut self.connections),
            ended: std::mem::take(&mut self.ended),
            lost_rows: self.lost_rows + rows as u64,
            ..Batch::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncollected_rows_are_discarded_and_counted() {
        let mut batch = Batch::default();
        for _ in 0..10_000 {
            batch.tcp.push(TcpSample::default());
            batch.bound(1000 * size_of::<TcpSample>());
        }
        batch.ended.push(Ended {
            flow: 0,
            time_ns: 0,
        });
        assert!(batch.tcp.len() <= 1000 && batch.lost_rows >= 9000);
        assert_eq!(batch.tcp.len() as u64 + batch.lost_rows, 10_000);
        assert_eq!(batch.ended.len(), 1);
    }
}
