//! What a test measured as Arrow record batches, with the columns of a recording's tables.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::ArrowError;
use whydrop_traffic::client::{ClockRow, ProbeRow, Taken};
use whydrop_traffic::sample::{BurstPacket, Fate, Interval, TcpSample};

use crate::table::Table;

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

/// A record batch with a column for each name: the value that `$row` has there.
macro_rules! batch {
    ($rows:expr, $row:ident => $($name:ident: $value:expr),+ $(,)?) => {
        RecordBatch::try_from_iter([
            $((stringify!($name), Cell::array($rows.iter().map(|$row| $value)))),+
        ])
    };
}

/// What one place of a column holds.
trait Cell: Sized {
    fn array(values: impl Iterator<Item = Self>) -> ArrayRef;
}

macro_rules! cells {
    ($($cell:ty => $array:ident, $value:ident => $kept:expr;)+) => {
        $(impl Cell for $cell {
            fn array(values: impl Iterator<Item = Self>) -> ArrayRef {
                Arc::new(values.map(|$value| $kept).collect::<$array>())
            }
        })+
    };
}

cells! {
    i32 => Int32Array, value => Some(value);
    u32 => Int64Array, value => Some(i64::from(value));
    u64 => Int64Array, value => Some(signed(value));
    i64 => Int64Array, value => Some(value);
    Option<u32> => Int64Array, value => value.map(i64::from);
    Option<u64> => Int64Array, value => value.map(signed);
    Option<i64> => Int64Array, value => value;
    Option<f64> => Float64Array, value => value;
    bool => BooleanArray, value => Some(value);
    &'static str => StringArray, value => Some(value);
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
    // An interval in which nothing arrived has no delay, and no jitter with one packet.
    let delayed = |row: &Interval, least| row.datagrams.filter(|seen| seen.packets >= least);
    batch!(rows, row =>
        flow: row.flow as i32,
        start_ns: row.start_ns,
        end_ns: row.end_ns,
        payload_bytes: row.payload_bytes,
        goodput_bps: goodput(row),
        packets: row.datagrams.map(|seen| seen.packets),
        lost: row.datagrams.map(|seen| seen.lost),
        reordered: row.datagrams.map(|seen| seen.reordered),
        delay_ns: delayed(row, 1).map(|seen| seen.delay_ns),
        jitter_ns: delayed(row, 2).map(|seen| seen.jitter_ns),
    )
}

fn tcp_info(rows: &[TcpSample]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        flow: row.flow as i32,
        time_ns: row.time_ns,
        congestion_window_packets: row.congestion_window_packets,
        slow_start_threshold_packets: row.slow_start_threshold_packets,
        srtt_ns: row.srtt_ns,
        rtt_variation_ns: row.rtt_variation_ns,
        min_rtt_ns: row.min_rtt_ns,
        mss_bytes: row.mss_bytes,
        unacked_packets: row.unacked_packets,
        lost_packets: row.lost_packets,
        retransmitted_packets: row.retransmitted_packets,
        retransmitted_bytes: row.retransmitted_bytes,
        acked_bytes: row.acked_bytes,
        delivered_packets: row.delivered_packets,
        delivered_ce_packets: row.delivered_ce_packets,
        delivery_rate_bps: row.delivery_rate_bps,
        pacing_rate_bps: row.pacing_rate_bps,
        busy_ns: row.busy_ns,
        receive_window_limited_ns: row.receive_window_limited_ns,
        send_buffer_limited_ns: row.send_buffer_limited_ns,
        not_sent_bytes: row.not_sent_bytes,
        reordering_packets: row.reordering_packets,
    )
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
    batch!(rows, row =>
        flow: row.probe.flow as i32,
        sequence: row.probe.sequence,
        scheduled_ns: row.probe.scheduled_ns,
        sent_ns: row.probe.sent_ns,
        received_ns: row.probe.received_ns,
        rtt_ns: row.probe.rtt_ns,
        up_ns: row.up_ns,
        down_ns: row.down_ns,
        fate: fate(row.probe.fate),
        duplicates: row.probe.duplicates as i32,
        reordered: row.probe.reordered,
        payload_bytes: row.probe.payload_bytes as i32,
    )
}

fn clocks(rows: &[ClockRow]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        host: i64::try_from(row.host).ok(),
        time_ns: row.time_ns,
        offset_ns: row.offset_ns,
        uncertainty_ns: row.uncertainty_ns,
        drift_ppm: row.drift_ppm,
    )
}

fn bursts(rows: &[BurstPacket]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        flow: row.flow as i32,
        burst: row.burst as i32,
        sequence: row.sequence,
        sent_ns: row.sent_ns,
        received_ns: row.received_ns,
        payload_bytes: row.payload_bytes as i32,
    )
}
