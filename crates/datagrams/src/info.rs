//! The UDP flows of a capture, in the format of the JSON document.

use serde::Serialize;

use crate::exchange::Server;
use crate::flow::{Datagrams, Flow};
use crate::measuring::Measured;
use crate::rtp::RtpStream;
use crate::spin::Spin;

/// The most flows listed of which only the size is known, largest first.
const MOST_LISTED: usize = 64;

#[derive(Debug, Clone, Serialize)]
pub struct DatagramsInfo {
    pub packets: u64,
    pub ip_bytes: u64,
    /// Of flows with loss or delay that one capture shows.
    pub judged_packets: u64,
    pub judged_ip_bytes: u64,
    pub flows: Vec<DatagramFlowInfo>,
    /// Flows that are not listed: too small, or too many.
    pub unlisted: UnlistedInfo,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct UnlistedInfo {
    pub flows: u64,
    pub packets: u64,
    pub ip_bytes: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct DatagramFlowInfo {
    pub flow: String,
    pub packets: u64,
    pub ip_bytes: u64,
    pub start: f64,
    pub end: f64,
    pub ce_marked: u64,
    pub ect0: u64,
    pub ect1: u64,
    pub rtp: Vec<RtpInfo>,
    pub spin: Option<SpinInfo>,
    /// Only for whydrop's own packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredInfo>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct MeasuredInfo {
    /// `probes`, `answers`, `stream`, `bursts` or `clock-comparisons`.
    pub kind: &'static str,
    /// Packets with a known fate, and those that did not arrive: for probes beyond the capture point, for all others
    /// before it.
    pub told: Option<u64>,
    pub lost: Option<u64>,
    pub rtt_min_s: Option<f64>,
    pub rtt_median_s: Option<f64>,
    pub rtt_p95_s: Option<f64>,
    /// Beyond the fastest packet's delay, by the clocks of both ends, including their drift.
    pub waited_median_s: Option<f64>,
    pub waited_p95_s: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct RtpInfo {
    pub ssrc: String,
    pub payload_type: u8,
    pub clock_hz: f64,
    pub packets: u64,
    pub expected: u64,
    pub lost: u64,
    pub loss_runs: u64,
    pub duplicates: u64,
    pub reordered: u64,
    pub jitter_s: f64,
    pub jitter_mean_s: f64,
    pub jitter_max_s: f64,
    pub codec: Option<&'static str>,
    pub mos: Option<f64>,
    /// By its receiver (RTCP); `null` without reports in the clear.
    pub reported: Option<ReportedInfo>,
}

/// Reports of the receiver of a stream (RFC 3550, section 6.4).
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ReportedInfo {
    pub reports: u64,
    /// Since the start of the stream, by the last report; negative if there were duplicates.
    pub lost: i64,
    pub lost_share_max: f64,
    pub jitter_mean_s: f64,
    pub jitter_max_s: f64,
    /// From the capture point to the receiver and back; `null` if no sender report was echoed.
    pub rtt_min_s: Option<f64>,
    pub rtt_median_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct SpinInfo {
    pub round_trips: u64,
    pub rtt_min_s: f64,
    pub rtt_median_s: f64,
}

/// A server of one protocol, and the outcome of the requests to it.
#[derive(Debug, Clone, Serialize)]
pub struct ServerInfo {
    /// Such as `DNS`.
    pub service: &'static str,
    pub address: String,
    pub port: u16,
    /// Requests that were answered, or unanswered for long enough, and the attempts for them.
    pub requests: u64,
    pub attempts: u64,
    pub answered: u64,
    pub unanswered: u64,
    /// Answers that refuse, or report that the server failed.
    pub refused: u64,
    pub failed: u64,
    /// Answers that say that a name does not exist (DNS).
    pub no_such_name: u64,
    /// Requests that were answered only after attempts without an answer.
    pub repeated: u64,
    /// Answers after more than half a second.
    pub slow: u64,
    /// Shortest wait of an attempt, and longest wait of a request with all its attempts.
    pub shortest_s: Option<f64>,
    pub longest_s: Option<f64>,
}

fn server_info(server: &Server) -> ServerInfo {
    let seconds = |ns: i64| (server.answered > 0).then_some(ns as f64 * 1e-9);
    ServerInfo {
        service: server.service.name(),
        address: server.address.to_string(),
        port: server.port,
        requests: server.requests,
        attempts: server.attempts,
        answered: server.answered,
        unanswered: server.unanswered,
        refused: server.refused,
        failed: server.failed,
        no_such_name: server.no_such_name,
        repeated: server.repeated,
        slow: server.slow,
        shortest_s: seconds(server.shortest_ns),
        longest_s: seconds(server.slowest_ns),
    }
}

/// The most servers listed: those with most requests.
const MOST_SERVERS_LISTED: usize = 256;

impl Datagrams {
    /// The servers that were asked, those with most requests first.
    pub fn servers(&self) -> Vec<ServerInfo> {
        let mut asked: Vec<&Server> = self
            .exchanged
            .servers
            .iter()
            .filter(|server| server.requests > 0)
            .collect();
        asked.sort_by_key(|server| std::cmp::Reverse(server.requests));
        asked.truncate(MOST_SERVERS_LISTED);
        asked.into_iter().map(server_info).collect()
    }

    /// `None` without any UDP.
    pub fn info(&self) -> Option<DatagramsInfo> {
        let (packets, ip_bytes) = self.totals();
        let (judged_packets, judged_ip_bytes) = self.judged();
        let mut listed: Vec<usize> = (0..self.flows.len()).collect();
        let is_measurable = |at: usize| self.is_measurable(at);
        listed.sort_by_key(|at| {
            (
                !is_measurable(*at),
                std::cmp::Reverse(self.flows[*at].ip_bytes),
            )
        });
        let measurable = listed.iter().filter(|at| is_measurable(**at)).count();
        let rest = listed.split_off((measurable + MOST_LISTED).min(listed.len()));
        listed.sort_unstable();
        let mut unlisted = UnlistedInfo {
            flows: self.dropped.flows,
            packets: self.dropped.packets,
            ip_bytes: self.dropped.ip_bytes,
        };
        for flow in rest.into_iter().map(|at| &self.flows[at]) {
            unlisted.flows += 1;
            unlisted.packets += flow.packets;
            unlisted.ip_bytes += flow.ip_bytes;
        }
        let flows = listed
            .into_iter()
            .map(|at| DatagramFlowInfo {
                measured: self.measured[at].map(measured_info),
                ..flow_info(&self.flows[at], &self.rtp[at], self.spin[at])
            })
            .collect();
        (packets > 0).then_some(DatagramsInfo {
            packets,
            ip_bytes,
            judged_packets,
            judged_ip_bytes,
            flows,
            unlisted,
        })
    }
}

fn flow_info(flow: &Flow, rtp: &[RtpStream], spin: Option<Spin>) -> DatagramFlowInfo {
    let seconds = |time_ns: i64| time_ns as f64 * 1e-9;
    DatagramFlowInfo {
        flow: flow.name(),
        packets: flow.packets,
        ip_bytes: flow.ip_bytes,
        start: seconds(flow.first_ns),
        end: seconds(flow.last_ns),
        ce_marked: flow.ce_marked,
        ect0: flow.ect0,
        ect1: flow.ect1,
        rtp: rtp.iter().map(rtp_info).collect(),
        spin: spin.map(|spin| SpinInfo {
            round_trips: spin.round_trips,
            rtt_min_s: spin.rtt_min_s,
            rtt_median_s: spin.rtt_median_s,
        }),
        measured: None,
    }
}

fn measured_info(measured: Measured) -> MeasuredInfo {
    let trips = measured.round_trips;
    MeasuredInfo {
        kind: measured.kind.name(),
        told: measured.known.map(|known| known.packets),
        lost: measured.known.map(|known| known.lost),
        rtt_min_s: trips.map(|trips| trips.min_s),
        rtt_median_s: trips.map(|trips| trips.median_s),
        rtt_p95_s: trips.map(|trips| trips.high_s),
        waited_median_s: measured.waited_s.map(|[median_s, _]| median_s),
        waited_p95_s: measured.waited_s.map(|[_, high_s]| high_s),
    }
}

fn rtp_info(stream: &RtpStream) -> RtpInfo {
    RtpInfo {
        ssrc: format!("{:#010x}", stream.source),
        payload_type: stream.payload_type,
        clock_hz: stream.clock_hz,
        packets: stream.received,
        expected: stream.expected,
        lost: stream.lost,
        loss_runs: stream.loss_runs,
        duplicates: stream.duplicates,
        reordered: stream.reordered,
        jitter_s: stream.jitter_s,
        jitter_mean_s: stream.jitter_mean_s,
        jitter_max_s: stream.jitter_max_s,
        codec: stream.codec,
        mos: stream.opinion_score,
        reported: reported_info(stream),
    }
}

fn reported_info(stream: &RtpStream) -> Option<ReportedInfo> {
    let last = stream.reports.last()?;
    let jitter_s = |ticks: f64| ticks / stream.clock_hz;
    let ticks = || stream.reports.iter().map(|one| f64::from(one.jitter_ticks));
    let mut trips_ns: Vec<i64> = stream
        .reports
        .iter()
        .filter_map(|one| one.round_trip_ns)
        .collect();
    trips_ns.sort_unstable();
    let seconds = |ns: &i64| *ns as f64 * 1e-9;
    Some(ReportedInfo {
        reports: stream.reports.len() as u64,
        lost: i64::from(last.lost),
        lost_share_max: stream
            .reports
            .iter()
            .map(|one| one.lost_share)
            .fold(0.0, f64::max),
        jitter_mean_s: jitter_s(ticks().sum::<f64>() / stream.reports.len() as f64),
        jitter_max_s: jitter_s(ticks().fold(0.0, f64::max)),
        rtt_min_s: trips_ns.first().map(seconds),
        rtt_median_s: trips_ns.get(trips_ns.len() / 2).map(seconds),
    })
}
