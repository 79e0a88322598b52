//! Makes one large capture out of small ones: a busy server's capture, to measure speed with.
//!
//!     cargo run --release -p whydrop-simulate --example replicate_captures -- PACKETS OUT.pcap CAPTURE...
//!
//! The captures (pcap on Ethernet, plain or zstd) are replayed in turn, eight at a time, until `PACKETS` packets are
//! written. Each replica has addresses of its own, with checksums to match, and starts when the one before it in its
//! lane has ended, so that eight pairs of hosts are always talking and their packets interleave.
//!
//! Where `PACKETS` is `once`, each capture is written once, one after the other.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Read, Write};

/// Replicas that run at the same time.
const LANES: usize = 8;
/// Time between the end of a replica and the start of the next one in its lane.
const PAUSE_NS: i64 = 50_000_000;
const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
const ETHERNET: u32 = 1;
const ETHERNET_BYTES: usize = 14;
/// Ethernet, IPv4 without options, TCP without options.
const SMALLEST_FRAME_BYTES: usize = ETHERNET_BYTES + 20 + 20;
/// Where the addresses and the checksums that cover them are, from the start of an IPv4 header without options.
const SOURCE: usize = 12;
const DESTINATION: usize = 16;
const IP_CHECKSUM: usize = 10;
const TCP_CHECKSUM: usize = 20 + 16;
const NS_PER_SECOND: i64 = 1_000_000_000;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [packets, out, captures @ ..] = arguments.as_slice() else {
        return Err("usage: replicate_captures PACKETS OUT.pcap CAPTURE...".into());
    };
    if captures.is_empty() {
        return Err("name at least one capture to replicate".into());
    }
    let templates = captures
        .iter()
        .map(|path| read_template(path).map_err(|error| format!("{path}: {error}")))
        .collect::<Result<Vec<_>, _>>()?;
    let (packets, lanes) = match packets.as_str() {
        "once" => (
            templates
                .iter()
                .map(|template| template.frames.len() as u64)
                .sum(),
            1,
        ),
        number => (
            number
                .parse()
                .map_err(|_| format!("PACKETS must be a whole number or once, not {number:?}"))?,
            LANES,
        ),
    };
    let mut file = BufWriter::with_capacity(1 << 20, File::create(out)?);
    replicate(&templates, packets, lanes, &mut file)?;
    file.flush()?;
    println!("{packets} packets");
    Ok(())
}

/// Writes a capture of `packets` packets with `lanes` replicas at a time.
fn replicate(
    templates: &[Template],
    packets: u64,
    lanes: usize,
    out: &mut impl Write,
) -> std::io::Result<()> {
    write_file_header(templates, out)?;
    let mut begun = 0;
    let mut next_replica = |start_ns: i64| {
        let replica = Replica {
            number: begun,
            template: &templates[begun as usize % templates.len()],
            start_ns,
            next: 0,
        };
        begun += 1;
        replica
    };
    let epoch_ns = templates[0].epoch_ns;
    let stagger_ns = templates[0].duration_ns / lanes as i64;
    let mut lanes: Vec<Replica> = (0..lanes)
        .map(|lane| next_replica(epoch_ns + lane as i64 * stagger_ns))
        .collect();
    let mut record = Vec::new();
    for _ in 0..packets {
        let lane = lanes
            .iter_mut()
            .min_by_key(|replica| replica.next_time_ns())
            .expect("there are always as many replicas as lanes");
        lane.build_next(&mut record);
        out.write_all(&record)?;
        if lane.next == lane.template.frames.len() {
            *lane = next_replica(lane.start_ns + lane.template.duration_ns + PAUSE_NS);
        }
    }
    Ok(())
}

/// A capture to replicate.
struct Template {
    epoch_ns: i64,
    duration_ns: i64,
    snaplen: u32,
    frames: Vec<Frame>,
    /// The hosts of the capture.
    addresses: Vec<[u8; 4]>,
}

struct Frame {
    /// Since the first frame.
    offset_ns: i64,
    wire_bytes: u32,
    bytes: Vec<u8>,
    /// Positions in [`Template::addresses`].
    source: usize,
    destination: usize,
}

fn read_template(path: &str) -> Result<Template, Box<dyn Error>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    if bytes.starts_with(&ZSTD_MAGIC) {
        bytes = zstd::decode_all(bytes.as_slice())?;
    }
    Template::parse(&bytes)
}

