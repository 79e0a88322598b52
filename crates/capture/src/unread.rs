//! Contents of frames that are not read down to a transport header, to be named and counted.

use std::collections::BTreeMap;
use std::fmt;

/// Why a frame shows no transport header, or which protocol prevents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unread {
    /// The protocol with this EtherType.
    EtherType(u16),
    /// IEEE 802.2 without a SNAP header, to this service access point.
    LogicalLink(u8),
    /// The protocol with this PPP number.
    PointToPoint(u16),
    /// An IEEE 802.11 frame without hosts' data: a beacon, an acknowledgment, an empty data frame.
    WirelessManagement,
    /// IEEE 802.11 data encrypted with WEP, WPA or similar.
    WirelessEncrypted,
    /// Received with a wrong frame check sequence.
    WirelessDamaged,
    /// IEEE 802.11 fragments other than the first.
    WirelessFragment,
    /// An IP protocol other than TCP, UDP, ICMP and the unwrapped tunnels.
    IpProtocol(u8),
    /// The contents of MPLS labels, or of another header that does not identify them.
    Unnamed,
    /// A link type that is not decoded.
    LinkType(u16),
    /// The frame ends within its headers, or they are contradictory.
    CutOff,
}

impl Unread {
    /// The EtherType, or 0 for other contents.
    pub(crate) fn ethertype(self) -> u16 {
        match self {
            Self::EtherType(kind) => kind,
            _ => 0,
        }
    }

    /// False for protocols that keep a network running and carry no user data.
    pub(crate) fn may_hold_connections(self) -> bool {
        match self {
            // ARP, RARP, EAPOL, LLDP, slow protocols, flow control, PPPoE discovery, 802.1X pre-authentication,
            // loopback tests, connectivity fault management, precision time, WoL, Cisco and Realtek link tests
            Self::EtherType(kind) => !matches!(
                kind,
                0x0806
                    | 0x8035
                    | 0x888e
                    | 0x88cc
                    | 0x8809
                    | 0x8808
                    | 0x8863
                    | 0x88c7
                    | 0x9000
                    | 0x8902
                    | 0x88f7
                    | 0x0842
                    | 0x2000
                    | 0x8899
                    | 0x88e1
                    | 0x88f5
                    | 0x890d
            ),
            Self::LogicalLink(point) => !matches!(point, 0x42 | 0xfe | 0xaa | 0x06 | 0x00),
            // below 0x4000 user data, above it the control of links and networks (RFC 1661, section 2)
            Self::PointToPoint(protocol) => protocol < 0x4000,
            Self::WirelessManagement | Self::WirelessFragment => false,
            // IGMP, EGP, OSPF, PIM, VRRP, EIGRP, RSVP, IS-IS over IP; IPv6 "no next header"
            Self::IpProtocol(protocol) => {
                !matches!(protocol, 2 | 8 | 46 | 59 | 88 | 89 | 103 | 112 | 124)
            }
            _ => true,
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EtherType(kind) => match ethertype_name(kind) {
                Some(name) => f.write_str(name),
                None => write!(f, "EtherType {kind:#06x}"),
            },
            Self::LogicalLink(0x42) => f.write_str("spanning tree"),
            Self::LogicalLink(0xfe) => f.write_str("IS-IS"),
            Self::LogicalLink(0xe0) => f.write_str("IPX"),
            Self::LogicalLink(0xf0) => f.write_str("NetBIOS"),
            Self::LogicalLink(point) => write!(f, "IEEE 802.2 to access point {point:#04x}"),
            Self::PointToPoint(0x00fd) => f.write_str("compressed or encrypted PPP"),
            Self::PointToPoint(protocol) => write!(f, "PPP protocol {protocol:#06x}"),
            Self::WirelessManagement => f.write_str("802.11 frames without data"),
            Self::WirelessEncrypted => f.write_str("encrypted 802.11 data"),
            Self::WirelessDamaged => f.write_str("damaged 802.11 frames"),
            Self::WirelessFragment => f.write_str("802.11 fragments"),
            Self::IpProtocol(protocol) => match protocol_name(protocol) {
                Some(name) => f.write_str(name),
                None => write!(f, "IP protocol {protocol}"),
            },
            Self::Unnamed => f.write_str("unnamed contents of a tunnel"),
            Self::LinkType(number) => write!(f, "link type {number}"),
            Self::CutOff => f.write_str("cut off or contradictory headers"),
        }
    }
}

