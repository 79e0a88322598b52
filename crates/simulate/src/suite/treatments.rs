//! Random treatments that make captures imperfect: clocks, header rewriting, offload, timestamps, sniffers that miss
//! packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use whydrop_path::Random;

use super::world::{MS, World, logarithmic_ns, pair, parsed, pick};
use crate::pair::{Link, Offload, OffloadStamp, Sniffer, Translation};
use whydrop_network::Resolution;

/// If captures begin or end among the packets, one at the edge may or may not be counted.
pub const EDGE: f64 = 0.04;
/// The share of pairs with no defect except the clock's.
const TIDY: f64 = 0.2;

pub fn apply(world: &mut World, random: &mut Random) {
    if world.ipv6 {
        world.pair.realism.add("ipv6");
    }
    clock(world, random);
    if random.chance(TIDY) {
        return;
    }
    rewriting(world, random);
    offload(world, random);
    wrapping(world, random);
    stamps(world, random);
    missing(world, random);
    coverage(world, random);
}

/// Draws the second clock: offset by microseconds to an hour, up to 300 ppm fast or slow, sometimes with a step in the
/// middle.
fn clock(world: &mut World, random: &mut Random) {
    let sign = |random: &mut Random| if random.chance(0.5) { 1 } else { -1 };
    if random.chance(0.7) {
        let offset_ns = logarithmic_ns(0.001, 3_600_000.0, random);
        world.pair.y.clock.offset_ns = sign(random) * offset_ns;
        world.pair.realism.add("clock-offset");
    }
    if random.chance(0.6) {
        // In thousandths of a ppm.
        world.pair.y.clock.drift_ppm = (random.uniform(-300.0, 300.0) * 1e3).round() / 1e3;
        world.pair.realism.add("clock-drift");
    }
    if random.chance(0.08) {
        let at_ns = (world.scenario.end_ns as f64 * random.uniform(0.15, 0.45)) as i64;
        let step_ns = sign(random) * logarithmic_ns(1.0, 2_000.0, random);
        world.pair.y.clock.steps.push((at_ns, step_ns));
        world.pair.realism.add("clock-step");
        world.pair.realism.note("clock_step_ns", step_ns);
    }
}

/// Draws the changes that devices between the points make to headers.
fn rewriting(world: &mut World, random: &mut Random) {
    if random.chance(0.15) {
        translate(world, random);
    }
    if random.chance(0.4) {
        let hops = 1 + random.below(14) as u8;
        world.pair.y.ttl_forward -= hops;
        world.pair.b.ttl_reverse -= hops;
        world.pair.realism.add("ttl");
        world.pair.realism.note("ttl_hops", hops);
    }
    if random.chance(0.15) {
        world.pair.b.dscp = *pick(&[8, 10, 18, 26, 34, 46], random);
        world.pair.realism.add("dscp-bleached");
        world.pair.realism.note("dscp_b", world.pair.b.dscp);
    }
    if !world.ipv6 && random.chance(0.12) {
        world.pair.y.identification_zero = true;
        world.pair.b.identification_zero = random.chance(0.7);
        world.pair.realism.add("ip-id-zero");
        world
            .pair
            .realism
            .note("ip_id_zero_at_b", world.pair.b.identification_zero);
    }
}

fn translate(world: &mut World, random: &mut Random) {
    let translation = Translation {
        of_server: random.chance(0.6),
        address: match world.ipv6 {
            true => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 7)),
            false => IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)),
        },
        first_port: 20_000 + random.below(20_000) as u16,
    };
    world.pair.realism.add("nat");
    let end = if translation.of_server {
        "sender"
    } else {
        "receiver"
    };
    let said = format!(
        "the {end} became {}, ports from {}",
        translation.address, translation.first_port
    );
    world.pair.realism.note("nat", said);
    if !world.ipv6 && random.chance(0.4) {
        world.pair.y.identification_shift = 1 + random.below(65_000) as u16;
        world.pair.realism.add("ip-id-rewritten");
    }
    world.pair.translation = Some(translation);
}

fn offload(world: &mut World, random: &mut Random) {
    let loses_before = world.parts[pair::BEFORE].path.elements.len() > 1;
    if !loses_before && random.chance(0.15) {
        capture_at_sender(world);
        // Wire packets of a super-segment leave the card back to back.
        let full_frame_ns = (1_538.0 * 8e9 / world.line_bps as f64) as i64;
        world.pair.b.offload = Some(Offload {
            gap_ns: full_frame_ns + full_frame_ns / 10 + 100,
            most_payload_bytes: 64_000,
            stamp: OffloadStamp::First,
        });
        world.pair.realism.add("tso");
    }
    if random.chance(0.15) {
        let gap_ns = logarithmic_ns(0.01, 0.06, random);
        let most_payload_bytes = if random.chance(0.7) { 64_000 } else { 24_616 };
        world.pair.y.offload = Some(Offload {
            gap_ns,
            most_payload_bytes,
            stamp: OffloadStamp::Last,
        });
        world.pair.realism.add("gro");
        world.pair.realism.note("gro_gap_us", gap_ns as f64 / 1e3);
        world
            .pair
            .realism
            .note("gro_most_payload_bytes", most_payload_bytes);
    }
}

