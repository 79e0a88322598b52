//! Connections that failed: attempts without an answer or refused, peers that fell silent, and resets while
//! data was outstanding.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use whydrop_capture::IcmpErrorKind;
use whydrop_tcp::{Connection, Endpoint, Flow, Notice, Outcome, Tracked, Unanswered};
use whydrop_verdict::{Cause, Fact, Value, fact};

use crate::conditions::{ecn, lost_unanswered};
use crate::document::Verdict;
use crate::endings::Endings;
use crate::observe::totals::Totals;
use crate::ranked::Ranked;
use crate::requests::lacks_much;
use crate::seconds::seconds;
use crate::waits::{self, Waits};

/// Most flows named in a verdict: a scan has thousands that fail alike.
pub(crate) const MOST_NAMED: usize = 100;

/// Kinds of failure of the connections to one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Failure {
    Unanswered,
    Silent,
    Refused,
    /// By an ICMP error, not by a reset.
    Rejected,
    /// An ICMP error reports that its host is unreachable.
    Unreachable,
    /// Its SYN looped until its hop limit ran out.
    Looped,
    /// Its SYN was mistaken for one of an earlier connection.
    TakenForOld,
    /// After a pause, by a device that tracks connections.
    Forgotten,
    /// By a device on the path.
    Interfered,
    Reset,
}

/// Translators must keep an established connection for 2 h 4 min (RFC 5382, REQ-5); those in use drop it
/// after minutes, and none sooner than this.
const SOONEST_FORGOTTEN_NS: i64 = 10_000_000_000;

impl Failure {
    /// Many resets end finished connections: one counts only if data was unacknowledged, or if it did not
    /// come from the host.
    fn of(connection: &Connection, hosts: &Hosts) -> Option<Self> {
        let outstanding = || connection.unanswered.iter().any(|side| side.bytes > 0);
        let reset = connection.reset.as_deref();
        if is_probe(connection) {
            return None;
        }
        match connection.outcome {
            Outcome::NoAnswer => Some(match unreachable(connection) {
                Some(error) => Self::of_error(error.kind),
                None => Self::Unanswered,
            }),
            Outcome::DataUnanswered if is_forgotten(connection, hosts) => Some(Self::Forgotten),
            Outcome::DataUnanswered => Some(Self::Silent),
            Outcome::Refused => Some(Self::Refused),
            Outcome::Reset if is_forgotten(connection, hosts) => Some(Self::Forgotten),
            Outcome::Reset if reset.is_some_and(|r| r.is_from_elsewhere()) => {
                Some(Self::Interfered)
            }
            // if the capture lacks packets, the outstanding data is unknown
            Outcome::Reset if connection.carries_load => None,
            Outcome::Reset if outstanding() && !lacks_much(connection) => Some(Self::Reset),
            _ if is_taken_for_old(connection) => Some(Self::TakenForOld),
            _ => None,
        }
    }

    fn of_error(kind: IcmpErrorKind) -> Self {
        match kind {
            IcmpErrorKind::PortUnreachable | IcmpErrorKind::Prohibited => Self::Rejected,
            IcmpErrorKind::TimeExceeded => Self::Looped,
            _ => Self::Unreachable,
        }
    }

    fn cause(self) -> Cause {
        match self {
            Self::Unanswered | Self::Silent | Self::Unreachable | Self::Looped => Cause::NoAnswer,
            Self::Refused | Self::Rejected => Cause::Refused,
            Self::Forgotten => Cause::IdleTimeout,
            Self::Interfered | Self::Reset | Self::TakenForOld => Cause::Reset,
        }
    }

    fn detail(self) -> Option<&'static str> {
        match self {
            Self::Rejected => Some("icmp"),
            Self::Unreachable => Some("unreachable"),
            Self::Looped => Some("loop"),
            Self::TakenForOld => Some("port-reused"),
            Self::Interfered => Some("middlebox"),
            _ => None,
        }
    }
}

/// Times at which each host sent packets, by connection: a host that still sends is not dead.
#[derive(Default)]
struct Hosts(HashMap<IpAddr, Vec<(i64, Endpoint)>>);

impl Hosts {
    fn of(tracked: &Tracked) -> Self {
        let mut hosts = Self::default();
        for connection in tracked.connections.iter().chain(&tracked.failed.kept) {
            for (flow, back) in
                [(0, 1), (1, 0)].map(|(a, b)| (&connection.flows[a], &connection.flows[b]))
            {
                if flow.counters.packets > 0 {
                    let heard = hosts.0.entry(flow.source.address).or_default();
                    heard.push((flow.last_ns, back.source));
                }
            }
        }
        hosts
    }

