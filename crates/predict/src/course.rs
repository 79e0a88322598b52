//! The course of one run: its data packets and acknowledgments, in order of time.

use serde::Serialize;
use whydrop_hosts::{Range, SackBlocks, Toward, join};
use whydrop_network::{Packet, PacketFate};
use whydrop_path::SpecError;

use crate::run::simulate;
use crate::setting::Setting;

/// One run, as columns. Times are after its beginning.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Course {
    pub packets: Packets,
    pub acknowledgments: Acknowledgments,
}

/// Data packets in the order in which they were sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Packets {
    pub flow: Vec<usize>,
    pub time_ns: Vec<i64>,
    pub ip_bytes: Vec<u32>,
    /// Sent, and neither acknowledged nor selectively acknowledged, with this packet.
    pub in_flight_bytes: Vec<u64>,
    /// Time in the path; `None` of a packet that was dropped.
    pub transit_ns: Vec<Option<i64>>,
}

/// Acknowledgments of new data, as they reached the sender.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Acknowledgments {
    pub flow: Vec<usize>,
    pub time_ns: Vec<i64>,
    /// Payload bytes that were acknowledged since the beginning.
    pub acknowledged_bytes: Vec<u64>,
}

/// A packet that a sender sent or heard, before these are in order.
struct Event {
    time_ns: i64,
    flow: usize,
    what: What,
}

enum What {
    Acknowledged {
        bytes: u64,
        selectively: SackBlocks,
    },
    Sent {
        end_bytes: u64,
        ip_bytes: u32,
        transit_ns: Option<i64>,
    },
}

/// Simulates a setting once.
///
/// # Errors
/// The path makes no sense: which element and field.
pub fn course(setting: &Setting, seed: u64) -> Result<Course, SpecError> {
    setting.path.build(0)?;
    let mut events = Vec::new();
    simulate(setting, seed, &mut |packet, passed| {
        events.extend(event(packet, passed, setting.duration_ns));
    });
    events.sort_by_key(|event| event.time_ns);
    Ok(in_columns(&events, setting.flows.len()))
}

fn event(packet: &Packet, passed: [Option<i64>; 2], duration_ns: i64) -> Option<Event> {
    let segment = packet.segment?;
    let flow = segment.flow;
    // The SYN counts as one byte.
    match (segment.toward, packet.fate) {
        (Toward::Client, _) if segment.payload_bytes == 0 || packet.sent_ns > duration_ns => None,
        (Toward::Client, _) => Some(Event {
            time_ns: packet.sent_ns,
            flow,
            what: What::Sent {
                end_bytes: segment.end().saturating_sub(1),
                ip_bytes: packet.ip_bytes,
                transit_ns: passed[1].zip(passed[0]).map(|(left, came)| left - came),
            },
        }),
        (Toward::Server, PacketFate::Delivered { time_ns }) => Some(Event {
            time_ns,
            flow,
            what: What::Acknowledged {
                bytes: segment.acknowledgment.saturating_sub(1),
                selectively: segment.sack,
            },
        }),
        _ => None,
    }
}

/// The data of one connection that its sender knows to be outstanding.
#[derive(Debug, Clone, Default)]
struct Flight {
    sent: u64,
    acknowledged: u64,
    /// Selectively acknowledged beyond `acknowledged`; no two of them touch.
    selectively: Vec<Range>,
    selectively_bytes: u64,
}

impl Flight {
    /// Returns whether new data are acknowledged.
    fn acknowledge(&mut self, bytes: u64, blocks: SackBlocks) -> bool {
        // Data of the time after the senders' end are acknowledged too.
        let is_new = bytes.min(self.sent) > self.acknowledged;
        self.acknowledged = self.acknowledged.max(bytes.min(self.sent));
        for &(start, end) in blocks.as_slice() {
            self.add((
                start.saturating_sub(1),
                end.saturating_sub(1).min(self.sent),
            ));
        }
        self.selectively.retain(|range| range.1 > self.acknowledged);
        let beyond = |range: &Range| range.1 - range.0.max(self.acknowledged);
        self.selectively_bytes = self.selectively.iter().map(beyond).sum();
        is_new
    }

