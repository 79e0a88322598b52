//! The kinds of pairs with something on the path: policers, queues, shapers, losses, uneven delays.

use whydrop_path::{ElementSpec, PathSpec, Random, overhead};

use super::{Bursts, Hidden, Law, early_drops, in_service, losses, set_receive_buffer};
use crate::suite::observer;
use crate::suite::world::{FULL_PACKET_BYTES, MBIT, MS, World, logarithmic_ns, pair, parsed, pick};
use whydrop_network::Behaviour;
use whydrop_network::ReturnLink;

/// A policer, alone or with another limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policed {
    Alone,
    DualRate,
    ThenShaper,
    BehindShaper,
}

/// A shallow queue overflows before it delays much; a deep one first adds at least as much as the path's own round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    Shallow,
    Deep,
}

/// A discipline with a queue for each flow or class, or one that marks instead of dropping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fair {
    FqCoDel,
    Cake,
    FqPie,
    DualPi2,
    Marking,
}

/// Where packets are lost by chance, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lossy {
    Single,
    Bursts,
    Before,
    Beyond,
}

/// Draws the bytes that the element counts: their name in the truth, and the setting of the path.
fn byte_basis(world: &mut World, random: &mut Random) -> String {
    let (name, prose, bytes) = match random.unit() {
        u if u < 0.5 => ("ip", "IP length (L3, no Ethernet header)", overhead::IP),
        u if u < 0.85 => (
            "ethernet",
            "Ethernet frame without FCS (L2)",
            overhead::ETHERNET,
        ),
        _ => (
            "wire",
            "wire: Ethernet frame with FCS, preamble and gap (L1)",
            overhead::WIRE,
        ),
    };
    world.parameter("byte_basis", prose);
    world.parameter("byte_basis_name", name);
    world.parameter("overhead_bytes", bytes);
    format!("overhead={bytes}B")
}

/// Makes the sender's card faster than the element that it fills.
fn outrun(world: &mut World, rate_bps: u64) {
    if rate_bps as f64 * 1.5 > world.line_bps as f64 {
        world.set_line(10_000_000_000);
    }
}

/// Adds one to four data connections.
fn more_connections(world: &mut World, random: &mut Random) {
    let more = *pick(&[0, 0, 0, 1, 1, 2, 3], random);
    let port = world.scenario.flows[0].client_port;
    for _ in 0..more {
        world.add_connection("data", port, random);
    }
}

/// Gives seven of ten senders an uplink slower than their card, so that a transfer takes a while.
pub fn slow_line(world: &mut World, random: &mut Random) {
    if random.chance(0.7) {
        world.set_line((random.log_uniform(20.0, 500.0) * MBIT) as u64);
    }
}

/// A link that the sender cannot fill: the limiter is elsewhere, and no queue grows between the points.
fn wide_link(world: &mut World, random: &mut Random) -> String {
    let link_bps = (world.line_bps as f64 * random.uniform(1.05, 1.5)) as u64;
    world.circumstance("link_rate_bps", link_bps);
    format!("line:rate={link_bps},overhead={}B", overhead::WIRE)
}

pub fn set_wide_link(world: &mut World, random: &mut Random) {
    let link = wide_link(world, random);
    world.set_element(&link);
}

/// Applies a behaviour to every connection: ECN, or retransmission of data lost on the return path.
pub fn behave(world: &mut World, behaviour: Behaviour) {
    // One more connection may be added later, with small packets and the same behaviour.
    world.extras.behaviours = vec![behaviour; world.scenario.flows.len() + 1];
}

pub fn nothing(world: &mut World, random: &mut Random) {
    slow_line(world, random);
    set_wide_link(world, random);
    more_connections(world, random);
    world.transfer(world.line_bps, 400_000, random);
}

