//! Queues that separate flows or mark, shapers with ticks, standing queues, links that batch, slow return paths.

use whydrop_path::{
    Batches, Cake, CoDel, DualPi2, Fifo, FqCoDel, FqPie, Limit, Pie, Random, RandomLoss, Red,
    TickShaper,
};

use super::draw::{BEYOND_STAGE, MS, World, logarithmic_ns, pick};
use super::kind::Mechanism;
use super::policer::Element;
use super::policer::FULL_PACKET_BYTES;
use super::policers;
use super::settings::{
    MBIT, byte_basis, more_connections, outrun, put_behind, set_wide_link, slow_line,
};
use crate::network::ReturnLink;
use crate::scenario::Behaviour;

pub fn apply(world: &mut World, random: &mut Random) {
    match world.mechanism {
        Mechanism::TwoRatePolicerAndLoss => policer_and_loss(world, random),
        Mechanism::TickShaper => tick_shaper(world, random),
        Mechanism::StandingQueue => standing_queue(world, random),
        Mechanism::SlowWayBack => slow_way_back(world, random),
        Mechanism::Batching => batching(world, random),
        _ => managed(world, random),
    }
}

/// Applies a behaviour to every connection: ECN, or retransmission of data lost on the return path.
fn behave(world: &mut World, behaviour: Behaviour) {
    // One more connection may be added later, with small packets and the same behaviour.
    world.extras.behaviours = vec![behaviour; world.scenario.flows.len() + 1];
}

fn managed(world: &mut World, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 200.0) * MBIT) as u64;
    let seed = random.next_u64();
    let limit_packets = 10_240;
    world.parameter("drain_rate_bps", rate_bps);
    world.parameter("queue", true);
    let overhead_bytes = byte_basis(world, random);
    let limit = Limit::packets(limit_packets);
    let target_ms = *pick(&[5, 5, 5, 10], random);
    let pie_target_ms = *pick(&[15, 15, 20], random);
    let element: Element = match world.mechanism {
        Mechanism::FqCoDel => {
            world.parameter("target_ms", target_ms);
            world.parameter("interval_ms", 100);
            let queue = FqCoDel::new(rate_bps, limit_packets, seed);
            let queue = queue.with_target(target_ms * MS, 100 * MS);
            Box::new(queue.with_overhead(overhead_bytes))
        }
        Mechanism::Cake => {
            let interval_ms = *pick(&[100, 100, 30, 300], random);
            world.parameter("target_ms", interval_ms as f64 / 20.0);
            world.parameter("interval_ms", interval_ms);
            // As for `rtt`: the target is a twentieth of the interval.
            let limit_bytes = (rate_bps / 8).max(4_000_000);
            let queue = Cake::new(rate_bps, limit_bytes, seed);
            let queue = queue.with_target(interval_ms * MS / 20, interval_ms * MS);
            Box::new(queue.with_overhead(overhead_bytes))
        }
        Mechanism::FqPie => {
            world.parameter("target_ms", pie_target_ms);
            let queue = FqPie::new(rate_bps, limit_packets, seed).with_target(pie_target_ms * MS);
            Box::new(queue.with_overhead(overhead_bytes))
        }
        Mechanism::DualPi2 => {
            world.parameter("target_ms", pie_target_ms);
            let queue = DualPi2::new(rate_bps, limit_packets, seed);
            let queue = queue.with_target(pie_target_ms * MS);
            Box::new(queue.with_overhead(overhead_bytes))
        }
        _ => marking(world, rate_bps, limit, overhead_bytes, random),
    };
    world.set_element(element);
    outrun(world, rate_bps);
    more_connections(world, random);
    let ecn = world.mechanism == Mechanism::EcnMark;
    if ecn {
        behave(
            world,
            Behaviour {
                ecn,
                ..Behaviour::default()
            },
        );
    }
    world.transfer(rate_bps, 2_000_000, random);
}

/// A discipline that marks instead of dropping.
fn marking(
    world: &mut World,
    rate_bps: u64,
    limit: Limit,
    overhead_bytes: u32,
    random: &mut Random,
) -> Element {
    let seed = random.next_u64();
    let packets = limit.packets.unwrap_or(1_000);
    let (name, element): (&str, Element) = match random.below(5) {
        0 => {
            let queue = CoDel::new(rate_bps, limit).marking();
            ("codel", Box::new(queue.with_overhead(overhead_bytes)))
        }
        1 => {
            let queue = FqCoDel::new(rate_bps, packets, seed).marking();
            ("fq_codel", Box::new(queue.with_overhead(overhead_bytes)))
        }
        2 => {
            let queue = Pie::new(rate_bps, limit, seed).marking();
            ("pie", Box::new(queue.with_overhead(overhead_bytes)))
        }
        3 => {
            let queue = DualPi2::new(rate_bps, packets, seed);
            ("dualpi2", Box::new(queue.with_overhead(overhead_bytes)))
        }
        _ => {
            let packets_per_s = rate_bps as f64 / (8.0 * FULL_PACKET_BYTES as f64);
            let least = (packets_per_s * 0.01).max(5.0);
            let queue = Red::new(rate_bps, limit, least, 3.0 * least, 0.1, seed);
            let queue = queue.gentle().marking();
            ("red", Box::new(queue.with_overhead(overhead_bytes)))
        }
    };
    world.parameter("discipline", name);
    element
}

