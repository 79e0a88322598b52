//! Packets too large for the path.
//!
//! A router that cannot forward a packet reports this, with the MTU of the next link (RFC 1191, RFC 8201):
//! [`reported`]. If its message is filtered or never sent, all packets above a size are lost permanently
//! while smaller ones pass: a black hole (RFC 2923, section 2.1; RFC 4821), seen from the sender's side in
//! [`vanished`] and from the receiver's in [`missing`].

mod missing;
mod reported;
mod vanished;

use whydrop_tcp::Segment;
use whydrop_verdict::{Cause, Quantity};

use super::{Condition, seconds};
use crate::observe::group::{FlowRef, Group};

/// Packets that were too large, and their flows, by number in the document.
#[derive(Debug, Default)]
pub(super) struct TooLarge {
    pub conditions: Vec<Condition>,
    pub flows: Vec<usize>,
    /// Flows with data missing at the end for any reason, with the cause given for each.
    pub missing: Vec<(usize, Cause, f64)>,
}

impl TooLarge {
    pub fn has(&self, flow: &FlowRef) -> bool {
        self.flows.contains(&flow.index)
    }

    /// Conditions of one detail are merged.
    fn add(&mut self, flows: impl IntoIterator<Item = usize>, one: Condition) {
        self.flows.extend(flows);
        let alike = |known: &&mut Condition| known.detail == one.detail && known.cause == one.cause;
        match self.conditions.iter_mut().find(alike) {
            None => self.conditions.push(one),
            Some(all) => {
                all.flows.extend(one.flows);
                all.lost += one.lost;
                all.limited_s += one.limited_s;
                all.confidence = all.confidence.max(one.confidence);
            }
        }
    }
}

/// Find packets of a group that were too large, and the limit.
pub(super) fn find(group: &Group) -> TooLarge {
    let mut found = TooLarge::default();
    let (reported, unreported): (Vec<FlowRef>, Vec<FlowRef>) =
        (group.flows.iter()).partition(|flow| reported::notice(flow.flow).is_some());
    for flow in &reported {
        found.add([flow.index], reported::condition(flow.flow));
    }
    if let Some((flows, one)) = vanished::find(&unreported) {
        found.add(flows, one);
    }
    for (flow, one) in missing::find(&unreported) {
        found.missing.push((flow, one.cause(), one.confidence));
        let too_large = Some(flow).filter(|_| one.cause == Some(Cause::Mtu));
        found.add(too_large, one);
    }
    found
}

/// The size of the largest packet that passes, from the largest that did and the smallest that did not.
fn between(largest_passed_bytes: u32, smallest_failed_bytes: u32) -> Quantity {
    Quantity {
        value: f64::from(largest_passed_bytes),
        low: Some(f64::from(largest_passed_bytes)),
        high: Some(f64::from(smallest_failed_bytes.saturating_sub(1))),
    }
}

fn condition(detail: &'static str, flows: Vec<String>) -> Condition {
    let mut condition = Condition::new(Cause::Mtu, flows);
    condition.detail = Some(detail);
    condition
}

fn span<'a>(segments: impl Iterator<Item = &'a Segment>) -> (i64, i64) {
    segments.fold((i64::MAX, i64::MIN), |(first, last), segment| {
        (first.min(segment.time_ns), last.max(segment.time_ns))
    })
}

fn seconds_of((first_ns, last_ns): (i64, i64)) -> f64 {
    seconds(last_ns.saturating_sub(first_ns))
}

#[cfg(test)]
mod tests;