pub fn policer(world: &mut World, policed: Policed, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 1_000.0) * MBIT) as u64;
    // A bucket for more than two seconds is not emptied in a short capture.
    let most = (rate_bps as f64 / 8.0 * 2.0).clamp(20_000.0, 2_000_000.0);
    let burst_bytes = random.log_uniform(5_000.0, most) as u64;
    let basis = byte_basis(world, random);
    outrun(world, rate_bps);
    let committed = format!("rate={rate_bps},burst={burst_bytes}B,{basis}");
    let faster_bps = |least: f64, most: f64, random: &mut Random| {
        (rate_bps as f64 * random.uniform(least, most)).floor() as u64
    };
    let path = match policed {
        Policed::Alone if random.chance(0.3) => format!("linux-police:{committed}"),
        Policed::Alone => format!("policer:{committed}"),
        Policed::DualRate => {
            let peak_bps = faster_bps(1.5, 6.0, random);
            let peak_bytes = FULL_PACKET_BYTES * (3 + random.below(20));
            format!("policer:{committed},peak-rate={peak_bps},peak-burst={peak_bytes}B")
        }
        Policed::ThenShaper => {
            let shaper_bps = faster_bps(1.3, 5.0, random);
            format!("policer:{committed}+shaper:rate={shaper_bps},burst=3kB,{basis}")
        }
        Policed::BehindShaper => {
            let shaper_bps = faster_bps(1.3, 5.0, random);
            format!("shaper:rate={shaper_bps},burst=3kB,{basis}+policer:{committed}")
        }
    };
    world.set_element(&path);
    let path = parsed(&path);
    note_buckets(world, &path);
    world.policer = Some(path);
    more_connections(world, random);
    world.transfer(rate_bps, 4 * burst_bytes, random);
}

fn note_buckets(world: &mut World, path: &PathSpec) {
    for (name, value) in observer::buckets(path) {
        world.parameter(name, value as u64);
    }
    for element in &path.elements {
        match *element {
            ElementSpec::Shaper {
                rate_bps,
                burst_bytes,
                ..
            } => {
                world.parameter("shaper_rate_bps", rate_bps as u64);
                world.parameter("shaper_burst_bytes", burst_bytes as u64);
            }
            ElementSpec::LinuxPolice { .. } => {
                world.parameter("implementation", "Linux act_police");
            }
            _ => {}
        }
    }
    world.parameter("queue", false);
}

/// Random losses behind the second point, besides those of a policer with two rates.
pub fn policer_and_loss(world: &mut World, random: &mut Random) {
    policer(world, Policed::DualRate, random);
    let loss = random.log_uniform(0.001, 0.01);
    world.parameter("loss_beyond_probability", loss);
    let seed = random.next_u64();
    let lossy = losses(world, (loss, seed), None, random);
    world.put_behind(pair::BEYOND, &lossy);
}