/// Random losses behind the second point, besides those of a policer with two rates.
fn policer_and_loss(world: &mut World, random: &mut Random) {
    policers::apply(world, random);
    let loss = random.log_uniform(0.001, 0.01);
    world.parameter("loss_beyond_probability", loss);
    let lossy = Box::new(RandomLoss::independent(loss, random.next_u64()));
    put_behind(world, BEYOND_STAGE, lossy);
}

fn tick_shaper(world: &mut World, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 200.0) * MBIT) as u64;
    let tick_ns = logarithmic_ns(1.0, 10.0, random);
    let per_tick_bytes = rate_bps as f64 / 8.0 * tick_ns as f64 / 1e9;
    let least_bytes = per_tick_bytes.max(2.0 * FULL_PACKET_BYTES as f64);
    let burst_bytes = (least_bytes * random.log_uniform(1.0, 4.0)) as u64;
    world.parameter("drain_rate_bps", rate_bps);
    world.parameter("tick_ms", tick_ns as f64 / 1e6);
    world.parameter("shaper_burst_bytes", burst_bytes);
    world.parameter("queue", true);
    world.parameter("drops", false);
    let overhead_bytes = byte_basis(world, random);
    outrun(world, rate_bps);
    let shaper = TickShaper::new(rate_bps, tick_ns, burst_bytes, Limit::NONE);
    world.set_element(Box::new(shaper.with_overhead(overhead_bytes)));
    more_connections(world, random);
    world.transfer(rate_bps, 4 * burst_bytes, random);
}

/// A queue with room for the receiver's whole window: it stands and never drops.
fn standing_queue(world: &mut World, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 100.0) * MBIT) as u64;
    world.parameter("drain_rate_bps", rate_bps);
    world.parameter("queue", true);
    world.parameter("drops", false);
    let overhead_bytes = byte_basis(world, random);
    outrun(world, rate_bps);
    let queue = Fifo::new(rate_bps, Limit::NONE).with_overhead(overhead_bytes);
    world.set_element(Box::new(queue));
    let product_bytes = rate_bps as f64 / 8.0 * world.rtt_ns as f64 / 1e9;
    let standing_s = random.log_uniform(0.02, 0.4);
    let window_bytes = product_bytes + rate_bps as f64 / 8.0 * standing_s;
    let window_bytes = (window_bytes as u64).clamp(30_000, 6_000_000);
    world.parameter("receiver_buffer_bytes", window_bytes);
    let receiver = &mut world.scenario.flows[0].receiver;
    receiver.buffer_bytes = window_bytes;
    receiver.initial_window_bytes = window_bytes.min(64_000);
    world.transfer(rate_bps, 10 * window_bytes, random);
}

/// Acknowledgments share a narrow link, where they queue, are thinned, or lost.
fn slow_way_back(world: &mut World, random: &mut Random) {
    slow_line(world, random);
    set_wide_link(world, random);
    // An acknowledgment of 52 bytes for two segments: with less than a fiftieth of the line's rate, the return path is
    // the narrower one.
    let rate_bps = (world.line_bps as f64 / random.log_uniform(70.0, 600.0)) as u64;
    let rate_bps = rate_bps.clamp(100_000, 5_000_000);
    let limit_packets = random.log_uniform(20.0, 1_000.0) as usize;
    let thins = random.chance(0.3);
    world.parameter("reverse_rate_bps", rate_bps);
    world.parameter("reverse_limit_packets", limit_packets);
    world.parameter("reverse_thins", thins);
    world.extras.return_link = Some(ReturnLink {
        rate_bps,
        limit_packets,
        thins,
        overhead_bytes: 0,
    });
    behave(
        world,
        Behaviour {
            client_repeats: true,
            ..Behaviour::default()
        },
    );
    // Acknowledgments per second, for two segments each.
    let allowed_bps = rate_bps as f64 / 416.0 * 2.0 * 1_448.0 * 8.0;
    world.transfer(allowed_bps as u64, 1_000_000, random);
}

fn batching(world: &mut World, random: &mut Random) {
    slow_line(world, random);
    let turn_ns = logarithmic_ns(1.0, 10.0, random);
    let line_packets = world.line_bps as f64 / (8.0 * FULL_PACKET_BYTES as f64);
    // Room for the packets that arrive in one turn, so that none queues for long.
    let most = (line_packets * turn_ns as f64 / 1e9 * random.uniform(1.5, 4.0)).max(8.0) as u64;
    world.parameter("turn_ms", turn_ns as f64 / 1e6);
    world.parameter("frame_packets", most);
    world.parameter("drops", false);
    world.set_element(Box::new(Batches::new(turn_ns, most)));
    world.transfer(world.line_bps, 1_000_000, random);
}
