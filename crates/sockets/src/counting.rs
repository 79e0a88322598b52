//! Payload of one direction of a connection, divided into intervals.

use crate::batch::{Batch, Interval};
use crate::tracking::Settings;

/// The current interval. An idle time of any length is one interval.
#[derive(Debug)]
pub(crate) struct Counting {
    /// The kernel's present count; `None` if it does not count.
    current_bytes: Option<u64>,
    start_ns: i64,
    /// Its count at the start.
    bytes: u64,
    /// No data arrived from the start until here.
    quiet_ns: Option<i64>,
    /// True if idle times are reported even before the first byte.
    reports_rests: bool,
    /// True if there was an interval.
    any: bool,
}

impl Counting {
    /// Begins with a count at a given time.
    pub fn begin(start_ns: i64, bytes: u64, reports_rests: bool) -> Counting {
        Counting {
            current_bytes: None,
            start_ns,
            bytes,
            quiet_ns: None,
            reports_rests,
            any: false,
        }
    }

    /// Stores the kernel's present count.
    pub fn update(&mut self, bytes: Option<u64>) {
        self.current_bytes = bytes;
    }

    /// Registers a poll with the stored count.
    pub fn count(&mut self, flow: u32, time_ns: i64, settings: Settings, batch: &mut Batch) {
        let Some(bytes) = self.current_bytes else {
            return;
        };
        let rested_ns = self.quiet_ns.unwrap_or(self.start_ns);
        if time_ns.saturating_sub(rested_ns) < settings.interval_ns {
            return;
        }
        if bytes <= self.bytes {
            self.quiet_ns = Some(time_ns);
            if time_ns.saturating_sub(self.start_ns) >= settings.quiet_ns {
                self.end_rest(flow, batch);
            }
            return;
        }
        self.end_rest(flow, batch);
        self.end_interval(flow, bytes, time_ns, batch);
    }

    /// Ends the current interval at the end of the connection.
    pub fn flush(&mut self, flow: u32, time_ns: i64, batch: &mut Batch) {
        let Some(bytes) = self.current_bytes else {
            return;
        };
        self.end_rest(flow, batch);
        if bytes > self.bytes || (self.reports_rests && !self.any) {
            // A connection that begins and ends at the same moment gets no interval of zero length.
            self.end_interval(flow, bytes, time_ns.max(self.start_ns + 1), batch);
        }
    }

    fn end_rest(&mut self, flow: u32, batch: &mut Batch) {
        let Some(quiet_ns) = self.quiet_ns.take() else {
            return;
        };
        if self.reports_rests {
            batch.intervals.push(Interval {
                flow,
                start_ns: self.start_ns,
                end_ns: quiet_ns,
                payload_bytes: 0,
            });
            self.any = true;
        }
        self.start_ns = quiet_ns;
    }

    fn end_interval(&mut self, flow: u32, bytes: u64, time_ns: i64, batch: &mut Batch) {
        batch.intervals.push(Interval {
            flow,
            start_ns: self.start_ns,
            end_ns: time_ns,
            payload_bytes: bytes.saturating_sub(self.bytes),
        });
        (self.start_ns, self.bytes) = (time_ns, bytes);
        (self.reports_rests, self.any) = (true, true);
    }
}
