//! The kinds of pairs with hosts that limit their own transfers, and a path with an outage.

use whydrop_hosts::{Pacing, StopsReading};
use whydrop_path::Random;

use super::paths::{behave, set_wide_link, slow_line};
use super::{allowed_bps, set_receive_buffer, small_buffer};
use crate::suite::world::{MBIT, MOST_BYTES, MS, World, logarithmic_ns, pair, pick};
use whydrop_network::{Application, Behaviour};

/// A path that limits nothing.
fn wide_path(world: &mut World, random: &mut Random) {
    set_wide_link(world, random);
    world.parameter("drops", false);
}

/// The application delivers data in small portions.
pub fn application(world: &mut World, random: &mut Random) {
    wide_path(world, random);
    let rate_bps = (random.log_uniform(1.0, 20.0) * MBIT) as u64;
    let interval_ns = logarithmic_ns(10.0, 500.0, random);
    let bytes = (rate_bps as f64 / 8.0 * interval_ns as f64 / 1e9) as u64;
    world.parameter("app_rate_bps", rate_bps);
    world.scenario.flows[0].application = Application::Stream {
        bytes: bytes.max(1_000),
        count: (world.scenario.end_ns * 4 / 5 / interval_ns).max(10) as u32,
        interval_ns,
    };
}

/// A receive buffer below the bandwidth-delay product.
pub fn receiver_window(world: &mut World, random: &mut Random) {
    wide_path(world, random);
    let window_bytes = small_buffer(world.product_bytes(world.line_bps), 0.5, 1e6, random);
    world.parameter("receiver_buffer_bytes", window_bytes);
    set_receive_buffer(world, window_bytes);
    world.transfer(allowed_bps(world, window_bytes), 20 * window_bytes, random);
}

/// An application that reads slowly.
pub fn slow_reader(world: &mut World, random: &mut Random) {
    wide_path(world, random);
    let read_bps = (random.log_uniform(1.0, 20.0) * MBIT) as u64;
    let buffer_bytes = random.log_uniform(64_000.0, 500_000.0) as u64;
    world.parameter("read_rate_bps", read_bps);
    world.parameter("rcvbuf_bytes", buffer_bytes);
    let receiver = &mut world.scenario.flows[0].receiver;
    (receiver.read_rate_bps, receiver.buffer_bytes) = (Some(read_bps), buffer_bytes);
    world.transfer(read_bps, 1_000_000, random);
}

/// A send buffer below the bandwidth-delay product.
pub fn send_buffer(world: &mut World, random: &mut Random) {
    wide_path(world, random);
    let buffer_bytes = small_buffer(world.product_bytes(world.line_bps), 0.4, 1e6, random);
    world.parameter("send_buffer_bytes", buffer_bytes);
    world.scenario.flows[0].sender.buffer_bytes = buffer_bytes;
    world.transfer(allowed_bps(world, buffer_bytes), 30 * buffer_bytes, random);
}

/// A rate set by the application or the administrator.
pub fn paced(world: &mut World, random: &mut Random) {
    wide_path(world, random);
    let rate_bps = (random.log_uniform(1.0, 100.0) * MBIT) as u64;
    world.parameter("pacing_rate_bps", rate_bps);
    world.scenario.flows[0].sender.pacing = Pacing::Rate(rate_bps);
    world.transfer(rate_bps, 1_000_000, random);
}

/// The reader stops for a while.
pub fn closed_window(world: &mut World, random: &mut Random) {
    wide_path(world, random);
    world.scenario.end_ns = 40_000 * MS;
    let bytes = random.log_uniform(800_000.0, 4_000_000.0) as u64;
    let buffer_bytes = random.log_uniform(64_000.0, 400_000.0) as u64;
    let stops = StopsReading {
        after_bytes: (bytes as f64 * random.uniform(0.1, 0.6)) as u64,
        for_ns: logarithmic_ns(2_000.0, 15_000.0, random),
    };
    world.parameter("rcvbuf_bytes", buffer_bytes);
    world.parameter("stops_for_ms", stops.for_ns as f64 / 1e6);
    set_receive_buffer(world, buffer_bytes);
    let flow = &mut world.scenario.flows[0];
    flow.receiver.stops_reading = Some(stops);
    flow.application = Application::Chunks {
        bytes,
        count: 1,
        pause_ns: 0,
    };
}

