//! Makes large captures out of small ones: those of a busy server, to measure speed with.
//!
//!     cargo run --release -p whydrop-simulate --example replicate_captures -- PACKETS OUT.pcap CAPTURE...
//!     cargo run --release -p whydrop-simulate --example replicate_captures -- pairs PACKETS OUT.pcap FAR_OUT.pcap \
//!         CAPTURE FAR_CAPTURE...
//!
//! The captures (pcap on Ethernet, plain or zstd) are replayed in turn, eight at a time, until `PACKETS` packets are
//! written. Each replica has addresses, sequence numbers, timestamps and identifications of its own, with checksums to
//! match, and starts when the one before it in its lane has ended, so that eight pairs of hosts are always talking and
//! their packets interleave.
//!
//! Where `PACKETS` is `once`, each capture is written once, one after the other.
//!
//! With `pairs`, captures of the same packets at two points of a path are replayed side by side, whole, until both
//! outputs hold `PACKETS` packets at least. The second clock is made to run ahead and slow.

#[path = "replicate/renumber.rs"]
mod renumber;
#[path = "replicate/template.rs"]
mod template;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};

use renumber::{DESTINATION, SOURCE, Shift, set_address};
use template::{ETHERNET, ETHERNET_BYTES, NS_PER_SECOND, RECORD_HEADER_BYTES, Template};

const USAGE: &str = "usage: replicate_captures PACKETS OUT.pcap CAPTURE...
       replicate_captures pairs PACKETS OUT.pcap FAR_OUT.pcap CAPTURE FAR_CAPTURE...";
/// Replicas that run at the same time.
const LANES: usize = 8;
/// Time between the end of a replica and the start of the next one in its lane.
const PAUSE_NS: i64 = 50_000_000;
/// How the second clock of a pair runs: so far ahead at first, and so much slower (parts per million).
const CLOCK_AHEAD_NS: i64 = 2_190_000;
const CLOCK_SLOW_PPM: i64 = 220;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [pairs, packets, near, far, captures @ ..] if pairs == "pairs" => {
            write_pair(packets, [near, far], &templates(captures, 2)?)
        }
        [packets, out, captures @ ..] => write_one(packets, out, &templates(captures, 1)?),
        _ => Err(USAGE.into()),
    }
}

/// Each of so many captures.
fn templates(captures: &[String], points: usize) -> Result<Vec<Template>, Box<dyn Error>> {
    if captures.is_empty() || !captures.len().is_multiple_of(points) {
        return Err(USAGE.into());
    }
    let templates = captures.chunks(points).map(Template::read);
    Ok(templates.collect::<Result<_, _>>()?)
}

fn write_one(packets: &str, out: &str, templates: &[Template]) -> Result<(), Box<dyn Error>> {
    let (packets, lanes) = match packets {
        "once" => (
            templates
                .iter()
                .map(|template| template.frames[0].len())
                .sum(),
            1,
        ),
        number => (whole_number(number)?, LANES),
    };
    let schedule = Schedule::new(templates, lanes);
    write_point(out, templates, 0, schedule, packets)?;
    println!("{packets} packets");
    Ok(())
}

fn write_pair(
    packets: &str,
    outs: [&str; 2],
    templates: &[Template],
) -> Result<(), Box<dyn Error>> {
    let wanted = whole_number(packets)?;
    let mut counts = [0; 2];
    let begun = Schedule::new(templates, LANES)
        .take_while(|replica| {
            let is_needed = counts.iter().any(|&count| count < wanted);
            for (count, frames) in counts.iter_mut().zip(&replica.template.frames) {
                *count += if is_needed { frames.len() } else { 0 };
            }
            is_needed
        })
        .count();
    for (point, out) in outs.into_iter().enumerate() {
        let schedule = Schedule::new(templates, LANES).take(begun);
        write_point(out, templates, point, schedule, usize::MAX)?;
    }
    println!("{} {} packets", counts[0], counts[1]);
    Ok(())
}

fn whole_number(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("PACKETS must be a whole number or once, not {text:?}"))
}

