//! The order of verdicts: by harm, the seconds that transfers lasted longer through what a verdict names.

use whydrop_tcp::Limiter;

use crate::document::Verdict;
use crate::evidence::Totals;
use crate::limits;
use crate::tables::ModelTable;

/// Nobody waits for an application that has nothing to say, so a second of it counts less than one in which data waited:
/// a tenth, since somebody may wait all the same.
const IDLE_WEIGHT: f64 = 0.1;
/// Less is not felt (Nielsen 1993): such harms are alike.
const FELT_S: f64 = 0.1;
/// Whoever had a connection that failed, or broke off, begins again: that takes a person no less than this.
pub(crate) const FAILED_S: f64 = 1.0;

/// A verdict with what else decides its place, and the model behind it.
pub(crate) struct Ranked {
    pub verdict: Verdict,
    pub payload_bytes: u64,
    /// Time that the cause limits, summed over the flows.
    pub limited_s: f64,
    /// Seconds that the transfers lasted longer through it, summed over the flows.
    pub harm_s: f64,
    /// The weight of that time beside that of others.
    pub weight: f64,
    /// Nothing can be said of so few losses, or it is not known whether there were any; what held the same flows up is judged, too.
    pub doubtful: bool,
    /// Too few losses to tell their cause: what is known comes first.
    pub few: bool,
    /// So much is missing from the capture that nothing else in it is known.
    pub lacks_most: bool,
    pub model: Option<ModelTable>,
}

impl Ranked {
    pub fn new(verdict: Verdict, totals: &Totals) -> Self {
        let limited_s = verdict.limited_share * (totals.busy_s + totals.idle_s);
        Self {
            limited_s,
            harm_s: harm_s(&verdict, totals, limited_s),
            payload_bytes: totals.payload_bytes,
            weight: match limits::largest(&totals.limited_s) {
                Some((Limiter::Application, _)) if verdict.cause == "sender" => IDLE_WEIGHT,
                _ => 1.0,
            },
            doubtful: false,
            few: false,
            lacks_most: false,
            verdict,
            model: None,
        }
    }

    /// The verdict on losses that are too few to tell their cause: they cost their repair.
    pub fn of_few(self, totals: &Totals) -> Self {
        Self {
            harm_s: repair_s(totals),
            few: true,
            ..self
        }
    }

    /// The verdict on a connection that did not do what it was for.
    pub fn failed(self) -> Self {
        Self {
            harm_s: self.harm_s.max(FAILED_S),
            ..self
        }
    }
}

/// The time in which losses were found and repaired, seconds.
fn repair_s(totals: &Totals) -> f64 {
    let times_s = &totals.limited_s;
    times_s[Limiter::LossRecovery as usize] + times_s[Limiter::Outage as usize]
}

fn harm_s(verdict: &Verdict, totals: &Totals, limited_s: f64) -> f64 {
    let times_s = &totals.limited_s;
    // the time for which a request waited is neither busy nor idle
    let of_account_s = limited_s.max(verdict.limited_share * times_s.iter().sum::<f64>());
    match verdict.cause.as_str() {
        "none" | "capture-loss" => 0.0,
        "unknown" if verdict.lost > 0 && repair_s(totals) > 0.0 => repair_s(totals),
        // repairs, and windows that what dropped the packets keeps small
        _ if verdict.lost > 0 && times_s.iter().sum::<f64>() > 0.0 => {
            repair_s(totals) + times_s[Limiter::CongestionWindow as usize]
        }
        // whoever has sent all waits for no acknowledgment
        "delayed-ack" => (of_account_s - totals.held_in_vain_s).max(0.0),
        "sender" | "peer-application" | "receiver-window" => of_account_s,
        "unknown" => totals.busy_s,
        _ if verdict.lost > 0 => totals.busy_s,
        _ => limited_s,
    }
}

/// Harms that differ by less than a factor of two are alike, and so are all that nobody feels.
fn magnitude(harm_s: f64) -> i32 {
    (harm_s / FELT_S).max(1.0).log2() as i32
}

/// Most harm first. Between harms that are alike, by the losses that a verdict explains, then by the share of time that it limits,
/// weighted with what flowed.
pub(crate) fn sort_verdicts(verdicts: &mut [Ranked]) {
    let most_bytes = verdicts.iter().map(|ranked| ranked.payload_bytes).max();
    let most_bytes = most_bytes.unwrap_or(0).max(1) as f64;
    let costs = |ranked: &Ranked| {
        let verdict = &ranked.verdict;
        match verdict.cause.as_str() {
            _ if ranked.doubtful => -1,
            _ if ranked.lacks_most => 2,
            "none" => 0,
            // worth knowing, and no headline where it neither lost packets nor took time
            "sack" | "ecn" | "duplicate" | "checksum" | "mtu" | "jitter" | "batching"
                if verdict.lost == 0 && verdict.limited_share <= 0.0 =>
            {
                0
            }
            _ => 1,
        }
    };
    let harm = |ranked: &Ranked| {
        let is_told = ranked.verdict.limited_share > 0.0;
        // who writes in small pieces may have had nothing to send meanwhile
        let is_vague = ranked.weight < 1.0
            || ranked.verdict.cause == "delayed-ack"
            || is_unknown(ranked) && ranked.verdict.lost == 0 && !is_told;
        // of what may have made nobody wait the part that concerns most data counts
        let share = match is_vague {
            true => ranked.payload_bytes as f64 / most_bytes,
            false => 1.0,
        };
        magnitude(ranked.weight * share * ranked.harm_s)
    };
    let explained = |ranked: &Ranked| ranked.verdict.explained * ranked.verdict.lost as f64;
    let lost = |ranked: &Ranked| match ranked.doubtful || ranked.few {
        true => 0,
        false => ranked.verdict.lost,
    };
    let says = |ranked: &Ranked| match ranked.verdict.cause.as_str() {
        _ if ranked.few => 0,
        "capture-loss" => 0,
        // the end of a connection before a wait that nobody feels
        "reset" => 2,
        _ => 1,
    };
    let limited = |ranked: &Ranked| {
        // where no cause is known, all of the time is without one
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
    ranked.verdict.cause == "unknown"
}

#[cfg(test)]
#[path = "ranked_tests.rs"]
mod tests;
