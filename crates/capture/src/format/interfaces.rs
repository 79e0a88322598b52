//! The interfaces of a capture, numbered over all its sections and files.

use std::collections::HashMap;

use crate::link_type::LinkType;

/// More interfaces than any host has; a file that describes more is damaged or hostile.
pub(crate) const MOST_INTERFACES: usize = 65_536;
/// Names are used only to recognise an interface in the next section or file.
const LONGEST_NAME_BYTES: usize = 256;

/// An interface that packets were captured on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interface {
    pub(crate) link: LinkType,
    /// 0: no limit.
    pub(crate) snaplen_bytes: u32,
    /// Packets that the capturing host says it received here, by its latest statistics.
    pub(crate) received: Option<u64>,
    reported_dropped: Option<u64>,
    /// Sum of the packets dropped according to the notes on single packets.
    dropped_before_packets: u64,
}

impl Interface {
    pub(crate) fn new(link: LinkType, snaplen_bytes: u32) -> Self {
        Self {
            link,
            snaplen_bytes,
            ..Self::default()
        }
    }

    /// Packets that the capturing host says it dropped here. Statistics and notes on single packets count the same
    /// ones.
    pub(crate) fn dropped(&self) -> Option<u64> {
        let before_packets = Some(self.dropped_before_packets).filter(|dropped| *dropped > 0);
        self.reported_dropped.max(before_packets)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Identity {
    Named(Vec<u8>, LinkType),
    /// An interface without a name is identified by its position in its section.
    Placed(usize, LinkType),
}

/// All interfaces so far. Rotated files repeat them, with the same numbers.
#[derive(Debug, Default)]
pub(crate) struct Interfaces {
    known: Vec<Interface>,
    numbers: HashMap<Identity, u32>,
}

impl Interfaces {
    /// The number of an interface described at `place` in its section; `None` if there are too many.
    pub(crate) fn number(
        &mut self,
        place: usize,
        name: Option<&[u8]>,
        found: Interface,
    ) -> Option<u32> {
        let identity = match name {
            Some(name) => Identity::Named(
                name[..name.len().min(LONGEST_NAME_BYTES)].to_vec(),
                found.link,
            ),
            None => Identity::Placed(place, found.link),
        };
        if let Some(&number) = self.numbers.get(&identity) {
            let known = &mut self.known[number as usize];
            known.snaplen_bytes = match (known.snaplen_bytes, found.snaplen_bytes) {
                (0, _) | (_, 0) => 0,
                (one, other) => one.max(other),
            };
            return Some(number);
        }
        if self.known.len() == MOST_INTERFACES {
            return None;
        }
        let number = self.known.len() as u32;
        self.known.push(found);
        self.numbers.insert(identity, number);
        Some(number)
    }

    pub(crate) fn all(&self) -> &[Interface] {
        &self.known
    }

    /// Registers an interface's statistics. The files of a rotation each count from 0 or continue, depending on their
    /// writer: the largest count is a lower bound in both cases.
    pub(crate) fn note_statistics(
        &mut self,
        number: u32,
        received: Option<u64>,
        dropped: Option<u64>,
    ) {
        let counted = |count: &u64| *count <= MOST_COUNTED;
        if let Some(interface) = self.known.get_mut(number as usize) {
            interface.received = interface.received.max(received.filter(counted));
            interface.reported_dropped = interface.reported_dropped.max(dropped.filter(counted));
        }
    }

    /// Registers packets dropped between the previous and the present one.
    #[cold]
    pub(crate) fn note_dropped_before(&mut self, number: u32, dropped: u64) {
        if let Some(interface) = self.known.get_mut(number as usize)
            && dropped <= MOST_COUNTED
        {
            let before = &mut interface.dropped_before_packets;
            *before = before.saturating_add(dropped);
        }
    }
}

/// An upper bound on any host's count: a month of a hundred million packets per second is 2.6e14. A larger count is
/// damaged.
const MOST_COUNTED: u64 = 1 << 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_no_host_reaches_are_no_counts() {
        let mut interfaces = Interfaces::default();
        interfaces.number(0, Some(b"eth0"), interface(LinkType::ETHERNET));
        interfaces.note_statistics(0, Some(9), Some(u64::MAX));
        interfaces.note_dropped_before(0, u64::MAX / 3);
        assert_eq!(interfaces.all()[0].dropped(), None);
        interfaces.note_dropped_before(0, 7);
        assert_eq!(interfaces.all()[0].dropped(), Some(7));
    }

    fn interface(link: LinkType) -> Interface {
        Interface::new(link, 96)
    }

    #[test]
    fn an_interface_keeps_its_number_in_the_next_file() {
        let mut interfaces = Interfaces::default();
        let ethernet = || interface(LinkType::ETHERNET);
        assert_eq!(interfaces.number(0, Some(b"eth0"), ethernet()), Some(0));
        assert_eq!(interfaces.number(1, Some(b"eth1"), ethernet()), Some(1));
        assert_eq!(interfaces.number(0, Some(b"eth1"), ethernet()), Some(1));
        assert_eq!(interfaces.number(1, Some(b"eth0"), ethernet()), Some(0));
        assert_eq!(interfaces.number(0, None, ethernet()), Some(2));
        assert_eq!(interfaces.number(0, None, ethernet()), Some(2));
        assert_eq!(
            interfaces.number(0, None, interface(LinkType::RAW)),
            Some(3)
        );
        assert_eq!(interfaces.all().len(), 4);
    }

    #[test]
    fn a_flood_of_interfaces_is_refused() {
        let mut interfaces = Interfaces::default();
        for place in 0..MOST_INTERFACES {
            assert!(
                interfaces
                    .number(place, None, interface(LinkType::RAW))
                    .is_some()
            );
        }
        assert_eq!(
            interfaces.number(MOST_INTERFACES, None, interface(LinkType::RAW)),
            None
        );
    }
}