impl Template {
    fn parse(bytes: &[u8]) -> Result<Self, Box<dyn Error>> {
        if bytes.len() < FILE_HEADER_BYTES {
            return Err(format!("{} bytes are too few for a pcap header", bytes.len()).into());
        }
        let ns_per_unit = match u32_at(bytes, 0) {
            0xa1b2_c3d4 => 1_000,
            0xa1b2_3c4d => 1,
            magic => {
                return Err(format!(
                    "expected a little-endian pcap file (a1b2c3d4 or a1b23c4d), found {magic:08x}"
                )
                .into());
            }
        };
        let link_type = u32_at(bytes, 20);
        if link_type != ETHERNET {
            return Err(
                format!("expected Ethernet (link type 1), found link type {link_type}").into(),
            );
        }
        let mut template = Self {
            epoch_ns: 0,
            duration_ns: 0,
            snaplen: u32_at(bytes, 16),
            frames: Vec::new(),
            addresses: Vec::new(),
        };
        let mut rest = &bytes[FILE_HEADER_BYTES..];
        while rest.len() >= RECORD_HEADER_BYTES {
            let (header, after) = rest.split_at(RECORD_HEADER_BYTES);
            let time_ns = i64::from(u32_at(header, 0)) * NS_PER_SECOND
                + i64::from(u32_at(header, 4)) * ns_per_unit;
            let captured_bytes = u32_at(header, 8) as usize;
            let frame = after
                .get(..captured_bytes)
                .ok_or("the file ends within a packet")?;
            template.add(time_ns, u32_at(header, 12), frame);
            rest = &after[captured_bytes..];
        }
        if template.frames.is_empty() {
            return Err("holds no TCP packet over IPv4".into());
        }
        Ok(template)
    }

    /// Anything but TCP over IPv4 is left out: only that is measured.
    fn add(&mut self, time_ns: i64, wire_bytes: u32, bytes: &[u8]) {
        let is_tcp = bytes.len() >= SMALLEST_FRAME_BYTES
            && bytes[12..14] == [0x08, 0x00]
            && bytes[ETHERNET_BYTES] == 0x45
            && bytes[ETHERNET_BYTES + 9] == 6;
        if !is_tcp {
            return;
        }
        if self.frames.is_empty() {
            self.epoch_ns = time_ns;
        }
        let offset_ns = time_ns - self.epoch_ns;
        self.duration_ns = self.duration_ns.max(offset_ns);
        let source = self.host(&bytes[ETHERNET_BYTES + SOURCE..][..4]);
        let destination = self.host(&bytes[ETHERNET_BYTES + DESTINATION..][..4]);
        self.frames.push(Frame {
            offset_ns,
            wire_bytes,
            bytes: bytes.to_vec(),
            source,
            destination,
        });
    }

    fn host(&mut self, address: &[u8]) -> usize {
        let known = self.addresses.iter().position(|other| other == address);
        known.unwrap_or_else(|| {
            let address = address.try_into().expect("an IPv4 address has four bytes");
            self.addresses.push(address);
            self.addresses.len() - 1
        })
    }
}

/// A replay of a template, as far as it has come.
struct Replica<'a> {
    number: u32,
    template: &'a Template,
    start_ns: i64,
    /// Position of the frame to write next.
    next: usize,
}

impl Replica<'_> {
    fn next_time_ns(&self) -> i64 {
        self.start_ns + self.template.frames[self.next].offset_ns
    }

    fn build_next(&mut self, record: &mut Vec<u8>) {
        let time_ns = self.next_time_ns();
        let frame = &self.template.frames[self.next];
        self.next += 1;
        record.clear();
        for field in [
            (time_ns / NS_PER_SECOND) as u32,
            (time_ns % NS_PER_SECOND) as u32,
            frame.bytes.len() as u32,
            frame.wire_bytes,
        ] {
            record.extend_from_slice(&field.to_le_bytes());
        }
        record.extend_from_slice(&frame.bytes);
        let packet = &mut record[RECORD_HEADER_BYTES + ETHERNET_BYTES..];
        set_address(packet, SOURCE, self.address(frame.source));
        set_address(packet, DESTINATION, self.address(frame.destination));
    }

    /// 10.0.0.0/8 has room for 65 536 replicas of up to 254 hosts; further ones begin again.
    fn address(&self, host: usize) -> [u8; 4] {
        let [_, _, high, low] = self.number.to_be_bytes();
        [10, high, low, host as u8 + 1]
    }
}

/// Writes an address into an IPv4 packet. Its own checksum covers it; so does TCP's, through the pseudo-header.
fn set_address(packet: &mut [u8], at: usize, address: [u8; 4]) {
    for half in [0, 2] {
        let old = u16::from_be_bytes([packet[at + half], packet[at + half + 1]]);
        let new = u16::from_be_bytes([address[half], address[half + 1]]);
        update_checksum(&mut packet[IP_CHECKSUM..][..2], old, new);
        update_checksum(&mut packet[TCP_CHECKSUM..][..2], old, new);
    }
    packet[at..at + 4].copy_from_slice(&address);
}

