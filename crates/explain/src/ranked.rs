//! The order of verdicts: by harm, in seconds by which the named cause prolonged transfers.

use whydrop_tcp::Limiter;
use whydrop_verdict::Cause;

use crate::document::Verdict;
use crate::limits;
use crate::observe::totals::Totals;
use crate::tables::ModelTable;

/// No data waits for an application that has nothing to send, so a second of it counts less than one in which
/// data waited: a tenth, since a person may be waiting nevertheless.
const IDLE_WEIGHT: f64 = 0.1;
/// Harms below this are not noticeable (Nielsen 1993), and count as equal.
const NOTICEABLE_S: f64 = 0.1;
/// After a connection failed, or broke off, a person starts again: this takes at least this long.
pub(crate) const FAILED_S: f64 = 1.0;

/// A verdict, with the further values that decide its rank, and the model behind it.
pub(crate) struct Ranked {
    pub verdict: Verdict,
    pub payload_bytes: u64,
    /// Time that the cause limits, summed over the flows.
    pub limited_s: f64,
    /// Seconds by which the cause prolonged transfers, summed over the flows.
    pub harm_s: f64,
    /// The weight of that time relative to other times.
    pub weight: f64,
    pub basis: Basis,
    pub model: Option<ModelTable>,
}

/// The evidence that a verdict has, if it is unusual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    Usual,
    /// Too few losses to name a cause: known causes come first.
    FewLosses,
    /// Losses too few to judge, or uncertain ones; the limits of the same flows are judged too.
    Doubtful,
    /// So much is missing from the capture that it allows no other conclusion.
    MostMissing,
}

impl Ranked {
    /// A verdict that packets show directly, with the time that its cause limits, seconds.
    pub fn shown(verdict: Verdict, payload_bytes: u64, limited_s: f64) -> Self {
        Self {
            verdict,
            payload_bytes,
            limited_s,
            harm_s: limited_s,
            weight: 1.0,
            basis: Basis::Usual,
            model: None,
        }
    }

    pub fn new(verdict: Verdict, totals: &Totals) -> Self {
        let limited_s = verdict.limited_share * (totals.busy_s + totals.idle_s);
        Self {
            harm_s: harm_s(&verdict, totals, limited_s),
            weight: match limits::largest(&totals.limited_s) {
                Some((Limiter::Application, _)) if verdict.cause == Cause::Sender => IDLE_WEIGHT,
                _ => 1.0,
            },
            ..Self::shown(verdict, totals.payload_bytes, limited_s)
        }
    }

    /// The verdict on losses too few to name a cause: their harm is the time of their repair.
    pub fn of_few(self, totals: &Totals) -> Self {
        Self {
            harm_s: repair_s(totals),
            basis: Basis::FewLosses,
            ..self
        }
    }

    /// The verdict on a connection that did not serve its purpose.
    pub fn failed(self) -> Self {
        Self {
            harm_s: self.harm_s.max(FAILED_S),
            ..self
        }
    }
}

/// The time in which losses were detected and repaired, seconds.
fn repair_s(totals: &Totals) -> f64 {
    let times_s = &totals.limited_s;
    times_s[Limiter::LossRecovery as usize] + times_s[Limiter::Outage as usize]
}

fn harm_s(verdict: &Verdict, totals: &Totals, limited_s: f64) -> f64 {
    let times_s = &totals.limited_s;
    // the time for which a request waited is neither busy nor idle
    let of_account_s = limited_s.max(verdict.limited_share * times_s.iter().sum::<f64>());
    match verdict.cause {
        Cause::None | Cause::CaptureLoss => 0.0,
        Cause::Unknown if verdict.lost > 0 && repair_s(totals) > 0.0 => repair_s(totals),
        // repairs, and windows that losses keep small
        _ if verdict.lost > 0 && times_s.iter().sum::<f64>() > 0.0 => {
            repair_s(totals) + times_s[Limiter::CongestionWindow as usize]
        }
        // a side that has sent all its data does not wait for acknowledgments
        Cause::DelayedAck => (of_account_s - totals.needless_delay_s).max(0.0),
        Cause::Sender | Cause::PeerApplication | Cause::ReceiverWindow => of_account_s,
        Cause::Unknown => totals.busy_s,
        _ if verdict.lost > 0 => totals.busy_s,
        _ => limited_s,
    }
}

