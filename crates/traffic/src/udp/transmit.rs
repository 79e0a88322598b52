//! Sending of streams and bursts by their schedule: the same at both ends.

use std::io;
use std::os::fd::AsRawFd;

use socket2::Socket;

use crate::clock;
use crate::pace;
use crate::sample::Sink;

use super::departing::Departing;
use super::packet::{Body, BurstPlace, Keys, Packet, Total};
use super::schedule::Schedule;
use super::socket::{Envelope, Outbox};
use super::words;

/// The most packets per call; they share one timestamp.
const BATCH: usize = 32;
/// The shortest sleep of a stream with smaller gaps: it wakes this often and sends all packets that are due.
const SHORTEST_SLEEP_NS: i64 = 100_000;
/// The longest delay. Packets that a busy host could not send in this time are omitted and counted: sent at once, they
/// would form an unintended burst.
const MOST_OVERDUE_NS: i64 = 100_000_000;
/// The same for a whole burst.
const BURST_OVERDUE_NS: i64 = if cfg!(test) {
    60_000_000_000
} else {
    1_000_000_000
};
/// How long to wait for room in the socket's buffer.
const FULL_BUFFER_NS: i64 = 200_000;
/// How long to wait until the last packets of bursts have left this host.
const DEPARTING_NS: i64 = 2_000_000_000;
/// The span over which "connection refused" must repeat before it ends the flow.
const REFUSED_NS: i64 = 2_000_000_000;
const REFUSED_TIMES: u32 = 3;

/// A flow to send.
pub(crate) struct Course<'a> {
    pub flow: u32,
    pub keys: &'a Keys,
    pub schedule: &'a Schedule,
    pub is_bursts: bool,
    pub socket: &'a Socket,
    pub envelope: &'a Envelope,
    pub start_ns: i64,
    pub goes_on: &'a (dyn Fn() -> bool + Sync),
    /// Receives the departures of bursts.
    pub sink: &'a Sink,
}

/// The outcome of sending a flow.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub packets: u64,
    pub bursts: u32,
    /// Not sent because this host was too busy when they were due.
    pub skipped: u64,
    /// Refused by the kernel.
    pub not_sent: u64,
    /// The first such error.
    pub error: Option<io::Error>,
    /// False if the flow was cut short.
    pub is_complete: bool,
    refused: Refusals,
}

impl Outcome {
    /// The numbers that the end of the flow announces.
    pub(crate) fn total(&self) -> Total {
        Total {
            packets: self.packets,
            bursts: self.bursts,
        }
    }
}

/// "Connection refused" errors so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusals {
    times: u32,
    first_ns: i64,
}

impl Refusals {
    /// Registers one more; returns true if the flow should end.
    pub(crate) fn register(&mut self, now_ns: i64) -> bool {
        if self.times == 0 {
            self.first_ns = now_ns;
        }
        self.times += 1;
        self.times >= REFUSED_TIMES && now_ns.saturating_sub(self.first_ns) >= REFUSED_NS
    }

    /// A packet arrived from the peer, so a program does listen there.
    pub(crate) fn forget(&mut self) {
        *self = Refusals::default();
    }
}

/// Sends the flow to its end, or until `goes_on` returns false; returns the error if continuing makes no sense.
pub(crate) fn transmit(course: &Course) -> Result<Outcome, io::Error> {
    let mut transmission = Transmission {
        course,
        outbox: Outbox::new(BATCH, course.schedule.packet_bytes),
        outcome: Outcome::default(),
        departing: course.is_bursts.then(|| Departing::of(course)),
    };
    if course.is_bursts {
        transmission.bursts()?;
    } else {
        transmission.stream()?;
    }
    Ok(transmission.outcome)
}

struct Transmission<'a> {
    course: &'a Course<'a>,
    outbox: Outbox,
    outcome: Outcome,
    departing: Option<Departing<'a>>,
}

