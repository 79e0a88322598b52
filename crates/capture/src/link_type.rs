//! Link types, by the numbers that capture files use (<https://www.tcpdump.org/linktypes.html>).

use std::fmt;

/// A LINKTYPE_ number: what the first byte of each frame belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    pub const NULL: Self = Self(0);
    pub const ETHERNET: Self = Self(1);
    pub const PPP: Self = Self(9);
    /// LINKTYPE_RAW's platform-dependent DLT_RAW numbers, which some writers put in files.
    pub const RAW_BSD: Self = Self(12);
    pub const RAW_OPENBSD: Self = Self(14);
    pub const PPP_HDLC: Self = Self(50);
    pub const RAW: Self = Self(101);
    pub const CISCO_HDLC: Self = Self(104);
    pub const LOOP: Self = Self(108);
    pub const LINUX_COOKED: Self = Self(113);
    pub const PPP_WITH_DIRECTION: Self = Self(204);
    pub const IPV4: Self = Self(228);
    pub const IPV6: Self = Self(229);
    pub const LINUX_COOKED_2: Self = Self(276);

    /// The name to show, or `None` for a link type that this crate does not decode.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NULL => "BSD loopback (null)",
            Self::ETHERNET => "Ethernet",
            Self::PPP => "PPP",
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
