//! The time for which a receiver's window was closed.

/// A window that is closed, or was.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClosedWindow {
    pub since_ns: Option<i64>,
    /// The sender probed the window or sent despite it, so data is waiting.
    pub has_data_waiting: bool,
    /// Start and end of the closure, if it is not known yet whether data waited.
    pub undecided: Option<(i64, i64)>,
    pub largest_bytes: i64,
    /// One past the last byte that a probe carried: the receiver may accept it.
    pub probed_to: i64,
    /// The highest right edge that the receiver ever allowed.
    pub right_edge: Option<i64>,
}
