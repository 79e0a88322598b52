//! Selection of the exchanges of timestamps that determine the clocks best.

use crate::sample::Exchange;

const WINDOW_NS: i64 = 100_000_000;

/// Keeps, for each 100 ms, the exchange with the smallest apparent delay up and the one with the smallest apparent
/// delay down. The clock fit uses only the lower envelopes of both directions, so no others are needed.
#[derive(Clone, Debug)]
pub(crate) struct Thinning {
    window_ns: i64,
    window: i64,
    up: Option<Exchange>,
    down: Option<Exchange>,
    kept: Vec<Exchange>,
}

impl Thinning {
    /// For flows of any length.
    pub(crate) fn by_windows() -> Thinning {
        Thinning {
            window_ns: WINDOW_NS,
            window: i64::MIN,
            up: None,
            down: None,
            kept: Vec::new(),
        }
    }

    /// For short trains: keeps everything.
    pub(crate) fn none() -> Thinning {
        Thinning {
            window_ns: 1,
            ..Thinning::by_windows()
        }
    }

    pub(crate) fn add(&mut self, exchange: Exchange) {
        let window = exchange.sent_ns.div_euclid(self.window_ns);
        if window > self.window {
            self.close();
            self.window = window;
        }
        if self.up.is_none_or(|up| up_ns(&exchange) < up_ns(&up)) {
            self.up = Some(exchange);
        }
        if self
            .down
            .is_none_or(|down| down_ns(&exchange) < down_ns(&down))
        {
            self.down = Some(exchange);
        }
    }

    /// Returns the exchanges kept for the windows that are over at this time.
    pub(crate) fn take(&mut self, now_ns: i64) -> Vec<Exchange> {
        if now_ns.div_euclid(self.window_ns) > self.window {
            self.close();
        }
        std::mem::take(&mut self.kept)
    }

    fn close(&mut self) {
        let (up, down) = (self.up.take(), self.down.take());
        self.kept.extend(up);
        self.kept.extend(down.filter(|_| down != up));
    }
}

/// The apparent one-way delay up, which includes the far clock's offset.
pub(crate) fn up_ns(exchange: &Exchange) -> i128 {
    i128::from(exchange.far_received_ns) - i128::from(exchange.sent_ns)
}

/// The apparent one-way delay down, from which the offset is subtracted.
pub(crate) fn down_ns(exchange: &Exchange) -> i128 {
    i128::from(exchange.received_ns) - i128::from(exchange.far_sent_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(sent_ms: i64, up_ms: i64, down_ms: i64) -> Exchange {
        let far_ns = (sent_ms + up_ms) * 1_000_000;
        Exchange {
            sent_ns: sent_ms * 1_000_000,
            far_received_ns: far_ns,
            far_sent_ns: far_ns,
            received_ns: far_ns + down_ms * 1_000_000,
        }
    }

    #[test]
    fn of_each_window_the_fastest_of_each_direction_are_kept() {
        let mut thinning = Thinning::by_windows();
        let all = [
            exchange(0, 5, 9),
            exchange(20, 3, 8),
            exchange(40, 4, 2),
            exchange(120, 1, 1),
            exchange(130, 2, 2),
        ];
        for exchange in all {
            thinning.add(exchange);
        }
        assert_eq!(thinning.take(199_000_000), [all[1], all[2]]);
        assert_eq!(thinning.take(201_000_000), [all[3]]);
        assert!(thinning.take(i64::MAX).is_empty());
    }

    #[test]
    fn of_a_short_train_everything_is_kept() {
        let mut thinning = Thinning::none();
        for sent_ms in 0..10 {
            thinning.add(exchange(sent_ms, 1, 1));
        }
        assert_eq!(thinning.take(i64::MAX).len(), 10);
    }
}
