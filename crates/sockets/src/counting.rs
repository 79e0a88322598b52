//! Payload of one direction of a connection, put into intervals.

use crate::batch::{Batch, Interval};
use crate::tracking::Settings;

/// The interval that has begun. A rest is one interval, however long.
#[derive(Debug)]
pub(crate) struct Counting {
    /// The kernel's count as it is now; `None` if it does not count.
    told_bytes: Option<u64>,
    start_ns: i64,
    /// Its count at the start.
    bytes: u64,
    /// Up to here nothing came since the start.
    quiet_ns: Option<i64>,
    /// True if a rest is an interval: else only after the first byte.
    tells_rests: bool,
    /// True if there was an interval.
    any: bool,
}

impl Counting {
    /// Begins with so many bytes at a moment.
    pub fn begin(start_ns: i64, bytes: u64, tells_rests: bool) -> Counting {
        Counting {
            told_bytes: None,
            start_ns,
            bytes,
            quiet_ns: None,
            tells_rests,
            any: false,
        }
    }

    /// Takes what the kernel counts now.
    pub fn tell(&mut self, bytes: Option<u64>) {
        self.told_bytes = bytes;
    }

    /// A poll at which that was so.
    pub fn count(&mut self, flow: u32, time_ns: i64, settings: Settings, batch: &mut Batch) {
        let Some(bytes) = self.told_bytes else {
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

    /// Ends what has begun, at the end of the connection.
    pub fn flush(&mut self, flow: u32, time_ns: i64, batch: &mut Batch) {
        let Some(bytes) = self.told_bytes else {
            return;
        };
        self.end_rest(flow, batch);
        if bytes > self.bytes || (self.tells_rests && !self.any) {
            // Whoever came and went within one moment has no interval of no length.
            self.end_interval(flow, bytes, time_ns.max(self.start_ns + 1), batch);
        }
    }

    fn end_rest(&mut self, flow: u32, batch: &mut Batch) {
        let Some(quiet_ns) = self.quiet_ns.take() else {
            return;
        };
        if self.tells_rests {
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
        (self.tells_rests, self.any) = (true, true);
    }
}
