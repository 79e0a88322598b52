//! What a test measured as Arrow record batches, with the columns of a recording's tables.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::ArrowError;
use whydrop_traffic::client::{ClockRow, ProbeRow, Taken};
use whydrop_traffic::sample::{BurstPacket, Fate, Interval};

use crate::table::Table;
use crate::tcp_columns::tcp_info;

/// The tables that have rows. `clocks` names its host by number in column `host`.
pub fn tables(taken: Taken) -> Result<Vec<(&'static str, Table)>, ArrowError> {
    let batches = [
        ("intervals", intervals(&taken.intervals)?),
        ("tcp_info", tcp_info(&taken.tcp)?),
        ("probes", probes(&taken.probes)?),
        ("clocks", clocks(&taken.clocks)?),
        ("bursts", bursts(&taken.bursts)?),
    ];
    Ok(batches
        .into_iter()
        .filter(|(_, batch)| batch.num_rows() > 0)
        .map(|(name, batch)| (name, Table::new(batch)))
        .collect())
}

fn int64<T>(rows: &[T], value: impl Fn(&T) -> Option<i64>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<Int64Array>())
}

fn int32<T>(rows: &[T], value: impl Fn(&T) -> u32) -> ArrayRef {
    Arc::new(
        rows.iter()
            .map(|row| Some(value(row) as i32))
            .collect::<Int32Array>(),
    )
}

fn float64<T>(rows: &[T], value: impl Fn(&T) -> Option<f64>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<Float64Array>())
}

/// What does not fit is as large as can be.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn intervals(rows: &[Interval]) -> Result<RecordBatch, ArrowError> {
    let goodput = |row: &Interval| {
        // The far end's figures may be anything.
        let span_ns = row.end_ns.saturating_sub(row.start_ns);
        (span_ns > 0).then(|| row.payload_bytes as f64 * 8e9 / span_ns as f64)
    };
    RecordBatch::try_from_iter([
        ("flow", int32(rows, |row| row.flow)),
        ("start_ns", int64(rows, |row| Some(row.start_ns))),
        ("end_ns", int64(rows, |row| Some(row.end_ns))),
        (
            "payload_bytes",
            int64(rows, |row| Some(signed(row.payload_bytes))),
        ),
        ("goodput_bps", float64(rows, goodput)),
        (
            "packets",
            int64(rows, |row| row.datagrams.map(|seen| signed(seen.packets))),
        ),
        (
            "lost",
            int64(rows, |row| row.datagrams.map(|seen| seen.lost)),
        ),
        (
            "reordered",
            int64(rows, |row| row.datagrams.map(|seen| signed(seen.reordered))),
        ),
        // An interval in which nothing arrived has no delay.
        (
            "delay_ns",
            int64(rows, |row| {
                row.datagrams
                    .filter(|seen| seen.packets > 0)
                    .map(|seen| seen.delay_ns)
            }),
        ),
        (
            "jitter_ns",
            int64(rows, |row| {
                row.datagrams
                    .filter(|seen| seen.packets > 1)
                    .map(|seen| seen.jitter_ns)
            }),
        ),
    ])
}

fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Ok => "ok",
        Fate::Late => "late",
        Fate::LostUp => "lost-up",
        Fate::LostDown => "lost-down",
        Fate::Lost => "lost",
        Fate::NotSent => "not-sent",
    }
}

fn probes(rows: &[ProbeRow]) -> Result<RecordBatch, ArrowError> {
    let fates: StringArray = rows.iter().map(|row| Some(fate(row.probe.fate))).collect();
    let reordered: BooleanArray = rows.iter().map(|row| Some(row.probe.reordered)).collect();
    RecordBatch::try_from_iter([
        ("flow", int32(rows, |row| row.probe.flow)),
        (
            "sequence",
            int64(rows, |row| Some(signed(row.probe.sequence))),
        ),
        (
            "scheduled_ns",
            int64(rows, |row| Some(row.probe.scheduled_ns)),
        ),
        ("sent_ns", int64(rows, |row| row.probe.sent_ns)),
        ("received_ns", int64(rows, |row| row.probe.received_ns)),
        ("rtt_ns", int64(rows, |row| row.probe.rtt_ns)),
        ("up_ns", int64(rows, |row| row.up_ns)),
        ("down_ns", int64(rows, |row| row.down_ns)),
        ("fate", Arc::new(fates) as ArrayRef),
        ("duplicates", int32(rows, |row| row.probe.duplicates)),
        ("reordered", Arc::new(reordered) as ArrayRef),
        ("payload_bytes", int32(rows, |row| row.probe.payload_bytes)),
    ])
}

fn clocks(rows: &[ClockRow]) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_from_iter([
        ("host", int64(rows, |row| i64::try_from(row.host).ok())),
        ("time_ns", int64(rows, |row| Some(row.time_ns))),
        ("offset_ns", int64(rows, |row| Some(row.offset_ns))),
        (
            "uncertainty_ns",
            int64(rows, |row| Some(row.uncertainty_ns)),
        ),
        ("drift_ppm", float64(rows, |row| row.drift_ppm)),
    ])
}

fn bursts(rows: &[BurstPacket]) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_from_iter([
        ("flow", int32(rows, |row| row.flow)),
        ("burst", int32(rows, |row| row.burst)),
        ("sequence", int64(rows, |row| Some(signed(row.sequence)))),
        ("sent_ns", int64(rows, |row| Some(row.sent_ns))),
        ("received_ns", int64(rows, |row| row.received_ns)),
        ("payload_bytes", int32(rows, |row| row.payload_bytes)),
    ])
}
