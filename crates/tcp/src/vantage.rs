//! Where on the path the capture was taken.

use crate::flow::{Flow, Handshake, SegmentFlags, Vantage};

/// A point is at an end if the round trip to that end is less than this share of the whole one ...
const END_SHARE: f64 = 0.05;
/// ... or less than this: within one host or one switched segment.
const END_NS: i64 = 500_000;
/// Initial hop limits of the systems in use.
const INITIAL_TTLS: [u8; 4] = [32, 64, 128, 255];

/// Round-trip times from the capture point to both ends, from the three-way handshake: (to the initiator, to the
/// responder). For a retransmitted SYN/ACK, the first one counts for the responder, and the last one, which completes
/// the handshake, for the initiator.
pub(crate) fn near_rtts(handshake: &Handshake, first_syn_ack_ns: i64) -> Option<(i64, i64)> {
    let (syn, syn_ack, ack) = (handshake.syn_ns?, handshake.syn_ack_ns?, handshake.ack_ns?);
    (syn <= first_syn_ack_ns && syn_ack <= ack).then_some((ack - syn_ack, first_syn_ack_ns - syn))
}

/// The least of fewer round trips may be too large.
const FEWEST_ROUND_TRIPS: usize = 10;

/// The same for captures that begin later, from acknowledgments: the round trip to an end is at most the delay of its
/// acknowledgments, or of its answers, to the other end's data. If hop limits show at which end the capture was taken,
/// that end is near; otherwise, a receiver of data that acknowledges at once is.
pub(crate) fn near_rtts_by_requests(
    flows: &[Flow; 2],
    ttls: [Option<u8>; 2],
) -> Option<(i64, i64)> {
    let [(first, first_ns), (second, second_ns)] =
        [least_rtt_ns(&flows[0]), least_rtt_ns(&flows[1])];
    let here_ns = |answers_ns: Option<i64>| answers_ns.unwrap_or(0).min(END_NS - 1);
    let at_once = |count: usize, ns: Option<i64>| {
        count >= FEWEST_ROUND_TRIPS && ns.is_some_and(|ns| ns < END_NS)
    };
    match by_ttl(ttls[0], ttls[1]) {
        Vantage::Sender => Some((here_ns(second_ns), first_ns?)),
        Vantage::Receiver => Some((second_ns?, here_ns(first_ns))),
        Vantage::Middle => Some((second_ns?, first_ns?)),
        Vantage::Unknown if at_once(second, second_ns) && second >= first => {
            Some((second_ns?, first_ns?))
        }
        Vantage::Unknown if at_once(first, first_ns) => Some((second_ns?, first_ns?)),
        Vantage::Unknown => None,
    }
}

/// The number of known round trips of a flow, and the least of them.
fn least_rtt_ns(flow: &Flow) -> (usize, Option<i64>) {
    let exact = (flow.segments.iter()).filter(|s| s.flags.has(SegmentFlags::RTT_EXACT));
    let measured = exact.map(|s| s.rtt_ns).filter(|ns| *ns >= 0);
    measured.fold((0, None), |(count, least): (usize, Option<i64>), ns| {
        (count + 1, Some(least.map_or(ns, |least| least.min(ns))))
    })
}

/// The vantage for a flow, from the round-trip times in nanoseconds to its sender (`near_ns`) and its receiver
/// (`far_ns`).
fn by_distance(near_ns: i64, far_ns: i64) -> Vantage {
    let end = |distance: i64| {
        distance < END_NS || (distance as f64) < END_SHARE * (near_ns + far_ns) as f64
    };
    match (end(near_ns), end(far_ns)) {
        (true, false) => Vantage::Sender,
        (false, true) => Vantage::Receiver,
        (false, false) => Vantage::Middle,
        // both ends are close: a loopback or a lab without delay
        (true, true) if near_ns <= far_ns => Vantage::Sender,
        (true, true) => Vantage::Receiver,
    }
}