/// Order of magnitude: harms that differ by less than a factor of two are equal, and so are all that are not
/// noticeable.
fn magnitude(harm_s: f64) -> i32 {
    (harm_s / NOTICEABLE_S).max(1.0).log2() as i32
}

/// Sorts by harm, the most first; equal harms by the losses that a verdict explains, then by the share of
/// time that it limits, weighted with the traffic.
pub(crate) fn sort_verdicts(verdicts: &mut [Ranked]) {
    let most_bytes = verdicts.iter().map(|ranked| ranked.payload_bytes).max();
    let most_bytes = most_bytes.unwrap_or(0).max(1) as f64;
    let costs = |ranked: &Ranked| {
        let verdict = &ranked.verdict;
        match verdict.cause {
            _ if ranked.basis == Basis::Doubtful => -1,
            _ if ranked.basis == Basis::MostMissing => 2,
            Cause::None => 0,
            // reported, but no headline unless it lost packets or took time
            Cause::Sack
            | Cause::Ecn
            | Cause::Duplicate
            | Cause::Checksum
            | Cause::Mtu
            | Cause::Jitter
            | Cause::Batching
                if verdict.lost == 0 && verdict.limited_share <= 0.0 =>
            {
                0
            }
            _ => 1,
        }
    };
    let harm = |ranked: &Ranked| {
        let is_reported = ranked.verdict.limited_share > 0.0;
        // an application that writes in small pieces may have had nothing to send meanwhile
        let is_vague = ranked.weight < 1.0
            || ranked.verdict.cause == Cause::DelayedAck
            || is_unknown(ranked) && ranked.verdict.lost == 0 && !is_reported;
        // of limits that may have delayed no one, the one that concerns the most data counts
        let share = match is_vague {
            true => ranked.payload_bytes as f64 / most_bytes,
            false => 1.0,
        };
        magnitude(ranked.weight * share * ranked.harm_s)
    };
    let explained = |ranked: &Ranked| ranked.verdict.explained * ranked.verdict.lost as f64;
    let lost = |ranked: &Ranked| match ranked.basis {
        Basis::FewLosses | Basis::Doubtful => 0,
        Basis::Usual | Basis::MostMissing => ranked.verdict.lost,
    };
    let says = |ranked: &Ranked| match ranked.verdict.cause {
        _ if ranked.basis == Basis::FewLosses => 0,
        Cause::CaptureLoss => 0,
        // the end of a connection before a delay that is not noticeable
        Cause::Reset => 2,
        _ => 1,
    };
    let limited = |ranked: &Ranked| {
        // without a known cause, all of the time is unexplained
        let share = match is_unknown(ranked) {
            true => 1.0,
            false => ranked.verdict.limited_share,
        };
        ranked.weight * share * ranked.payload_bytes as f64
    };
    verdicts.sort_by(|a, b| {
        (costs(b).cmp(&costs(a)))
            .then(harm(b).cmp(&harm(a)))
            .then(explained(b).total_cmp(&explained(a)))
            .then(lost(b).cmp(&lost(a)))
            .then(says(b).cmp(&says(a)))
            .then(limited(b).total_cmp(&limited(a)))
            .then(b.harm_s.total_cmp(&a.harm_s))
            .then(b.payload_bytes.cmp(&a.payload_bytes))
    });
}

fn is_unknown(ranked: &Ranked) -> bool {
    ranked.verdict.cause == Cause::Unknown
}

#[cfg(test)]
#[path = "ranked_tests.rs"]
mod tests;
