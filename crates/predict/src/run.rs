//! Runs of a setting, one for each seed, in parallel.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use whydrop_network::{
    Application, Behaviour, Extras, FlowConfig, Packet, Scenario, Simulation, Stage, WatchConfig,
};
use whydrop_path::{Fifo, Limit, Random, SpecError};

use crate::measure::{Outcome, Tally};
use crate::setting::{Flow, Load, Setting};

/// Connections begin within this time of their start, acknowledgments are delayed by up to the second, and the round
/// trip is known to this share: without them two runs would be the same, to the last packet, or have their losses at the
/// same places.
const START_SPREAD_NS: u64 = 2_000_000;
const ACK_JITTER_NS: i64 = 20_000;
const ROUND_TRIP_WITHIN: f64 = 0.01;
/// The last data is still acknowledged, or retransmitted, in this time.
const LINGERING_NS: i64 = 3_000_000_000;
/// Portions of an application that writes at a rate.
const WRITES_NS: i64 = 5_000_000;
/// More than any connection carries, and far from overflow.
const ENDLESS_BYTES: u64 = 1 << 50;
/// Faster than any link, so that it delays nothing.
const FAST_BPS: u64 = 400_000_000_000;

/// Simulates a setting once for each seed; outcomes are in the order of the seeds.
///
/// # Errors
/// The path makes no sense: which element and field.
pub fn run(setting: &Setting, seeds: &[u64]) -> Result<Vec<Outcome>, SpecError> {
    let outcomes = run_watched(setting, seeds, |_| true)?;
    Ok(outcomes.unwrap_or_default())
}

/// The same; `goes_on` is called with the number of runs that have ended, after each. `None` where it returned false.
///
/// # Errors
/// As [`run`].
pub fn run_watched(
    setting: &Setting,
    seeds: &[u64],
    mut goes_on: impl FnMut(usize) -> bool,
) -> Result<Option<Vec<Outcome>>, SpecError> {
    setting.path.build(0)?;
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let (ended, ending) = mpsc::channel();
    let mut found = thread::scope(|scope| {
        for _ in 0..workers.min(seeds.len()) {
            let (ended, next) = (ended.clone(), &next);
            scope.spawn(move || work(setting, seeds, next, &ended));
        }
        drop(ended);
        let mut found = Vec::new();
        while let Ok(one) = ending.recv() {
            found.push(one);
            if !goes_on(found.len()) {
                next.store(seeds.len(), Ordering::Relaxed);
                return None;
            }
        }
        Some(found)
    });
    if let Some(found) = &mut found {
        found.sort_by_key(|&(place, _)| place);
    }
    Ok(found.map(|found| found.into_iter().map(|(_, outcome)| outcome).collect()))
}

/// Runs seeds until none is left, or no receiver waits for the outcomes.
fn work(
    setting: &Setting,
    seeds: &[u64],
    next: &AtomicUsize,
    ended: &mpsc::Sender<(usize, Outcome)>,
) {
    loop {
        let place = next.fetch_add(1, Ordering::Relaxed);
        let Some(&seed) = seeds.get(place) else {
            return;
        };
        if ended.send((place, once(setting, seed))).is_err() {
            return;
        }
    }
}

fn once(setting: &Setting, seed: u64) -> Outcome {
    let mut tally = Tally::of(setting);
    simulate(setting, seed, &mut |packet, passed| {
        tally.add(packet, passed);
    });
    tally.outcome()
}

/// Runs a setting; `witness` is given each packet, and when it reached the path, behind the line, and left it.
pub(crate) fn simulate(
    setting: &Setting,
    seed: u64,
    witness: &mut dyn FnMut(&Packet, [Option<i64>; 2]),
) {
    let mut random = Random::new(seed);
    let share = random.uniform(-ROUND_TRIP_WITHIN, ROUND_TRIP_WITHIN);
    let round_trip_ns = (setting.round_trip_ns as f64 * (1.0 + share)) as i64;
    let flows: Vec<FlowConfig> = (setting.flows.iter().enumerate())
        .map(|(number, flow)| connection(setting, number, flow, &mut random))
        .collect();
    let behaviours = (setting.flows.iter())
        .map(|flow| Behaviour {
            ecn: flow.ecn,
            client_repeats: true,
            ..Behaviour::default()
        })
        .collect();
    let scenario = Scenario {
        seed,
        stages: stages(setting, round_trip_ns, seed),
        reverse_jitter_ns: ACK_JITTER_NS,
        end_ns: setting.duration_ns + LINGERING_NS,
        flows,
        ..Scenario::default()
    };
    let extras = Extras {
        behaviours,
        ..Extras::default()
    };
    let watch = WatchConfig {
        points: [1, 2],
        seed,
        ..WatchConfig::default()
    };
    let simulation = Simulation::new(scenario).with(extras).watching(watch);
    let simulation = simulation.with_witness(Box::new(witness));
    match setting.most_packets {
        Some(most) => simulation.with_most_packets(most).run(),
        None => simulation.run(),
    };
}

fn stages(setting: &Setting, round_trip_ns: i64, seed: u64) -> Vec<Stage> {
    let line_bps = setting
        .line_bps
        .map_or(FAST_BPS, |rate_bps| rate_bps as u64);
    let line = Stage {
        name: "line",
        element: Box::new(Fifo::new(line_bps, Limit::NONE)),
        reverse_delay_ns: 0,
    };
    let path = Stage {
        name: "path",
        element: setting.path.assemble(seed),
        reverse_delay_ns: round_trip_ns,
    };
    vec![line, path]
}

