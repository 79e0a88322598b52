//! Capture files: pcap, and blocks of pcapng.

/// Link type of Ethernet.
const ETHERNET: u16 = 1;

/// The order of the bytes in a file's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    Little,
    Big,
}

/// A pcap file.
pub struct PcapFile {
    pub order: ByteOrder,
    pub nanoseconds: bool,
    pub link: u16,
    pub snaplen_bytes: u32,
}

impl Default for PcapFile {
    fn default() -> Self {
        Self {
            order: ByteOrder::Little,
            nanoseconds: true,
            link: ETHERNET,
            snaplen_bytes: 65_535,
        }
    }
}

fn put16(order: ByteOrder, value: u16) -> [u8; 2] {
    match order {
        ByteOrder::Little => value.to_le_bytes(),
        ByteOrder::Big => value.to_be_bytes(),
    }
}

/// The bytes of a number.
pub fn put32(order: ByteOrder, value: u32) -> [u8; 4] {
    match order {
        ByteOrder::Little => value.to_le_bytes(),
        ByteOrder::Big => value.to_be_bytes(),
    }
}

impl PcapFile {
    pub fn header(&self) -> Vec<u8> {
        let magic = if self.nanoseconds {
            0xa1b2_3c4d
        } else {
            0xa1b2_c3d4
        };
        let mut bytes = put32(self.order, magic).to_vec();
        bytes.extend(put16(self.order, 2));
        bytes.extend(put16(self.order, 4));
        bytes.extend([0; 8]);
        bytes.extend(put32(self.order, self.snaplen_bytes));
        bytes.extend(put32(self.order, u32::from(self.link)));
        bytes
    }

    pub fn record(&self, time_ns: i64, wire_bytes: u32, frame: &[u8]) -> Vec<u8> {
        let (seconds, rest) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let fraction = if self.nanoseconds { rest } else { rest / 1000 };
        let mut bytes = Vec::new();
        for value in [
            seconds as u32,
            fraction as u32,
            frame.len() as u32,
            wire_bytes,
        ] {
            bytes.extend(put32(self.order, value));
        }
        bytes.extend(frame);
        bytes
    }

    /// A file of completely captured frames.
    pub fn of(&self, frames: &[(i64, &[u8])]) -> Vec<u8> {
        let mut bytes = self.header();
        for (time_ns, frame) in frames {
            bytes.extend(self.record(*time_ns, frame.len() as u32, frame));
        }
        bytes
    }
}

/// A block of pcapng, body padded.
pub fn block(order: ByteOrder, kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = body.len().wrapping_neg() & 3;
    let total = put32(order, (body.len() + padding + 12) as u32);
    [
        &put32(order, kind)[..],
        &total,
        body,
        &[0; 3][..padding],
        &total,
    ]
    .concat()
}

/// An option of a block, padded.
pub fn option(order: ByteOrder, code: u16, value: &[u8]) -> Vec<u8> {
    let padding = value.len().wrapping_neg() & 3;
    [
        &put16(order, code)[..],
        &put16(order, value.len() as u16),
        value,
        &[0; 3][..padding],
    ]
    .concat()
}

/// A section header block.
pub fn section_header(order: ByteOrder) -> Vec<u8> {
    let body = [
        &put32(order, 0x1a2b_3c4d)[..],
        &put16(order, 1),
        &put16(order, 0),
        &[0xff; 8],
    ]
    .concat();
    block(order, 0x0a0d_0d0a, &body)
}

/// An interface description block.
pub fn interface(order: ByteOrder, link: u16, snaplen_bytes: u32, options: &[u8]) -> Vec<u8> {
    let body = [
        &put16(order, link)[..],
        &[0, 0],
        &put32(order, snaplen_bytes),
        options,
    ]
    .concat();
    block(order, 1, &body)
}

/// An enhanced packet block of a completely captured frame.
pub fn enhanced_packet(
    order: ByteOrder,
    interface: u32,
    ticks: u64,
    frame: &[u8],
    options: &[u8],
) -> Vec<u8> {
    let padding = frame.len().wrapping_neg() & 3;
    let captured = put32(order, frame.len() as u32);
    let body = [
        &put32(order, interface)[..],
        &put32(order, (ticks >> 32) as u32),
        &put32(order, ticks as u32),
        &captured,
        &captured,
        frame,
        &[0; 3][..padding],
        options,
    ]
    .concat();
    block(order, 6, &body)
}
