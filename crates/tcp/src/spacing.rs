//! Pacing rate or line: what causes the gaps between evenly spaced packets.
//!
//! A line is busy for as long as it sends a packet, so a small packet follows soon behind the full one before it. A
//! sender that paces waits after each packet for that packet's time at its rate, so a small packet comes as late as a
//! full one.

use crate::flow::{Flow, Kind, Segment, SegmentFlags};
use crate::quantile::quantile_in;

/// Packets smaller than this share of a full one are evidence.
const SMALL: f64 = 0.6;
/// Gaps are even within this share of the usual one.
const EVEN: f64 = 0.15;
/// Bytes of an Ethernet frame besides the captured headers and the payload.
const FRAME_BYTES: u32 = 38;

/// Timestamp error if a host takes packets from its network card in batches.
const STAMPS_NS: f64 = 20_000.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spacing {
    Line,
    Rate,
}

impl Spacing {
    /// Classifies the flow by the majority of its small packets behind two full ones at the usual gap; `None` if they
    /// are not conclusive.
    pub fn of(flow: &Flow) -> Option<Self> {
        let full = flow.full_bytes();
        let is_full = |s: &Segment| s.payload_bytes == full && is_first(s);
        let gap_ns = |a: &Segment, b: &Segment| b.time_ns.saturating_sub(a.time_ns);
        let pairs = flow.segments.windows(2);
        let full_pairs = pairs.filter(|pair| pair.iter().all(is_full));
        let mut gaps_ns: Vec<i64> = full_pairs.map(|pair| gap_ns(&pair[0], &pair[1])).collect();
        let usual_ns = quantile_in(&mut gaps_ns, 0.5) as f64;
        let is_near = |ns: f64, other_ns: f64| (ns - other_ns).abs() <= EVEN * usual_ns;
        let (mut by_line, mut by_rate) = (0, 0);
        for three in flow.segments.windows(3) {
            let [before, last, small] = three else {
                continue;
            };
            let size = wire_bytes(small) / wire_bytes(last);
            let is_even = is_near(gap_ns(before, last) as f64, usual_ns);
            if !is_even || !is_full(before) || !is_full(last) || !is_first(small) || size > SMALL {
                continue;
            }
            let took_ns = gap_ns(last, small) as f64;
            by_line += usize::from(is_near(took_ns, size * usual_ns));
            by_rate += usize::from(is_near(took_ns, usual_ns));
        }
        match by_line.cmp(&by_rate) {
            _ if EVEN * usual_ns <= STAMPS_NS => None,
            std::cmp::Ordering::Greater => Some(Self::Line),
            std::cmp::Ordering::Less => Some(Self::Rate),
            std::cmp::Ordering::Equal => None,
        }
    }
}

fn is_first(segment: &Segment) -> bool {
    segment.kind == Kind::New && !segment.flags.has(SegmentFlags::INFERRED)
}

fn wire_bytes(segment: &Segment) -> f64 {
    f64::from(segment.payload_bytes + u32::from(segment.header_bytes) + FRAME_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Fate;

    const MS: i64 = 1_000_000;

    /// Twenty full packets 1 ms apart, and a small one this long after the last, nanoseconds.
    fn with_small(after_ns: i64) -> Flow {
        let segment = |number: i64| Segment {
            time_ns: number * MS,
            sequence: number * 1000,
            rtt_ns: -1,
            in_flight_bytes: 0,
            payload_bytes: 1000,
            header_bytes: 52,
            kind: Kind::New,
            fate: Fate::Delivered,
            flags: SegmentFlags::default(),
        };
        let small = Segment {
            time_ns: 19 * MS + after_ns,
            payload_bytes: 100,
            ..segment(20)
        };
        Flow {
            mss_bytes: Some(1000),
            segments: (0..20).map(segment).chain([small]).collect(),
            ..Flow::default()
        }
    }

    #[test]
    fn a_line_takes_as_much_less_for_a_small_packet_and_a_rate_as_much_as_for_the_one_before() {
        assert_eq!(Spacing::of(&with_small(MS / 6)), Some(Spacing::Line));
        assert_eq!(Spacing::of(&with_small(MS)), Some(Spacing::Rate));
        assert_eq!(Spacing::of(&with_small(MS / 2)), None);
    }

    #[test]
    fn gaps_within_the_timestamp_error_are_not_conclusive() {
        let mut flow = with_small(MS);
        flow.segments.iter_mut().for_each(|s| s.time_ns /= 10);
        assert_eq!(Spacing::of(&flow), None);
    }
}
