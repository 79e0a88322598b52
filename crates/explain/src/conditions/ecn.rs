//! Explicit congestion notification that does not work: refused, blocked, bleached, or never echoed (RFC 3168, RFC 9768).
//!
//! No verdict if the handshake was not captured; none on bleaching if the capture was taken at the sender,
//! which set the fields itself.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use whydrop_tcp::{Ecn, Flow, Kind, Tracked, Vantage};
use whydrop_verdict::{Cause, Fact, Value, fact};

use super::{Condition, seconds};
use crate::observe::group::Group;

/// Marks that a receiver must have reported; SYNs that are not lost by chance.
const SEVERAL: u64 = 3;
/// New data packets, none of which is ECN-capable although ECN was negotiated.
const MANY: u64 = 20;

/// Flows with marks that were never echoed, and flows of packets that lost their ECN capability.
pub(super) fn of_group(group: &Group) -> Option<Condition> {
    let flows = || group.flows.iter().map(|flow| flow.flow);
    let silent: Vec<&Flow> = flows().filter(|flow| is_not_echoed(flow)).collect();
    if !silent.is_empty() {
        let marked: u64 = silent.iter().map(|flow| flow.counters.ce_marked).sum();
        let facts = vec![fact!("marks-not-echoed", marked = marked)];
        return Some(found(&silent, "not-echoed", facts));
    }
    let bleached: Vec<&Flow> = flows().filter(|flow| is_bleached(flow)).collect();
    let packets: u64 = bleached.iter().map(|flow| new_packets(flow)).sum();
    let facts = vec![fact!("ecn-bleached", data_packets = packets)];
    (!bleached.is_empty()).then(|| found(&bleached, "bleached", facts))
}

fn found(flows: &[&Flow], detail: &'static str, facts: Vec<Fact>) -> Condition {
    let mut condition = Condition::new(Cause::Ecn, flows.iter().map(|flow| flow.name()).collect());
    (condition.detail, condition.facts) = (Some(detail), facts);
    condition
}

/// A receiver repeats the echo until its sender answers (RFC 3168, section 6.1.3), or counts (RFC 9768).
fn is_not_echoed(flow: &Flow) -> bool {
    let counters = &flow.counters;
    let echoed = match flow.ecn {
        Ecn::Classic => counters.ecn_echoes,
        Ecn::Accurate => counters.ce_reported,
        Ecn::Off | Ecn::Unknown => return false,
    };
    counters.ce_marked >= SEVERAL && echoed == 0
}

fn is_bleached(flow: &Flow) -> bool {
    let counters = &flow.counters;
    let capable = counters.ect0 + counters.ect1 + counters.ce_marked;
    let agreed = matches!(flow.ecn, Ecn::Classic | Ecn::Accurate);
    let behind = matches!(flow.vantage, Vantage::Middle | Vantage::Receiver);
    agreed && behind && capable == 0 && new_packets(flow) >= MANY
}

/// Retransmissions of classic ECN are not ECN-capable (RFC 3168, section 6.1.5).
fn new_packets(flow: &Flow) -> u64 {
    let new = flow
        .segments
        .iter()
        .filter(|segment| segment.kind == Kind::New);
    new.count() as u64
}

/// Set-up of the connections to one host that offered ECN.
#[derive(Default)]
struct Setups {
    flows: Vec<String>,
    /// SYNs with the offer that got no answer, and connections that were answered as soon as they omitted it.
    unanswered: u64,
    withdrawn: u64,
    waited_ns: i64,
    packets: Vec<u64>,
    /// Connections with an answered offer: accepted, or refused.
    agreed: u64,
    refused: u64,
}

/// Hosts, or filters in front of them, that refuse ECN or drop SYNs that offer it.
pub(super) fn of_setups(tracked: &Tracked) -> Vec<Condition> {
    by_host(tracked)
        .into_iter()
        .filter_map(|(host, setups)| setups.condition(host))
        .collect()
}

/// Hosts to which SYNs that offer ECN are dropped: this explains why those SYNs got no answer.
pub(crate) fn blocking(tracked: &Tracked) -> HashSet<IpAddr> {
    let hosts = by_host(tracked).into_iter();
    hosts
        .filter_map(|(host, setups)| setups.are_blocked().then_some(host))
        .collect()
}

fn by_host(tracked: &Tracked) -> BTreeMap<IpAddr, Setups> {
    let mut by_host: BTreeMap<IpAddr, Setups> = BTreeMap::new();
    for connection in &tracked.connections {
        let [forth, back] = &connection.flows;
        let withdrawn = connection
            .signs
            .as_ref()
            .and_then(|signs| signs.ecn_withdrawn);
        let offered = matches!(connection.ecn_offered, Ecn::Classic | Ecn::Accurate);
        if !(offered || withdrawn.is_some()) || connection.setup.syn_acks == 0 {
            continue;
        }
        let setups = by_host.entry(forth.destination.address).or_default();
        setups.flows.push(forth.name());
        match withdrawn {
            Some(withdrawn) => {
                setups.unanswered += u64::from(withdrawn.after);
                setups.withdrawn += 1;
                let first_ns = connection.setup.first_syn_ns;
                setups.waited_ns += withdrawn.time_ns - first_ns.unwrap_or(withdrawn.time_ns);
                setups.packets.push(withdrawn.packet);
            }
            None if forth.ecn == Ecn::Off && back.offers[0].is_some() => setups.refused += 1,
            None => setups.agreed += 1,
        }
    }
    by_host
}

impl Setups {
    fn are_blocked(&self) -> bool {
        let several = self.unanswered >= SEVERAL && self.withdrawn >= SEVERAL;
        several && self.agreed == 0 && self.refused == 0
    }

    fn condition(self, host: IpAddr) -> Option<Condition> {
        if self.agreed > 0 {
            return None;
        }
        let is_blocked = self.are_blocked();
        let host = Value::Text(host.to_string().into());
        let mut condition = Condition::new(Cause::Ecn, self.flows);
        if is_blocked {
            condition.detail = Some("blocked");
            condition.limited_s = seconds(self.waited_ns);
            let blocked = fact!(
                "ecn-blocked",
                syns = self.unanswered,
                connections = self.withdrawn,
                waited_s = seconds(self.waited_ns)
            );
            condition.facts = vec![Fact {
                packets: self.packets,
                ..blocked.with("host", host)
            }];
            return Some(condition);
        }
        condition.detail = Some("refused");
        let refused = fact!("ecn-refused", connections = self.refused);
        condition.facts = vec![refused.with("host", host)];
        (self.refused > 0).then_some(condition)
    }
}
