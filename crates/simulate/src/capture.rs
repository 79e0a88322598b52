//! The capture of a simulation: the packets that the sniffer recorded, as it wrote them.

use std::io::{self, Write};

use whydrop_hosts::{Segment, Toward};
use whydrop_path::Random;

use crate::history::History;
use crate::pcap::{Endpoints, Resolution, Writer};
use crate::scenario::{CaptureConfig, FlowConfig};

/// Simulations begin at this time: 2024-05-14 09:26:40 UTC.
pub const EPOCH_NS: i64 = 1_715_678_800_000_000_000;
/// Linux builds segments of at most this much payload for a network card that segments (64 KB with headers).
const OFFLOAD_BYTES: u32 = 64_000;
/// Packets further apart than this were not passed to the card together.
const OFFLOAD_GAP_NS: i64 = 5_000;

/// A frame of the capture file.
#[derive(Debug, Clone, Copy)]
struct Frame {
    time_ns: i64,
    segment: Segment,
}

/// Writes what the sniffer recorded of a history. Returns the number of frames in the file and of packets missed.
pub fn write_capture(
    out: impl Write,
    history: &History,
    flows: &[FlowConfig],
    config: &CaptureConfig,
    seed: u64,
) -> io::Result<(usize, usize)> {
    let mut random = Random::new(seed ^ 0x5eed_ca97);
    let ends: Vec<Endpoints> = flows
        .iter()
        .map(|flow| endpoints(flow, config, history, &mut random))
        .collect();
    let mut frames = Vec::new();
    let mut missed = 0;
    for record in &history.records {
        if random.chance(config.missed) {
            missed += 1;
            continue;
        }
        if let Some(segment) = history.packets[record.packet].segment_before(config.tap) {
            frames.push(Frame {
                time_ns: record.time_ns,
                segment,
            });
        }
    }
    if config.segmentation_offload && config.tap == 0 {
        frames = merge(frames, flows);
    }
    let mut writer = Writer::new(out, config.snaplen, config.resolution)?;
    for frame in &frames {
        writer.write(
            EPOCH_NS + frame.time_ns,
            &frame.segment,
            &ends[frame.segment.flow],
        )?;
    }
    writer.finish()?;
    Ok((frames.len(), missed))
}

fn endpoints(
    flow: &FlowConfig,
    config: &CaptureConfig,
    history: &History,
    random: &mut Random,
) -> Endpoints {
    // There are ten routers on the path; those before the tap have decremented the time to live of data.
    let stages = history.stage_names.len().max(1);
    let before_tap = (10 * config.tap / stages) as u8;
    let header = if flow.timestamps { 12 } else { 0 };
    Endpoints {
        client: flow.client,
        server: flow.server,
        client_port: flow.client_port,
        server_port: flow.server_port,
        client_isn: random.next_u64() as u32,
        server_isn: random.next_u64() as u32,
        mss: u16::try_from(flow.sender.mss + header).unwrap_or(u16::MAX),
        client_window_scale: whydrop_hosts::WINDOW_SCALE,
        server_window_scale: whydrop_hosts::WINDOW_SCALE,
        sack: flow.receiver.sack,
        client_ttl: 64 - (10 - before_tap),
        server_ttl: 64 - before_tap,
    }
}

/// Joins consecutive full segments of one connection that were passed to the card together.
fn merge(frames: Vec<Frame>, flows: &[FlowConfig]) -> Vec<Frame> {
    let mut merged: Vec<Frame> = Vec::with_capacity(frames.len());
    let mut last_ns = i64::MIN;
    for frame in frames {
        let joins = merged.last().is_some_and(|last| {
            let mss = flows[last.segment.flow].sender.mss as u32;
            let (a, b) = (&last.segment, &frame.segment);
            a.flow == b.flow
                && a.toward == Toward::Client
                && b.toward == Toward::Client
                && a.payload_bytes > 0
                && a.payload_bytes % mss == 0
                && b.payload_bytes > 0
                && a.end() == b.sequence
                && !a.reason.is_retransmission()
                && !b.reason.is_retransmission()
                && a.acknowledgment == b.acknowledgment
                && a.payload_bytes + b.payload_bytes <= OFFLOAD_BYTES
                && frame.time_ns - last_ns <= OFFLOAD_GAP_NS
        });
        last_ns = frame.time_ns;
        match merged.last_mut() {
            Some(last) if joins => {
                last.segment.payload_bytes += frame.segment.payload_bytes;
                last.segment.flags |= frame.segment.flags;
            }
            _ => merged.push(frame),
        }
    }
    merged
}

/// The name of a resolution in a truth file.
pub fn resolution_name(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::Nanoseconds => "ns",
        Resolution::Microseconds => "us",
    }
}
