//! The rate at which a responder computes handshakes: the first step of one costs more than all that a client must
//! have done before it.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::responder::limits::{Limits, neighbourhood, network};

/// A rate, and how many may come at once after a pause.
#[derive(Clone, Copy)]
struct Rate {
    per_s: f64,
    at_once: f64,
}

/// Of all clients together: with the reserve some hundredths of one processor.
const IN_TOTAL: Rate = Rate {
    per_s: 200.0,
    at_once: 200.0,
};
/// Of all clients, beyond the total: for a few handshakes of each network when others have taken all of the total.
const RESERVE: Rate = Rate {
    per_s: 50.0,
    at_once: 50.0,
};
/// Of one network.
const OF_NETWORK: Rate = Rate {
    per_s: 100.0,
    at_once: 100.0,
};
/// Of one neighbourhood.
const OF_EACH: Rate = Rate {
    per_s: 16.0,
    at_once: 64.0,
};
/// Of one network from the reserve.
const OF_RESERVE: Rate = Rate {
    per_s: 1.0,
    at_once: 8.0,
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

/// The buckets of neighbourhoods or of networks.
struct Buckets {
    rate: Rate,
    known: HashMap<IpAddr, Bucket>,
}

impl Buckets {
    fn new(rate: Rate) -> Buckets {
        let known = HashMap::new();
        Buckets { rate, known }
    }

    fn of(&self, place: IpAddr, now_ns: i64) -> Bucket {
        let known = self.known.get(&place).copied();
        known.unwrap_or_else(|| Bucket::full(self.rate, now_ns))
    }

    fn keep(&mut self, place: IpAddr, bucket: Bucket, now_ns: i64) {
        if self.known.len() >= MANY {
            let rate = self.rate;
            self.known
                .retain(|_, bucket| bucket.tokens(rate, now_ns) < rate.at_once);
        }
        self.known.insert(place, bucket);
    }
}

/// The handshakes of all clients, of each network and of each neighbourhood.
pub struct Handshakes {
    in_total: Rate,
    total: Bucket,
    reserve: Bucket,
    of_reserve: Buckets,
    networks: Buckets,
    each: Buckets,
}

impl Handshakes {
    /// All sessions that the limits allow may begin at once.
    pub fn new(limits: &Limits, now_ns: i64) -> Handshakes {
        let in_total = IN_TOTAL.with_room_for(limits.max_sessions);
        let of_network = OF_NETWORK.with_room_for(limits.sessions_per_network());
        Handshakes {
            in_total,
            total: Bucket::full(in_total, now_ns),
            reserve: Bucket::full(RESERVE, now_ns),
            of_reserve: Buckets::new(OF_RESERVE),
            networks: Buckets::new(of_network),
            each: Buckets::new(OF_EACH.with_room_for(limits.max_sessions_per_address)),
        }
    }

    /// Counts one more handshake; returns `false` if it is one too many.
    pub fn begin(&mut self, from: IpAddr, now_ns: i64) -> bool {
        let (place, network) = (neighbourhood(from), network(from));
        let mut own = self.each.of(place, now_ns);
        let mut shared = self.networks.of(network, now_ns);
        if !own.take(self.each.rate, now_ns) || !shared.take(self.networks.rate, now_ns) {
            return false;
        }
        let is_within =
            self.total.take(self.in_total, now_ns) || self.take_of_reserve(network, now_ns);
        if is_within {
            self.each.keep(place, own, now_ns);
            self.networks.keep(network, shared, now_ns);
        }
        is_within
    }

    fn take_of_reserve(&mut self, network: IpAddr, now_ns: i64) -> bool {
        let mut own = self.of_reserve.of(network, now_ns);
        let is_within = own.take(OF_RESERVE, now_ns) && self.reserve.take(RESERVE, now_ns);
        if is_within {
            self.of_reserve.keep(network, own, now_ns);
        }
        is_within
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
    fn one_network_with_many_addresses_takes_only_its_share() {
        let mut handshakes = Handshakes::new(&Limits::open(), 0);
        let host = |number: u128| IpAddr::V6(((0x2001_0db8_u128 << 96) | (number << 64)).into());
        let begun = (0..10_000)
            .filter(|&number| handshakes.begin(host(number), 0))
            .count();
        assert_eq!(begun, 100);
        assert!(handshakes.begin(address(1), 0));
    }

    #[test]
    fn networks_that_take_all_leave_the_reserve_to_others() {
        let mut handshakes = Handshakes::new(&Limits::open(), 0);
        let busy = |number: u32| address(((number % 5) << 8) | (number / 5 % 250));
        // Far more than all that is allowed, for a minute.
        for number in 0..60_000 {
            handshakes.begin(busy(number), i64::from(number) * 1_000_000);
        }
        let now_ns = 60 * SECOND_NS - 1_000_000;
        let begun = (0..50)
            .filter(|&number| handshakes.begin(busy(number), now_ns))
            .count();
        assert!(begun <= 5, "{begun}");
        assert!((0..40).all(|number| handshakes.begin(address((number << 8) | (1 << 20)), now_ns)));
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
            assert!(handshakes.each.known.len() <= 2 * MANY);
        }
        // With the reserve 250 at once, and 250 in each of ten seconds.
        assert!((2700..=2751).contains(&begun), "{begun}");
    }
}
