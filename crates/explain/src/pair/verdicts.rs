//! Verdicts on each part of the path for a group of flows: before the first point, between them, beyond the
//! second.

use std::collections::HashMap;

use whydrop_capture::contain;
use whydrop_datagrams::Datagrams;
use whydrop_pair::{Direction, Pair};
use whydrop_path::fit::Seen;
use whydrop_path::fit::passage::Passages;
use whydrop_tcp::Flow;
use whydrop_verdict::{Cause, Fact, Place, fact};

use super::groups::{PairGroup, passages_of_groups};
use super::outer;
use super::return_path;
use super::timeline::Timeline;
use super::variation;
use crate::cause::{Outcome, judge as judge_losses, weigh};
use crate::error::without_verdict;
use crate::hop::models::Modelled;
use crate::hop::{self, Replayed, hop_verdict};
use crate::limited::Bottleneck;
use crate::limits::{self, Times};
use crate::observe::group::Group;
use crate::observe::totals::{Totals, base_rtt_s, totals};
use crate::observe::{Exact, HopInput, Observation, laws_of_hop, measure_trace};
use crate::one_group::judge_group;
use crate::parallel::on_all_cores;
use crate::ranked::{Basis, Ranked};
use crate::tables::ModelTable;
use crate::thresholds::*;
use crate::transfers::{ExpectedLosses, LimitedFlows, by_limit, judge_transfer, lost};
use crate::vantage::observe_group;
use crate::verdict::{Subject, verdict};

/// Cause and confidence of each transfer, by flow number.
pub type TransferCauses = HashMap<usize, Vec<(Cause, f64)>>;

/// The verdicts on one group, and the causes of its transfers.
pub(super) struct Judged {
    pub direction: Direction,
    pub ranked: Vec<Ranked>,
    pub causes: TransferCauses,
    /// The defect that left the group without a verdict, if there was one.
    pub defect: Option<String>,
}

/// Judges all groups on all cores; also returns a note on each group without a verdict because of a defect.
pub fn judge_all(
    pair: &Pair,
    timeline: &Timeline,
    groups: &[PairGroup],
    keep_tables: bool,
) -> (Vec<Ranked>, TransferCauses, Vec<String>) {
    let passages = passages_of_groups(pair, timeline, groups);
    let work: Vec<(&PairGroup, Passages)> = groups.iter().zip(passages).collect();
    let worth_it = work
        .iter()
        .filter(|(group, passages)| group.is_worth_a_verdict(passages));
    let work: Vec<&(&PairGroup, Passages)> = worth_it.collect();
    let judge_one = |group: &PairGroup, passages: &Passages| {
        let (mut ranked, causes) = judge(pair, timeline, group, passages, keep_tables);
        // other flows may share a queue, and their effect is not among these packets
        let alike = |other: &&&(&PairGroup, Passages)| other.0.direction == group.direction;
        if work.iter().filter(alike).count() == 1 {
            ranked.extend(varying(pair, group, passages, &ranked));
        }
        (ranked, causes)
    };
    let mut judged = on_all_cores(&work, |(group, passages)| {
        let (judgement, defect) = match contain(|| judge_one(group, passages)) {
            Ok(judgement) => (judgement, None),
            Err(defect) => {
                let note = without_verdict(&group.at_upstream, &defect);
                (Default::default(), Some(note))
            }
        };
        let (ranked, causes) = judgement;
        Judged {
            direction: group.direction,
            ranked,
            causes,
            defect,
        }
    });
    return_path::accounts_for_waits(&mut judged);
    let (mut verdicts, mut notes) = (Vec::new(), Vec::new());
    let mut causes = TransferCauses::new();
    for group in judged {
        verdicts.extend(group.ranked);
        causes.extend(group.causes);
        notes.extend(group.defect);
    }
    (verdicts, causes, notes)
}

