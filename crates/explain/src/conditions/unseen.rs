//! Transfers of which only the acknowledgments were captured: a fact about the record, without a verdict on
//! the path.

use whydrop_tcp::UnseenData;
use whydrop_verdict::{Cause, fact};

use super::{Condition, seconds};

pub(super) fn find(unseen: &UnseenData) -> Option<Condition> {
    let named = unseen.named.iter();
    let names = named.map(|(source, destination)| format!("{source} > {destination}"));
    let mut condition = Condition::new(Cause::CaptureLoss, names.collect());
    condition.detail = Some("one-direction");
    condition.limited_s = seconds(unseen.lasted_ns);
    condition.facts = vec![fact!(
        "direction-not-captured",
        connections = unseen.flows,
        acknowledged_bytes = unseen.bytes
    )];
    (unseen.flows > 0).then_some(condition)
}
