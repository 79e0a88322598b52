//! From the results of the reader and the tracker to the document.

use std::collections::{BTreeMap, HashMap, HashSet};

use whydrop_capture::{Summary, Timeless};
use whydrop_datagrams::Datagrams;
use whydrop_tcp::{Ecn, Endpoint, Flow, Kind, SegmentFlags, Tracked, Vantage, flow_name};

use crate::beside::{self, marks};
use crate::conditions;
use crate::document::{CaptureInfo, Document, FlowInfo, SCHEMA, TransferInfo, in_thousandths};
use crate::error::{Judging, or_note};
use crate::failures;
use crate::limits;
use crate::noticeable;
use crate::observe::group::{FlowRef, by_destination};
use crate::one_group::judge_contained;
use crate::parallel::on_all_cores;
use crate::ranked::{Ranked, sort_verdicts};
use crate::seconds::seconds;
use crate::small_connections;
use crate::tables::{ModelTable, Tables};
use crate::tabulate;
use crate::thresholds::SHORTEST_SPAN_S;
use crate::transfers::lost;
use crate::untimed;
use whydrop_verdict::Cause;

/// Explains all connections; fills the tables if requested.
pub fn assemble(
    summary: &Summary,
    tracked: &Tracked,
    datagrams: &Datagrams,
    keep_tables: bool,
) -> (Document, Tables) {
    let flows: Vec<FlowRef> = tracked
        .connections
        .iter()
        .flat_map(|connection| &connection.flows)
        .filter(|flow| flow.is_of_interest())
        .enumerate()
        .map(|(index, flow)| FlowRef { index, flow })
        .collect();
    let mut verdicts = Vec::new();
    let mut causes: HashMap<usize, Vec<(Cause, f64)>> = HashMap::new();
    let (mut too_large, mut missing) = (HashSet::new(), HashSet::new());
    let groups = by_destination(&flows);
    let mut capture = capture_info(summary, tracked);
    let judge = |group: &_| judge_contained(group, datagrams, keep_tables);
    for judged in on_all_cores(&groups, judge) {
        verdicts.extend(judged.verdicts);
        causes.extend(judged.transfers);
        capture.notes.extend(judged.defect);
        let ends = |index: usize| (flows[index].flow.source, flows[index].flow.destination);
        too_large.extend(judged.too_large.into_iter().map(ends));
        missing.extend(judged.missing.into_iter().map(ends));
    }
    let harmed = too_large.union(&missing);
    remove_other_directions(&mut verdicts, harmed.copied());
    let notes = &mut capture.notes;
    let defect = datagrams.defect.as_ref();
    notes.extend(defect.map(|defect| Judging::Datagrams.note(defect)));
    let (failed, waits) = or_note(notes, Judging::Endings, || {
        failures::verdicts(tracked, &too_large)
    });
    waits.lengthen(&flows, &mut verdicts);
    verdicts.extend(failed);
    verdicts.extend(or_note(notes, Judging::Datagrams, || {
        beside::verdicts(datagrams, tracked)
    }));
    verdicts.extend(or_note(notes, Judging::Capture, || {
        conditions::of_capture(summary, tracked)
    }));
    sort_verdicts(&mut verdicts);
    or_note(notes, Judging::RoundTrips, || {
        noticeable::add(tracked, &mut verdicts);
    });
    if verdicts.is_empty() {
        verdicts.extend(or_note(notes, Judging::Capture, || {
            beside::whole::verdict(summary, tracked, datagrams)
        }));
    }
    let mut tables = match keep_tables {
        true => filled_tables(&flows, datagrams, &mut verdicts),
        false => Tables::default(),
    };
    let mut document = Document {
        whydrop: env!("CARGO_PKG_VERSION").to_owned(),
        schema: SCHEMA,
        captures: vec![capture],
        flows: flow_infos(&flows)
            .into_iter()
            .chain(marked_datagrams(datagrams))
            .collect(),
        transfers: transfer_infos(&flows, &causes),
        verdicts: verdicts.into_iter().map(|ranked| ranked.verdict).collect(),
        pair: None,
        hops: Vec::new(),
        datagrams: None,
        servers: Vec::new(),
    };
    if let Some(timeless) = summary.timeless {
        untimed::remove_times(&mut document, timeless);
        tables.model = ModelTable::default();
    }
    (document, tables)
}

