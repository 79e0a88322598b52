//! Suites of pairs: a folder for each, with `b.pcap`, `y.pcap` and `truth.json`.

use std::path::Path;

use whydrop_path::Random;

use super::kind::{Kind, PAIRS, Shows};
use super::observer::{self, Observer};
use super::shows::shows_its_kind;
use super::treatments;
use super::world::{self, World};
use super::{Independent, SuiteConfig, write_all};
use crate::files::WriteError;
use crate::pair::{self, Body, Crossing, SimulatedPair};
use crate::score::{RATE, burst_share};
use whydrop_network::Simulation;
use whydrop_network::history::{History, Packet, PacketFate};
use whydrop_network::limiter::Account;

/// A draw that does not show its kind is repeated, up to this often.
pub(super) const MOST_DRAWS: u64 = 60;
/// Records in a capture; later ones are left out of both.
const MOST_RECORDS: usize = 58_000;
/// The tolerance of scores is a share of the losses, of at least this many.
const LEAST_SCORED_LOSSES: f64 = 30.0;
/// Least tolerance with sniffers that miss packets.
const LIGHT_MISSES: f64 = 0.03;

/// Draws a world of its kind, with the defects that complicate its captures.
pub(super) fn draw_world(kind: &'static Kind, random: &mut Random) -> World {
    let mut world = World::of_pair(random);
    (kind.draw)(&mut world, random);
    world::cross_traffic(&mut world, random);
    treatments::apply(&mut world, random);
    world
}

/// Draws and simulates the pair with this index: the same for the same split, seed and index, whatever the count.
pub fn play(config: &SuiteConfig, index: usize) -> Option<SimulatedPair> {
    let kind = config.kind(PAIRS, index);
    let mut seeds = Independent::Pairs.seeds(config, index, MOST_DRAWS);
    seeds.find_map(|seed| {
        let mut pair = simulate(kind, draw_world(kind, &mut Random::new(seed)), seed)?;
        pair.name = format!("p{index:04}-{}", kind.name);
        pair.split = config.split.name();
        Some(pair)
    })
}

/// Writes a suite into a folder. `progress` is called for each pair.
pub fn write(
    config: &SuiteConfig,
    folder: &Path,
    progress: impl FnMut(usize, &str),
) -> Result<(), WriteError> {
    let play = |index| play(config, index);
    write_all(config.count, progress, play, |_, mut pair| {
        let own = folder.join(&pair.name);
        let truth = pair::write(&mut pair, &own)?;
        Ok(format!(
            "{}: {} and {} records, {} lost between the points; {}",
            pair.name,
            truth["realism"]["records_b"],
            truth["realism"]["records_y"],
            truth["forward_packets_lost_between"],
            pair.realism.treatments.join(" "),
        ))
    })
}

/// Simulates a world; `None` if it does not show its kind.
fn simulate(kind: &Kind, world: World, seed: u64) -> Option<SimulatedPair> {
    let Shows::Pair(least_lost, shows) = kind.shows else {
        return None;
    };
    let policer = world.policer.clone();
    let longer = world.watch.longer_ip_header_bytes;
    let (mut pair, history) = run(kind, world, seed);
    if !shows_its_kind(&mut pair, &history, least_lost, shows) {
        return None;
    }
    if let Some(path) = policer {
        let observer = Observer {
            path,
            arrivals: &observer::arrivals(&pair.crossings, longer),
        };
        // A policer with rates that cannot be determined even roughly is not used.
        let roughly = observer.alone(|name, _| if name.ends_with("rate_bps") { 0.1 } else { 0.9 });
        if roughly.values().any(|is_known| is_known == false) {
            return None;
        }
        pair.identifiable = observer.by_profile(allowed_share);
    }
    Some(pair)
}

