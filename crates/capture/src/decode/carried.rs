//! The payload of an IP header.

use super::Decoded;
use crate::packet::{Network, Transport};

/// Numbers of IANA's protocol registry.
pub(super) mod protocol {
    pub(crate) const HOP_BY_HOP: u8 = 0;
    pub(crate) const ICMP: u8 = 1;
    pub(crate) const IPV4: u8 = 4;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const IPV6: u8 = 41;
    pub(crate) const ROUTING: u8 = 43;
    pub(crate) const FRAGMENT: u8 = 44;
    pub(crate) const GRE: u8 = 47;
    pub(crate) const AUTHENTICATION: u8 = 51;
    pub(crate) const ICMPV6: u8 = 58;
    pub(crate) const DESTINATION_OPTIONS: u8 = 60;
    pub(crate) const ETHER_IP: u8 = 97;
    pub(crate) const L2TP: u8 = 115;
    pub(crate) const MPLS: u8 = 137;
}

/// The part of a packet that follows an IP header.
#[derive(Clone, Copy)]
pub(super) struct Carried {
    pub(super) network: Network,
    pub(super) protocol: u8,
    /// Where the outermost and the present IP headers begin.
    pub(super) link_bytes: usize,
    pub(super) network_at: usize,
    /// Where the transport header begins.
    pub(super) at: usize,
    /// Where the IP packet ends in the frame, even if that part was not captured.
    pub(super) end: usize,
}

impl Carried {
    pub(super) fn decoded(&self, transport: Transport<'static>) -> Decoded {
        Decoded {
            network: Some(self.network),
            transport,
            payload_at: 0,
            payload_captured: 0,
            link_bytes: self.link_bytes as u32,
            network_at: self.network_at as u32,
            transport_at: self.at as u32,
            transport_end: self.at as u32,
            unread: None,
            radio_at: None,
            next_at: 0,
        }
    }
}