/// Packets that the queue can store, and its drain rate.
fn queue(world: &World, depth: Depth, random: &mut Random) -> (u64, u64) {
    let rtt_s = world.rtt_ns as f64 / 1e9;
    let bits = |packets: f64| packets * FULL_PACKET_BYTES as f64 * 8.0;
    if depth == Depth::Deep {
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

pub fn fifo(world: &mut World, depth: Depth, in_bytes: bool, random: &mut Random) {
    let queue = queue(world, depth, random);
    tail_drop(world, queue, in_bytes, random);
}

/// A queue that packets in neither capture use too.
pub fn shared_fifo(world: &mut World, random: &mut Random) {
    let depth = match random.chance(0.5) {
        true => Depth::Deep,
        false => Depth::Shallow,
    };
    let queue = queue(world, depth, random);
    let in_bytes = random.chance(0.3);
    tail_drop(world, queue, in_bytes, random);
    hidden_traffic(world, queue.1, random);
}

fn tail_drop(
    world: &mut World,
    (packets, rate_bps): (u64, u64),
    in_bytes: bool,
    random: &mut Random,
) {
    let in_service = in_service(world, random);
    world.parameter("drain_rate_bps", rate_bps);
    world.parameter("queue", true);
    let basis = byte_basis(world, random);
    outrun(world, rate_bps);
    let limit = if in_bytes {
        let bytes = packets * FULL_PACKET_BYTES + random.below(FULL_PACKET_BYTES);
        world.parameter("queue_limit_bytes", bytes);
        format!("{bytes}B")
    } else {
        world.parameter("queue_limit_packets", packets);
        format!("{packets}packets")
    };
    world.set_element(&format!(
        "fifo:rate={rate_bps},limit={limit},in-service={in_service},{basis}"
    ));
    more_connections(world, random);
    let least_bytes = world.product_bytes(rate_bps) as u64 + packets * FULL_PACKET_BYTES;
    world.transfer(rate_bps, 5 * least_bytes, random);
}

fn hidden_traffic(world: &mut World, rate_bps: u64, random: &mut Random) {
    let load = random.uniform(0.25, 0.65);
    let on_off = random.chance(0.4);
    let packet_bytes = *pick(&[1_500, 1_428, 1_428, 1_000, 576], random);
    world.parameter("cross_traffic_load", load);
    world.parameter("cross_traffic_packet_bytes", packet_bytes);
    let hidden = Hidden {
        rate_bps: (rate_bps as f64 * load * if on_off { 1.8 } else { 1.0 }) as u64,
        packet_bytes,
        on_off,
        poisson: 0.5,
        most_ms: 1_000.0,
    };
    hidden.add(world, random);
}

pub fn shaper(world: &mut World, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 300.0) * MBIT) as u64;
    let burst_bytes = random.log_uniform(1_600.0, 100_000.0) as u64;
    world.parameter("shaper_burst_bytes", burst_bytes);
    let basis = only_delays(world, rate_bps, random);
    // A bucket smaller than a packet with its overhead would pass none.
    let counted_bytes = world.pair.parameters["overhead_bytes"]
        .as_u64()
        .unwrap_or(0);
    let burst_bytes = burst_bytes.max(FULL_PACKET_BYTES + counted_bytes);
    world.set_element(&format!(
        "shaper:rate={rate_bps},burst={burst_bytes}B,{basis}"
    ));
    more_connections(world, random);
    world.transfer(rate_bps, 4 * burst_bytes, random);
}

/// A queue that never drops: its rate, and the bytes that it counts.
fn only_delays(world: &mut World, rate_bps: u64, random: &mut Random) -> String {
    world.parameter("drain_rate_bps", rate_bps);
    world.parameter("queue", true);
    world.parameter("drops", false);
    let basis = byte_basis(world, random);
    outrun(world, rate_bps);
    basis
}

pub fn tick_shaper(world: &mut World, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 200.0) * MBIT) as u64;
    let tick_ns = logarithmic_ns(1.0, 10.0, random);
    let per_tick_bytes = rate_bps as f64 / 8.0 * tick_ns as f64 / 1e9;
    let least_bytes = per_tick_bytes.max(2.0 * FULL_PACKET_BYTES as f64);
    let burst_bytes = (least_bytes * random.log_uniform(1.0, 4.0)) as u64;
    world.parameter("tick_ms", tick_ns as f64 / 1e6);
    world.parameter("shaper_burst_bytes", burst_bytes);
    let basis = only_delays(world, rate_bps, random);
    world.set_element(&format!(
        "tick-shaper:rate={rate_bps},burst={burst_bytes}B,tick={tick_ns}ns,{basis}"
    ));
    more_connections(world, random);
    world.transfer(rate_bps, 4 * burst_bytes, random);
}

/// A queue with room for the receiver's whole window: it stands and never drops.
pub fn standing_queue(world: &mut World, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 100.0) * MBIT) as u64;
    let basis = only_delays(world, rate_bps, random);
    world.set_element(&format!("line:rate={rate_bps},{basis}"));
    let standing_s = random.log_uniform(0.02, 0.4);
    let window_bytes = world.product_bytes(rate_bps) + rate_bps as f64 / 8.0 * standing_s;
    let window_bytes = (window_bytes as u64).clamp(30_000, 6_000_000);
    world.parameter("receiver_buffer_bytes", window_bytes);
    set_receive_buffer(world, window_bytes);
    world.transfer(rate_bps, 10 * window_bytes, random);
}

