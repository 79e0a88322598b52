//! Long delays in a capture with flows that show no cause: "nothing was lost" must not claim that there was
//! no delay.

use whydrop_tcp::{Connection, SegmentFlags, Tracked};
use whydrop_verdict::{Cause, Fact};

use crate::ranked::Ranked;
use crate::requests::NOTICEABLE_NS;
use crate::seconds::seconds;

/// No packet lives longer than two minutes (RFC 9293, section 3.4.2), so no round trip takes more than twice
/// that: a longer one means that a clock was set.
const LONGEST_TRIP_NS: i64 = 240_000_000_000;

/// Adds to each verdict that nothing was lost the longest round trip, if it is noticeable, and whether other
/// connections of the capture were delayed.
pub(crate) fn add(tracked: &Tracked, verdicts: &mut [Ranked]) {
    let noticeable_s = seconds(NOTICEABLE_NS);
    let others_waited = verdicts.iter().any(|other| other.harm_s >= noticeable_s);
    let trips = tracked.connections.iter().filter_map(longest_trip_ns);
    let longest_s = trips.max().map_or(0.0, seconds);
    for ranked in verdicts
        .iter_mut()
        .filter(|ranked| ranked.verdict.cause == Cause::None)
    {
        let headline = ranked
            .verdict
            .facts
            .iter_mut()
            .find(|fact| fact.code == "nothing-lost");
        let Some(headline) = headline else { continue };
        let mut fact = std::mem::replace(headline, Fact::new("nothing-lost"));
        if longest_s >= noticeable_s {
            fact = fact.with("longest_trip_s", longest_s);
        }
        *headline = fact.with("others_waited", others_waited);
    }
}

/// The longest round trip of a connection: of its handshake, or from data to the acknowledgment that it
/// caused.
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
