//! Fills the tables behind the verdicts.

use whydrop_datagrams::Datagrams;
use whydrop_path::fit::{Seen, virtual_queue};

use crate::observe::Observation;
use crate::observe::group::{FlowRef, Group};
use crate::tables::{AckTable, ModelTable, SackTable, SegmentTable, Tables};
use whydrop_tcp::{Flow, SegmentFlags};
use whydrop_verdict::Cause;

/// Segments, acknowledgments and SACK blocks of all flows.
pub fn flows(flows: &[FlowRef], tables: &mut Tables) {
    let mut first_transfer = 0;
    for flow in flows {
        let number = flow.index as u32;
        segments(flow.flow, number, first_transfer, &mut tables.segments);
        acknowledgments(flow.flow, number, &mut tables.acks);
        sack_blocks(flow.flow, number, &mut tables.sacks);
        first_transfer += flow.flow.transfers.len() as u32;
    }
}

fn segments(flow: &Flow, number: u32, first_transfer: u32, table: &mut SegmentTable) {
    let mut transfer = 0;
    for (index, segment) in flow.segments.iter().enumerate() {
        while flow
            .transfers
            .get(transfer)
            .is_some_and(|current| current.end <= index)
        {
            transfer += 1;
        }
        let inside = flow
            .transfers
            .get(transfer)
            .is_some_and(|current| current.first <= index);
        table.flow.push(number);
        table.transfer.push(if inside {
            first_transfer + transfer as u32
        } else {
            u32::MAX
        });
        table.time_ns.push(segment.time_ns);
        table.sequence.push(segment.sequence);
        table.payload_bytes.push(segment.payload_bytes);
        table.ip_bytes.push(segment.ip_bytes());
        table.kind.push(segment.kind as u8);
        table.fate.push(segment.fate as u8);
        table
            .spurious
            .push(segment.flags.has(SegmentFlags::SPURIOUS));
        table.rtt_ns.push(segment.rtt_ns);
        table.in_flight_bytes.push(segment.in_flight_bytes);
    }
}

fn acknowledgments(flow: &Flow, number: u32, table: &mut AckTable) {
    for acknowledgment in &flow.acknowledgments {
        table.flow.push(number);
        table.time_ns.push(acknowledgment.time_ns);
        table.acknowledged.push(acknowledgment.acknowledged);
        table.window_bytes.push(acknowledgment.window_bytes);
        table.ecn_echo.push(acknowledgment.ecn_echo);
    }
}

fn sack_blocks(flow: &Flow, number: u32, table: &mut SackTable) {
    for block in &flow.sack_blocks {
        table.flow.push(number);
        table.time_ns.push(block.time_ns);
        table.start.push(block.start);
        table.end.push(block.end);
        table.duplicate.push(block.duplicate);
    }
}

/// The model of a verdict over the packets of its group. For causes without a model the packets only, if some were
/// lost. `verdict` is filled in later.
pub fn model(group: &Group, seen: &Observation, cause: Cause) -> ModelTable {
    let mut table = ModelTable::default();
    let trace = &seen.group_trace.trace;
    let level: Vec<f64> = match (cause, &seen.bucket, &seen.drain) {
        (Cause::Policer, Some(fit), _) => {
            let queue =
                virtual_queue::corrected(trace, fit.rate_bps.value / 8.0, fit.limit_bytes.value);
            queue
                .iter()
                .map(|queue| (fit.limit_bytes.value - f64::from(*queue)).max(0.0))
                .collect()
        }
        (Cause::ShallowQueue | Cause::DeepQueue, Some(fit), _) => {
            let queue =
                virtual_queue::corrected(trace, fit.rate_bps.value / 8.0, fit.limit_bytes.value);
            queue.iter().map(|queue| f64::from(*queue)).collect()
        }
        (Cause::Shaper, _, Some(drain)) => {
            let queue = virtual_queue::uncorrected(trace, drain.rate_bps / 8.0);
            queue
                .iter()
                .map(|queue| (f64::from(*queue) - drain.burst_bytes).max(0.0))
                .collect()
        }
        // without a model, the packets alone: a user may have one
        _ if trace.lost > 0 => vec![f64::NAN; trace.len()],
        _ => return table,
    };
    let is_modelled = level.first().is_some_and(|level| !level.is_nan());
    for (index, origin) in seen.group_trace.origins.iter().enumerate() {
        let bytes = f64::from(trace.bytes[index]);
        let dropped = match (cause, &seen.bucket) {
            (Cause::Policer, _) => level[index] < bytes,
            (Cause::ShallowQueue | Cause::DeepQueue, Some(fit)) => {
                level[index] + bytes > fit.limit_bytes.value
            }
            _ => false,
        };
        table
            .flow
            .push(group.flows[origin.member as usize].index as u32);
        table
            .time_ns
            .push(trace.start_ns + (trace.time_s[index] * 1e9) as i64);
        table.level_bytes.push(level[index]);
        table.ip_bytes.push(trace.bytes[index] as u32);
        table.predicted_drop.push(dropped);
        table.seen_lost.push(trace.outcome[index] == Seen::Lost);
        table.rival.push(!is_modelled);
        table.wait_ns.push(-1);
        table.seen_wait_ns.push(-1);
    }
    table
}

/// Appends the rows of one verdict's model.
pub fn append_model(table: &mut ModelTable, mut rows: ModelTable, verdict: u32) {
    table
        .verdict
        .extend(std::iter::repeat_n(verdict, rows.time_ns.len()));
    table.flow.append(&mut rows.flow);
    table.time_ns.append(&mut rows.time_ns);
    table.level_bytes.append(&mut rows.level_bytes);
    table.ip_bytes.append(&mut rows.ip_bytes);
    table.predicted_drop.append(&mut rows.predicted_drop);
    table.seen_lost.append(&mut rows.seen_lost);
    table.rival.append(&mut rows.rival);
    table.wait_ns.append(&mut rows.wait_ns);
    table.seen_wait_ns.append(&mut rows.seen_wait_ns);
}

/// Fills the tables of RTP streams, numbered in the order of the document.
pub fn streams(datagrams: &Datagrams, tables: &mut Tables) {
    for (number, stream) in datagrams.rtp.iter().flatten().enumerate() {
        for packet in &stream.packets {
            tables.rtp.stream.push(number as u32);
            tables.rtp.time_ns.push(packet.time_ns);
            tables.rtp.number.push(packet.number);
            tables.rtp.late_ns.push(packet.late_ns);
        }
        for report in &stream.reports {
            let rows = &mut tables.rtp_reports;
            let jitter_s = f64::from(report.jitter_ticks) / stream.clock_hz;
            rows.stream.push(number as u32);
            rows.time_ns.push(report.time_ns);
            rows.lost_share.push(report.lost_share);
            rows.lost.push(i64::from(report.lost));
            rows.jitter_ns.push((jitter_s * 1e9).round() as i64);
            rows.round_trip_ns.push(report.round_trip_ns.unwrap_or(-1));
        }
    }
}
