//! Order statistics.

/// The element below which this share of the others lies; 0 for an empty list.
pub(crate) fn quantile(of: &[i64], share: f64) -> i64 {
    quantile_in(&mut of.to_vec(), share)
}

/// The same, for numbers that may be reordered.
pub(crate) fn quantile_in(of: &mut [i64], share: f64) -> i64 {
    let place = (of.len().saturating_sub(1) as f64 * share) as usize;
    match of.is_empty() {
        true => 0,
        false => *of.select_nth_unstable(place).1,
    }
}