/// Small writes under Nagle's algorithm, or a send buffer of about a segment, with a receiver that waits for a second
/// segment.
pub fn delayed_ack(world: &mut World, random: &mut Random) {
    wide_path(world, random);
    world.scenario.end_ns = 40_000 * MS;
    let by_nagle = random.chance(0.6);
    let delay_ms = *pick(&[40, 40, 40, 200], random);
    world.parameter("delayed_ack_ms", delay_ms);
    world.parameter("nagle", by_nagle);
    let flow = &mut world.scenario.flows[0];
    flow.receiver.segments_per_ack = 2;
    flow.receiver.delayed_ack_ns = delay_ms * MS;
    flow.receiver.quick_acks = *pick(&[0, 0, 16], random);
    flow.sender.tail_loss_probe = false;
    if by_nagle {
        flow.sender.nagle = true;
        flow.application = Application::Answers {
            bytes: 50 + random.below(600),
            writes: 2,
            gap_ns: 0,
            count: 150 + random.below(250) as u32,
            pause_ns: 0,
        };
    } else {
        flow.sender.buffer_bytes = flow.sender.mss;
        flow.application = Application::Chunks {
            bytes: flow.sender.mss * (280 + random.below(300)),
            count: 1,
            pause_ns: 0,
        };
    }
}

/// Requests that are answered late.
pub fn peer_application(world: &mut World, random: &mut Random) {
    wide_path(world, random);
    world.scenario.end_ns = 60_000 * MS;
    let thinks_ns = logarithmic_ns(200.0, 8_000.0, random).max(2 * world.rtt_ns);
    let count = 2 + random.below(4) as u32;
    world.parameter("answers_after_ms", thinks_ns as f64 / 1e6);
    world.extras.behaviours = vec![Behaviour {
        answers_after_ns: thinks_ns,
        ..Behaviour::default()
    }];
    world.scenario.flows[0].application = Application::Chunks {
        bytes: random.log_uniform(120_000.0, 600_000.0) as u64 * 2,
        count,
        pause_ns: logarithmic_ns(1.0, 300.0, random),
    };
}

/// No packet passes for a while, then all do again.
pub fn outage(world: &mut World, random: &mut Random) {
    slow_line(world, random);
    set_wide_link(world, random);
    world.parameter("drops", true);
    let rate_bps = world.line_bps.min(50_000_000);
    if world.line_bps > rate_bps {
        world.set_line(rate_bps);
    }
    let from_ns = logarithmic_ns(500.0, 3_000.0, random);
    let for_ns = logarithmic_ns(300.0, 6_000.0, random);
    world.scenario.end_ns = world.scenario.end_ns.max(30_000 * MS);
    world.parameter("outage_from_ms", from_ns as f64 / 1e6);
    world.parameter("outage_ms", for_ns as f64 / 1e6);
    world.extras.outages = vec![(from_ns, from_ns + for_ns)];
    world.extras.outage_stage = pair::ELEMENT;
    behave(
        world,
        Behaviour {
            client_repeats: true,
            ..Behaviour::default()
        },
    );
    // Long enough to meet the outage in its middle.
    let bytes = (rate_bps as f64 / 8.0 * (from_ns as f64 / 1e9 + 2.0)) as u64;
    world.scenario.flows[0].application = Application::Chunks {
        bytes: bytes.min(MOST_BYTES),
        count: 1,
        pause_ns: 0,
    };
}
