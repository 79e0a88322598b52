//! Captures as libpcap files: Ethernet, IPv4 and TCP headers as a real stack writes them.

use std::io::{self, Write};
use std::net::IpAddr;

use etherparse::{EtherType, ip_number};
use whydrop_hosts::{Segment, Toward};

use crate::headers::{self, IpMarks};

/// Resolution of the timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    Nanoseconds,
    Microseconds,
}

/// The addresses and ports, constant during a connection.
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
    /// Time to live at the point of capture, in packets from the client and from the server.
    pub client_ttl: u8,
    pub server_ttl: u8,
}

impl Endpoints {
    /// Two hosts as Linux configures them; the writer of the IP header sets addresses and times to live.
    pub fn for_ports(
        client_port: u16,
        server_port: u16,
        client_isn: u32,
        server_isn: u32,
        mss: u16,
    ) -> Self {
        let scale = whydrop_hosts::WINDOW_SCALE;
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

    /// Writes one frame that was seen at `time_ns`. `segment.payload_bytes` may exceed one MSS if the sender leaves
    /// segmentation to its network card.
    pub fn write(&mut self, time_ns: i64, segment: &Segment, ends: &Endpoints) -> io::Result<()> {
        build_frame(&mut self.frame, segment, ends);
        let wire_bytes = self.frame.len() + segment.payload_bytes as usize;
        let captured_bytes = wire_bytes.min(self.snaplen);
        self.write_header(time_ns, captured_bytes, wire_bytes)?;
        // The payload is all zeros.
        self.frame.resize(captured_bytes, 0);
        self.out.write_all(&self.frame)
    }

    /// Writes one complete frame.
    pub fn write_frame(&mut self, time_ns: i64, frame: &[u8]) -> io::Result<()> {
        let captured_bytes = frame.len().min(self.snaplen);
        self.write_header(time_ns, captured_bytes, frame.len())?;
        self.out.write_all(&frame[..captured_bytes])
    }

    /// Writes the record of a frame without its last bytes, as the end of a cut file.
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
    let (source, destination, ttl) = match segment.toward {
        Toward::Client => (ends.server, ends.client, ends.server_ttl),
        Toward::Server => (ends.client, ends.server, ends.client_ttl),
    };
    let (source, destination) = (IpAddr::from(source), IpAddr::from(destination));
    let marks = IpMarks {
        ttl,
        dscp: 0,
        ecn: segment.ecn,
        identification: segment.identification,
    };
    // A payload of zeros.
    let payload = vec![0; segment.payload_bytes as usize];
    let tcp = headers::tcp(segment, ends, source, destination, &payload);
    frame.clear();
    headers::push_ethernet(frame, segment.toward, EtherType::IPV4);
    let carried_bytes = tcp.header_len() + payload.len();
    headers::push_ip(
        frame,
        source,
        destination,
        marks,
        ip_number::TCP,
        carried_bytes,
    );
    frame.extend_from_slice(&tcp.to_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use whydrop_hosts::{Reason, SackBlocks, flags};

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
                delay_ns: 0,
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
