//! The capture of a simulation: the packets that the sniffer recorded, as it wrote them.

use std::io::{self, Write};

use whydrop_hosts::{Segment, Toward};
use whydrop_path::Random;

use crate::headers::Endpoints;
use crate::pair::{self, Body, Ends, Point, Seen, Sniffer};
use crate::pcap::EPOCH_NS;
use whydrop_network::history::History;
use whydrop_network::{CaptureConfig, FlowConfig};

/// Linux builds segments of at most this much payload for a network card that segments (64 KB with headers).
const OFFLOAD_BYTES: u32 = 64_000;
/// Packets further apart than this were not passed to the card together.
const OFFLOAD_GAP_NS: i64 = 5_000;

/// Writes what the sniffer recorded of a history. Returns the number of frames in the file and of packets missed.
pub fn write_capture(
    out: impl Write,
    history: &History,
    flows: &[FlowConfig],
    config: &CaptureConfig,
    seed: u64,
) -> io::Result<(usize, usize)> {
    let mut random = Random::new(seed ^ 0x5eed_ca97);
    let ends = flows.iter().map(|flow| ends(flow, &mut random)).collect();
    let mut records = Vec::new();
    let mut missed = 0;
    for record in &history.records {
        if random.chance(config.missed) {
            missed += 1;
            continue;
        }
        if let Some(segment) = history.packets[record.packet].segment_before(config.tap) {
            records.push(Seen {
                time_ns: record.time_ns,
                stamp_ns: EPOCH_NS + record.time_ns,
                body: Body::Tcp(segment),
                packets: 1,
            });
        }
    }
    if config.segmentation_offload && config.tap == 0 {
        records = merge(records, flows);
    }
    // There are ten routers on the path; those before the tap have decremented the time to live of data.
    let before_tap = (10 * config.tap / history.stage_names.len().max(1)) as u8;
    let sniffer = Sniffer {
        snaplen: config.snaplen,
        resolution: config.resolution,
        ttl_forward: 64 - before_tap,
        ttl_reverse: 64 - (10 - before_tap),
        ..Sniffer::new(Point::B)
    };
    let frames = records.len();
    pair::write_records(out, &sniffer, &records, false, &(ends, Vec::new()))?;
    Ok((frames, missed))
}

fn ends(flow: &FlowConfig, random: &mut Random) -> Ends {
    let header = if flow.timestamps { 12 } else { 0 };
    Ends {
        client: flow.client.into(),
        server: flow.server.into(),
        tcp: Endpoints {
            client_port: flow.client_port,
            server_port: flow.server_port,
            client_isn: random.next_u64() as u32,
            server_isn: random.next_u64() as u32,
            mss: u16::try_from(flow.sender.mss + header).unwrap_or(u16::MAX),
            sack: flow.receiver.sack,
        },
        payload_seed: None,
    }
}

/// Joins consecutive full segments of one connection that were passed to the card together.
fn merge(records: Vec<Seen>, flows: &[FlowConfig]) -> Vec<Seen> {
    let mut merged: Vec<Seen> = Vec::with_capacity(records.len());
    let mut last_ns = i64::MIN;
    for record in records {
        let is_close = record.time_ns.saturating_sub(last_ns) <= OFFLOAD_GAP_NS;
        last_ns = record.time_ns;
        if let Some(Body::Tcp(a)) = merged.last_mut().map(|last| &mut last.body)
            && let Body::Tcp(b) = record.body
            && is_close
            && are_joined(a, &b, flows[a.flow].sender.mss as u32)
        {
            a.payload_bytes += b.payload_bytes;
            a.flags |= b.flags;
        } else {
            merged.push(record);
        }
    }
    merged
}

fn are_joined(a: &Segment, b: &Segment, mss: u32) -> bool {
    a.flow == b.flow
        && a.toward == Toward::Client
        && b.toward == Toward::Client
        && a.payload_bytes > 0
        && a.payload_bytes.is_multiple_of(mss)
        && b.payload_bytes > 0
        && a.end() == b.sequence
        && !a.reason.is_retransmission()
        && !b.reason.is_retransmission()
        && a.acknowledgment == b.acknowledgment
        && a.payload_bytes + b.payload_bytes <= OFFLOAD_BYTES
}
