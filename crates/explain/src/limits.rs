//! The account of a flow's time in the document.

use whydrop_tcp::{Account, ByClocks, Flow, Limiter, Segment, SegmentFlags};
use whydrop_verdict::{Cause, Fact, fact};

use crate::document::LimitsInfo;
use crate::observe::group::{FlowRef, Group};
use crate::seconds::seconds;

/// Seconds by limiter, in the order of [`Limiter::ALL`].
pub(crate) type Times = [f64; Limiter::ALL.len()];

/// Most spans of a flow in a document: more than a chart is wide ...
const MOST_SPANS: usize = 500;
/// ... and of all flows together.
const MOST_SPANS_OF_ALL: usize = 20_000;

/// The limits of one flow of `flows` in total.
pub(crate) fn of_flow(account: &Account, flows: usize) -> Option<LimitsInfo> {
    let (from_ns, until_ns) = account.bounds()?;
    let most = (MOST_SPANS_OF_ALL / flows.max(1)).clamp(1, MOST_SPANS);
    Some(LimitsInfo {
        spans: spans(account, most),
        ..within(account, from_ns, until_ns)
    })
}

pub(crate) fn of_transfer(account: &Account, number: usize) -> Option<LimitsInfo> {
    let &(from_ns, until_ns) = account.transfers.get(number)?;
    (until_ns > from_ns).then(|| within(account, from_ns, until_ns))
}

fn within(account: &Account, from_ns: i64, until_ns: i64) -> LimitsInfo {
    let times_ns = account.times_ns(from_ns, until_ns);
    let total_ns = times_ns.iter().map(|ns| *ns as f64).sum::<f64>().max(1.0);
    LimitsInfo {
        from: seconds(from_ns),
        until: seconds(until_ns),
        shares: Limiter::ALL
            .iter()
            .zip(times_ns)
            .filter(|(_, time_ns)| *time_ns > 0)
            .map(|(limiter, time_ns)| (limiter.name(), time_ns as f64 / total_ns))
            .collect(),
        spans: Vec::new(),
    }
}

/// All spans, or, if they are too many, equal intervals with the predominant limiter of each.
fn spans(account: &Account, most: usize) -> Vec<(f64, f64, &'static str)> {
    let named =
        |from_ns, until_ns, limiter: Limiter| (seconds(from_ns), seconds(until_ns), limiter.name());
    if account.spans.len() <= most {
        let spans = account.spans.iter();
        return spans
            .map(|span| named(span.from_ns, span.until_ns, span.limiter))
            .collect();
    }
    let Some((from_ns, until_ns)) = account.bounds() else {
        return Vec::new();
    };
    let edge = |number: usize| {
        from_ns + ((until_ns - from_ns) as i128 * number as i128 / most as i128) as i64
    };
    (0..most)
        .map(|number| {
            let (from_ns, until_ns) = (edge(number), edge(number + 1));
            let times_ns = account.times_ns(from_ns, until_ns);
            let limiter = Limiter::ALL
                .into_iter()
                .max_by_key(|limiter| times_ns[*limiter as usize]);
            named(from_ns, until_ns, limiter.unwrap_or(Limiter::Application))
        })
        .collect()
}

/// True if the limit of the flight size is known to be outside of the capture: a window that only
/// acknowledgments state, or the reason why they are late.
pub(crate) fn is_unseen(flow: &Flow) -> bool {
    let clocks = flow.account().by_clocks.as_deref();
    clocks.is_some_and(|clocks| clocks.stands || is_late(clocks))
}

fn is_late(clocks: &ByClocks) -> bool {
    seconds(clocks.late_ns) > SHORTEST_LATE_S
}

/// The facts that acknowledgments were not captured, and that round-trip times come from echoed timestamps
/// alone, and the consequences.
pub(crate) fn unseen(group: &Group) -> Vec<Fact> {
    let flows = || group.flows.iter();
    let clocks = || flows().filter_map(|flow| flow.flow.account().by_clocks.as_deref());
    let mut facts = Vec::new();
    if clocks().any(|clocks| clocks.echoed_rtt_ns.is_some()) {
        facts.push(fact!("acknowledgments-by-echoes"));
        let exact = |s: &&Segment| s.flags.has(SegmentFlags::RTT_EXACT);
        let of_flow = |flow: &FlowRef| flow.flow.segments.iter().filter(exact).count();
        let packets: usize = flows().map(of_flow).sum();
        if packets > 0 {
            facts.push(fact!("round-trips-by-retransmissions", packets = packets));
        }
    }
    if clocks().any(|clocks| clocks.stands) {
        facts.push(fact!("standing-queue-unseen"));
    }
    if let Some(late) = clocks().find(|clocks| is_late(clocks)) {
        facts.push(fact!("echoes-late", late_s = seconds(late.late_ns)));
    }
    facts
}

