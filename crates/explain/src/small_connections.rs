//! The document's part on connections that are not listed: too small and too many, or control connections of
//! a measurement.

use whydrop_tcp::{ControlConnections, Hosts, SMALL_PACKETS, SmallConnections};

use crate::document::{ControlConnectionsInfo, HostsInfo, SmallConnectionsInfo};
use crate::seconds::seconds;

/// `None` if every connection with data is listed.
pub fn info(small: &SmallConnections) -> Option<SmallConnectionsInfo> {
    (small.connections > 0).then(|| SmallConnectionsInfo {
        packets_below: SMALL_PACKETS,
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

/// The control connections of each measurement program.
pub fn control(of_programs: &[ControlConnections]) -> Vec<ControlConnectionsInfo> {
    let info = |one: &ControlConnections| ControlConnectionsInfo {
        program: one.program.name(),
        connections: one.connections,
        packets: one.packets,
        payload_bytes: one.payload_bytes,
        lost: one.lost,
        retransmitted: one.retransmitted,
    };
    of_programs.iter().map(info).collect()
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
