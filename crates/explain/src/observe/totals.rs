//! Counters, times and round trips of a group of flows.

use whydrop_tcp::{Ecn, Flow, Kind, Limiter, Segment, SegmentFlags, Transfer, Vantage};
use whydrop_verdict::Cause;

use super::group::{FlowRef, Group, wait_back_ns};
use crate::limits::{self, Times};

/// Counters of the group's flows, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// From the sender to the receiver and back, in seconds.
    pub whole_rtt_s: Option<f64>,
    /// Most of the payload was captured where it arrives: delays behind the capture point are the receiver's
    /// own.
    pub at_receiver: bool,
    /// Timestamps of most of the payload show how long it was delayed before the capture point, including not
    /// at all.
    pub sees_waits: bool,
    /// Queueing delays of acknowledgments on the return path in seconds: median and maximum, of the flow with
    /// the longest. 0 if unknown.
    pub typical_wait_back_s: f64,
    pub longest_wait_back_s: f64,
    pub packets: u64,
    pub data_packets: u64,
    /// Packets among those that the capture holds.
    pub captured_packets: u64,
    pub payload_bytes: u64,
    pub lost: u64,
    /// Bounds, if retransmissions without SACK leave the number open.
    pub lost_low: u64,
    pub lost_high: u64,
    /// Losses among those before the capture point, visible only as gaps, without the delays of the packets
    /// that passed.
    pub lost_before_capture: u64,
    /// Losses of these flows that another verdict covers: too few to show what limited the flows.
    pub lost_besides: u64,
    /// Flows that lost packets.
    pub lossy_flows: u64,
    pub retransmitted: u64,
    pub spurious: u64,
    pub reordered: u64,
    pub missed_by_capture_packets: u64,
    /// Packets among those that nothing in the capture acknowledges.
    pub passed_over_packets: u64,
    pub ecn_echoes: u64,
    /// Packets marked as congestion experienced: captured with the mark, or reported by receivers (accurate
    /// ECN), whichever is more.
    pub ce_marked: u64,
    pub zero_windows: u64,
    /// Time with a closed receive window while data waited, summed over the relevant flows.
    pub window_closed_s: f64,
    pub window_probes: u64,
    pub timeouts: u64,
    /// Congestion was or could have been signalled by marks: ECN was negotiated, or packets carried it.
    pub ecn_in_use: bool,
    pub busy_s: f64,
    pub window_s: f64,
    /// The window scale is known for at least one of the relevant flows; otherwise `window_s` means nothing.
    pub window_known: bool,
    pub idle_s: f64,
    /// Time with data of any of the flows in flight; at most the span of the group.
    pub union_busy_s: f64,
    /// The same for the flows that form its load, without the pauses in which none of them had anything in
    /// flight.
    pub loaded_s: f64,
    /// Largest payload of a packet.
    pub mss_bytes: u32,
    /// Time of transfers by limiter, in the order of [`Limiter::ALL`].
    pub limited_s: Times,
    /// Time within that for which acknowledgments were delayed although nothing needed the delay.
    pub needless_delay_s: f64,
    /// The longest time of a transfer with data in flight, seconds.
    pub longest_transfer_s: f64,
}

impl Totals {
    /// Takes times in flight from the account of all time: data that is acknowledged on arrival is in flight
    /// where the capture does not see it.
    fn count_time_as_the_sender(&mut self) {
        let of = |limiter: Limiter| self.limited_s[limiter as usize];
        let idle_s = limits::idle_s(&self.limited_s);
        let all_s = self.limited_s.iter().sum::<f64>() - of(Limiter::ConnectionSetup);
        let window_s = of(Limiter::ReceiveWindow);
        (self.busy_s, self.idle_s, self.window_s) = ((all_s - idle_s).max(0.0), idle_s, window_s);
    }

    /// Time with data in flight and without, summed over the relevant flows, seconds; never 0.
    pub fn active_s(&self) -> f64 {
        (self.busy_s + self.idle_s).max(1e-9)
    }

    /// Share of the data that the capture lacks.
    pub fn missed_share(&self) -> f64 {
        let missed = self.missed_by_capture_packets as f64;
        // some of them have a place among the others, some have none
        let all = (self.data_packets as f64).max(missed + self.captured_packets as f64);
        missed / all.max(1.0)
    }

    /// Time in which the receive window had no room for a segment, or was closed while data waited: at least
    /// the longer of the two, since one may include the other.
    pub fn window_limited_s(&self) -> f64 {
        self.window_s.max(self.window_closed_s)
    }

    /// Share of the time with data in flight or waiting in which the window limited the flow: by the window
    /// left, or by the account of what senders waited for, whichever is more.
    pub fn window_share(&self) -> f64 {
        // data that waits for a closed window is not in flight
        let waited_s = self.busy_s.max(self.window_closed_s);
        let left = self.window_limited_s() / waited_s.max(1e-9);
        left.max(limits::share_at_the_ends(
            &self.limited_s,
            Cause::ReceiverWindow,
        ))
    }
}