    /// True if a host sent a packet to another endpoint than this after a time.
    fn is_heard_after(&self, host: IpAddr, after_ns: i64, other_than: Endpoint) -> bool {
        let heard = self.0.get(&host).map_or(&[][..], Vec::as_slice);
        heard
            .iter()
            .any(|(at_ns, to)| *at_ns > after_ns && *to != other_than)
    }
}

/// True if the connection was forgotten after a pause longer than all that it had survived.
///
/// Either its data is answered by a reset that shows this (RFC 9293, section 3.10.7.1) or that comes from a
/// device on the path; or nothing answers it, although the same host answers others meanwhile. No verdict if
/// the host answers none: it may be dead.
fn is_forgotten(connection: &Connection, hosts: &Hosts) -> bool {
    let pauses = connection.pauses();
    let longest_ns = pauses.longest_answered_ns.max(SOONEST_FORGOTTEN_NS);
    let Some(pause) = pauses
        .unanswered
        .filter(|pause| pause.idle_ns >= longest_ns)
    else {
        return false;
    };
    let flow = &connection.flows[pause.by];
    match connection
        .reset
        .as_deref()
        .filter(|reset| reset.by != pause.by)
    {
        Some(reset) => reset.knows_no_connection || reset.has_other_distance(),
        None => hosts.is_heard_after(flow.destination.address, pause.ended_ns, flow.source),
    }
}

/// The ICMP error that explains why an attempt to connect got no answer; a rejection takes precedence.
fn unreachable(connection: &Connection) -> Option<&Notice> {
    let notices = connection.flows[0].notices();
    let rejects = |notice: &&Notice| Failure::of_error(notice.kind) == Failure::Rejected;
    let all = || notices.iter().filter(|notice| notice.kind.is_unreachable());
    all().find(rejects).or_else(|| all().next())
}

/// True for a connection without data that was tried to find the routers on the path: its hop limit was meant
/// to run out.
fn is_probe(connection: &Connection) -> bool {
    let carried_data = connection.flows.iter().any(Flow::carried_data);
    whydrop_datagrams::is_probe_of_the_way(connection.setup.ttl) && !carried_data
}

/// True if the responder mistook the SYN for one of an earlier connection, and the initiator noticed.
fn is_taken_for_old(connection: &Connection) -> bool {
    let old = connection.taken_for_old();
    old.is_some_and(|old| old.is_reset || connection.setup.syns > 1)
}

/// Most packets named in a fact.
pub(crate) const MOST_PACKETS: usize = 16;

/// Counts of connections that failed alike.
#[derive(Debug, Default)]
struct Count {
    connections: u64,
    syns: u64,
    repeats: u64,
    /// Losses of data without an answer.
    lost: u64,
    outstanding_bytes: u64,
    /// Connections in which the silent side had closed before.
    closed_before: u64,
    by_responder: u64,
    /// Connections that the receiver of all outstanding data aborted: it wanted no more data.
    by_receiver: u64,
    from_elsewhere: u64,
    /// Resets among those from another distance, and ones after which the host continued.
    other_distance: u64,
    went_on: u64,
    /// Number of resets, and fields of the first one next to those that the host used before.
    resets: u64,
    field_comparison: Option<Fact>,
    /// Longest pause before a connection was forgotten, and the longest that it survived.
    idle_s: f64,
    survived_s: f64,
    /// ICMP errors about these connections: the first.
    notice: Option<(IcmpErrorKind, IpAddr)>,
    /// The initiators that received such errors.
    senders: Vec<IpAddr>,
    /// Connections that were set up nevertheless.
    accepted: u64,
    packets: Vec<u64>,
    lasted_s: f64,
    /// Time in which data of the same flows was in flight, or their senders had none.
    active_s: f64,
    /// Further endpoints that failed alike.
    other_responders: u64,
    names: Vec<String>,
}