/// The flows, the streams, and the model of each verdict.
fn filled_tables(flows: &[FlowRef], datagrams: &Datagrams, verdicts: &mut [Ranked]) -> Tables {
    let mut tables = Tables::default();
    tabulate::flows(flows, &mut tables);
    tabulate::streams(datagrams, &mut tables);
    for (index, ranked) in verdicts.iter_mut().enumerate() {
        if let Some(model) = ranked.model.take() {
            tabulate::append_model(&mut tables.model, model, index as u32);
        }
    }
    tables
}

/// Removes verdicts that nothing was lost in one direction of a connection if its other direction failed.
fn remove_other_directions(
    verdicts: &mut Vec<Ranked>,
    harmed: impl Iterator<Item = (Endpoint, Endpoint)>,
) {
    let other_directions: HashSet<String> = harmed
        .map(|(source, destination)| flow_name(destination, source))
        .collect();
    verdicts.retain(|ranked| {
        let mut flows = ranked.verdict.flows.iter();
        ranked.verdict.cause != Cause::None || !flows.all(|flow| other_directions.contains(flow))
    });
}

pub(crate) fn capture_info(summary: &Summary, tracked: &Tracked) -> CaptureInfo {
    let kinds = &summary.kinds;
    let named = [
        ("tcp", kinds.tcp),
        ("udp", kinds.udp),
        ("icmp", kinds.icmp),
        ("fragment", kinds.fragment),
        ("other-ip", kinds.other_ip),
        ("not-ip", kinds.not_ip),
        ("undecodable", kinds.undecodable),
    ];
    CaptureInfo {
        path: summary.paths.join(", "),
        format: summary.format.clone(),
        packets: summary.packets,
        first: summary.first_ns.map(seconds),
        last: summary.last_ns.map(seconds),
        timeless: summary.timeless.map(Timeless::name),
        left_out: summary.left_out,
        link_type: summary.link_types.join(", "),
        snaplen: summary.snaplen_bytes,
        truncated: summary.truncated,
        packets_by_kind: named
            .into_iter()
            .map(|(name, number)| (name.to_owned(), number))
            .collect(),
        duplicates: summary.duplicates,
        link_retries: summary.link_retries,
        unread: summary.unread.iter().cloned().collect(),
        dropped_by_capture: summary.dropped_by_capture,
        out_of_order: summary.out_of_order,
        notes: [summary.notes.clone(), tracked.abandoned.notes()].concat(),
        connections_without_data: tracked.without_data,
        small_connections: small_connections::info(&tracked.small),
        control_connections: small_connections::control(&tracked.control),
    }
}

pub(crate) fn flow_infos(flows: &[FlowRef]) -> Vec<FlowInfo> {
    flows
        .iter()
        .map(|flow| flow_info(flow.flow, flows.len()))
        .collect()
}

/// The entry of one flow of `flows` in total.
fn flow_info(flow: &Flow, flows: usize) -> FlowInfo {
    let counters = &flow.counters;
    let (rtt_min_ns, rtt_median_ns) = round_trips_ns(flow);
    let by_kind: BTreeMap<String, u64> = Kind::RETRANSMISSIONS
        .iter()
        .map(|kind| {
            (
                kind.name().to_owned(),
                counters.retransmitted_by_kind[*kind as usize],
            )
        })
        .collect();
    let open = counters.lost_low < counters.lost_high;
    let known_window = flow.window_scale.is_some() && flow.limited.busy_ns > 0;
    FlowInfo {
        protocol: None,
        flow: flow.name(),
        packets: counters.packets,
        payload_bytes: counters.payload_bytes,
        lost: counters.lost,
        lost_low: open.then_some(counters.lost_low),
        lost_high: open.then_some(counters.lost_high),
        retransmitted: counters.retransmitted,
        spurious: counters.spurious,
        reordered: counters.reordered,
        rtt_min_s: rtt_min_ns.map(seconds),
        rtt_median_s: rtt_median_ns.map(seconds),
        mss: flow.mss_bytes,
        vantage: flow.vantage.name().to_owned(),
        start: seconds(flow.first_ns),
        end: seconds(flow.last_ns),
        missed_by_capture_bytes: counters.missed_by_capture_bytes,
        retransmitted_by_kind: by_kind,
        ce_marked: counters.ce_marked,
        ecn_echoes: counters.ecn_echoes,
        zero_windows: counters.zero_windows,
        window_limited_share: known_window
            .then(|| flow.limited.window_ns as f64 / flow.limited.busy_ns as f64),
        window_scale: flow.window_scale,
        ecn: flow.ecn.name().to_owned(),
        accecn: flow.ecn == Ecn::Accurate,
        ect0: counters.ect0,
        ect1: counters.ect1,
        ce_reported: counters.ce_reported,
        ce_reported_bytes: counters.ce_reported_bytes,
        windows_reduced: counters.windows_reduced,
        window_closed_s: flow.limited.closed_ns as f64 * 1e-9,
        window_closures: counters.window_closures,
        window_probes: counters.window_probes,
        outstanding_at_loss_mean_bytes: flow.outstanding_at_loss.map(|at| at.mean_bytes),
        outstanding_at_loss_deviation_bytes: flow.outstanding_at_loss.map(|at| at.deviation_bytes),
        limits: limits::of_flow(flow.account(), flows),
    }
}

