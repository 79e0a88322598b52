//! A judgement put into words: one sentence, the evidence, the runners-up, the advice.

use std::collections::BTreeMap;

use crate::advice::{Situation, advice, throughput_lost};
use crate::cause::Cause;
use crate::document::{Against, Parameter, Verdict};
use crate::evidence::Evidence;
use crate::judge::Judgement;
use crate::parameters::parameters;
use crate::words::{bytes, count, duration, percent, plural, rate};

/// Builds the verdict on a group of flows.
pub fn verdict(
    judgement: &Judgement,
    evidence: &Evidence,
    flows: Vec<String>,
    mss_bytes: f64,
) -> Verdict {
    let parameters = parameters(judgement.cause, evidence);
    let explained = explained(judgement.cause, evidence);
    verdict_with(judgement, evidence, parameters, explained, flows, mss_bytes)
}

/// Builds the verdict with parameters that were found otherwise. `explained` is the share of the losses that the cause
/// accounts for.
pub fn verdict_with(
    judgement: &Judgement,
    evidence: &Evidence,
    parameters: BTreeMap<String, Parameter>,
    explained: f64,
    flows: Vec<String>,
    mss_bytes: f64,
) -> Verdict {
    let cause = judgement.cause;
    let totals = &evidence.totals;
    let delivered = totals.payload_bytes as f64
        * (1.0 - totals.lost as f64 / totals.data_packets.max(1) as f64);
    let situation = Situation {
        cause,
        evidence,
        parameters: &parameters,
        mss_bytes,
        goodput_bps: delivered * 8.0 / totals.union_busy_s.max(1e-9),
    };
    let advice = advice(&situation);
    let throughput_lost = throughput_lost(&situation);
    Verdict {
        cause: cause.name().to_owned(),
        confidence: (judgement.confidence * 1000.0).round() / 1000.0,
        lost: totals.lost,
        explained,
        limited_share: limited_share(cause, evidence),
        sentence: sentence(cause, evidence, &parameters, explained),
        evidence: describe(cause, evidence),
        against: against(judgement, evidence),
        flows,
        parameters,
        byte_basis: None,
        place: None,
        family: None,
        models: Vec::new(),
        advice,
        throughput_lost,
    }
}

/// Share of the losses that the cause accounts for.
pub(crate) fn explained(cause: Cause, evidence: &Evidence) -> f64 {
    if evidence.totals.lost == 0 {
        return if cause == Cause::Unknown { 0.0 } else { 1.0 };
    }
    let by_bucket = evidence.bucket.as_ref().map_or(0.0, |fit| {
        f64::from(fit.agreement.expected_losses())
            / f64::from(fit.agreement.lost.iter().sum::<u32>().max(1))
    });
    let by_delay = evidence
        .at_loss
        .as_ref()
        .map_or(0.0, |at_loss| at_loss.share_delayed);
    match cause {
        Cause::Policer => by_bucket,
        Cause::ShallowQueue | Cause::DeepQueue | Cause::Aqm => by_delay,
        Cause::RandomLoss => 1.0,
        _ => 0.0,
    }
}

fn limited_share(cause: Cause, evidence: &Evidence) -> f64 {
    let totals = &evidence.totals;
    let time = (totals.busy_s + totals.idle_s).max(1e-9);
    let share = match cause {
        Cause::ReceiverWindow => totals.window_s / time,
        Cause::Sender => totals.idle_s / time,
        Cause::None | Cause::Unknown | Cause::CaptureLoss => 0.0,
        _ => totals.busy_s / time,
    };
    share.clamp(0.0, 1.0)
}

