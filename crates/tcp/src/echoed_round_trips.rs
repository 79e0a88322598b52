//! Round-trip times of packets without captured acknowledgments, from the sender's retransmissions.
//!
//! A sender retransmits when the third packet behind a lost one is acknowledged (RFC 5681, section 3.2; RFC 6675,
//! section 5). In other cases, which packet an acknowledgment covered depends on an unknown window.

use crate::flow::{Flow, Kind, SegmentFlags};
use crate::rounds::RELEASE_NS;
use crate::sender_clock::Echo;

/// Packets behind a lost one that are acknowledged before it is retransmitted (RFC 5681, section 3.2).
const DUPLICATES: usize = 3;
/// If none of this many packets behind a lost one arrived, nothing is inferred.
const MOST_BEHIND: usize = 1_000;

/// Returns segments and their round-trip times where a retransmission follows at once on an acknowledgment that the
/// data echoes; the least round-trip time is `round_trip_ns`. The segments lie behind lost ones: the third one at the
/// first retransmission of a recovery, since later retransmissions wait for room in the window; or any other, if its
/// round trip can have been no longer than the least.
pub(crate) fn round_trips_ns(
    flow: &Flow,
    echoes: &[Echo],
    round_trip_ns: i64,
) -> Vec<(usize, i64)> {
    let segments = &flow.segments;
    let mut found = Vec::new();
    let mut originals: Vec<(i64, usize)> = Vec::new();
    // retransmissions of one recovery follow each other within a round trip
    let (mut since_ns, mut last_repeat_ns, mut usual_ns) = (i64::MIN, i64::MIN, round_trip_ns);
    for (index, segment) in segments.iter().enumerate() {
        if segment.kind == Kind::New {
            originals.push((segment.sequence, index));
            continue;
        }
        let repeat_ns = segment.time_ns;
        let recovers = repeat_ns.saturating_sub(usual_ns) <= last_repeat_ns;
        last_repeat_ns = repeat_ns;
        let before = originals.partition_point(|(sequence, _)| *sequence <= segment.sequence);
        let Some((_, lost)) = before.checked_sub(1).map(|at| originals[at]) else {
            continue;
        };
        let original = &segments[lost];
        if !original.is_lost()
            || original.flags.has(SegmentFlags::INFERRED)
            || !is_new_echo(echoes, repeat_ns)
        {
            continue;
        }
        let arrived = |at: &usize| !segments[*at].is_lost() && segments[*at].kind == Kind::New;
        let mut behind = (lost + 1..index).take(MOST_BEHIND).filter(arrived);
        let (first, third) = (behind.next(), behind.nth(DUPLICATES - 2));
        let rtt_ns = |at: usize| repeat_ns.saturating_sub(segments[at].time_ns);
        // no round trip is shorter than the least, so this one is known, whatever the retransmission waited for
        let nothing_waited = first.filter(|at| rtt_ns(*at) <= round_trip_ns + RELEASE_NS);
        let is_first = original.time_ns > since_ns;
        let third = third.filter(|third| {
            let apart_ns = rtt_ns(first.unwrap_or(*third)) - rtt_ns(*third);
            is_first && !(recovers && apart_ns > RELEASE_NS.max(rtt_ns(*third) / 10))
        });
        if is_first {
            since_ns = repeat_ns;
        }
        let Some(at) = third.or(nothing_waited) else {
            continue;
        };
        if rtt_ns(at) >= round_trip_ns - RELEASE_NS {
            found.push((at, rtt_ns(at)));
            usual_ns = rtt_ns(at);
        }
    }
    found
}

/// True if an acknowledgment has arrived just now.
fn is_new_echo(echoes: &[Echo], now_ns: i64) -> bool {
    let passed = echoes.partition_point(|echo| echo.passed_ns <= now_ns);
    let newest = passed.checked_sub(1).map(|last| echoes[last].passed_ns);
    newest.is_some_and(|ns| now_ns.saturating_sub(ns) <= RELEASE_NS)
}
