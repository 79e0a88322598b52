//! The growth of Linux's receive window with the data that arrives: "dynamic right-sizing".

/// A receive window that grows by twice each arriving segment, up to a limit that grows with the data of a round trip
/// (`tcp_grow_window` and `tcp_rcv_space_adjust` in Linux's tcp_input.c).
#[derive(Debug, Clone, Copy)]
pub struct Autotuning {
    window_bytes: u64,
    limit_bytes: u64,
    most_bytes: u64,
    /// The data of the round trip before, and the begin of the present one.
    per_round_bytes: f64,
    since: u64,
    since_ns: Option<i64>,
    /// Of the time between an acknowledgment and the data that echoes its timestamp.
    rtt_ns: Option<i64>,
    last_echo_ns: i64,
}

/// Room for losses and for small variations, beside twice the data of a round trip.
const CUSHION_SEGMENTS: f64 = 16.0;
/// Linux counts the memory of its buffers, half of which is the window; it rounds that of a segment up by so much.
const ROUNDED_UP: f64 = 1.026;
/// The data of the first round trip: so many segments, or the first window.
const INITIAL_SEGMENTS: f64 = 10.0;
/// The clock of Linux's timestamps.
const TICK_NS: i64 = 1_000_000;

impl Autotuning {
    pub fn new(initial_bytes: u64, most_bytes: u64, mss: u64) -> Self {
        Self {
            window_bytes: initial_bytes,
            limit_bytes: initial_bytes,
            most_bytes,
            per_round_bytes: (INITIAL_SEGMENTS * mss as f64).min(initial_bytes as f64),
            since: 1,
            since_ns: None,
            rtt_ns: None,
            last_echo_ns: i64::MIN,
        }
    }

    pub fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Adds a segment that echoes an acknowledgment sent at this time.
    pub fn on_echo(&mut self, now_ns: i64, echo_ns: i64) {
        if echo_ns == std::mem::replace(&mut self.last_echo_ns, echo_ns) {
            return;
        }
        let ticks = now_ns.div_euclid(TICK_NS) - echo_ns.div_euclid(TICK_NS);
        let rtt_ns = ticks.max(1) * TICK_NS;
        self.rtt_ns = Some(
            self.rtt_ns
                .map_or(rtt_ns, |before_ns| before_ns + (rtt_ns - before_ns) / 8),
        );
    }

    /// Adds data; `received` is the end of what the application has read. Returns whether the window grows.
    pub fn on_data(&mut self, now_ns: i64, received: u64, mss: u64) -> bool {
        let room = self.limit_bytes.saturating_sub(self.window_bytes);
        self.window_bytes += room.min(2 * mss);
        self.measure(now_ns, received, mss as f64);
        room > 0
    }

    fn measure(&mut self, now_ns: i64, received: u64, mss: f64) {
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        if self.rtt_ns.is_none_or(|rtt_ns| now_ns - since_ns < rtt_ns) {
            return;
        }
        let bytes = (received - self.since) as f64;
        let before = self.per_round_bytes;
        if bytes > before {
            let wanted = 2.0 * bytes + CUSHION_SEGMENTS * mss;
            let wanted = wanted + 2.0 * wanted * (bytes - before) / before;
            let limit_bytes = (ROUNDED_UP * wanted) as u64;
            self.limit_bytes = self.limit_bytes.max(limit_bytes.min(self.most_bytes));
            self.per_round_bytes = bytes;
        }
        (self.since, self.since_ns) = (received, Some(now_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_448;
    const ROUND_NS: i64 = 100_000_000;

    #[test]
    fn a_first_window_of_few_large_segments_grows() {
        let (mss, mut received) = (8_948, 1);
        let mut window = Autotuning::new(64_240, 6_000_000, mss);
        for round in 0..6 {
            let segments = (window.window_bytes() / mss) as i64;
            for segment in 0..segments {
                let now_ns = round * ROUND_NS + segment * 10_000;
                window.on_echo(now_ns, (round - 1) * ROUND_NS);
                received += mss;
                window.on_data(now_ns, received, mss);
            }
        }
        assert!(window.window_bytes() > 500_000, "{window:?}");
    }

    #[test]
    fn the_window_grows_by_twice_the_data_while_that_of_a_round_trip_does() {
        let mut window = Autotuning::new(64_240, 6_000_000, MSS);
        let mut received = 1;
        let mut grown = Vec::new();
        for (round, segments) in (0..).zip([10, 20, 40, 80, 80, 80, 80, 80]) {
            let grows = (0..segments).filter(|segment| {
                let now_ns = round * ROUND_NS + segment * 1_000_000;
                window.on_echo(now_ns, (round - 1) * ROUND_NS);
                received += MSS;
                window.on_data(now_ns, received, MSS)
            });
            grown.push(grows.count());
        }
        // The first round is not over before the second has begun.
        assert_eq!(grown[0], 0);
        assert_eq!(grown[3], 80, "{grown:?}");
        assert_eq!(grown[7], 0, "{grown:?}");
        assert!((300_000..1_000_000).contains(&window.window_bytes()));
    }
}
