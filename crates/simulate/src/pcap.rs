//! Captures as libpcap files: Ethernet, IPv4 and TCP headers as a real stack writes them.

use std::io::{self, Write};

use crate::segment::{Segment, Toward, flags};

/// Resolution of the time stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    Nanoseconds,
    Microseconds,
}

/// What does not change during a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    pub client: [u8; 4],
    pub server: [u8; 4],
    pub client_port: u16,
    pub server_port: u16,
    pub client_isn: u32,
    pub server_isn: u32,
    pub mss: u16,
    pub client_window_scale: u8,
    pub server_window_scale: u8,
    pub sack: bool,
    /// Time to live at the point of capture, of what comes from the client and from the server.
    pub client_ttl: u8,
    pub server_ttl: u8,
}

impl Endpoints {
    /// Two hosts as Linux sets them up; addresses and times to live are left to whoever writes the IP header.
    pub fn for_ports(
        client_port: u16,
        server_port: u16,
        client_isn: u32,
        server_isn: u32,
        mss: u16,
    ) -> Self {
        let scale = crate::segment::WINDOW_SCALE;
        Self {
            client: [0; 4],
            server: [0; 4],
            client_port,
            server_port,
            client_isn,
            server_isn,
            mss,
            client_window_scale: scale,
            server_window_scale: scale,
            sack: true,
            client_ttl: 64,
            server_ttl: 64,
        }
    }
}

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
/// The type of an Ethernet capture (LINKTYPE_ETHERNET).
const LINK_TYPE: u32 = 1;