/// A source is not here if its packets passed a router; its receiver may be, if none of its packets was captured.
fn by_ttl(source_ttl: Option<u8>, destination_ttl: Option<u8>) -> Vantage {
    let fresh = |ttl: Option<u8>| ttl.is_some_and(|ttl| INITIAL_TTLS.contains(&ttl));
    match (fresh(source_ttl), fresh(destination_ttl)) {
        (true, false) => Vantage::Sender,
        (false, true) => Vantage::Receiver,
        (false, false) if source_ttl.is_some() => Vantage::Middle,
        _ => Vantage::Unknown,
    }
}

/// The vantage for the flow of the initiator (`0`) or the responder (`1`). `ttls` are the hop limits in packets from
/// the initiator and the responder. Round trips decide, those of the handshake first; without them, hop counts do.
pub(crate) fn vantage(
    near_rtts_ns: Option<(i64, i64)>,
    ttls: [Option<u8>; 2],
    direction: usize,
) -> Vantage {
    match near_rtts_ns {
        Some((initiator, responder)) if direction == 0 => by_distance(initiator, responder),
        Some((initiator, responder)) => by_distance(responder, initiator),
        None => by_ttl(ttls[direction], ttls[1 - direction]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Fate, Kind, Segment};

    const MS: i64 = 1_000_000;

    #[test]
    fn a_server_that_answers_at_once_is_where_the_capture_is() {
        let at_server = Some((100 * MS, 0));
        assert_eq!(vantage(at_server, [None; 2], 1), Vantage::Sender);
        assert_eq!(vantage(at_server, [None; 2], 0), Vantage::Receiver);
    }

    #[test]
    fn an_answer_that_is_repeated_counts_from_the_first_to_one_end_and_from_the_last_to_the_other()
    {
        let repeated = Handshake {
            syn_ns: Some(0),
            syn_ack_ns: Some(1000 * MS),
            ack_ns: Some(1020 * MS),
        };
        assert_eq!(near_rtts(&repeated, MS), Some((20 * MS, MS)));
    }

    /// A flow of `count` packets, each acknowledged after this time.
    fn acknowledged_after(count: usize, rtt_ns: i64) -> Flow {
        let mut flags = SegmentFlags::default();
        flags.set(SegmentFlags::RTT_EXACT);
        let segment = Segment {
            time_ns: 0,
            sequence: 0,
            rtt_ns,
            in_flight_bytes: 0,
            payload_bytes: 1000,
            header_bytes: 40,
            kind: Kind::New,
            fate: Fate::Delivered,
            flags,
        };
        Flow {
            segments: vec![segment; count],
            ..Flow::default()
        }
    }

    #[test]
    fn a_client_that_acknowledges_at_once_is_here_and_its_server_is_as_far_as_its_answers() {
        let flows = [
            acknowledged_after(1, 60 * MS),
            acknowledged_after(20, 8_000),
        ];
        let by_requests = near_rtts_by_requests(&flows, [None; 2]);
        assert_eq!(by_requests, Some((8_000, 60 * MS)));
    }

    #[test]
    fn a_server_that_thinks_before_it_answers_is_not_taken_for_far() {
        let flows = [
            acknowledged_after(1, 500 * MS),
            acknowledged_after(20, 30 * MS),
        ];
        assert_eq!(near_rtts_by_requests(&flows, [None; 2]), None);
        let at_server = [Some(57), Some(64)];
        let by_requests = near_rtts_by_requests(&flows, at_server);
        assert_eq!(vantage(by_requests, at_server, 1), Vantage::Sender);
    }

    #[test]
    fn ten_milliseconds_to_either_end_is_the_middle() {
        assert_eq!(
            vantage(Some((10 * MS, 10 * MS)), [None; 2], 0),
            Vantage::Middle
        );
    }

    #[test]
    fn without_a_handshake_an_undiminished_hop_limit_marks_the_end() {
        assert_eq!(vantage(None, [Some(64), Some(53)], 0), Vantage::Sender);
        assert_eq!(vantage(None, [Some(64), Some(53)], 1), Vantage::Receiver);
        assert_eq!(vantage(None, [Some(61), Some(53)], 1), Vantage::Middle);
        assert_eq!(vantage(None, [Some(64), None], 0), Vantage::Sender);
        assert_eq!(vantage(None, [Some(53), None], 0), Vantage::Middle);
        assert_eq!(vantage(None, [None, None], 0), Vantage::Unknown);
    }
}
