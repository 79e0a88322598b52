//! Reads any bytes as a record of a perf ring, and its data as reports of the programs in the kernel.

#![no_main]

use libfuzzer_sys::fuzz_target;
use whydrop_bpf::perf::{self, Record};
use whydrop_drops::{packet, program};
use whydrop_events::report;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[kind], body)) = bytes.split_first_chunk() else {
        return;
    };
    let Some(Record::Sample { raw, .. }) = perf::parse(u32::from(kind), body) else {
        return;
    };
    assert!(raw.len() + 12 <= body.len());
    if let Some(program::Report::Dropped {
        ethertype, headers, ..
    }) = program::Report::parse(raw)
    {
        assert!(headers.len() < raw.len());
        packet::parse(ethertype, headers);
    }
    if let Some(report) = report::Report::parse(raw) {
        report.segments();
    }
});
