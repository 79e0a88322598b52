//! Packets as bytes, and capture files of them.

use std::net::IpAddr;

use whydrop_testkit::{Ipv4, Ipv6, PcapFile, Tcp, TcpOptions, Udp};

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
        const RAW_IP: u16 = 101;
        let file = PcapFile {
            link: RAW_IP,
            ..PcapFile::default()
        };
        let mut bytes = file.header();
        for packet in packets {
            let mut frame = packet.wire.bytes();
            let mut wire_bytes = packet.wire.ip_bytes();
            if self.tunnel {
                frame = in_gre(&frame, wire_bytes, packet.wire.source.0.is_ipv4());
                wire_bytes += 24;
            }
            frame.truncate(self.snaplen_bytes);
            bytes.extend(file.record(packet.time_ns, wire_bytes, &frame));
        }
        bytes
    }
}

fn in_gre(inner: &[u8], inner_bytes: u32, is_ipv4: bool) -> Vec<u8> {
    let header = Ipv4 {
        source: [203, 0, 113, 1],
        destination: [203, 0, 113, 2],
        protocol: 47,
        identification: 0,
        total_bytes: Some((inner_bytes + 24).min(65_535) as u16),
        ..Ipv4::default()
    };
    let ethertype: [u8; 2] = if is_ipv4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    header.bytes(&[&[0, 0], &ethertype, inner].concat())
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
        match (self.source.0, self.destination.0) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Ipv4 {
                source: source.octets(),
                destination: destination.octets(),
                protocol: self.protocol(),
                identification: self.identification,
                ttl: self.ttl,
                type_of_service: self.tos,
                flags_and_offset: self.fragment_field(),
                // longer super-segments have the length 0, as Linux writes them
                total_bytes: Some(u16::try_from(total).unwrap_or(0)),
                ..Ipv4::default()
            }
            .bytes(&transport),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Ipv6 {
                source: source.octets(),
                destination: destination.octets(),
                next: match self.protocol() {
                    1 => 58,
                    other => other,
                },
                hop_limit: self.ttl,
                traffic_class: self.tos,
                payload_bytes: Some((total - 40) as u16),
            }
            .bytes(&transport),
            _ => panic!("both ends of a packet have addresses of one family"),
        }
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
        let ports = (self.source.1, self.destination.1);
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
                let options = TcpOptions {
                    mss: *mss,
                    timestamps: *timestamps,
                    sack,
                    ..TcpOptions::default()
                };
                Tcp {
                    ports,
                    sequence: *sequence,
                    acknowledgment: *acknowledgment,
                    flags: *flags,
                    window: *window,
                    checksum: 0,
                    options: options.bytes(),
                    payload: Vec::new(),
                }
                .bytes()
            }
            Body::Udp(payload) => Udp {
                ports,
                checksum: 0,
                payload,
            }
            .bytes(),
            Body::Icmp(kind, code, rest) => {
                let mut bytes = vec![*kind, *code, 0, 0];
                bytes.extend(rest);
                bytes
            }
            Body::Fragment(_, _, payload) => payload.clone(),
        }
    }
}
