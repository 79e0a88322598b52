//! Display filters, evaluated: a subset of Wireshark's language, of which connections are kept whole.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::parse::{self, FilterError};
use crate::packet::{Network, Transport};

/// A display filter such as `tcp.port == 443 and ip.addr == 10.0.0.0/8`.
///
/// A packet is kept if the filter holds for it or for a packet in the opposite direction: connections stay whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(pub(super) Expression);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    Protocol(Layer),
    /// A value of the field is among these.
    Any(Field, Vec<Value>),
    /// The packet has the field, and none of its values is among these.
    None(Field, Vec<Value>),
    Not(Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    Ip,
    Ipv6,
    Tcp,
    Udp,
    Icmp,
    Icmpv6,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) layer: Layer,
    pub(super) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Destination,
    Either,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// An address and how many of its leading bits count.
    Prefix(IpAddr, u8),
    Ports(RangeInclusive<u16>),
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    ///
    /// What is wrong, where, and what was expected.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parse::parse(text).map(Self)
    }

    /// True if a packet, or one in the opposite direction, satisfies the filter.
    pub fn matches(&self, network: &Network, transport: &Transport<'_>) -> bool {
        let ends = Ends::of(network, transport);
        self.0.holds(&ends) || self.0.holds(&ends.reversed())
    }
}

/// Addresses and ports of a packet: source first, then destination.
struct Ends {
    layer: Option<Layer>,
    addresses: [IpAddr; 2],
    ports: [u16; 2],
}

impl Ends {
    fn of(network: &Network, transport: &Transport<'_>) -> Self {
        let (layer, ports) = match transport {
            Transport::Tcp(segment) => (
                Some(Layer::Tcp),
                [segment.source_port, segment.destination_port],
            ),
            Transport::Udp {
                source_port,
                destination_port,
                ..
            } => (Some(Layer::Udp), [*source_port, *destination_port]),
            Transport::Icmp { .. } if network.source.is_ipv6() => (Some(Layer::Icmpv6), [0; 2]),
            Transport::Icmp { .. } => (Some(Layer::Icmp), [0; 2]),
            _ => (None, [0; 2]),
        };
        Self {
            layer,
            addresses: [network.source, network.destination],
            ports,
        }
    }

    fn reversed(&self) -> Self {
        let ([source, destination], [from, to]) = (self.addresses, self.ports);
        Self {
            layer: self.layer,
            addresses: [destination, source],
            ports: [to, from],
        }
    }

    fn has(&self, layer: Layer) -> bool {
        match layer {
            Layer::Ip => self.addresses[0].is_ipv4(),
            Layer::Ipv6 => self.addresses[0].is_ipv6(),
            other => self.layer == Some(other),
        }
    }

    fn is_any(&self, field: Field, values: &[Value]) -> bool {
        let ends = match field.end {
            End::Source => 0..=0,
            End::Destination => 1..=1,
            End::Either => 0..=1,
        };
        ends.into_iter().any(|end| {
            values.iter().any(|value| match value {
                Value::Ports(range) => range.contains(&self.ports[end]),
                Value::Prefix(prefix, bits) => is_within(self.addresses[end], *prefix, *bits),
            })
        })
    }
}

impl Expression {
    fn holds(&self, ends: &Ends) -> bool {
        match self {
            Self::Protocol(layer) => ends.has(*layer),
            Self::Any(field, values) => ends.has(field.layer) && ends.is_any(*field, values),
            Self::None(field, values) => ends.has(field.layer) && !ends.is_any(*field, values),
            Self::Not(inner) => !inner.holds(ends),
            Self::And(left, right) => left.holds(ends) && right.holds(ends),
            Self::Or(left, right) => left.holds(ends) || right.holds(ends),
        }
    }
}

fn is_within(address: IpAddr, prefix: IpAddr, bits: u8) -> bool {
    match (address, prefix) {
        (IpAddr::V4(address), IpAddr::V4(prefix)) => {
            let differing = address.to_bits() ^ prefix.to_bits();
            differing.checked_shr(32 - u32::from(bits)).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(prefix)) => {
            let differing = address.to_bits() ^ prefix.to_bits();
            differing.checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
        }
        _ => false,
    }
}
