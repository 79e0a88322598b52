//! Flows that share a path, and the trace of their packets for the models.

use std::collections::HashMap;
use std::net::IpAddr;

use super::before_capture::arrivals_ns;
use whydrop_path::fit::{Seen, Trace, TracePacket};
use whydrop_tcp::{Fate, Flow, Kind, Segment, SegmentFlags, clocked_wait_ns};

/// A flow that carried data, with its number in the document.
#[derive(Debug, Clone, Copy)]
pub struct FlowRef<'a> {
    pub index: usize,
    pub flow: &'a Flow,
}

/// Flows to one destination host: an element on the path to it polices or queues them together.
#[derive(Debug)]
pub struct Group<'a> {
    pub flows: Vec<FlowRef<'a>>,
}

/// Origin of an observation: flow (position in the group) and segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    pub member: u32,
    pub segment: u32,
}

/// A trace and the origin of each of its packets.
#[derive(Debug, Clone, Default)]
pub struct GroupTrace {
    pub trace: Trace,
    pub origins: Vec<Origin>,
}

/// Groups flows by destination address, in the order of their first appearance.
pub fn by_destination<'a>(flows: &[FlowRef<'a>]) -> Vec<Group<'a>> {
    let mut positions: HashMap<IpAddr, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for &flow in flows {
        let position = *positions
            .entry(flow.flow.destination.address)
            .or_insert_with(|| {
                groups.push(Group { flows: Vec::new() });
                groups.len() - 1
            });
        groups[position].flows.push(flow);
    }
    groups
}

