//! A capture without any verdict: nothing failed in it, it shows too little, or nothing of it can be read.

use whydrop_capture::Summary;
use whydrop_datagrams::Datagrams;
use whydrop_tcp::Tracked;
use whydrop_verdict::{Cause, Fact, fact};

use crate::conditions::Condition;
use crate::ranked::Ranked;

/// Confidence, since datagrams without an answer or a number may not have arrived.
const CONFIDENCE: f64 = 0.8;

/// The verdict on a capture without other verdicts; `None` without packets.
pub(crate) fn verdict(
    summary: &Summary,
    tracked: &Tracked,
    datagrams: &Datagrams,
) -> Option<Ranked> {
    let kinds = &summary.kinds;
    if summary.packets == 0 {
        return None;
    }
    let lost: u64 = datagrams
        .rtp
        .iter()
        .flatten()
        .map(|stream| stream.lost)
        .sum();
    let reported = reported_lost(datagrams);
    let (cause, fact) = match () {
        () if kinds.tcp + kinds.udp + kinds.icmp == 0 => (Cause::Unknown, unread(summary)),
        () if lost > 0 => (Cause::Unknown, lost_of_streams(datagrams)),
        () if reported > 0 => (Cause::Unknown, lost_by_reports(datagrams, reported)),
        () => (Cause::None, contents(summary, tracked, datagrams)),
    };
    let mut condition = Condition::new(cause, Vec::new());
    condition.confidence = CONFIDENCE;
    condition.facts = vec![fact];
    Some(condition.ranked(0.0, 0))
}

fn unread(summary: &Summary) -> Fact {
    let kinds = &summary.kinds;
    fact!(
        "nothing-readable",
        packets = summary.packets,
        not_ip = kinds.not_ip,
        other_ip = kinds.other_ip,
        fragments = kinds.fragment,
        undecodable = kinds.undecodable
    )
}

fn lost_of_streams(datagrams: &Datagrams) -> Fact {
    let streams = || datagrams.rtp.iter().flatten();
    let lost: u64 = streams().map(|stream| stream.lost).sum();
    let expected: u64 = streams().map(|stream| stream.expected).sum();
    fact!(
        "rtp-lost",
        lost = lost,
        expected_packets = expected,
        streams = streams().count()
    )
}

/// Lost packets of the RTP streams, by the last report of each receiver (RTCP).
fn reported_lost(datagrams: &Datagrams) -> u64 {
    let streams = datagrams.rtp.iter().flatten();
    let last = streams.filter_map(|stream| stream.reports.last());
    // Negative where there were duplicates.
    last.map(|report| u64::from(report.lost.max(0).unsigned_abs()))
        .sum()
}

fn lost_by_reports(datagrams: &Datagrams, lost: u64) -> Fact {
    let streams = datagrams.rtp.iter().flatten();
    fact!(
        "rtcp-lost",
        lost = lost,
        streams = streams.filter(|stream| !stream.reports.is_empty()).count()
    )
}

fn contents(summary: &Summary, tracked: &Tracked, datagrams: &Datagrams) -> Fact {
    let kinds = &summary.kinds;
    let servers = &datagrams.exchanged.servers;
    let requests: u64 = servers.iter().map(|server| server.requests).sum();
    let answered: u64 = servers.iter().map(|server| server.answered).sum();
    let sent: u64 = datagrams.pings.iter().map(|pings| pings.sent).sum();
    let replied: u64 = datagrams.pings.iter().map(|pings| pings.answered).sum();
    let errors: u64 = datagrams.reports.iter().map(|report| report.messages).sum();
    let places: std::collections::HashSet<_> = datagrams
        .flows
        .iter()
        .map(|flow| (flow.source, flow.destination))
        .collect();
    let unanswered = |flow: &&whydrop_datagrams::Flow| {
        !flow.asks_many() && !places.contains(&(flow.destination, flow.source))
    };
    fact!(
        "nothing-failed",
        packets = summary.packets,
        connections_without_data = tracked.without_data,
        udp_packets = kinds.udp,
        udp_flows = datagrams.flows.len(),
        udp_flows_one_way = datagrams.flows.iter().filter(unanswered).count(),
        requests = requests,
        answered = answered,
        rtp_streams = datagrams.rtp.iter().flatten().count(),
        pings = sent,
        pings_answered = replied,
        icmp_errors = errors,
        unread = kinds.not_ip + kinds.other_ip + kinds.fragment + kinds.undecodable
    )
}