pub fn managed_queue(world: &mut World, law: Law, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 200.0) * MBIT) as u64;
    let seed = random.next_u64();
    let packets_per_s = rate_bps as f64 / (8.0 * FULL_PACKET_BYTES as f64);
    // A limit that the queue never reaches because of early drops.
    let limit_packets = (packets_per_s as u64).max(300);
    world.parameter("drain_rate_bps", rate_bps);
    world.parameter("limit_packets", limit_packets);
    world.parameter("queue", true);
    let basis = byte_basis(world, random);
    let queue = format!("rate={rate_bps},limit={limit_packets}packets,{basis}");
    let path = match law {
        Law::CoDel => {
            let target_ms = *pick(&[5, 5, 5, 10, 15], random);
            world.parameter("target_ms", target_ms);
            world.parameter("interval_ms", 100);
            format!("codel:{queue},target={target_ms}ms,interval=100ms")
        }
        Law::Pie => {
            let target_ms = *pick(&[15, 15, 20], random);
            world.parameter("target_ms", target_ms);
            format!("pie:{queue},target={target_ms}ms,seed={seed}")
        }
        Law::Red => {
            let min_packets = (packets_per_s * 0.01).max(5.0);
            let max_probability = random.uniform(0.02, 0.15);
            world.parameter("min_packets", min_packets);
            world.parameter("max_packets", 3.0 * min_packets);
            world.parameter("max_probability", max_probability);
            early_drops(&queue, min_packets, max_probability, seed)
        }
    };
    world.set_element(&path);
    more_connections(world, random);
    world.transfer(rate_bps, 2_000_000, random);
}

pub fn fair_queue(world: &mut World, fair: Fair, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 200.0) * MBIT) as u64;
    let seed = random.next_u64();
    world.parameter("drain_rate_bps", rate_bps);
    world.parameter("queue", true);
    let basis = byte_basis(world, random);
    let queue = format!("rate={rate_bps},limit=10240packets,{basis}");
    let codel_ms = *pick(&[5, 5, 5, 10], random);
    let pie_ms = *pick(&[15, 15, 20], random);
    let by_pie = |world: &mut World, name: &str| {
        world.parameter("target_ms", pie_ms);
        format!("{name}:{queue},target={pie_ms}ms,seed={seed}")
    };
    let path = match fair {
        Fair::FqCoDel => {
            world.parameter("target_ms", codel_ms);
            world.parameter("interval_ms", 100);
            format!("fq-codel:{queue},target={codel_ms}ms,interval=100ms,seed={seed}")
        }
        Fair::Cake => {
            let interval_ms = *pick(&[100, 100, 30, 300], random);
            world.parameter("target_ms", interval_ms as f64 / 20.0);
            world.parameter("interval_ms", interval_ms);
            // As for `rtt`: the target is a twentieth of the interval.
            let target_ns = interval_ms * MS / 20;
            let limit_bytes = (rate_bps / 8).max(4_000_000);
            format!(
                "cake:rate={rate_bps},limit={limit_bytes}B,{basis},target={target_ns}ns,interval={interval_ms}ms,seed={seed}"
            )
        }
        Fair::FqPie => by_pie(world, "fq-pie"),
        Fair::DualPi2 => by_pie(world, "dual-pi2"),
        Fair::Marking => marking(world, rate_bps, &queue, random),
    };
    world.set_element(&path);
    outrun(world, rate_bps);
    more_connections(world, random);
    if fair == Fair::Marking {
        behave(
            world,
            Behaviour {
                ecn: true,
                ..Behaviour::default()
            },
        );
    }
    world.transfer(rate_bps, 2_000_000, random);
}

/// A discipline that marks instead of dropping.
fn marking(world: &mut World, rate_bps: u64, queue: &str, random: &mut Random) -> String {
    let seed = random.next_u64();
    let (name, path) = match random.below(5) {
        0 => ("codel", format!("codel:{queue},marks")),
        1 => ("fq_codel", format!("fq-codel:{queue},marks,seed={seed}")),
        2 => ("pie", format!("pie:{queue},marks,seed={seed}")),
        3 => ("dualpi2", format!("dual-pi2:{queue},seed={seed}")),
        _ => {
            let packets_per_s = rate_bps as f64 / (8.0 * FULL_PACKET_BYTES as f64);
            let least = (packets_per_s * 0.01).max(5.0);
            let path = early_drops(queue, least, 0.1, seed);
            ("red", format!("{path},marks"))
        }
    };
    world.parameter("discipline", name);
    path
}

