//! The larger and the smaller of numbers that are never NaN.

/// `f64::max` in one instruction instead of four.
#[inline(always)]
pub(super) fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// `f64::min` likewise.
#[inline(always)]
pub(super) fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}