impl Count {
    fn add(&mut self, failure: Failure, connection: &Connection, waits: &mut Waits) {
        let [one, other] = &connection.flows;
        let last_ns = one.last_ns.max(other.last_ns);
        let first_ns = [one, other]
            .into_iter()
            .filter(|flow| flow.counters.packets > 0)
            .map(|flow| flow.first_ns)
            .min();
        self.connections += 1;
        self.syns += u64::from(connection.setup.syns);
        let silent = 1 - unanswered_direction(connection);
        self.closed_before += u64::from(connection.closed[silent]);
        self.lost += connection.flows.iter().map(lost_unanswered).sum::<u64>();
        for side in &connection.unanswered {
            self.repeats += u64::from(side.repeats);
            self.outstanding_bytes += side.bytes;
        }
        if let Some(reset) = connection.reset.as_deref() {
            self.by_responder += u64::from(reset.by == 1);
            let own = connection.unanswered.get(reset.by);
            self.by_receiver += u64::from(own.is_some_and(|own| own.bytes == 0));
            self.from_elsewhere += u64::from(reset.is_from_elsewhere());
            self.other_distance += u64::from(reset.has_other_distance());
            self.went_on += u64::from(reset.packets_after > 0);
            self.resets += 1;
            self.field_comparison
                .get_or_insert_with(|| field_comparison(reset));
        }
        if let Some(pause) = connection.pauses().unanswered {
            self.idle_s = self.idle_s.max(pause.idle_ns as f64 * 1e-9);
        }
        let survived_s = connection.pauses().longest_answered_ns as f64 * 1e-9;
        self.survived_s = self.survived_s.max(survived_s);
        let notices = connection.flows.iter().flat_map(|flow| flow.notices());
        let mut notices = notices.filter(|notice| notice.kind.is_unreachable());
        if let Some(notice) = unreachable(connection).or_else(|| notices.next()) {
            self.notice.get_or_insert((notice.kind, notice.from));
            if self.senders.is_empty() {
                self.senders.push(one.source.address);
            }
        }
        let accepted = connection.taken_for_old().and_then(|old| old.accepted_ns);
        self.accepted += u64::from(accepted.is_some());
        self.packets.extend(packets(failure, connection));
        self.packets.truncate(MOST_PACKETS);
        // a reset takes no time, and a side that fell silent was active before
        let since_ns = match failure {
            Failure::Unanswered
            | Failure::Refused
            | Failure::Rejected
            | Failure::Unreachable
            | Failure::Looped => first_ns,
            Failure::TakenForOld => connection.taken_for_old().map(|old| old.syn_ns),
            Failure::Silent => silent_side(connection).last_answer_ns.or(first_ns),
            Failure::Forgotten => connection.pauses().unanswered.map(|pause| pause.ended_ns),
            Failure::Interfered | Failure::Reset => None,
        };
        let until_ns = accepted.unwrap_or(last_ns);
        let lasted_ns = until_ns.saturating_sub(since_ns.unwrap_or(until_ns));
        let lasted_s = seconds(lasted_ns.max(0));
        let silent = silent_flow(connection);
        self.lasted_s += lasted_s;
        self.active_s += waits::active_time_s(silent);
        waits.add(silent, lasted_s);
        if self.names.len() < MOST_NAMED {
            self.names.push(silent.name());
        }
    }

    fn take_in(&mut self, other: Self) {
        self.connections += other.connections;
        self.syns += other.syns;
        self.repeats += other.repeats;
        self.lost += other.lost;
        self.outstanding_bytes += other.outstanding_bytes;
        self.closed_before += other.closed_before;
        self.by_responder += other.by_responder;
        self.by_receiver += other.by_receiver;
        self.from_elsewhere += other.from_elsewhere;
        self.other_distance += other.other_distance;
        self.went_on += other.went_on;
        self.resets += other.resets;
        self.field_comparison = self.field_comparison.take().or(other.field_comparison);
        self.idle_s = self.idle_s.max(other.idle_s);
        self.survived_s = self.survived_s.max(other.survived_s);
        self.notice = self.notice.or(other.notice);
        self.accepted += other.accepted;
        self.packets.extend(other.packets);
        self.packets.truncate(MOST_PACKETS);
        self.lasted_s += other.lasted_s;
        self.active_s += other.active_s;
        let room = MOST_NAMED.saturating_sub(self.names.len());
        self.names.extend(other.names.into_iter().take(room));
    }

    /// The headline, and further evidence.
    fn facts(&self, failure: Failure, responder: Endpoint) -> Vec<Fact> {
        let mut facts = vec![self.headline(failure, responder)];
        if matches!(
            failure,
            Failure::Forgotten | Failure::Interfered | Failure::Reset
        ) {
            facts.extend(self.field_comparison.clone());
        }
        facts.extend(self.notice.map(|(kind, from)| {
            let from = Value::Text(from.to_string().into());
            fact!("icmp-error", kind = kind.name()).with("router", from)
        }));
        facts
    }