    fn add(&mut self, range: Range) {
        if range.0 < range.1 {
            let joined = join(&mut self.selectively, range);
            self.selectively.push(joined);
        }
    }

    fn bytes(&self) -> u64 {
        self.sent - self.acknowledged - self.selectively_bytes
    }
}

fn in_columns(events: &[Event], flows: usize) -> Course {
    let mut course = Course::default();
    let mut flights = vec![Flight::default(); flows];
    for event in events {
        let flow = event.flow;
        let flight = &mut flights[flow];
        match event.what {
            What::Acknowledged { bytes, selectively } => {
                if flight.acknowledge(bytes, selectively) {
                    (course.acknowledgments).push(flow, event.time_ns, flight.acknowledged);
                }
            }
            What::Sent {
                end_bytes,
                ip_bytes,
                transit_ns,
            } => {
                flight.sent = flight.sent.max(end_bytes);
                let packets = &mut course.packets;
                packets.flow.push(flow);
                packets.time_ns.push(event.time_ns);
                packets.ip_bytes.push(ip_bytes);
                packets.in_flight_bytes.push(flight.bytes());
                packets.transit_ns.push(transit_ns);
            }
        }
    }
    course
}

impl Acknowledgments {
    fn push(&mut self, flow: usize, time_ns: i64, bytes: u64) {
        self.flow.push(flow);
        self.time_ns.push(time_ns);
        self.acknowledged_bytes.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;

    #[test]
    fn selectively_acknowledged_data_are_not_in_flight() {
        let mut flight = Flight {
            sent: 1_000,
            ..Flight::default()
        };
        let blocks = |ranges: &[Range]| {
            let mut blocks = SackBlocks::default();
            ranges.iter().for_each(|&range| blocks.push(range));
            blocks
        };
        // Sequence numbers begin at 1.
        assert!(flight.acknowledge(100, blocks(&[(301, 401), (501, 601)])));
        assert_eq!(flight.bytes(), 700);
        assert!(!flight.acknowledge(100, blocks(&[(401, 501)])));
        assert_eq!(flight.bytes(), 600);
        assert!(flight.acknowledge(400, blocks(&[])));
        assert_eq!(flight.bytes(), 400);
        // A duplicate block is below what is acknowledged.
        assert!(!flight.acknowledge(400, blocks(&[(1, 101)])));
        assert_eq!(flight.bytes(), 400);
    }

    #[test]
    fn the_course_has_the_packets_and_the_goodput_of_the_run() {
        let path = "fifo:rate=8M,limit=20packets".parse().unwrap();
        let setting = Setting {
            duration_ns: 3_000_000_000,
            ..Setting::one_flow(path, 40_000_000)
        };
        let course = course(&setting, 3).unwrap();
        let outcome = &run(&setting, &[3]).unwrap()[0];
        let packets = &course.packets;
        let lost = packets
            .transit_ns
            .iter()
            .filter(|one| one.is_none())
            .count();
        assert_eq!(lost as u64, outcome.flows[0].lost);
        assert_eq!(packets.time_ns.len() as u64, outcome.flows[0].packets);
        assert!(packets.time_ns.is_sorted());
        // A queue of 20 packets and a round trip of 27 are the most that is not lost; slow start sends twice as much.
        let most = packets.in_flight_bytes.iter().max().unwrap();
        assert!((47 * 1448..=2 * 48 * 1448).contains(most), "{most}");
        let acknowledged = course.acknowledgments.acknowledged_bytes.last().unwrap();
        let seconds =
            (course.acknowledgments.time_ns.last().unwrap() - packets.time_ns[0]) as f64 / 1e9;
        let goodput_bps = *acknowledged as f64 * 8.0 / seconds;
        assert!(
            (goodput_bps / outcome.goodput_bps - 1.0).abs() < 0.01,
            "{goodput_bps}"
        );
    }
}