/// The measurements of each group between the points, named by the group's first flow.
pub fn hops(pair: &Pair, timeline: &Timeline, groups: &[PairGroup]) -> Vec<(String, Observation)> {
    let passages = passages_of_groups(pair, timeline, groups);
    groups
        .iter()
        .zip(&passages)
        .filter(|(group, passages)| group.is_worth_a_verdict(passages))
        .map(|(group, passages)| (group.names(pair)[0].clone(), hop_of(group, pair, passages)))
        .collect()
}

/// Verdicts on one group, and the causes of its transfers.
fn judge(
    pair: &Pair,
    timeline: &Timeline,
    group: &PairGroup,
    passages: &Passages,
    keep_tables: bool,
) -> (Vec<Ranked>, TransferCauses) {
    let mut ranked = Vec::new();
    let outer = outer::losses(pair, timeline, group);
    let acknowledged = outer::has_acknowledgments(pair, group);
    let (mut placed, mut bottleneck) = (None, None);
    let judgement = (passages.lost > 0).then(|| {
        let (judgement, own, verdict, losses) = between_points(pair, group, passages, keep_tables);
        ranked.push(verdict);
        (placed, bottleneck) = (losses, Some(own));
        judgement
    });
    for (place, seen) in group.outer_places().into_iter().zip(outer) {
        let Some(seen) = seen.filter(|seen| group.gaps_prove_losses(pair, seen)) else {
            continue;
        };
        let mut verdict = outer_verdict(pair, group, place, &seen, passages);
        // without acknowledgments it is unknown which retransmissions were needed
        let is_doubtful = !acknowledged
            && (cause_of(&verdict) == Cause::Unknown
                || outer::repeated_amid_data(&group.at_downstream) < FEWEST_LOSSES);
        if is_doubtful {
            verdict.basis = Basis::Doubtful;
        }
        ranked.push(verdict);
        bottleneck.get_or_insert_with(|| Bottleneck::of(&seen));
    }
    for one in &mut ranked {
        if cause_of(one) == Cause::Unknown && one.verdict.lost < FEWEST_BY_CHANCE {
            one.basis = Basis::Doubtful;
        }
    }
    let doubtful = ranked.iter().all(|one| one.basis == Basis::Doubtful);
    if doubtful && outer::seen_by_one(pair, group) as u64 >= FEWEST_LOSSES {
        let alone = judge_group(&group.at_upstream, &Datagrams::default(), keep_tables);
        ranked.extend(alone.verdicts.into_iter().map(by_one));
        ranked.extend(capture_loss(pair, group));
        return (ranked, alone.transfers.into_iter().collect());
    }
    let of_losses = ranked.iter().max_by_key(|one| one.verdict.lost);
    let of_losses = of_losses.map_or(
        Outcome::new(Cause::Unknown, NO_EVIDENCE_CONFIDENCE),
        |one| Outcome::new(cause_of(one), one.verdict.confidence),
    );
    let headline = match judgement {
        // losses too few to name a cause do not limit anything for long either
        _ if doubtful => {
            let (judgement, own, verdicts) = lossless(pair, group, passages);
            // without acknowledgments, "no delay" only means that none was visible
            if acknowledged || ranked.is_empty() || judgement.cause != Cause::None {
                ranked.extend(verdicts);
            }
            bottleneck = Some(own);
            judgement
        }
        Some(judgement) => judgement,
        None => Outcome::new(cause_of(&ranked[0]), ranked[0].verdict.confidence),
    };
    ranked.extend(capture_loss(pair, group));
    let bottleneck = bottleneck.map(|bottleneck| bottleneck.dropping(headline.cause));
    let dropped = if doubtful { of_losses } else { headline };
    let causes = bottleneck.map(|own| transfer_causes(group, &dropped, &own, placed.as_deref()));
    (ranked, causes.unwrap_or_default())
}

/// A verdict from the only capture that recorded the lost packets.
fn by_one(mut one: Ranked) -> Ranked {
    if one.verdict.lost > 0 {
        one.verdict.facts.push(fact!("captured-at-one-point"));
    }
    one
}

