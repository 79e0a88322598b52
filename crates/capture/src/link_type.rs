//! Link types, by the numbers that capture files use (<https://www.tcpdump.org/linktypes.html>).

use std::fmt;

/// A LINKTYPE_ number: the protocol at the first byte of each frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    pub const NULL: Self = Self(0);
    pub const ETHERNET: Self = Self(1);
    pub const TOKEN_RING: Self = Self(6);
    pub const PPP: Self = Self(9);
    pub const FDDI: Self = Self(10);
    /// LINKTYPE_RAW's platform-dependent DLT_RAW numbers, which some writers put in files.
    pub const RAW_BSD: Self = Self(12);
    pub const RAW_OPENBSD: Self = Self(14);
    pub const PPP_HDLC: Self = Self(50);
    pub const PPP_OVER_ETHERNET: Self = Self(51);
    pub const ATM_LLC: Self = Self(100);
    pub const RAW: Self = Self(101);
    pub const CISCO_HDLC: Self = Self(104);
    pub const IEEE_802_11: Self = Self(105);
    pub const LOOP: Self = Self(108);
    pub const OPENBSD_ENCAPSULATION: Self = Self(109);
    pub const LINUX_COOKED: Self = Self(113);
    pub const OPENBSD_FILTER: Self = Self(117);
    pub const PRISM: Self = Self(119);
    pub const RADIOTAP: Self = Self(127);
    pub const FIREWIRE: Self = Self(138);
    /// A number for private use, with which Apple's tcpdump marks its own header.
    pub const APPLE_PKTAP_USER: Self = Self(149);
    pub const AVS: Self = Self(163);
    pub const PER_PACKET_INFORMATION: Self = Self(192);
    pub const ENDACE: Self = Self(197);
    pub const PPP_WITH_DIRECTION: Self = Self(204);
    pub const IPV4: Self = Self(228);
    pub const IPV6: Self = Self(229);
    pub const NETFILTER_LOG: Self = Self(239);
    pub const APPLE_PKTAP: Self = Self(258);
    pub const LINUX_COOKED_2: Self = Self(276);

    /// True for 802.11 frames, with or without a capturing host's header.
    pub(crate) fn is_wireless(self) -> bool {
        matches!(
            self,
            Self::IEEE_802_11 | Self::PRISM | Self::RADIOTAP | Self::AVS
        )
    }

    /// The displayed name; `None` for a link type that this crate does not decode.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NULL => "BSD loopback (null)",
            Self::ETHERNET => "Ethernet",
            Self::TOKEN_RING => "Token Ring",
            Self::PPP => "PPP",
            Self::FDDI => "FDDI",
            Self::PPP_OVER_ETHERNET => "PPP over Ethernet",
            Self::ATM_LLC => "ATM (RFC 1483)",
            Self::IEEE_802_11 => "802.11",
            Self::OPENBSD_ENCAPSULATION => "OpenBSD encapsulated IP",
            Self::OPENBSD_FILTER => "OpenBSD pflog",
            Self::PRISM => "802.11 with Prism header",
            Self::RADIOTAP => "802.11 with radiotap",
            Self::FIREWIRE => "IP over IEEE 1394",
            Self::APPLE_PKTAP | Self::APPLE_PKTAP_USER => "Apple PKTAP",
            Self::AVS => "802.11 with AVS header",
            Self::PER_PACKET_INFORMATION => "per-packet information (PPI)",
            Self::ENDACE => "Endace ERF",
            Self::NETFILTER_LOG => "netfilter log",
            Self::PPP_HDLC => "PPP in HDLC framing",
            Self::RAW | Self::RAW_BSD | Self::RAW_OPENBSD => "raw IP",
            Self::CISCO_HDLC => "Cisco HDLC",
            Self::LOOP => "OpenBSD loopback",
            Self::LINUX_COOKED => "Linux cooked v1",
            Self::PPP_WITH_DIRECTION => "PPP with direction",
            Self::IPV4 => "raw IPv4",
            Self::IPV6 => "raw IPv6",
            Self::LINUX_COOKED_2 => "Linux cooked v2",
            _ => return None,
        })
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "link type {} (not decoded)", self.0),
        }
    }
}
