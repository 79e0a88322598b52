//! Options of the tracker: what it keeps, and how much.

/// Options of the tracker.
#[derive(Debug, Clone)]
pub struct TrackerOptions {
    /// Keep acknowledgments and SACK blocks (charts need them, verdicts do not).
    pub keep_acknowledgments: bool,
    /// Account for all time of each flow ([`crate::Flow::account`]). This takes about as long as all other work, and
    /// memory for acknowledgments until the connection ends.
    pub account_for_time: bool,
    /// The most connections without data to remember: a SYN flood must not fill the memory. The oldest are dropped
    /// first and counted in [`crate::Tracked::forgotten`].
    pub most_without_data: usize,
    /// The most small connections with data (fewer than [`crate::small::SMALL_PACKETS`] packets) to follow at a time:
    /// those idle for longest are completed early. Later packets of them count as another connection.
    pub most_small_open: usize,
    /// The most small connections to keep: those with the most losses and data. The others are summed up in
    /// [`crate::Tracked::small`].
    pub most_small: usize,
    /// The most failed connections without data to keep; the others are counted.
    pub most_failed: usize,
}

impl Default for TrackerOptions {
    fn default() -> Self {
        Self {
            keep_acknowledgments: false,
            account_for_time: true,
            most_without_data: 1 << 16,
            most_small_open: 1 << 15,
            most_small: 1 << 14,
            most_failed: 1 << 12,
        }
    }
}
