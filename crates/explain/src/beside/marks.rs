//! Datagrams with congestion marks (RFC 3168), set by queue management on the path.
//!
//! If every packet of a flow has the mark, a queue need not have set it: the sender, or a device that
//! rewrites the whole byte, may have.

use whydrop_datagrams::{Datagrams, Flow};
use whydrop_verdict::{Cause, fact};

use super::MOST_NAMED;
use crate::conditions::Condition;

/// Find the marked flows.
pub(super) fn find(datagrams: &Datagrams) -> Option<Condition> {
    let marked: Vec<&Flow> = marked(datagrams).collect();
    let sum = |count: fn(&Flow) -> u64| marked.iter().map(|flow| count(flow)).sum::<u64>();
    let (marks, packets) = (sum(|flow| flow.ce_marked), sum(|flow| flow.packets));
    let names = marked.iter().take(MOST_NAMED).map(|flow| flow.name());
    let mut condition = Condition::new(Cause::Aqm, names.collect());
    condition.facts = vec![
        fact!("marked-by-aqm", marked = marks, packets = packets),
        fact!("datagrams-marked", marked = marks, packets = packets),
        fact!("path", ecn_in_use = true),
    ];
    (!marked.is_empty()).then_some(condition)
}

/// Flows that a queue marked.
pub(crate) fn marked(datagrams: &Datagrams) -> impl Iterator<Item = &Flow> {
    let by_queue = |flow: &&Flow| flow.ce_marked > 0 && flow.ect0 + flow.ect1 > 0;
    datagrams.flows.iter().filter(by_queue)
}