/// From the capture point to the receiver and back, in seconds.
pub fn base_rtt_s(group: &Group) -> Option<f64> {
    let of_flows = group
        .flows
        .iter()
        .filter_map(|flow| least_rtt_ns(flow.flow));
    Some(of_flows.min()? as f64 * 1e-9)
}

/// From the sender to the receiver and back, in seconds; `None` if the part before the capture point is
/// unknown.
fn whole_rtt_s(group: &Group) -> Option<f64> {
    let of_flows = group.flows.iter().filter_map(|flow| {
        let near_ns = flow.flow.account().near_rtt_ns?;
        Some(least_rtt_ns(flow.flow)?.saturating_add(near_ns))
    });
    Some(of_flows.min()? as f64 * 1e-9)
}

pub(crate) fn least_rtt_ns(flow: &Flow) -> Option<i64> {
    let exact = (flow.segments.iter()).filter(|s| s.flags.has(SegmentFlags::RTT_EXACT));
    // below a tick of the capture's clock it is unknown; then the limit of a flow without losses depends on a
    // window that was not captured, whatever the round trip
    let echoed_ns = flow.account().echoed_rtt_ns();
    let echoed_ns = echoed_ns.filter(|_| flow.counters.lost > 0);
    let measured_ns = exact.map(|s| s.rtt_ns).chain(echoed_ns);
    measured_ns.filter(|ns| *ns > 0).min()
}

/// Flows with less than this share of the bytes of the group's largest (control connections) do not show what
/// limits it.
const MINOR_SHARE: f64 = 0.05;

/// True for flows that are this small.
pub fn minor(group: &Group) -> impl Fn(&Flow) -> bool + use<> {
    let payload = |flow: &FlowRef| flow.flow.counters.payload_bytes;
    let largest = group.flows.iter().map(payload).max().unwrap_or(0);
    move |flow| (flow.counters.payload_bytes as f64) < MINOR_SHARE * largest as f64
}

pub fn totals(group: &Group) -> Totals {
    let mut totals = Totals {
        whole_rtt_s: whole_rtt_s(group),
        ..Totals::default()
    };
    let is_minor = minor(group);
    for flow in &group.flows {
        let (flow, counters) = (flow.flow, &flow.flow.counters);
        totals.packets += counters.packets;
        totals.data_packets += flow.segments.len() as u64;
        let captured = |segment: &&Segment| !segment.flags.has(SegmentFlags::INFERRED);
        totals.captured_packets += flow.segments.iter().filter(captured).count() as u64;
        totals.payload_bytes += counters.payload_bytes;
        totals.lost += counters.lost;
        totals.lost_low += counters.lost_low;
        totals.lost_high += counters.lost_high;
        totals.lossy_flows += u64::from(counters.lost > 0);
        totals.lost_before_capture += lost_before_capture(flow);
        totals.retransmitted += counters.retransmitted;
        totals.spurious += counters.spurious;
        totals.reordered += counters.reordered;
        totals.missed_by_capture_packets += counters.missed_by_capture_packets;
        totals.passed_over_packets += counters.passed_over_packets;
        totals.ecn_echoes += counters.ecn_echoes;
        totals.ce_marked += counters.ce_marked.max(counters.ce_reported);
        totals.zero_windows += counters.zero_windows;
        totals.window_probes += counters.window_probes;
        totals.timeouts += counters.retransmitted_by_kind[Kind::Timeout as usize];
        totals.ecn_in_use |= matches!(flow.ecn, Ecn::Classic | Ecn::Accurate)
            || counters.ect0 + counters.ect1 + counters.ce_marked > 0;
        if is_minor(flow) {
            continue;
        }
        totals.busy_s += flow.limited.busy_ns as f64 * 1e-9;
        totals.window_known |= flow.window_scale.is_some();
        totals.window_closed_s += flow.limited.closed_ns as f64 * 1e-9;
        totals.window_s += flow.limited.window_ns as f64 * 1e-9;
        totals.idle_s += flow.limited.idle_ns as f64 * 1e-9;
        totals.mss_bytes = totals.mss_bytes.max(flow.mss_bytes.unwrap_or(0));
        let (typical_s, longest_s) = waits_back_s(flow);
        if typical_s >= totals.typical_wait_back_s {
            (totals.typical_wait_back_s, totals.longest_wait_back_s) = (typical_s, longest_s);
        }
        totals.longest_transfer_s = totals.longest_transfer_s.max(longest_transfer_s(flow));
        totals.needless_delay_s += limits::needless_delay_s(flow);
        let times_s = limits::times_of_flow_s(flow);
        for (total, time_s) in totals.limited_s.iter_mut().zip(times_s) {
            *total += time_s;
        }
    }
    totals.union_busy_s = union_busy_s(group);
    totals.loaded_s = loaded_s(group);
    totals.at_receiver = most_payload(group, |flow| flow.vantage == Vantage::Receiver);
    totals.sees_waits = most_payload(group, |flow| flow.account().sees_waits);
    if totals.at_receiver {
        totals.count_time_as_the_sender();
    }
    totals
}

