//! Prints every data packet of every flow of a capture as CSV, as the tracker sees it.
//!
//!     cargo run --release -p whydrop-tcp --example dump_segments -- CAPTURE > segments.csv

use std::io::{BufWriter, Write};

use whydrop_capture::{Capture, OpenOptions};
use whydrop_tcp::{Tracker, TrackerOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("which capture?")?;
    let mut capture = Capture::open(&[std::path::PathBuf::from(path)], OpenOptions::default())?;
    let mut tracker = Tracker::new(TrackerOptions::default());
    while let Some(packet) = capture.next_packet() {
        tracker.push(&packet);
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    writeln!(
        out,
        "flow,name,transfer,time_ns,sequence,payload,ip,in_flight,rtt_ns,kind,fate,flags,vantage"
    )?;
    let flows = tracker
        .finish()
        .connections
        .into_iter()
        .flat_map(|connection| connection.flows);
    for (number, flow) in flows.filter(|flow| flow.carried_data()).enumerate() {
        for (index, s) in flow.segments.iter().enumerate() {
            let transfer = flow
                .transfers
                .iter()
                .position(|t| t.first <= index && index < t.end)
                .unwrap_or(0);
            writeln!(
                out,
                "{number},{},{transfer},{},{},{},{},{},{},{},{},{},{}",
                flow.name(),
                s.time_ns,
                s.sequence,
                s.payload_bytes,
                s.ip_bytes(),
                s.in_flight_bytes,
                s.rtt_ns,
                s.kind as u8,
                s.fate as u8,
                s.flags.0,
                flow.vantage.name()
            )?;
        }
    }
    Ok(())
}
