//! One thread per end of a session that samples the counters and sockets of all its flows on time.
//!
//! The sending and receiving threads only count. This thread decides when to sample, so intervals stay even however
//! busy a flow is, and a stalled flow produces empty intervals.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use whydrop_sockets::own;

use crate::clock;
use crate::pace;
use crate::sample::{Interval, Sink, TcpSample};
use crate::stop::Stop;
use crate::udp::troubles::{self, Trouble};

/// How long the thread sleeps when no flow is due.
const IDLE_NS: i64 = 10_000_000;
const NEVER_NS: i64 = i64::MAX;
/// The most pauses recorded for a process that hardly ever runs.
const MOST_PAUSES: usize = 500;

/// The counts that a flow's thread passes to the meter.
#[derive(Debug)]
pub struct Counter {
    received_bytes: AtomicU64,
    began_ns: AtomicI64,
    ended_ns: AtomicI64,
}

impl Default for Counter {
    fn default() -> Counter {
        Counter {
            received_bytes: AtomicU64::new(0),
            began_ns: AtomicI64::new(NEVER_NS),
            ended_ns: AtomicI64::new(NEVER_NS),
        }
    }
}

impl Counter {
    /// Marks the beginning of the flow.
    pub fn begin(&self, time_ns: i64) {
        self.began_ns.store(time_ns, Ordering::Release);
    }

    pub fn add(&self, bytes: u64) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Marks the end of the flow and of its last interval.
    pub fn end(&self, time_ns: i64) {
        self.ended_ns.store(time_ns, Ordering::Release);
    }

    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }
}

/// Which end of the flow is local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Its `TCP_INFO` is sampled.
    Sender,
    /// Bytes that arrive are counted.
    Receiver,
}

/// One flow that is sampled.
struct Watched {
    flow: u32,
    side: Side,
    counter: Arc<Counter>,
    stream: TcpStream,
    interval_ns: i64,
    /// The end of the last interval, and the bytes received by then.
    last_ns: Option<i64>,
    last_bytes: u64,
    /// The last interval, kept until the next: a short remainder at the end of the flow is merged into it.
    kept: Option<Interval>,
}

/// The flows of one end of a session.
pub struct Meter {
    watched: Mutex<Vec<Watched>>,
    sink: Arc<Sink>,
    /// Times in which this process did not run.
    pauses: Mutex<Vec<Trouble>>,
}

impl Meter {
    pub fn new(sink: Arc<Sink>) -> Meter {
        Meter {
            watched: Mutex::default(),
            sink,
            pauses: Mutex::default(),
        }
    }

    /// Samples a flow from its [`Counter::begin`] to its [`Counter::end`].
    ///
    /// # Errors
    /// The socket cannot be duplicated (too many open files).
    pub fn watch(
        &self,
        flow: u32,
        side: Side,
        stream: &TcpStream,
        interval_ns: i64,
    ) -> std::io::Result<Arc<Counter>> {
        let counter = Arc::new(Counter::default());
        let watched = Watched {
            flow,
            side,
            counter: counter.clone(),
            stream: stream.try_clone()?,
            // Whatever a plan says, time advances between two samples.
            interval_ns: interval_ns.clamp(1, NEVER_NS / 4),
            last_ns: None,
            last_bytes: 0,
            kept: None,
        };
        self.watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(watched);
        Ok(counter)
    }

    /// The times in which this process did not run although samples were due.
    pub fn pauses(&self) -> Vec<Trouble> {
        let pauses = self.pauses.lock();
        pauses.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_pause(&self, before_ns: i64, now_ns: i64) {
        if let Some(pause) = troubles::pause(before_ns, now_ns) {
            let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
            if pauses.len() < MOST_PAUSES {
                pauses.push(pause);
            }
        }
    }

    /// Samples every flow when it is due, until `stop`; rows that are due then are still written.
    pub fn run(&self, stop: &Stop) {
        clock::sharpen_timers();
        // Without this, the thread waits behind all sending and receiving threads.
        pace::ask_for_short_slices();
        let mut looked_ns = clock::now_ns();
        loop {
            let ending = stop.is_set();
            let now_ns = clock::now_ns();
            self.note_pause(looked_ns, now_ns);
            looked_ns = now_ns;
            let mut next_ns = now_ns + IDLE_NS;
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched.retain_mut(|one| {
                let due_ns = one.look(now_ns, ending, &self.sink);
                next_ns = next_ns.min(due_ns.unwrap_or(NEVER_NS));
                due_ns.is_some()
            });
            drop(watched);
            if ending {
                return;
            }
            clock::sleep_until_ns(next_ns);
        }
    }
}

impl Watched {
    /// Writes what is due and returns the time of the next sample; `None` when the flow is over.
    fn look(&mut self, now_ns: i64, ending: bool, sink: &Sink) -> Option<i64> {
        let ended_ns = self.counter.ended_ns.load(Ordering::Acquire);
        let over = ended_ns != NEVER_NS || ending;
        let until_ns = now_ns.min(ended_ns);
        if self.last_ns.is_none() {
            let began_ns = self.counter.began_ns.load(Ordering::Acquire);
            if began_ns > now_ns {
                return (!over).then_some(NEVER_NS);
            }
            self.last_ns = Some(began_ns);
        }
        let last_ns = self.last_ns.unwrap_or(now_ns);
        let due_ns = last_ns + self.interval_ns;
        if !over && now_ns < due_ns {
            return Some(due_ns);
        }
        // If the thread woke whole intervals late, one long interval replaces them: the arrival times within it are
        // unknown.
        let missed = (now_ns - due_ns).max(0) / self.interval_ns;
        self.write(last_ns, until_ns, now_ns, sink);
        self.last_ns = Some(until_ns);
        if over {
            sink.with(|samples| samples.intervals.extend(self.kept.take()));
        }
        (!over).then_some(
            (due_ns + (missed + 1) * self.interval_ns).max(now_ns + self.interval_ns / 2),
        )
    }