/// True if more than half of the payload belongs to flows with this property.
fn most_payload(group: &Group, is_such: impl Fn(&Flow) -> bool) -> bool {
    let (mut all, mut such) = (0, 0);
    for flow in &group.flows {
        let bytes = flow.flow.counters.payload_bytes;
        all += bytes;
        such += if is_such(flow.flow) { bytes } else { 0 };
    }
    2 * such > all
}

/// Longest duration of a transfer, but no longer than data was in flight, as captured or from the sender's
/// point of view.
fn longest_transfer_s(flow: &Flow) -> f64 {
    let lasted = |transfer: &Transfer| transfer.end_ns.saturating_sub(transfer.start_ns);
    let longest_ns = flow.transfers.iter().map(lasted).max().unwrap_or(0);
    let times_s = limits::times_of_flow_s(flow);
    let lived_s = times_s.iter().sum::<f64>() - limits::idle_s(&times_s);
    (longest_ns as f64 * 1e-9).min(lived_s.max(flow.limited.busy_ns as f64 * 1e-9))
}

/// Median and maximum queueing delay of a flow's acknowledgments on the return path, seconds.
fn waits_back_s(flow: &Flow) -> (f64, f64) {
    if flow.account().waits_back().is_empty() {
        return (0.0, 0.0);
    }
    let least_ns = least_rtt_ns(flow).unwrap_or(i64::MAX);
    let wait_ns = |segment: &Segment| wait_back_ns(flow, segment, least_ns);
    let exact = |segment: &&Segment| segment.flags.has(SegmentFlags::RTT_EXACT);
    let mut waits_ns: Vec<i64> = flow.segments.iter().filter(exact).map(wait_ns).collect();
    if waits_ns.is_empty() {
        return (0.0, 0.0);
    }
    let middle = waits_ns.len() / 2;
    let (_, typical_ns, longer_ns) = waits_ns.select_nth_unstable(middle);
    let longest_ns = longer_ns.iter().copied().fold(*typical_ns, i64::max);
    (*typical_ns as f64 * 1e-9, longest_ns as f64 * 1e-9)
}

/// Length of the union of the transfers' times, seconds.
fn union_busy_s(group: &Group) -> f64 {
    let transfers = group.flows.iter().flat_map(|flow| &flow.flow.transfers);
    union_s(
        transfers
            .map(|transfer| (transfer.start_ns, transfer.end_ns))
            .collect(),
    )
}

/// Flows with a smaller share of a group's payload are not part of its load.
const LOAD_SHARE: f64 = 0.01;
/// A sender with nothing in flight for this long beyond a round trip has nothing to send: with data it would
/// only wait longer for a timer, with data in flight.
const IDLE_NS: i64 = 200_000_000;

/// Length of the union of the times in which flows of a group's load had data to send, seconds.
fn loaded_s(group: &Group) -> f64 {
    let payload = |flow: &FlowRef| flow.flow.counters.payload_bytes;
    let all: u64 = group.flows.iter().map(payload).sum();
    let is_load = |flow: &&FlowRef| payload(flow) as f64 >= LOAD_SHARE * all as f64;
    let flows = group.flows.iter().filter(is_load);
    union_s(flows.flat_map(|flow| loaded_spans(flow.flow)).collect())
}

/// The times in which a flow had data to send, concluded from the data in flight.
fn loaded_spans(flow: &Flow) -> Vec<(i64, i64)> {
    let mut spans: Vec<(i64, i64)> = Vec::new();
    for transfer in &flow.transfers {
        let own = flow.segments.get(transfer.first..transfer.end);
        let (mut start_ns, mut covered_to, mut trip_ns) = (transfer.start_ns, i64::MIN, 0);
        for segment in own.unwrap_or_default() {
            let alone = segment.in_flight_bytes <= segment.payload_bytes;
            let pause_ns = segment.time_ns.saturating_sub(covered_to);
            if alone && covered_to > i64::MIN && pause_ns > IDLE_NS.saturating_add(trip_ns) {
                spans.push((start_ns, covered_to));
                start_ns = segment.time_ns;
            }
            trip_ns = trip_ns.max(segment.rtt_ns);
            let answered_ns = segment.time_ns.saturating_add(segment.rtt_ns.max(0));
            covered_to = covered_to.max(answered_ns);
        }
        spans.push((start_ns, transfer.end_ns.max(start_ns)));
    }
    spans
}

/// Length of the union of spans, seconds.
fn union_s(mut spans: Vec<(i64, i64)>) -> f64 {
    spans.sort_unstable();
    let (mut total_ns, mut covered_to) = (0, i64::MIN);
    for (start, end) in spans {
        let from = start.max(covered_to);
        if end > from {
            total_ns += end - from;
            covered_to = end;
        }
    }
    total_ns as f64 * 1e-9
}

fn lost_before_capture(flow: &Flow) -> u64 {
    let gap = |segment: &&Segment| segment.is_lost() && segment.flags.has(SegmentFlags::INFERRED);
    flow.segments.iter().filter(gap).count() as u64
}
