//! Decodes any bytes as a frame: two bytes of link type, one of tunnel levels, two of additional length on the wire,
//! then the frame.

#![no_main]

use libfuzzer_sys::fuzz_target;
use whydrop_capture::{LinkType, Transport, decode_frame};

fuzz_target!(|bytes: &[u8]| {
    let [link_0, link_1, levels, wire_0, wire_1, frame @ ..] = bytes else {
        return;
    };
    let link = LinkType(u16::from_le_bytes([*link_0, *link_1]));
    let wire_bytes = frame.len() as u32 + u32::from(u16::from_le_bytes([*wire_0, *wire_1]));
    let packet = decode_frame(link, frame, wire_bytes, *levels);
    match packet.transport {
        Transport::Tcp(segment) => {
            assert!(segment.payload.len() <= segment.payload_bytes as usize);
            assert!(packet.network.is_some());
        }
        Transport::Udp {
            payload_bytes,
            payload,
            ..
        } => {
            assert!(payload.len() <= payload_bytes as usize);
        }
        _ => {}
    }
    if let Some(network) = packet.network {
        assert!(network.tunnel_depth <= *levels);
    }
});
