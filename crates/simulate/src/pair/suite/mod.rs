//! Suites of pairs: worlds drawn at random, simulated, and kept if they show their mechanism.

mod detour;
mod disciplines;
mod draw;
mod hosts;
pub mod kind;
mod mechanisms;
mod policer;
mod policers;
mod settings;
#[cfg(test)]
mod tests;
pub mod transfers;
mod treatments;
mod windows;

use std::path::Path;

use whydrop_path::Random;

use super::crossing::{Body, Crossing};
use super::output;
use super::truth;
use super::world::SimulatedPair;
use crate::files::WriteError;
use crate::history::{History, PacketFate};
use crate::limiter::{Account, Limiter};
use crate::network::Simulation;
use crate::score::{RATE, burst_share};
use crate::suite::{Independent, Split};
use draw::{ELEMENT_STAGE, World};
pub use kind::Mechanism;
use kind::right_causes;
use policers::Observer;

/// Settings of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairsConfig {
    pub split: Split,
    pub seed: u64,
    pub count: usize,
    /// Only pairs of this mechanism.
    pub only: Option<Mechanism>,
}

/// A draw that does not show its mechanism is repeated, up to this often.
const MOST_DRAWS: u64 = 60;
/// Records in a capture; later ones are left out of both.
const MOST_RECORDS: usize = 58_000;
/// The tolerance of scores is a share of the losses, of at least this many.
const LEAST_SCORED_LOSSES: f64 = 30.0;
/// The least share of the time in flight with a full window, if the window is the limiter.
const LEAST_WINDOW_LIMITED: f64 = 0.6;
/// The same for delayed acknowledgments and remote applications, besides the round trips that they add to, and for
/// outages.
const LEAST_HOST_LIMITED: f64 = 0.5;
const LEAST_OUTAGE: f64 = 0.15;
/// Least tolerance with sniffers that miss packets.
const LIGHT_MISSES: f64 = 0.03;
/// The least number of data packets in a pair.
const LEAST_DATA_PACKETS: u64 = 250;

/// Draws a world with its mechanism, and with the defects that complicate its captures.
fn draw_world(mechanism: Mechanism, random: &mut Random) -> World {
    let mut world = World::base(mechanism, random);
    mechanisms::apply(&mut world, random);
    draw::cross_traffic(&mut world, random);
    treatments::apply(&mut world, random);
    world
}

/// Draws and simulates the pair with this index: the same for the same split, seed and index, whatever the count.
pub fn play(config: &PairsConfig, index: usize) -> Option<SimulatedPair> {
    let mechanism = config
        .only
        .unwrap_or(Mechanism::ALL[index % Mechanism::ALL.len()]);
    let split = config.split;
    let mut seeds = split.seeds(Independent::Pairs, config.seed, index, MOST_DRAWS);
    seeds.find_map(|seed| {
        let mut pair = simulate(draw_world(mechanism, &mut Random::new(seed)), seed)?;
        pair.name = format!("p{index:04}-{}", mechanism.name());
        pair.split = config.split.name();
        Some(pair)
    })
}

/// Writes a suite into a folder, with one folder for each pair. `progress` is called for each.
pub fn write(
    config: &PairsConfig,
    folder: &Path,
    progress: impl FnMut(usize, &str),
) -> Result<(), WriteError> {
    let drawn = (0..config.count).map(|index| play(config, index));
    write_all(drawn, folder, progress, |pair, truth| {
        format!(
            "{}: {} and {} records, {} lost between the points; {}",
            pair.name,
            truth["realism"]["records_b"],
            truth["realism"]["records_y"],
            truth["forward_packets_lost_between"],
            pair.realism.treatments.join(" "),
        )
    })
}

