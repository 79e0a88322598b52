//! The kinds of single captures: hops that drop or shape, hosts that limit, and faults of the capture itself.

use whydrop_hosts::{Algorithm, Pacing};
use whydrop_path::{Random, overhead};

use super::{
    Bursts, Hidden, Law, allowed_bps, early_drops, in_service, losses, set_receive_buffer,
    small_buffer,
};
use crate::suite::world::{
    FULL_PACKET_BYTES, MBIT, MS, World, flow, logarithmic_ns, parsed, pick, single,
};
use whydrop_network::{Application, CrossTraffic, FlowConfig};

/// The implementation of a policer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Plain,
    /// A plain one, or Linux's.
    AnyPlain,
    SmallBurst,
    DualRate,
    BehindShaper,
}

/// Other users of the hop, or losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    Nothing,
    /// One to three connections like the first.
    Flows,
    /// A long transfer from another server (as iperf).
    LongFlow,
    FlowAndLongFlow,
    /// Packets that appear in no capture.
    Hidden,
    /// Losses by chance behind the hop.
    Losses,
}

/// Draws the bytes that the hop counts.
fn byte_basis(world: &mut World, random: &mut Random) -> u32 {
    let (name, bytes) = match random.unit() {
        u if u < 0.6 => ("ip", overhead::IP),
        u if u < 0.9 => ("ethernet", overhead::ETHERNET),
        _ => ("wire", overhead::WIRE),
    };
    world.parameter("byte_basis", name);
    bytes
}

pub fn policer(world: &mut World, form: Form, beside: Beside, random: &mut Random) {
    let rate_bps = (random.log_uniform(0.3, 500.0) * MBIT) as u64;
    let burst_bytes = match form {
        Form::SmallBurst => 5 * FULL_PACKET_BYTES + random.below(5 * FULL_PACKET_BYTES),
        // Not so deep that it takes minutes to reach the rate.
        _ => {
            let most = (rate_bps as f64 / 8.0 * 4.0).clamp(60_000.0, 2_000_000.0);
            random.log_uniform(15_000.0, most) as u64
        }
    };
    world.parameter("rate_bps", rate_bps);
    world.parameter("burst_bytes", burst_bytes);
    let basis = format!("overhead={}B", byte_basis(world, random));
    let committed = format!("rate={rate_bps},burst={burst_bytes}B,{basis}");
    let path = match form {
        Form::DualRate => dual_rate(world, (rate_bps, burst_bytes), &basis, random),
        Form::BehindShaper => {
            let shaper_bps = (rate_bps as f64 * random.uniform(1.3, 6.0)) as u64;
            world.parameter("shaper_rate_bps", shaper_bps);
            format!("shaper:rate={shaper_bps},burst=3kB+policer:{committed}")
        }
        Form::AnyPlain if random.chance(0.25) => {
            world.parameter("implementation", "linux act_police");
            format!("linux-police:{committed}")
        }
        _ => format!("policer:{committed}"),
    };
    world.set_element(&path);
    let least_bytes = (3 * burst_bytes).min(6_000_000);
    share(world, rate_bps, beside, least_bytes, random);
}

fn dual_rate(
    world: &mut World,
    (rate_bps, burst_bytes): (u64, u64),
    basis: &str,
    random: &mut Random,
) -> String {
    let committed = format!("rate={rate_bps},burst={burst_bytes}B,{basis}");
    match random.below(3) {
        0 => {
            let peak_rate_bps = (rate_bps as f64 * random.uniform(1.5, 8.0)) as u64;
            let peak_burst_bytes = FULL_PACKET_BYTES * (3 + random.below(20));
            world.parameter("implementation", "two buckets");
            world.parameter("peak_rate_bps", peak_rate_bps);
            world.parameter("peak_burst_bytes", peak_burst_bytes);
            format!("policer:{committed},peak-rate={peak_rate_bps},peak-burst={peak_burst_bytes}B")
        }
        1 => {
            // Yellow packets pass, so that the two bursts act as one.
            let excess_bytes = random.log_uniform(15_000.0, 200_000.0) as u64;
            world.parameter("implementation", "RFC 2697, red dropped");
            world.parameter("excess_burst_bytes", excess_bytes);
            format!("single-rate-three-colour:{committed},excess-burst={excess_bytes}B")
        }
        _ => {
            // Only red packets are dropped, so that the peak rate polices.
            let implementation = "RFC 2698, red dropped; rate and burst are PIR and PBS";
            world.parameter("implementation", implementation);
            format!(
                "two-rate-three-colour:rate={},burst={}B,peak-rate={rate_bps},peak-burst={burst_bytes}B,{basis}",
                rate_bps / 2,
                burst_bytes / 2
            )
        }
    }
}

