//! Probes at even intervals, for any protocol: one or more threads send by absolute deadlines, and the caller's thread
//! receives and tracks them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};

use socket2::Socket;

use crate::clock;
use crate::pace;
use crate::sample::{Exchange, Sink};
use crate::stop::Stop;

use super::exchanges::Thinning;
use super::facts;
use super::ledger::{Answered, Ledger};
use super::schedule::Schedule;
use super::socket::{Datagram, Inbox};
use super::transmit::Refusals;
use super::turns::{Emitter, Sent, Turns};
use super::words::{explained, may_pass};

pub(crate) const DEFAULT_TIMEOUT_S: f64 = 3.0;
/// At the end, answers are waited for as long as this many of the longest round trip, and this long at least.
const LAST_ROUND_TRIPS: i64 = 3;
///
/// In tests, delays of a busy machine must not count as losses.
const LAST_WAIT_NS: i64 = if cfg!(test) {
    4_000_000_000
} else {
    1_000_000_000
};
/// A probe that is this late is better not sent: it would form a burst with the next ones.
///
/// In tests every probe is needed, however busy the machine is.
pub(crate) const MOST_OVERDUE_NS: i64 = if cfg!(test) {
    60_000_000_000
} else {
    100_000_000
};
/// Answers with impossible times are left over when a clock is set during a test; more of them, and more than one in a
/// hundred, are a fault of the responder.
const FEW_IMPOSSIBLE: u64 = 2;
const SETTLING_NS: i64 = 100_000_000;
const INBOX: usize = 32;
/// Additional threads that wait for each deadline, each on its own processor: a probe is late only if a busy host
/// delays all of them.
const RIVALS: usize = 2;

/// A flow of probes.
pub(crate) struct Probing<'a> {
    pub flow: u32,
    pub schedule: &'a Schedule,
    /// The start of the flow, without its phase.
    pub start_ns: i64,
    /// With a short read timeout.
    pub socket: &'a Socket,
    /// The longest delay: a packet later than this, and than the next packet's time, is not sent.
    pub most_overdue_ns: i64,
    /// The size of the longest answer.
    pub answer_bytes: usize,
    pub stop: &'a Stop,
    pub sink: &'a Sink,
}

impl Probing<'_> {
    /// Sends all probes and receives until no more answers are expected; `take` registers arrivals.
    ///
    /// An error means that continuing makes no sense; the probes so far are recorded even then.
    pub(crate) fn run(
        &self,
        book: &mut Book,
        emitter: &mut (dyn Emitter + Send),
        take: &mut dyn FnMut(&Datagram, &mut Book),
    ) -> io::Result<()> {
        let is_over = AtomicBool::new(false);
        let goes_on = &|| !self.stop.is_set() && !is_over.load(Ordering::Relaxed);
        let (reports, messages) = mpsc::channel();
        let turns = Turns::new(emitter, reports, self.first_due_ns(), self.overdue_ns());
        let result = std::thread::scope(|scope| {
            // Moved into the thread: when it ends, so does the channel.
            let sender = scope.spawn(move || {
                let granted = pace::prioritise();
                let rivals = match granted.wakes_at_once {
                    true => Vec::new(),
                    false => pace::some_processors(self.flow as usize, RIVALS),
                };
                turns.send_all(self.schedule, &rivals, goes_on);
                granted.words
            });
            let result = self.receive(book, &messages, take);
            is_over.store(true, Ordering::Relaxed);
            if let Ok(scheduling) = sender.join() {
                facts::record(
                    self.flow,
                    [("timer_scheduling", scheduling.to_owned())],
                    self.sink,
                );
            }
            result
        });
        book.receive_messages(&messages);
        result
    }

    fn first_due_ns(&self) -> i64 {
        self.start_ns
            .saturating_add(phase_ns(self.flow, self.schedule.every_ns))
    }

    fn overdue_ns(&self) -> i64 {
        self.most_overdue_ns.max(self.schedule.every_ns as i64)
    }

    fn receive(
        &self,
        book: &mut Book,
        messages: &Receiver<Sent>,
        take: &mut dyn FnMut(&Datagram, &mut Book),
    ) -> io::Result<()> {
        let mut inbox = Inbox::new(INBOX, self.answer_bytes);
        let mut sent_all_ns = None;
        loop {
            let error = inbox.receive(self.socket, true).err();
            if book.receive_messages(messages) {
                sent_all_ns.get_or_insert_with(clock::now_ns);
            }
            for datagram in inbox.datagrams() {
                take(&datagram, book);
            }
            let now_ns = clock::now_ns();
            book.settle(now_ns, self.sink);
            if let Some(error) = error {
                let is_refusal = error.raw_os_error() == Some(libc::ECONNREFUSED);
                if !may_pass(&error) || is_refusal && book.refusals.register(now_ns) {
                    return Err(error);
                }
            }
            if sent_all_ns.is_some_and(|sent_all_ns| book.is_over(sent_all_ns, now_ns)) {
                return Ok(());
            }
        }
    }
}

/// The phase of a flow's probes within the interval. It keeps flows with one interval from waking the same processor at
/// once and from queueing behind one another: multiples of the golden ratio have well-spread fractions, however many
/// there are.
fn phase_ns(flow: u32, every_ns: f64) -> i64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    ((f64::from(flow) * GOLDEN).fract() * every_ns) as i64
}

