//! The truth that belongs to a capture, which shows only a part of it.

use serde_json::{Value, json};
use whydrop_hosts::{Reason, Segment, Toward};

use whydrop_network::FlowConfig;
use whydrop_network::history::{History, PacketFate};
use whydrop_network::limiter::Account;

/// The fate of one connection's data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlowTruth {
    /// Data packets sent, including retransmissions.
    pub sent: u64,
    pub retransmitted: u64,
    /// In the order of [`Reason::RETRANSMISSIONS`].
    pub retransmitted_by_reason: [u64; 3],
    /// Lost on the path, by the index of the stage that dropped them.
    pub lost_by_stage: Vec<u64>,
    /// Data packets that arrived with a mark, by the stage that set it (RFC 3168).
    pub marked_by_stage: Vec<u64>,
    /// Of all losses, those sent since the capture began.
    pub lost_since_capture_began: u64,
    /// Delivered with an excess delay of at least 5 ms and a tenth of the least delay.
    pub delayed: u64,
    pub delivered: u64,
    /// Arrived although all its data had arrived before.
    pub duplicate: u64,
    /// Arrived after a packet that was sent later.
    pub reordered: u64,
    /// Distinct payload bytes that arrived.
    pub payload_bytes: u64,
    pub first_data_ns: Option<i64>,
    pub last_data_ns: Option<i64>,
    /// Its limiters, moment by moment.
    pub account: Account,
}

impl FlowTruth {
    pub fn marked(&self) -> u64 {
        self.marked_by_stage.iter().sum()
    }

    pub fn lost(&self) -> u64 {
        self.lost_by_stage.iter().sum()
    }

    /// Payload divided by the time from the first data packet sent to the last one delivered.
    pub fn goodput_bps(&self) -> f64 {
        match (self.first_data_ns, self.last_data_ns) {
            (Some(first), Some(last)) if last > first => {
                self.payload_bytes as f64 * 8e9 / (last - first) as f64
            }
            _ => 0.0,
        }
    }

    fn to_json(&self, flow: &FlowConfig, stage_names: &[&str]) -> Value {
        let name =
            |ip: [u8; 4], port: u16| format!("{}.{}.{}.{}:{port}", ip[0], ip[1], ip[2], ip[3]);
        let by_stage = |counts: &[u64]| -> serde_json::Map<String, Value> {
            let named = stage_names.iter().zip(counts);
            named
                .map(|(name, count)| (name.to_string(), json!(count)))
                .collect()
        };
        let by_reason: serde_json::Map<String, Value> = Reason::RETRANSMISSIONS
            .iter()
            .zip(self.retransmitted_by_reason)
            .map(|(reason, count)| (reason.name().into(), json!(count)))
            .collect();
        json!({
            "flow": format!("{} > {}", name(flow.server, flow.server_port), name(flow.client, flow.client_port)),
            "client_port": flow.client_port,
            "captured": flow.captured,
            "algorithm": format!("{:?}", flow.sender.algorithm),
            "application": format!("{:?}", flow.application),
            "sent": self.sent,
            "retransmitted": self.retransmitted,
            "retransmitted_by_reason": by_reason,
            "lost": self.lost(),
            "lost_since_capture_began": self.lost_since_capture_began,
            "lost_by_stage": by_stage(&self.lost_by_stage),
            "ce_marked": self.marked(),
            "ce_marked_by_stage": by_stage(&self.marked_by_stage),
            "delayed": self.delayed,
            "delivered": self.delivered,
            "duplicate": self.duplicate,
            "reordered": self.reordered,
            "payload_bytes": self.payload_bytes,
            "goodput_bps": self.goodput_bps(),
            "limits": self.account.to_json(),
        })
    }
}

