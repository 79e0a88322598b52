//! Counts the packets of a capture and prints how fast they were read.
//!
//!     cargo run --release -p whydrop-capture --example read_speed -- FILE...

use std::time::Instant;

use whydrop_capture::{Capture, OpenOptions, Transport};

fn main() {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let start = Instant::now();
    let mut capture = match Capture::open(&paths, OpenOptions::default()) {
        Ok(capture) => capture,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let (mut packets, mut payload_bytes) = (0u64, 0u64);
    while let Some(packet) = capture.next_packet() {
        packets += 1;
        if let Transport::Tcp(segment) = packet.transport {
            payload_bytes += u64::from(segment.payload_bytes);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{:#?}", capture.summary());
    println!(
        "{packets} packets, {payload_bytes} bytes of TCP payload in {seconds:.3} s: {:.1} Mpackets/s",
        packets as f64 / seconds / 1e6
    );
}
