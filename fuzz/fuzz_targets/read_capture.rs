//! Reads any bytes as a capture file: compression, file format, frames, duplicates, summary.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use whydrop_capture::{Capture, OpenOptions, Transport};

fuzz_target!(|bytes: &[u8]| {
    let options = OpenOptions {
        tunnel_levels: 2,
        ..OpenOptions::default()
    };
    let mut capture = match Capture::from_reader("fuzz", Cursor::new(bytes.to_vec()), options) {
        Ok(capture) => capture,
        Err(error) => return assert!(!error.to_string().contains('\n')),
    };
    let mut given = 0;
    while let Some(packet) = capture.next_packet() {
        given += 1;
        if let Transport::Tcp(segment) = packet.transport {
            assert!(segment.payload.len() <= segment.payload_bytes as usize);
            assert!(segment.payload.len() <= packet.captured_bytes as usize);
        }
    }
    let summary = capture.summary();
    assert_eq!(summary.packets, given + summary.duplicates);
    assert_eq!(summary.packets, summary.kinds.total());
    assert!(summary.first_ns <= summary.last_ns);
});