impl Transmission<'_> {
    fn due_ns(&self, slot: u64) -> Option<i64> {
        self.course
            .schedule
            .at_ns(slot)
            .map(|after_ns| self.course.start_ns.saturating_add(after_ns))
    }

    fn stream(&mut self) -> io::Result<()> {
        let (mut slot, mut woke_ns) = (0, i64::MIN);
        while let Some(due_ns) = self.due_ns(slot) {
            let wake_ns = due_ns.max(woke_ns.saturating_add(SHORTEST_SLEEP_NS));
            if !pace::wait(wake_ns, self.course.goes_on) {
                return Ok(());
            }
            woke_ns = clock::now_ns();
            while self
                .due_ns(slot)
                .is_some_and(|due_ns| woke_ns - due_ns > MOST_OVERDUE_NS)
            {
                slot += 1;
                self.outcome.skipped += 1;
            }
            loop {
                let count = self.stamp_due(&mut slot, woke_ns);
                if count == 0 {
                    break;
                }
                self.send(count)?;
            }
        }
        self.outcome.is_complete = true;
        Ok(())
    }

    /// Fills the outbox with the stream's packets that are due, as far as it has room; returns how many.
    fn stamp_due(&mut self, slot: &mut u64, until_ns: i64) -> usize {
        let mut count = 0;
        while count < self.outbox.room()
            && self.due_ns(*slot).is_some_and(|due_ns| due_ns <= until_ns)
        {
            let sequence = self.outcome.packets + count as u64;
            self.stamp(count, sequence, Body::Stream, clock::now_ns());
            *slot += 1;
            count += 1;
        }
        count
    }

    fn bursts(&mut self) -> io::Result<()> {
        let per_burst = u64::from(self.course.schedule.per_burst);
        let mut slot = 0;
        while let Some(due_ns) = self.due_ns(slot) {
            if !pace::wait(due_ns, self.course.goes_on) {
                return Ok(());
            }
            if clock::now_ns() - due_ns > BURST_OVERDUE_NS {
                self.outcome.skipped += per_burst;
            } else if !self.burst(slot)? {
                return Ok(());
            }
            slot += per_burst;
            self.note_departures();
            if let Some(departing) = &mut self.departing {
                departing.hand_on();
            }
        }
        self.outcome.is_complete = true;
        self.await_departures();
        Ok(())
    }

    /// Sends the burst that begins at this slot; returns false if it was cut short.
    fn burst(&mut self, slot: u64) -> io::Result<bool> {
        let packets = self.course.schedule.per_burst;
        let (burst, before) = (self.outcome.bursts, self.outcome.packets);
        let mut place = 0;
        while place < packets {
            let is_paced = self.course.schedule.gap_ns > 0.0;
            let due_ns = self.due_ns(slot + u64::from(place)).unwrap_or(i64::MIN);
            if is_paced && place > 0 && !pace::wait(due_ns, self.course.goes_on) {
                break;
            }
            let count = if is_paced {
                1
            } else {
                self.outbox.room().min((packets - place) as usize)
            };
            // One timestamp for all packets of one call: they are written within a few microseconds.
            let now_ns = clock::now_ns();
            for number in 0..count as u32 {
                let at = BurstPlace {
                    burst,
                    place: place + number,
                    packets,
                };
                let sequence = u64::from(burst) * u64::from(packets) + u64::from(at.place);
                self.stamp(number as usize, sequence, Body::Burst(at), now_ns);
            }
            self.send(count)?;
            place += count as u32;
        }
        // A burst of which no packet could be sent leaves no gap in the numbers.
        self.outcome.bursts += u32::from(self.outcome.packets > before);
        Ok(place >= packets)
    }

    /// Collects departures since the last call; the kernel keeps few timestamps.
    fn note_departures(&mut self) {
        if let Some(departing) = &mut self.departing {
            departing.take();
        }
    }

    /// The last packets of a flow may wait in this host's own queue for some time.
    fn await_departures(&mut self) {
        let until_ns = clock::now_ns() + DEPARTING_NS;
        while (self.course.goes_on)() && clock::now_ns() < until_ns {
            self.note_departures();
            if queued_bytes(self.course.socket) == Some(0) {
                break;
            }
            clock::sleep_until_ns(clock::now_ns() + FULL_BUFFER_NS);
        }
        self.note_departures();
    }

    fn stamp(&mut self, number: usize, sequence: u64, body: Body, now_ns: i64) {
        let packet = Packet {
            flow: self.course.flow,
            sequence,
            sent_ns: now_ns,
            body,
        };
        packet.write(self.outbox.datagram(number), self.course.keys);
    }

    /// Sends the first `count` packets of the outbox. Packets that the kernel refuses are counted and omitted.
    fn send(&mut self, count: usize) -> io::Result<()> {
        let course = self.course;
        let mut sent = 0;
        let mut was_refused = false;
        while sent < count {
            self.note_departures();
            if is_half_full(course.socket) {
                clock::sleep_until_ns(clock::now_ns() + FULL_BUFFER_NS);
                if !(course.goes_on)() {
                    break;
                }
                continue;
            }
            match self
                .outbox
                .send(course.socket, course.envelope, sent, count)
            {
                Ok(went) => sent += went,
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
                    clock::sleep_until_ns(clock::now_ns() + FULL_BUFFER_NS);
                    if !(course.goes_on)() {
                        break;
                    }
                }
                // The error belongs to an earlier packet; this one was not tried.
                Err(error) if error.raw_os_error() == Some(libc::ECONNREFUSED) && !was_refused => {
                    was_refused = true;
                    if self.outcome.refused.register(clock::now_ns()) {
                        return Err(error);
                    }
                }
                Err(error) if words::may_pass(&error) => {
                    self.outcome.not_sent += (count - sent) as u64;
                    self.outcome.error.get_or_insert(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.outcome.packets += sent as u64;
        Ok(())
    }
}

/// True if the socket's send buffer is half full. Streams leave the other half to answers to probes, which share it.
fn is_half_full(socket: &Socket) -> bool {
    let room = socket.send_buffer_size().unwrap_or(usize::MAX);
    queued_bytes(socket).is_some_and(|queued| queued > room / 2)
}

/// The socket's bytes in this host's own queue, with the kernel's overhead.
fn queued_bytes(socket: &Socket) -> Option<usize> {
    let mut queued: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (ioctl_list(2): TIOCOUTQ) writes one int.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut queued) };
    (status == 0).then_some(queued.max(0) as usize)
}
