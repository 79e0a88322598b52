//! Settings shared by several mechanisms: byte bases, rates of links, data connections.

use whydrop_path::{Chain, Delay, Fifo, Limit, Random, overhead};

use super::draw::{World, pick};
use super::policer::Element;

pub const MBIT: f64 = 1e6;

/// Draws the bytes that the element counts: their name in the truth and the bytes added to the IP packet.
pub fn byte_basis(world: &mut World, random: &mut Random) -> u32 {
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
    bytes
}

/// Makes the sender's card faster than the element that it fills.
pub fn outrun(world: &mut World, rate_bps: u64) {
    if rate_bps as f64 * 1.5 > world.line_bps as f64 {
        world.set_line(10_000_000_000);
    }
}

/// Adds one to four data connections.
pub fn more_connections(world: &mut World, random: &mut Random) {
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
pub fn wide_link(world: &mut World, random: &mut Random) -> Element {
    let link_bps = (world.line_bps as f64 * random.uniform(1.05, 1.5)) as u64;
    world.circumstance("link_rate_bps", link_bps);
    Box::new(Fifo::new(link_bps, Limit::NONE).with_overhead(overhead::WIRE))
}

pub fn set_wide_link(world: &mut World, random: &mut Random) {
    let link = wide_link(world, random);
    world.set_element(link);
}

/// Appends an element to a stage.
pub fn put_behind(world: &mut World, stage: usize, element: Element) {
    let stage = &mut world.scenario.stages[stage];
    let there = std::mem::replace(&mut stage.element, Box::new(Delay::new(0)));
    stage.element = Box::new(Chain::new(vec![there, element]));
}