/// Simulates a world, whatever it shows.
pub(super) fn run(kind: &Kind, mut world: World, seed: u64) -> (SimulatedPair, History) {
    let points = world.watch.points;
    let history = Simulation::new(world.scenario())
        .with(world.extras)
        .watching(world.watch)
        .run();
    let crossings = crossings(&history, points);
    let mut pair = SimulatedPair {
        kind: kind.family,
        variant: kind.name,
        seed,
        crossings,
        accounts: Account::of_all(&history),
        right: kind.right_causes.to_vec(),
        ..world.pair
    };
    // The return paths are known beyond the end of the simulation; other events are not.
    for sniffer in [&mut pair.b, &mut pair.y] {
        sniffer.ends_ns = sniffer.ends_ns.min(history.end_ns);
    }
    if limit_records(&mut pair) || history.complete.contains(&false) {
        pair.realism.add("ends-in-traffic");
        pair.realism.tolerate(treatments::EDGE);
    }
    tolerate_missing(&mut pair);
    (pair, history)
}

/// The tolerance of a policer's parameter, as in the scores.
fn allowed_share(name: &str, value: f64) -> f64 {
    match name.ends_with("burst_bytes") {
        true => burst_share(value).min(0.99),
        false => RATE,
    }
}

/// The packets that passed a point, in the order in which they were sent.
fn crossings(history: &History, points: [usize; 2]) -> Vec<Crossing> {
    let between = points[0]..points[1];
    let of = |(packet, passed): (&Packet, &[Option<i64>; 2])| {
        let body = match (packet.segment_before(points[0]), packet.datagram) {
            (Some(segment), _) => Body::Tcp(segment),
            (None, Some(datagram)) => Body::Udp(datagram),
            (None, None) => return None,
        };
        let [at_b_ns, at_y_ns] = *passed;
        let lost_between = match packet.fate {
            PacketFate::Dropped { stage } => between.contains(&stage),
            PacketFate::LostReturning => at_y_ns.is_some() && at_b_ns.is_none(),
            PacketFate::InFlight | PacketFate::Delivered { .. } => false,
        };
        (at_b_ns.is_some() || at_y_ns.is_some()).then_some(Crossing {
            body,
            at_b_ns,
            at_y_ns,
            lost_between,
            marked_between: packet.marked.is_some_and(|stage| between.contains(&stage)),
        })
    };
    history
        .packets
        .iter()
        .zip(&history.passed)
        .filter_map(of)
        .collect()
}

/// Ends both captures at the point where the longer one would get too long; returns whether that was necessary.
fn limit_records(pair: &mut SimulatedPair) -> bool {
    let mut limited = false;
    for times in [
        pair.crossings
            .iter()
            .filter_map(|c| c.at_b_ns)
            .collect::<Vec<i64>>(),
        pair.crossings.iter().filter_map(|c| c.at_y_ns).collect(),
    ] {
        let mut times = times;
        times.sort_unstable();
        if let Some(&last_ns) = times.get(MOST_RECORDS) {
            pair.b.ends_ns = pair.b.ends_ns.min(last_ns);
            pair.y.ends_ns = pair.y.ends_ns.min(last_ns);
            limited = true;
        }
    }
    limited
}

/// The tolerance of a count of losses if sniffers miss packets. A lost packet that B missed as well is in neither
/// capture. A packet that Y missed looks lost if it was retransmitted for any reason, since it is unknown whether the
/// first copy reached Y. The tolerance is one and a half times the expected error, plus one.
fn tolerate_missing(pair: &mut SimulatedPair) {
    if pair.b.missed + pair.y.missed == 0.0 {
        return;
    }
    let forward = || pair.crossings.iter().filter(|c| c.is_forward());
    let lost = forward().filter(|c| c.lost_between).count() as f64;
    let again = forward().filter(|c| match c.body {
        Body::Tcp(segment) => segment.reason.is_retransmission(),
        Body::Udp(_) => false,
    });
    let doubtful = lost * pair.b.missed + again.count() as f64 * pair.y.missed;
    let share = (1.0 + 1.5 * doubtful) / lost.max(LEAST_SCORED_LOSSES);
    pair.realism.tolerate(share.max(LIGHT_MISSES));
}
