//! From what the reader and the tracker found to the document.

use std::collections::{BTreeMap, HashMap};

use whydrop_capture::Summary;
use whydrop_datagrams::Datagrams;
use whydrop_tcp::{Ecn, Flow, Kind, SegmentFlags, Tracked, Transfer};

use crate::conditions;
use crate::datagram_share::datagrams_beside;
use crate::document::{CaptureInfo, Document, FlowInfo, SCHEMA, TransferInfo};
use crate::evidence::{Evidence, Totals, measure, totals};
use crate::failures;
use crate::group::{FlowRef, Group, by_destination};
use crate::judge::{Bottleneck, Judgement, judge_losses};
use crate::limits;
use crate::management;
use crate::parallel::on_all_cores;
use crate::ranked::{Ranked, sort_verdicts};
use crate::seconds::seconds;
use crate::small_connections;
use crate::tables::Tables;
use crate::tabulate;
use crate::thresholds::FEWEST_LOSSES;
use crate::transfers::{ExpectedLosses, Held, by_what_held, judge_transfer, lost};
use crate::verdict::{Found, verdict};
use whydrop_verdict::Cause;

/// More of the acknowledged packets than this missing from the capture is worth a verdict of its own: beyond it,
/// counts of losses are off by as much.
const CAPTURE_LOSS_SHARE: f64 = 1e-3;

/// The judgement of one group of flows.
pub(crate) struct Judged {
    pub verdicts: Vec<Ranked>,
    /// Cause and confidence by flow number and transfer.
    pub transfers: Vec<(usize, Vec<(Cause, f64)>)>,
}

/// Explains all connections; fills the tables if asked.
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
        .filter(|flow| flow.carried_data())
        .enumerate()
        .map(|(index, flow)| FlowRef { index, flow })
        .collect();
    let mut verdicts = Vec::new();
    let mut causes: HashMap<usize, Vec<(Cause, f64)>> = HashMap::new();
    let groups = by_destination(&flows);
    for judged in on_all_cores(&groups, |group| judge_group(group, datagrams, keep_tables)) {
        verdicts.extend(judged.verdicts);
        causes.extend(judged.transfers);
    }
    let mut beside = failures::verdicts(tracked);
    beside.extend(conditions::of_capture(summary, tracked));
    verdicts.extend(beside.extract_if(.., |failure| failure.verdict.lost > 0));
    sort_verdicts(&mut verdicts);
    failures::rank_among(&mut verdicts, beside);
    let mut tables = Tables::default();
    if keep_tables {
        tabulate::flows(&flows, &mut tables);
        for (index, ranked) in verdicts.iter_mut().enumerate() {
            if let Some(model) = ranked.model.take() {
                tabulate::append_model(&mut tables.model, model, index as u32);
            }
        }
    }
    let document = Document {
        whydrop: env!("CARGO_PKG_VERSION").to_owned(),
        schema: SCHEMA,
        captures: vec![capture_info(summary, tracked)],
        flows: flow_infos(&flows),
        transfers: transfer_infos(&flows, &causes),
        verdicts: verdicts.into_iter().map(|ranked| ranked.verdict).collect(),
        pair: None,
        hops: Vec::new(),
        datagrams: None,
    };
    (document, tables)
}

/// Judges one group of flows by one capture, beside the datagrams that it holds.
pub(crate) fn judge_group(group: &Group, datagrams: &Datagrams, keep_tables: bool) -> Judged {
    let mut evidence = measure(group);
    evidence.beside = datagrams_beside(group, &evidence.group_trace.trace, datagrams);
    let bottleneck = Bottleneck::of(&evidence);
    let lossy = evidence.totals.lost > 0;
    let mut held = match lossy {
        true => Vec::new(),
        false => held_up(group, &bottleneck),
    };
    let judgement = match held.first() {
        Some(most) => most.judgement.clone(),
        None => judge_losses(&evidence),
    };
    let (judgement, family) = management::of_one_capture(group, &evidence, judgement);
    let bottleneck = match lossy {
        true => bottleneck.dropping(judgement.cause),
        false => bottleneck,
    };
    let conditions = conditions::of_group(group, &evidence, judgement.cause);
    let expected = ExpectedLosses::of(group, &evidence);
    let transfers: Vec<(usize, Vec<(Cause, f64)>)> = group
        .flows
        .iter()
        .enumerate()
        .map(|(member, flow)| {
            let member = (member, flow.flow);
            let judge = |transfer: &Transfer| {
                let judged = judge_transfer(&judgement, &bottleneck, &expected, member, transfer);
                conditions.instead_of(judged.0).unwrap_or(judged)
            };
            (flow.index, flow.flow.transfers.iter().map(judge).collect())
        })
        .collect();
    let mss = group
        .flows
        .iter()
        .filter_map(|flow| flow.flow.mss_bytes)
        .max()
        .unwrap_or(1460);
    let mut model = keep_tables.then(|| tabulate::model(group, &evidence, judgement.cause));
    let all = evidence.totals;
    let few = judgement.cause == Cause::Unknown && all.lost < FEWEST_LOSSES;
    if lossy {
        held = beside_losses(group, &bottleneck, judgement, few);
    }
    let mut verdicts = Vec::new();
    for (number, one) in held.into_iter().enumerate() {
        let of_losses = lossy && number == 0;
        let cause = one.judgement.cause;
        evidence.totals = match of_losses {
            // the share that was lost is that of all
            true => all,
            false => Totals {
                lost: 0,
                // and so is the way back
                typical_wait_back_s: all.typical_wait_back_s,
                longest_wait_back_s: all.longest_wait_back_s,
                ..totals(&one.flows)
            },
        };
        let mut found = Found::new(cause, &evidence, one.flows.names(), f64::from(mss));
        found.facts.extend(limits::unseen(&one.flows));
        if let Some(family) = family.as_ref().filter(|_| of_losses || !lossy) {
            found.detail = Some(family.name().to_owned());
            found.parameters.extend(family.parameters());
            found.facts.extend(family.fact());
        }
        let ranked = Ranked {
            model: model.take(),
            few: of_losses && few,
            ..Ranked::new(verdict(&one.judgement, &evidence, found), &evidence.totals)
        };
        verdicts.push((cause, ranked));
    }
    evidence.totals = all;
    let mut verdicts = conditions.join(verdicts, &evidence.totals);
    if missed_by_capture(&evidence) {
        let missed = Judgement::new(Cause::CaptureLoss, 0.99);
        let found = Found::new(missed.cause, &evidence, group.names(), f64::from(mss));
        let mut second = verdict(&missed, &evidence, found);
        // the losses belong to the first verdict
        (second.lost, second.explained) = (0, 0.0);
        verdicts.push(Ranked::new(second, &evidence.totals));
    }
    Judged {
        verdicts,
        transfers,
    }
}

