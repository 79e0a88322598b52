//! Timestamps that show no time: some files have none, some only seconds, some a clock that runs backwards.

/// A clock with longer ticks shows no delay and no order of events: on a network path only pauses take this long.
const LONGEST_TICK_NS: u64 = 100_000_000;

/// Why the timestamps of a capture show no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeless {
    /// All are equal.
    Equal,
    /// They only take values that lie far apart, and packets share them.
    Coarse { tick_ns: u64 },
    /// Each is earlier than the one before, while the packets are in order.
    Backwards,
}

impl Timeless {
    /// The name of this reason in facts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Coarse { .. } => "coarse",
            Self::Backwards => "backwards",
        }
    }

    /// The reason in words, for errors and notes.
    pub fn reason(self) -> String {
        match self {
            Self::Equal => "all timestamps are equal".into(),
            Self::Coarse { tick_ns } => {
                format!(
                    "the timestamps have a resolution of {} s",
                    tick_ns as f64 * 1e-9
                )
            }
            Self::Backwards => "the timestamps run backwards while the packets are in order".into(),
        }
    }
}

/// The longest tick of which all timestamps are multiples, counted from the first. Of captures with a clock it is known
/// to be short after a few packets, and no more is examined.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ticks {
    first_ns: Option<i64>,
    previous_ns: i64,
    /// 0 while all timestamps are equal.
    tick_ns: u64,
    are_shared: bool,
    are_short: bool,
}

impl Ticks {
    #[inline(always)]
    pub(crate) fn note(&mut self, stamped_ns: i64) {
        if !self.are_short {
            self.look(stamped_ns);
        }
    }

    #[cold]
    fn look(&mut self, stamped_ns: i64) {
        let Some(first_ns) = self.first_ns else {
            self.first_ns = Some(stamped_ns);
            self.previous_ns = stamped_ns;
            return;
        };
        self.are_shared |= stamped_ns == self.previous_ns;
        self.previous_ns = stamped_ns;
        self.tick_ns = greatest_common_divisor(self.tick_ns, stamped_ns.abs_diff(first_ns));
        self.are_short = (1..LONGEST_TICK_NS).contains(&self.tick_ns);
    }

    /// `None` if the timestamps show time, or if packets are so few or so far apart that no two share one.
    pub(crate) fn timeless(&self) -> Option<Timeless> {
        match (self.are_short, self.are_shared, self.tick_ns) {
            (true, ..) | (_, false, _) => None,
            (_, _, 0) => Some(Timeless::Equal),
            (.., tick_ns) => Some(Timeless::Coarse { tick_ns }),
        }
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeless(stamps_ns: &[i64]) -> Option<Timeless> {
        let mut ticks = Ticks::default();
        stamps_ns.iter().for_each(|ns| ticks.note(*ns));
        ticks.timeless()
    }

    #[test]
    fn timestamps_that_hardly_advance_show_no_time() {
        const S: i64 = 1_000_000_000;
        assert_eq!(timeless(&[0, 0, 0]), Some(Timeless::Equal));
        assert_eq!(timeless(&[7 * S; 2]), Some(Timeless::Equal));
        let tick = |tick_ns| Some(Timeless::Coarse { tick_ns });
        assert_eq!(timeless(&[S, S, 2 * S, 4 * S]), tick(1_000_000_000));
        assert_eq!(timeless(&[5 * S, 5 * S, 65 * S]), tick(60_000_000_000));
        assert_eq!(timeless(&[S, S, S / 2]), tick(500_000_000));
    }

    #[test]
    fn clocks_show_time_and_so_do_few_packets_far_apart() {
        assert_eq!(timeless(&[]), None);
        assert_eq!(timeless(&[0]), None);
        assert_eq!(timeless(&[0, 1_000_000_000, 3_000_000_000]), None);
        assert_eq!(timeless(&[0, 0, 15_625_000, 31_250_000]), None);
        assert_eq!(timeless(&[i64::MIN, i64::MAX, i64::MAX, 3]), None);
    }
}
