//! The truth of a pair: the losses between the points, within the common coverage of both captures.

use serde_json::{Value, json};
use whydrop_hosts::Reason;

use super::crossing::{Body, Crossing};
use super::sniffer::{Point, Sighting, Sniffer};
use super::world::{Flow, SimulatedPair};
use whydrop_network::limiter::Account;

/// Counts of wire packets that both captures should contain: they passed during the coverage of both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub forward_b: u64,
    pub forward_y: u64,
    pub forward_lost: u64,
    pub reverse_y: u64,
    pub reverse_b: u64,
    pub data_b: u64,
    pub data_y: u64,
}

/// True for each crossing within the common coverage of both captures. A lost packet is assumed due at the second point
/// after the transit of the last packet before it that arrived.
pub fn covered(crossings: &[Crossing], b: &Sighting, y: &Sighting) -> Vec<bool> {
    let transits = crossings.iter().filter(|c| c.is_forward());
    let first_ns = transits
        .filter_map(Crossing::transit_ns)
        .next()
        .unwrap_or(0);
    let (mut forward_ns, mut reverse_ns) = (first_ns, first_ns);
    let within = |sighting: &Sighting, time_ns: i64| {
        (sighting.begins_ns..=sighting.ends_ns).contains(&time_ns)
    };
    let is_covered = |crossing: &Crossing| {
        let transit_ns = match crossing.is_forward() {
            true => &mut forward_ns,
            false => &mut reverse_ns,
        };
        if let Some(known_ns) = crossing.transit_ns() {
            *transit_ns = known_ns;
        }
        let lost = crossing.lost_between;
        let (b_ns, y_ns) = match (crossing.at_b_ns, crossing.at_y_ns) {
            (Some(b_ns), Some(y_ns)) => (b_ns, y_ns),
            (Some(b_ns), None) if lost => (b_ns, b_ns + *transit_ns),
            (None, Some(y_ns)) if lost => (y_ns + *transit_ns, y_ns),
            _ => return false,
        };
        within(b, b_ns) && within(y, y_ns)
    };
    crossings.iter().map(is_covered).collect()
}

/// Counts the covered crossings.
pub fn count(crossings: &[Crossing], covered: &[bool]) -> Counts {
    let mut counts = Counts::default();
    for (crossing, _) in crossings
        .iter()
        .zip(covered)
        .filter(|(_, covered)| **covered)
    {
        let arrived = u64::from(!crossing.lost_between);
        if crossing.is_forward() {
            let data = u64::from(crossing.body.payload_bytes() > 0);
            counts.forward_b += 1;
            counts.forward_y += arrived;
            counts.forward_lost += 1 - arrived;
            counts.data_b += data;
            counts.data_y += data * arrived;
        } else {
            counts.reverse_y += 1;
            counts.reverse_b += arrived;
        }
    }
    counts
}

/// The whole truth, in the format of the given data.
pub fn to_json(pair: &SimulatedPair, b: &Sighting, y: &Sighting) -> Value {
    let covered = covered(&pair.crossings, b, y);
    let mut counts = count(&pair.crossings, &covered);
    if pair.b.forward_only || pair.y.forward_only {
        (counts.reverse_y, counts.reverse_b) = (0, 0);
    }
    let least = |forward: bool| least_transit_ns(&pair.crossings, &covered, forward);
    let mut truth = json!({
        "name": pair.name,
        "split": pair.split,
        "kind": pair.kind,
        "variant": pair.variant,
        "right_causes": right_causes(pair),
        "right_causes_by_transfer": right_causes_by_transfer(pair),
        "parameters": pair.parameters,
        "identifiable": pair.identifiable,
        "note": pair.note,
        "simulated": true,
        "seed": pair.seed,
        "points": {"b": "before the path element", "y": "behind the path element"},
        "one_way_delay_b_to_y_base_ms": one_way_ms(least(true), least(false)),
        "least_transit_ms": {"b_to_y": least(true).map(milliseconds), "y_to_b": least(false).map(milliseconds)},
        "forward_packets_b": counts.forward_b,
        "forward_packets_y": counts.forward_y,
        "forward_packets_lost_between": counts.forward_lost,
        "forward_packets_extra_at_y": 0,
        "data_packets_b": counts.data_b,
        "data_packets_y": counts.data_y,
        "data_packets_lost_between": counts.data_b - counts.data_y,
        "reverse_packets_y": counts.reverse_y,
        "reverse_packets_b": counts.reverse_b,
        "reverse_captured": !(pair.b.forward_only || pair.y.forward_only),
        "flows": flows(pair, &covered),
        "distortion": pair.distortion(),
        "captures": {"b": capture(&pair.b, b), "y": capture(&pair.y, y)},
        "realism": realism(pair, b, y),
    });
    if let Some(fields) = truth.as_object_mut() {
        fields.extend(pair.circumstances.clone());
    }
    truth
}

/// The correct causes for the pair.
fn right_causes(pair: &SimulatedPair) -> Vec<&'static str> {
    or_missed(pair.right.clone(), pair)
}

/// Those of each transfer of the first flow; empty if all have the pair's.
fn right_causes_by_transfer(pair: &SimulatedPair) -> Vec<Vec<&'static str>> {
    let each = pair.right_by_transfer.iter();
    each.map(|right| or_missed(right.clone(), pair)).collect()
}