/// Delays between the points that vary independently of the load; not for a shaper, which releases in ticks
/// at its rate.
fn varying(
    pair: &Pair,
    group: &PairGroup,
    passages: &Passages,
    judged: &[Ranked],
) -> Option<Ranked> {
    if judged.iter().any(|one| cause_of(one) == Cause::Shaper) {
        return None;
    }
    let found = variation::find(passages, base_rtt_s(&group.at_upstream)?)?;
    let payload_bytes = totals(&group.at_upstream).payload_bytes;
    Some(found.ranked(group.names(pair), group.place(), payload_bytes))
}

fn cause_of(ranked: &Ranked) -> Cause {
    ranked.verdict.cause
}

fn hop_of(group: &PairGroup, pair: &Pair, passages: &Passages) -> Observation {
    let mut counted = totals(&group.at_upstream);
    counted.lost = passages.lost as u64;
    counted.lost_before_capture = 0;
    counted.data_packets = passages.len() as u64;
    counted.lossy_flows = group
        .members
        .iter()
        .filter(|member| pair.flows[**member as usize].lost() > 0)
        .count() as u64;
    if group.is_mostly_datagrams(passages) {
        counted.packets = passages.len() as u64;
        counted.payload_bytes = passages.bytes.iter().map(|bytes| *bytes as u64).sum();
        counted.union_busy_s = passages.duration_s();
        counted.busy_s = counted.union_busy_s;
    }
    let upstream = group.direction.upstream().unwrap_or(0);
    hop::measure(HopInput {
        passages: passages.clone(),
        offloaded: group
            .members
            .iter()
            .any(|member| pair.flows[*member as usize].offloaded[upstream] > 0),
        totals: counted,
        base_rtt_s: base_rtt_s(&group.at_upstream),
        missed_share: group.missed_share(pair).iter().sum(),
    })
}

fn between_points(
    pair: &Pair,
    group: &PairGroup,
    passages: &Passages,
    keep_tables: bool,
) -> (Outcome, Bottleneck, Ranked, Option<Vec<OwnLosses>>) {
    let mut hop = hop_of(group, pair, passages);
    let outcome = judge_losses(&mut hop, |seen| seen.exact.as_ref().map(laws_of_hop));
    let subject = Subject {
        place: Some(group.place()),
        ..subject(pair, group)
    };
    let (verdict, replays) = hop_verdict(&outcome, &hop, subject);
    let ranked = Ranked {
        model: (hop.exact.as_ref().filter(|_| keep_tables))
            .map(|exact| model_table(group, exact, &replays)),
        ..Ranked::new(verdict, &hop.totals)
    };
    let winner = replays.iter().find(|replayed| replayed.why.is_none());
    let own = (winner.zip(hop.exact.as_ref()))
        .and_then(|(winner, exact)| own_losses(group, exact, winner));
    (
        outcome,
        Bottleneck::of(&hop).by_the_first_of_two(),
        ranked,
        own,
    )
}

/// The losses of a group's member between the points, and how many of them the winning model drops.
#[derive(Debug, Clone, Copy, Default)]
struct OwnLosses {
    lost: u32,
    predicted: u32,
}

/// By member; `None` if the model does not show which packets are lost.
fn own_losses(group: &PairGroup, hop: &Exact, winner: &Replayed) -> Option<Vec<OwnLosses>> {
    let (packets, passages) = (&winner.replay.packets, &hop.passages);
    let mut own = vec![OwnLosses::default(); group.members.len()];
    for (index, _) in passages
        .outcome
        .iter()
        .enumerate()
        .filter(|(_, outcome)| **outcome == Seen::Lost)
    {
        let near = index.saturating_sub(NEIGHBOURS_PACKETS)
            ..(index + NEIGHBOURS_PACKETS + 1).min(packets.len());
        let member = &mut own[passages.flow[index] as usize];
        member.lost += 1;
        member.predicted += u32::from(packets[near].iter().any(|packet| packet.dropped));
    }
    let (lost, predicted) = own.iter().fold((0, 0), |sum, member| {
        (sum.0 + member.lost, sum.1 + member.predicted)
    });
    (f64::from(predicted) > PLACED_SHARE * f64::from(lost)).then_some(own)
}