    fn headline(&self, failure: Failure, responder: Endpoint) -> Fact {
        let about = match failure {
            Failure::Unanswered => fact!("syns-unanswered", syns = self.syns),
            Failure::Silent => fact!(
                "data-unanswered",
                repeats = self.repeats,
                outstanding_bytes = self.outstanding_bytes,
                closed_before = self.closed_before
            ),
            Failure::Refused => fact!("syns-refused", syns = self.syns),
            Failure::Rejected => fact!("syns-rejected", syns = self.syns),
            Failure::Unreachable => fact!("syns-unreachable", syns = self.syns),
            Failure::Looped => fact!("syns-looped", syns = self.syns),
            Failure::TakenForOld => fact!(
                "syn-taken-for-old",
                syns = self.syns,
                accepted = self.accepted
            ),
            Failure::Forgotten => fact!(
                "forgotten-when-idle",
                idle_s = self.idle_s,
                survived_s = self.survived_s,
                resets = self.resets,
                repeats = self.repeats
            ),
            Failure::Interfered => fact!(
                "reset-by-middlebox",
                outstanding_bytes = self.outstanding_bytes,
                by_responder = self.by_responder,
                other_distance = self.other_distance,
                went_on = self.went_on
            ),
            Failure::Reset => fact!(
                "reset-under-way",
                outstanding_bytes = self.outstanding_bytes,
                by_responder = self.by_responder,
                from_elsewhere = self.from_elsewhere
            ),
        };
        let about = Fact {
            packets: self.packets.clone(),
            ..about
        };
        let about = match self.notice {
            Some((kind, from)) => about
                .with("error", kind.name())
                .with("router", Value::Text(from.to_string().into()))
                .with("router_is_responder", from == responder.address)
                .with("router_is_sender", self.senders.contains(&from)),
            None => about,
        };
        about
            .with("connections", self.connections)
            .with("responder", Value::Text(responder.to_string().into()))
            .with("other_responders", self.other_responders)
            .with("lasted_s", self.lasted_s)
    }
}

/// The fields of a reset next to those of earlier packets from that side.
fn field_comparison(reset: &whydrop_tcp::Reset) -> Fact {
    let (least, largest) = reset.usual_ttls.unzip();
    Fact {
        packets: [Some(reset.packet), reset.first_after]
            .into_iter()
            .flatten()
            .collect(),
        ..fact!(
            "reset-fields",
            ttl = u64::from(reset.ttl),
            least_ttl = least.map(u64::from),
            largest_ttl = largest.map(u64::from),
            identification = reset.identification.map(u64::from),
            previous_identification = reset.previous_identification.map(u64::from),
            window = u64::from(reset.window),
            previous_window = reset.previous_window.map(u64::from),
            packets_after = u64::from(reset.packets_after)
        )
    }
}

/// The packets that show how a connection failed.
fn packets(failure: Failure, connection: &Connection) -> Vec<u64> {
    let reset = connection.reset.as_ref().map(|reset| reset.packet);
    let pause = connection.pauses().unanswered.map(|pause| pause.packet);
    let numbers = connection
        .unanswered
        .iter()
        .map(|side| u64::from(side.packet));
    let last = numbers.max().filter(|number| *number > 0);
    let syn = connection.flows[0].offers[0].map(|offer| u64::from(offer.packet));
    let notice = connection.flows[0]
        .notices()
        .first()
        .map(|notice| notice.packet);
    let shown = match failure {
        Failure::Unanswered | Failure::Rejected | Failure::Unreachable | Failure::Looped => {
            [syn, notice]
        }
        Failure::TakenForOld => [connection.taken_for_old().map(|old| old.packet), syn],
        Failure::Refused => [syn, reset],
        Failure::Silent => [last, notice],
        Failure::Forgotten => [pause, reset.or(last)],
        Failure::Interfered | Failure::Reset => [reset, None],
    };
    shown.into_iter().flatten().collect()
}

/// The direction without an answer: the initiator's, unless the responder's data got none.
fn unanswered_direction(connection: &Connection) -> usize {
    usize::from(connection.unanswered[1].repeats > connection.unanswered[0].repeats)
}

fn silent_flow(connection: &Connection) -> &Flow {
    &connection.flows[unanswered_direction(connection)]
}

fn silent_side(connection: &Connection) -> &Unanswered {
    &connection.unanswered[unanswered_direction(connection)]
}

