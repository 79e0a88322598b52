//! Servers that did not answer, refused, or answered late.

use std::collections::BTreeMap;

use whydrop_datagrams::{Datagrams, Server, Service};
use whydrop_verdict::{Cause, Fact, Value, fact};

use super::{MOST_PACKETS, address, endpoint, gathered, seconds};
use crate::conditions::Condition;

/// If this many questions all went without an answer and fewer than this share were repeated, the answers
/// existed and the capture misses them.
const MANY_QUESTIONS: u64 = 8;
const ASKED_AGAIN_SHARE: f64 = 0.2;
/// The number of answers of one kind worth reporting: this many, or this share of all.
const SEVERAL: u64 = 3;
const WORTH_REPORTING: f64 = 0.1;
/// Share of lost requests worth reporting, among those that got an answer in the end.
const LOST_SHARE: f64 = 0.01;

/// The failure of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Failing {
    Silent,
    /// Some requests have no answer.
    InPart,
    /// The answers are missing in the capture.
    NotCaptured,
    Refusing,
    Broken,
    /// Requests or their answers were lost, and repeated.
    Lost,
    Late,
}

impl Failing {
    fn cause(self) -> Cause {
        match self {
            Self::Silent | Self::InPart => Cause::NoAnswer,
            Self::NotCaptured => Cause::CaptureLoss,
            Self::Refusing => Cause::Refused,
            Self::Broken | Self::Late => Cause::PeerApplication,
            Self::Lost => Cause::Unknown,
        }
    }

    fn detail(self) -> &'static str {
        match self {
            Self::Silent | Self::InPart => "requests",
            Self::NotCaptured => "one-direction",
            Self::Refusing => "requests",
            Self::Broken => "server-failure",
            Self::Late => "late-answers",
            Self::Lost => "requests",
        }
    }

    /// Confidence: the answers of a silent server may take another path, and a slow one may wait for other
    /// servers, or the path is slow.
    fn confidence(self) -> f64 {
        match self {
            Self::Silent | Self::Refusing | Self::Broken => 0.95,
            Self::InPart | Self::Late | Self::NotCaptured => 0.8,
            Self::Lost => 0.9,
        }
    }
}

/// Find the failures of servers.
pub(super) fn find(datagrams: &Datagrams) -> Vec<Condition> {
    let mut by_kind: BTreeMap<(Failing, Service), Vec<Server>> = BTreeMap::new();
    for server in &datagrams.exchanged.servers {
        for failing in failings(server, datagrams) {
            let of_kind = by_kind.entry((failing, server.service)).or_default();
            of_kind.push(server.clone());
        }
    }
    let mut found = Vec::new();
    for ((failing, _), servers) in by_kind {
        let weight = |server: &Server| match failing {
            Failing::Silent | Failing::InPart | Failing::NotCaptured => server.unanswered,
            _ => server.answered,
        };
        for (server, others) in gathered(servers, weight, add) {
            found.push(condition(failing, &server, others));
        }
    }
    found
}

fn failings(server: &Server, datagrams: &Datagrams) -> Vec<Failing> {
    let mut found = Vec::new();
    found.extend(silence(server, datagrams));
    let many = |count: u64| {
        count > 0
            && (count as f64 >= 0.5 * server.answered as f64
                || count >= SEVERAL && count as f64 >= WORTH_REPORTING * server.answered as f64)
    };
    if many(server.refused) {
        found.push(Failing::Refusing);
    }
    if many(server.failed) {
        found.push(Failing::Broken);
    }
    let lost = server.repeated as f64;
    if lost > 0.0 && lost >= LOST_SHARE * server.requests as f64 {
        found.push(Failing::Lost);
    }
    // other services wait for a person, check before they assign an address, or wait for the path
    let is_measured = matches!(
        server.service,
        Service::Dns | Service::Snmp | Service::Radius | Service::Tftp
    );
    if is_measured && server.slow > 0 {
        found.push(Failing::Late);
    }
    found
}

/// Failure shown by requests without an answer, if any.
fn silence(server: &Server, datagrams: &Datagrams) -> Option<Failing> {
    if server.unanswered == 0 || is_reported(server, datagrams) {
        return None;
    }
    let questions = server.unanswered as f64;
    let asked_again = server.unanswered_repeated as f64 / questions;
    if server.answered == 0 {
        let is_dns = server.service == Service::Dns;
        let had_answers =
            is_dns && server.unanswered >= MANY_QUESTIONS && asked_again < ASKED_AGAIN_SHARE;
        return Some(match had_answers {
            true => Failing::NotCaptured,
            false => Failing::Silent,
        });
    }
    // a request that was not repeated may no longer have mattered
    let share = server.unanswered_repeated as f64 / server.requests as f64;
    let is_worth_reporting = server.unanswered_repeated > 0
        && (server.unanswered_repeated >= SEVERAL || share >= WORTH_REPORTING);
    is_worth_reporting.then_some(Failing::InPart)
}

