//! What the document says of connections that were too small and too many to be listed.

use whydrop_tcp::{Hosts, SMALL_PACKETS, SmallConnections};

use crate::assemble::seconds;
use crate::document::{HostsInfo, SmallConnectionsInfo};
use crate::words::{bytes, count, plural};

/// `None` where every connection with data is listed.
pub fn info(small: &SmallConnections) -> Option<SmallConnectionsInfo> {
    (small.connections > 0).then(|| SmallConnectionsInfo {
        connections: small.connections,
        flows: small.flows,
        packets: small.packets,
        payload_bytes: small.payload_bytes,
        lost: small.lost,
        retransmitted: small.retransmitted,
        spurious: small.spurious,
        reordered: small.reordered,
        attempts: small.attempts,
        answered: small.answered,
        start: seconds(small.first_ns),
        end: seconds(small.last_ns),
        initiators: hosts(&small.initiators),
        responders: hosts(&small.responders),
    })
}

/// The same in one line, for a person.
pub fn note(small: &SmallConnections) -> String {
    format!(
        "summed up, and so not listed: {} of fewer than {SMALL_PACKETS} packets each, from {} to {}: {} with {} of data, {} lost; \
         {} began with a SYN, {} had packets both ways",
        plural(small.connections, "TCP connection"),
        hosts_in_words(&small.initiators, small.connections),
        hosts_in_words(&small.responders, small.connections),
        plural(small.packets, "packet"),
        bytes(small.payload_bytes as f64),
        count(small.lost),
        count(small.attempts),
        count(small.answered),
    )
}

fn hosts(hosts: &Hosts) -> HostsInfo {
    let busiest = hosts.busiest();
    HostsInfo {
        hosts: hosts.distinct(),
        is_estimate: hosts.is_estimate(),
        busiest: busiest.map(|(address, _)| address.to_string()),
        busiest_connections: busiest.map(|(_, connections)| connections),
    }
}

/// `1 host (192.0.2.1)`, `about 4 980 000 hosts`, `20 hosts (mostly 192.0.2.1)`.
fn hosts_in_words(hosts: &Hosts, connections: u64) -> String {
    let number = hosts.distinct();
    let words = match hosts.is_estimate() {
        true => format!("about {}", plural(three_digits(number), "host")),
        false => plural(number, "host"),
    };
    match hosts.busiest() {
        Some((address, _)) if number == 1 => format!("{words} ({address})"),
        Some((address, of)) if 2 * of > connections => format!("{words} (mostly {address})"),
        _ => words,
    }
}

/// An estimate has no more digits than it knows.
fn three_digits(number: u64) -> u64 {
    let unit = 10u64.pow(number.max(1).ilog10().saturating_sub(2));
    (number + unit / 2) / unit * unit
}
