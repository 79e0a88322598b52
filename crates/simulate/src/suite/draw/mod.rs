//! Drawing of each kind's path, hosts and traffic, with parameters over wide ranges.

pub mod captures;
pub mod hosts;
pub mod paths;

use whydrop_path::Random;

use super::world::{World, logarithmic_ns};
use whydrop_network::CrossTraffic;

/// A law of queue management.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    CoDel,
    Pie,
    Red,
}

/// RED with thresholds at 10 and 30 ms of packets, at least 5 and 15 of them.
fn early_drops(queue: &str, least_packets: f64, most_probability: f64, seed: u64) -> String {
    let most_packets = 3.0 * least_packets;
    format!(
        "red:{queue},min={least_packets},max={most_packets},max-probability={most_probability},gentle,seed={seed}"
    )
}

/// The bounds of losses in bursts: the share of those by packets and not by time, and the longest of either.
struct Bursts {
    by_packets: f64,
    most_packets: f64,
    most_ms: f64,
}

/// Losses by chance, each alone or in bursts.
fn losses(
    world: &mut World,
    (share, seed): (f64, u64),
    bursts: Option<Bursts>,
    random: &mut Random,
) -> String {
    match bursts {
        None => format!("random-loss:probability={share},seed={seed}"),
        Some(bursts) if random.chance(bursts.by_packets) => {
            let packets = random.uniform(1.5, bursts.most_packets);
            world.parameter("mean_burst_packets", packets);
            format!("bursty-loss:share={share},mean-burst={packets},seed={seed}")
        }
        Some(bursts) => {
            let outage_ns = logarithmic_ns(1.0, bursts.most_ms, random);
            world.parameter("mean_outage_ms", outage_ns as f64 / 1e6);
            format!("fading:share={share},mean={outage_ns}ns,seed={seed}")
        }
    }
}

/// Packets that appear in no capture and use the element too.
struct Hidden {
    rate_bps: u64,
    packet_bytes: u32,
    on_off: bool,
    /// The probability of exponential gaps.
    poisson: f64,
    /// The longest mean time on, or off.
    most_ms: f64,
}

impl Hidden {
    fn add(self, world: &mut World, random: &mut Random) {
        let traffic = CrossTraffic {
            stage: world.element,
            rate_bps: self.rate_bps,
            packet_bytes: self.packet_bytes,
            poisson: random.chance(self.poisson),
            mean_on_ns: logarithmic_ns(50.0, self.most_ms, random),
            mean_off_ns: match self.on_off {
                true => logarithmic_ns(50.0, self.most_ms, random),
                false => 0,
            },
            start_ns: 0,
        };
        world.scenario.cross_traffic.push(traffic);
    }
}

/// A buffer that is a share of what the path has in flight at a rate: at least 16 kB.
fn small_buffer(product_bytes: f64, most_share: f64, most_bytes: f64, random: &mut Random) -> u64 {
    let share = random.uniform(0.05, most_share);
    (product_bytes * share).clamp(16_000.0, most_bytes) as u64
}

/// The rate that a window allows.
fn allowed_bps(world: &World, window_bytes: u64) -> u64 {
    (window_bytes as f64 * 8e9 / world.rtt_ns as f64) as u64
}

fn set_receive_buffer(world: &mut World, bytes: u64) {
    let receiver = &mut world.scenario.flows[0].receiver;
    receiver.buffer_bytes = bytes;
    receiver.initial_window_bytes = bytes.min(64_000);
}

/// Draws whether a queue's limit counts the packet in service.
fn in_service(world: &mut World, random: &mut Random) -> &'static str {
    let (name, text) = match random.chance(0.3) {
        true => ("Counted", "counted"),
        false => ("NotCounted", "not-counted"),
    };
    world.parameter("in_service", name);
    text
}
