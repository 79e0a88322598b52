//! Hand-written flows, for the tests of single modules.

use std::net::{IpAddr, Ipv4Addr};

use whydrop_path::fit::{Interval, Seen, Trace, TracePacket};
use whydrop_path::{Arrival, Outcome, Policer, replay};
use whydrop_tcp::{Endpoint, Fate, Flow, Kind, LimitedTime, Segment, SegmentFlags, Transfer};

use crate::observe::group::{FlowRef, Group};

pub const MS: i64 = 1_000_000;
/// Payload and headers of a full packet: 1500 bytes.
pub const PAYLOAD_BYTES: u32 = 1_448;
const HEADER_BYTES: u16 = 52;

/// A full packet that was sent for the first time and arrived; its acknowledgment came after `rtt_ms`.
pub fn delivered(time_ns: i64, rtt_ms: i64) -> Segment {
    let mut flags = SegmentFlags::default();
    flags.set(SegmentFlags::RTT_EXACT);
    Segment {
        time_ns,
        sequence: 0,
        rtt_ns: rtt_ms * MS,
        in_flight_bytes: 0,
        payload_bytes: PAYLOAD_BYTES,
        header_bytes: HEADER_BYTES,
        kind: Kind::New,
        fate: Fate::Delivered,
        flags,
    }
}

pub fn lost(time_ns: i64) -> Segment {
    Segment {
        rtt_ns: -1,
        fate: Fate::Lost,
        flags: SegmentFlags::default(),
        ..delivered(time_ns, 0)
    }
}

/// A flow of one transfer to `192.0.2.host`, with the counters of its segments.
pub fn flow(host: u8, segments: Vec<Segment>) -> Flow {
    let (first_ns, last_ns) = segments
        .first()
        .zip(segments.last())
        .map_or((0, 0), |(first, last)| (first.time_ns, last.time_ns));
    let payload = u64::from(PAYLOAD_BYTES) * segments.len() as u64;
    let mut flow = Flow {
        source: Endpoint {
            address: IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
            port: 443,
        },
        destination: Endpoint {
            address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)),
            port: 50_000,
        },
        transfers: vec![Transfer {
            first: 0,
            end: segments.len(),
            start_ns: first_ns,
            end_ns: last_ns,
            payload_bytes: payload,
        }],
        limited: LimitedTime {
            busy_ns: last_ns - first_ns,
            ..LimitedTime::default()
        },
        first_ns,
        last_ns,
        ..Flow::default()
    };
    flow.counters.packets = segments.len() as u64;
    flow.counters.payload_bytes = payload;
    flow.counters.lost = segments.iter().filter(|segment| segment.is_lost()).count() as u64;
    flow.segments = segments;
    flow
}

/// One group of all flows, whatever their destinations.
pub fn group(flows: &[Flow]) -> Group<'_> {
    Group {
        flows: flows
            .iter()
            .enumerate()
            .map(|(index, flow)| FlowRef { index, flow })
            .collect(),
    }
}

/// An interval with both ends.
pub fn interval(low: f64, value: f64, high: f64) -> Interval {
    Interval {
        value,
        low: Some(low),
        high: Some(high),
    }
}

/// Bursts of 50 full packets through a policer of 20 Mbit/s and 30 kB.
pub fn policed_bursts() -> Trace {
    let arrivals: Vec<Arrival> = (0..2_000i64)
        .map(|packet| Arrival {
            time_ns: packet / 50 * 20_000_000 + packet * 12_000,
            bytes: 1_500,
        })
        .collect();
    let outcomes = replay(&mut Policer::new(20_000_000, 30_000), &arrivals);
    let observation = |(arrival, outcome): (&Arrival, Outcome)| TracePacket {
        time_ns: arrival.time_ns,
        bytes: arrival.bytes,
        outcome: match outcome.is_dropped() {
            true => Seen::Lost,
            false => Seen::Passed,
        },
        delay_s: None,
    };
    Trace::new(arrivals.iter().zip(outcomes).map(observation).collect())
}