/// Writes what was captured at one point.
fn write_point<'a>(
    path: &str,
    templates: &[Template],
    point: usize,
    replicas: impl Iterator<Item = Replica<'a>>,
    packets: usize,
) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    write_file_header(templates, &mut out)?;
    let mut records = Merged::new(replicas, point);
    let mut record = Vec::new();
    for _ in 0..packets {
        if !records.next_into(&mut record) {
            break;
        }
        out.write_all(&record)?;
    }
    out.flush()
}

/// The replicas in the order of their beginnings: the same at every point.
struct Schedule<'a> {
    templates: &'a [Template],
    /// When the next replica of each lane begins.
    starts_ns: Vec<i64>,
    begun: u32,
}

impl<'a> Schedule<'a> {
    fn new(templates: &'a [Template], lanes: usize) -> Self {
        let stagger_ns = templates[0].duration_ns / lanes as i64;
        let starts_ns = (0..lanes as i64).map(|lane| templates[0].epoch_ns + lane * stagger_ns);
        Self {
            templates,
            starts_ns: starts_ns.collect(),
            begun: 0,
        }
    }
}

impl<'a> Iterator for Schedule<'a> {
    type Item = Replica<'a>;

    fn next(&mut self) -> Option<Replica<'a>> {
        let start_ns = self.starts_ns.iter_mut().min()?;
        let replica = Replica {
            number: self.begun,
            template: &self.templates[self.begun as usize % self.templates.len()],
            start_ns: *start_ns,
        };
        *start_ns += replica.template.duration_ns + PAUSE_NS;
        self.begun += 1;
        Some(replica)
    }
}

/// A replay of a template.
struct Replica<'a> {
    number: u32,
    template: &'a Template,
    start_ns: i64,
}

/// The packets of all replicas at one point, in the order of time.
struct Merged<'a, I: Iterator<Item = Replica<'a>>> {
    point: usize,
    replicas: std::iter::Peekable<I>,
    running: Vec<Replica<'a>>,
    /// Time, position in `running` and number of the next frame of each replica that runs.
    next: BinaryHeap<Reverse<(i64, usize, usize)>>,
    epoch_ns: Option<i64>,
}

impl<'a, I: Iterator<Item = Replica<'a>>> Merged<'a, I> {
    fn new(replicas: I, point: usize) -> Self {
        Self {
            point,
            replicas: replicas.peekable(),
            running: Vec::new(),
            next: BinaryHeap::new(),
            epoch_ns: None,
        }
    }

    /// Builds the next record; false after the last one.
    fn next_into(&mut self, record: &mut Vec<u8>) -> bool {
        while let Some(replica) = self.replicas.peek()
            && self
                .next
                .peek()
                .is_none_or(|Reverse((time_ns, ..))| *time_ns >= replica.start_ns)
        {
            let replica = self.replicas.next().expect("it was there a moment ago");
            self.epoch_ns.get_or_insert(replica.start_ns);
            let place = self.running.len();
            self.running.push(replica);
            self.queue(place, 0);
        }
        let Some(Reverse((time_ns, place, number))) = self.next.pop() else {
            return false;
        };
        let shown_ns = match (self.point, self.epoch_ns) {
            (0, _) | (_, None) => time_ns,
            (_, Some(epoch_ns)) => by_second_clock(time_ns, epoch_ns),
        };
        self.running[place].build(self.point, number, shown_ns, record);
        self.queue(place, number + 1);
        true
    }

    fn queue(&mut self, place: usize, number: usize) {
        let replica = &self.running[place];
        if let Some(frame) = replica.template.frames[self.point].get(number) {
            let time_ns = replica.start_ns + frame.offset_ns;
            self.next.push(Reverse((time_ns, place, number)));
        }
    }
}

fn by_second_clock(time_ns: i64, epoch_ns: i64) -> i64 {
    time_ns + CLOCK_AHEAD_NS - (time_ns - epoch_ns) / 1_000_000 * CLOCK_SLOW_PPM
}

