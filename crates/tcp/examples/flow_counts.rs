//! Prints the tracker's counters for each flow of captures as CSV, for comparison with other tools and kernel counters.
//!
//!     cargo run --release -p whydrop-tcp --example flow_counts -- CAPTURE... > flows.csv

use std::io::{BufWriter, Write};

use whydrop_capture::{Capture, OpenOptions};
use whydrop_tcp::{Flow, Kind, SegmentFlags, Tracker, TrackerOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    writeln!(
        out,
        "capture,flow,packets,payload_bytes,segments,inferred,lost,retransmitted,fast,timeout,tail_loss_probe,other,\
         spurious,reordered,duplicated_on_path,missed_by_capture,keep_alives,vantage"
    )?;
    for path in std::env::args_os().skip(1) {
        let path = std::path::PathBuf::from(path);
        let mut capture = Capture::open(&[&path], OpenOptions::default())?;
        let mut tracker = Tracker::new(TrackerOptions::default());
        while let Some(packet) = capture.next_packet() {
            tracker.push(&packet);
        }
        let connections = tracker.finish().connections;
        for flow in connections
            .iter()
            .flat_map(|connection| &connection.flows)
            .filter(|flow| flow.carried_data())
        {
            writeln!(out, "{},{}", path.display(), row(flow))?;
        }
    }
    Ok(())
}

fn row(flow: &Flow) -> String {
    let counters = &flow.counters;
    let inferred = flow
        .segments
        .iter()
        .filter(|segment| segment.flags.has(SegmentFlags::INFERRED))
        .count() as u64;
    let of_kind = |kind: Kind| counters.retransmitted_by_kind[kind as usize];
    let numbers = [
        counters.packets,
        counters.payload_bytes,
        flow.segments.len() as u64,
        inferred,
        counters.lost,
        counters.retransmitted,
        of_kind(Kind::Fast),
        of_kind(Kind::Timeout),
        of_kind(Kind::TailLossProbe),
        of_kind(Kind::Other),
        counters.spurious,
        counters.reordered,
        counters.duplicated_on_path,
        counters.missed_by_capture_packets,
        counters.keep_alives,
    ];
    let numbers = numbers.map(|number| number.to_string()).join(",");
    format!("{},{numbers},{}", flow.name(), flow.vantage.name())
}