/// The limiter with most of the time, and its share; `None` if unknown.
pub(crate) fn largest(times: &Times) -> Option<(Limiter, f64)> {
    let total: f64 = times.iter().sum();
    let by_time = |a: &Limiter, b: &Limiter| times[*a as usize].total_cmp(&times[*b as usize]);
    let limiter = Limiter::ALL.into_iter().max_by(by_time)?;
    (total > 0.0).then(|| (limiter, times[limiter as usize] / total))
}

/// Clocks of receivers tick in milliseconds, and successive packets are as far apart: a shorter delay is
/// none.
const SHORTEST_LATE_S: f64 = 0.01;

/// The time of one transfer by limiter in seconds, in the order of [`Limiter::ALL`]; all zero if unknown. A
/// window that stays closed after the last acknowledgment counts towards the last transfer.
pub(crate) fn times_s(flow: &Flow, number: usize) -> Times {
    let account = flow.account();
    let bounds = account.transfers.get(number);
    let mut times_ns = bounds.map_or([0; Limiter::ALL.len()], |&(from_ns, until_ns)| {
        account.times_ns(from_ns, until_ns)
    });
    if number + 1 == flow.transfers.len() {
        let known_ns = account.bounds().map_or(0, |(from_ns, until_ns)| {
            account.times_ns(from_ns, until_ns)[Limiter::ReceiveWindow as usize]
        });
        times_ns[Limiter::ReceiveWindow as usize] += (flow.limited.closed_ns - known_ns).max(0);
    }
    times_ns.map(seconds)
}

/// The same for all transfers of a flow.
pub(crate) fn times_of_flow_s(flow: &Flow) -> Times {
    let mut sums_s = [0.0; Limiter::ALL.len()];
    for number in 0..flow.transfers.len() {
        let times_s = times_s(flow, number);
        sums_s
            .iter_mut()
            .zip(times_s)
            .for_each(|(sum_s, time_s)| *sum_s += time_s);
    }
    sums_s
}

/// Time in seconds for which acknowledgments were delayed without a consequence: they ended a transfer, or
/// its sender had nothing to send when they arrived.
pub(crate) fn needless_delay_s(flow: &Flow) -> f64 {
    let spans = &flow.account().spans;
    let next = spans.iter().skip(1).map(|span| Some(span.limiter));
    let pairs = spans.iter().zip(next.chain([None]));
    let delayed_ns = pairs.filter_map(|(span, next)| {
        let waits = next
            .is_some_and(|next| !matches!(next, Limiter::Application | Limiter::PeerApplication));
        let is_delayed = span.limiter == Limiter::DelayedAck;
        (is_delayed && !waits).then(|| span.until_ns.saturating_sub(span.from_ns))
    });
    delayed_ns.map(seconds).sum()
}

/// The cause of a transfer without losses, if one of the ends limits it. Windows that are full on the path
/// have causes of the path; set-up and slow start are no causes.
pub(crate) fn cause_at_the_ends(limiter: Limiter) -> Option<Cause> {
    match limiter {
        Limiter::PeerApplication => Some(Cause::PeerApplication),
        Limiter::DelayedAck => Some(Cause::DelayedAck),
        Limiter::ReceiveWindow => Some(Cause::ReceiverWindow),
        Limiter::Application | Limiter::SendBuffer | Limiter::Pacing => Some(Cause::Sender),
        Limiter::ConnectionSetup
        | Limiter::SlowStart
        | Limiter::CongestionWindow
        | Limiter::LossRecovery
        | Limiter::Outage => None,
    }
}

/// The time in which an application had nothing to send, out of times by limiter, seconds.
pub(crate) fn idle_s(times_s: &Times) -> f64 {
    times_s[Limiter::Application as usize] + times_s[Limiter::PeerApplication as usize]
}

/// The share of the time with limiters that belong to this cause.
pub(crate) fn share_at_the_ends(times: &Times, cause: Cause) -> f64 {
    let own = Limiter::ALL
        .iter()
        .filter(|limiter| cause_at_the_ends(**limiter) == Some(cause));
    let own: f64 = own.map(|limiter| times[*limiter as usize]).sum();
    own / times.iter().sum::<f64>().max(1e-9)
}