pub fn queue(world: &mut World, shallow: bool, beside: Beside, random: &mut Random) {
    let rate_bps = (random.log_uniform(0.5, 300.0) * MBIT) as u64;
    let rtt_s = world.rtt_ns as f64 / 1e9;
    let product_packets = rate_bps as f64 / (8.0 * FULL_PACKET_BYTES as f64) * rtt_s;
    let limit_packets = if shallow {
        // Shallow in packets and in time: a full queue adds less than half of the path's own round trip, or has very
        // few packets.
        random.log_uniform(3.0, (product_packets / 2.0).clamp(8.0, 30.0))
    } else {
        // From half of the bandwidth-delay product to several times it.
        (product_packets * random.log_uniform(0.5, 5.0)).clamp(40.0, 4_000.0)
    };
    let limit_packets = limit_packets.round() as u64;
    let limit_bytes = limit_packets * FULL_PACKET_BYTES;
    let limit = if random.chance(0.4) {
        world.parameter("limit_bytes", limit_bytes);
        format!("{limit_bytes}B")
    } else {
        world.parameter("limit_packets", limit_packets);
        format!("{limit_packets}packets")
    };
    let in_service = in_service(world, random);
    world.parameter("drain_rate_bps", rate_bps);
    let overhead_bytes = byte_basis(world, random);
    world.set_element(&format!(
        "fifo:rate={rate_bps},limit={limit},in-service={in_service},overhead={overhead_bytes}B"
    ));
    // Long enough to fill the queue several times.
    let product_bytes = (rate_bps as f64 / 8.0 * rtt_s) as u64 + limit_bytes;
    let least_bytes = (5 * product_bytes).min(12_000_000);
    share(world, rate_bps, beside, least_bytes, random);
}

/// The traffic through the hop, beside what else happens there.
fn share(world: &mut World, rate_bps: u64, beside: Beside, least_bytes: u64, random: &mut Random) {
    if beside == Beside::Losses {
        lose_behind(world, random);
    }
    busy_link(world, rate_bps, random);
    fixed_rate_sender(world, rate_bps, beside, random);
    let more = match beside {
        Beside::Flows => 1 + random.below(3) as u16,
        Beside::FlowAndLongFlow => 1,
        _ => 0,
    };
    for number in 1..=more {
        add_alike(world, number, random);
    }
    if beside == Beside::Hidden {
        hidden_traffic(world, rate_bps, random);
    }
    world.chunks(rate_bps, least_bytes, random);
    if matches!(beside, Beside::LongFlow | Beside::FlowAndLongFlow) {
        add_long_flow(world, random);
    }
    late_start(world, random);
}

/// In some cases, starts the capture when the connection has lasted a while.
fn late_start(world: &mut World, random: &mut Random) {
    if random.chance(0.05) {
        let begins_ns = logarithmic_ns(50.0, 2_000.0, random);
        world.scenario.capture.begins_ns = begins_ns;
        world.parameter("capture_begins_s", begins_ns as f64 / 1e9);
    }
}

/// Random losses behind the hop.
fn lose_behind(world: &mut World, random: &mut Random) {
    let loss = random.log_uniform(0.0005, 0.005);
    world.parameter("random_loss", loss);
    let seed = random.next_u64();
    let lossy = losses(world, (loss, seed), None, random);
    world.put_behind(single::ELEMENT + 1, &lossy);
}

/// In some cases, adds a link before the hop that is faster and busy with packets in no capture: it never drops, but
/// packets reach the hop after varying waits.
fn busy_link(world: &mut World, rate_bps: u64, random: &mut Random) {
    if !random.chance(0.2) {
        return;
    }
    let link_bps = (rate_bps as f64 * random.uniform(2.0, 8.0)) as u64;
    let spare_bps = link_bps - rate_bps;
    let load_bps = (spare_bps as f64 * random.uniform(0.2, 0.7)) as u64;
    world.parameter("busy_link_bps", link_bps);
    world.parameter("busy_link_load_bps", load_bps);
    world.parts[single::BUSY].path = parsed(&format!("line:rate={link_bps}"));
    let on_off = random.chance(0.5);
    // Bursts fill the link while they last, so they are short.
    let mean_ns = logarithmic_ns(1.0, 20.0, random);
    world.scenario.cross_traffic.push(CrossTraffic {
        stage: single::BUSY,
        rate_bps: if on_off { 2 * load_bps } else { load_bps },
        packet_bytes: *pick(&[1_500, 1_500, 1_200, 576], random),
        poisson: true,
        mean_on_ns: mean_ns,
        mean_off_ns: if on_off { mean_ns } else { 0 },
        start_ns: 0,
    });
}

