//! The judgement of one group of flows in one capture: the element that dropped packets, the limits of flows,
//! and the causes of transfers.

use whydrop_capture::contain;
use whydrop_datagrams::Datagrams;
use whydrop_tcp::Transfer;
use whydrop_verdict::Cause;

use crate::cause::{Description, Outcome, describe, judge};
use crate::conditions;
use crate::error::without_verdict;
use crate::limited::Bottleneck;
use crate::limits;
use crate::observe::Observation;
use crate::observe::group::{FlowRef, Group};
use crate::observe::totals::{Totals, totals};
use crate::observe::{datagrams_beside, laws_of_group};
use crate::ranked::{Basis, Ranked};
use crate::tables::ModelTable;
use crate::tabulate;
use crate::thresholds::*;
use crate::transfers::{ExpectedLosses, LimitedFlows, by_limit, judge_transfer};
use crate::vantage::observe_group;
use crate::verdict::{Subject, verdict, verdict_of};

/// The judgement of one group of flows.
pub(crate) struct Judged {
    pub verdicts: Vec<Ranked>,
    /// Cause and confidence by flow number and transfer.
    pub transfers: Vec<(usize, Vec<(Cause, f64)>)>,
    /// Flows of packets that were too large for the path, and flows with data that never arrived, by number.
    pub too_large: Vec<usize>,
    pub missing: Vec<usize>,
    /// The defect that left the group without a verdict, if there was one.
    pub defect: Option<String>,
}

/// Judges one group as [`judge_group`] does; a defect costs only this group its verdict.
pub(crate) fn judge_contained(group: &Group, datagrams: &Datagrams, keep_tables: bool) -> Judged {
    contain(|| judge_group(group, datagrams, keep_tables)).unwrap_or_else(|defect| Judged {
        verdicts: Vec::new(),
        transfers: Vec::new(),
        too_large: Vec::new(),
        missing: Vec::new(),
        defect: Some(without_verdict(group, &defect)),
    })
}

/// Judges one group of flows in one capture, including the datagrams beside it.
pub(crate) fn judge_group(group: &Group, datagrams: &Datagrams, keep_tables: bool) -> Judged {
    let mut seen = observe_group(group);
    if seen.totals.missed_share() > MUCH_MISSED_SHARE {
        return lacking(group, &seen);
    }
    seen.beside = datagrams_beside(group, &seen.group_trace.trace, datagrams);
    let bottleneck = Bottleneck::of(&seen);
    let lossy = seen.totals.lost > 0;
    let mut limited = match lossy {
        true => Vec::new(),
        false => limited_flows(group, &bottleneck),
    };
    let laws = |seen: &Observation| laws_of_group(group, seen);
    let outcome = match limited.first() {
        Some(most) => most.outcome.clone(),
        None => judge(&mut seen, laws),
    };
    if !lossy && outcome.cause == Cause::Aqm {
        seen.laws = laws(&seen);
    }
    let bottleneck = match lossy {
        true => bottleneck.dropping(outcome.cause),
        false => bottleneck,
    };
    let conditions = conditions::of_group(group, &seen, outcome.cause);
    let expected = ExpectedLosses::of(group, &seen);
    let flows = group.flows.iter().enumerate();
    let transfers = flows.map(|(member, flow)| {
        let judge = |transfer: &Transfer| {
            let member = (member, flow.flow);
            let judged = judge_transfer(&outcome, &bottleneck, &expected, member, transfer);
            conditions
                .instead_of_flow(flow.index, judged.0)
                .unwrap_or(judged)
        };
        (flow.index, flow.flow.transfers.iter().map(judge).collect())
    });
    let transfers = transfers.collect();
    let model = keep_tables.then(|| tabulate::model(group, &seen, outcome.cause));
    let few = outcome.cause == Cause::Unknown && seen.totals.lost < FEWEST_BY_CHANCE;
    let on_losses = lossy.then_some(OnLosses { few });
    if lossy {
        limited = beside_losses(group, &bottleneck, outcome, few);
    }
    let all = seen.totals;
    let on_load = on_load(&mut seen, limited, on_losses, model);
    seen.totals = all;
    let too_large = conditions.too_large.clone();
    let missing = conditions.missing_flows();
    let mut verdicts = conditions.join(on_load, &all);
    verdicts.extend(on_capture_loss(group, &seen));
    Judged {
        verdicts,
        transfers,
        too_large,
        missing,
        defect: None,
    }
}

/// The judgement of a group of which the capture lacks so much that it allows no other verdict.
fn lacking(group: &Group, seen: &Observation) -> Judged {
    let lacking = |ranked| Ranked {
        basis: Basis::MostMissing,
        ..ranked
    };
    let unknown = |flow: &FlowRef| vec![(Cause::Unknown, 1.0); flow.flow.transfers.len()];
    Judged {
        verdicts: on_capture_loss(group, seen)
            .map(lacking)
            .into_iter()
            .collect(),
        transfers: (group.flows.iter())
            .map(|flow| (flow.index, unknown(flow)))
            .collect(),
        too_large: Vec::new(),
        missing: Vec::new(),
        defect: None,
    }
}