/// Most verdicts on single endpoints for each kind of failure: a scan of a network meets thousands.
pub(crate) const MOST_ENDPOINTS: usize = 16;

/// Source and destination of flows.
pub(crate) type Named = HashSet<(Endpoint, Endpoint)>;

/// True if size, not silence, explains the unacknowledged data.
fn is_too_large(connection: &Connection, too_large: &Named) -> bool {
    let mut flows = connection.flows.iter();
    connection.outcome == Outcome::DataUnanswered
        && flows.any(|flow| too_large.contains(&(flow.source, flow.destination)))
}

/// A verdict for each kind of failure and endpoint, except for flows of packets that were too large; if there
/// are many endpoints, one for all of them.
pub(crate) fn verdicts(tracked: &Tracked, too_large: &Named) -> (Vec<Ranked>, Waits) {
    let mut counts: BTreeMap<Failure, BTreeMap<Endpoint, Count>> = BTreeMap::new();
    let hosts = Hosts::of(tracked);
    let mut endings = Endings::new(ecn::blocking(tracked));
    let mut waits = Waits::default();
    let last_ns = last_ns(tracked);
    let all = tracked.connections.iter().chain(&tracked.failed.kept);
    for connection in all.filter(|connection| !is_too_large(connection, too_large)) {
        if let Some(failure) = Failure::of(connection, &hosts) {
            let responder = connection.flows[0].destination;
            let of_failure = counts.entry(failure).or_default();
            of_failure
                .entry(responder)
                .or_default()
                .add(failure, connection, &mut waits);
        } else {
            endings.take(connection, last_ns, &mut waits);
        }
    }
    let mut found = endings.verdicts();
    for (failure, mut by_endpoint) in counts {
        if by_endpoint.len() > MOST_ENDPOINTS {
            by_endpoint = together(by_endpoint);
        }
        found.extend(by_endpoint.into_iter().map(|(responder, count)| {
            let totals = Totals {
                busy_s: count.lasted_s,
                ..Totals::default()
            };
            let all_closed = count.closed_before == count.connections;
            let unwanted = failure == Failure::Reset && count.by_receiver == count.connections;
            let (waited_s, active_s) = (count.lasted_s, count.active_s);
            let mut ranked = Ranked::new(verdict(failure, responder, count), &totals);
            if active_s > 0.0 {
                ranked.verdict.limited_share *= waits::share(waited_s, active_s);
            }
            match failure == Failure::Silent && all_closed {
                true => without_delay(ranked),
                // a side that ends a download, as tests do when their time is over, waits for nothing
                false if unwanted => ranked,
                false => ranked.failed(),
            }
        }));
    }
    (found, waits)
}

/// Time of the last packet.
fn last_ns(tracked: &Tracked) -> i64 {
    let connections = tracked.connections.iter().chain(&tracked.failed.kept);
    let flows = connections.flat_map(|connection| &connection.flows);
    flows.map(|flow| flow.last_ns).max().unwrap_or(0)
}

/// All endpoints merged, under the name of the one with the most connections.
fn together(by_endpoint: BTreeMap<Endpoint, Count>) -> BTreeMap<Endpoint, Count> {
    let mut all = Count::default();
    let mut busiest: Option<(u64, Endpoint)> = None;
    for (responder, count) in by_endpoint {
        if busiest.is_none_or(|(most, _)| count.connections > most) {
            busiest = Some((count.connections, responder));
        }
        all.other_responders += 1;
        all.take_in(count);
    }
    all.other_responders = all.other_responders.saturating_sub(1);
    busiest
        .map(|(_, responder)| (responder, all))
        .into_iter()
        .collect()
}

/// The verdict without a delay: the side that fell silent had closed before.
fn without_delay(ranked: Ranked) -> Ranked {
    Ranked {
        harm_s: 0.0,
        ..ranked
    }
}

/// Confidence that an answer is missing: answers may have passed on another path, or the capture may lack
/// them.
const SURE: f64 = 0.95;

fn verdict(failure: Failure, responder: Endpoint, count: Count) -> Verdict {
    let facts = count.facts(failure, responder);
    Verdict {
        flows: count.names,
        lost: count.lost,
        explained: 1.0,
        limited_share: f64::from(u8::from(!matches!(
            failure,
            Failure::Interfered | Failure::Reset
        ))),
        detail: failure.detail().map(str::to_owned),
        facts,
        ..Verdict::new(failure.cause(), SURE)
    }
}

#[cfg(test)]
#[path = "failures_tests.rs"]
mod tests;