fn held_up<'a>(group: &Group<'a>, bottleneck: &Bottleneck) -> Vec<Held<'a, ()>> {
    by_what_held(group, |flow| {
        let times_s = limits::times_of_flow_s(flow);
        (bottleneck.of_flow(flow).judge(&times_s), ())
    })
}

/// The flows of a group with losses: those that lost packets or were held up by what dropped them, and, by cause, those that
/// something else held up. Where the losses are too few to tell anything, what held their own flows up is told, too.
fn beside_losses<'a>(
    group: &Group<'a>,
    bottleneck: &Bottleneck,
    judgement: Judgement,
    few: bool,
) -> Vec<Held<'a, ()>> {
    let (lossy, lossless): (Vec<FlowRef>, Vec<FlowRef>) =
        (group.flows.iter()).partition(|flow| flow.flow.counters.lost > 0);
    let judged = match few {
        true => group.flows.clone(),
        false => lossless,
    };
    let held = held_up(&Group { flows: judged }, bottleneck);
    // an outage is told by what it lost
    let (alike, others): (Vec<_>, Vec<_>) = (held.into_iter())
        .filter(|one| !matches!(one.judgement.cause, Cause::None | Cause::Outage))
        .partition(|one| one.judgement.cause == judgement.cause);
    let of_losses = alike.into_iter().flat_map(|one| one.flows.flows);
    let mut flows: Vec<FlowRef> = lossy.into_iter().chain(of_losses).collect();
    flows.sort_by_key(|flow| flow.index);
    flows.dedup_by_key(|flow| flow.index);
    let first = Held {
        judgement,
        place: (),
        flows: Group { flows },
    };
    [first].into_iter().chain(others).collect()
}

fn missed_by_capture(evidence: &Evidence) -> bool {
    let missed = evidence.totals.missed_by_capture_packets as f64;
    missed > 0.0 && missed > CAPTURE_LOSS_SHARE * evidence.totals.data_packets as f64
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
        link_type: summary.link_types.join(", "),
        snaplen: summary.snaplen_bytes,
        truncated: summary.truncated,
        packets_by_kind: named
            .into_iter()
            .map(|(name, number)| (name.to_owned(), number))
            .collect(),
        duplicates: summary.duplicates,
        out_of_order: summary.out_of_order,
        notes: summary.notes.clone(),
        connections_without_data: tracked.without_data,
        small_connections: small_connections::info(&tracked.small),
    }
}

pub(crate) fn flow_infos(flows: &[FlowRef]) -> Vec<FlowInfo> {
    flows
        .iter()
        .map(|flow| flow_info(flow.flow, flows.len()))
        .collect()
}

/// One of so many `flows`.
fn flow_info(flow: &Flow, flows: usize) -> FlowInfo {
    let counters = &flow.counters;
    let mut rtts: Vec<i64> = flow
        .segments
        .iter()
        .filter(|s| s.flags.has(SegmentFlags::RTT_EXACT))
        .map(|s| s.rtt_ns)
        .collect();
    let median = if rtts.is_empty() {
        None
    } else {
        let middle = rtts.len() / 2;
        Some(*rtts.select_nth_unstable(middle).1 as f64 * 1e-9)
    };
    let by_kind: BTreeMap<String, u64> = Kind::RETRANSMISSIONS
        .iter()
        .map(|kind| {
            (
                kind.name().to_owned(),
                counters.retransmitted_by_kind[*kind as usize],
            )
        })
        .collect();
    let known_window = flow.window_scale.is_some() && flow.limited.busy_ns > 0;
    FlowInfo {
        flow: flow.name(),
        packets: counters.packets,
        payload_bytes: counters.payload_bytes,
        lost: counters.lost,
        retransmitted: counters.retransmitted,
        spurious: counters.spurious,
        reordered: counters.reordered,
        rtt_min_s: rtts.iter().min().map(|rtt| *rtt as f64 * 1e-9),
        rtt_median_s: median,
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
                goodput_bps: (lasted_s > 0.0)
                    .then(|| transfer.payload_bytes as f64 * 8.0 / lasted_s),
                cause: cause.name().to_owned(),
                confidence: (confidence * 1000.0).round() / 1000.0,
                limits: limits::of_transfer(flow.flow.account(), number),
            });
        }
    }
    infos
}