/// Moves point B to the sender's card, where super-segments appear as they leave the host's queue, next to the element:
/// the distance moves behind it.
fn capture_at_sender(world: &mut World) {
    let before = &mut world.parts[pair::BEFORE];
    let before_ns = before.back_ns;
    (before.path, before.back_ns) = (parsed("delay:time=1us"), 1_000);
    world.parts[pair::BEYOND].back_ns += before_ns;
    world.put_behind(pair::BEYOND, &format!("delay:time={before_ns}ns"));
    world.watch.points[0] = pair::BEFORE;
}

/// Draws link layers and tunnels, at Y only, and snapshot lengths.
fn wrapping(world: &mut World, random: &mut Random) {
    if random.chance(0.15) {
        // Super-segments are too long for the outer header's length.
        let choices = if world.pair.y.offload.is_some() { 1 } else { 3 };
        let (name, link) = match random.below(choices) {
            0 => ("vlan", Link::Vlan(2 + random.below(4_000) as u16)),
            1 => ("gre", Link::Gre),
            _ => ("vxlan", Link::Vxlan(1 + random.below(1 << 20) as u32)),
        };
        world.pair.y.link = link;
        if !matches!(link, Link::Vlan(_)) {
            world.pair.y.snaplen = 256;
        }
        world.pair.realism.add(name);
    }
    if random.chance(0.2) {
        let at_b = matches!(world.pair.y.link, Link::Gre | Link::Vxlan(_)) || random.chance(0.5);
        let sniffer = if at_b {
            &mut world.pair.b
        } else {
            &mut world.pair.y
        };
        sniffer.snaplen = 96;
        world
            .pair
            .realism
            .add(if at_b { "snaplen-96-b" } else { "snaplen-96-y" });
    }
}

fn stamps(world: &mut World, random: &mut Random) {
    let microseconds = random.chance(0.2);
    let (jitter, coalesce) = (random.chance(0.25), random.chance(0.12));
    for (name, sniffer) in [("b", &mut world.pair.b), ("y", &mut world.pair.y)] {
        if microseconds {
            sniffer.resolution = Resolution::Microseconds;
        }
        if jitter {
            sniffer.jitter_ns = logarithmic_ns(0.001, 0.03, random);
            world
                .pair
                .realism
                .note(&format!("jitter_{name}_us"), sniffer.jitter_ns as f64 / 1e3);
        }
        if coalesce && random.chance(0.7) {
            sniffer.coalesce_ns = logarithmic_ns(0.02, 0.1, random);
            world.pair.realism.note(
                &format!("coalesce_{name}_us"),
                sniffer.coalesce_ns as f64 / 1e3,
            );
        }
    }
    if microseconds {
        world.pair.realism.add("us");
    }
    if jitter {
        world.pair.realism.add("jitter");
    }
    if world.pair.b.coalesce_ns + world.pair.y.coalesce_ns > 0 {
        world.pair.realism.add("coalesce");
    }
}

/// Draws sniffers that miss packets. Not if acknowledgments are lost on the path, since the two could not be
/// distinguished.
fn missing(world: &mut World, random: &mut Random) {
    if !random.chance(0.18) || world.watch.return_loss[1] > 0.0 {
        return;
    }
    let (at_b, at_y) = *pick(
        &[(true, true), (true, false), (false, true), (false, true)],
        random,
    );
    for (name, hit, sniffer) in [
        ("b", at_b, &mut world.pair.b),
        ("y", at_y, &mut world.pair.y),
    ] {
        if hit {
            sniffer.missed = random.log_uniform(0.005, 0.3);
            sniffer.missed_together = *pick(&[1.0, 1.0, 1.5, 4.0], random);
            world
                .pair
                .realism
                .note(&format!("missed_share_{name}"), sniffer.missed);
            world
                .pair
                .realism
                .note(&format!("missed_together_{name}"), sniffer.missed_together);
        }
    }
    world.pair.realism.add("missed");
}

/// Draws the coverage of the captures: start, end, directions, a file that ends in the middle of a record.
fn coverage(world: &mut World, random: &mut Random) {
    if random.chance(0.2) {
        for sniffer in [&mut world.pair.b, &mut world.pair.y] {
            shift(sniffer, world.scenario.end_ns, random);
        }
        world.pair.realism.add("other-times");
        world.pair.realism.tolerate(EDGE);
    }
    if random.chance(0.1) {
        (world.pair.b.forward_only, world.pair.y.forward_only) = (true, true);
        world.pair.realism.add("one-way");
    }
    if random.chance(0.08) {
        let share = random.uniform(0.5, 0.97);
        world.pair.y.cut_after = Some(share);
        world.pair.realism.add("truncated");
        world.pair.realism.note("y_cut_after_share", share);
        world.pair.realism.tolerate(EDGE);
    }
}

fn shift(sniffer: &mut Sniffer, end_ns: i64, random: &mut Random) {
    if random.chance(0.6) {
        sniffer.begins_ns = logarithmic_ns(10.0, 2_500.0, random);
    }
    if random.chance(0.6) {
        sniffer.ends_ns = end_ns - random.below((end_ns / 3) as u64) as i64 - 10 * MS;
    }
}
