//! Measurements as rows of a recording's tables, and the buffer in which they wait for collection.
//!
//! Times are nanoseconds since the Unix epoch in the clock of the measuring host, until the client corrects them.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

pub use whydrop_sockets::sample::TcpSample;

/// Data that arrived at the receiver of a TCP or UDP flow in one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub flow: u32,
    pub start_ns: i64,
    pub end_ns: i64,
    pub payload_bytes: u64,
    /// For UDP. A packet that arrives late is subtracted from `lost` in a later interval.
    pub datagrams: Option<Datagrams>,
}

/// The packets of a UDP stream in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Datagrams {
    pub packets: u64,
    pub lost: i64,
    pub reordered: u64,
    /// Mean one-way delay between the clocks of the two ends, without correction for their offset.
    pub delay_ns: i64,
    /// Mean difference between successive one-way delays (needs no correction).
    pub jitter_ns: i64,
}

/// The fate of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fate {
    /// Answered in time.
    Ok,
    /// Answered after the timeout.
    Late,
    /// It never reached the far end.
    LostUp,
    /// It reached the far end; the answer was lost.
    LostDown,
    /// No answer, and the direction of the loss is unknown.
    Lost,
    /// It could not be sent.
    NotSent,
}

/// One probe that was due.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    pub flow: u32,
    pub sequence: u64,
    pub scheduled_ns: i64,
    pub sent_ns: Option<i64>,
    pub received_ns: Option<i64>,
    pub rtt_ns: Option<i64>,
    /// The far end's timestamps, in its clock.
    pub far_received_ns: Option<i64>,
    pub far_sent_ns: Option<i64>,
    pub fate: Fate,
    pub duplicates: u32,
    pub reordered: bool,
    pub payload_bytes: u32,
}

/// One packet of a burst; `received_ns` is in the receiver's clock, `None` for a lost packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurstPacket {
    pub flow: u32,
    pub burst: u32,
    pub sequence: u64,
    /// In the sender's clock.
    pub sent_ns: i64,
    pub received_ns: Option<i64>,
    pub payload_bytes: u32,
    /// The packet arrived with Congestion Experienced set (RFC 3168).
    pub marked: bool,
}

/// When a packet of a burst left its sender: the kernel's timestamp, in the sender's clock, taken when it handed the
/// packet to the interface, after the sender's own queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    pub flow: u32,
    pub sequence: u64,
    pub left_ns: i64,
}

/// An exchange of timestamps with the far end, for estimating the clock offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub sent_ns: i64,
    pub far_received_ns: i64,
    pub far_sent_ns: i64,
    pub received_ns: i64,
}

/// How a flow ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    Complete,
    /// Stopped early on request.
    Stopped,
    /// The reason, for the user.
    Failed(String),
}

/// Measurements of one host's flows that were not collected yet.
#[derive(Debug, Default)]
pub struct Samples {
    pub intervals: Vec<Interval>,
    pub tcp: Vec<TcpSample>,
    pub probes: Vec<Probe>,
    pub bursts: Vec<BurstPacket>,
    pub departures: Vec<Departure>,
    pub exchanges: Vec<Exchange>,
    /// How flows ended, and the congestion control that the sender's kernel used.
    pub endings: Vec<(u32, Ending)>,
    /// Facts stored with a flow: its number, a key, a value.
    pub facts: Vec<(u32, Cow<'static, str>, String)>,
    /// Rows were discarded because they were not collected in time.
    pub overflowed: bool,
}

impl Samples {
    /// The memory that the rows occupy.
    fn bytes(&self) -> usize {
        size_of_val(self.intervals.as_slice())
            + size_of_val(self.tcp.as_slice())
            + size_of_val(self.probes.as_slice())
            + size_of_val(self.bursts.as_slice())
            + size_of_val(self.departures.as_slice())
            + size_of_val(self.exchanges.as_slice())
    }

    fn overflow(&mut self) {
        *self = Samples {
            endings: std::mem::take(&mut self.endings),
            facts: std::mem::take(&mut self.facts),
            overflowed: true,
            ..Samples::default()
        };
    }
}

/// Where all threads of a test put their measurements.
#[derive(Debug)]
pub struct Sink {
    samples: Mutex<Samples>,
    most_bytes: usize,
}

impl Default for Sink {
    fn default() -> Sink {
        Sink::bounded(usize::MAX)
    }
}

impl Sink {
    /// Creates a sink that discards all rows when they occupy more than this.
    pub fn bounded(most_bytes: usize) -> Sink {
        Sink {
            samples: Mutex::default(),
            most_bytes,
        }
    }

    /// Adds samples: `sink.with(|samples| samples.probes.push(probe))`.
    pub fn with<R>(&self, add: impl FnOnce(&mut Samples) -> R) -> R {
        let mut samples = self.lock();
        let result = add(&mut samples);
        if samples.bytes() > self.most_bytes {
            samples.overflow();
        }
        result
    }

    /// Returns everything added since the last call.
    pub fn take(&self) -> Samples {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
        // A thread that panicked while adding a row leaves the other rows intact.
        self.samples
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_sink_that_is_not_emptied_reports_it_and_keeps_its_bound() {
        let sink = Sink::bounded(1000 * size_of::<Interval>());
        for _ in 0..1_000_000 {
            sink.with(|samples| samples.intervals.push(Interval::default()));
        }
        sink.with(|samples| samples.endings.push((0, Ending::Complete)));
        let samples = sink.take();
        assert!(samples.overflowed);
        assert!(samples.intervals.len() <= 1000);
        assert_eq!(samples.endings.len(), 1);
        assert!(!sink.take().overflowed);
    }
}
