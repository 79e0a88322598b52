//! The true limiters of a connection at each moment, known from its hosts and the path.
//!
//! Time is the data sender's (the server's): a moment is attributed to what kept it from sending more *then*. During
//! the simulation a [`Ledger`] records each change of the sender's state. [`Account::of`] then attributes every moment
//! from the first SYN (as the server sees it) to the acknowledgment of the last data to exactly one [`Limiter`].
//! `docs/simulator.md` has the definitions.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use whydrop_hosts::{Toward, Wait};

use crate::history::{History, PacketFate};

/// The limit of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Limiter {
    ConnectionSetup,
    /// A request had arrived and the application had not begun to answer it.
    PeerApplication,
    /// During an answer, or between answers, there was no data to send.
    Application,
    SlowStart,
    CongestionWindow,
    LossRecovery,
    ReceiveWindow,
    SendBuffer,
    DelayedAck,
    Pacing,
    Outage,
}

impl Limiter {
    pub const ALL: [Self; 11] = [
        Self::ConnectionSetup,
        Self::PeerApplication,
        Self::Application,
        Self::SlowStart,
        Self::CongestionWindow,
        Self::LossRecovery,
        Self::ReceiveWindow,
        Self::SendBuffer,
        Self::DelayedAck,
        Self::Pacing,
        Self::Outage,
    ];

    /// The name in a truth file.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConnectionSetup => "connection-setup",
            Self::PeerApplication => "peer-application",
            Self::Application => "application",
            Self::SlowStart => "slow-start",
            Self::CongestionWindow => "congestion-window",
            Self::LossRecovery => "loss-recovery",
            Self::ReceiveWindow => "receive-window",
            Self::SendBuffer => "send-buffer",
            Self::DelayedAck => "delayed-ack",
            Self::Pacing => "pacing",
            Self::Outage => "outage",
        }
    }
}

/// The state of the data sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The handshake is not complete.
    Setup,
    /// All requested data is delivered, and no more was requested.
    Unasked,
    /// A request has arrived; its answer has not begun.
    Thinking,
    /// An answer has begun, and all data written so far has been sent.
    Starved,
    /// All of an answer has been sent, but not acknowledged; the window would limit further data.
    Tail(Wait),
    /// There is more data to send.
    Sending(Wait),
}

impl State {
    /// Limiter in this state. `before` returns the limiter of the same answer before its tail.
    fn limiter(self, before: &dyn Fn() -> Option<Limiter>) -> Limiter {
        match self {
            Self::Setup => Limiter::ConnectionSetup,
            Self::Thinking => Limiter::PeerApplication,
            Self::Unasked | Self::Starved | Self::Sending(Wait::Writes | Wait::Nagle) => {
                Limiter::Application
            }
            Self::Tail(window) => before().unwrap_or(Self::Sending(window).limiter(&|| None)),
            Self::Sending(Wait::Recovery) => Limiter::LossRecovery,
            Self::Sending(Wait::SlowStart) => Limiter::SlowStart,
            Self::Sending(Wait::CongestionWindow) => Limiter::CongestionWindow,
            Self::Sending(Wait::ReceiveWindow) => Limiter::ReceiveWindow,
            Self::Sending(Wait::SendBuffer) => Limiter::SendBuffer,
            Self::Sending(Wait::Pacing) => Limiter::Pacing,
        }
    }

    /// True if an acknowledgment would end this state.
    fn waits_for_an_acknowledgment(self) -> bool {
        match self {
            Self::Tail(_) => true,
            Self::Sending(wait) => !matches!(wait, Wait::Recovery | Wait::Pacing | Wait::Writes),
            Self::Setup | Self::Unasked | Self::Thinking | Self::Starved => false,
        }
    }

    /// True if an outage of the path blocks the sender in this state.
    fn needs_the_path(self) -> bool {
        !matches!(self, Self::Unasked | Self::Thinking | Self::Starved)
    }
}

/// An interval attributed to another limiter than its state alone implies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interval {
    from_ns: i64,
    until_ns: i64,
}

/// The events of one connection that determine its limiters. Times are those of the data sender.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// When each state began.
    states: Vec<(i64, State)>,
    /// When each request reached the server.
    requests: Vec<i64>,
    /// Intervals by which the receiver delayed an acknowledgment of all outstanding data.
    delayed: Vec<Interval>,
    /// Silences ended by a timer, and the sequence number retransmitted then.
    silences: Vec<(Interval, u64)>,
    /// Outages in which a packet of the connection was lost.
    outages: Vec<Interval>,
    /// When acknowledgments arrived.
    heard: Vec<i64>,
    last_event_ns: i64,
    /// From then on a full window is no longer in slow start.
    stands_since_ns: Option<i64>,
}

