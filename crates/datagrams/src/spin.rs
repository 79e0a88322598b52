//! QUIC's latency spin bit: one bit of each short header that changes its value once in a round trip (RFC 9000, section
//! 17.4; RFC 9312, section 3.8).
//!
//! An endpoint may disable it, and then sends a fixed value or a random one. A bit therefore counts only if it spins:
//! far fewer changes than random bits have, and about as many in the other direction.

const SHORT_HEADER: u8 = 0x40;
const LONG_HEADER: u8 = 0xc0;
const FORM_AND_FIXED: u8 = 0xc0;
const SPIN: u8 = 0x20;
/// Fewer changes do not measure a round-trip time.
const FEWEST_EDGES: u64 = 8;
/// Random bits have so few changes with a probability of at most e^-20 (W. Hoeffding, 1963).
const NO_CHANCE: f64 = 20.0;
/// The most round trips that are kept.
const MOST_SAMPLES: usize = 4096;
/// Changes closer than this share of the median are reordered packets.
const REORDERED: i64 = 10;
/// With fewer packets in the other direction, their bit may miss changes.
const ENOUGH_BACK: u64 = 20;

/// The short headers of one direction.
#[derive(Debug, Default)]
pub(crate) struct SpinBit {
    is_quic: bool,
    packets: u64,
    edges: u64,
    last: Option<bool>,
    last_edge_ns: Option<i64>,
    round_trips_ns: Vec<i64>,
}

/// Round-trip times from the spin bit, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spin {
    pub round_trips: u64,
    pub rtt_min_s: f64,
    pub rtt_median_s: f64,
}

impl SpinBit {
    #[inline]
    pub(crate) fn take(&mut self, time_ns: i64, payload: &[u8]) {
        let Some(&first) = payload.first() else {
            return;
        };
        match first & FORM_AND_FIXED {
            LONG_HEADER => self.is_quic |= is_known_version(payload),
            SHORT_HEADER => self.take_short(time_ns, first & SPIN != 0),
            _ => {}
        }
    }

    fn take_short(&mut self, time_ns: i64, value: bool) {
        self.packets += 1;
        if self.last.replace(value).is_none_or(|last| last == value) {
            return;
        }
        self.edges += 1;
        if let Some(before_ns) = self.last_edge_ns.replace(time_ns)
            && self.round_trips_ns.len() < MOST_SAMPLES
        {
            self.round_trips_ns.push(time_ns.saturating_sub(before_ns));
        }
    }

    /// True if random bits, which change half of the time, are ruled out.
    fn is_no_chance(&self) -> bool {
        let share = self.edges as f64 / self.packets.max(1) as f64;
        share < 0.5 && 2.0 * self.packets as f64 * (0.5 - share).powi(2) > NO_CHANCE
    }
}

/// Version 1 (RFC 9000), version 2 (RFC 9369) and the drafts before them.
fn is_known_version(payload: &[u8]) -> bool {
    let version = payload.get(1..5).and_then(|bytes| bytes.try_into().ok());
    let connection_id_bytes = payload.get(5).copied().unwrap_or(u8::MAX);
    let known = |version: u32| {
        version == 1 || version == 0x6b33_43cf || version & 0xffff_ff00 == 0xff00_0000
    };
    version.map(u32::from_be_bytes).is_some_and(known) && connection_id_bytes <= 20
}

/// The round trips of one direction, if its bit spins; `back` is the other direction, if it was captured.
pub(crate) fn of(own: &SpinBit, back: Option<&SpinBit>) -> Option<Spin> {
    let is_quic = own.is_quic || back.is_some_and(|back| back.is_quic);
    let alike = |a: u64, b: u64| a <= 2 * b + 2;
    // an endpoint that reflects random bits changes less often than they do: the other direction decides
    let spins_back = back.is_none_or(|back| {
        let both = alike(own.edges, back.edges) && alike(back.edges, own.edges);
        both && back.is_no_chance() || back.packets < ENOUGH_BACK
    });
    if !is_quic || own.edges < FEWEST_EDGES || !own.is_no_chance() || !spins_back {
        return None;
    }
    let mut sorted = own.round_trips_ns.clone();
    sorted.sort_unstable();
    let median = *sorted.get(sorted.len() / 2)?;
    let real = &sorted[sorted.partition_point(|sample| *sample * REORDERED < median)..];
    Some(Spin {
        round_trips: real.len() as u64,
        rtt_min_s: *real.first()? as f64 * 1e-9,
        rtt_median_s: real[real.len() / 2] as f64 * 1e-9,
    })
}
