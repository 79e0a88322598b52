//! Mechanisms on the path, with parameters over wide ranges.

use whydrop_path::{
    Chain, CoDel, Fifo, InService, Jitter, Limit, Pie, Random, RandomLoss, Red, Shaper,
};

use super::detour::Detour;
use super::draw::{BEFORE_STAGE, BEYOND_STAGE, ELEMENT_STAGE, MS, World, logarithmic_ns, pick};
use super::kind::Mechanism;
use super::policer::Element;
use super::policer::FULL_PACKET_BYTES;
use super::policers;
use super::settings::{
    MBIT, byte_basis, more_connections, outrun, put_behind, set_wide_link, slow_line, wide_link,
};
use super::{disciplines, hosts};
use crate::scenario::{Application, CrossTraffic};

pub fn apply(world: &mut World, random: &mut Random) {
    match world.mechanism {
        Mechanism::Policer
        | Mechanism::PolicerDualRate
        | Mechanism::PolicerThenShaper
        | Mechanism::ShaperThenPolicer => policers::apply(world, random),
        Mechanism::ShallowFifoPackets
        | Mechanism::ShallowFifoBytes
        | Mechanism::DeepFifoPackets
        | Mechanism::DeepFifoBytes
        | Mechanism::CrossTraffic => fifo(world, random),
        Mechanism::Shaper => shaper(world, random),
        Mechanism::CoDel | Mechanism::Pie | Mechanism::Red => managed_queue(world, random),
        Mechanism::RandomLoss
        | Mechanism::BurstLoss
        | Mechanism::LossBeyondY
        | Mechanism::LossBeforeB => chance(world, random),
        Mechanism::AckLoss => ack_loss(world, random),
        Mechanism::Reorder | Mechanism::Jitter => uneven_delay(world, random),
        Mechanism::None => {
            slow_line(world, random);
            set_wide_link(world, random);
            more_connections(world, random);
            world.transfer(world.line_bps, 400_000, random);
        }
        Mechanism::AppLimited => application(world, random),
        Mechanism::RwndLimited | Mechanism::SlowReader => receiver(world, random),
        Mechanism::FqCoDel
        | Mechanism::Cake
        | Mechanism::FqPie
        | Mechanism::DualPi2
        | Mechanism::EcnMark
        | Mechanism::TwoRatePolicerAndLoss
        | Mechanism::TickShaper
        | Mechanism::StandingQueue
        | Mechanism::SlowWayBack
        | Mechanism::Batching => disciplines::apply(world, random),
        Mechanism::SendBuffer
        | Mechanism::Paced
        | Mechanism::ClosedWindow
        | Mechanism::DelayedAck
        | Mechanism::PeerApplication
        | Mechanism::Outage => hosts::apply(world, random),
    }
}

/// Packets that the queue can store, and its drain rate. A shallow queue overflows before it delays much; a deep one
/// first adds at least as much as the path's own round trip.
fn queue(world: &World, random: &mut Random) -> (u64, u64) {
    let rtt_s = world.rtt_ns as f64 / 1e9;
    let deep = match world.mechanism {
        Mechanism::DeepFifoPackets | Mechanism::DeepFifoBytes => true,
        Mechanism::CrossTraffic => random.chance(0.5),
        _ => false,
    };
    let bits = |packets: f64| packets * FULL_PACKET_BYTES as f64 * 8.0;
    if deep {
        let packets = random.log_uniform(100.0, 2_000.0);
        let least_s = rtt_s.max(0.02);
        let full_s = random.log_uniform(least_s, (8.0 * least_s).clamp(0.1, 1.5));
        let rate = (bits(packets) / full_s).clamp(2.0 * MBIT, 1_000.0 * MBIT);
        return (packets as u64, rate as u64);
    }
    let packets = random.log_uniform(5.0, 40.0);
    // A full queue adds at most a third of the round trip.
    let least_bps = (bits(packets) / (rtt_s / 3.0)).max(2.0 * MBIT);
    let rate = random.log_uniform(least_bps.min(500.0 * MBIT), 1_000.0 * MBIT);
    (packets as u64, rate as u64)
}

fn fifo(world: &mut World, random: &mut Random) {
    let (packets, rate_bps) = queue(world, random);
    let in_bytes = match world.mechanism {
        Mechanism::ShallowFifoBytes | Mechanism::DeepFifoBytes => true,
        Mechanism::CrossTraffic => random.chance(0.3),
        _ => false,
    };
    let in_service = match random.chance(0.3) {
        true => InService::Counted,
        false => InService::NotCounted,
    };
    world.parameter("drain_rate_bps", rate_bps);
    world.parameter("in_service", format!("{in_service:?}"));
    world.parameter("queue", true);
    let overhead_bytes = byte_basis(world, random);
    outrun(world, rate_bps);
    let limit = if in_bytes {
        let bytes = packets * FULL_PACKET_BYTES + random.below(FULL_PACKET_BYTES);
        world.parameter("queue_limit_bytes", bytes);
        Limit::bytes(bytes)
    } else {
        world.parameter("queue_limit_packets", packets);
        Limit::packets(packets)
    };
    let element = Fifo::new(rate_bps, limit)
        .with_in_service(in_service)
        .with_overhead(overhead_bytes);
    world.set_element(Box::new(element));
    more_connections(world, random);
    let product_bytes = (rate_bps as f64 / 8.0 * world.rtt_ns as f64 / 1e9) as u64;
    world.transfer(
        rate_bps,
        5 * (product_bytes + packets * FULL_PACKET_BYTES),
        random,
    );
    if world.mechanism == Mechanism::CrossTraffic {
        hidden_traffic(world, rate_bps, random);
    }
}

