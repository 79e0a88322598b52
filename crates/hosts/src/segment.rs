//! A TCP segment between the hosts.

use whydrop_path::Ecn;

/// Linux's default for a receive buffer of 6 MB.
pub const WINDOW_SCALE: u8 = 7;

/// The host of a connection that a segment is sent to. Data flows from server to client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toward {
    Client,
    Server,
}

/// The TCP flags used here, as in the header's low bits.
pub mod flags {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
    /// RFC 3168, section 6.1: a mark is echoed, and the window was reduced for it.
    pub const ECE: u8 = 0x40;
    pub const CWR: u8 = 0x80;
}

/// Why data is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reason {
    /// It was not sent before.
    #[default]
    New,
    /// Presumed lost because of acknowledgments.
    FastRetransmission,
    /// Presumed lost because the timer expired.
    Timeout,
    /// To provoke an acknowledgment of the tail.
    TailLossProbe,
}

impl Reason {
    pub fn is_by_timer(self) -> bool {
        matches!(self, Self::Timeout | Self::TailLossProbe)
    }

    /// The reasons that are retransmissions.
    pub const RETRANSMISSIONS: [Reason; 3] = [
        Reason::FastRetransmission,
        Reason::Timeout,
        Reason::TailLossProbe,
    ];

    pub fn is_retransmission(self) -> bool {
        self != Reason::New
    }

    /// The name in a truth file.
    pub fn name(self) -> &'static str {
        match self {
            Reason::New => "new",
            Reason::FastRetransmission => "fast",
            Reason::Timeout => "timeout",
            Reason::TailLossProbe => "tail-loss-probe",
        }
    }
}

/// A range of sequence numbers, `end` not included.
pub type Range = (u64, u64);

/// Takes the ranges that touch this one out of a list, and returns it joined with them.
pub fn join(ranges: &mut Vec<Range>, mut joined: Range) -> Range {
    ranges.retain(|range| {
        let touches = range.0 <= joined.1 && joined.0 <= range.1;
        if touches {
            joined = (joined.0.min(range.0), joined.1.max(range.1));
        }
        !touches
    });
    joined
}

/// Up to four SACK blocks (three with timestamps), a duplicate SACK first (RFC 2883).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [Range; 4],
    count: u8,
}

impl SackBlocks {
    pub fn push(&mut self, block: Range) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.count)) {
            *place = block;
            self.count += 1;
        }
    }

    pub fn as_slice(&self) -> &[Range] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// Sequence numbers count from 0 for the SYN, do not wrap, and are relative to their own direction; the capture writer
/// adds the initial sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Index of the connection, in the order of the scenario.
    pub flow: usize,
    pub toward: Toward,
    pub flags: u8,
    pub sequence: u64,
    pub acknowledgment: u64,
    pub payload_bytes: u32,
    /// Receive window in bytes, unscaled.
    pub window_bytes: u32,
    /// (TSval, TSecr), if the connection uses them.
    pub timestamps: Option<(u32, u32)>,
    pub sack: SackBlocks,
    pub reason: Reason,
    /// IPv4 identification.
    pub identification: u16,
    /// As sent; elements may have marked it since.
    pub ecn: Ecn,
    /// How long the receiver delayed this acknowledgment to wait for a second segment or a timer.
    pub delay_ns: i64,
}

impl Segment {
    /// Length of the TCP options, padded to whole words (RFC 9293, 7323, 2018).
    pub fn option_bytes(&self) -> u32 {
        let is_syn = self.flags & flags::SYN != 0;
        // A SYN carries MSS (4), SACK permitted (2), window scale (3), and timestamps (10), with padding.
        match (is_syn, self.timestamps.is_some()) {
            (true, true) => 20,
            (true, false) => 12,
            (false, with_timestamps) => {
                let blocks = self.sack.as_slice().len() as u32;
                let sack = if blocks > 0 { 4 + 8 * blocks } else { 0 };
                sack + if with_timestamps { 12 } else { 0 }
            }
        }
    }

    /// True for a pure acknowledgment.
    pub fn is_pure_acknowledgment(&self) -> bool {
        self.payload_bytes == 0 && self.flags & !flags::ECE == flags::ACK
    }

    /// Length of the IPv4 packet.
    pub fn ip_bytes(&self) -> u32 {
        20 + 20 + self.option_bytes() + self.payload_bytes
    }

    /// First sequence number after this segment.
    pub fn end(&self) -> u64 {
        let phantom =
            u64::from(self.flags & flags::SYN != 0) + u64::from(self.flags & flags::FIN != 0);
        self.sequence + u64::from(self.payload_bytes) + phantom
    }
}