impl Ledger {
    pub fn state(&mut self, now_ns: i64, state: State) {
        if self.states.last().is_none_or(|&(_, last)| last != state) {
            self.states.push((now_ns, state));
        }
    }

    /// Records since when the window has not grown as in slow start, if so.
    pub fn window_stands(&mut self, since_ns: Option<i64>) {
        self.stands_since_ns = since_ns;
    }

    /// The states, with slow start corrected by later evidence.
    fn settled_states(&self) -> Vec<(i64, State)> {
        let Some(since_ns) = self.stands_since_ns else {
            return self.states.clone();
        };
        let mut states = Vec::with_capacity(self.states.len() + 1);
        let ends = self.states.iter().skip(1).map(|&(ns, _)| ns);
        for (&(from_ns, state), until_ns) in self.states.iter().zip(ends.chain([i64::MAX])) {
            let stands = match state {
                State::Sending(Wait::SlowStart) => Some(State::Sending(Wait::CongestionWindow)),
                State::Tail(Wait::SlowStart) => Some(State::Tail(Wait::CongestionWindow)),
                _ => None,
            };
            if stands.is_none() || from_ns < since_ns {
                states.push((from_ns, state));
            }
            if let Some(stands) = stands.filter(|_| until_ns > since_ns) {
                states.push((from_ns.max(since_ns), stands));
            }
        }
        states
    }

    /// Records the transit time of the first SYN that arrived: the server's time counts from its departure. A capture
    /// at either end then shows the connection with the same duration.
    pub fn syn_arrived(&mut self, transit_ns: i64) {
        if let [(begin_ns, State::Setup)] = self.states.as_mut_slice() {
            *begin_ns += transit_ns;
        }
    }

    pub fn requested(&mut self, now_ns: i64) {
        self.requests.push(now_ns);
    }

    /// Records that the sender sent data.
    pub fn sent(&mut self, now_ns: i64) {
        self.last_event_ns = now_ns;
    }

    /// Records an acknowledgment that the receiver had delayed by `delay_ns`; `all` outstanding data is acknowledged.
    pub fn acknowledged(&mut self, now_ns: i64, delay_ns: i64, all: bool) {
        let from_ns = (now_ns - delay_ns).max(self.last_event_ns);
        if all && from_ns < now_ns {
            self.delayed.push(Interval {
                from_ns,
                until_ns: now_ns,
            });
        }
        self.heard.push(now_ns);
        self.last_event_ns = now_ns;
    }

    /// Records that a timer made the sender retransmit `sequence`; `due_ns` is when all outstanding data should have
    /// been acknowledged.
    pub fn timed_out(&mut self, now_ns: i64, due_ns: i64, sequence: u64) {
        let heard_ns = self.heard.last().copied().unwrap_or(i64::MIN);
        let silence = Interval {
            from_ns: due_ns.max(heard_ns),
            until_ns: now_ns,
        };
        if silence.from_ns < now_ns {
            self.silences.push((silence, sequence));
        }
    }

    /// Records that a packet of the connection was lost in an outage.
    pub fn lost_in_outage(&mut self, from_ns: i64, until_ns: i64) {
        let outage = Interval { from_ns, until_ns };
        if !self.outages.contains(&outage) {
            self.outages.push(outage);
        }
    }
}

/// An interval of time with its limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from_ns: i64,
    pub until_ns: i64,
    pub limiter: Limiter,
}

/// All time of a connection, by limiter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Contiguous spans; adjacent ones have different limiters.
    pub spans: Vec<Span>,
    /// From the arrival of each request (for the first: from the first SYN) until its answer is acknowledged.
    pub transfers: Vec<(i64, i64)>,
}

/// The most spans in a truth file; beyond it only the shares are written.
const MOST_SPANS: usize = 5_000;

impl Account {
    /// The accounts of all connections, in the order of the scenario.
    pub fn of_all(history: &History) -> Vec<Self> {
        let lost = lost_transmissions(history);
        let of = |(flow, ledger): (usize, &Ledger)| {
            Self::of(ledger, history.end_ns, |sequence, before_ns| {
                lost.get(&(flow, sequence)).is_some_and(|sent| {
                    let mut earlier = sent.iter().filter(|&&(sent_ns, _)| sent_ns < before_ns);
                    earlier.all(|&(_, lost)| lost)
                })
            })
        };
        history.ledgers.iter().enumerate().map(of).collect()
    }