/// True if ICMP errors give the reason for the missing answer.
fn is_reported(server: &Server, datagrams: &Datagrams) -> bool {
    datagrams.reports.iter().any(|report| {
        report.kind.is_unreachable()
            && report.destination == server.address
            && report.destination_port == Some(server.port)
    })
}

/// Adds the counts of another server.
fn add(all: &mut Server, other: Server) {
    let sums: [(&mut u64, u64); 9] = [
        (&mut all.requests, other.requests),
        (&mut all.attempts, other.attempts),
        (&mut all.answered, other.answered),
        (&mut all.unanswered, other.unanswered),
        (&mut all.refused, other.refused),
        (&mut all.failed, other.failed),
        (&mut all.repeated, other.repeated),
        (&mut all.lost_attempts, other.lost_attempts),
        (&mut all.slow, other.slow),
    ];
    for (sum, more) in sums {
        *sum += more;
    }
    all.unanswered_ns = all.unanswered_ns.saturating_add(other.unanswered_ns);
    all.repeated_ns = all.repeated_ns.saturating_add(other.repeated_ns);
    all.slow_ns = all.slow_ns.saturating_add(other.slow_ns);
    all.failed_ns = all.failed_ns.saturating_add(other.failed_ns);
    all.longest_ns = all.longest_ns.max(other.longest_ns);
    all.shortest_ns = all.shortest_ns.min(other.shortest_ns);
    all.unanswered_packets.extend(other.unanswered_packets);
    all.refused_packets.extend(other.refused_packets);
    all.slow_packets.extend(other.slow_packets);
    all.repeated_packets.extend(other.repeated_packets);
}

fn condition(failing: Failing, server: &Server, others: u64) -> Condition {
    let waited_ns = match failing {
        Failing::Silent | Failing::InPart => server.unanswered_ns,
        Failing::Lost => server.repeated_ns,
        Failing::Late => server.slow_ns,
        Failing::Refusing | Failing::Broken => server.failed_ns,
        Failing::NotCaptured => 0,
    };
    let mut condition = Condition::new(failing.cause(), Vec::new());
    condition.detail = Some(failing.detail());
    condition.confidence = failing.confidence();
    condition.limited_s = seconds(waited_ns);
    condition.facts = vec![headline(failing, server, others, condition.limited_s)];
    condition.facts.extend(further(failing, server));
    condition
}

fn headline(failing: Failing, server: &Server, others: u64, waited_s: f64) -> Fact {
    let (code, packets, names) = match failing {
        Failing::Silent => (
            "requests-unanswered",
            &server.unanswered_packets,
            &server.unanswered_names,
        ),
        Failing::InPart => (
            "requests-unanswered-in-part",
            &server.unanswered_packets,
            &server.unanswered_names,
        ),
        Failing::NotCaptured => (
            "answers-not-captured",
            &server.unanswered_packets,
            &server.unanswered_names,
        ),
        Failing::Refusing => (
            "requests-refused",
            &server.refused_packets,
            &server.refused_names,
        ),
        Failing::Broken => (
            "requests-failed",
            &server.refused_packets,
            &server.refused_names,
        ),
        Failing::Lost => (
            "requests-repeated",
            &server.repeated_packets,
            &server.unanswered_names,
        ),
        Failing::Late => (
            "requests-answered-late",
            &server.slow_packets,
            &server.slow_names,
        ),
    };
    let mut packets = packets.clone();
    packets.truncate(MOST_PACKETS);
    let names = names.iter().map(|name| Value::Text(name.clone().into()));
    let about = Fact {
        packets,
        ..fact!(
            code,
            requests = server.requests,
            attempts = server.attempts,
            answered = server.answered,
            unanswered = server.unanswered,
            refused = server.refused,
            failed = server.failed,
            repeated = server.repeated,
            lost_attempts = server.lost_attempts,
            late = server.slow,
            waited_s = waited_s,
            longest_wait_s = seconds(server.longest_ns),
            other_responders = others
        )
    };
    let about = match server.stranger {
        Some(stranger) => about.with("stranger", address(stranger)),
        None => about,
    };
    about
        .with("service", server.service.name())
        .with("responder", endpoint(server.address, Some(server.port)))
        .with("names", Value::List(names.collect()))
}

/// A further fact about the failure.
fn further(failing: Failing, server: &Server) -> Option<Fact> {
    match failing {
        Failing::Silent | Failing::InPart => {
            let stranger = server.stranger?;
            let strange = fact!("answers-from-elsewhere", answers = server.strange);
            Some(strange.with("stranger", address(stranger)))
        }
        Failing::Late => {
            let shortest_s = (server.shortest_ns < i64::MAX).then(|| seconds(server.shortest_ns));
            Some(fact!(
                "fastest-answer",
                shortest_wait_s = shortest_s,
                answered = server.answered
            ))
        }
        _ => None,
    }
}
