//! Failures beside TCP data: requests without an answer, ICMP errors, echo requests, marked datagrams.
//!
//! | module | subject |
//! |---|---|
//! | `servers` | requests over UDP, and DNS over TCP: no answer, refused, late |
//! | `repeated` | repeated requests of unknown protocols |
//! | `errors` | ICMP errors about packets that the tracker of connections does not follow |
//! | `pings` | echo requests |
//! | `handshakes` | TLS handshakes that one side ended |
//! | `marks` | datagrams with congestion marks |
//! | `whole` | a capture without failures, or without readable packets |

mod errors;
mod handshakes;
pub(crate) mod marks;
mod pings;
mod repeated;
mod servers;
pub(crate) mod whole;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use whydrop_datagrams::Datagrams;
use whydrop_tcp::{Endpoint, Tracked};
use whydrop_verdict::Value;

use crate::conditions::Condition;
use crate::failures::{MOST_ENDPOINTS, MOST_NAMED, MOST_PACKETS};
use crate::ranked::Ranked;

/// The verdicts on everything that is not TCP data.
pub(crate) fn verdicts(datagrams: &Datagrams, tracked: &Tracked) -> Vec<Ranked> {
    let seen = Seen::of(datagrams, tracked);
    let mut found = errors::find(datagrams, &seen);
    found.extend(servers::find(datagrams));
    found.extend(repeated::find(datagrams, &seen));
    found.extend(pings::find(datagrams, &seen));
    found.extend(marks::find(datagrams));
    found.extend(handshakes::find(datagrams));
    let ranked = |condition: Condition| {
        let active_s = condition.limited_s;
        condition.ranked(active_s, 0)
    };
    found.into_iter().map(ranked).collect()
}

/// Datagrams from one host to a port of another.
#[derive(Debug, Default)]
struct Sent {
    packets: u64,
    first_ns: i64,
    last_ns: i64,
    names: Vec<String>,
}

/// Hosts and flows of a capture, for judging a failure.
struct Seen {
    sent: HashMap<(IpAddr, IpAddr, u16), Sent>,
    /// Ports of hosts, with the hosts to which they sent.
    talks: HashSet<((IpAddr, u16), IpAddr)>,
    /// Pairs of connections that the tracker followed.
    connections: HashSet<(Endpoint, Endpoint)>,
    /// Hosts with captured TCP or UDP packets.
    heard: HashSet<IpAddr>,
    /// True if the capture holds bulk data of TCP.
    is_loaded: bool,
}

/// TCP payload that may fill a queue.
const LOAD_BYTES: u64 = 1_000_000;

impl Seen {
    fn of(datagrams: &Datagrams, tracked: &Tracked) -> Self {
        let mut seen = Self {
            sent: HashMap::new(),
            talks: HashSet::new(),
            connections: HashSet::new(),
            heard: HashSet::new(),
            is_loaded: false,
        };
        for flow in &datagrams.flows {
            let (address, port) = flow.destination;
            let sent = seen.sent.entry((flow.source.0, address, port)).or_default();
            if sent.packets == 0 {
                sent.first_ns = flow.first_ns;
            }
            sent.packets += flow.packets;
            sent.last_ns = sent.last_ns.max(flow.last_ns);
            if sent.names.len() < MOST_NAMED {
                sent.names.push(flow.name());
            }
            seen.heard.insert(flow.source.0);
            seen.talks.insert((flow.source, address));
        }
        let mut payload_bytes = 0;
        for connection in tracked.connections.iter().chain(&tracked.failed.kept) {
            let [one, other] = &connection.flows;
            seen.connections.insert((one.source, one.destination));
            seen.connections.insert((one.destination, one.source));
            for flow in [one, other] {
                payload_bytes += flow.counters.payload_bytes;
                if flow.counters.packets > 0 {
                    seen.heard.insert(flow.source.address);
                }
            }
        }
        for [one, other] in tracked.control.iter().flat_map(|own| &own.endpoints) {
            seen.connections.extend([(*one, *other), (*other, *one)]);
            seen.heard.extend([one.address, other.address]);
        }
        seen.is_loaded = payload_bytes >= LOAD_BYTES;
        seen
    }

    /// True if a port of a host sent anything to another host.
    fn answers(&self, server: (IpAddr, u16), client: IpAddr) -> bool {
        self.talks.contains(&(server, client))
    }
}

/// An address, with a port where there is one.
fn endpoint(address: IpAddr, port: Option<u16>) -> Value {
    let text = match port {
        Some(port) => SocketAddr::new(address, port).to_string(),
        None => address.to_string(),
    };
    Value::Text(text.into())
}

fn address(address: IpAddr) -> Value {
    endpoint(address, None)
}

fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds.max(0) as f64 * 1e-9
}

/// Verdicts on endpoints that fail alike: one each, or, if they are many, one that names the endpoint with
/// the most failures and the number of the others.
fn gathered<T>(
    mut found: Vec<T>,
    weight: impl Fn(&T) -> u64,
    add: impl Fn(&mut T, T),
) -> Vec<(T, u64)> {
    if found.len() <= MOST_ENDPOINTS {
        return found.into_iter().map(|one| (one, 0)).collect();
    }
    found.sort_by_key(|one| std::cmp::Reverse(weight(one)));
    let others = found.len() as u64 - 1;
    let mut rest = found.into_iter();
    let Some(mut first) = rest.next() else {
        return Vec::new();
    };
    for other in rest {
        add(&mut first, other);
    }
    vec![(first, others)]
}

#[cfg(test)]
mod tests;
