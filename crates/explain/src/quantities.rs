//! Quantities with their intervals: the bytes that a device may count, and the errors of clocks.

use whydrop_path::fit::Interval;
use whydrop_path::fit::passage::Passages;
use whydrop_verdict::Quantity;

use crate::observe::observation::MostCounted;
use crate::observe::{ByteBasis, Exact, Observation};

/// Bytes that a device may count beyond the IP packet: up to the preamble, header, check sequence and gap of
/// Ethernet (8 + 14 + 4 + 12, IEEE 802.3). Losses alone do not show them, so the upper ends of the intervals
/// include them.
pub const WIRE_OVERHEAD_BYTES: f64 = 38.0;
/// No rate is more accurate than the clock that measured it: oscillators of computers deviate by up to some
/// hundred parts per million (RFC 5905 allows 500).
pub const CLOCK_ERROR: f64 = 5e-4;
/// Bytes that a device may count of the traffic that passed.
pub fn most_counted(seen: &Observation) -> MostCounted {
    seen.most_counted(WIRE_OVERHEAD_BYTES)
}

/// The interval in IP bytes, with the upper end raised by what the device may count on top.
pub fn any_byte_basis(interval: Interval, most: MostCounted) -> Quantity {
    Quantity {
        value: interval.value,
        low: interval.low,
        high: interval.high.map(|high| high * most.own),
    }
}

/// The same for a rate, including the capacity used by datagrams, and the possible error of the capture's
/// clock.
pub fn any_rate(interval: Interval, most: MostCounted) -> Quantity {
    Quantity {
        value: interval.value,
        low: interval.low.map(|low| low * (1.0 - CLOCK_ERROR)),
        high: (interval.high).map(|high| high * most.with_beside * (1.0 + CLOCK_ERROR)),
    }
}

/// The interval, widened by this much on both sides.
pub(crate) fn widened(interval: Interval, by: f64) -> Interval {
    Interval {
        low: interval.low.map(|low| (low - by).max(0.0)),
        high: interval.high.map(|high| high + by),
        ..interval
    }
}

/// An interval as a quantity.
pub fn quantity(interval: Interval) -> Quantity {
    Quantity {
        value: interval.value,
        low: interval.low,
        high: interval.high,
    }
}

/// z for a 95 % interval of a share.
const Z_95: f64 = 1.96;

/// A share of a total with Wilson's score interval (1927). `None` for a share of nothing.
pub(crate) fn share(part: usize, total: usize) -> Option<Quantity> {
    if total == 0 {
        return None;
    }
    let total = total as f64;
    let share = part as f64 / total;
    let z2 = Z_95 * Z_95;
    let center = (share + z2 / (2.0 * total)) / (1.0 + z2 / total);
    let half = Z_95 / (1.0 + z2 / total)
        * (share * (1.0 - share) / total + z2 / (4.0 * total * total)).sqrt();
    Some(Quantity {
        value: share,
        low: Some((center - half).max(0.0)),
        high: Some((center + half).min(1.0)),
    })
}

/// The rate at which the queue of one capture drains.
pub fn drain_rate(seen: &Observation) -> Quantity {
    any_rate(seen.queue_rate_bps(), most_counted(seen))
}

/// The same between two captures, from departures; `None` if too few packets were queued.
pub fn drain_rate_between(
    seen: &Observation,
    exact: &Exact,
    basis: Option<ByteBasis>,
) -> Option<Quantity> {
    let departures = exact.departures.as_ref()?;
    let served = departures.full_bytes.max(seen.packet_bytes());
    let scale = Scale::new(basis, served, &exact.passages).with_missed(exact.missed_share);
    Some(scale.apply_to_rate(departures.rate_bps))
}

/// Converts IP bytes to those of a known basis; if unknown, the upper end includes every basis.
pub struct Scale {
    value: f64,
    high: f64,
}

impl Scale {
    /// Identity, for quantities already in counted bytes.
    pub const KNOWN: Self = Self {
        value: 1.0,
        high: 1.0,
    };

    pub fn new(basis: Option<ByteBasis>, packet_bytes: f64, passages: &Passages) -> Self {
        let raise = |overhead: f64| (packet_bytes + overhead) / packet_bytes;
        // there are small packets among full ones, with the same overhead on each
        let mean_bytes = passages.mean_bytes().min(packet_bytes);
        match basis {
            Some(basis) => {
                let known = raise(f64::from(basis.overhead_bytes()));
                Self {
                    value: known,
                    high: known,
                }
            }
            None => Self {
                value: 1.0,
                high: (mean_bytes + WIRE_OVERHEAD_BYTES) / mean_bytes,
            },
        }
    }

    /// Raise the upper bound for packets that captures lack: they were served as well.
    pub fn with_missed(self, missed_share: f64) -> Self {
        Self {
            high: self.high / (1.0 - missed_share).max(0.1),
            ..self
        }
    }

    /// Convert a rate, and add the possible error of the capture's clock.
    pub fn apply_to_rate(&self, interval: Interval) -> Quantity {
        let sharp = self.apply(interval);
        Quantity {
            low: sharp.low.map(|low| low * (1.0 - CLOCK_ERROR)),
            high: sharp.high.map(|high| high * (1.0 + CLOCK_ERROR)),
            ..sharp
        }
    }

    pub fn apply(&self, interval: Interval) -> Quantity {
        Quantity {
            value: interval.value * self.value,
            low: interval.low.map(|low| low * self.value),
            high: interval.high.map(|high| high * self.high),
        }
    }
}
