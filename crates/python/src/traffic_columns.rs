//! Measurements of a test as Arrow record batches, with the columns of a recording's tables.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use whydrop_traffic::client::{ClockRow, ProbeRow, Taken};
use whydrop_traffic::sample::{BurstPacket, Departure, Fate, Interval};

use crate::rows::{batch, goodput_bps};
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
        ("departures", departures(&taken.departures)?),
    ];
    Ok(batches
        .into_iter()
        .filter(|(_, batch)| batch.num_rows() > 0)
        .map(|(name, batch)| (name, Table::new(batch)))
        .collect())
}

fn intervals(rows: &[Interval]) -> Result<RecordBatch, ArrowError> {
    // an interval without arrivals has no delay; one with a single packet has no jitter
    let delayed = |row: &Interval, least| row.datagrams.filter(|seen| seen.packets >= least);
    batch!(rows, row =>
        flow: row.flow as i32,
        start_ns,
        end_ns,
        payload_bytes,
        goodput_bps: goodput_bps(row.payload_bytes, row.start_ns, row.end_ns),
        packets: row.datagrams.map(|seen| seen.packets),
        lost: row.datagrams.map(|seen| seen.lost),
        reordered: row.datagrams.map(|seen| seen.reordered),
        delay_ns: delayed(row, 1).map(|seen| seen.delay_ns),
        jitter_ns: delayed(row, 2).map(|seen| seen.jitter_ns),
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
        up_ns,
        down_ns,
        fate: fate(row.probe.fate),
        duplicates: row.probe.duplicates as i32,
        reordered: row.probe.reordered,
        payload_bytes: row.probe.payload_bytes as i32,
    )
}

fn clocks(rows: &[ClockRow]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        host: i64::try_from(row.host).ok(),
        time_ns,
        offset_ns,
        uncertainty_ns,
        drift_ppm,
    )
}

fn bursts(rows: &[BurstPacket]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        flow: row.flow as i32,
        burst: row.burst as i32,
        sequence,
        sent_ns,
        received_ns,
        payload_bytes: row.payload_bytes as i32,
        marked,
    )
}

fn departures(rows: &[Departure]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        flow: row.flow as i32,
        sequence,
        left_ns,
    )
}