/// In some cases, a sender with a fixed rate near that of the hop.
fn fixed_rate_sender(world: &mut World, rate_bps: u64, beside: Beside, random: &mut Random) {
    if !random.chance(0.12) {
        return;
    }
    let flows = if beside == Beside::Flows { 3.0 } else { 1.0 };
    let own_bps = (rate_bps as f64 * random.uniform(1.02, 1.4) / flows) as u64;
    world.parameter("sender_rate_bps", own_bps);
    let flight_bytes = own_bps as f64 / 8.0 * (world.rtt_ns as f64 / 1e9 + 0.1);
    for flow in &mut world.scenario.flows {
        flow.sender.algorithm = Algorithm::FixedRate { rate_bps: own_bps };
        flow.sender.pacing = Pacing::Rate(own_bps);
        flow.sender.initial_window = (2.0 * flight_bytes / flow.sender.mss as f64).max(10.0);
        flow.sender.hystart = false;
    }
}

/// Adds a connection like the first, to the same client.
fn add_alike(world: &mut World, number: u16, random: &mut Random) {
    let first = world.scenario.flows[0];
    world.scenario.flows.push(FlowConfig {
        client_port: first.client_port + number,
        start_ns: (random.uniform(10.0, 3_000.0) * MS as f64) as i64,
        ..first
    });
}

fn hidden_traffic(world: &mut World, rate_bps: u64, random: &mut Random) {
    let share = random.uniform(0.1, 0.6);
    let on_off = random.chance(0.5);
    world.parameter("hidden_share_of_rate", share);
    let packet_bytes = *pick(&[1_500, 1_500, 1_200, 576, 200], random);
    let hidden = Hidden {
        rate_bps: (rate_bps as f64 * share) as u64,
        packet_bytes,
        on_off,
        poisson: 0.7,
        most_ms: 3_000.0,
    };
    hidden.add(world, random);
}

/// Adds a long transfer from another server (as iperf), in the capture, through the same hop.
fn add_long_flow(world: &mut World, random: &mut Random) {
    let first = world.scenario.flows[0];
    let asked = first.application;
    world.scenario.flows.push(FlowConfig {
        application: Application::Chunks {
            bytes: asked.bytes_per_request() * u64::from(asked.requests()),
            count: 1,
            pause_ns: 0,
        },
        server_port: 5_001,
        client_port: first.client_port.wrapping_add(4_000).max(1_024),
        start_ns: (random.uniform(10.0, 2_000.0) * MS as f64) as i64,
        ..flow(7, random)
    });
}

pub fn shaper(world: &mut World, random: &mut Random) {
    let rate_bps = (random.log_uniform(0.5, 300.0) * MBIT) as u64;
    let burst_bytes = random.log_uniform(3_000.0, 200_000.0) as u64;
    world.parameter("rate_bps", rate_bps);
    world.parameter("burst_bytes", burst_bytes);
    let overhead_bytes = byte_basis(world, random);
    world.set_element(&format!(
        "shaper:rate={rate_bps},burst={burst_bytes}B,overhead={overhead_bytes}B"
    ));
    // Behind the hop its delay cannot be seen.
    world.move_tap(world.scenario.capture.tap.min(single::ELEMENT));
    world.chunks(rate_bps, 4 * burst_bytes, random);
    late_start(world, random);
}

pub fn chance(world: &mut World, in_bursts: bool, random: &mut Random) {
    let loss = random.log_uniform(0.0005, 0.03);
    world.parameter("random_loss", loss);
    let seed = random.next_u64();
    // Longer loss bursts would also drop successive retransmissions, which are sent singly.
    let bursts = in_bursts.then_some(Bursts {
        by_packets: 0.5,
        most_packets: 3.5,
        most_ms: 40.0,
    });
    let lossy = losses(world, (loss, seed), bursts, random);
    // In half of the cases behind a link that is slower than the sender's card and never drops.
    let rate_bps = (random.log_uniform(5.0, 500.0) * MBIT) as u64;
    if random.chance(0.5) {
        world.parameter("link_rate_bps", rate_bps);
        world.set_element(&format!("line:rate={rate_bps}+{lossy}"));
    } else {
        world.set_element(&lossy);
    }
    let least_bytes = (20.0 / loss * 300.0).min(6_000_000.0) as u64;
    world.chunks(rate_bps, least_bytes, random);
    late_start(world, random);
}