/// The receiver's state: the ledger of probes, exchanges of timestamps, and errors.
pub(crate) struct Book {
    flow: u32,
    ledger: Ledger,
    thinning: Thinning,
    /// The error of the first probe that could not be sent.
    not_sent: Option<io::Error>,
    refusals: Refusals,
    settled_ns: i64,
    sent: u64,
    /// Not sent because this host was too busy when they were due.
    left_out: u64,
}

impl Book {
    pub(crate) fn new(flow: u32, ledger: Ledger, thinning: Thinning) -> Book {
        Book {
            flow,
            ledger,
            thinning,
            not_sent: None,
            refusals: Refusals::default(),
            settled_ns: i64::MIN,
            sent: 0,
            left_out: 0,
        }
    }

    /// Registers an answer; the first one to a probe also provides an exchange of timestamps.
    pub(crate) fn answered(&mut self, answer: Answered, sent_ns: i64) {
        self.refusals.forget();
        let answer = self.ledger.checked(answer);
        let is_first = self.ledger.answered(answer).is_some();
        if let (true, Some(far)) = (is_first, answer.far) {
            self.thinning.add(Exchange {
                sent_ns,
                far_received_ns: far.received_ns,
                far_sent_ns: far.received_ns.saturating_add(far.turnaround_ns),
                received_ns: answer.received_ns,
            });
        }
    }

    /// Registers the sending thread's messages; returns true after the last one.
    fn receive_messages(&mut self, messages: &Receiver<Sent>) -> bool {
        loop {
            match messages.try_recv() {
                Ok(Sent::Due(scheduled_ns, sent_ns)) => {
                    self.sent += u64::from(sent_ns.is_some());
                    self.left_out += u64::from(sent_ns.is_none());
                    self.ledger.due(scheduled_ns, sent_ns);
                }
                Ok(Sent::Refused(sequence, error)) => {
                    self.ledger.unsent(sequence);
                    self.not_sent.get_or_insert(error);
                }
                Err(mpsc::TryRecvError::Empty) => return false,
                Err(mpsc::TryRecvError::Disconnected) => return true,
            }
        }
    }

    fn is_over(&self, sent_all_ns: i64, now_ns: i64) -> bool {
        let patience_ns = self.ledger.patience_ns();
        let wait_ns = match self.ledger.answers() {
            0 => patience_ns,
            _ => (LAST_ROUND_TRIPS * self.ledger.longest_rtt_ns())
                .max(LAST_WAIT_NS)
                .min(patience_ns),
        };
        now_ns >= sent_all_ns.saturating_add(wait_ns) || !self.ledger.is_waiting(now_ns)
    }

    fn settle(&mut self, now_ns: i64, sink: &Sink) {
        if now_ns < self.settled_ns.saturating_add(SETTLING_NS) {
            return;
        }
        self.settled_ns = now_ns;
        let mut rows = Vec::new();
        self.ledger.settle(now_ns, &mut rows);
        let mut exchanges = self.thinning.take(now_ns);
        if !rows.is_empty() || !exchanges.is_empty() {
            sink.with(|samples| {
                samples.probes.append(&mut rows);
                samples.exchanges.append(&mut exchanges);
            });
        }
    }

    /// Passes on all remaining rows. `ask` requests the arrivals from the far end if nothing else determines them.
    pub(crate) fn close(&mut self, ask: impl FnOnce() -> Option<Vec<(u64, u64)>>, sink: &Sink) {
        let arrivals = if self.ledger.has_questions() {
            ask()
        } else {
            None
        };
        let mut rows = Vec::new();
        self.ledger.finish(arrivals.as_deref(), &mut rows);
        let mut exchanges = self.thinning.take(i64::MAX);
        sink.with(|samples| {
            samples.probes.append(&mut rows);
            samples.exchanges.append(&mut exchanges);
        });
    }

    /// Records facts about packets without a row and about sending errors.
    pub(crate) fn record_facts(&self, peer: &str, sink: &Sink) {
        let strays = self.ledger.strays();
        let counts = [
            ("duplicates_too_late", strays.late_duplicates),
            ("answers_given_up", strays.given_up),
            ("answers_to_nothing", strays.unknown),
            ("impossible_answers", strays.impossible),
            ("probes_left_out_by_busy_sender", self.left_out),
        ];
        let counts = counts
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(key, count)| (key, count.to_string()));
        let not_sent = self
            .not_sent
            .iter()
            .map(|error| ("not_sent_because", explained(error, peer)));
        facts::record(self.flow, counts.chain(not_sent), sink);
    }

    /// `Err` if answers were impossible, or if no probe was answered: with the cause if known, otherwise `silence`.
    pub(crate) fn verdict(&self, peer: &str, silence: &str) -> Result<(), String> {
        let most = FEW_IMPOSSIBLE + self.ledger.answers() / 100;
        if self.ledger.strays().impossible > most {
            return Err(format!(
                "{peer}: the responder claims to have kept a probe for longer than its round trip, or at an impossible \
                 time: it is faulty, or another program impersonates it"
            ));
        }
        match &self.not_sent {
            _ if self.ledger.answers() > 0 => Ok(()),
            Some(error) => Err(explained(error, peer)),
            None if self.sent == 0 => Err(format!(
                "{peer}: no probe was sent: none was due in the flow's duration, or this host was too busy"
            )),
            None => Err(format!("{peer}: {silence}")),
        }
    }
}