/// The truth of each connection, in the order of the scenario.
pub fn flow_truths(history: &History, flows: &[FlowConfig]) -> Vec<FlowTruth> {
    let stages = history.stage_names.len();
    let mut truths: Vec<FlowTruth> = flows
        .iter()
        .map(|_| FlowTruth {
            lost_by_stage: vec![0; stages],
            marked_by_stage: vec![0; stages],
            ..FlowTruth::default()
        })
        .collect();
    // Arrivals in order: (time, order of sending, packet).
    let mut arrivals = Vec::new();
    for (index, packet) in history.packets.iter().enumerate() {
        let Some(segment) = packet
            .segment
            .filter(|s| s.toward == Toward::Client && s.payload_bytes > 0)
        else {
            continue;
        };
        let truth = &mut truths[segment.flow];
        truth.sent += 1;
        truth.retransmitted += u64::from(segment.reason.is_retransmission());
        if let Some(place) = Reason::RETRANSMISSIONS
            .iter()
            .position(|&r| r == segment.reason)
        {
            truth.retransmitted_by_reason[place] += 1;
        }
        truth.first_data_ns.get_or_insert(packet.sent_ns);
        match packet.fate {
            PacketFate::Delivered { time_ns } => {
                if let Some(stage) = packet.marked {
                    truth.marked_by_stage[stage] += 1;
                }
                arrivals.push((time_ns, index, segment));
            }
            PacketFate::Dropped { stage } => {
                truth.lost_by_stage[stage] += 1;
                truth.lost_since_capture_began +=
                    u64::from(packet.sent_ns >= history.capture_begins_ns);
            }
            PacketFate::InFlight | PacketFate::LostReturning => {}
        }
    }
    count_delayed(history, &arrivals, &mut truths);
    arrivals.sort_by_key(|&(time_ns, index, _)| (time_ns, index));
    let mut seen: Vec<std::collections::HashSet<u64>> = vec![Default::default(); flows.len()];
    let mut latest_sent = vec![0; flows.len()];
    for (time_ns, index, segment) in arrivals {
        let truth = &mut truths[segment.flow];
        truth.delivered += 1;
        truth.last_data_ns = Some(time_ns);
        // Segments keep their boundaries when retransmitted, so the first sequence number identifies them.
        if seen[segment.flow].insert(segment.sequence) {
            truth.payload_bytes += u64::from(segment.payload_bytes);
        } else {
            truth.duplicate += 1;
        }
        truth.reordered += u64::from(index < latest_sent[segment.flow]);
        latest_sent[segment.flow] = latest_sent[segment.flow].max(index);
    }
    for (truth, account) in truths.iter_mut().zip(Account::of_all(history)) {
        truth.account = account;
    }
    truths
}

fn count_delayed(history: &History, arrivals: &[(i64, usize, Segment)], truths: &mut [FlowTruth]) {
    let delay_ns = |time_ns: i64, index: usize| time_ns - history.packets[index].sent_ns;
    let mut least_ns = vec![i64::MAX; truths.len()];
    for &(time_ns, index, segment) in arrivals {
        least_ns[segment.flow] = least_ns[segment.flow].min(delay_ns(time_ns, index));
    }
    for &(time_ns, index, segment) in arrivals {
        let least_ns = least_ns[segment.flow];
        let more_ns = delay_ns(time_ns, index) - least_ns;
        truths[segment.flow].delayed += u64::from(more_ns >= 5_000_000.max(least_ns / 10));
    }
}

/// All connections of a history as JSON.
pub fn flows_json(truths: &[FlowTruth], flows: &[FlowConfig], history: &History) -> Value {
    let of = |(truth, flow): (&FlowTruth, &FlowConfig)| truth.to_json(flow, &history.stage_names);
    Value::Array(truths.iter().zip(flows).map(of).collect())
}

/// Hidden packets: (sent, dropped).
pub fn cross_traffic(history: &History) -> (u64, u64) {
    let hidden = history
        .packets
        .iter()
        .filter(|packet| packet.is_cross_traffic());
    hidden.fold((0, 0), |(sent, dropped), packet| {
        (
            sent + 1,
            dropped + u64::from(matches!(packet.fate, PacketFate::Dropped { .. })),
        )
    })
}