/// Writes each pair into its own folder; missing ones are reported.
fn write_all(
    pairs: impl Iterator<Item = Option<SimulatedPair>>,
    folder: &Path,
    mut progress: impl FnMut(usize, &str),
    line: impl Fn(&SimulatedPair, &serde_json::Value) -> String,
) -> Result<(), WriteError> {
    for (index, pair) in pairs.enumerate() {
        let Some(mut pair) = pair else {
            progress(index, "no draw showed its mechanism: left out");
            continue;
        };
        let own_folder = folder.join(&pair.name);
        let truth = output::write(&mut pair, &own_folder)?;
        progress(index, &line(&pair, &truth));
    }
    Ok(())
}

/// Simulates a world; `None` if it does not show its mechanism.
fn simulate(world: World, seed: u64) -> Option<SimulatedPair> {
    let (mechanism, policer) = (world.mechanism, world.policer.clone());
    let longer = world.watch.longer_ip_header_bytes;
    let (mut pair, history) = run(world, seed);
    if !shows_itself(&mut pair, mechanism, &history) {
        return None;
    }
    if let Some(path) = policer {
        let observer = Observer {
            path,
            arrivals: &policers::arrivals(&pair.crossings, longer),
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
fn run(world: World, seed: u64) -> (SimulatedPair, History) {
    let points = world.watch.points;
    let history = Simulation::new(world.scenario)
        .with(world.extras)
        .watching(world.watch)
        .run();
    let crossings = crossings(&history, points);
    let mut pair = SimulatedPair {
        name: String::new(),
        split: "",
        kind: world.mechanism.kind(),
        variant: world.mechanism.name(),
        note: String::new(),
        seed,
        parameters: world.parameters,
        identifiable: Default::default(),
        circumstances: world.circumstances,
        tcp_flows: world.flows,
        udp_flows: world.udp_flows,
        crossings,
        b: world.b,
        y: world.y,
        translation: world.translation,
        realism: world.realism,
        accounts: Account::of_all(&history),
        right: None,
        right_by_transfer: Vec::new(),
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
    let of = |(packet, passed): (&crate::history::Packet, &[Option<i64>; 2])| {
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

/// True if the common coverage of both captures shows what the mechanism promises: losses or no losses, or delay or
/// reordering if only those show it.
fn shows_itself(pair: &mut SimulatedPair, mechanism: Mechanism, history: &History) -> bool {
    let (b, y) = pair.watch();
    let covered = truth::covered(&pair.crossings, &b, &y);
    let counts = truth::count(&pair.crossings, &covered);
    let of = |stage: usize| {
        let dropped = history
            .packets
            .iter()
            .filter(|p| p.fate == PacketFate::Dropped { stage });
        dropped.filter(|p| !p.is_cross_traffic()).count() as u64
    };
    let own: Vec<&Crossing> = (pair.crossings.iter().zip(&covered))
        .filter(|(crossing, covered)| **covered && crossing.is_forward())
        .map(|(crossing, _)| crossing)
        .collect();
    let lossless = counts.forward_lost == 0;
    let reverse_lost = counts.reverse_y - counts.reverse_b;
    counts.data_b >= LEAST_DATA_PACKETS
        && counts.forward_lost >= mechanism.least_lost()
        && (!mechanism.is_lossless() || lossless)
        && step_is_inside(pair, &y)
        && match mechanism {
            Mechanism::Shaper => median_more_ns(&own) >= 5_000_000,
            Mechanism::Reorder => overtaken(&own) >= 20,
            Mechanism::Jitter => median_more_ns(&own) >= 300_000,
            Mechanism::AckLoss => reverse_lost >= 5,
            Mechanism::LossBeyondY => of(draw::BEYOND_STAGE) >= 5,
            Mechanism::LossBeforeB => of(draw::BEFORE_STAGE) >= 5,
            Mechanism::RwndLimited | Mechanism::SlowReader
                if windows::limited_share(history, 0) < LEAST_WINDOW_LIMITED =>
            {
                false
            }
            Mechanism::RwndLimited
            | Mechanism::SlowReader
            | Mechanism::None
            | Mechanism::AppLimited => (0..=draw::BEYOND_STAGE).all(|stage| of(stage) == 0),
            Mechanism::EcnMark => own.iter().filter(|c| c.marked_between).count() >= 10,
            Mechanism::TwoRatePolicerAndLoss => of(draw::BEYOND_STAGE) >= 3,
            Mechanism::TickShaper | Mechanism::Batching => median_more_ns(&own) >= 500_000,
            Mechanism::StandingQueue => median_more_ns(&own) >= 10_000_000,
            Mechanism::SlowWayBack => back_waits(pair, &covered) || reverse_lost >= 5,
            Mechanism::SendBuffer => limits(pair, Limiter::SendBuffer, LEAST_WINDOW_LIMITED),
            Mechanism::Paced => limits(pair, Limiter::Pacing, LEAST_WINDOW_LIMITED),
            Mechanism::ClosedWindow => limits(pair, Limiter::ReceiveWindow, LEAST_WINDOW_LIMITED),
            Mechanism::DelayedAck => limits(pair, Limiter::DelayedAck, LEAST_HOST_LIMITED),
            Mechanism::PeerApplication => {
                limits(pair, Limiter::PeerApplication, LEAST_HOST_LIMITED)
            }
            Mechanism::Outage => limits(pair, Limiter::Outage, LEAST_OUTAGE),
            _ => of(ELEMENT_STAGE) >= counts.forward_lost,
        }
}

/// True if the first connection had this limiter for this share of its transfers.
fn limits(pair: &SimulatedPair, limiter: Limiter, least: f64) -> bool {
    let Some(account) = pair.accounts.first() else {
        return false;
    };
    let mut times = [0; Limiter::ALL.len()];
    for &(from_ns, until_ns) in &account.transfers {
        let of = account.times_ns(from_ns, until_ns);
        times
            .iter_mut()
            .zip(of)
            .for_each(|(sum, time_ns)| *sum += time_ns);
    }
    let all: i64 = times.iter().sum();
    times[limiter as usize] as f64 >= least * all.max(1) as f64
}

/// True if half of the packets on the return path wait at least 5 ms between the points.
fn back_waits(pair: &SimulatedPair, covered: &[bool]) -> bool {
    let back: Vec<&Crossing> = (pair.crossings.iter().zip(covered))
        .filter(|(crossing, covered)| **covered && !crossing.is_forward())
        .map(|(crossing, _)| crossing)
        .collect();
    median_more_ns(&back) >= 5_000_000
}

/// True if the clock's step lies within the capture, with enough packets before and after it.
fn step_is_inside(pair: &SimulatedPair, y: &super::sniffer::Sighting) -> bool {
    const LEAST_ON_A_SIDE: usize = 200;
    pair.y.clock.steps.iter().all(|&(at_ns, _)| {
        let before = y.records.partition_point(|record| record.time_ns < at_ns);
        before >= LEAST_ON_A_SIDE && y.records.len() - before >= LEAST_ON_A_SIDE
    })
}

/// The excess of the median transit over the least.
fn median_more_ns(own: &[&Crossing]) -> i64 {
    let mut transits: Vec<i64> = own.iter().filter_map(|c| c.transit_ns()).collect();
    transits.sort_unstable();
    let least_ns = transits.first().copied().unwrap_or(0);
    transits
        .get(transits.len() / 2)
        .map_or(0, |&median_ns| median_ns - least_ns)
}

/// Packets that a later one overtook between the points.
fn overtaken(own: &[&Crossing]) -> usize {
    let mut by_departure: Vec<(i64, i64)> = own
        .iter()
        .filter_map(|c| c.at_b_ns.zip(c.at_y_ns))
        .collect();
    by_departure.sort_unstable();
    let mut earliest_later_ns = i64::MAX;
    let mut overtaken = 0;
    for &(_, at_y_ns) in by_departure.iter().rev() {
        overtaken += usize::from(at_y_ns > earliest_later_ns);
        earliest_later_ns = earliest_later_ns.min(at_y_ns);
    }
    overtaken
}