/// Packets that appear in neither capture use the same queue.
fn hidden_traffic(world: &mut World, rate_bps: u64, random: &mut Random) {
    let load = random.uniform(0.25, 0.65);
    let on_off = random.chance(0.4);
    let packet_bytes = *pick(&[1_500, 1_428, 1_428, 1_000, 576], random);
    world.parameter("cross_traffic_load", load);
    world.parameter("cross_traffic_packet_bytes", packet_bytes);
    world.scenario.cross_traffic.push(CrossTraffic {
        stage: ELEMENT_STAGE,
        rate_bps: (rate_bps as f64 * load * if on_off { 1.8 } else { 1.0 }) as u64,
        packet_bytes,
        poisson: random.chance(0.5),
        mean_on_ns: logarithmic_ns(50.0, 1_000.0, random),
        mean_off_ns: if on_off {
            logarithmic_ns(50.0, 1_000.0, random)
        } else {
            0
        },
        start_ns: 0,
    });
}

fn shaper(world: &mut World, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 300.0) * MBIT) as u64;
    let burst_bytes = random.log_uniform(1_600.0, 100_000.0) as u64;
    world.parameter("drain_rate_bps", rate_bps);
    world.parameter("shaper_burst_bytes", burst_bytes);
    world.parameter("queue", true);
    world.parameter("drops", false);
    let overhead_bytes = byte_basis(world, random);
    // A bucket smaller than a packet with its overhead would pass none.
    let burst_bytes = burst_bytes.max(FULL_PACKET_BYTES + u64::from(overhead_bytes));
    outrun(world, rate_bps);
    world.set_element(Box::new(
        Shaper::new(rate_bps, burst_bytes, Limit::NONE).with_overhead(overhead_bytes),
    ));
    more_connections(world, random);
    world.transfer(rate_bps, 4 * burst_bytes, random);
}

fn managed_queue(world: &mut World, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 200.0) * MBIT) as u64;
    let seed = random.next_u64();
    let packets_per_s = rate_bps as f64 / (8.0 * FULL_PACKET_BYTES as f64);
    // A limit that the queue never reaches because of early drops.
    let limit_packets = (packets_per_s as u64).max(300);
    let limit = Limit::packets(limit_packets);
    world.parameter("drain_rate_bps", rate_bps);
    world.parameter("limit_packets", limit_packets);
    world.parameter("queue", true);
    let overhead_bytes = byte_basis(world, random);
    let element: Element = match world.mechanism {
        Mechanism::CoDel => {
            let target_ms = *pick(&[5, 5, 5, 10, 15], random);
            world.parameter("target_ms", target_ms);
            world.parameter("interval_ms", 100);
            let codel = CoDel::new(rate_bps, limit).with_target(target_ms * MS, 100 * MS);
            Box::new(codel.with_overhead(overhead_bytes))
        }
        Mechanism::Pie => {
            let target_ms = *pick(&[15, 15, 20], random);
            world.parameter("target_ms", target_ms);
            let pie = Pie::new(rate_bps, limit, seed).with_target(target_ms * MS);
            Box::new(pie.with_overhead(overhead_bytes))
        }
        _ => {
            // Thresholds at 10 and 30 ms of packets, at least 5 and 15 of them.
            let min_packets = (packets_per_s * 0.01).max(5.0);
            let max_probability = random.uniform(0.02, 0.15);
            world.parameter("min_packets", min_packets);
            world.parameter("max_packets", 3.0 * min_packets);
            world.parameter("max_probability", max_probability);
            let red = Red::new(
                rate_bps,
                limit,
                min_packets,
                3.0 * min_packets,
                max_probability,
                seed,
            );
            Box::new(red.gentle().with_overhead(overhead_bytes))
        }
    };
    world.set_element(element);
    more_connections(world, random);
    world.transfer(rate_bps, 2_000_000, random);
}