    /// Computes the account of a connection; `needed` returns, for a sequence number and a time, whether all copies of
    /// the data sent before that time were lost. An unfinished connection is accounted for until `end_ns`.
    pub fn of(ledger: &Ledger, end_ns: i64, needed: impl Fn(u64, i64) -> bool) -> Self {
        let mut pieces = pieces(ledger, end_ns);
        for &(silence, sequence) in &ledger.silences {
            if needed(sequence, silence.until_ns) {
                paint(&mut pieces, silence, Limiter::LossRecovery, |state| {
                    state.waits_for_an_acknowledgment()
                });
            }
        }
        for &delayed in &ledger.delayed {
            paint(&mut pieces, delayed, Limiter::DelayedAck, |state| {
                state.waits_for_an_acknowledgment()
            });
        }
        for &outage in &ledger.outages {
            // Until an acknowledgment arrives again, or until the end.
            let heard = ledger.heard.partition_point(|&ns| ns <= outage.until_ns);
            let until_ns = ledger.heard.get(heard).copied().unwrap_or(end_ns);
            let silent = Interval { until_ns, ..outage };
            paint(&mut pieces, silent, Limiter::Outage, State::needs_the_path);
        }
        let transfers = transfers(ledger, &pieces);
        Self {
            spans: merged(&pieces),
            transfers,
        }
    }

    /// Time of each limiter within these bounds, in the order of [`Limiter::ALL`].
    pub fn times_ns(&self, from_ns: i64, until_ns: i64) -> [i64; 11] {
        let mut times = [0; 11];
        for span in &self.spans {
            let time_ns = span.until_ns.min(until_ns) - span.from_ns.max(from_ns);
            if time_ns > 0 {
                times[span.limiter as usize] += time_ns;
            }
        }
        times
    }

    /// Time of each limiter within some transfers.
    pub fn times_within(&self, transfers: &[(i64, i64)]) -> [i64; 11] {
        let mut times = [0; 11];
        for &(from_ns, until_ns) in transfers {
            let of = self.times_ns(from_ns, until_ns);
            times.iter_mut().zip(of).for_each(|(sum, ns)| *sum += ns);
        }
        times
    }

    pub fn bounds(&self) -> Option<(i64, i64)> {
        Some((self.spans.first()?.from_ns, self.spans.last()?.until_ns))
    }

    /// Non-zero shares of time within bounds, by name; empty if there is no time.
    pub fn shares(&self, from_ns: i64, until_ns: i64) -> Map<String, Value> {
        let times = self.times_ns(from_ns, until_ns);
        let total: i64 = times.iter().sum();
        Limiter::ALL
            .iter()
            .zip(times)
            .filter(|&(_, time_ns)| time_ns > 0)
            .map(|(limiter, time_ns)| {
                let share = time_ns as f64 / total as f64;
                (limiter.name().into(), json!(share))
            })
            .collect()
    }

    pub fn to_json(&self) -> Value {
        let Some((from_ns, until_ns)) = self.bounds() else {
            return Value::Null;
        };
        let seconds = |ns: i64| ns as f64 / 1e9;
        let interval = |from_ns: i64, until_ns: i64| {
            json!({
                "from_s": seconds(from_ns),
                "until_s": seconds(until_ns),
                "shares": self.shares(from_ns, until_ns),
            })
        };
        let transfers = self
            .transfers
            .iter()
            .map(|&(from, until)| interval(from, until));
        let mut limits = interval(from_ns, until_ns);
        limits["transfers"] = transfers.collect();
        limits["spans"] = match self.spans.len() <= MOST_SPANS {
            true => (self.spans.iter())
                .map(|s| json!([seconds(s.from_ns), seconds(s.until_ns), s.limiter.name()]))
                .collect(),
            false => Value::Null,
        };
        limits
    }
}

/// When each segment was sent, and whether it was lost, by connection and sequence number, for those sent more than
/// once.
fn lost_transmissions(history: &History) -> HashMap<(usize, u64), Vec<(i64, bool)>> {
    let silent = history.ledgers.iter().enumerate();
    let mut sent: HashMap<(usize, u64), Vec<(i64, bool)>> = silent
        .flat_map(|(flow, ledger)| {
            ledger
                .silences
                .iter()
                .map(move |&(_, sequence)| (flow, sequence))
        })
        .map(|key| (key, Vec::new()))
        .collect();
    if sent.is_empty() {
        return sent;
    }
    for packet in &history.packets {
        let Some(segment) = packet.segment.filter(|s| s.toward == Toward::Client) else {
            continue;
        };
        if let Some(sent) = sent.get_mut(&(segment.flow, segment.sequence)) {
            let lost = !matches!(packet.fate, PacketFate::Delivered { .. });
            sent.push((packet.sent_ns, lost));
        }
    }
    sent
}