fn outer_verdict(
    pair: &Pair,
    group: &PairGroup,
    place: Place,
    seen: &Observation,
    passages: &Passages,
) -> Ranked {
    let outcome = weigh(seen);
    let vanished = fact!(
        "vanished-outside",
        lost = seen.totals.lost,
        lost_between = passages.lost
    );
    let subject = Subject {
        place: Some(place),
        first: vec![vanished],
        ..subject(pair, group)
    };
    let verdict = verdict(&outcome, seen, subject);
    Ranked::new(verdict, &seen.totals)
}

/// True if two captures show that a cause is between them.
fn is_of_hop(cause: Cause, overtaken: u64, marked: u64) -> bool {
    match cause {
        Cause::Shaper => true,
        Cause::Reordering => overtaken > 0,
        Cause::Aqm => marked > 0,
        _ => false,
    }
}

/// The verdicts on a group without losses.
fn lossless(
    pair: &Pair,
    group: &PairGroup,
    passages: &Passages,
) -> (Outcome, Bottleneck, Vec<Ranked>) {
    let mut hop = hop_of(group, pair, passages);
    let overtaken = group.overtaken(pair);
    let marked = hop.exact.as_ref().map_or(0, |exact| exact.marked);
    // the return path may be missing: then no acknowledgment shows reordering ...
    hop.totals.reordered = hop.totals.reordered.max(overtaken);
    // ... or marks
    hop.totals.ce_marked = hop.totals.ce_marked.max(marked as u64);
    let mut seen = observe_group(&group.at_upstream);
    let of = |seen| Bottleneck::of(seen).by_the_first_of_two();
    let between = of(&hop);
    let all = of(&seen).with_a_part(&between);
    let judge = |between: &Bottleneck, all: &Bottleneck, times_s: &Times| {
        let judged = between.judge(times_s);
        match is_of_hop(judged.cause, overtaken, marked as u64) {
            true => (judged, true),
            false => (all.judge(times_s), false),
        }
    };
    let unseen = !outer::has_acknowledgments(pair, group);
    let mut limited = by_limit(&group.at_upstream, |flow| {
        if repeats_what_was_overtaken(flow, overtaken) {
            return (Outcome::new(Cause::Reordering, REPEATED_CONFIDENCE), true);
        }
        let times_s = limits::times_of_flow_s(flow);
        let (judgement, place) = judge(&between.of_flow(flow), &all.of_flow(flow), &times_s);
        let is_unknown = unseen && !flow.account().by_echoes();
        let is_unlimited = is_unknown && judgement.cause == Cause::None;
        match is_unlimited && outer::paused_share(flow).is_some() {
            true => (Outcome::new(Cause::Unknown, NO_EVIDENCE_CONFIDENCE), place),
            false => (judgement, place),
        }
    });
    if limited.is_empty() {
        let (judgement, place) = judge(&between, &all, &Times::default());
        let flows = Group { flows: Vec::new() };
        limited.push(LimitedFlows {
            outcome: judgement,
            place,
            flows,
        });
    }
    let (first, at_hop) = (limited[0].outcome.clone(), limited[0].place);
    let ranked = limited.into_iter().map(|one| {
        let paused = unseen.then(|| paused_unseen(&one)).flatten();
        let names = match one.flows.flows.is_empty() {
            true => group.names(pair),
            false => one.flows.names(),
        };
        let totals = Totals {
            lost: 0,
            ..totals(&one.flows)
        };
        if one.place {
            hop.totals = Totals {
                reordered: totals.reordered.max(overtaken),
                ce_marked: totals.ce_marked.max(marked as u64),
                ..totals
            };
            limited_between(pair, group, &mut hop, &one.outcome, names)
        } else {
            seen.totals = totals;
            let mut ranked = limited_outside(pair, group, &seen, &one.outcome, names);
            ranked.verdict.facts.extend(paused);
            ranked.verdict.facts.extend(limits::unseen(&one.flows));
            ranked
        }
    });
    let ranked = ranked.collect();
    (first, if at_hop { between } else { all }, ranked)
}