    fn write(&mut self, last_ns: i64, until_ns: i64, now_ns: i64, sink: &Sink) {
        match self.side {
            Side::Receiver => {
                let bytes = self.counter.received_bytes();
                let interval = Interval {
                    flow: self.flow,
                    start_ns: last_ns,
                    end_ns: until_ns,
                    payload_bytes: bytes - self.last_bytes,
                    datagrams: None,
                };
                self.last_bytes = bytes;
                self.keep(interval, sink);
            }
            Side::Sender => {
                // A socket that was reset has no further information.
                if let Ok(info) = own::read(self.stream.as_fd()) {
                    // The socket's memory shows whether the send buffer limits a flow: the kernel's own timer for that
                    // does not run while data waits to leave.
                    let row = TcpSample::of_info(&info, self.flow, now_ns)
                        .with_memory(own::memory(self.stream.as_fd()));
                    sink.with(|samples| samples.tcp.push(row));
                }
            }
        }
    }

    /// Passes on the previous interval. A remainder of less than half an interval, too short for a rate, is merged into
    /// it.
    fn keep(&mut self, interval: Interval, sink: &Sink) {
        let is_rest = interval.end_ns - interval.start_ns < self.interval_ns / 2;
        match &mut self.kept {
            Some(kept) if is_rest => {
                kept.end_ns = interval.end_ns;
                kept.payload_bytes += interval.payload_bytes;
            }
            kept => {
                let before = kept.replace(interval);
                sink.with(|samples| samples.intervals.extend(before));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const INTERVAL_NS: i64 = 100;

    fn watched(meter: &Meter) -> (Arc<Counter>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (
            meter
                .watch(7, Side::Receiver, &stream, INTERVAL_NS)
                .unwrap(),
            stream,
        )
    }

    /// Samples the only flow at each of these times, after the given number of further bytes; returns the rows written
    /// by the end.
    fn intervals(looks: &[(i64, u64)], ended_ns: i64) -> Vec<(i64, i64, u64)> {
        let sink = Arc::new(Sink::default());
        let meter = Meter::new(sink.clone());
        let (counter, _stream) = watched(&meter);
        let mut flows = meter.watched.lock().unwrap();
        counter.begin(0);
        for &(now_ns, bytes) in looks {
            counter.add(bytes);
            assert!(flows[0].look(now_ns, false, &sink).is_some());
        }
        counter.end(ended_ns);
        assert_eq!(flows[0].look(ended_ns + 5, false, &sink), None);
        sink.take()
            .intervals
            .iter()
            .map(|one| (one.start_ns, one.end_ns, one.payload_bytes))
            .collect()
    }

    #[test]
    fn intervals_follow_each_other_and_hold_all_bytes() {
        assert_eq!(
            intervals(&[(100, 5), (200, 0), (300, 9)], 380),
            [(0, 100, 5), (100, 200, 0), (200, 300, 9), (300, 380, 0)]
        );
    }

    #[test]
    fn a_short_rest_at_the_end_belongs_to_the_last_interval() {
        assert_eq!(
            intervals(&[(100, 5), (200, 6)], 203),
            [(0, 100, 5), (100, 203, 6)]
        );
    }

    #[test]
    fn a_thread_that_comes_late_writes_one_long_interval() {
        assert_eq!(intervals(&[(450, 5)], 500), [(0, 450, 5), (450, 500, 0)]);
    }

    #[test]
    fn a_flow_shorter_than_an_interval_has_one() {
        assert_eq!(intervals(&[], 30), [(0, 30, 0)]);
    }
}
