//! Endings of connections with data that no failure of the path explains: a request that was acknowledged and
//! never answered, and resets after all sent data had arrived.
//!
//! No verdict on usual endings: the side that opened a connection may close it with a reset once it has its
//! answer, and one or two TLS alerts that cross a FIN are answered by a reset.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use whydrop_tcp::{Connection, Endpoint, Outcome};
use whydrop_verdict::{Cause, Fact, Value, fact};

use crate::document::Verdict;
use crate::failures::{MOST_ENDPOINTS, MOST_NAMED, MOST_PACKETS};
use crate::observe::totals::Totals;
use crate::ranked::Ranked;
use crate::requests::{GaveUp, NOTICEABLE_NS, OpenRequest, open_request};
use crate::seconds::seconds;
use crate::waits::{self, Waits};

/// Confidence in a fact that the capture holds ...
const SURE: f64 = 0.95;
/// ... and in a request without an answer so far: no capture shows whether one was due.
const LIKELY: f64 = 0.8;
/// A connection without packets for this long was idle: requests of one page follow each other more closely.
const IDLE_NS: i64 = 1_000_000_000;
/// Size of one or two TLS alerts, which a side also sends when it is about to close.
const ALERT_BYTES: u64 = 128;
/// Segments of a stream, the last of which is full: the stream was not at its end.
const FEWEST_OF_A_STREAM: usize = 10;

/// How connections ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Unanswered,
    /// With a reset in place of the answer.
    ResetForAnswer,
    /// With a reset by the side that accepted the connection, after a pause.
    ResetWhenIdle,
    /// With a reset in the middle of a stream of full segments.
    ResetMidStream,
    /// One side closed, and answered later data with a reset.
    ResetAfterClose,
    /// It began late, since SYNs got no answer.
    SetUpRepeated,
}

impl Ending {
    fn of(connection: &Connection, request: Option<&OpenRequest>) -> Option<Self> {
        let reset = connection.reset.as_deref();
        let by_responder = reset.is_some_and(|reset| reset.by == connection.responder());
        match (connection.outcome, reset) {
            (Outcome::Reset, Some(_)) if by_responder && request.is_some() => {
                Some(Self::ResetForAnswer)
            }
            (Outcome::Reset, Some(reset)) if request.is_none() => match () {
                () if by_responder && reset.idle_ns >= IDLE_NS => Some(Self::ResetWhenIdle),
                () if connection.carries_load => None,
                () if is_mid_stream(connection) && reset.idle_ns < IDLE_NS => {
                    Some(Self::ResetMidStream)
                }
                () => None,
            },
            (Outcome::Closed, Some(_)) if connection.carries_load => None,
            (Outcome::Closed, Some(reset)) if arrives_after_close(connection, reset.by) => {
                Some(Self::ResetAfterClose)
            }
            _ => request.map(|_| Self::Unanswered),
        }
    }

    fn cause(self) -> Cause {
        match self {
            Self::Unanswered => Cause::PeerApplication,
            Self::SetUpRepeated => Cause::Unknown,
            _ => Cause::Reset,
        }
    }

    fn detail(self) -> &'static str {
        match self {
            Self::Unanswered => "unanswered",
            Self::ResetForAnswer => "in-place-of-answer",
            Self::ResetWhenIdle => "idle",
            Self::ResetMidStream => "mid-stream",
            Self::ResetAfterClose => "after-close",
            Self::SetUpRepeated => "set-up",
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Unanswered => "request-unanswered",
            Self::ResetForAnswer => "request-reset",
            Self::ResetWhenIdle => "reset-when-idle",
            Self::ResetMidStream => "reset-mid-stream",
            Self::ResetAfterClose => "reset-after-close",
            Self::SetUpRepeated => "set-up-repeated",
        }
    }
}

/// True if the last data belongs to a stream of full segments: the end of a stream is seldom full.
fn is_mid_stream(connection: &Connection) -> bool {
    let latest =
        (connection.flows.iter()).max_by_key(|flow| flow.segments.last().map(|s| s.time_ns));
    latest.is_some_and(|flow| {
        let full = flow.mss_bytes.is_some_and(|mss_bytes| {
            let last = flow.segments.last();
            last.is_some_and(|last| last.payload_bytes >= mss_bytes)
        });
        let own = flow
            .transfers
            .last()
            .map_or(0, |last| last.end - last.first);
        full && own >= FEWEST_OF_A_STREAM
    })
}

/// True if data arrived for the side that had closed, and was never acknowledged.
fn arrives_after_close(connection: &Connection, closed_by: usize) -> bool {
    let sender = 1 - closed_by;
    let last_ns = connection.flows[sender]
        .segments
        .last()
        .map(|segment| segment.time_ns);
    let is_late = last_ns
        .zip(connection.closed_ns[closed_by])
        .is_some_and(|(last_ns, closed_ns)| last_ns > closed_ns);
    is_late && connection.unanswered[sender].bytes > ALERT_BYTES
}

