//! The time for which a receiver let its sender send nothing.

/// A window that is closed, or was.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClosedWindow {
    pub since_ns: Option<i64>,
    /// The sender probed it or sent despite it, so it has data.
    pub has_data_waiting: bool,
    /// From when to when it was closed, where it is not known yet whether data waited.
    pub undecided: Option<(i64, i64)>,
    pub largest_bytes: i64,
    /// One past the last byte that a probe carried: it may be accepted after all.
    pub probed_to: i64,
    /// The furthest that the receiver ever allowed.
    pub right_edge: Option<i64>,
}