/// Adds the sniffer's losses as a correct cause if a sniffer missed packets and none was lost on the path.
fn or_missed(mut right: Vec<&'static str>, pair: &SimulatedPair) -> Vec<&'static str> {
    let nothing_lost = !pair
        .crossings
        .iter()
        .any(|c| c.is_forward() && c.lost_between);
    if nothing_lost && pair.b.missed + pair.y.missed > 0.0 {
        right.push("capture-loss");
    }
    right
}

fn milliseconds(ns: i64) -> f64 {
    ns as f64 / 1e6
}

/// As the scoring scripts use it: 0 if neither direction takes long enough to be confused with an offset.
fn one_way_ms(forward_ns: Option<i64>, reverse_ns: Option<i64>) -> f64 {
    const NEXT_TO_EACH_OTHER_NS: i64 = 50_000;
    match (forward_ns, reverse_ns) {
        (Some(forward), Some(reverse))
            if forward <= NEXT_TO_EACH_OTHER_NS && reverse <= NEXT_TO_EACH_OTHER_NS =>
        {
            0.0
        }
        (forward, _) => milliseconds(forward.unwrap_or(0)).max(0.001),
    }
}

/// Within the common coverage of both captures: earlier and later packets say nothing about the clocks.
fn least_transit_ns(crossings: &[Crossing], covered: &[bool], forward: bool) -> Option<i64> {
    let of_direction = crossings
        .iter()
        .zip(covered)
        .filter(|(crossing, covered)| **covered && crossing.is_forward() == forward);
    of_direction
        .filter_map(|(crossing, _)| crossing.transit_ns())
        .min()
}

fn flows(pair: &SimulatedPair, covered: &[bool]) -> Value {
    let tcp = pair
        .tcp_flows
        .iter()
        .enumerate()
        .map(|(n, flow)| ("tcp", n, flow));
    let udp = pair
        .udp_flows
        .iter()
        .enumerate()
        .map(|(n, flow)| ("udp", n, flow));
    Value::Array(
        tcp.chain(udp)
            .map(|(proto, n, flow)| of_flow(pair, covered, proto, n, flow))
            .collect(),
    )
}

fn of_flow(
    pair: &SimulatedPair,
    covered: &[bool],
    proto: &str,
    number: usize,
    flow: &Flow,
) -> Value {
    let belongs = |crossing: &Crossing| {
        crossing.is_forward()
            && match crossing.body {
                Body::Tcp(segment) => proto == "tcp" && segment.flow == number,
                Body::Udp(datagram) => proto == "udp" && datagram.flow == number,
            }
    };
    let own: Vec<&Crossing> = (pair.crossings.iter().zip(covered))
        .filter(|(crossing, covered)| **covered && belongs(crossing))
        .map(|(crossing, _)| crossing)
        .collect();
    let lost = own.iter().filter(|c| c.lost_between).count();
    let before = if proto == "udp" {
        pair.tcp_flows.len()
    } else {
        0
    };
    let at_y = flow
        .translated(pair.translation, (before + number) as u16)
        .tcp;
    let again = own.iter().filter(|c| match c.body {
        Body::Tcp(segment) => segment.reason != Reason::New,
        Body::Udp(_) => false,
    });
    json!({
        "proto": proto,
        "src": flow.ends.server.to_string(),
        "dst": flow.ends.client.to_string(),
        "sport": flow.ends.tcp.server_port,
        "dport": flow.ends.tcp.client_port,
        "sport_at_y": at_y.server_port,
        "dport_at_y": at_y.client_port,
        "role": flow.role,
        "packets_b": own.len(),
        "packets_y": own.len() - lost,
        "packets_lost": lost,
        "data_packets_b": own.iter().filter(|c| c.body.payload_bytes() > 0).count(),
        "data_packets_lost": own.iter().filter(|c| c.lost_between && c.body.payload_bytes() > 0).count(),
        "retransmitted_packets_at_b": again.count(),
        "ce_marked_between": own.iter().filter(|c| c.marked_between).count(),
        "transit_b_to_y_ms_true": transits(&own),
        "limits": match proto {
            "tcp" => pair.accounts.get(number).map_or(Value::Null, Account::to_json),
            _ => Value::Null,
        },
    })
}

fn transits(own: &[&Crossing]) -> Value {
    let mut times_ns: Vec<i64> = own.iter().filter_map(|c| c.transit_ns()).collect();
    if times_ns.is_empty() {
        return Value::Null;
    }
    times_ns.sort_unstable();
    let at = |share: f64| milliseconds(times_ns[((times_ns.len() - 1) as f64 * share) as usize]);
    json!({"min": at(0.0), "p10": at(0.1), "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0)})
}

fn capture(sniffer: &Sniffer, sighting: &Sighting) -> Value {
    let bound = |ns: i64, none: i64| match ns == none {
        true => Value::Null,
        false => json!(ns as f64 / 1e9),
    };
    json!({
        "file": if sniffer.point == Point::B { "b.pcap" } else { "y.pcap" },
        "records": sighting.records.len(),
        "last_record_is_cut": sighting.last_is_cut,
        "begins_s": bound(sighting.begins_ns, i64::MIN),
        "ends_s": bound(sighting.ends_ns, i64::MAX),
        "missed_records": sighting.missed_records,
        "missed_packets": sighting.missed_packets,
        "resolution": sniffer.resolution.name(),
        "snaplen": sniffer.snaplen,
        "link": format!("{:?}", sniffer.link),
    })
}

fn realism(pair: &SimulatedPair, b: &Sighting, y: &Sighting) -> Value {
    let mut realism = json!({
        "treatments": pair.realism.treatments,
        "seed": pair.seed,
        "lost_tolerance": pair.realism.lost_tolerance,
        "missed_b": b.missed_packets,
        "missed_y": y.missed_packets,
        "records_b": b.records.len(),
        "records_y": y.records.len(),
    });
    if let Some(fields) = realism.as_object_mut() {
        fields.extend(pair.realism.details.clone());
    }
    realism
}
