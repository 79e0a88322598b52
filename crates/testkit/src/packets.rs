//! Headers of the link, network and transport layers, and what they carry.

pub const ACK: u16 = 0x10;
/// NOP, NOP, timestamps: value 1000, echo 2000.
pub const TIMESTAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 3, 232, 0, 0, 7, 208];

/// A TCP segment.
#[derive(Debug, Clone)]
pub struct Tcp {
    pub ports: (u16, u16),
    pub sequence: u32,
    pub acknowledgment: u32,
    pub flags: u16,
    pub window: u16,
    pub checksum: u16,
    /// They must fill whole words.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            ports: (40_000, 443),
            sequence: 0x0102_0304,
            acknowledgment: 0x0506_0708,
            flags: ACK,
            window: 500,
            checksum: 0xabcd,
            options: TIMESTAMPS.to_vec(),
            payload: b"hello".to_vec(),
        }
    }
}

impl Tcp {
    pub fn bytes(&self) -> Vec<u8> {
        assert_eq!(self.options.len() % 4, 0);
        let words = 5 + self.options.len() as u16 / 4;
        let mut bytes = ports(self.ports);
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledgment.to_be_bytes());
        bytes.extend((words << 12 | self.flags).to_be_bytes());
        bytes.extend(self.window.to_be_bytes());
        bytes.extend(self.checksum.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(&self.options);
        bytes.extend(&self.payload);
        bytes
    }
}

/// Options of TCP, in the order in which Linux writes them.
#[derive(Debug, Clone, Default)]
pub struct TcpOptions<'a> {
    pub mss: Option<u16>,
    pub sack_permitted: bool,
    pub window_scale: Option<u8>,
    pub timestamps: Option<(u32, u32)>,
    pub sack: &'a [(u32, u32)],
}

impl TcpOptions<'_> {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(mss) = self.mss {
            bytes.extend([2, 4]);
            bytes.extend(mss.to_be_bytes());
        }
        if self.sack_permitted {
            bytes.extend([1, 1, 4, 2]);
        }
        if let Some(shift) = self.window_scale {
            bytes.extend([1, 3, 3, shift]);
        }
        if let Some((value, echo)) = self.timestamps {
            bytes.extend([1, 1, 8, 10]);
            bytes.extend(value.to_be_bytes());
            bytes.extend(echo.to_be_bytes());
        }
        if !self.sack.is_empty() {
            bytes.extend([1, 1, 5, 2 + 8 * self.sack.len() as u8]);
            for (left, right) in self.sack {
                bytes.extend(left.to_be_bytes());
                bytes.extend(right.to_be_bytes());
            }
        }
        bytes
    }
}

/// A UDP datagram.
#[derive(Debug, Clone, Default)]
pub struct Udp<'a> {
    pub ports: (u16, u16),
    pub checksum: u16,
    pub payload: &'a [u8],
}

impl Udp<'_> {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = ports(self.ports);
        bytes.extend((self.payload.len() as u16 + 8).to_be_bytes());
        bytes.extend(self.checksum.to_be_bytes());
        bytes.extend(self.payload);
        bytes
    }
}

fn ports((source, destination): (u16, u16)) -> Vec<u8> {
    [source.to_be_bytes(), destination.to_be_bytes()].concat()
}

/// An IPv4 header.
#[derive(Debug, Clone)]
pub struct Ipv4 {
    pub source: [u8; 4],
    pub destination: [u8; 4],
    pub protocol: u8,
    pub identification: u16,
    pub ttl: u8,
    pub type_of_service: u8,
    pub flags_and_offset: u16,
    pub options: Vec<u8>,
    /// Instead of the true total length.
    pub total_bytes: Option<u16>,
    /// With the right checksum, instead of 0.
    pub is_summed: bool,
}

impl Default for Ipv4 {
    fn default() -> Self {
        Self {
            source: [10, 0, 0, 1],
            destination: [10, 0, 0, 2],
            protocol: 6,
            identification: 7,
            ttl: 64,
            type_of_service: 0,
            flags_and_offset: 0x4000,
            options: Vec::new(),
            total_bytes: None,
            is_summed: false,
        }
    }
}

impl Ipv4 {
    pub fn bytes(&self, body: &[u8]) -> Vec<u8> {
        let header = 20 + self.options.len();
        let total = self.total_bytes.unwrap_or((header + body.len()) as u16);
        let mut bytes = vec![0x40 | (header / 4) as u8, self.type_of_service];
        bytes.extend(total.to_be_bytes());
        bytes.extend(self.identification.to_be_bytes());
        bytes.extend(self.flags_and_offset.to_be_bytes());
        bytes.extend([self.ttl, self.protocol, 0, 0]);
        bytes.extend(self.source);
        bytes.extend(self.destination);
        bytes.extend(&self.options);
        if self.is_summed {
            let sum = !ones_complement_sum(&bytes);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        bytes.extend(body);
        bytes
    }
}

/// The sum of RFC 1071.
fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2);
    let mut sum: u32 = words
        .map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// An IPv6 header.
#[derive(Debug, Clone)]
pub struct Ipv6 {
    pub source: [u8; 16],
    pub destination: [u8; 16],
    pub next: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    /// Instead of the true length of the payload.
    pub payload_bytes: Option<u16>,
}

impl Default for Ipv6 {
    fn default() -> Self {
        let host = |last| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        Self {
            source: host(1),
            destination: host(2),
            next: 6,
            hop_limit: 60,
            traffic_class: 0x2a,
            payload_bytes: None,
        }
    }
}

impl Ipv6 {
    pub fn bytes(&self, body: &[u8]) -> Vec<u8> {
        let first = 0x6000_0000 | u32::from(self.traffic_class) << 20;
        let length = self.payload_bytes.unwrap_or(body.len() as u16);
        let mut bytes = first.to_be_bytes().to_vec();
        bytes.extend(length.to_be_bytes());
        bytes.extend([self.next, self.hop_limit]);
        bytes.extend(self.source);
        bytes.extend(self.destination);
        bytes.extend(body);
        bytes
    }
}

/// A frame of Ethernet.
pub fn ethernet(ethertype: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_where_the_standards_have_them() {
        // the example of RFC 1071 applied to a header: its sum with the checksum is all ones
        let packet = Ipv4 {
            is_summed: true,
            ..Ipv4::default()
        };
        let bytes = packet.bytes(&Tcp::default().bytes());
        assert_eq!(ones_complement_sum(&bytes[..20]), 0xffff);
        assert_eq!((bytes.len(), bytes[0], bytes[9]), (57, 0x45, 6));
        assert_eq!(bytes[20..24], [0x9c, 0x40, 0x01, 0xbb]);
        assert_eq!(bytes[32..34], [0x80, 0x10]);
        let datagram = Udp {
            ports: (5000, 53),
            payload: b"x",
            ..Udp::default()
        };
        let over_6 = Ipv6 {
            next: 17,
            ..Ipv6::default()
        };
        let bytes = over_6.bytes(&datagram.bytes());
        assert_eq!((bytes.len(), bytes[0], bytes[1]), (49, 0x62, 0xa0));
        assert_eq!(bytes[40..], [0x13, 0x88, 0, 53, 0, 9, 0, 0, b'x']);
    }

    #[test]
    fn options_fill_whole_words() {
        let options = TcpOptions {
            mss: Some(1460),
            sack_permitted: true,
            window_scale: Some(7),
            timestamps: Some((1, 2)),
            sack: &[(3, 4)],
        };
        assert_eq!(options.bytes().len(), 4 + 4 + 4 + 12 + 12);
        assert!(TcpOptions::default().bytes().is_empty());
    }
}