/// The first part of the outcome of a group: its losses.
#[derive(Debug, Clone, Copy)]
struct OnLosses {
    /// Too few losses to name a cause.
    few: bool,
}

/// The verdicts on a group's load, each with its cause: on its losses, if there are any, and on the limits of
/// the other flows.
fn on_load(
    seen: &mut Observation,
    limited: Vec<LimitedFlows<()>>,
    on_losses: Option<OnLosses>,
    mut model: Option<ModelTable>,
) -> Vec<(Cause, Ranked)> {
    let all = seen.totals;
    let mut verdicts = Vec::with_capacity(limited.len());
    for (number, one) in limited.into_iter().enumerate() {
        let losses = on_losses.filter(|_| number == 0);
        let cause = one.outcome.cause;
        seen.totals = match losses {
            // the share that was lost relates to all packets
            Some(_) => all,
            None => {
                let own = totals(&one.flows);
                Totals {
                    lost: 0,
                    lost_besides: own.lost,
                    // the return path is common to all of them
                    typical_wait_back_s: all.typical_wait_back_s,
                    longest_wait_back_s: all.longest_wait_back_s,
                    ..own
                }
            }
        };
        // the family is that of the element that drops or marks
        let said = match losses.is_some() || on_losses.is_none() {
            true => describe(&one.outcome, seen),
            false => Description {
                detail: None,
                ..describe(&one.outcome, seen)
            },
        };
        let subject = Subject {
            flows: one.flows.names(),
            mss_bytes: one.flows.mss_bytes(),
            first: limits::unseen(&one.flows),
            ..Subject::default()
        };
        let ranked = Ranked::new(verdict_of(&one.outcome, seen, said, subject), &seen.totals);
        let ranked = match losses.is_some_and(|losses| losses.few) {
            true => ranked.of_few(&seen.totals),
            false => ranked,
        };
        let model = model.take();
        verdicts.push((cause, Ranked { model, ..ranked }));
    }
    verdicts
}

/// The verdict on packets missing from the capture, if there are enough.
fn on_capture_loss(group: &Group, seen: &Observation) -> Option<Ranked> {
    let totals = &seen.totals;
    let missed = totals.missed_by_capture_packets as f64;
    if missed <= 0.0 || missed <= CAPTURE_LOSS_SHARE * totals.data_packets as f64 {
        return None;
    }
    let outcome = Outcome::new(Cause::CaptureLoss, SUREST);
    let subject = Subject {
        flows: group.names(),
        mss_bytes: group.mss_bytes(),
        ..Subject::default()
    };
    let mut verdict = verdict(&outcome, seen, subject);
    // the losses belong to the first verdict
    (verdict.lost, verdict.explained) = (0, 0.0);
    Some(Ranked::new(verdict, totals))
}

/// The flows by limit.
fn limited_flows<'a>(group: &Group<'a>, bottleneck: &Bottleneck) -> Vec<LimitedFlows<'a, ()>> {
    by_limit(group, |flow| {
        let times_s = limits::times_of_flow_s(flow);
        (bottleneck.of_flow(flow).judge(&times_s), ())
    })
}

/// The flows of a group with losses: those that lost packets or were limited by the element that dropped
/// them, and, by cause, those with another limit. If the losses are too few to name a cause, the limits of
/// their own flows are reported too.
fn beside_losses<'a>(
    group: &Group<'a>,
    bottleneck: &Bottleneck,
    outcome: Outcome,
    few: bool,
) -> Vec<LimitedFlows<'a, ()>> {
    let (lossy, lossless): (Vec<FlowRef>, Vec<FlowRef>) =
        (group.flows.iter()).partition(|flow| flow.flow.counters.lost > 0);
    let judged = match few {
        true => group.flows.clone(),
        false => lossless,
    };
    let limited = limited_flows(&Group { flows: judged }, bottleneck);
    // an outage is described by its losses
    let (alike, others): (Vec<_>, Vec<_>) = (limited.into_iter())
        .filter(|one| !matches!(one.outcome.cause, Cause::None | Cause::Outage))
        .partition(|one| one.outcome.cause == outcome.cause);
    let of_losses = alike.into_iter().flat_map(|one| one.flows.flows);
    let mut flows: Vec<FlowRef> = lossy.into_iter().chain(of_losses).collect();
    flows.sort_by_key(|flow| flow.index);
    flows.dedup_by_key(|flow| flow.index);
    let first = LimitedFlows {
        outcome,
        place: (),
        flows: Group { flows },
    };
    [first].into_iter().chain(others).collect()
}
