//! Sending streams and bursts by their schedule: the same for both ends.

use std::io;
use std::os::fd::AsRawFd;

use socket2::Socket;

use crate::clock;
use crate::pace;
use crate::sample::Sink;

use super::departing::Departing;
use super::packet::{Body, BurstPlace, Key, Packet};
use super::schedule::Schedule;
use super::socket::{Envelope, Outbox};
use super::words;

/// How many packets go with one call at most; so many are stamped at once.
const BATCH: usize = 32;
/// A stream whose packets are due closer together wakes no more often than this, and sends what has become due.
const SHORTEST_SLEEP_NS: i64 = 100_000;
/// The longest delay: what a busy host could not send in this time is left out, and counted: sent in a rush, it would
/// be a burst that nobody asked for.
const MOST_OVERDUE_NS: i64 = 100_000_000;
/// The same for a whole burst.
const BURST_OVERDUE_NS: i64 = if cfg!(test) {
    60_000_000_000
} else {
    1_000_000_000
};
/// Until the socket's buffer has room again.
const FULL_BUFFER_NS: i64 = 200_000;
/// For so long the last packets of bursts are waited for until they have left this host.
const DEPARTING_NS: i64 = 2_000_000_000;
/// "Nobody listens there" must be heard over this span before it is believed.
const REFUSED_NS: i64 = 2_000_000_000;
const REFUSED_TIMES: u32 = 3;

/// A flow to send.
pub(crate) struct Course<'a> {
    pub flow: u32,
    pub token: u64,
    pub key: &'a Key,
    pub schedule: &'a Schedule,
    pub is_bursts: bool,
    pub socket: &'a Socket,
    pub envelope: &'a Envelope,
    pub start_ns: i64,
    pub goes_on: &'a (dyn Fn() -> bool + Sync),
    /// Where the departures of bursts go.
    pub sink: &'a Sink,
}

/// Outcome of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub packets: u64,
    pub bursts: u32,
    /// Not sent because this host was too busy when they were due.
    pub skipped: u64,
    /// The kernel refused them.
    pub not_sent: u64,
    /// Why, of the first.
    pub error: Option<io::Error>,
    /// The flow was not cut short.
    pub is_complete: bool,
    refused: Refusals,
}

/// "Nobody listens there", as heard so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusals {
    times: u32,
    first_ns: i64,
}

impl Refusals {
    /// Hears it once more; true where it is to be believed.
    pub(crate) fn hear(&mut self, now_ns: i64) -> bool {
        if self.times == 0 {
            self.first_ns = now_ns;
        }
        self.times += 1;
        self.times >= REFUSED_TIMES && now_ns.saturating_sub(self.first_ns) >= REFUSED_NS
    }

    /// Something came from there.
    pub(crate) fn forget(&mut self) {
        *self = Refusals::default();
    }
}

/// Sends the flow to its end, or until `goes_on` says no, or until it makes no sense any more: then that is the error.
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

    /// Fills the outbox with packets of a stream that are due, as far as it has room; returns how many.
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

    /// Sends the burst whose first packet has this slot; false where it was cut short.
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
            // One stamp for all that go with one call: they are written in a few microseconds.
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
        // A burst of which nothing could be sent leaves no hole in the numbers.
        self.outcome.bursts += u32::from(self.outcome.packets > before);
        Ok(place >= packets)
    }

    /// Takes note of what has left since the last look; the kernel keeps few stamps.
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
            token: self.course.token,
            sequence,
            sent_ns: now_ns,
            body,
        };
        packet.write(self.outbox.datagram(number), self.course.key);
    }

    /// Sends the first `count` packets of the outbox. What the kernel refuses is counted and left out.
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
                // The error is of an earlier packet; this one was not even tried.
                Err(error) if error.raw_os_error() == Some(libc::ECONNREFUSED) && !was_refused => {
                    was_refused = true;
                    if self.outcome.refused.hear(clock::now_ns()) {
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

/// Streams leave half of a socket's send buffer free, for the answers to probes that share it.
fn is_half_full(socket: &Socket) -> bool {
    let room = socket.send_buffer_size().unwrap_or(usize::MAX);
    queued_bytes(socket).is_some_and(|queued| queued > room / 2)
}

/// The bytes of the socket in this host's own queue, with the kernel's overhead.
fn queued_bytes(socket: &Socket) -> Option<usize> {
    let mut queued: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (ioctl_list(2): TIOCOUTQ) writes one int.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut queued) };
    (status == 0).then_some(queued.max(0) as usize)
}