fn sentence(
    cause: Cause,
    evidence: &Evidence,
    parameters: &BTreeMap<String, Parameter>,
    explained: f64,
) -> String {
    let (lost, flows) = (evidence.totals.lost, evidence.totals.lossy_flows);
    let of_lost = |explained: f64| match lost {
        1 => "the one lost packet".to_owned(),
        _ if explained >= 0.9995 => format!("all {} lost packets", count(lost)),
        _ => format!(
            "{} of {} lost packets",
            count((explained * lost as f64).round() as u64),
            count(lost)
        ),
    };
    let value = |name: &str| {
        parameters
            .get(name)
            .map_or(0.0, |parameter| parameter.value)
    };
    let over = if flows > 1 {
        format!(" of {flows} flows")
    } else {
        String::new()
    };
    match cause {
        Cause::Policer => format!(
            "A policer at {} with a {} bucket dropped {}{over}.",
            rate(value("rate_bps")), bytes(value("burst_bytes")), of_lost(explained)
        ),
        Cause::ShallowQueue => format!(
            "A shallow queue of about {}, draining at {}, overflowed and dropped {}{over}.",
            plural(value("limit_packets").max(1.0) as u64, "packet"), rate(value("drain_rate_bps")), of_lost(explained)
        ),
        Cause::DeepQueue => format!(
            "A deep queue draining at {} held packets for up to {} and dropped {}{over} when it was full.",
            rate(value("drain_rate_bps")), duration(evidence.at_loss.as_ref().map_or(0.0, |a| a.largest_s)), of_lost(explained)
        ),
        Cause::Shaper => format!(
            "A shaper at {} held packets for up to {} and dropped none.",
            rate(value("rate_bps")), duration(evidence.drain.as_ref().map_or(0.0, |drain| drain.largest_s))
        ),
        Cause::Aqm if lost == 0 => format!(
            "Active queue management marked packets instead of dropping them: {} of congestion came back.",
            plural(evidence.totals.ecn_echoes.max(evidence.totals.ce_marked), "echo").replace("echos", "echoes")
        ),
        Cause::Aqm => format!("Active queue management dropped {}{over} to keep its queue short.", of_lost(explained)),
        Cause::RandomLoss => format!(
            "Random loss of {} took {}{over}, whatever the load.",
            percent(value("loss_probability")), of_lost(1.0)
        ),
        Cause::Reordering => format!(
            "Nothing was lost: the path reorders, {} arrived late{}.",
            plural(evidence.totals.reordered, "packet"),
            if evidence.totals.spurious > 0 { format!(" and {} needless", plural(evidence.totals.spurious, "retransmission")) } else { String::new() }
        ),
        Cause::ReceiverWindow => format!(
            "The receiver's window held the sender back for {} of the time; the path dropped nothing.",
            percent(evidence.totals.window_s / evidence.totals.busy_s.max(1e-9))
        ),
        Cause::Sender if evidence.totals.window_known => {
            "The sender held the flow back, not the path: nothing was lost, no queue grew, the receiver's window was open.".to_owned()
        }
        Cause::Sender => "The sender held the flow back, not the path: nothing was lost, no queue grew.".to_owned(),
        Cause::CaptureLoss => format!(
            "The capture missed {} that the receiver acknowledged.",
            plural(evidence.totals.missed_by_capture_packets, "packet")
        ),
        Cause::None => "Nothing was lost and nothing waited for long.".to_owned(),
        Cause::Unknown => format!("{} lost, and no cause accounts for them markedly better than the others.", plural(lost, "packet")),
    }
}

/// Numbers for the cause.
fn describe(cause: Cause, evidence: &Evidence) -> Vec<String> {
    let mut lines = Vec::new();
    let totals = &evidence.totals;
    match cause {
        Cause::Policer => describe_policer(evidence, &mut lines),
        Cause::ShallowQueue | Cause::DeepQueue | Cause::Aqm if totals.lost > 0 => {
            describe_queue(evidence, &mut lines)
        }
        Cause::RandomLoss => describe_random(evidence, &mut lines),
        Cause::Shaper => describe_drain(evidence, &mut lines),
        Cause::ReceiverWindow => {
            lines.push(format!(
                "for {} of the {} that data was in flight, less than one segment of the receive window was left",
                percent(totals.window_s / totals.busy_s.max(1e-9)),
                duration(totals.busy_s)
            ));
            if totals.zero_windows > 0 {
                lines.push(format!(
                    "the receiver closed its window altogether {}",
                    plural(totals.zero_windows, "time")
                ));
            }
        }
        Cause::Reordering => lines.push(format!(
            "{} of {} were acknowledged after later ones without having been sent again",
            count(totals.reordered),
            plural(totals.data_packets, "data packet")
        )),
        Cause::Sender => describe_sender(evidence, &mut lines),
        _ => {}
    }
    if let Some(line_rate) = evidence.line_rate_bps {
        lines.push(format!(
            "packets were taken to leave the capture point one after the other, as a line of {} sends them",
            rate(line_rate)
        ));
    }
    lines
}

fn describe_sender(evidence: &Evidence, lines: &mut Vec<String>) {
    let totals = &evidence.totals;
    let round_trips = totals.busy_s / evidence.base_rtt_s.unwrap_or(f64::INFINITY);
    let window = match (
        totals.window_known,
        totals.window_s / totals.busy_s.max(1e-9),
    ) {
        (false, _) => "the scale of the receive window is unknown".to_owned(),
        (true, 0.0) => "the receive window was never full".to_owned(),
        (true, share) => format!(
            "the receive window was full for {} of the time",
            percent(share)
        ),
    };
    lines.push(format!(
        "in {} of data in flight, {} round trips, nothing was lost; {window}",
        duration(totals.busy_s),
        count(round_trips as u64),
    ));
    let idle_share = totals.idle_s / (totals.busy_s + totals.idle_s).max(1e-9);
    if idle_share > 0.01 {
        lines.push(format!(
            "nothing was in flight for {} of the time between first and last data",
            percent(idle_share)
        ));
    }
}

