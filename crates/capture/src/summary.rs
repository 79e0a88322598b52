//! The summary of a capture.

use crate::packet::Transport;
use crate::ticks::Timeless;

/// A capture as a whole, up to the last packet read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// The files in the order read; `-` is standard input.
    pub paths: Vec<String>,
    /// `pcap`, `pcapng`, `pcap.xz`, ...; separated by `, ` if files differ.
    pub format: String,
    /// Packets in the files, including duplicates.
    pub packets: u64,
    /// Earliest and latest capture time, ns since the Unix epoch, UTC; `None` without packets.
    pub first_ns: Option<i64>,
    pub last_ns: Option<i64>,
    /// Why the timestamps show no time; `None` if they do.
    pub timeless: Option<Timeless>,
    /// Names of the interfaces' link types, each once.
    pub link_types: Vec<String>,
    /// The largest snapshot length of the interfaces, bytes; `None` if one states no limit.
    pub snaplen_bytes: Option<u32>,
    /// A file ends in the middle of a packet or is damaged; `notes` say where.
    pub truncated: bool,
    /// Notes on the capture for the user, one line each.
    pub notes: Vec<String>,
    /// All packets by their contents, including duplicates: the kinds add up to `packets`.
    pub kinds: PacketKinds,
    /// Packets captured twice, which `next_packet` leaves out unless `keep_duplicates` is set.
    pub duplicates: u64,
    /// Of the duplicates, frames that a wireless station retransmitted (802.11 retries).
    pub link_retries: u64,
    /// Frames that were not read down to a transport header, by their contents; most frequent first.
    pub unread: Vec<(String, u64)>,
    /// Where originals and duplicates were captured, in descending order of duplicates.
    pub copies: Vec<Copies>,
    /// Number of connections captured on both sides of address translation, which are returned with the ends captured
    /// first; and the first of them.
    pub translated_connections: u64,
    pub translations: Vec<Translation>,
    /// Packets with an earlier timestamp than the packet before them.
    pub out_of_order: u64,
    /// Packets that the selection left out.
    pub left_out: u64,
    /// Packets that the capturing host reports as dropped, if it reports any (pcapng).
    pub dropped_by_capture: Option<u64>,
}

/// Packets captured at one point and again at another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copies {
    /// Descriptions of the points; empty if only the hop limit distinguishes them.
    pub first: String,
    pub copy: String,
    /// How many more hops the duplicates had passed; negative for fewer.
    pub hops_further: i16,
    pub packets: u64,
}

/// A connection on both sides of address translation, by its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translation {
    pub kept: String,
    pub copy: String,
}

/// Packets counted by their contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketKinds {
    pub tcp: u64,
    pub udp: u64,
    pub icmp: u64,
    /// IP fragments other than the first of their packet.
    pub fragment: u64,
    /// Other IP protocols.
    pub other_ip: u64,
    pub not_ip: u64,
    /// Truncated or contradictory before the end of the transport header, or with a link type that is not decoded.
    pub undecodable: u64,
}

impl PacketKinds {
    #[inline(always)]
    pub(crate) fn count(&mut self, transport: &Transport<'_>) {
        let counter = match transport {
            Transport::Tcp(_) => &mut self.tcp,
            Transport::Udp { .. } => &mut self.udp,
            Transport::Icmp { .. } => &mut self.icmp,
            Transport::Fragment => &mut self.fragment,
            Transport::OtherProtocol(_) => &mut self.other_ip,
            Transport::NotIp(_) => &mut self.not_ip,
            Transport::Undecodable => &mut self.undecodable,
        };
        *counter += 1;
    }

    /// The sum over all kinds.
    pub fn total(&self) -> u64 {
        self.tcp
            + self.udp
            + self.icmp
            + self.fragment
            + self.other_ip
            + self.not_ip
            + self.undecodable
    }
}

/// Formats a number of packets.
pub(crate) fn packets(count: u64) -> String {
    match count {
        1 => "1 packet".into(),
        _ => format!("{count} packets"),
    }
}
