//! The order of verdicts.

use whydrop_tcp::Limiter;

use crate::document::Verdict;
use crate::evidence::Totals;
use crate::limits;
use crate::tables::ModelTable;
use crate::thresholds::FEWEST_LOSSES;

/// Nobody waits for an application that has nothing to say, so a second of it counts less than one in which data waited:
/// a tenth, since somebody may wait all the same.
const IDLE_WEIGHT: f64 = 0.1;

/// A verdict with what else decides its place, and the model behind it.
pub(crate) struct Ranked {
    pub verdict: Verdict,
    pub payload_bytes: u64,
    /// Time that the cause limits, summed over the flows.
    pub limited_s: f64,
    /// What that time counts beside that of others.
    pub weight: f64,
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
            verdict,
            model: None,
        }
    }
}

impl Ranked {
    /// Nothing can be said of so few losses.
    pub fn is_unknown_by_few(&self) -> bool {
        let verdict = &self.verdict;
        verdict.cause == "unknown" && (1..FEWEST_LOSSES).contains(&verdict.lost)
    }
}

/// By the losses that a verdict explains, then by the share of time that it limits, weighted with what flowed.
pub(crate) fn sort_verdicts(verdicts: &mut [Ranked]) {
    let explained = |ranked: &Ranked| ranked.verdict.explained * ranked.verdict.lost as f64;
    let limited = |ranked: &Ranked| {
        ranked.weight * ranked.verdict.limited_share * ranked.payload_bytes as f64
    };
    let lost = |ranked: &Ranked| match ranked.is_unknown_by_few() {
        true => 0,
        false => ranked.verdict.lost,
    };
    let says = |ranked: &Ranked| {
        let verdict = &ranked.verdict;
        let costs = verdict.lost > 0 || verdict.limited_share > 0.0;
        match verdict.cause.as_str() {
            "none" => 0,
            // worth knowing, and no headline where it neither lost packets nor took time
            "sack" | "ecn" | "duplicate" | "checksum" | "mtu" | "jitter" | "batching" if !costs => {
                0
            }
            "capture-loss" => 1,
            _ if ranked.is_unknown_by_few() => 1,
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