/// True if overtaking explains the needless retransmissions. They are to reordering what losses are to drops,
/// and come before causes that take more time.
fn repeats_what_was_overtaken(flow: &Flow, overtaken: u64) -> bool {
    let counted = &flow.counters;
    let spurious = counted.spurious;
    spurious >= FEWEST_LOSSES
        && spurious as f64 > REORDERED_SHARE * counted.packets as f64
        && spurious <= REPEATED_FOR_EACH * overtaken
}

fn paused_unseen(one: &LimitedFlows<bool>) -> Option<Fact> {
    let flows = one.flows.flows.iter().map(|flow| flow.flow);
    let flows = flows.filter(|flow| !flow.account().by_echoes());
    let shares = flows.filter_map(outer::paused_share);
    let paused_share = shares.max_by(f64::total_cmp)?;
    (one.outcome.cause == Cause::Unknown)
        .then(|| fact!("paused-unseen", paused_share = paused_share))
}

fn limited_between(
    pair: &Pair,
    group: &PairGroup,
    hop: &mut Observation,
    outcome: &Outcome,
    names: Vec<String>,
) -> Ranked {
    let marked = hop.exact.as_ref().map_or(0, |exact| exact.marked);
    let facts = match outcome.cause {
        Cause::Reordering => vec![fact!(
            "overtaken-between",
            overtaken = group.overtaken(pair)
        )],
        Cause::Aqm => vec![fact!("marked-between", marked = marked)],
        _ => Vec::new(),
    };
    if outcome.cause == Cause::Aqm {
        hop.laws = hop.exact.as_ref().map(laws_of_hop);
    }
    let subject = Subject {
        flows: names,
        place: Some(group.place()),
        ..subject(pair, group)
    };
    let (mut verdict, replays) = hop_verdict(outcome, hop, subject);
    verdict.facts.extend(facts);
    let exact = hop.exact.as_ref();
    Ranked {
        model: exact.map(|exact| model_table(group, exact, &replays)),
        ..Ranked::new(verdict, &hop.totals)
    }
}

fn limited_outside(
    pair: &Pair,
    group: &PairGroup,
    seen: &Observation,
    outcome: &Outcome,
    names: Vec<String>,
) -> Ranked {
    let subject = Subject {
        flows: names,
        ..subject(pair, group)
    };
    let mut verdict = verdict(outcome, seen, subject);
    if matches!(
        outcome.cause,
        Cause::Shaper | Cause::Reordering | Cause::Aqm
    ) {
        verdict.facts.push(fact!("not-between"));
    }
    Ranked::new(verdict, &seen.totals)
}

fn capture_loss(pair: &Pair, group: &PairGroup) -> Option<Ranked> {
    let missed = group.missed(pair);
    let packets: u64 = group
        .members
        .iter()
        .map(|member| {
            pair.flows[*member as usize]
                .packets
                .iter()
                .max()
                .copied()
                .unwrap_or(0)
        })
        .sum();
    if ((missed[0] + missed[1]) as f64) <= CAPTURE_LOSS_SHARE * packets as f64 {
        return None;
    }
    let mut seen = measure_nothing(group);
    seen.totals.missed_by_capture_packets = missed[0] + missed[1];
    seen.totals.passed_over_packets = 0;
    let outcome = Outcome::new(Cause::CaptureLoss, SUREST);
    let mut verdict = verdict(&outcome, &seen, subject(pair, group));
    let of = |side: usize| {
        fact!(
            "capture-missed",
            capture = side + 1,
            missed = missed[side],
            missed_share = missed[side] as f64 / packets.max(1) as f64
        )
    };
    let headline = fact!(
        "missed-by-captures",
        missed_1 = missed[0],
        missed_2 = missed[1]
    );
    let of_each = (0..2).filter(|side| missed[*side] > 0).map(of);
    verdict.facts = [headline].into_iter().chain(of_each).collect();
    verdict.against.clear();
    (verdict.lost, verdict.explained) = (0, 0.0);
    Some(Ranked::new(verdict, &seen.totals))
}

