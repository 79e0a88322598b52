//! Order statistics.

/// The element below which this share of the others lies; 0 of nothing.
pub(crate) fn quantile(of: &[i64], share: f64) -> i64 {
    let mut of = of.to_vec();
    let place = (of.len().saturating_sub(1) as f64 * share) as usize;
    match of.is_empty() {
        true => 0,
        false => *of.select_nth_unstable(place).1,
    }
}
