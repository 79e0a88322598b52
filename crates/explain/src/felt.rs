//! Waits of a capture whose flows show no cause: a verdict that nothing was lost must not say that nobody waited.

use whydrop_tcp::{Connection, SegmentFlags, Tracked};
use whydrop_verdict::Fact;

use crate::ranked::Ranked;
use crate::requests::FELT_NS;
use crate::seconds::seconds;

/// No packet lives for more than two minutes (RFC 9293, section 3.4.2), so no round trip takes more than twice that: beyond it is a
/// clock that was set.
const LONGEST_TRIP_NS: i64 = 240_000_000_000;

/// Tells each verdict that nothing was lost about the longest round trip, where it is felt, and whether others of the capture waited.
pub(crate) fn tell(tracked: &Tracked, verdicts: &mut [Ranked]) {
    let felt_s = seconds(FELT_NS);
    let others_waited = verdicts.iter().any(|other| other.harm_s >= felt_s);
    let trips = tracked.connections.iter().filter_map(longest_trip_ns);
    let longest_s = trips.max().map_or(0.0, seconds);
    for ranked in verdicts
        .iter_mut()
        .filter(|ranked| ranked.verdict.cause == "none")
    {
        let headline = ranked
            .verdict
            .facts
            .iter_mut()
            .find(|fact| fact.code == "nothing-lost");
        let Some(headline) = headline else { continue };
        let mut told = std::mem::replace(headline, Fact::new("nothing-lost"));
        if longest_s >= felt_s {
            told = told.with("longest_trip_s", longest_s);
        }
        *headline = told.with("others_waited", others_waited);
    }
}

/// The longest round trip of a connection: of its handshake, or of data and the acknowledgment that it caused.
fn longest_trip_ns(connection: &Connection) -> Option<i64> {
    let handshake = &connection.handshake;
    let of_syn = handshake.syn_ns.zip(handshake.syn_ack_ns);
    let of_syn = of_syn.map(|(syn_ns, answer_ns)| answer_ns.saturating_sub(syn_ns));
    let segments = connection.flows.iter().flat_map(|flow| &flow.segments);
    let exact = segments.filter(|segment| segment.flags.has(SegmentFlags::RTT_EXACT));
    let is_possible = |trip_ns: &i64| *trip_ns <= LONGEST_TRIP_NS;
    let trips_ns = exact.map(|segment| segment.rtt_ns);
    let of_data = trips_ns.filter(is_possible).max();
    of_syn.filter(is_possible).max(of_data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, delivered, flow};

    fn trip_ms(connection: &Connection) -> Option<i64> {
        longest_trip_ns(connection).map(|ns| ns / MS)
    }

    #[test]
    fn the_longest_round_trip_is_that_of_the_handshake_or_of_data() {
        let mut connection = Connection::default();
        assert_eq!(trip_ms(&connection), None);
        connection.handshake.syn_ns = Some(MS);
        connection.handshake.syn_ack_ns = Some(880 * MS);
        assert_eq!(trip_ms(&connection), Some(879));
        connection.flows[0] = flow(1, vec![delivered(900 * MS, 1_160)]);
        assert_eq!(trip_ms(&connection), Some(1_160));
        connection.flows[0] = flow(1, vec![delivered(900 * MS, 1_160), delivered(0, 241_000)]);
        assert_eq!(trip_ms(&connection), Some(1_160));
    }
}
