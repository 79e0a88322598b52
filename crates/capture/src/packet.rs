//! A captured packet, decoded down to its transport header.
//!
//! Everything except the payload is copied from the frame: the values are small, and other crates keep them for longer
//! than the reader keeps its buffer.

use std::net::IpAddr;

/// One captured packet. `network` is `None` for a frame without an IP packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Packet<'a> {
    /// Position in the capture, from 0, over all files of a rotated sequence.
    pub index: u64,
    /// Capture time, nanoseconds since the Unix epoch, UTC.
    pub time_ns: i64,
    /// Interface number within the capture (pcapng; 0 for pcap).
    pub interface: u32,
    /// Length of the frame on its link, as the capture file states it.
    pub wire_bytes: u32,
    /// Captured length of the frame.
    pub captured_bytes: u32,
    /// The innermost unwrapped IP header, if there is one.
    pub network: Option<Network>,
    /// The transport layer behind that header.
    pub transport: Transport<'a>,
}

/// The fields of an IP header that describe a packet's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Length of the IP packet, including its header. If the header says 0 (segmentation offload of super-segments),
    /// the frame's length without its link header.
    pub ip_bytes: u32,
    /// IPv4 identification; `None` for IPv6 without a fragment header.
    pub identification: Option<u16>,
    pub ttl: u8,
    /// Differentiated services code point (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// Explicit congestion notification bits (RFC 3168): 0 not capable, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// How many tunnel headers (GRE, VXLAN, Geneve, GTP-U, IP-in-IP) were unwrapped.
    pub tunnel_depth: u8,
}

/// The payload of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transport<'a> {
    Tcp(TcpSegment<'a>),
    Udp {
        source_port: u16,
        destination_port: u16,
        payload_bytes: u32,
        payload: &'a [u8],
    },
    Icmp {
        kind: u8,
        code: u8,
        payload: &'a [u8],
    },
    /// An IP fragment other than the first, without a transport header.
    Fragment,
    /// Another IP protocol.
    OtherProtocol(u8),
    /// The frame is not IP; its EtherType (0 if the link layer has none).
    NotIp(u16),
    /// The frame is truncated or its headers are contradictory before the transport header ends.
    Undecodable,
}

/// A TCP header with the options that matter to loss and delay, and the captured part of the payload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TcpSegment<'a> {
    pub source_port: u16,
    pub destination_port: u16,
    pub sequence: u32,
    pub acknowledgment: u32,
    pub flags: TcpFlags,
    /// Receive window as sent, before scaling.
    pub window: u16,
    /// Payload length from the IP length, captured or not.
    pub payload_bytes: u32,
    pub payload: &'a [u8],
    pub options: TcpOptions,
}

/// The nine TCP flags, as in the header's low bits (FIN = 1 ... CWR = 128, AE = 256).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpFlags(pub u16);

impl TcpFlags {
    pub const FIN: u16 = 0x01;
    pub const SYN: u16 = 0x02;
    pub const RST: u16 = 0x04;
    pub const PSH: u16 = 0x08;
    pub const ACK: u16 = 0x10;
    pub const URG: u16 = 0x20;
    pub const ECE: u16 = 0x40;
    pub const CWR: u16 = 0x80;
    /// Accurate ECN (RFC 9768).
    pub const AE: u16 = 0x100;

    /// AE, CWR and ECE as one number: after a handshake that negotiated accurate ECN, the three low bits of the count
    /// of CE-marked packets (ACE, RFC 9768, section 3.2.2).
    #[inline]
    pub fn ace(self) -> u8 {
        ((self.0 & (Self::AE | Self::CWR | Self::ECE)) >> 6) as u8
    }

    /// True if any of the given flags is set.
    #[inline]
    pub fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }
}

/// TCP options (RFC 9293, 7323, 2018). SACK blocks are raw sequence numbers, in the order sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpOptions {
    pub mss: Option<u16>,
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    /// (TSval, TSecr).
    pub timestamps: Option<(u32, u32)>,
    pub sack: [(u32, u32); 4],
    pub sack_blocks: u8,
    /// Bytes received with the CE mark, modulo 2^24: the accurate-ECN option's field ECEB (RFC 9768, section 3.2.3).
    pub ce_bytes: Option<u32>,
    /// The snapshot length cut the options off: missing options may have been sent.
    pub truncated: bool,
}

impl TcpOptions {
    /// The segment's SACK blocks: left and right edge of each.
    pub fn sack_blocks(&self) -> &[(u32, u32)] {
        &self.sack[..usize::from(self.sack_blocks)]
    }
}
