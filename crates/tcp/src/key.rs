//! The key of a connection.

use std::collections::HashMap;
use std::net::IpAddr;

/// Both endpoints of a connection, the lower one first, so that both directions have one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionKey {
    low: u128,
    high: u128,
    ports: u32,
}

impl ConnectionKey {
    /// The key, and whether `source` is its lower endpoint.
    #[inline]
    pub fn new(
        source: IpAddr,
        source_port: u16,
        destination: IpAddr,
        destination_port: u16,
    ) -> (Self, bool) {
        let (a, b) = (number(source), number(destination));
        let (p, q) = (u32::from(source_port), u32::from(destination_port));
        if (a, p) <= (b, q) {
            (
                Self {
                    low: a,
                    high: b,
                    ports: p << 16 | q,
                },
                true,
            )
        } else {
            (
                Self {
                    low: b,
                    high: a,
                    ports: q << 16 | p,
                },
                false,
            )
        }
    }
}

/// IPv4 as the IPv4-mapped IPv6 address (RFC 4291), so that both families share one space.
#[inline]
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => 0xffff_0000_0000 | u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// A map with a faster hash than the standard library's. Its key is random for each process, so that a sender cannot
/// choose ports that collide in one bucket.
pub type ConnectionMap<V> = HashMap<ConnectionKey, V, ahash::RandomState>;