pub fn chance(world: &mut World, lossy: Lossy, random: &mut Random) {
    let loss = random.log_uniform(0.0008, 0.03);
    let seed = random.next_u64();
    world.parameter("loss_probability", loss);
    let in_bursts = match lossy {
        Lossy::Single => false,
        Lossy::Bursts => true,
        Lossy::Beyond | Lossy::Before => random.chance(0.3),
    };
    let bursts = in_bursts.then_some(Bursts {
        by_packets: 0.7,
        most_packets: 4.0,
        most_ms: 30.0,
    });
    let path = losses(world, (loss, seed), bursts, random);
    match lossy {
        Lossy::Beyond => world.put_behind(pair::BEYOND, &path),
        Lossy::Before => world.put_behind(pair::BEFORE, &path),
        _ => {
            slow_line(world, random);
            let link = wide_link(world, random);
            world.set_element(&format!("{link}+{path}"));
        }
    }
    more_connections(world, random);
    world.transfer(60_000_000, (40.0 / loss * 1_500.0) as u64, random);
}

pub fn ack_loss(world: &mut World, random: &mut Random) {
    let loss = random.log_uniform(0.003, 0.1);
    world.parameter("reverse_loss_probability", loss);
    world.watch.return_loss[1] = loss;
    slow_line(world, random);
    set_wide_link(world, random);
    world.transfer(world.line_bps, 2_000_000, random);
}

pub fn jitter(world: &mut World, random: &mut Random) {
    uneven_delay(world, random, |world, seed, random| {
        let spread_ns = logarithmic_ns(1.0, 8.0, random);
        world.parameter("jitter_ms", spread_ns as f64 / 1e6);
        world.parameter("reordering", false);
        format!("jitter:low=0ns,high={spread_ns}ns,seed={seed}")
    });
}

pub fn reorder(world: &mut World, random: &mut Random) {
    uneven_delay(world, random, |world, seed, random| {
        if random.chance(0.6) {
            let probability = random.log_uniform(0.003, 0.1);
            let extra_ns = logarithmic_ns(0.5, 10.0, random);
            world.parameter("detour_probability", probability);
            world.parameter("delay_ms", extra_ns as f64 / 1e6);
            return format!("detour:probability={probability},extra={extra_ns}ns,seed={seed}");
        }
        let spread_ns = logarithmic_ns(0.3, 8.0, random);
        world.parameter("reordering_ms", spread_ns as f64 / 1e6);
        format!("jitter:low=0ns,high={spread_ns}ns,reorders,seed={seed}")
    });
}

fn uneven_delay(
    world: &mut World,
    random: &mut Random,
    uneven: fn(&mut World, u64, &mut Random) -> String,
) {
    slow_line(world, random);
    let link = wide_link(world, random);
    let seed = random.next_u64();
    let uneven = uneven(world, seed, random);
    world.parameter("drops", false);
    world.set_element(&format!("{link}+{uneven}"));
    world.transfer(world.line_bps, 2_000_000, random);
}

/// Acknowledgments share a narrow link, where they queue, are thinned, or lost.
pub fn slow_way_back(world: &mut World, random: &mut Random) {
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

pub fn batching(world: &mut World, random: &mut Random) {
    slow_line(world, random);
    let turn_ns = logarithmic_ns(1.0, 10.0, random);
    let line_packets = world.line_bps as f64 / (8.0 * FULL_PACKET_BYTES as f64);
    // Room for the packets that arrive in one turn, so that none queues for long.
    let most = (line_packets * turn_ns as f64 / 1e9 * random.uniform(1.5, 4.0)).max(8.0) as u64;
    world.parameter("turn_ms", turn_ns as f64 / 1e6);
    world.parameter("frame_packets", most);
    world.parameter("drops", false);
    world.set_element(&format!("batches:turn={turn_ns}ns,most={most}packets"));
    world.transfer(world.line_bps, 1_000_000, random);
}
