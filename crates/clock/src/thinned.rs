//! The samples that carry the envelopes, if there are very many.

use std::borrow::Cow;

use crate::ClockSample;
use crate::track::difference;

/// Most samples for a fit.
const MOST_SAMPLES: usize = 200_000;
/// With more: number of windows from which the fastest and slowest packet of each direction are kept.
const WINDOWS: usize = MOST_SAMPLES / 4;

/// The samples, if there are few enough; else the fastest and the slowest packet of each direction in each window of
/// equally many, in order.
pub(crate) fn thinned(samples: &[ClockSample]) -> Cow<'_, [ClockSample]> {
    if samples.len() <= MOST_SAMPLES {
        return Cow::Borrowed(samples);
    }
    let window = samples.len().div_ceil(WINDOWS);
    let mut kept = Vec::with_capacity(MOST_SAMPLES);
    for samples in samples.chunks(window) {
        let mut chosen: Vec<usize> = Vec::with_capacity(4);
        for forward in [true, false] {
            let own = || {
                samples
                    .iter()
                    .enumerate()
                    .filter(|(_, sample)| sample.forward == forward)
                    .map(|(at, sample)| (difference(sample), at))
            };
            chosen.extend(own().min().map(|(_, at)| at));
            chosen.extend(own().max().map(|(_, at)| at));
        }
        chosen.sort_unstable();
        chosen.dedup();
        kept.extend(chosen.into_iter().map(|at| samples[at]));
    }
    Cow::Owned(kept)
}
