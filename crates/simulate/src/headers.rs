//! Headers of the link, network and transport layers, as a real stack writes them.

use std::net::IpAddr;

use etherparse::{
    EtherType, Ethernet2Header, IpDscp, IpEcn, IpNumber, Ipv4Header, Ipv6Header, TcpHeader,
    TcpOptionElement,
};
use whydrop_hosts::{Segment, Toward, WINDOW_SCALE, flags};
use whydrop_path::Ecn;

/// The fields of the IP header besides addresses and lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpMarks {
    pub ttl: u8,
    pub dscp: u8,
    pub ecn: Ecn,
    pub identification: u16,
}

/// The two ends of a TCP connection, with all that its headers need besides the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    pub client_port: u16,
    pub server_port: u16,
    pub client_isn: u32,
    pub server_isn: u32,
    pub mss: u16,
    pub sack: bool,
}

/// Frames are not padded to the 60 bytes of IEEE 802.3: a host's own sniffer sees them before padding.
pub(crate) fn push_ethernet(frame: &mut Vec<u8>, toward: Toward, ether_type: EtherType) {
    const NEAR_CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const NEAR_SERVER: [u8; 6] = [2, 0, 0, 0, 0, 2];
    let (destination, source) = match toward {
        Toward::Client => (NEAR_CLIENT, NEAR_SERVER),
        Toward::Server => (NEAR_SERVER, NEAR_CLIENT),
    };
    let header = Ethernet2Header {
        source,
        destination,
        ether_type,
    };
    frame.extend_from_slice(&header.to_bytes());
}

/// Appends the IPv4 or IPv6 header of a packet with this payload length.
///
/// A length of 0 means "too long for the field", as kernels write for the largest super-segments (BIG TCP).
pub(crate) fn push_ip(
    out: &mut Vec<u8>,
    source: IpAddr,
    destination: IpAddr,
    marks: IpMarks,
    protocol: IpNumber,
    carried_bytes: usize,
) {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = Ipv4Header {
                dscp: IpDscp::try_new(marks.dscp).expect("code points have six bits"),
                ecn: IpEcn::try_new(marks.ecn.bits()).expect("two bits"),
                total_len: u16::try_from(Ipv4Header::MIN_LEN + carried_bytes).unwrap_or(0),
                identification: marks.identification,
                dont_fragment: true,
                time_to_live: marks.ttl,
                protocol,
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv4Header::default()
            };
            header.header_checksum = header.calc_header_checksum();
            out.extend_from_slice(&header.to_bytes());
        }
        (source, destination) => {
            let header = Ipv6Header {
                traffic_class: marks.dscp << 2 | marks.ecn.bits(),
                payload_length: u16::try_from(carried_bytes).unwrap_or(0),
                next_header: protocol,
                hop_limit: marks.ttl,
                source: ipv6_octets(source),
                destination: ipv6_octets(destination),
                ..Ipv6Header::default()
            };
            out.extend_from_slice(&header.to_bytes());
        }
    }
}

pub(crate) fn ipv6_octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The TCP header of a segment with its checksum (RFC 9293). The checksum is 0 if the segment is too long for it; a
/// network card would compute it.
pub(crate) fn tcp(
    segment: &Segment,
    ends: &Endpoints,
    source: IpAddr,
    destination: IpAddr,
    payload: &[u8],
) -> TcpHeader {
    let mut header = tcp_without_checksum(segment, ends);
    header.checksum = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            header.calc_checksum_ipv4_raw(source.octets(), destination.octets(), payload)
        }
        _ => header.calc_checksum_ipv6_raw(ipv6_octets(source), ipv6_octets(destination), payload),
    }
    .unwrap_or(0);
    header
}

fn tcp_without_checksum(segment: &Segment, ends: &Endpoints) -> TcpHeader {
    let client = (ends.client_port, ends.client_isn);
    let server = (ends.server_port, ends.server_isn);
    let ((port, isn), (other_port, other_isn)) = match segment.toward {
        Toward::Client => (server, client),
        Toward::Server => (client, server),
    };
    let has = |flag| segment.flags & flag != 0;
    // The window of a SYN is not scaled (RFC 7323, section 2.2).
    let window = segment.window_bytes >> if has(flags::SYN) { 0 } else { WINDOW_SCALE };
    let mut header = TcpHeader::new(
        port,
        other_port,
        isn.wrapping_add(segment.sequence as u32),
        u16::try_from(window).unwrap_or(u16::MAX),
    );
    header.fin = has(flags::FIN);
    header.syn = has(flags::SYN);
    header.rst = has(flags::RST);
    header.psh = has(flags::PSH);
    header.ece = has(flags::ECE);
    header.cwr = has(flags::CWR);
    header.ack = has(flags::ACK);
    if header.ack {
        header.acknowledgment_number = other_isn.wrapping_add(segment.acknowledgment as u32);
    }
    let options = if header.syn {
        syn_options(segment, ends)
    } else {
        options(segment, other_isn)
    };
    header
        .set_options(&options)
        .expect("no more than 40 bytes: three blocks beside timestamps");
    header
}

fn syn_options(segment: &Segment, ends: &Endpoints) -> Vec<TcpOptionElement> {
    use TcpOptionElement::{
        MaximumSegmentSize, Noop, SelectiveAcknowledgementPermitted, Timestamp, WindowScale,
    };
    let mut options = vec![MaximumSegmentSize(ends.mss)];
    let permitted: &[_] = match ends.sack {
        true => &[SelectiveAcknowledgementPermitted],
        false => &[Noop, Noop],
    };
    match segment.timestamps {
        Some((value, echo)) => {
            options.extend_from_slice(permitted);
            options.push(Timestamp(value, echo));
        }
        None => {
            options.extend([Noop, Noop]);
            options.extend_from_slice(permitted);
        }
    }
    options.extend([Noop, WindowScale(WINDOW_SCALE)]);
    options
}

fn options(segment: &Segment, other_isn: u32) -> Vec<TcpOptionElement> {
    use TcpOptionElement::{Noop, SelectiveAcknowledgement, Timestamp};
    let mut options = Vec::new();
    if let Some((value, echo)) = segment.timestamps {
        options.extend([Noop, Noop, Timestamp(value, echo)]);
    }
    let number = |relative: u64| other_isn.wrapping_add(relative as u32);
    let mut blocks = segment
        .sack
        .as_slice()
        .iter()
        .map(|&(start, end)| (number(start), number(end)));
    if let Some(first) = blocks.next() {
        let others = std::array::from_fn(|_| blocks.next());
        options.extend([Noop, Noop, SelectiveAcknowledgement(first, others)]);
    }
    options
}
