//! Kinds without drops: windows, applications, reordering, and faults of the capture itself.

use serde_json::json;
use whydrop_path::{Chain, Fifo, Jitter, Limit, Random};

use super::draw::{Element, MS, chunks, note, set_element};
use super::{Case, Kind};
use crate::scenario::Application;

const MBIT: f64 = 1e6;

pub(super) fn apply(case: &mut Case, random: &mut Random) {
    match case.kind {
        Kind::Reordering => reordering(case, random),
        Kind::ReceiverWindow => receiver_window(case, random),
        Kind::SlowReader => slow_reader(case, random),
        Kind::Stream => stream(case, random),
        Kind::SendBuffer => send_buffer(case, random),
        Kind::CaptureLoss => capture_loss(case, random),
        _ => chunks(case, 20_000_000, 400_000, random),
    }
}

/// A fast link that is never full: the limiter is elsewhere.
fn fast_link(case: &mut Case, random: &mut Random) -> u64 {
    let rate_bps = (random.log_uniform(100.0, 1_000.0) * MBIT) as u64;
    note(case, "link_rate_bps", rate_bps);
    set_element(case, Box::new(Fifo::new(rate_bps, Limit::NONE)));
    rate_bps
}

/// Packets overtake each other, behind a link that spaces them.
fn reordering(case: &mut Case, random: &mut Random) {
    let rate_bps = (random.log_uniform(5.0, 200.0) * MBIT) as u64;
    let spread_ns = (random.log_uniform(0.3, 8.0) * MS as f64) as i64;
    note(case, "link_rate_bps", rate_bps);
    note(case, "reordering_ms", json!(spread_ns as f64 / 1e6));
    let jitter = Jitter::new(0, spread_ns, random.next_u64()).reordering();
    let elements: Vec<Element> = vec![Box::new(Fifo::new(rate_bps, Limit::NONE)), Box::new(jitter)];
    set_element(case, Box::new(Chain::new(elements)));
    chunks(case, rate_bps, 500_000, random);
}

/// A receive buffer below the bandwidth-delay product.
fn receiver_window(case: &mut Case, random: &mut Random) {
    let rate_bps = fast_link(case, random);
    let product_bytes = rate_bps as f64 / 8.0 * case.facts.rtt_ns as f64 / 1e9;
    let share = random.uniform(0.05, 0.5);
    let window_bytes = (product_bytes * share).clamp(16_000.0, 2_000_000.0) as u64;
    note(case, "window_bytes", window_bytes);
    let flow = &mut case.scenario.flows[0];
    flow.receiver.buffer_bytes = window_bytes;
    flow.receiver.initial_window_bytes = window_bytes.min(64_000);
    let limit_bps = window_bytes as f64 * 8e9 / case.facts.rtt_ns as f64;
    chunks(case, limit_bps as u64, 20 * window_bytes, random);
}

fn slow_reader(case: &mut Case, random: &mut Random) {
    fast_link(case, random);
    let read_bps = (random.log_uniform(0.5, 20.0) * MBIT) as u64;
    note(case, "read_rate_bps", read_bps);
    let flow = &mut case.scenario.flows[0];
    flow.receiver.read_rate_bps = Some(read_bps);
    flow.receiver.buffer_bytes = random.log_uniform(64_000.0, 500_000.0) as u64;
    chunks(case, read_bps, 2_000_000, random);
}

/// The application delivers data in small portions.
fn stream(case: &mut Case, random: &mut Random) {
    fast_link(case, random);
    let rate_bps = (random.log_uniform(0.3, 15.0) * MBIT) as u64;
    let interval_ns = (random.log_uniform(20.0, 1_000.0) * MS as f64) as i64;
    let bytes = ((rate_bps as f64 / 8.0 * interval_ns as f64 / 1e9) as u64).max(2_000);
    let count = (30_000 * MS / interval_ns).max(20) as u32;
    note(case, "application_rate_bps", rate_bps);
    note(case, "interval_ms", json!(interval_ns as f64 / 1e6));
    case.scenario.flows[0].application = Application::Stream {
        bytes,
        count,
        interval_ns,
    };
}

/// A send buffer below the bandwidth-delay product.
fn send_buffer(case: &mut Case, random: &mut Random) {
    let rate_bps = fast_link(case, random);
    let product_bytes = rate_bps as f64 / 8.0 * case.facts.rtt_ns as f64 / 1e9;
    let buffer_bytes =
        (product_bytes * random.uniform(0.05, 0.4)).clamp(16_000.0, 1_000_000.0) as u64;
    note(case, "send_buffer_bytes", buffer_bytes);
    case.scenario.flows[0].sender.buffer_bytes = buffer_bytes;
    let limit_bps = buffer_bytes as f64 * 8e9 / case.facts.rtt_ns as f64;
    chunks(case, limit_bps as u64, 20 * buffer_bytes, random);
}

/// A sniffer that is too slow.
fn capture_loss(case: &mut Case, random: &mut Random) {
    fast_link(case, random);
    let missed = random.log_uniform(0.002, 0.05);
    note(case, "missed_by_sniffer", missed);
    case.scenario.capture.missed = missed;
    case.scenario.capture.segmentation_offload = false;
    chunks(case, 20_000_000, 500_000, random);
}
