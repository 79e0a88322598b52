//! Detection of a dual-rate policer in one capture, when the single bucket found leaves losses unexplained.
//!
//! A bucket that drops alone has no room for the lost packets, to within a packet, and has room for the
//! others. Losses despite room, and packets that passed without room, have another cause: if that is a second
//! bucket (RFC 2698), the bucket found may be either, and its rate and burst need not be the committed ones.

use std::collections::BTreeMap;

use whydrop_verdict::{Fact, Quantity, fact};

use super::parameters::{burst, rate};
use crate::observe::observation::{MostCounted, Observation};
use crate::observe::{MOST_NOISE_S, TwoBuckets, beside_second};
use crate::thresholds::*;

/// Two buckets, compared with the one that was found.
pub enum Second {
    /// One does not explain the losses and two do.
    Clear(TwoBuckets),
    /// Two explain more than one, but another cause may explain the difference.
    Rival(TwoBuckets),
}

/// The two buckets, if one does not explain the losses and two are more likely.
pub fn dual_rate(seen: &Observation) -> Option<Second> {
    let single = seen.bucket.as_ref()?;
    let trace = &seen.group_trace.trace;
    let had_room = single.agreement.lost[0];
    let mistaken = MISTAKEN_LOSSES.max((MISTAKEN_SHARE * trace.lost as f64) as u32);
    let two = (had_room > mistaken || single.certainty() < ALONE_CERTAINTY)
        .then(|| beside_second(trace, single, MOST_NOISE_S))
        .flatten()?;
    let left = 1.0 - two.pair.committed.certainty();
    Some(match left < LEFT_BY_TWO * (1.0 - single.certainty()) {
        true => Second::Clear(two),
        false => Second::Rival(two),
    })
}

impl Second {
    pub fn clear(&self) -> Option<&TwoBuckets> {
        match self {
            Self::Clear(two) => Some(two),
            Self::Rival(_) => None,
        }
    }
}

/// The parameters of the single bucket if two buckets may have dropped: its intervals include the committed
/// rate and burst.
pub fn holding(
    mut parameters: BTreeMap<String, Quantity>,
    two: &TwoBuckets,
    most: MostCounted,
) -> BTreeMap<String, Quantity> {
    let committed = &two.pair.committed;
    for (name, other) in [
        ("rate_bps", rate(committed, most)),
        ("burst_bytes", burst(committed, most, 0.0)),
    ] {
        if let Some(own) = parameters.get_mut(name) {
            own.low = own.low.zip(other.low).map(|(a, b)| a.min(b));
            own.high = own.high.zip(other.high).map(|(a, b)| a.max(b));
        }
    }
    parameters
}

/// The parameters, by their names in the JSON contract.
pub fn parameters(
    two: &TwoBuckets,
    most: MostCounted,
    waited_s: f64,
) -> BTreeMap<String, Quantity> {
    let pair = &two.pair;
    [
        ("rate_bps", rate(&pair.committed, most)),
        ("burst_bytes", burst(&pair.committed, most, waited_s)),
        ("peak_rate_bps", rate(&pair.peak, most)),
        ("peak_burst_bytes", burst(&pair.peak, most, waited_s)),
    ]
    .map(|(name, quantity)| (name.to_owned(), quantity))
    .into()
}

/// The losses that each of the two caused alone.
pub fn fact(two: &TwoBuckets) -> Fact {
    let pair = &two.pair;
    fact!(
        "two-buckets",
        committed_alone = pair.alone[0] as u64,
        rate_bps = pair.committed.rate_bps.value,
        peak_rate_bps = pair.peak.rate_bps.value,
        peak_alone = pair.alone[1] as u64
    )
}

#[cfg(test)]
mod tests {
    use whydrop_path::fit::{Seen, Trace, TracePacket};
    use whydrop_path::{Arrival, PathElement, Policer, Random};

    use super::*;
    use crate::observe::group::GroupTrace;
    use crate::observe::measure_trace;
    use crate::observe::totals::Totals;
    use crate::quantities::most_counted;

    /// Bursts of random length at 1 Gbit/s with random pauses, through a policer.
    fn measured(mut policer: Policer) -> Observation {
        let mut random = Random::new(11);
        let (mut time_ns, mut seen) = (0i64, Vec::new());
        for _ in 0..150 {
            time_ns += random.below(12_000_000) as i64;
            for _ in 0..5 + random.below(80) {
                time_ns += 12_000;
                let bytes = 1500;
                let dropped = policer.arrive(Arrival { time_ns, bytes }).is_dropped();
                seen.push(TracePacket {
                    time_ns,
                    bytes,
                    outcome: if dropped { Seen::Lost } else { Seen::Passed },
                    delay_s: None,
                });
            }
        }
        let trace = GroupTrace {
            trace: Trace::new(seen),
            origins: Vec::new(),
        };
        measure_trace(trace, None, Totals::default(), None)
    }

    /// Rates in bit/s and bursts in bytes: first the committed, then the peak ones.
    fn check(committed: (u64, u64), peak: (u64, u64)) {
        let policer = Policer::new(committed.0, committed.1).with_peak(peak.0, peak.1);
        let seen = measured(policer);
        let second = dual_rate(&seen).expect("two buckets");
        let two = second.clear().expect("they are clear");
        let found = parameters(two, most_counted(&seen), 0.0);
        for (name, truth) in [
            ("rate_bps", committed.0),
            ("burst_bytes", committed.1),
            ("peak_rate_bps", peak.0),
            ("peak_burst_bytes", peak.1),
        ] {
            let (quantity, truth) = (found[name], truth as f64);
            let holds = quantity.low.is_none_or(|low| low <= truth)
                && quantity.high.is_none_or(|high| truth <= high);
            assert!(holds, "{name} {quantity:?}");
        }
        assert!(two.explained_share > 0.95, "{two:?}");
    }

    #[test]
    fn both_rates_and_bursts_of_a_dual_rate_policer_are_within_their_intervals() {
        check((55_000_000, 120_000), (300_000_000, 45_000));
    }

    #[test]
    fn one_bucket_may_have_room_for_no_loss_and_still_misfit() {
        check((20_000_000, 160_000), (50_000_000, 30_000));
    }

    #[test]
    fn with_two_explanations_the_single_buckets_interval_covers_both() {
        let seen = measured(Policer::new(20_000_000, 160_000).with_peak(50_000_000, 30_000));
        let second = dual_rate(&seen).expect("two buckets");
        let two = second.clear().expect("they are clear");
        let sharp = |value: f64| Quantity {
            value,
            low: Some(0.99 * value),
            high: Some(1.01 * value),
        };
        let one = [("rate_bps", 50e6), ("burst_bytes", 30e3)];
        let one = one.map(|(name, value)| (name.to_owned(), sharp(value)));
        let both = holding(one.into(), two, most_counted(&seen));
        for (name, own, other) in [("rate_bps", 50e6, 20e6), ("burst_bytes", 30e3, 160e3)] {
            let quantity = both[name];
            let holds = |value: f64| {
                quantity.low.is_none_or(|low| low <= value)
                    && quantity.high.is_none_or(|high| value <= high)
            };
            assert!(holds(own) && holds(other), "{name} {quantity:?}");
            assert_eq!(quantity.value, own);
        }
    }

    #[test]
    fn a_bucket_that_drops_alone_is_no_dual_rate_policer() {
        assert!(dual_rate(&measured(Policer::new(55_000_000, 120_000))).is_none());
    }
}
