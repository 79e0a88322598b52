//! Repeated requests of unknown protocols: the same datagram again and again, at growing intervals, without
//! an answer.

use whydrop_datagrams::{Datagrams, Flow};
use whydrop_verdict::{Cause, Fact, fact};

use super::{MOST_NAMED, MOST_PACKETS, Seen, endpoint, gathered, seconds};
use crate::conditions::Condition;

/// A repeated payload need not be a request.
const CONFIDENCE: f64 = 0.7;

/// Requests to one endpoint.
struct Requests<'a> {
    flow: &'a Flow,
    names: Vec<String>,
    attempts: u64,
    lasted_s: f64,
    packets: Vec<u64>,
}

/// Find them.
pub(super) fn find(datagrams: &Datagrams, seen: &Seen) -> Vec<Condition> {
    let mut found = Vec::new();
    for flow in &datagrams.flows {
        let packets = flow.repeated_request();
        let (server, port) = flow.destination;
        let is_reported = |report: &whydrop_datagrams::Report| {
            report.destination == server && report.destination_port == Some(port)
        };
        if packets.is_empty()
            || flow.asks_many()
            || seen.answers(flow.destination, flow.source.0)
            || datagrams.reports.iter().any(is_reported)
        {
            continue;
        }
        found.push(Requests {
            flow,
            names: vec![flow.name()],
            attempts: flow.packets,
            lasted_s: seconds(flow.last_ns.saturating_sub(flow.first_ns)),
            packets: packets.to_vec(),
        });
    }
    let all = gathered(found, |one| one.attempts, add);
    all.into_iter()
        .map(|(one, others)| condition(one, others))
        .collect()
}

fn add(all: &mut Requests, other: Requests) {
    all.attempts += other.attempts;
    all.lasted_s += other.lasted_s;
    all.names.extend(other.names);
    all.packets.extend(other.packets);
}

fn condition(mut requests: Requests, others: u64) -> Condition {
    requests.names.truncate(MOST_NAMED);
    requests.packets.truncate(MOST_PACKETS);
    let (server, port) = requests.flow.destination;
    let mut condition = Condition::new(Cause::NoAnswer, requests.names);
    condition.detail = Some("requests");
    condition.confidence = CONFIDENCE;
    condition.limited_s = requests.lasted_s;
    let about = Fact {
        packets: requests.packets,
        ..fact!(
            "datagrams-repeated",
            attempts = requests.attempts,
            waited_s = requests.lasted_s,
            other_responders = others
        )
    };
    condition.facts = vec![about.with("responder", endpoint(server, Some(port)))];
    condition
}
