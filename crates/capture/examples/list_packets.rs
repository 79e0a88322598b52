//! Prints each packet on one line, with fields separated by tabs, for comparison with other tools.
//!
//!     cargo run --release -p whydrop-capture --example list_packets -- [--all] FILE...
//!
//! `--all` prints duplicates too. Columns: index from 0, time in ns, interface, length on the wire, source,
//! destination, IP length, IP identification, TTL, tunnel depth, then by transport: `tcp`, ports, sequence number,
//! acknowledgment number, flags, window, payload length, MSS, window scale, TSval, TSecr, SACK edges; `udp`, ports,
//! payload length; or the name of another transport.

use std::io::{self, BufWriter, Write};

use whydrop_capture::{Capture, OpenOptions, Packet, TcpSegment, Transport};

fn main() -> io::Result<()> {
    let mut paths: Vec<String> = std::env::args().skip(1).collect();
    let count = paths.len();
    paths.retain(|argument| argument != "--all");
    let options = OpenOptions {
        keep_duplicates: paths.len() != count,
        ..OpenOptions::default()
    };
    let mut capture = match Capture::open(&paths, options) {
        Ok(capture) => capture,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    while let Some(packet) = capture.next_packet() {
        print(&mut out, &packet)?;
    }
    for note in capture.summary().notes {
        eprintln!("{note}");
    }
    out.flush()
}

fn print(out: &mut impl Write, packet: &Packet<'_>) -> io::Result<()> {
    write!(
        out,
        "{}\t{}\t{}\t{}\t",
        packet.index, packet.time_ns, packet.interface, packet.wire_bytes
    )?;
    match &packet.network {
        Some(ip) => write!(
            out,
            "{}\t{}\t{}\t{}\t{}\t{}\t",
            ip.source,
            ip.destination,
            ip.ip_bytes,
            ip.identification.map_or(-1, i32::from),
            ip.ttl,
            ip.tunnel_depth
        )?,
        None => write!(out, "-\t-\t-\t-\t-\t-\t")?,
    }
    match packet.transport {
        Transport::Tcp(segment) => print_tcp(out, &segment),
        Transport::Udp {
            source_port,
            destination_port,
            payload_bytes,
            ..
        } => {
            writeln!(
                out,
                "udp\t{source_port}\t{destination_port}\t{payload_bytes}"
            )
        }
        Transport::Icmp { kind, code, .. } => writeln!(out, "icmp\t{kind}\t{code}"),
        other => writeln!(out, "{other:?}"),
    }
}

fn print_tcp(out: &mut impl Write, segment: &TcpSegment<'_>) -> io::Result<()> {
    let options = &segment.options;
    let (value, echo) = options.timestamps.unzip();
    let number = |value: Option<u32>| value.map_or("-".to_owned(), |value| value.to_string());
    let sack: Vec<String> = options
        .sack_blocks()
        .iter()
        .map(|(left, right)| format!("{left}-{right}"))
        .collect();
    writeln!(
        out,
        "tcp\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
        segment.source_port,
        segment.destination_port,
        segment.sequence,
        segment.acknowledgment,
        segment.flags.0,
        segment.window,
        segment.payload_bytes,
        number(options.mss.map(u32::from)),
        number(options.window_scale.map(u32::from)),
        number(value),
        number(echo),
        sack.join(","),
    )
}
