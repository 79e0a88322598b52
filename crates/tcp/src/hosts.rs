//! The number of hosts and the busiest one, in bounded memory.

use std::collections::BTreeSet;
use std::net::IpAddr;

/// The most hashes kept: up to this many hosts are counted exactly, more are estimated with a standard error of `1 /
/// sqrt(4094)`, 1.6 %.
const HASHES: usize = 1 << 12;
/// Candidates for the busiest host: any host with more than a ninth of all connections is among them.
const CANDIDATES: usize = 8;
/// A host stands out if it certainly has one in this many of all connections.
const STANDS_OUT: u64 = 20;

/// The hosts at one end of many connections.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// The smallest hashes of addresses (Bar-Yossef et al., "Counting Distinct Elements in a Data Stream", 2002).
    smallest: BTreeSet<u64>,
    largest_kept: u64,
    /// Frequent addresses (Misra and Gries, "Finding repeated elements", 1982).
    candidates: Vec<(IpAddr, u64)>,
    connections: u64,
}

impl Hosts {
    /// Counts a connection of this host.
    pub(crate) fn add(&mut self, address: IpAddr) {
        self.connections += 1;
        self.count(hash(address));
        self.nominate(address);
    }

    /// Distinct hosts; see [`Hosts::is_estimate`].
    pub fn distinct(&self) -> u64 {
        if !self.is_estimate() {
            return self.smallest.len() as u64;
        }
        let share = self.largest_kept as f64 / u64::MAX as f64;
        ((HASHES - 1) as f64 / share).round() as u64
    }

    /// True if there were too many hosts to count them one by one.
    pub fn is_estimate(&self) -> bool {
        self.smallest.len() >= HASHES
    }

    /// The host with most connections and how many it had at least; `None` where none stands out.
    pub fn busiest(&self) -> Option<(IpAddr, u64)> {
        let most = |one: &&(IpAddr, u64)| (one.1, std::cmp::Reverse(one.0));
        let busiest = self.candidates.iter().max_by_key(most).copied();
        busiest.filter(|(_, at_least)| at_least * STANDS_OUT >= self.connections)
    }

    fn count(&mut self, hash: u64) {
        let full = self.is_estimate();
        if full && hash >= self.largest_kept || !self.smallest.insert(hash) {
            return;
        }
        if full {
            self.smallest.pop_last();
        }
        self.largest_kept = self.smallest.last().copied().unwrap_or(0);
    }

    fn nominate(&mut self, address: IpAddr) {
        if let Some(known) = self.candidates.iter_mut().find(|one| one.0 == address) {
            known.1 += 1;
        } else if self.candidates.len() < CANDIDATES {
            self.candidates.push((address, 1));
        } else {
            self.candidates.retain_mut(|one| {
                one.1 -= 1;
                one.1 > 0
            });
        }
    }
}

/// A hash that is the same in every run, so that documents are reproducible (SplitMix64, Steele et al. 2014, over both
/// halves of the address).
fn hash(address: IpAddr) -> u64 {
    let number = match address {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => u128::from(v6),
    };
    mix(mix(number as u64) ^ (number >> 64) as u64)
}

fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(number))
    }

    #[test]
    fn a_few_hosts_are_counted_and_many_are_estimated() {
        let mut hosts = Hosts::default();
        for number in 0..3000 {
            hosts.add(address(number % 1000));
        }
        assert_eq!((hosts.distinct(), hosts.is_estimate()), (1000, false));
        for number in 0..200_000 {
            hosts.add(address(0x0a00_0000 + number));
        }
        assert!(hosts.is_estimate());
        // three standard errors
        assert!(
            hosts.distinct().abs_diff(201_000) < 10_000,
            "{}",
            hosts.distinct()
        );
        assert_eq!(hosts.smallest.len(), HASHES);
    }

    #[test]
    fn the_host_of_a_fifth_of_all_connections_is_the_busiest() {
        let mut hosts = Hosts::default();
        for number in 0..10_000 {
            hosts.add(address(if number % 5 == 3 { 7 } else { 1000 + number }));
        }
        let (busiest, at_least) = hosts.busiest().expect("one stands out");
        assert_eq!(busiest, address(7));
        assert!((2000 - 10_000 / 9..=2000).contains(&at_least), "{at_least}");
    }

    #[test]
    fn of_hosts_with_a_connection_each_none_is_the_busiest() {
        let mut hosts = Hosts::default();
        (0..10_000).for_each(|number| hosts.add(address(number)));
        assert_eq!(hosts.busiest(), None);
    }
}
