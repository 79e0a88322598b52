//! Segments that were damaged in transit: their checksum is wrong, and the receiver dropped them.
//!
//! The capture is read again, byte by byte, only if it was taken near the receiver and holds segments that
//! never arrived. Interfaces that compute checksums, or join segments, leave wrong ones in captures of
//! packets that the hosts accepted. So a verdict needs captures of whole packets in which exactly the lost
//! segments of a flow have wrong checksums.

use std::collections::HashMap;

use whydrop_capture::{Capture, Checksum, Packet, Transport};
use whydrop_tcp::{Endpoint, Flow, SegmentFlags, Tracked, Vantage};
use whydrop_verdict::{Cause, Fact, fact};

use super::Condition;
use crate::observe::group::Group;

/// Correct segments that show that checksums are computed before the capture.
const MANY: u64 = 10;
/// Most packet numbers in a fact.
const MOST_NUMBERS: usize = 16;

/// The checksums of a flow's segments.
#[derive(Default)]
struct Checked {
    right: u64,
    /// Lost segments with a wrong checksum, by number.
    wrong_lost: Vec<u64>,
    wrong_delivered: u64,
}

/// Looks for damage among the losses, and stores it with the flows.
pub(crate) fn look(capture: &Capture, tracked: &mut Tracked) {
    let flows = tracked
        .connections
        .iter_mut()
        .flat_map(|connection| &mut connection.flows);
    let mut flows: HashMap<(Endpoint, Endpoint), (&mut Flow, Checked)> = flows
        .filter(|flow| is_worth_a_look(flow))
        .map(|flow| ((flow.source, flow.destination), (flow, Checked::default())))
        .collect();
    // a stream cannot be read again
    let again = || capture.again();
    let Some(mut capture) = (!flows.is_empty()).then(again).flatten() else {
        return;
    };
    while let Some((packet, checksum)) = capture.next_checked() {
        if let Some((flow, checked)) = ends(&packet).and_then(|ends| flows.get_mut(&ends)) {
            match checksum {
                Checksum::Right => checked.right += 1,
                Checksum::Wrong if is_lost(flow, packet.time_ns) => {
                    checked.wrong_lost.push(packet.index + 1);
                }
                Checksum::Wrong => checked.wrong_delivered += 1,
                Checksum::Unknown => {}
            }
        }
    }
    for (flow, checked) in flows.into_values() {
        if checked.wrong_delivered == 0 && checked.right >= MANY && !checked.wrong_lost.is_empty() {
            flow.signs_mut().damaged = checked.wrong_lost;
        }
    }
}

/// Segments that were captured near the receiver but did not reach it.
fn is_worth_a_look(flow: &Flow) -> bool {
    let is_seen = |flags: SegmentFlags| !flags.has(SegmentFlags::INFERRED);
    let vanished = || {
        flow.segments
            .iter()
            .any(|s| s.is_lost() && is_seen(s.flags))
    };
    flow.vantage == Vantage::Receiver && vanished()
}

fn ends(packet: &Packet) -> Option<(Endpoint, Endpoint)> {
    let (Some(network), Transport::Tcp(tcp)) = (&packet.network, &packet.transport) else {
        return None;
    };
    let end = |address, port| Endpoint { address, port };
    let source = end(network.source, tcp.source_port);
    let destination = end(network.destination, tcp.destination_port);
    (tcp.payload_bytes > 0).then_some((source, destination))
}

/// True if a segment with this timestamp was lost.
fn is_lost(flow: &Flow, time_ns: i64) -> bool {
    let first = flow
        .segments
        .partition_point(|segment| segment.time_ns < time_ns);
    let mut alike = flow.segments[first..]
        .iter()
        .take_while(|s| s.time_ns == time_ns);
    alike.any(|segment| segment.is_lost())
}

/// Damage among the losses of a group.
pub(super) fn find(group: &Group) -> Option<Condition> {
    let flows = group.flows.iter().map(|flow| flow.flow);
    let damaged: Vec<&Flow> = flows.filter(|flow| !damaged(flow).is_empty()).collect();
    let names = damaged.iter().map(|flow| flow.name()).collect();
    let mut condition = Condition::new(Cause::Checksum, names);
    let packets = || damaged.iter().flat_map(|flow| self::damaged(flow));
    condition.lost = packets().count() as u64;
    condition.facts = vec![Fact {
        packets: packets().copied().take(MOST_NUMBERS).collect(),
        ..fact!("damaged", damaged = condition.lost)
    }];
    (!damaged.is_empty()).then_some(condition)
}

fn damaged(flow: &Flow) -> &[u64] {
    flow.signs.as_ref().map_or(&[], |signs| &signs.damaged)
}
