//! UDP flows of one capture: what their packets tell without acknowledgments.
//!
//! Nothing acknowledges a datagram, so one capture shows its loss only where a protocol numbers its packets in the clear, and
//! its delay only where one marks its round trips. Two of these there are:
//!
//! | module | what it does |
//! |---|---|
//! | [`rtp`] | RTP (RFC 3550): loss, duplicates, reordering, interarrival jitter, by the numbers and timestamps of its header |
//! | [`voice`] | what that does to speech, by the E-model (ITU-T G.107) |
//! | [`spin`] | QUIC's latency spin bit (RFC 9000, section 17.4): round-trip times |
//! | `flow` | the flows, with marks of congestion (RFC 3168) |
//! | `info` | all of it in the shape of the JSON document |
//!
//! Of all others only the size is known. The tables are bounded, whatever a capture holds.

mod flow;
mod info;
pub mod rtp;
pub mod spin;
pub mod voice;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;

use whydrop_capture::{Packet, Transport};

use flow::Key;
pub use flow::{Datagrams, Flow};
pub use info::DatagramsInfo;

/// Flows that are followed at one time at most; beyond them those with the fewest packets give way.
const MOST_FLOWS: usize = 1 << 13;

/// Follows the UDP flows of a capture.
#[derive(Debug, Default)]
pub struct DatagramTracker {
    places: HashMap<Key, usize>,
    flows: Vec<Flow>,
    let_go: Let,
}

/// Flows that gave way, and their packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Let {
    pub flows: u64,
    pub packets: u64,
    pub ip_bytes: u64,
}

impl DatagramTracker {
    /// Takes the next packet of the capture; others than UDP are of no concern.
    #[inline]
    pub fn push(&mut self, packet: &Packet) {
        let (
            Some(network),
            &Transport::Udp {
                source_port,
                destination_port,
                payload_bytes,
                payload,
            },
        ) = (&packet.network, &packet.transport)
        else {
            return;
        };
        let source = (network.source, source_port);
        let destination = (network.destination, destination_port);
        let place = self.place(source, destination);
        self.flows[place].take(packet.time_ns, network, payload_bytes, payload);
    }

    fn place(&mut self, source: (IpAddr, u16), destination: (IpAddr, u16)) -> usize {
        let key = (source, destination);
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        if self.flows.len() >= MOST_FLOWS {
            self.let_half_go();
        }
        let place = self.flows.len();
        self.flows.push(Flow::new(source, destination));
        self.places.insert(key, place);
        place
    }

    /// Half of the flows go, those with the fewest packets: each of them paid for its place by a packet.
    #[cold]
    fn let_half_go(&mut self) {
        self.flows
            .sort_by_key(|flow| std::cmp::Reverse(flow.packets));
        for flow in self.flows.drain(MOST_FLOWS / 2..) {
            self.let_go.flows += 1;
            self.let_go.packets += flow.packets;
            self.let_go.ip_bytes += flow.ip_bytes;
        }
        self.places.clear();
        let keys = self.flows.iter().map(Flow::key).zip(0..);
        self.places.extend(keys);
    }

    /// The flows, in the order of their first packets, once the capture is at its end.
    pub fn finish(mut self) -> Datagrams {
        self.flows.sort_by_key(|flow| flow.first_ns);
        Datagrams::of(self.flows, self.let_go)
    }
}