pub fn managed_queue(world: &mut World, law: Law, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 200.0) * MBIT) as u64;
    let seed = random.next_u64();
    let packets_per_s = rate_bps as f64 / (8.0 * FULL_PACKET_BYTES as f64);
    // A realistic limit that early drops keep the queue below: a second's worth.
    let limit_packets = (packets_per_s as u64).max(300);
    world.parameter("drain_rate_bps", rate_bps);
    let overhead_bytes = byte_basis(world, random);
    let queue = format!("rate={rate_bps},limit={limit_packets}packets,overhead={overhead_bytes}B");
    let path = match law {
        Law::CoDel => format!("codel:{queue}"),
        Law::Pie => format!("pie:{queue},seed={seed}"),
        Law::Red => {
            let min_packets = (packets_per_s * 0.01).max(5.0);
            world.parameter("min_packets", min_packets);
            early_drops(&queue, min_packets, random.uniform(0.02, 0.2), seed)
        }
    };
    world.set_element(&path);
    world.chunks(rate_bps, 1_500_000, random);
    late_start(world, random);
}

/// A fast link that is never full: the limiter is elsewhere.
fn fast_link(world: &mut World, random: &mut Random) -> u64 {
    let rate_bps = (random.log_uniform(100.0, 1_000.0) * MBIT) as u64;
    world.parameter("link_rate_bps", rate_bps);
    world.set_element(&format!("line:rate={rate_bps}"));
    rate_bps
}

/// Packets overtake each other, behind a link that spaces them.
pub fn reordering(world: &mut World, random: &mut Random) {
    let rate_bps = (random.log_uniform(5.0, 200.0) * MBIT) as u64;
    let spread_ns = logarithmic_ns(0.3, 8.0, random);
    let seed = random.next_u64();
    world.parameter("link_rate_bps", rate_bps);
    world.parameter("reordering_ms", spread_ns as f64 / 1e6);
    world.set_element(&format!(
        "line:rate={rate_bps}+jitter:low=0ns,high={spread_ns}ns,reorders,seed={seed}"
    ));
    world.chunks(rate_bps, 500_000, random);
}

/// A receive buffer below the bandwidth-delay product.
pub fn receiver_window(world: &mut World, random: &mut Random) {
    let rate_bps = fast_link(world, random);
    let window_bytes = small_buffer(world.product_bytes(rate_bps), 0.5, 2e6, random);
    world.parameter("window_bytes", window_bytes);
    set_receive_buffer(world, window_bytes);
    world.chunks(allowed_bps(world, window_bytes), 20 * window_bytes, random);
}

pub fn slow_reader(world: &mut World, random: &mut Random) {
    fast_link(world, random);
    let read_bps = (random.log_uniform(0.5, 20.0) * MBIT) as u64;
    world.parameter("read_rate_bps", read_bps);
    let receiver = &mut world.scenario.flows[0].receiver;
    receiver.read_rate_bps = Some(read_bps);
    receiver.buffer_bytes = random.log_uniform(64_000.0, 500_000.0) as u64;
    world.chunks(read_bps, 2_000_000, random);
}

/// The application delivers data in small portions.
pub fn stream(world: &mut World, random: &mut Random) {
    fast_link(world, random);
    let rate_bps = (random.log_uniform(0.3, 15.0) * MBIT) as u64;
    let interval_ns = logarithmic_ns(20.0, 1_000.0, random);
    let bytes = (rate_bps as f64 / 8.0 * interval_ns as f64 / 1e9) as u64;
    world.parameter("application_rate_bps", rate_bps);
    world.parameter("interval_ms", interval_ns as f64 / 1e6);
    world.scenario.flows[0].application = Application::Stream {
        bytes: bytes.max(2_000),
        count: (30_000 * MS / interval_ns).max(20) as u32,
        interval_ns,
    };
}

/// A send buffer below the bandwidth-delay product.
pub fn send_buffer(world: &mut World, random: &mut Random) {
    let rate_bps = fast_link(world, random);
    let buffer_bytes = small_buffer(world.product_bytes(rate_bps), 0.4, 1e6, random);
    world.parameter("send_buffer_bytes", buffer_bytes);
    world.scenario.flows[0].sender.buffer_bytes = buffer_bytes;
    world.chunks(allowed_bps(world, buffer_bytes), 20 * buffer_bytes, random);
}

/// A sniffer that is too slow.
pub fn capture_loss(world: &mut World, random: &mut Random) {
    fast_link(world, random);
    let missed = random.log_uniform(0.002, 0.05);
    world.parameter("missed_by_sniffer", missed);
    world.scenario.capture.missed = missed;
    world.scenario.capture.segmentation_offload = false;
    world.chunks(20_000_000, 500_000, random);
}