/// The delay of a connection's start by SYNs without an answer: the time from the first SYN to the answered
/// one.
fn set_up_late_ns(connection: &Connection) -> Option<i64> {
    let first_ns = connection.setup.first_syn_ns?;
    let answered_ns = connection
        .handshake
        .syn_ns
        .filter(|_| connection.setup.syn_acks > 0)?;
    let late_ns = answered_ns.saturating_sub(first_ns);
    (connection.setup.syns > 1 && late_ns >= NOTICEABLE_NS).then_some(late_ns)
}

fn has_withdrawn_ecn(connection: &Connection) -> bool {
    let mut signs = connection.signs.iter();
    signs.any(|signs| signs.ecn_withdrawn.is_some())
}

/// Connections to one endpoint that ended alike.
#[derive(Debug, Default)]
struct Count {
    connections: u64,
    syns: u64,
    bytes: u64,
    waited_s: f64,
    /// Time in which the waiting side had data in flight, or had none to send.
    active_s: f64,
    longest_s: f64,
    idle_s: f64,
    by_responder: u64,
    /// Streams that their receiver aborted: it wanted no more data.
    by_receiver: u64,
    /// Requests by the side that gave up: the side that asked, the side that was asked, or neither before the
    /// capture ended.
    by_asking: u64,
    by_asked: u64,
    by_neither: u64,
    other_responders: u64,
    payload_bytes: u64,
    packets: Vec<u64>,
    names: Vec<String>,
}

impl Count {
    fn add(
        &mut self,
        ending: Ending,
        connection: &Connection,
        request: Option<&OpenRequest>,
        waits: &mut Waits,
    ) {
        self.connections += 1;
        self.payload_bytes += connection
            .flows
            .iter()
            .map(|flow| flow.counters.payload_bytes)
            .sum::<u64>();
        if let Some(reset) = connection.reset.as_deref() {
            self.by_responder += u64::from(reset.by == connection.responder());
            let payload = |side: usize| connection.flows[side].counters.payload_bytes;
            self.by_receiver += u64::from(payload(reset.by) < payload(1 - reset.by));
            self.idle_s = self.idle_s.max(seconds(reset.idle_ns));
            if self.packets.len() < MOST_PACKETS {
                self.packets.push(reset.packet);
            }
            if ending == Ending::ResetAfterClose {
                self.bytes += connection.unanswered[1 - reset.by].bytes;
            }
        }
        if let Some(request) = request {
            let waited_s = seconds(request.waited_ns());
            self.bytes += request.bytes;
            self.wait(connection, waited_s, waits);
            self.longest_s = self.longest_s.max(waited_s);
            match request.gave_up {
                GaveUp::Asking => self.by_asking += 1,
                GaveUp::Asked => self.by_asked += 1,
                GaveUp::Neither => self.by_neither += 1,
            }
        }
        if self.names.len() < MOST_NAMED {
            self.names
                .push(connection.flows[1 - connection.responder()].name());
        }
    }

    /// Adds the wait of the side that opened the connection, outside the time that its account covers.
    fn wait(&mut self, connection: &Connection, waited_s: f64, waits: &mut Waits) {
        let asking = &connection.flows[1 - connection.responder()];
        self.waited_s += waited_s;
        self.active_s += waits::active_time_s(asking);
        waits.add(asking, waited_s);
    }

    fn take_in(&mut self, other: Self) {
        self.connections += other.connections;
        self.syns += other.syns;
        self.bytes += other.bytes;
        self.waited_s += other.waited_s;
        self.active_s += other.active_s;
        self.longest_s = self.longest_s.max(other.longest_s);
        self.idle_s = self.idle_s.max(other.idle_s);
        self.by_responder += other.by_responder;
        self.by_receiver += other.by_receiver;
        self.by_asking += other.by_asking;
        self.by_asked += other.by_asked;
        self.by_neither += other.by_neither;
        self.payload_bytes += other.payload_bytes;
        self.packets.extend(other.packets);
        self.packets.truncate(MOST_PACKETS);
        let room = MOST_NAMED.saturating_sub(self.names.len());
        self.names.extend(other.names.into_iter().take(room));
    }

    fn headline(&self, ending: Ending, responder: Endpoint) -> Fact {
        let of_requests = fact!(
            ending.code(),
            connections = self.connections,
            other_responders = self.other_responders,
            data_bytes = self.bytes,
            by_responder = self.by_responder
        );
        let about = of_requests.with("responder", Value::Text(responder.to_string().into()));
        let about = match ending {
            Ending::Unanswered | Ending::ResetForAnswer => about
                .with("waited_s", self.waited_s)
                .with("longest_s", self.longest_s)
                .with("by_asking", self.by_asking)
                .with("by_asked", self.by_asked)
                .with("by_nobody", self.by_neither),
            Ending::SetUpRepeated => about
                .with("syns", self.syns)
                .with("waited_s", self.waited_s)
                .with("longest_s", self.longest_s),
            _ => about.with("idle_s", self.idle_s),
        };
        Fact {
            packets: self.packets.clone(),
            ..about
        }
    }

