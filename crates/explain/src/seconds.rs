//! Times in the form of the document.

/// Seconds since the epoch; exact to a quarter of a microsecond in this century.
pub(crate) fn seconds(time_ns: i64) -> f64 {
    time_ns as f64 * 1e-9
}