fn chance(world: &mut World, random: &mut Random) {
    let loss = random.log_uniform(0.0008, 0.03);
    let seed = random.next_u64();
    world.parameter("loss_probability", loss);
    let in_bursts = match world.mechanism {
        Mechanism::BurstLoss => true,
        Mechanism::LossBeyondY | Mechanism::LossBeforeB => random.chance(0.3),
        _ => false,
    };
    let lossy: Element = if in_bursts && random.chance(0.7) {
        let mean_burst_packets = random.uniform(1.5, 4.0);
        world.parameter("mean_burst_packets", mean_burst_packets);
        Box::new(RandomLoss::bursts(loss, mean_burst_packets, seed))
    } else if in_bursts {
        let mean_outage_ns = logarithmic_ns(1.0, 30.0, random);
        world.parameter("mean_outage_ms", mean_outage_ns as f64 / 1e6);
        Box::new(RandomLoss::outages(loss, mean_outage_ns, seed))
    } else {
        Box::new(RandomLoss::independent(loss, seed))
    };
    match world.mechanism {
        Mechanism::LossBeyondY => put_behind(world, BEYOND_STAGE, lossy),
        Mechanism::LossBeforeB => put_behind(world, BEFORE_STAGE, lossy),
        _ => {
            slow_line(world, random);
            let link = wide_link(world, random);
            world.set_element(Box::new(Chain::new(vec![link, lossy])));
        }
    }
    more_connections(world, random);
    world.transfer(60_000_000, (40.0 / loss * 1_500.0) as u64, random);
}

fn ack_loss(world: &mut World, random: &mut Random) {
    let loss = random.log_uniform(0.003, 0.1);
    world.parameter("reverse_loss_probability", loss);
    world.watch.return_loss[1] = loss;
    slow_line(world, random);
    set_wide_link(world, random);
    world.transfer(world.line_bps, 2_000_000, random);
}

fn uneven_delay(world: &mut World, random: &mut Random) {
    slow_line(world, random);
    let link = wide_link(world, random);
    let seed = random.next_u64();
    let uneven: Element = if world.mechanism == Mechanism::Jitter {
        let spread_ns = logarithmic_ns(1.0, 8.0, random);
        world.parameter("jitter_ms", spread_ns as f64 / 1e6);
        world.parameter("reordering", false);
        Box::new(Jitter::new(0, spread_ns, seed))
    } else if random.chance(0.6) {
        let probability = random.log_uniform(0.003, 0.1);
        let extra_ns = logarithmic_ns(0.5, 10.0, random);
        world.parameter("detour_probability", probability);
        world.parameter("delay_ms", extra_ns as f64 / 1e6);
        Box::new(Detour::new(probability, extra_ns, seed))
    } else {
        let spread_ns = logarithmic_ns(0.3, 8.0, random);
        world.parameter("reordering_ms", spread_ns as f64 / 1e6);
        Box::new(Jitter::new(0, spread_ns, seed).reordering())
    };
    world.parameter("drops", false);
    world.set_element(Box::new(Chain::new(vec![link, uneven])));
    world.transfer(world.line_bps, 2_000_000, random);
}

/// The application delivers data in small portions.
fn application(world: &mut World, random: &mut Random) {
    set_wide_link(world, random);
    let rate_bps = (random.log_uniform(1.0, 20.0) * MBIT) as u64;
    let interval_ns = logarithmic_ns(10.0, 500.0, random);
    let bytes = ((rate_bps as f64 / 8.0 * interval_ns as f64 / 1e9) as u64).max(1_000);
    world.parameter("app_rate_bps", rate_bps);
    world.parameter("drops", false);
    let count = (world.scenario.end_ns * 4 / 5 / interval_ns).max(10) as u32;
    world.scenario.flows[0].application = Application::Stream {
        bytes,
        count,
        interval_ns,
    };
}

/// The receiver's window limits: a small buffer, or an application that reads slowly.
fn receiver(world: &mut World, random: &mut Random) {
    set_wide_link(world, random);
    world.parameter("drops", false);
    if world.mechanism == Mechanism::SlowReader {
        let read_bps = (random.log_uniform(1.0, 20.0) * MBIT) as u64;
        let buffer_bytes = random.log_uniform(64_000.0, 500_000.0) as u64;
        world.parameter("read_rate_bps", read_bps);
        world.parameter("rcvbuf_bytes", buffer_bytes);
        let receiver = &mut world.scenario.flows[0].receiver;
        (receiver.read_rate_bps, receiver.buffer_bytes) = (Some(read_bps), buffer_bytes);
        return world.transfer(read_bps, 1_000_000, random);
    }
    let product_bytes = world.line_bps as f64 / 8.0 * world.rtt_ns as f64 / 1e9;
    let share = random.uniform(0.05, 0.5);
    let window_bytes = (product_bytes * share).clamp(16_000.0, 1_000_000.0) as u64;
    world.parameter("receiver_buffer_bytes", window_bytes);
    let receiver = &mut world.scenario.flows[0].receiver;
    receiver.buffer_bytes = window_bytes;
    receiver.initial_window_bytes = window_bytes.min(64_000);
    let limit_bps = window_bytes as f64 * 8e9 / world.rtt_ns as f64;
    world.transfer(limit_bps as u64, 20 * window_bytes, random);
}
