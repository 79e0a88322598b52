//! The order of verdicts.

use whydrop_tcp::Limiter;

use crate::document::Verdict;
use crate::evidence::Totals;
use crate::limits;
use crate::tables::ModelTable;

/// Nobody waits for an application that has nothing to say, so a second of it counts less than one in which data waited:
/// a tenth, since somebody may wait all the same.
const IDLE_WEIGHT: f64 = 0.1;

/// A verdict with what else decides its place, and the model behind it.
pub(crate) struct Ranked {
    pub verdict: Verdict,
    pub payload_bytes: u64,
    /// Time that the cause limits, summed over the flows.
    pub limited_s: f64,
    /// The weight of that time beside that of others.
    pub weight: f64,
    /// Nothing can be said of so few losses, or it is not known whether there were any; what held the same flows up is judged, too.
    pub doubtful: bool,
    /// Too few losses to tell their cause: what is known comes first.
    pub few: bool,
    pub model: Option<ModelTable>,
}

impl Ranked {
    pub fn new(verdict: Verdict, totals: &Totals) -> Self {
        Self {
            limited_s: verdict.limited_share * (totals.busy_s + totals.idle_s),
            payload_bytes: totals.payload_bytes,
            weight: match limits::largest(&totals.limited_s) {
                Some((Limiter::Application, _)) if verdict.cause == "sender" => IDLE_WEIGHT,
                _ => 1.0,
            },
            doubtful: false,
            few: false,
            verdict,
            model: None,
        }
    }
}

/// By the losses that a verdict explains, then by the share of time that it limits, weighted with what flowed.
pub(crate) fn sort_verdicts(verdicts: &mut [Ranked]) {
    let explained = |ranked: &Ranked| ranked.verdict.explained * ranked.verdict.lost as f64;
    let limited = |ranked: &Ranked| {
        // where no cause is known, all of the time is without one
        let share = match ranked.verdict.cause.as_str() {
            "unknown" => 1.0,
            _ => ranked.verdict.limited_share,
        };
        ranked.weight * share * ranked.payload_bytes as f64
    };
    let lost = |ranked: &Ranked| match ranked.doubtful || ranked.few {
        true => 0,
        false => ranked.verdict.lost,
    };
    let says = |ranked: &Ranked| {
        let verdict = &ranked.verdict;
        let costs = verdict.lost > 0 || verdict.limited_share > 0.0;
        match verdict.cause.as_str() {
            _ if ranked.doubtful => -1,
            _ if ranked.few => 1,
            "none" => 0,
            // worth knowing, and no headline where it neither lost packets nor took time
            "sack" | "ecn" | "duplicate" | "checksum" | "mtu" | "jitter" | "batching" if !costs => {
                0
            }
            "capture-loss" => 1,
            _ => 2,
        }
    };
    verdicts.sort_by(|a, b| {
        explained(b)
            .total_cmp(&explained(a))
            .then(lost(b).cmp(&lost(a)))
            .then(says(b).cmp(&says(a)))
            .then(limited(b).total_cmp(&limited(a)))
            .then(b.payload_bytes.cmp(&a.payload_bytes))
    });
}