/// RFC 1624, equation 3: `HC' = ~(~HC + ~m + m')`.
fn update_checksum(checksum: &mut [u8], old: u16, new: u16) {
    let before = u16::from_be_bytes([checksum[0], checksum[1]]);
    let mut sum = u32::from(!before) + u32::from(!old) + u32::from(new);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    checksum.copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

fn write_file_header(templates: &[Template], out: &mut impl Write) -> std::io::Result<()> {
    let snaplens = templates.iter().map(|template| template.snaplen);
    // Nanosecond time stamps, version 2.4.
    for field in [
        0xa1b2_3c4d,
        0x0004_0002,
        0,
        0,
        snaplens.max().unwrap_or(0),
        ETHERNET,
    ] {
        out.write_all(&u32::to_le_bytes(field))?;
    }
    Ok(())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: [u8; 4] = [192, 0, 2, 1];
    const SERVER: [u8; 4] = [198, 51, 100, 7];

    /// A frame of 54 bytes with both checksums right.
    fn frame(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![0; SMALLEST_FRAME_BYTES];
        frame[12] = 0x08;
        let packet = &mut frame[ETHERNET_BYTES..];
        packet[0] = 0x45;
        packet[3] = 40;
        packet[8..10].copy_from_slice(&[64, 6]);
        packet[SOURCE..][..4].copy_from_slice(&source);
        packet[DESTINATION..][..4].copy_from_slice(&destination);
        packet[20..24].copy_from_slice(&[0xd4, 0x31, 0x14, 0x51]);
        packet[32] = 0x50;
        let ip = !sum(&packet[..20]);
        let tcp = !pseudo_sum(packet);
        packet[IP_CHECKSUM..][..2].copy_from_slice(&ip.to_be_bytes());
        packet[TCP_CHECKSUM..][..2].copy_from_slice(&tcp.to_be_bytes());
        frame
    }

    fn sum(bytes: &[u8]) -> u16 {
        let words = bytes
            .chunks(2)
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// Over the pseudo-header (addresses, protocol 6, 20 bytes) and the TCP header.
    fn pseudo_sum(packet: &[u8]) -> u16 {
        sum(&[&packet[SOURCE..20], &[0, 6, 0, 20], &packet[20..]].concat())
    }

    /// Packets at 0, 5 and 10 ms, to and fro.
    fn template() -> Template {
        let mut template = Template {
            epoch_ns: 0,
            duration_ns: 0,
            snaplen: 128,
            frames: Vec::new(),
            addresses: Vec::new(),
        };
        template.add(7_000_000_000, 54, &frame(CLIENT, SERVER));
        template.add(7_005_000_000, 54, &frame(SERVER, CLIENT));
        template.add(7_010_000_000, 54, &frame(CLIENT, SERVER));
        template
    }

    fn records(packets: u64) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        replicate(&[template()], packets, LANES, &mut out).unwrap();
        let size = RECORD_HEADER_BYTES + SMALLEST_FRAME_BYTES;
        out[FILE_HEADER_BYTES..]
            .chunks(size)
            .map(<[u8]>::to_vec)
            .collect()
    }

    #[test]
    fn replicas_have_hosts_of_their_own_and_valid_checksums() {
        let records = records(240);
        assert_eq!(records.len(), 240);
        let mut pairs = std::collections::BTreeSet::new();
        for record in &records {
            let packet = &record[RECORD_HEADER_BYTES + ETHERNET_BYTES..];
            assert_eq!((sum(&packet[..20]), pseudo_sum(packet)), (0xffff, 0xffff));
            let mut pair = [
                packet[SOURCE..][..4].to_vec(),
                packet[DESTINATION..][..4].to_vec(),
            ];
            pair.sort();
            pairs.insert(pair);
        }
        // 240 packets are 80 replicas of three, of which eight run at a time: the last ones may be cut short
        assert!((80..=80 + LANES).contains(&pairs.len()), "{}", pairs.len());
    }

    #[test]
    fn replicas_interleave_in_the_order_of_time() {
        let records = records(240);
        let time = |record: &Vec<u8>| {
            i64::from(u32_at(record, 0)) * NS_PER_SECOND + i64::from(u32_at(record, 4))
        };
        assert!(records.is_sorted_by_key(time));
        // lanes start 10 ms / 8 apart: the second packet of a file is another lane's first
        assert_eq!(time(&records[1]) - time(&records[0]), 1_250_000);
    }

    #[test]
    fn a_file_that_is_no_pcap_is_refused_with_what_was_found() {
        let error = Template::parse(&[0; 24]).err().unwrap().to_string();
        assert!(error.ends_with("found 00000000"), "{error}");
    }
}
