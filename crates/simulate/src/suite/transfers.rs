//! Short transfers in large numbers, for calibration: drawn like pairs, but kept whether or not they show the mechanism
//! on their path. The correct causes of each follow from what happened to it.

use std::path::Path;

use whydrop_hosts::{Algorithm, Toward};
use whydrop_path::Random;

use super::kind::{PAIRS, right_causes};
use super::pairs::{draw_world, run};
use super::world::{Part, World, pair::BEFORE, pair::BEYOND, pair::ONWARD, parsed};
use super::{Independent, SuiteConfig, Without, write_all};
use crate::files::WriteError;
use crate::pair::{self, SimulatedPair};
use whydrop_network::Application;
use whydrop_network::history::{History, Packet, PacketFate};
use whydrop_network::limiter::{Account, Limiter};

/// The least number of data packets in a transfer, and the largest payload, drawn uniformly over its logarithm.
const LEAST_PACKETS: usize = 8;
const BYTES: (f64, f64) = (40_000.0, 8_000_000.0);
const MOST_DRAWS: u64 = 20;
/// The share of transfers from senders that model the path instead of filling it.
const BBR: f64 = 0.1;
/// Payload of a download, and the shares of downloads between hosts without timestamps, and without selective
/// acknowledgments.
const DOWNLOAD_BYTES: (f64, f64) = (300_000.0, 20_000_000.0);
const WITHOUT_TIMESTAMPS: f64 = 1.0 / 3.0;
const WITHOUT_SACK: f64 = 1.0 / 3.0;

/// The length of transfers, and the position of the second point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    /// Short transfers, the second point somewhere behind the element.
    Transfers,
    /// Longer ones, with the second point at the client, which captures its own download.
    Downloads,
}

/// Draws and simulates the transfer with this index: the same for the same split, seed and index.
pub fn play(config: &SuiteConfig, drawn: Drawn, index: usize) -> Option<SimulatedPair> {
    let mut seeds = Independent::Transfers.seeds(config, index, MOST_DRAWS);
    seeds.find_map(|seed| {
        let mut random = Random::new(seed);
        let number = random.below(PAIRS.len() as u64) as usize;
        let kind = config.kind(PAIRS, number);
        let mut world = draw_world(kind, &mut random);
        match drawn {
            Drawn::Transfers => shorten(&mut world, BYTES, &mut random),
            Drawn::Downloads => {
                shorten(&mut world, DOWNLOAD_BYTES, &mut random);
                watch_at_client(&mut world, &mut random);
            }
        }
        let (mut pair, history) = run(kind, world, seed);
        let data = |packet: &&Packet| {
            let segment = packet.segment;
            segment.is_some_and(|s| s.toward == Toward::Client && s.payload_bytes > 0)
        };
        if history.packets.iter().filter(data).count() < LEAST_PACKETS {
            return None;
        }
        pair.name = format!("t{index:05}-{}", pair.variant);
        pair.split = config.split.name();
        let stands = queue_stands(&pair, &history, drawn);
        let account = pair.accounts.first().cloned().unwrap_or_default();
        let lost = |within| lost_by_stage(&history, within);
        let right = |lost, transfers: &[_]| {
            let limiter = largest(&account, transfers);
            let mut right = right(&pair, lost, stands, limiter);
            // at the client all lines of the path are before the capture, including the sender's card
            if drawn == Drawn::Downloads && stands && right.contains(&"none") {
                right.extend(["shaper", "deep-queue"]);
            }
            right
        };
        let of_all = right(lost(None), &account.transfers);
        let each = account.transfers.iter();
        let of_each = each.map(|bounds| right(lost(Some(*bounds)), &[*bounds]));
        (pair.right_by_transfer, pair.right) = (of_each.collect(), of_all);
        Some(pair)
    })
}

/// Writes this many transfers into a folder, with one folder for each. `progress` is called for each.
pub fn write(
    config: &SuiteConfig,
    drawn: Drawn,
    folder: &Path,
    progress: impl FnMut(usize, &str),
) -> Result<(), WriteError> {
    let play = |index| play(config, drawn, index);
    write_all(config.count, progress, play, |_, mut pair| {
        let own = folder.join(&pair.name);
        let truth = pair::write(&mut pair, &own)?;
        let lost = &truth["forward_packets_lost_between"];
        let right = pair.right.join(", ");
        Ok(format!("{}: {lost} lost; {right}", pair.name))
    })
}

/// Moves the second point to the client: the whole path lies before it, except a host's own few microseconds. Some
/// hosts there do not use timestamps.
fn watch_at_client(world: &mut World, random: &mut Random) {
    const HOST_NS: i64 = 3_000;
    let own = Part {
        name: "client",
        path: parsed(&format!("delay:time={HOST_NS}ns")),
        back_ns: HOST_NS,
    };
    let beyond = std::mem::replace(&mut world.parts[BEYOND], own);
    let onward = &mut world.parts[ONWARD];
    onward.back_ns += beyond.back_ns;
    onward.path.elements.extend(beyond.path.elements);
    world.circumstance("captured_at", "client");
    if random.chance(WITHOUT_TIMESTAMPS) {
        let without = Without {
            timestamps: true,
            sack: false,
        };
        without.apply(&mut world.scenario.flows);
        world.circumstance("timestamps", false);
    }
    if random.chance(WITHOUT_SACK) {
        let without = Without {
            sack: true,
            timestamps: false,
        };
        without.apply(&mut world.scenario.flows);
        world.circumstance("sack", false);
    }
}