fn describe_policer(evidence: &Evidence, lines: &mut Vec<String>) {
    let (Some(fit), totals) = (&evidence.bucket, &evidence.totals) else {
        return;
    };
    let expected = u64::from(fit.agreement.expected_losses());
    lines.push(format!(
        "a token bucket followed over all {} expects {} of the {} losses to within one packet, and removes {} of the uncertainty about which packets are lost",
        plural(totals.data_packets, "data packet"), count(expected), count(totals.lost), percent(fit.certainty())
    ));
    if let Some(replay) = &evidence.replay {
        lines.push(format!(
            "replayed by itself, without looking at the losses, the same bucket drops {}, {} of them packets that were lost",
            plural(replay.dropped as u64, "packet"), count(replay.hits as u64)
        ));
    }
    if let Some(occupancy) = &evidence.occupancy {
        lines.push(format!(
            "packets that found the bucket nearly spent were delayed by {} more than others; a queue of that size would have added {}",
            duration((occupancy.brink_s - occupancy.empty_s).max(0.0)), duration(occupancy.expected_s)
        ));
    } else if let Some(at_loss) = &evidence.at_loss {
        lines.push(format!(
            "just before a loss, packets had waited {} longer than the fastest",
            duration(at_loss.median_s)
        ));
    }
}

fn describe_queue(evidence: &Evidence, lines: &mut Vec<String>) {
    if let Some(at_loss) = &evidence.at_loss {
        lines.push(format!(
            "just before a loss, packets waited {} ({} to {}) longer than the fastest: longer than {} of all packets",
            duration(at_loss.median_s), duration(at_loss.low_s), duration(at_loss.high_s), percent(at_loss.mean_rank)
        ));
    }
    describe_drain(evidence, lines);
    if let Some(fit) = evidence.bucket.as_ref().filter(|fit| fit.certainty() > 0.3) {
        lines.push(format!(
            "a queue that drains at {} and overflows at {} removes {} of the uncertainty about which packets are lost",
            rate(fit.rate_bps.value), bytes(fit.limit_bytes.value), percent(fit.certainty())
        ));
    }
}

fn describe_drain(evidence: &Evidence, lines: &mut Vec<String>) {
    if let Some(drain) = evidence
        .drain
        .as_ref()
        .filter(|drain| drain.explained > 0.3)
    {
        lines.push(format!(
            "a queue that drains at {} accounts for {} of the spread of all delays, to within {} (median)",
            rate(drain.rate_bps), percent(drain.explained), duration(drain.residual_s)
        ));
    }
}

fn describe_random(evidence: &Evidence, lines: &mut Vec<String>) {
    if let Some(at_loss) = &evidence.at_loss {
        lines.push(format!(
            "the delay just before a loss was longer than {} of all delays: losses do not follow the queue",
            percent(at_loss.mean_rank)
        ));
    }
    if let Some(fit) = &evidence.bucket {
        lines.push(format!(
            "the best token bucket removes only {} of the uncertainty about which packets are lost",
            percent(fit.certainty())
        ));
    }
}

/// The judge's reasons, and for every other cause of loss the plain fact that speaks against it.
fn against(judgement: &Judgement, evidence: &Evidence) -> Vec<Against> {
    let mut reasons: Vec<Against> = judgement
        .against
        .iter()
        .map(|(cause, why)| Against {
            cause: cause.name().to_owned(),
            why: why.clone(),
        })
        .collect();
    let cause = judgement.cause;
    let mut add = |other: Cause, why: String| {
        if other != cause && !reasons.iter().any(|reason| reason.cause == other.name()) {
            reasons.push(Against {
                cause: other.name().to_owned(),
                why,
            });
        }
    };
    let totals = &evidence.totals;
    if totals.lost > 0
        && matches!(
            cause,
            Cause::Policer | Cause::ShallowQueue | Cause::DeepQueue
        )
    {
        if let Some(fit) = &evidence.bucket {
            let times = (fit.gain() / std::f64::consts::LN_10).max(0.0);
            add(
                Cause::RandomLoss,
                format!(
                    "losses that ignore the load would make this pattern 10^{times:.0} times less likely"
                ),
            );
        }
        if let (Cause::Policer, Some(at_loss)) = (cause, &evidence.at_loss) {
            add(
                Cause::Aqm,
                format!(
                    "queue management acts on delay; just before a loss there was {}",
                    duration(at_loss.median_s)
                ),
            );
        }
    }
    if cause == Cause::RandomLoss {
        add(
            Cause::Policer,
            "no rate and burst make these losses more likely than chance does".to_owned(),
        );
        if let Some(at_loss) = &evidence.at_loss {
            add(
                Cause::DeepQueue,
                format!(
                    "a full queue drops when packets wait longest; before these losses they waited longer than only {} of all",
                    percent(at_loss.mean_rank)
                ),
            );
        }
    }
    if totals.lost > 0 {
        add(
            Cause::Reordering,
            match totals.spurious {
                0 => format!(
                    "{} had to be sent again, none of them needlessly",
                    plural(totals.retransmitted, "packet")
                ),
                needless => format!(
                    "{} had to be sent again and only {} needlessly",
                    plural(totals.retransmitted, "packet"),
                    count(needless)
                ),
            },
        );
        let window_share = totals.window_s / totals.busy_s.max(1e-9);
        if totals.window_known && window_share < 0.5 {
            add(
                Cause::ReceiverWindow,
                if window_share == 0.0 {
                    "the receiver's window was never full".to_owned()
                } else {
                    format!(
                        "the receiver's window was full for only {} of the time",
                        percent(window_share)
                    )
                },
            );
        }
    }
    reasons
}