    fn verdict(self, ending: Ending, responder: Endpoint) -> Ranked {
        let sure = match ending {
            Ending::Unanswered if self.by_neither == self.connections => LIKELY,
            _ => SURE,
        };
        let facts = vec![self.headline(ending, responder)];
        let (waited_s, active_s) = (self.waited_s, self.active_s);
        let totals = Totals {
            busy_s: self.waited_s,
            ..Totals::default()
        };
        let verdict = Verdict {
            flows: self.names,
            limited_share: match ending {
                Ending::Unanswered | Ending::SetUpRepeated => 1.0,
                _ => 0.0,
            },
            detail: Some(ending.detail().to_owned()),
            facts,
            ..Verdict::new(ending.cause(), sure)
        };
        let unwanted = ending == Ending::ResetMidStream && self.by_receiver == self.connections;
        let mut ranked = Ranked::new(verdict, &totals);
        ranked.verdict.limited_share *= waits::share(waited_s, active_s);
        match ending {
            // the side that closes has its data, and a connection that starts late did not fail
            Ending::ResetAfterClose | Ending::SetUpRepeated => ranked,
            _ if unwanted => ranked,
            _ => ranked.failed(),
        }
    }
}

/// Connections by ending and endpoint.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    counts: BTreeMap<Ending, BTreeMap<Endpoint, Count>>,
    /// Hosts that do not answer SYNs because these offered ECN.
    blocking_ecn: HashSet<IpAddr>,
}

impl Endings {
    /// For a capture in which SYNs that offer ECN do not reach some hosts.
    pub fn new(blocking_ecn: HashSet<IpAddr>) -> Self {
        Self {
            blocking_ecn,
            ..Self::default()
        }
    }

    /// Adds a connection that did not fail, from a capture that ended at `last_ns`.
    pub fn take(&mut self, connection: &Connection, last_ns: i64, waits: &mut Waits) {
        self.take_set_up(connection, waits);
        let request = open_request(connection, last_ns);
        let Some(ending) = Ending::of(connection, request.as_ref()) else {
            return;
        };
        let of_ending = self.counts.entry(ending).or_default();
        let responder = connection.flows[connection.responder()].source;
        let count = of_ending.entry(responder).or_default();
        count.add(ending, connection, request.as_ref(), waits);
    }

    /// Adds a connection that started late.
    fn take_set_up(&mut self, connection: &Connection, waits: &mut Waits) {
        let Some(late_ns) = set_up_late_ns(connection) else {
            return;
        };
        let responder = connection.flows[connection.responder()].source;
        if self.blocking_ecn.contains(&responder.address) && has_withdrawn_ecn(connection) {
            return;
        }
        let of_ending = self.counts.entry(Ending::SetUpRepeated).or_default();
        let count = of_ending.entry(responder).or_default();
        count.connections += 1;
        count.syns += u64::from(connection.setup.syns);
        count.wait(connection, seconds(late_ns), waits);
        count.longest_s = count.longest_s.max(seconds(late_ns));
        if count.names.len() < MOST_NAMED {
            let asking = 1 - connection.responder();
            count.names.push(connection.flows[asking].name());
        }
    }

    /// A verdict for each kind of ending and endpoint; if there are many endpoints, one for all of them.
    pub fn verdicts(self) -> Vec<Ranked> {
        let mut found = Vec::new();
        for (ending, mut by_endpoint) in self.counts {
            if by_endpoint.len() > MOST_ENDPOINTS {
                by_endpoint = together(by_endpoint);
            }
            let verdicts = by_endpoint.into_iter();
            found.extend(verdicts.map(|(responder, count)| count.verdict(ending, responder)));
        }
        found
    }
}

/// All endpoints merged, under the name of the one with the most connections.
fn together(by_endpoint: BTreeMap<Endpoint, Count>) -> BTreeMap<Endpoint, Count> {
    let busiest = by_endpoint
        .iter()
        .max_by_key(|(_, count)| count.connections);
    let Some((&responder, _)) = busiest else {
        return by_endpoint;
    };
    let mut all = Count {
        other_responders: by_endpoint.len() as u64 - 1,
        ..Count::default()
    };
    by_endpoint
        .into_values()
        .for_each(|count| all.take_in(count));
    BTreeMap::from([(responder, all)])
}

#[cfg(test)]
#[path = "endings_tests.rs"]
mod tests;
