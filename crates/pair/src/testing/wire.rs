//! Packets as bytes, and capture files of them.

use std::net::IpAddr;

/// An IP packet's header fields and its contents.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wire {
    pub source: (IpAddr, u16),
    pub destination: (IpAddr, u16),
    pub ttl: u8,
    pub tos: u8,
    /// IPv4 only.
    pub identification: u16,
    pub body: Body,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    Tcp {
        sequence: u32,
        acknowledgment: u32,
        flags: u16,
        window: u16,
        timestamps: Option<(u32, u32)>,
        mss: Option<u16>,
        sack: Vec<(u32, u32)>,
        payload_bytes: u32,
    },
    Udp(Vec<u8>),
    /// Type, code and the bytes after the checksum.
    Icmp(u8, u8, Vec<u8>),
    /// A fragment of a UDP packet: its offset, the flag that more follow, its bytes.
    Fragment(u16, bool, Vec<u8>),
}

/// A packet at a point.
#[derive(Debug, Clone)]
pub(crate) struct Passing {
    /// On the point's clock.
    pub time_ns: i64,
    /// True time, which determines the order in the file.
    pub order_ns: i64,
    pub wire: Wire,
}

/// Capture settings of one point.
#[derive(Debug, Clone)]
pub(crate) struct Encoding {
    pub snaplen_bytes: usize,
    /// Packets are in GRE tunnels here.
    pub tunnel: bool,
}

impl Default for Encoding {
    fn default() -> Self {
        Self {
            snaplen_bytes: 96,
            tunnel: false,
        }
    }
}

impl Encoding {
    pub(crate) fn file<'a>(&self, packets: impl Iterator<Item = &'a Passing>) -> Vec<u8> {
        const RAW_IP: u32 = 101;
        let mut bytes = Vec::new();
        for word in [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 65_535, RAW_IP] {
            bytes.extend(word.to_le_bytes());
        }
        for packet in packets {
            let mut frame = packet.wire.bytes();
            let mut wire_bytes = packet.wire.ip_bytes();
            if self.tunnel {
                frame = in_gre(&frame, wire_bytes, packet.wire.source.0.is_ipv4());
                wire_bytes += 24;
            }
            frame.truncate(self.snaplen_bytes);
            let (seconds, rest) = (
                packet.time_ns / 1_000_000_000,
                packet.time_ns % 1_000_000_000,
            );
            for word in [seconds as u32, rest as u32, frame.len() as u32, wire_bytes] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend(frame);
        }
        bytes
    }
}

fn in_gre(inner: &[u8], inner_bytes: u32, is_ipv4: bool) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend(((inner_bytes + 24).min(65_535) as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 47, 0, 0, 203, 0, 113, 1, 203, 0, 113, 2]);
    bytes.extend([0, 0]);
    bytes.extend(if is_ipv4 { [0x08, 0x00] } else { [0x86, 0xdd] });
    bytes.extend(inner);
    bytes
}

impl Wire {
    /// Length of the whole packet; the bytes of TCP payload are not written.
    pub(crate) fn ip_bytes(&self) -> u32 {
        let payload = match &self.body {
            Body::Tcp { payload_bytes, .. } => *payload_bytes,
            _ => 0,
        };
        let header = if self.source.0.is_ipv4() { 20 } else { 40 };
        header + self.transport().len() as u32 + payload
    }

    fn bytes(&self) -> Vec<u8> {
        let transport = self.transport();
        let total = self.ip_bytes();
        let mut bytes = Vec::new();
        match (self.source.0, self.destination.0) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes.extend([0x45, self.tos]);
                // longer super-segments have the length 0, as Linux writes them
                let length = u16::try_from(total).unwrap_or(0);
                bytes.extend(length.to_be_bytes());
                bytes.extend(self.identification.to_be_bytes());
                bytes.extend(self.fragment_field().to_be_bytes());
                bytes.extend([self.ttl, self.protocol(), 0, 0]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                bytes.extend((0x6000_0000 | u32::from(self.tos) << 20).to_be_bytes());
                bytes.extend(((total - 40) as u16).to_be_bytes());
                let next = match self.protocol() {
                    1 => 58,
                    other => other,
                };
                bytes.extend([next, self.ttl]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
            }
            _ => panic!("both ends of a packet have addresses of one family"),
        }
        bytes.extend(transport);
        bytes
    }

    fn protocol(&self) -> u8 {
        match self.body {
            Body::Tcp { .. } => 6,
            Body::Udp(_) | Body::Fragment(..) => 17,
            Body::Icmp(..) => 1,
        }
    }

    fn fragment_field(&self) -> u16 {
        match self.body {
            Body::Fragment(offset, more, _) => (offset / 8) | (u16::from(more) << 13),
            Body::Udp(_) => 0,
            _ => 0x4000,
        }
    }

    fn transport(&self) -> Vec<u8> {
        let ports = [
            self.source.1.to_be_bytes(),
            self.destination.1.to_be_bytes(),
        ]
        .concat();
        match &self.body {
            Body::Tcp {
                sequence,
                acknowledgment,
                flags,
                window,
                timestamps,
                mss,
                sack,
                ..
            } => {
                let options = tcp_options(*timestamps, *mss, sack);
                let mut bytes = ports;
                bytes.extend(sequence.to_be_bytes());
                bytes.extend(acknowledgment.to_be_bytes());
                let words = 5 + options.len() as u16 / 4;
                bytes.extend((words << 12 | flags).to_be_bytes());
                bytes.extend(window.to_be_bytes());
                bytes.extend([0; 4]);
                bytes.extend(options);
                bytes
            }
            Body::Udp(payload) => {
                let mut bytes = ports;
                bytes.extend((payload.len() as u16 + 8).to_be_bytes());
                bytes.extend([0, 0]);
                bytes.extend(payload);
                bytes
            }
            Body::Icmp(kind, code, rest) => {
                let mut bytes = vec![*kind, *code, 0, 0];
                bytes.extend(rest);
                bytes
            }
            Body::Fragment(_, _, payload) => payload.clone(),
        }
    }
}

fn tcp_options(timestamps: Option<(u32, u32)>, mss: Option<u16>, sack: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mss) = mss {
        bytes.extend([2, 4]);
        bytes.extend(mss.to_be_bytes());
    }
    if let Some((value, echo)) = timestamps {
        bytes.extend([1, 1, 8, 10]);
        bytes.extend(value.to_be_bytes());
        bytes.extend(echo.to_be_bytes());
    }
    if !sack.is_empty() {
        bytes.extend([1, 1, 5, 2 + 8 * sack.len() as u8]);
        for (left, right) in sack {
            bytes.extend(left.to_be_bytes());
            bytes.extend(right.to_be_bytes());
        }
    }
    bytes
}
