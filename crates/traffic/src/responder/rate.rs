//! The rate at which a responder computes handshakes: the first step of one costs more than all that a client must
//! have done before it.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::responder::limits::{Limits, neighbourhood};

/// A rate, and how many may come at once after a pause.
#[derive(Clone, Copy)]
struct Rate {
    per_s: f64,
    at_once: f64,
}

/// Of all clients together: some hundredths of one processor.
const IN_TOTAL: Rate = Rate {
    per_s: 250.0,
    at_once: 250.0,
};
/// Of one neighbourhood.
const OF_EACH: Rate = Rate {
    per_s: 16.0,
    at_once: 64.0,
};

impl Rate {
    /// The same rate, at which this many clients can begin together.
    fn with_room_for(self, clients: usize) -> Rate {
        Rate {
            at_once: self.at_once.max(clients as f64),
            ..self
        }
    }
}

/// Neighbourhoods with full buckets are forgotten from here on. Few others can exist, since each has taken from the
/// bucket of all within the last seconds.
const MANY: usize = 1024;

/// A token bucket.
#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    at_ns: i64,
}

impl Bucket {
    fn full(rate: Rate, now_ns: i64) -> Bucket {
        Bucket {
            tokens: rate.at_once,
            at_ns: now_ns,
        }
    }

    fn tokens(&self, rate: Rate, now_ns: i64) -> f64 {
        let gained = (now_ns - self.at_ns).max(0) as f64 / 1e9 * rate.per_s;
        (self.tokens + gained).min(rate.at_once)
    }

    /// Takes a token, if there is one.
    fn take(&mut self, rate: Rate, now_ns: i64) -> bool {
        let tokens = self.tokens(rate, now_ns);
        if tokens < 1.0 {
            return false;
        }
        *self = Bucket {
            tokens: tokens - 1.0,
            at_ns: now_ns,
        };
        true
    }
}

/// The handshakes of all clients and of each neighbourhood.
pub struct Handshakes {
    in_total: Rate,
    of_each: Rate,
    total: Bucket,
    each: HashMap<IpAddr, Bucket>,
}

impl Handshakes {
    /// All sessions that the limits allow may begin at once.
    pub fn new(limits: &Limits, now_ns: i64) -> Handshakes {
        let in_total = IN_TOTAL.with_room_for(limits.max_sessions);
        Handshakes {
            in_total,
            of_each: OF_EACH.with_room_for(limits.max_sessions_per_address),
            total: Bucket::full(in_total, now_ns),
            each: HashMap::new(),
        }
    }

    /// Counts one more handshake; returns `false` if it is one too many.
    pub fn begin(&mut self, from: IpAddr, now_ns: i64) -> bool {
        let (from, rate) = (neighbourhood(from), self.of_each);
        let known = self.each.get(&from).copied();
        let mut own = known.unwrap_or_else(|| Bucket::full(rate, now_ns));
        if !own.take(rate, now_ns) || !self.total.take(self.in_total, now_ns) {
            return false;
        }
        if self.each.len() >= MANY {
            self.each
                .retain(|_, bucket| bucket.tokens(rate, now_ns) < rate.at_once);
        }
        self.each.insert(from, own);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn one_neighbourhood_does_not_take_the_handshakes_of_another() {
        let mut handshakes = Handshakes::new(&Limits::open(), 0);
        let begun = (0..1000)
            .filter(|_| handshakes.begin(address(1), 0))
            .count();
        assert_eq!(begun, 64);
        assert!(handshakes.begin(address(2), 0));
        let mut later = |now_ns| {
            (0..1000)
                .filter(|_| handshakes.begin(address(1), now_ns))
                .count()
        };
        assert_eq!(later(SECOND_NS), 16);
        assert_eq!(later(100 * SECOND_NS), 64);
        // A clock that goes back gives nothing.
        assert_eq!(later(99 * SECOND_NS), 0);
    }

    #[test]
    fn all_sessions_that_the_limits_allow_may_begin_at_once() {
        let limits = Limits {
            max_sessions: 1000,
            max_sessions_per_address: 1000,
            ..Limits::authenticated()
        };
        let mut handshakes = Handshakes::new(&limits, 0);
        let begun = (0..2000)
            .filter(|_| handshakes.begin(address(1), 0))
            .count();
        assert_eq!(begun, 1000);
    }

    #[test]
    fn all_clients_together_begin_no_more_than_the_rate_and_few_are_remembered() {
        let mut handshakes = Handshakes::new(&Limits::open(), 0);
        let mut begun = 0;
        for number in 0..100_000 {
            begun += usize::from(handshakes.begin(address(number), i64::from(number) * 100_000));
            assert!(handshakes.each.len() <= 2 * MANY);
        }
        // 250 at once, and 250 in each of ten seconds.
        assert!((2700..=2751).contains(&begun), "{begun}");
    }
}