fn ethertype_name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        0x0806 => "ARP",
        0x8035 => "RARP",
        0x8137 | 0x8138 => "IPX",
        0x8808 => "Ethernet flow control",
        0x8809 => "link aggregation (slow protocols)",
        0x8863 => "PPPoE discovery",
        0x888e => "EAPOL",
        0x8892 => "PROFINET",
        0x88a2 => "ATA over Ethernet",
        0x88a4 => "EtherCAT",
        0x88cc => "LLDP",
        0x88e5 => "encrypted MACsec",
        0x88f7 => "precision time protocol",
        0x8902 => "connectivity fault management",
        0x8906 => "Fibre Channel over Ethernet",
        0x8915 => "RoCE",
        0x9000 => "Ethernet loopback tests",
        _ => return None,
    })
}

fn protocol_name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        2 => "IGMP",
        4 | 41 => "IP in IP (a tunnel within a tunnel)",
        33 => "DCCP",
        46 => "RSVP",
        47 => "GRE that holds no IP packet, or a tunnel within a tunnel",
        50 => "encrypted IPsec (ESP)",
        88 => "EIGRP",
        89 => "OSPF",
        97 => "EtherIP that holds no IP packet",
        103 => "PIM",
        112 => "VRRP",
        115 => "L2TPv3 that holds no IP packet",
        132 => "SCTP",
        137 => "MPLS in IP that holds no IP packet",
        _ => return None,
    })
}

/// Frames that were not read, counted by what they hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnreadCounts(BTreeMap<Unread, u64>);

impl UnreadCounts {
    /// A capture has a handful; a damaged or hostile one any number, of which the excess is counted as truncated.
    const MOST_KINDS: usize = 256;

    #[cold]
    pub(crate) fn count(&mut self, kind: Unread) {
        let is_full = self.0.len() >= Self::MOST_KINDS && !self.0.contains_key(&kind);
        let kind = if is_full { Unread::CutOff } else { kind };
        *self.0.entry(kind).or_default() += 1;
    }

    /// Names and numbers, most frequent first.
    pub(crate) fn named(&self) -> Vec<(String, u64)> {
        self.sorted(|_| true)
    }

    /// Returns a note on the contents that matter to the user, because connections may be in them.
    pub(crate) fn note(&self) -> Option<String> {
        const MOST_NAMED: usize = 6;
        let kinds = self.sorted(Unread::may_hold_connections);
        if kinds.is_empty() {
            return None;
        }
        let packets: u64 = kinds.iter().map(|(_, count)| count).sum();
        let mut named: Vec<String> = kinds
            .iter()
            .take(MOST_NAMED)
            .map(|(name, count)| format!("{name} ({count})"))
            .collect();
        if kinds.len() > MOST_NAMED {
            named.push(format!("{} more kinds", kinds.len() - MOST_NAMED));
        }
        let encrypted = self.0.contains_key(&Unread::WirelessEncrypted);
        let remedy = match encrypted {
            true => {
                "; capture on the client itself or behind the access point, where the data is not encrypted"
            }
            false => "",
        };
        Some(format!(
            "counted but not decoded: {}: {}{remedy}",
            crate::summary::packets(packets),
            named.join(", ")
        ))
    }

    fn sorted(&self, wanted: impl Fn(Unread) -> bool) -> Vec<(String, u64)> {
        let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
        for (kind, count) in self.0.iter().filter(|(kind, _)| wanted(**kind)) {
            *by_name.entry(kind.to_string()).or_default() += count;
        }
        let mut kinds: Vec<(String, u64)> = by_name.into_iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        kinds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_what_may_hold_connections_and_not_what_runs_the_network() {
        let mut counts = UnreadCounts::default();
        counts.count(Unread::EtherType(0x0806));
        counts.count(Unread::LogicalLink(0x42));
        counts.count(Unread::WirelessManagement);
        assert_eq!(counts.note(), None);
        for _ in 0..3 {
            counts.count(Unread::WirelessEncrypted);
        }
        counts.count(Unread::EtherType(0x1234));
        let note = counts.note().expect("something was not read");
        assert!(
            note.contains("4 packets: encrypted 802.11 data (3), EtherType 0x1234 (1)"),
            "{note}"
        );
        assert!(note.contains("not encrypted"), "{note}");
        assert_eq!(counts.named().len(), 5);
    }

    #[test]
    fn a_flood_of_kinds_is_counted_as_one() {
        let mut counts = UnreadCounts::default();
        for kind in 0..=u16::MAX {
            counts.count(Unread::EtherType(kind));
        }
        assert!(counts.0.len() <= UnreadCounts::MOST_KINDS + 1);
        let packets: u64 = counts.named().iter().map(|(_, count)| count).sum();
        assert_eq!(packets, 65_536);
    }
}
