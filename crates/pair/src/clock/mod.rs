//! How far apart two clocks are, and how they drift, from the packets that both captures hold.

/// A packet that both captures hold, as the clocks see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSample {
    /// Time at capture 1 by its own clock, nanoseconds.
    pub first_ns: i64,
    /// Time at capture 2 by its own clock, nanoseconds.
    pub second_ns: i64,
    /// The packet passed point 1 before point 2.
    pub forward: bool,
}

/// A stretch of time over which both clocks ran without a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockStretch {
    /// First and last time of the stretch, by capture 1's clock, nanoseconds.
    pub start_ns: i64,
    pub end_ns: i64,
    /// How far capture 2's clock is ahead at `start_ns`, nanoseconds.
    pub offset_ns: f64,
    /// How much faster capture 2's clock runs, parts per million.
    pub drift_ppm: f64,
}

/// What is known of the clocks.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockFit {
    /// In order of time; more than one where a clock was stepped.
    pub stretches: Vec<ClockStretch>,
    /// The offset's bounds relative to the stretches' lines, nanoseconds: no asymmetry of the path can move the
    /// offset beyond them. `None` where only one direction was seen: then the smallest transit counts as zero.
    pub offset_bounds_ns: Option<(f64, f64)>,
    /// Half the width of the drift's 95 % interval, parts per million.
    pub drift_error_ppm: f64,
    /// Samples by direction: from point 1 to 2, and back.
    pub samples: [usize; 2],
}