impl Group<'_> {
    /// Names of the flows: those with the most losses first, then those with the most payload.
    pub fn names(&self) -> Vec<String> {
        let mut flows = self.flows.clone();
        flows.sort_by_key(|flow| {
            let counters = &flow.flow.counters;
            std::cmp::Reverse((counters.lost, counters.payload_bytes))
        });
        flows.iter().map(|flow| flow.flow.name()).collect()
    }

    /// Largest payload of a packet; that of Ethernet if unknown.
    pub fn mss_bytes(&self) -> f64 {
        let sizes = self.flows.iter().filter_map(|flow| flow.flow.mss_bytes);
        f64::from(sizes.max().unwrap_or(1460))
    }

    /// True if acknowledgments were not captured: round-trip times are known for few packets.
    pub fn is_by_echoes(&self) -> bool {
        let by_echoes = |flow: &FlowRef| flow.flow.account().by_echoes();
        self.flows.iter().any(by_echoes)
    }

    pub fn lost(&self) -> u64 {
        self.flows.iter().map(|flow| flow.flow.counters.lost).sum()
    }

    pub fn has_offloaded_segments(&self) -> bool {
        self.flows
            .iter()
            .any(|flow| flow.flow.counters.offloaded_super_segments > 0)
    }

    /// The sender of each packet, as the first of the group's flows from that host.
    pub fn hosts(&self, group_trace: &GroupTrace) -> Vec<usize> {
        let host = |flow: &FlowRef| {
            let address = flow.flow.source.address;
            let mut flows = self.flows.iter();
            flows.position(|first| first.flow.source.address == address)
        };
        let hosts: Vec<usize> = self.flows.iter().filter_map(host).collect();
        let origins = group_trace.origins.iter();
        origins
            .map(|origin| hosts[origin.member as usize])
            .collect()
    }

    /// All data packets of the group, sorted by time.
    pub fn trace(&self) -> GroupTrace {
        self.trace_of(|segment| Some(fate(segment)))
    }

    /// The data packets for which `outcome` returns an outcome, sorted by time.
    pub fn trace_of(&self, outcome: impl Fn(&Segment) -> Option<Seen>) -> GroupTrace {
        self.gathered(|flow| {
            let forward_s = forward_s(flow, self.echoed_rtt_ns(flow));
            let arrivals_ns = arrivals_ns(flow);
            let outcome = &outcome;
            move |number, segment| {
                Some(TracePacket {
                    time_ns: arrivals_ns[number],
                    bytes: segment.ip_bytes(),
                    outcome: outcome(segment)?,
                    delay_s: forward_s(segment),
                })
            }
        })
    }

    /// All data packets in the order in which they left their senders, each with its delay up to the capture
    /// point.
    pub fn trace_as_sent(&self) -> GroupTrace {
        self.gathered(|flow| {
            let waits = flow.account().waits_before();
            let always_ns = self.waits_always_ns(flow);
            move |_, segment| {
                let wait_ns = always_ns + clocked_wait_ns(waits, segment.time_ns);
                let passed = !segment.flags.has(SegmentFlags::INFERRED);
                Some(TracePacket {
                    time_ns: segment.time_ns - wait_ns,
                    bytes: segment.ip_bytes(),
                    outcome: fate(segment),
                    delay_s: passed.then_some(wait_ns as f32 * 1e-9),
                })
            }
        })
    }

    /// The delay of a flow's fastest packet: the least excess of its round trip to the sender over that of
    /// another flow of the same host. In a flow that begins behind a standing queue, every packet is delayed.
    fn waits_always_ns(&self, flow: &Flow) -> i64 {
        let least_ns = |flow: &Flow| flow.account().by_clocks.as_ref()?.near_rtt_ns;
        let host = flow.source.address;
        let of_host = (self.flows.iter()).filter(|other| other.flow.source.address == host);
        let fastest_ns = of_host.filter_map(|other| least_ns(other.flow)).min();
        least_ns(flow)
            .zip(fastest_ns)
            .map_or(0, |(own, least)| own - least)
    }

    /// The minimum round-trip time that echoes show of a flow, or of another one between the same hosts.
    fn echoed_rtt_ns(&self, flow: &Flow) -> Option<i64> {
        flow.account().echoed_rtt_ns()?;
        let host = flow.source.address;
        let of_host = (self.flows.iter()).filter(|other| other.flow.source.address == host);
        of_host
            .filter_map(|other| other.flow.account().echoed_rtt_ns())
            .min()
    }

    /// The observations that `observed` makes of each flow's segments, sorted by time.
    fn gathered<'a, Observe>(&'a self, observed: impl Fn(&'a Flow) -> Observe) -> GroupTrace
    where
        Observe: Fn(usize, &'a Segment) -> Option<TracePacket>,
    {
        let packets = self.flows.iter().map(|flow| flow.flow.segments.len()).sum();
        let mut rows: Vec<(TracePacket, Origin)> = Vec::with_capacity(packets);
        for (member, flow) in (0..).zip(&self.flows) {
            let observe = observed(flow.flow);
            let segments = (0..).zip(&flow.flow.segments);
            rows.extend(segments.filter_map(|(number, segment)| {
                let origin = Origin {
                    member,
                    segment: number,
                };
                Some((observe(number as usize, segment)?, origin))
            }));
        }
        if !rows.is_sorted_by_key(|(observation, _)| observation.time_ns) {
            rows.sort_by_key(|(observation, _)| observation.time_ns);
        }
        let origins = rows.iter().map(|(_, origin)| *origin).collect();
        let observations = rows.into_iter().map(|(observation, _)| observation);
        GroupTrace {
            trace: Trace::new(observations.collect()),
            origins,
        }
    }
}

fn fate(segment: &Segment) -> Seen {
    match segment.fate {
        Fate::Delivered => Seen::Passed,
        Fate::Lost => Seen::Lost,
        Fate::Unknown => Seen::Unknown,
    }
}

/// Excess time of a segment from the capture point to the receiver over the fastest one, seconds; `None` if
/// no round-trip time shows it.
fn forward_s(flow: &Flow, echoed_rtt_ns: Option<i64>) -> impl Fn(&Segment) -> Option<f32> {
    let exact = |segment: &&Segment| segment.flags.has(SegmentFlags::RTT_EXACT);
    let measured = flow.segments.iter().filter(exact);
    let least_ns = measured.map(|s| s.rtt_ns).min().unwrap_or(0);
    // the part of a round trip by which the return path exceeds its minimum is not queueing on the forward
    // path
    let forward_ns =
        move |segment: &Segment| segment.rtt_ns - wait_back_ns(flow, segment, least_ns);
    let measured = flow.segments.iter().filter(exact);
    let fastest_ns = measured.map(forward_ns).chain(echoed_rtt_ns).min();
    let fastest_ns = fastest_ns.unwrap_or(0);
    move |segment| {
        let measured = exact(&segment) && segment.kind == Kind::New;
        measured.then(|| (forward_ns(segment) - fastest_ns).max(0) as f32 * 1e-9)
    }
}

/// The queueing delay of a segment's acknowledgment on the return path, nanoseconds. It is at most the excess
/// of its round trip over the minimum: after a clock is set, only that is credible.
pub(crate) fn wait_back_ns(flow: &Flow, segment: &Segment, least_rtt_ns: i64) -> i64 {
    let waits = flow.account().waits_back();
    let clocked_ns = clocked_wait_ns(waits, segment.time_ns + segment.rtt_ns);
    clocked_ns
        .min(segment.rtt_ns.saturating_sub(least_rtt_ns))
        .max(0)
}

/// The line rate at which the sender's super-segments left, from the growth of the round-trip time along each
/// of them: the fastest tenth, since slower links on the path can only stretch them. `None` if too few were
/// measured.
pub fn line_rate_bps(flow: &Flow) -> Option<f64> {
    let mut ns_per_byte: Vec<f64> = Vec::new();
    let mut first: Option<(i64, i64, i64)> = None;
    for segment in &flow.segments {
        if !segment.flags.has(SegmentFlags::OFFLOADED)
            || segment.rtt_ns < 0
            || segment.kind != Kind::New
        {
            continue;
        }
        match first {
            Some((time_ns, sequence, rtt_ns)) if time_ns == segment.time_ns => {
                let bytes = segment.sequence - sequence;
                if segment.flags.has(SegmentFlags::RTT_EXACT)
                    && bytes > 0
                    && segment.rtt_ns > rtt_ns
                {
                    ns_per_byte.push((segment.rtt_ns - rtt_ns) as f64 / bytes as f64);
                }
            }
            _ if segment.flags.has(SegmentFlags::RTT_EXACT) => {
                first = Some((segment.time_ns, segment.sequence, segment.rtt_ns));
            }
            _ => {}
        }
    }
    if ns_per_byte.len() < 10 {
        return None;
    }
    ns_per_byte.sort_by(f64::total_cmp);
    let fast = ns_per_byte[ns_per_byte.len() / 10];
    (fast > 0.0).then(|| 8e9 / fast)
}
