//! Explains any bytes as a capture file: the document is complete, its numbers are finite, the tables are valid.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use whydrop_capture::{Capture, OpenOptions};
use whydrop_explain::document::Document;
use whydrop_explain::tables::Tables;
use whydrop_explain::{ExplainError, Options, explain};

fuzz_target!(|bytes: &[u8]| {
    let input = Cursor::new(bytes.to_vec());
    let capture = match Capture::from_reader("fuzz", input, OpenOptions::default()) {
        Ok(capture) => capture,
        Err(error) => return assert!(!error.to_string().contains('\n')),
    };
    let options = Options {
        keep_tables: true,
        ..Options::default()
    };
    match explain(capture, options) {
        Ok(explanation) => {
            check_document(&explanation.document);
            check_tables(&explanation.tables, &explanation.document);
        }
        Err(ExplainError::Capture(error)) => assert!(!error.to_string().contains('\n')),
        Err(ExplainError::Pair(_)) => unreachable!("there is one capture"),
        Err(ExplainError::Stopped) => unreachable!("the analysis was not stopped"),
    }
});

/// Fields that may be null; any other null is a number that JSON cannot represent.
const NULLABLE: &[&str] = &[
    "after_gap",
    "at",
    "base_rtt_s",
    "busiest",
    "busiest_connections",
    "byte_basis",
    "clock_drift_error_ppm",
    "clock_drift_ppm",
    "clock_offset_high_s",
    "clock_offset_low_s",
    "clock_offset_s",
    "codec",
    "datagrams",
    "detail",
    "direction",
    "dropped_by_capture",
    "end_s",
    "fact",
    "family",
    "first",
    "flow_at_2",
    "goodput_bps",
    "high",
    "hop",
    "last",
    "left_out",
    "limit_bytes",
    "limit_packets",
    "limits",
    "longest_s",
    "lost",
    "lost_high",
    "lost_low",
    "low",
    "measured",
    "mos",
    "mss",
    "name",
    "outstanding_at_loss_deviation_bytes",
    "outstanding_at_loss_mean_bytes",
    "pair",
    "peak_burst_bytes",
    "peak_rate_bps",
    "place",
    "protocol",
    "reported",
    "rtt_median_s",
    "rtt_min_s",
    "rtt_p95_s",
    "shortest_s",
    "small_connections",
    "snaplen",
    "spin",
    "start_s",
    "throughput_lost",
    "timeless",
    "told",
    "transit",
    "transit_1_to_2_s",
    "transit_2_to_1_s",
    "ttl_hops",
    "veto",
    "wait_error_s",
    "waited_median_s",
    "waited_p95_s",
    "window_limited_share",
    "window_scale",
    "window_share",
];

fn check_document(document: &Document) {
    let json = serde_json::to_value(document).expect("a document is JSON");
    check_nulls("document", &json);
    for verdict in &document.verdicts {
        for share in [verdict.confidence, verdict.explained, verdict.limited_share] {
            assert!((0.0..=1.0).contains(&share), "{verdict:?}");
        }
        assert!(!verdict.facts.is_empty());
        for (name, parameter) in &verdict.parameters {
            let (low, high) = (
                parameter.low.unwrap_or(parameter.value),
                parameter.high.unwrap_or(parameter.value),
            );
            assert!(
                parameter.value >= 0.0 && low <= high,
                "{name}: {parameter:?}"
            );
        }
    }
    for transfer in &document.transfers {
        assert!((0.0..=1.0).contains(&transfer.confidence), "{transfer:?}");
        assert!(
            transfer
                .goodput_bps
                .is_none_or(|bps| bps.is_finite() && bps >= 0.0),
            "{transfer:?}"
        );
    }
    for flow in &document.flows {
        let shares = [flow.window_limited_share, flow.rtt_min_s, flow.rtt_median_s];
        assert!(
            shares
                .into_iter()
                .flatten()
                .all(|number| number.is_finite() && number >= 0.0),
            "{flow:?}"
        );
    }
    for number in document
        .verdicts
        .iter()
        .flat_map(|verdict| verdict.parameters.values())
    {
        let ends = [Some(number.value), number.low, number.high];
        assert!(ends.into_iter().flatten().all(f64::is_finite), "{number:?}");
    }
}

fn check_nulls(name: &str, value: &Value) {
    match value {
        Value::Null => assert!(NULLABLE.contains(&name), "{name} is null"),
        Value::Array(values) => values.iter().for_each(|value| check_nulls(name, value)),
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| check_nulls(name, value)),
        Value::String(text) => {
            for word in ["NaN", "inf "] {
                assert!(!text.contains(word), "{name}: {text}");
            }
        }
        _ => {}
    }
}

fn check_tables(tables: &Tables, document: &Document) {
    let flows = document.flows.len() as u32;
    let segments = &tables.segments;
    let rows = segments.flow.len();
    let columns = [
        segments.transfer.len(),
        segments.time_ns.len(),
        segments.sequence.len(),
        segments.payload_bytes.len(),
        segments.ip_bytes.len(),
        segments.kind.len(),
        segments.fate.len(),
        segments.spurious.len(),
        segments.rtt_ns.len(),
        segments.in_flight_bytes.len(),
    ];
    assert_eq!(columns, [rows; 10]);
    let acks = &tables.acks;
    let rows = acks.flow.len();
    assert_eq!(
        [
            acks.time_ns.len(),
            acks.acknowledged.len(),
            acks.window_bytes.len()
        ],
        [rows; 3]
    );
    let sacks = &tables.sacks;
    let rows = sacks.flow.len();
    assert_eq!(
        [
            sacks.time_ns.len(),
            sacks.start.len(),
            sacks.end.len(),
            sacks.duplicate.len()
        ],
        [rows; 4]
    );
    let model = &tables.model;
    let rows = model.flow.len();
    let columns = [
        model.verdict.len(),
        model.time_ns.len(),
        model.level_bytes.len(),
        model.ip_bytes.len(),
        model.predicted_drop.len(),
        model.seen_lost.len(),
    ];
    assert_eq!(columns, [rows; 6]);
    assert!(
        model
            .level_bytes
            .iter()
            .all(|level| level.is_finite() && *level >= 0.0)
    );
    assert!(
        model
            .verdict
            .iter()
            .all(|verdict| (*verdict as usize) < document.verdicts.len())
    );
    for flow in [&segments.flow, &acks.flow, &sacks.flow, &model.flow] {
        assert!(flow.iter().all(|flow| *flow < flows));
    }
    let transfers = document.transfers.len() as u32;
    assert!(
        segments
            .transfer
            .iter()
            .all(|transfer| *transfer < transfers || *transfer == u32::MAX)
    );
}