/// A span with the state from which it was made.
#[derive(Debug, Clone, Copy)]
struct Piece {
    span: Span,
    state: State,
}

/// One piece for each state, until the last data is acknowledged.
fn pieces(ledger: &Ledger, end_ns: i64) -> Vec<Piece> {
    let states = ledger.settled_states();
    let mut states = states.as_slice();
    // Time after the last answer belongs to no transfer.
    let mut end_ns = end_ns;
    if let Some((&(from_ns, State::Unasked), rest)) = states.split_last() {
        (states, end_ns) = (rest, from_ns);
    }
    let ends = states.iter().skip(1).map(|&(ns, _)| ns).chain([end_ns]);
    let mut pieces = Vec::with_capacity(states.len());
    for (&(from_ns, state), until_ns) in states.iter().zip(ends) {
        if until_ns <= from_ns {
            continue;
        }
        let limiter = state.limiter(&|| longest_before(&pieces, from_ns, until_ns - from_ns));
        let span = Span {
            from_ns,
            until_ns,
            limiter,
        };
        pieces.push(Piece { span, state });
    }
    pieces
}

/// The limiter with the most time shortly before the answer's tail, over a span as long as the tail. A nearly full
/// window changes its limiter with each acknowledgment, so the last instant alone would be random.
fn longest_before(pieces: &[Piece], tail_ns: i64, lasts_ns: i64) -> Option<Limiter> {
    let mut times_ns = [0; Limiter::ALL.len()];
    let answer = pieces.iter().rev().take_while(|piece| {
        let state = piece.state;
        matches!(state, State::Sending(_) | State::Starved | State::Tail(_))
            && piece.span.until_ns > tail_ns - lasts_ns
    });
    for Piece { span, .. } in answer {
        times_ns[span.limiter as usize] += span.until_ns - span.from_ns.max(tail_ns - lasts_ns);
    }
    let longest = Limiter::ALL.into_iter().zip(times_ns);
    let longest = longest.filter(|(_, ns)| *ns > 0).max_by_key(|(_, ns)| *ns);
    longest.map(|(limiter, _)| limiter)
}

/// Attributes an interval to another limiter, if the state permits it.
fn paint(
    pieces: &mut Vec<Piece>,
    interval: Interval,
    limiter: Limiter,
    over: impl Fn(State) -> bool,
) {
    let first = pieces.partition_point(|piece| piece.span.until_ns <= interval.from_ns);
    let last = pieces.partition_point(|piece| piece.span.from_ns < interval.until_ns);
    let mut painted = Vec::new();
    for &piece in &pieces[first..last] {
        if !over(piece.state) {
            painted.push(piece);
            continue;
        }
        let part = |from_ns: i64, until_ns: i64, limiter| Piece {
            span: Span {
                from_ns,
                until_ns,
                limiter,
            },
            ..piece
        };
        let Span {
            from_ns, until_ns, ..
        } = piece.span;
        let (begins_ns, ends_ns) = (
            from_ns.max(interval.from_ns),
            until_ns.min(interval.until_ns),
        );
        painted.extend(
            [
                part(from_ns, begins_ns, piece.span.limiter),
                part(begins_ns, ends_ns, limiter),
                part(ends_ns, until_ns, piece.span.limiter),
            ]
            .into_iter()
            .filter(|part| part.span.until_ns > part.span.from_ns),
        );
    }
    pieces.splice(first..last, painted);
}

fn merged(pieces: &[Piece]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for piece in pieces {
        match spans.last_mut() {
            Some(last) if last.limiter == piece.span.limiter => last.until_ns = piece.span.until_ns,
            _ => spans.push(piece.span),
        }
    }
    spans
}

fn transfers(ledger: &Ledger, pieces: &[Piece]) -> Vec<(i64, i64)> {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
        return Vec::new();
    };
    let (first_ns, last_ns) = (first.span.from_ns, last.span.until_ns);
    let mut transfers = Vec::new();
    for (number, &request_ns) in ledger.requests.iter().enumerate() {
        let from_ns = if number == 0 { first_ns } else { request_ns };
        let next_ns = ledger.requests.get(number + 1).copied().unwrap_or(last_ns);
        // An answer is over when all of it is acknowledged: then, or with the next request, no request is open.
        let after = pieces.partition_point(|piece| piece.span.from_ns < request_ns);
        let done = pieces[after..]
            .iter()
            .find(|piece| piece.state == State::Unasked && piece.span.from_ns > request_ns);
        let until_ns = done.map_or(next_ns, |piece| piece.span.from_ns.min(next_ns));
        if until_ns > from_ns {
            transfers.push((from_ns, until_ns));
        }
    }
    transfers
}

#[cfg(test)]
mod tests;
