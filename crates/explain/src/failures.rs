//! Connections that failed: attempts that nobody answered or that were refused, peers that fell silent, resets of what was
//! still under way.

use std::collections::BTreeMap;

use whydrop_tcp::{Connection, Endpoint, Flow, Outcome, Tracked, Unanswered};
use whydrop_verdict::{Cause, Fact, Finding, Subject, Value, fact, log_odds, reduce};

use crate::assemble::Ranked;
use crate::document::Verdict;
use crate::evidence::Totals;

/// Flows named in a verdict at most: a scan has thousands that say the same.
const MOST_NAMED: usize = 100;

/// How connections to one endpoint failed alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Failure {
    Unanswered,
    Silent,
    Refused,
    Reset,
}

impl Failure {
    /// Resets end much that was over: one counts where data was still to be acknowledged.
    fn of(connection: &Connection) -> Option<Self> {
        let outstanding = || connection.unanswered.iter().any(|side| side.bytes > 0);
        match connection.outcome {
            Outcome::NoAnswer => Some(Self::Unanswered),
            Outcome::DataUnanswered => Some(Self::Silent),
            Outcome::Refused => Some(Self::Refused),
            Outcome::Reset if outstanding() => Some(Self::Reset),
            _ => None,
        }
    }

    fn cause(self) -> Cause {
        match self {
            Self::Unanswered | Self::Silent => Cause::NoAnswer,
            Self::Refused => Cause::Refused,
            Self::Reset => Cause::Reset,
        }
    }
}

/// What is counted of connections that failed alike.
#[derive(Debug, Default)]
struct Count {
    connections: u64,
    syns: u64,
    repeats: u64,
    outstanding_bytes: u64,
    by_responder: u64,
    from_elsewhere: u64,
    lasted_s: f64,
    /// Further endpoints that failed alike.
    other_responders: u64,
    names: Vec<String>,
}

impl Count {
    fn add(&mut self, failure: Failure, connection: &Connection) {
        let [one, other] = &connection.flows;
        let last_ns = one.last_ns.max(other.last_ns);
        let first_ns = [one, other]
            .into_iter()
            .filter(|flow| flow.counters.packets > 0)
            .map(|flow| flow.first_ns)
            .min();
        self.connections += 1;
        self.syns += u64::from(connection.setup.syns);
        for side in &connection.unanswered {
            self.repeats += u64::from(side.repeats);
            self.outstanding_bytes += side.bytes;
        }
        if let Some(reset) = connection.reset {
            self.by_responder += u64::from(reset.by == 1);
            self.from_elsewhere += u64::from(reset.is_from_elsewhere());
        }
        // a reset takes no time, and who fell silent was there before
        let since_ns = match failure {
            Failure::Unanswered | Failure::Refused => first_ns,
            Failure::Silent => silent_side(connection).last_answer_ns.or(first_ns),
            Failure::Reset => None,
        };
        self.lasted_s += (last_ns - since_ns.unwrap_or(last_ns)).max(0) as f64 * 1e-9;
        if self.names.len() < MOST_NAMED {
            self.names.push(silent_flow(connection).name());
        }
    }

    fn take_in(&mut self, other: Self) {
        self.connections += other.connections;
        self.syns += other.syns;
        self.repeats += other.repeats;
        self.outstanding_bytes += other.outstanding_bytes;
        self.by_responder += other.by_responder;
        self.from_elsewhere += other.from_elsewhere;
        self.lasted_s += other.lasted_s;
        let room = MOST_NAMED.saturating_sub(self.names.len());
        self.names.extend(other.names.into_iter().take(room));
    }

    fn fact(&self, failure: Failure, responder: Endpoint) -> Fact {
        let about = match failure {
            Failure::Unanswered => fact!("syns-unanswered", syns = self.syns),
            Failure::Silent => fact!(
                "data-unanswered",
                repeats = self.repeats,
                outstanding_bytes = self.outstanding_bytes
            ),
            Failure::Refused => fact!("syns-refused", syns = self.syns),
            Failure::Reset => fact!(
                "reset-under-way",
                outstanding_bytes = self.outstanding_bytes,
                by_responder = self.by_responder,
                from_elsewhere = self.from_elsewhere
            ),
        };
        about
            .with("connections", self.connections)
            .with("responder", Value::Text(responder.to_string().into()))
            .with("other_responders", self.other_responders)
            .with("lasted_s", self.lasted_s)
    }
}

/// The direction that was not answered: the initiator's, unless the responder's data was.
fn unanswered_direction(connection: &Connection) -> usize {
    usize::from(connection.unanswered[1].repeats > connection.unanswered[0].repeats)
}

fn silent_flow(connection: &Connection) -> &Flow {
    &connection.flows[unanswered_direction(connection)]
}

fn silent_side(connection: &Connection) -> &Unanswered {
    &connection.unanswered[unanswered_direction(connection)]
}

/// Verdicts for single endpoints at most, for each way to fail: whoever scans a network meets thousands.
const MOST_ENDPOINTS: usize = 16;