pub struct Writer<W: Write> {
    out: W,
    snaplen: usize,
    resolution: Resolution,
    frame: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W, snaplen: u32, resolution: Resolution) -> io::Result<Self> {
        let magic: u32 = match resolution {
            Resolution::Nanoseconds => 0xa1b2_3c4d,
            Resolution::Microseconds => 0xa1b2_c3d4,
        };
        out.write_all(&magic.to_le_bytes())?;
        out.write_all(&2u16.to_le_bytes())?;
        out.write_all(&4u16.to_le_bytes())?;
        out.write_all(&[0; 8])?;
        out.write_all(&snaplen.to_le_bytes())?;
        out.write_all(&LINK_TYPE.to_le_bytes())?;
        Ok(Self {
            out,
            snaplen: snaplen as usize,
            resolution,
            frame: Vec::new(),
        })
    }

    /// Write one frame that was seen at `time_ns`. `segment.payload_bytes` may be more than one MSS where the sender
    /// leaves segmentation to its network card.
    pub fn write(&mut self, time_ns: i64, segment: &Segment, ends: &Endpoints) -> io::Result<()> {
        build_frame(&mut self.frame, segment, ends);
        let wire_bytes = self.frame.len() + segment.payload_bytes as usize;
        let captured_bytes = wire_bytes.min(self.snaplen);
        self.write_header(time_ns, captured_bytes, wire_bytes)?;
        // The payload is all zeros.
        self.frame.resize(captured_bytes, 0);
        self.out.write_all(&self.frame)
    }

    /// Write one frame that is there as a whole.
    pub fn write_frame(&mut self, time_ns: i64, frame: &[u8]) -> io::Result<()> {
        let captured_bytes = frame.len().min(self.snaplen);
        self.write_header(time_ns, captured_bytes, frame.len())?;
        self.out.write_all(&frame[..captured_bytes])
    }

    /// Write the record of a frame without its last bytes: the file ends here.
    pub fn write_cut_frame(&mut self, time_ns: i64, frame: &[u8]) -> io::Result<()> {
        let captured_bytes = frame.len().min(self.snaplen);
        self.write_header(time_ns, captured_bytes, frame.len())?;
        self.out.write_all(&frame[..captured_bytes / 2])
    }

    fn write_header(
        &mut self,
        time_ns: i64,
        captured_bytes: usize,
        wire_bytes: usize,
    ) -> io::Result<()> {
        let fraction = time_ns.rem_euclid(1_000_000_000);
        let fraction = match self.resolution {
            Resolution::Nanoseconds => fraction,
            Resolution::Microseconds => fraction / 1_000,
        };
        for field in [
            time_ns.div_euclid(1_000_000_000) as u32,
            fraction as u32,
            captured_bytes as u32,
            wire_bytes as u32,
        ] {
            self.out.write_all(&field.to_le_bytes())?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

fn build_frame(frame: &mut Vec<u8>, segment: &Segment, ends: &Endpoints) {
    frame.clear();
    let (client_mac, server_mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let from_server = segment.toward == Toward::Client;
    let (to, from) = if from_server {
        (client_mac, server_mac)
    } else {
        (server_mac, client_mac)
    };
    frame.extend_from_slice(&to);
    frame.extend_from_slice(&from);
    frame.extend_from_slice(&[0x08, 0x00]);
    let (source, destination) = if from_server {
        (ends.server, ends.client)
    } else {
        (ends.client, ends.server)
    };
    let ttl = if from_server {
        ends.server_ttl
    } else {
        ends.client_ttl
    };
    push_ipv4(frame, segment, source, destination, ttl);
    push_tcp(frame, segment, ends);
    set_tcp_checksum(frame, segment.payload_bytes);
}

fn push_ipv4(
    frame: &mut Vec<u8>,
    segment: &Segment,
    source: [u8; 4],
    destination: [u8; 4],
    ttl: u8,
) {
    // Longer than the field only where the kernel would write 0 for "too big" (BIG TCP), which is never reached here.
    let total_bytes = u16::try_from(segment.ip_bytes()).unwrap_or(0);
    let start = frame.len();
    frame.extend_from_slice(&[0x45, segment.ecn.bits()]);
    frame.extend_from_slice(&total_bytes.to_be_bytes());
    frame.extend_from_slice(&segment.identification.to_be_bytes());
    frame.extend_from_slice(&[0x40, 0, ttl, 6, 0, 0]);
    frame.extend_from_slice(&source);
    frame.extend_from_slice(&destination);
    let checksum = fold(sum_words(&frame[start..start + IPV4_BYTES]));
    frame[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
}

pub(crate) fn push_tcp(frame: &mut Vec<u8>, segment: &Segment, ends: &Endpoints) {
    let from_server = segment.toward == Toward::Client;
    let (own_isn, other_isn) = if from_server {
        (ends.server_isn, ends.client_isn)
    } else {
        (ends.client_isn, ends.server_isn)
    };
    let (source, destination) = if from_server {
        (ends.server_port, ends.client_port)
    } else {
        (ends.client_port, ends.server_port)
    };
    let wrap = |isn: u32, relative: u64| isn.wrapping_add(relative as u32);
    let is_syn = segment.flags & flags::SYN != 0;
    let scale = if from_server {
        ends.server_window_scale
    } else {
        ends.client_window_scale
    };
    // The window of a SYN is not scaled (RFC 7323, section 2.2).
    let window = segment.window_bytes >> if is_syn { 0 } else { scale };
    let acknowledgment = if segment.flags & flags::ACK != 0 {
        wrap(other_isn, segment.acknowledgment)
    } else {
        0
    };
    frame.extend_from_slice(&source.to_be_bytes());
    frame.extend_from_slice(&destination.to_be_bytes());
    frame.extend_from_slice(&wrap(own_isn, segment.sequence).to_be_bytes());
    frame.extend_from_slice(&acknowledgment.to_be_bytes());
    let header_words = (20 + segment.option_bytes()) / 4;
    frame.extend_from_slice(&[(header_words as u8) << 4, segment.flags]);
    frame.extend_from_slice(&u16::try_from(window).unwrap_or(u16::MAX).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    if is_syn {
        push_syn_options(frame, segment, ends.mss, scale, ends.sack);
    } else {
        push_options(frame, segment, other_isn);
    }
}

fn push_syn_options(frame: &mut Vec<u8>, segment: &Segment, mss: u16, scale: u8, sack: bool) {
    frame.extend_from_slice(&[2, 4]);
    frame.extend_from_slice(&mss.to_be_bytes());
    let sack_permitted = if sack { [4, 2] } else { [1, 1] };
    match segment.timestamps {
        Some(timestamps) => {
            frame.extend_from_slice(&sack_permitted);
            push_timestamps(frame, timestamps);
        }
        None => {
            frame.extend_from_slice(&[1, 1]);
            frame.extend_from_slice(&sack_permitted);
        }
    }
    // With timestamps: 4 + 2 + 10 + 1 + 3 = 20; without: 4 + 2 + 2 + 4 = 12.
    frame.extend_from_slice(&[1, 3, 3, scale]);
}

fn push_options(frame: &mut Vec<u8>, segment: &Segment, other_isn: u32) {
    if let Some(timestamps) = segment.timestamps {
        frame.extend_from_slice(&[1, 1]);
        push_timestamps(frame, timestamps);
    }
    let blocks = segment.sack.as_slice();
    if !blocks.is_empty() {
        frame.extend_from_slice(&[1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for &(start, end) in blocks {
            frame.extend_from_slice(&other_isn.wrapping_add(start as u32).to_be_bytes());
            frame.extend_from_slice(&other_isn.wrapping_add(end as u32).to_be_bytes());
        }
    }
}

fn push_timestamps(frame: &mut Vec<u8>, (value, echo): (u32, u32)) {
    frame.extend_from_slice(&[8, 10]);
    frame.extend_from_slice(&value.to_be_bytes());
    frame.extend_from_slice(&echo.to_be_bytes());
}

/// Over pseudo-header, header and a payload of zeros, which adds only its length.
fn set_tcp_checksum(frame: &mut [u8], payload_bytes: u32) {
    let tcp = ETHERNET_BYTES + IPV4_BYTES;
    let addresses = sum_words(&frame[ETHERNET_BYTES + 12..tcp]);
    let length = (frame.len() - tcp) as u32 + payload_bytes;
    let checksum = fold(addresses + 6 + length + sum_words(&frame[tcp..]));
    frame[tcp + 16..tcp + 18].copy_from_slice(&checksum.to_be_bytes());
}

pub(crate) fn sum_words(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum()
}

pub(crate) fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{Reason, SackBlocks};

    #[test]
    fn an_ip_header_sums_to_zero_with_its_checksum() {
        // The example of RFC 1071's arithmetic on a well-known header: 4500 0073 0000 4000 4011 .. c0a80001 c0a800c7.
        let header: [u8; 20] = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
            0xc7,
        ];
        assert_eq!(fold(sum_words(&header)), 0xb861);
    }

    #[test]
    fn the_header_is_as_long_as_the_segment_says() {
        let mut sack = SackBlocks::default();
        sack.push((10, 20));
        sack.push((30, 40));
        for (flags, timestamps, sack) in [
            (flags::SYN, Some((1, 0)), SackBlocks::default()),
            (flags::SYN, None, SackBlocks::default()),
            (flags::ACK, Some((1, 2)), sack),
            (flags::ACK, None, sack),
            (flags::ACK, None, SackBlocks::default()),
        ] {
            let segment = Segment {
                flow: 0,
                toward: Toward::Server,
                flags,
                sequence: 1,
                acknowledgment: 1,
                payload_bytes: 0,
                window_bytes: 65_535,
                timestamps,
                sack,
                reason: Reason::New,
                identification: 7,
                ecn: whydrop_path::Ecn::NotCapable,
                held_ns: 0,
            };
            let ends = Endpoints {
                client: [10, 0, 0, 1],
                server: [10, 0, 0, 2],
                client_port: 5,
                server_port: 6,
                client_isn: u32::MAX,
                server_isn: 9,
                mss: 1_460,
                client_window_scale: 7,
                server_window_scale: 7,
                sack: true,
                client_ttl: 60,
                server_ttl: 64,
            };
            let mut frame = Vec::new();
            build_frame(&mut frame, &segment, &ends);
            assert_eq!(frame.len() as u32, 14 + segment.ip_bytes());
        }
    }
}
