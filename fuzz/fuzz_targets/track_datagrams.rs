//! Follows any bytes as packets of UDP and ICMP (`src/datagrams.rs` has the format): counts agree, and shares are shares.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use whydrop_capture::{LinkType, Packet, decode_frame};
use whydrop_datagrams::DatagramTracker;
use whydrop_fuzz::datagrams;

const START_NS: i64 = 1_600_000_000_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    let mut tracker = DatagramTracker::keeping_streams(true);
    let (mut time_ns, mut index) = (START_NS, 0);
    for (step_ns, frame) in datagrams::read(bytes) {
        time_ns += step_ns;
        let decoded = decode_frame(LinkType::RAW, frame, frame.len() as u32, 1);
        tracker.push(&Packet {
            index,
            time_ns,
            ..decoded
        });
        index += 1;
    }
    let found = tracker.finish();
    assert!(found.defect.is_none(), "{:?}", found.defect);
    let (packets, ip_bytes) = found.totals();
    assert!(
        packets <= index && packets <= ip_bytes,
        "{packets} {ip_bytes} {index}"
    );
    let info = serde_json::to_value((found.info(), found.servers())).expect("it is JSON");
    check(&info);
});

/// Shares are at most 1.
fn check(value: &Value) {
    match value {
        Value::Array(values) => values.iter().for_each(check),
        Value::Object(fields) => {
            for (name, value) in fields {
                if let (true, Some(share)) = (name.ends_with("_share"), value.as_f64()) {
                    assert!((0.0..=1.0).contains(&share), "{name}: {share}");
                }
                check(value);
            }
        }
        _ => {}
    }
}