/// All flows of a group, without a place.
fn subject(pair: &Pair, group: &PairGroup) -> Subject {
    Subject {
        flows: group.names(pair),
        mss_bytes: group.at_upstream.mss_bytes(),
        ..Subject::default()
    }
}

/// Observation with counters only.
fn measure_nothing(group: &PairGroup) -> Observation {
    measure_trace(
        Default::default(),
        None,
        totals(&group.at_upstream),
        base_rtt_s(&group.at_upstream),
    )
}

/// The cause of a transfer: losses on its path have the headline's cause, unless the model that explains the
/// group's losses drops less than half of those of this flow; without losses, its limit.
fn transfer_causes(
    group: &PairGroup,
    headline: &Outcome,
    bottleneck: &Bottleneck,
    own: Option<&[OwnLosses]>,
) -> TransferCauses {
    let nothing_expected = ExpectedLosses::none(&group.at_upstream);
    // those with data come in the order of all members
    let with_data = |member: &usize| group.numbers[*member] != u32::MAX;
    let places: Vec<usize> = (0..group.members.len()).filter(with_data).collect();
    group
        .at_upstream
        .flows
        .iter()
        .enumerate()
        .map(|(member, flow)| {
            let unlike = own.is_some_and(|own| {
                let own = own[places[member]];
                own.lost > 0 && 2 * own.predicted < own.lost
            });
            let causes = flow
                .flow
                .transfers
                .iter()
                .map(|transfer| match lost(flow.flow, transfer) {
                    0 => judge_transfer(
                        headline,
                        bottleneck,
                        &nothing_expected,
                        (member, flow.flow),
                        transfer,
                    ),
                    _ if unlike => (Cause::Unknown, 0.5),
                    _ => (headline.cause, headline.confidence),
                })
                .collect();
            (flow.index, causes)
        })
        .collect()
}

/// Rows of the winner and of the strongest rival, or, if no model was replayed, of a path that lets everything
/// pass; `verdict` is filled in later.
fn model_table(group: &PairGroup, hop: &Exact, replays: &[Replayed]) -> ModelTable {
    let mut table = ModelTable::default();
    let winner = replays.iter().find(|replayed| replayed.why.is_none());
    let rival = replays.iter().find(|replayed| replayed.why.is_some());
    let passages = &hop.passages;
    let nanoseconds = |seconds: f64| {
        if seconds.is_nan() {
            -1
        } else {
            (seconds * NS_PER_S).round() as i64
        }
    };
    let everything_passes = vec![Modelled::PASSES; passages.len()];
    let mut of_models: Vec<(&[Modelled], bool)> = (winner.into_iter().chain(rival))
        .map(|replayed| (&replayed.replay.packets[..], replayed.why.is_some()))
        .collect();
    if of_models.is_empty() {
        of_models.push((&everything_passes, true));
    }
    for (packets, is_rival) in of_models {
        for (index, packet) in packets.iter().enumerate() {
            table
                .flow
                .push(group.numbers[passages.flow[index] as usize]);
            table
                .time_ns
                .push(passages.start_ns + (passages.arrival_s[index] * NS_PER_S).round() as i64);
            table.level_bytes.push(packet.level_bytes);
            table.ip_bytes.push(passages.bytes[index] as u32);
            table.predicted_drop.push(packet.dropped);
            table.seen_lost.push(passages.outcome[index] == Seen::Lost);
            table.rival.push(is_rival);
            table.wait_ns.push(nanoseconds(packet.wait_s));
            table.seen_wait_ns.push(nanoseconds(passages.wait_s[index]));
        }
    }
    table
}