/// Limits the data to a few seconds.
fn shorten(world: &mut World, bytes: (f64, f64), random: &mut Random) {
    let bytes = random.log_uniform(bytes.0, bytes.1) as u64;
    let paces_itself = random.chance(BBR);
    for flow in &mut world.scenario.flows {
        if paces_itself {
            flow.sender.algorithm = Algorithm::Bbr;
        }
        flow.application = match flow.application {
            Application::Chunks {
                bytes: was,
                pause_ns,
                count,
            } => Application::Chunks {
                bytes: was.min(bytes),
                count: count.min(2),
                pause_ns,
            },
            Application::Answers {
                bytes,
                writes,
                gap_ns,
                count,
                pause_ns,
            } => Application::Answers {
                bytes,
                writes,
                gap_ns,
                count: count.min(10 + random.below(60) as u32),
                pause_ns,
            },
            stream => stream,
        };
    }
}

/// Packets of the first connection that each stage dropped, among those that left within these bounds, if any.
fn lost_by_stage(history: &History, within: Option<(i64, i64)>) -> Vec<usize> {
    let is_within =
        |sent_ns: i64| within.is_none_or(|(from, until)| (from..until).contains(&sent_ns));
    let own = history.packets.iter().filter(|packet| {
        packet.segment.is_some_and(|segment| segment.flow == 0) && is_within(packet.sent_ns)
    });
    let mut lost = vec![0; BEYOND + 1];
    for packet in own {
        if let PacketFate::Dropped { stage } = packet.fate
            && let Some(lost) = lost.get_mut(stage)
        {
            *lost += 1;
        }
    }
    lost
}

/// The correct causes for what happened: those of the stage that dropped most of the `lost` packets, or otherwise of
/// the limiter with most of the time.
fn right(
    pair: &SimulatedPair,
    lost: Vec<usize>,
    stands: bool,
    limiter: Option<Limiter>,
) -> Vec<&'static str> {
    let most = (0..lost.len())
        .max_by_key(|&stage| lost[stage])
        .unwrap_or(0);
    if lost[most] > 0 {
        return match most {
            BEFORE | BEYOND => vec!["random-loss"],
            _ => right_causes(pair.kind).to_vec(),
        };
    }
    match limiter {
        // with a standing queue, a larger window only lengthens the queue
        Some(Limiter::ReceiveWindow | Limiter::SendBuffer) if stands => bottleneck(pair),
        Some(Limiter::ReceiveWindow) => vec!["receiver-window"],
        Some(Limiter::SendBuffer | Limiter::Application | Limiter::Pacing) => vec!["sender"],
        Some(Limiter::PeerApplication) => vec!["peer-application"],
        Some(Limiter::DelayedAck) => vec!["delayed-ack"],
        Some(Limiter::Outage) => vec!["outage"],
        Some(Limiter::CongestionWindow | Limiter::LossRecovery) => bottleneck(pair),
        // the limiter and the queue are both correct, and so is the reordering
        Some(Limiter::ConnectionSetup | Limiter::SlowStart) | None => {
            let mut right = vec!["none"];
            // acknowledgments wait on the return path, which the points do not see
            if stands || matches!(pair.kind, "reorder" | "slow_way_back") {
                right.extend(bottleneck(pair));
            }
            right
        }
    }
}

/// True if most packets of the first connection waited between the points, or on the forward path, for longer than a
/// tenth of the round trip.
fn queue_stands(pair: &SimulatedPair, history: &History, drawn: Drawn) -> bool {
    let own = history.packets.iter().zip(&history.passed);
    let own = own.filter(|(packet, _)| {
        packet
            .segment
            .is_some_and(|s| s.flow == 0 && s.toward == Toward::Client && s.payload_bytes > 0)
    });
    let transits = own.filter_map(|(packet, passed)| {
        let begins_ns = match drawn {
            Drawn::Transfers => passed[0]?,
            Drawn::Downloads => packet.sent_ns,
        };
        Some(passed[1]? - begins_ns)
    });
    let mut transits: Vec<i64> = transits.collect();
    transits.sort_unstable();
    let (Some(&least), Some(&median)) = (transits.first(), transits.get(transits.len() / 2)) else {
        return false;
    };
    let rtt_ms = pair
        .circumstances
        .get("rtt_ms")
        .and_then(|rtt| rtt.as_f64());
    rtt_ms.is_some_and(|rtt_ms| (median - least) as f64 / 1e6 > rtt_ms / 10.0)
}

/// The limiter with most of the time within these transfers.
fn largest(account: &Account, transfers: &[(i64, i64)]) -> Option<Limiter> {
    let times = account.times_within(transfers);
    let place = (0..times.len()).max_by_key(|&place| times[place])?;
    Some(Limiter::ALL[place])
}

/// The causes of the bottleneck if it has dropped no packet so far.
fn bottleneck(pair: &SimulatedPair) -> Vec<&'static str> {
    match (pair.kind, pair.variant) {
        ("shallow_fifo" | "deep_fifo" | "cross_traffic" | "standing_queue", _) => {
            vec!["deep-queue", "shaper", "shallow-queue"]
        }
        ("shaper" | "shaper_ticks" | "ecn_mark" | "slow_way_back", _) => delays(pair),
        (kind, _) if kind.starts_with("aqm_") => delays(pair),
        (_, "policer-then-shaper" | "shaper-then-policer") => {
            vec!["shaper", "deep-queue", "none", "sender"]
        }
        ("reorder", _) => vec!["reordering", "none", "sender"],
        // The sender's own card, or only the propagation delay.
        _ => vec!["none", "sender"],
    }
}

fn delays(pair: &SimulatedPair) -> Vec<&'static str> {
    let mut right = right_causes(pair.kind).to_vec();
    right.extend(["shaper", "deep-queue"]);
    right.dedup();
    right
}