/// UDP flows named by a verdict on congestion marks, as flows.
fn marked_datagrams(datagrams: &Datagrams) -> impl Iterator<Item = FlowInfo> {
    marks::marked(datagrams).map(|flow| FlowInfo {
        protocol: Some("udp"),
        flow: flow.name(),
        packets: flow.packets,
        payload_bytes: flow.payload_bytes,
        start: seconds(flow.first_ns),
        end: seconds(flow.last_ns),
        ce_marked: flow.ce_marked,
        ect0: flow.ect0,
        ect1: flow.ect1,
        vantage: "unknown".to_owned(),
        ecn: "unknown".to_owned(),
        ..FlowInfo::default()
    })
}

pub(crate) fn transfer_infos(
    flows: &[FlowRef],
    causes: &HashMap<usize, Vec<(Cause, f64)>>,
) -> Vec<TransferInfo> {
    let mut infos = Vec::new();
    for flow in flows {
        let name = flow.flow.name();
        let judged = causes.get(&flow.index).map_or(&[][..], Vec::as_slice);
        let judged = flow.flow.transfers.iter().zip(judged).enumerate();
        for (number, (transfer, (cause, confidence))) in judged {
            let lasted_s = (transfer.end_ns - transfer.start_ns) as f64 * 1e-9;
            infos.push(TransferInfo {
                flow: name.clone(),
                start: seconds(transfer.start_ns),
                end: seconds(transfer.end_ns),
                payload_bytes: transfer.payload_bytes,
                packets: (transfer.end - transfer.first) as u64,
                lost: lost(flow.flow, transfer) as u64,
                goodput_bps: (lasted_s >= SHORTEST_SPAN_S)
                    .then(|| transfer.payload_bytes as f64 * 8.0 / lasted_s),
                cause: *cause,
                confidence: in_thousandths(*confidence),
                limits: limits::of_transfer(flow.flow.account(), number),
            });
        }
    }
    infos
}

/// The minimum and median round-trip time of a flow's data in nanoseconds, from the capture point to the
/// receiver and back. At the receiver this would be only its own delay, so the round trip to the sender is
/// given instead: the minimum from the handshake, from requests or from timestamps, the median from
/// timestamps alone.
fn round_trips_ns(flow: &Flow) -> (Option<i64>, Option<i64>) {
    let exact = (flow.segments.iter()).filter(|s| s.flags.has(SegmentFlags::RTT_EXACT));
    let mut measured_ns: Vec<i64> = exact.map(|s| s.rtt_ns).collect();
    let least_ns = measured_ns.iter().min().copied();
    let middle = measured_ns.len() / 2;
    let median_ns = (!measured_ns.is_empty()).then(|| *measured_ns.select_nth_unstable(middle).1);
    if flow.vantage != Vantage::Receiver {
        return (least_ns, median_ns);
    }
    let account = flow.account();
    let with_own = |near_ns: Option<i64>, own_ns: Option<i64>| {
        near_ns.map(|ns| ns.saturating_add(own_ns.unwrap_or(0)))
    };
    let least_ns = with_own(account.near_rtt_ns, least_ns);
    let median_ns = with_own(account.usual_near_rtt_ns, median_ns);
    (
        least_ns,
        median_ns.max(least_ns.filter(|_| median_ns.is_some())),
    )
}
