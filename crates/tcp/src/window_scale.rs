//! Inference of the window scale if the handshake was not captured.
//!
//! A sender never has more outstanding than the window permits (RFC 9293, section 3.8.6), so the scale (RFC 7323,
//! section 2.2) is large enough for all data sent. The least such scale is distinguished from larger ones if the
//! resulting window is full repeatedly: each scale permits twice as much as the one before, and a flight with another
//! bound approaches one of them only by chance.

use crate::flow::Flow;
use crate::rounds;
use crate::sender_clock::SenderClock;

/// The largest scale (RFC 7323, section 2.3).
const LARGEST: u8 = 14;

/// A placeholder for the window of an unknown scale until that is inferred: negative, computed from the value in the
/// packet.
pub(crate) fn unscaled(value: u16) -> i64 {
    -1 - i64::from(value)
}

/// The window in bytes; a window that is never scaled, as that of a SYN, is unchanged.
fn scaled(window: i64, scale: u8) -> i64 {
    if window < 0 {
        (-1 - window) << scale
    } else {
        window
    }
}

/// Converts the [`unscaled`] windows in a flow's acknowledgments to bytes, or to -1 if the scale cannot be inferred.
/// `clock` is the sender's.
pub(crate) fn infer(flow: &mut Flow, clock: &SenderClock) {
    let scale = least(flow, clock).unwrap_or(0);
    for acknowledgment in &mut flow.acknowledgments {
        acknowledgment.window_bytes = scaled(acknowledgment.window_bytes, scale);
    }
    if !rounds::fill_the_window(flow, clock) {
        for acknowledgment in &mut flow.acknowledgments {
            acknowledgment.window_bytes = -1;
        }
    }
}

/// The least scale that permits all data sent.
fn least(flow: &Flow, clock: &SenderClock) -> Option<u8> {
    let (mut coming, mut scale) = (0, 0);
    // the right edge does not move left (RFC 9293, section 3.8.6)
    let mut edges = [i64::MIN; LARGEST as usize + 1];
    for (segment, now_ns) in flow.segments.iter().zip(&clock.sent_ns) {
        while clock.heard_ns.get(coming).is_some_and(|ns| ns <= now_ns) {
            let heard = flow.acknowledgments[coming];
            for (scale, edge) in (0..).zip(&mut edges) {
                *edge = (*edge).max(heard.acknowledged + scaled(heard.window_bytes, scale));
            }
            coming += 1;
        }
        while coming > 0 && edges[usize::from(scale)] < segment.end() {
            scale += 1;
            if scale > LARGEST {
                return None;
            }
        }
    }
    (coming > 0).then_some(scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Acknowledgment, Fate, Kind, Segment, SegmentFlags, Vantage};

    const MS: i64 = 1_000_000;
    const MSS: u32 = 1000;

    /// Round trips of 20 ms with these numbers of packets, acknowledged one by one with the window 1000.
    fn flow(flights: &[i64]) -> Flow {
        let mut flow = Flow {
            vantage: Vantage::Sender,
            mss_bytes: Some(MSS),
            ..Flow::default()
        };
        let (mut now_ns, mut next) = (0, 0);
        for flight in flights {
            for number in next..next + flight {
                flow.segments.push(Segment {
                    time_ns: now_ns,
                    sequence: number * i64::from(MSS),
                    rtt_ns: 20 * MS,
                    in_flight_bytes: 0,
                    payload_bytes: MSS,
                    header_bytes: 52,
                    kind: Kind::New,
                    fate: Fate::Delivered,
                    flags: SegmentFlags::default(),
                });
            }
            next += flight;
            now_ns += 20 * MS;
            flow.acknowledgments.push(Acknowledgment {
                time_ns: now_ns,
                acknowledged: next * i64::from(MSS),
                window_bytes: unscaled(1000),
                ecn_echo: false,
            });
        }
        flow
    }

    fn windows(flights: &[i64]) -> Vec<i64> {
        let mut flow = flow(flights);
        let clock = SenderClock::of(&flow, None, None);
        infer(&mut flow, &clock);
        let acknowledgments = flow.acknowledgments.iter();
        acknowledgments.map(|one| one.window_bytes).collect()
    }

    #[test]
    fn a_window_that_is_full_repeatedly_reveals_its_scale() {
        assert_eq!(windows(&[10, 32, 32, 32, 32, 32]), [32_000; 6]);
    }

    #[test]
    fn a_flight_near_no_window_reveals_no_scale() {
        assert_eq!(windows(&[10, 25, 25, 25, 25, 25]), [-1; 6]);
        assert_eq!(windows(&[10, 20, 31, 20, 32, 20]), [-1; 6]);
    }

    #[test]
    fn a_small_flight_is_near_some_window_by_chance() {
        assert_eq!(windows(&[2, 4, 4, 4, 4, 4]), [-1; 6]);
    }
}
