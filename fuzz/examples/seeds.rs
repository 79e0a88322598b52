//! Writes seeds for `track_tcp`, `explain_capture` and `match_pair` from captures into `corpus/`: the start of each, and
//! windows around its retransmissions; and for `track_datagrams` its datagrams, and some of each protocol.
//!
//!     cargo run --release --example seeds -- ../examples/*.pcap.zst

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use whydrop_capture::{Capture, OpenOptions, Packet, Transport};
use whydrop_fuzz::packets::{TcpPacket, encode, normalised};
use whydrop_fuzz::{capture_file, datagrams};

/// Enough for a loss, its duplicate acknowledgments and its repair, few enough for a fast fuzzer.
const WINDOW_PACKETS: usize = 200;
const WINDOWS_PER_CAPTURE: usize = 12;
/// A kibibyte below the wrap.
const ISN: u32 = u32::MAX - 1023;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in [
        "track_tcp",
        "explain_capture",
        "match_pair",
        "track_datagrams",
    ] {
        fs::create_dir_all(corpus.join(target))?;
    }
    let conversations = datagrams::conversations();
    fs::write(
        corpus.join("track_datagrams").join("conversations"),
        conversations,
    )?;
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        let name = path
            .file_name()
            .ok_or("not a file")?
            .to_string_lossy()
            .into_owned();
        let datagrams = read_datagrams(&path)?;
        if !datagrams.is_empty() {
            fs::write(corpus.join("track_datagrams").join(&name), datagrams)?;
        }
        let (compact, all) = read(&path)?;
        let step = (all.len() / WINDOWS_PER_CAPTURE).max(1);
        for start in (0..all.len()).step_by(step) {
            let window = start..(start + WINDOW_PACKETS).min(all.len());
            let seed = format!("{name}-{start}");
            fs::write(
                corpus.join("track_tcp").join(&seed),
                encode(ISN, &compact[window.clone()]),
            )?;
            let of_file = |extension: &str| {
                corpus
                    .join("explain_capture")
                    .join(format!("{seed}.{extension}"))
            };
            fs::write(of_file("pcap"), capture_file::pcap(&all[window.clone()]))?;
            fs::write(
                of_file("pcapng"),
                capture_file::pcapng(&all[window.clone()]),
            )?;
            fs::write(
                corpus.join("match_pair").join(&seed),
                at_two_points(&all[window]),
            )?;
        }
    }
    Ok(())
}

/// The packets as the first point sees them and, 3 ms later, the second one, where each twentieth is lost.
fn at_two_points(packets: &[Packet<'static>]) -> Vec<u8> {
    let later = |(number, packet): (usize, &Packet<'static>)| {
        (number % 20 != 19).then_some(Packet {
            time_ns: packet.time_ns + 3_000_000,
            ..*packet
        })
    };
    let arrived: Vec<Packet> = packets.iter().enumerate().filter_map(later).collect();
    let [first, second] = [packets, &arrived].map(capture_file::pcap);
    let length = u16::try_from(first.len()).expect("headers of few packets");
    [&length.to_le_bytes()[..], &first, &second].concat()
}

/// The UDP packets of a capture in the form of `track_datagrams`.
fn read_datagrams(path: &Path) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    const MOST_BYTES: usize = 16 << 10;
    let mut capture = Capture::open(&[path], OpenOptions::default())?;
    let (mut bytes, mut before_ns) = (Vec::new(), None);
    while let Some(packet) = capture.next_packet() {
        let Some(frame) = capture_file::datagram(&packet) else {
            continue;
        };
        let step_ns = packet.time_ns - before_ns.unwrap_or(packet.time_ns);
        before_ns = Some(packet.time_ns);
        datagrams::push(&mut bytes, step_ns, &frame);
        if bytes.len() > MOST_BYTES {
            break;
        }
    }
    Ok(bytes)
}

/// The TCP packets of a capture, in the fuzzer's form and as they were (without payload). The side that sends a SYN
/// or has the higher port is the client.
fn read(path: &Path) -> Result<(Vec<TcpPacket>, Vec<Packet<'static>>), Box<dyn std::error::Error>> {
    let mut capture = Capture::open(&[path], OpenOptions::default())?;
    let mut connections: HashMap<(u16, u16), (u8, [u32; 3])> = HashMap::new();
    let (mut compact, mut all) = (Vec::new(), Vec::new());
    while let Some(packet) = capture.next_packet() {
        let Transport::Tcp(tcp) = packet.transport else {
            continue;
        };
        let from_server = tcp.source_port < tcp.destination_port;
        let ports = match from_server {
            true => (tcp.source_port, tcp.destination_port),
            false => (tcp.destination_port, tcp.source_port),
        };
        let number = connections.len() as u8 & 3;
        let origins = match from_server {
            true => [ISN, tcp.sequence, tcp.acknowledgment],
            false => [ISN, tcp.acknowledgment, tcp.sequence],
        };
        let (connection, origins) = *connections.entry(ports).or_insert((number, origins));
        compact.push(normalised(
            &tcp,
            connection,
            from_server,
            packet.time_ns,
            origins,
        ));
        let tcp = whydrop_capture::TcpSegment {
            payload: &[],
            ..tcp
        };
        all.push(Packet {
            index: packet.index,
            time_ns: packet.time_ns,
            interface: packet.interface,
            wire_bytes: packet.wire_bytes,
            captured_bytes: packet.captured_bytes,
            network: packet.network,
            transport: Transport::Tcp(tcp),
        });
    }
    Ok((compact, all))
}
