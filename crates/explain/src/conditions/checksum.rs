//! Segments that were damaged on the way: their checksum is wrong, and the receiver dropped them.
//!
//! Only where a capture near the receiver holds segments that never arrived is it read again, and every byte looked at. Interfaces that
//! compute checksums, or join segments, leave wrong ones in captures of what the hosts took: so it is silent
//! unless just the lost segments of a flow are wrong, in captures of whole packets.

use std::collections::HashMap;

use whydrop_capture::{Capture, Checksum, Packet, Transport};
use whydrop_tcp::{Endpoint, Flow, SegmentFlags, Tracked, Vantage};
use whydrop_verdict::{Cause, Fact, fact};

use super::Condition;
use crate::group::Group;

/// Sound segments that show that checksums are computed before the capture.
const MANY: u64 = 10;
/// Numbers of damaged packets in a fact at most.
const MOST_NUMBERS: usize = 16;

/// The checksums of a flow's segments.
#[derive(Default)]
struct Looked {
    right: u64,
    /// Of segments that were lost, by number.
    wrong_lost: Vec<u64>,
    wrong_delivered: u64,
}

/// Looks for damage among the losses, and notes it with the flows.
pub(crate) fn look(capture: &Capture, tracked: &mut Tracked) {
    let flows = tracked
        .connections
        .iter_mut()
        .flat_map(|connection| &mut connection.flows);
    let mut flows: HashMap<(Endpoint, Endpoint), (&mut Flow, Looked)> = flows
        .filter(|flow| is_worth_a_look(flow))
        .map(|flow| ((flow.source, flow.destination), (flow, Looked::default())))
        .collect();
    // what was a stream cannot be read again
    let again = || capture.again();
    let Some(mut capture) = (!flows.is_empty()).then(again).flatten() else {
        return;
    };
    while let Some((packet, checksum)) = capture.next_checked() {
        if let Some((flow, looked)) = ends(&packet).and_then(|ends| flows.get_mut(&ends)) {
            match checksum {
                Checksum::Right => looked.right += 1,
                Checksum::Wrong if is_lost(flow, packet.time_ns) => {
                    looked.wrong_lost.push(packet.index + 1);
                }
                Checksum::Wrong => looked.wrong_delivered += 1,
                Checksum::Unknown => {}
            }
        }
    }
    for (flow, looked) in flows.into_values() {
        if looked.wrong_delivered == 0 && looked.right >= MANY && !looked.wrong_lost.is_empty() {
            flow.signs_mut().damaged = looked.wrong_lost;
        }
    }
}

/// Segments that were seen near the receiver, and that it did not get.
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

/// True if a segment of this time was lost.
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