fn connection(setting: &Setting, number: usize, flow: &Flow, random: &mut Random) -> FlowConfig {
    let [_, _, high, low] = (number as u32 + 2).to_be_bytes();
    FlowConfig {
        sender: flow.sender(),
        receiver: flow.receiver(),
        application: application(setting, flow),
        client: [198, 18, high, low],
        server: [198, 19, 0, 1],
        client_port: 40_000,
        server_port: 443,
        start_ns: flow.start_ns + random.below(START_SPREAD_NS) as i64,
        captured: false,
        timestamps: true,
        closes: false,
        extra_rtt_ns: flow.extra_rtt_ns,
    }
}

fn application(setting: &Setting, flow: &Flow) -> Application {
    let at_once = |bytes| Application::Chunks {
        bytes,
        count: 1,
        pause_ns: 0,
    };
    match flow.load {
        Load::Full => at_once(ENDLESS_BYTES),
        Load::Transfer { bytes } => at_once(bytes.max(1)),
        Load::Rate { rate_bps } => Application::Stream {
            bytes: (rate_bps * WRITES_NS as f64 / 8e9).ceil() as u64,
            count: (setting.duration_ns / WRITES_NS)
                .try_into()
                .unwrap_or(u32::MAX),
            interval_ns: WRITES_NS,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(path: &str) -> Setting {
        Setting {
            line_bps: Some(100e6),
            duration_ns: 5_000_000_000,
            ..Setting::one_flow(path.parse().unwrap(), 40_000_000)
        }
    }

    #[test]
    fn a_seed_gives_the_same_outcome_whatever_runs_beside_it() {
        let setting = setting("policer:rate=20M,burst=50kB");
        let alone = run(&setting, &[7]).unwrap();
        let among = run(&setting, &[5, 6, 7, 8]).unwrap();
        assert_eq!(among[2], alone[0]);
        assert_ne!(among[1], alone[0]);
    }

    #[test]
    fn a_long_queue_carries_its_rate_and_delays_by_its_length() {
        let outcome = &run(&setting("fifo:rate=20M,limit=200packets"), &[1]).unwrap()[0];
        // 1448 of 1500 bytes are payload; the beginning takes some round trips.
        assert!(
            (17.5e6..=19.31e6).contains(&outcome.goodput_bps),
            "{outcome:?}"
        );
        // 200 packets of 1500 bytes take 120 ms.
        assert!(
            (0.08..=0.121).contains(&outcome.queueing_p95_s),
            "{outcome:?}"
        );
    }

    #[test]
    fn a_sender_that_writes_at_a_rate_has_that_goodput() {
        let mut setting = setting("fifo:rate=20M,limit=200packets");
        setting.flows[0].load = Load::Rate { rate_bps: 5e6 };
        let outcome = &run(&setting, &[1]).unwrap()[0];
        assert!(
            (4.8e6..=5.2e6).contains(&outcome.goodput_bps),
            "{outcome:?}"
        );
        assert_eq!(outcome.loss_rate, 0.0);
    }

    #[test]
    fn large_segments_fill_a_path_as_small_ones_do() {
        for mss_bytes in [1_448, 8_948] {
            let mut setting = setting("fifo:rate=50M,limit=500kB");
            setting.flows[0].mss_bytes = mss_bytes;
            let outcome = &run(&setting, &[1]).unwrap()[0];
            assert!(outcome.goodput_bps > 40e6, "{mss_bytes}: {outcome:?}");
        }
    }

    #[test]
    fn a_transfer_ends_with_its_last_byte() {
        let mut setting = setting("fifo:rate=20M,limit=200packets");
        setting.flows[0].load = Load::Transfer { bytes: 144_800 };
        let outcome = &run(&setting, &[1]).unwrap()[0];
        assert_eq!(outcome.packets, 100);
        // Ten, twenty, forty and thirty segments in four round trips.
        assert!((6e6..=9e6).contains(&outcome.goodput_bps), "{outcome:?}");
    }

    #[test]
    fn a_small_receive_window_bounds_the_goodput() {
        let mut setting = setting("delay:time=0ms");
        setting.flows[0].receive_window_bytes = Some(64_000);
        let outcome = &run(&setting, &[1]).unwrap()[0];
        // 64 kB in 40 ms.
        assert!(
            (10e6..=12.9e6).contains(&outcome.goodput_bps),
            "{outcome:?}"
        );
    }

    #[test]
    fn a_run_ends_with_the_most_packets() {
        let endless = setting("fifo:rate=20M,limit=200packets");
        let bounded = Setting {
            most_packets: Some(1_000),
            ..endless.clone()
        };
        let packets = |setting| run(setting, &[1]).unwrap()[0].packets;
        assert!(packets(&endless) > 5_000);
        assert!((500..=1_000).contains(&packets(&bounded)));
    }

    #[test]
    fn a_path_that_makes_no_sense_is_refused() {
        let mut setting = setting("fifo:rate=20M,limit=200packets");
        setting.path = whydrop_path::ElementSpec::policer(-1.0, 5.0).into();
        assert!(run(&setting, &[1]).is_err());
    }
}