impl Replica<'_> {
    fn build(&self, point: usize, number: usize, time_ns: i64, record: &mut Vec<u8>) {
        let frame = &self.template.frames[point][number];
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
        Shift::of_replica(self.number).apply(packet);
    }

    /// 10.0.0.0/8 has room for 65 536 replicas of up to 254 hosts; further ones begin again.
    fn address(&self, host: usize) -> [u8; 4] {
        let [_, _, high, low] = self.number.to_be_bytes();
        [10, high, low, host as u8 + 1]
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use renumber::tests::{checksums_are_right, packet};
    use template::u32_at;

    const CLIENT: [u8; 4] = [192, 0, 2, 1];
    const SERVER: [u8; 4] = [198, 51, 100, 7];

    /// A capture with packets to and fro at these times.
    fn capture(times_ms: &[u32]) -> Vec<u8> {
        let mut file = Vec::new();
        for field in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 128, ETHERNET] {
            file.extend_from_slice(&u32::to_le_bytes(field));
        }
        for (number, time_ms) in times_ms.iter().enumerate() {
            let [source, destination] = if number % 2 == 0 {
                [CLIENT, SERVER]
            } else {
                [SERVER, CLIENT]
            };
            let packet = packet(source, destination);
            let bytes = (ETHERNET_BYTES + packet.len()) as u32;
            for field in [7, time_ms * 1_000_000, bytes, bytes] {
                file.extend_from_slice(&field.to_le_bytes());
            }
            file.extend_from_slice(&[0; 12]);
            file.extend_from_slice(&[0x08, 0x00]);
            file.extend_from_slice(&packet);
        }
        file
    }

    /// Packets at 0, 5 and 10 ms, to and fro; at the second point the last one is missing.
    fn template() -> Template {
        Template::parse(&[capture(&[0, 5, 10]), capture(&[1, 4])]).unwrap()
    }

    fn records(template: &Template, point: usize, replicas: usize) -> Vec<Vec<u8>> {
        let replicas = Schedule::new(std::slice::from_ref(template), LANES).take(replicas);
        let mut merged = Merged::new(replicas, point);
        let (mut all, mut record) = (Vec::new(), Vec::new());
        while merged.next_into(&mut record) {
            all.push(record.clone());
        }
        all
    }

    fn packet_of(record: &[u8]) -> &[u8] {
        &record[RECORD_HEADER_BYTES + ETHERNET_BYTES..]
    }

    fn is_from_client(record: &[u8]) -> bool {
        packet_of(record)[SOURCE + 3] == 1
    }

    fn time_ns(record: &[u8]) -> i64 {
        i64::from(u32_at(record, 0)) * NS_PER_SECOND + i64::from(u32_at(record, 4))
    }

    #[test]
    fn replicas_have_hosts_of_their_own_and_valid_checksums() {
        let records = records(&template(), 0, 80);
        assert_eq!(records.len(), 240);
        let mut pairs = std::collections::BTreeSet::new();
        for record in &records {
            let packet = packet_of(record);
            assert!(checksums_are_right(packet));
            let mut pair = [&packet[SOURCE..][..4], &packet[DESTINATION..][..4]];
            pair.sort();
            pairs.insert(pair.concat());
        }
        assert_eq!(pairs.len(), 80);
    }

    #[test]
    fn replicas_interleave_in_the_order_of_time() {
        let records = records(&template(), 0, 80);
        assert!(records.is_sorted_by_key(|record| time_ns(record)));
        // lanes start 10 ms / 8 apart: the second packet of a file is another lane's first
        assert_eq!(time_ns(&records[1]) - time_ns(&records[0]), 1_250_000);
    }

    #[test]
    fn both_points_hold_the_same_replicas_by_clocks_of_their_own() {
        let template = template();
        let [near, far] = [0, 1].map(|point| records(&template, point, 80));
        assert_eq!((near.len(), far.len()), (240, 160));
        for record in &far {
            let is_same = |one: &&Vec<u8>| packet_of(one) == packet_of(record);
            let same = near.iter().find(is_same).unwrap();
            let difference_ns = time_ns(record) - time_ns(same) - CLOCK_AHEAD_NS;
            // 1 ms of transit in one direction or the other; the clock loses 220 ppm of the 0.6 s of 80 replicas
            let least_ns = if is_from_client(record) {
                1_000_000
            } else {
                -1_000_000
            };
            assert!(
                (least_ns - 140_000..=least_ns).contains(&difference_ns),
                "{difference_ns}"
            );
        }
    }
}