/// A verdict for each way to fail and endpoint; one for all endpoints where they are many.
pub(crate) fn verdicts(tracked: &Tracked) -> Vec<Ranked> {
    let mut counts: BTreeMap<Failure, BTreeMap<Endpoint, Count>> = BTreeMap::new();
    for connection in tracked.connections.iter().chain(&tracked.failed.kept) {
        if let Some(failure) = Failure::of(connection) {
            let responder = connection.flows[0].destination;
            let of_failure = counts.entry(failure).or_default();
            of_failure
                .entry(responder)
                .or_default()
                .add(failure, connection);
        }
    }
    let mut found = Vec::new();
    for (failure, mut by_endpoint) in counts {
        if by_endpoint.len() > MOST_ENDPOINTS {
            by_endpoint = together(by_endpoint);
        }
        found.extend(by_endpoint.into_iter().map(|(responder, count)| {
            let totals = Totals {
                busy_s: count.lasted_s,
                ..Totals::default()
            };
            Ranked::new(verdict(failure, responder, count), &totals)
        }));
    }
    found
}

/// All endpoints as one, under the name of that with most connections.
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

/// Puts failures among verdicts that are in order: behind what dropped packets, and before what held data up for a
/// shorter time than they lasted.
pub(crate) fn rank_among(verdicts: &mut Vec<Ranked>, mut failures: Vec<Ranked>) {
    failures.sort_by(|a, b| b.limited_s.total_cmp(&a.limited_s));
    for failure in failures {
        let place = verdicts
            .iter()
            .position(|other| other.verdict.lost == 0 && other.limited_s < failure.limited_s);
        verdicts.insert(place.unwrap_or(verdicts.len()), failure);
    }
}

/// The answers may have passed where the capture did not see them: by another path, or lost by the capture itself.
const SURE: f64 = 0.95;

fn verdict(failure: Failure, responder: Endpoint, count: Count) -> Verdict {
    let facts = vec![count.fact(failure, responder)];
    let subject = Subject {
        flows: count.names,
        ..Subject::default()
    };
    let finding = Finding {
        nats: log_odds(SURE),
        explained: 1.0,
        limited_share: f64::from(u8::from(failure != Failure::Reset)),
        facts,
        ..Finding::new("capture", subject, None, failure.cause())
    };
    let mut verdicts = reduce(vec![finding]).expect("a finding of finite numbers");
    Verdict::of(verdicts.swap_remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(outcome: Outcome) -> Connection {
        let mut connection = Connection {
            outcome,
            ..Connection::default()
        };
        let [one, other] = &mut connection.flows;
        (one.destination.port, other.source.port) = (443, 443);
        (one.first_ns, one.last_ns, one.counters.packets) = (0, 7_000_000_000, 4);
        connection.setup.syns = 4;
        connection
    }

    fn of(connections: Vec<Connection>) -> Vec<Ranked> {
        verdicts(&Tracked {
            connections,
            ..Tracked::default()
        })
    }

    #[test]
    fn attempts_without_an_answer_are_counted_together() {
        let found = of(vec![
            connection(Outcome::NoAnswer),
            connection(Outcome::NoAnswer),
        ]);
        let [one] = &found[..] else {
            panic!("{} verdicts", found.len())
        };
        assert_eq!(one.verdict.cause, "no-answer");
        assert_eq!(one.verdict.facts[0].number("syns"), Some(8.0));
        assert_eq!(one.verdict.facts[0].number("lasted_s"), Some(14.0));
    }

    #[test]
    fn a_reset_after_all_was_acknowledged_is_no_failure() {
        assert!(of(vec![connection(Outcome::Reset)]).is_empty());
        let mut under_way = connection(Outcome::Reset);
        under_way.unanswered[0].bytes = 1;
        let found = of(vec![under_way]);
        assert_eq!(found[0].verdict.cause, "reset");
        assert_eq!(found[0].limited_s, 0.0);
    }

    #[test]
    fn a_connection_that_ended_well_is_no_failure() {
        assert!(of(vec![connection(Outcome::Closed), connection(Outcome::Open)]).is_empty());
    }

    #[test]
    fn a_scan_of_many_ports_is_one_verdict() {
        let to = |port: u16| {
            let mut connection = connection(Outcome::Refused);
            connection.flows[0].destination.port = port;
            connection
        };
        assert_eq!(of((1..=16).map(to).collect()).len(), 16);
        let found = of((1..=1000).chain([7]).map(to).collect());
        let [one] = &found[..] else {
            panic!("{} verdicts", found.len())
        };
        let fact = &one.verdict.facts[0];
        assert_eq!(fact.number("connections"), Some(1001.0));
        assert_eq!(fact.number("other_responders"), Some(999.0));
        assert_eq!(fact.values["responder"], Value::Text("[::]:7".into()));
        assert_eq!(one.verdict.flows.len(), MOST_NAMED);
    }

    #[test]
    fn failures_come_behind_losses_and_before_shorter_waits() {
        let ranked = |lost, limited_s| {
            let mut one = of(vec![connection(Outcome::NoAnswer)]).remove(0);
            (one.verdict.lost, one.limited_s) = (lost, limited_s);
            one
        };
        let mut verdicts = vec![ranked(3, 1.0), ranked(0, 9.0), ranked(0, 2.0)];
        rank_among(&mut verdicts, vec![ranked(0, 5.0)]);
        let order: Vec<f64> = verdicts.iter().map(|one| one.limited_s).collect();
        assert_eq!(order, [1.0, 9.0, 5.0, 2.0]);
    }
}
