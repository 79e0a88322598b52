//! Drawing of a scenario: what all kinds have in common (hosts, distances, the point of capture).

use serde_json::json;
use whydrop_hosts::{Algorithm, Pacing, ReceiverConfig, SenderConfig};
use whydrop_path::{Chain, Delay, Fifo, Jitter, Limit, PathElement, Random, overhead};

use super::{Case, Facts, Kind};
use crate::pcap::Resolution;
use crate::scenario::{Application, CaptureConfig, CrossTraffic, FlowConfig, Scenario, Stage};

pub(super) const MS: i64 = 1_000_000;
/// The stages of every path: before the impaired hop, a link shared with other traffic, the hop, behind it.
pub(super) const BUSY_STAGE: usize = 1;
pub(super) const ELEMENT_STAGE: usize = 2;
const STAGES: usize = 4;
/// The longest duration of a simulated connection.
const LONGEST_NS: i64 = 240_000 * MS;

/// Names in a truth file of the place before each stage, and after the last.
pub const TAP_NAMES: [&str; STAGES + 1] =
    ["sender", "before-busy-link", "before", "behind", "receiver"];

/// One chain of elements on the impaired hop.
pub(super) type Element = Box<dyn PathElement + Send>;

/// Hosts and distances without an impairment.
pub(super) fn base(kind: Kind, random: &mut Random) -> Case {
    let rtt_ns = (random.log_uniform(5.0, 300.0) * MS as f64) as i64;
    let line_bps = if random.chance(0.3) {
        10_000_000_000
    } else {
        1_000_000_000
    };
    let jitter_ns = if random.chance(0.3) {
        0
    } else {
        (random.log_uniform(0.001, 5.0) * MS as f64) as i64
    };
    let (stages, forward) = path(rtt_ns, line_bps, jitter_ns, random);
    let capture = capture(random);
    let mut facts = Facts {
        rtt_ns,
        ..Facts::default()
    };
    let parameters = &mut facts.parameters;
    parameters.insert("rtt_ms".into(), json!(rtt_ns as f64 / 1e6));
    parameters.insert("line_bps".into(), json!(line_bps));
    parameters.insert("jitter_before_ms".into(), json!(jitter_ns as f64 / 1e6));
    parameters.insert("one_way_before_ms".into(), json!(forward as f64 / 1e6));
    parameters.insert(
        "segmentation_offload".into(),
        json!(capture.segmentation_offload),
    );
    let scenario = Scenario {
        seed: random.next_u64(),
        flows: vec![flow(0, random)],
        stages,
        cross_traffic: Vec::new(),
        reverse_jitter_ns: if random.chance(0.5) {
            0
        } else {
            (random.log_uniform(0.001, 2.0) * MS as f64) as i64
        },
        acknowledgment_loss: if random.chance(0.1) {
            random.uniform(0.0, 0.01)
        } else {
            0.0
        },
        capture,
        end_ns: LONGEST_NS,
    };
    let mut case = Case {
        kind,
        scenario,
        facts,
    };
    note_tap(&mut case);
    case
}

/// A network card and some distance; the busy link and the hop, still without effect; the rest of the distance.
fn path(rtt_ns: i64, line_bps: u64, jitter_ns: i64, random: &mut Random) -> (Vec<Stage>, i64) {
    let one_way_ns = rtt_ns / 2;
    let before_ns = (one_way_ns as f64 * random.uniform(0.0, 1.0)) as i64;
    let behind_ns = one_way_ns - before_ns;
    let back_ns = rtt_ns - one_way_ns;
    let back_before_ns = back_ns * before_ns / one_way_ns.max(1);
    let card = Fifo::new(line_bps, Limit::NONE).with_overhead(overhead::WIRE);
    let distance = Jitter::new(before_ns, before_ns + jitter_ns, random.next_u64());
    let before = Chain::new(vec![Box::new(card), Box::new(distance)]);
    let stage = |name, element: Element, reverse_delay_ns| Stage {
        name,
        element,
        reverse_delay_ns,
    };
    let stages = vec![
        stage("before", Box::new(before), back_before_ns),
        stage("busy-link", Box::new(Delay::new(0)), 0),
        stage("element", Box::new(Delay::new(0)), 0),
        stage(
            "behind",
            Box::new(Delay::new(behind_ns)),
            back_ns - back_before_ns,
        ),
    ];
    (stages, before_ns)
}

fn capture(random: &mut Random) -> CaptureConfig {
    let tap = match random.unit() {
        u if u < 0.76 => 0,
        u if u < 0.86 => ELEMENT_STAGE,
        u if u < 0.93 => ELEMENT_STAGE + 1,
        _ => STAGES,
    };
    CaptureConfig {
        tap,
        snaplen: 96,
        resolution: if random.chance(0.3) {
            Resolution::Microseconds
        } else {
            Resolution::Nanoseconds
        },
        segmentation_offload: tap == 0 && random.chance(0.3),
        missed: 0.0,
        begins_ns: 0,
    }
}

/// A connection between the same two hosts; the kinds set what it transfers.
pub(super) fn flow(number: u16, random: &mut Random) -> FlowConfig {
    let timestamps = random.chance(0.85);
    let mss = *pick(&[1_460, 1_460, 1_460, 1_400, 1_380, 1_240], random);
    let sender = data_sender(mss, timestamps, 0.7, 0.8, random);
    FlowConfig {
        sender,
        receiver: data_receiver(timestamps, random),
        application: Application::Chunks {
            bytes: 2_000_000,
            count: 5,
            pause_ns: 1_000 * MS,
        },
        client: [192, 0, 2, 10],
        server: [198, 51, 100, 20],
        client_port: 20_000 + (random.below(40_000) as u16 & !7) + number,
        server_port: 443,
        start_ns: 10 * MS,
        captured: true,
        timestamps,
        closes: random.chance(0.7),
        extra_rtt_ns: 0,
    }
}

/// The sender of a connection; the shares are of senders with RACK, and of CUBIC's with HyStart.
pub(crate) fn data_sender(
    mss: u64,
    timestamps: bool,
    rack_share: f64,
    hystart_share: f64,
    random: &mut Random,
) -> SenderConfig {
    let rack = random.chance(rack_share);
    let algorithm = match random.chance(0.8) {
        true => Algorithm::Cubic,
        false => Algorithm::NewReno,
    };
    SenderConfig {
        algorithm,
        mss: if timestamps { mss - 12 } else { mss },
        rack,
        tail_loss_probe: rack,
        hystart: algorithm == Algorithm::Cubic && random.chance(hystart_share),
        pacing: match random.chance(0.25) {
            true => Pacing::Window,
            false => Pacing::None,
        },
        slow_start_after_idle: random.chance(0.8),
        ..SenderConfig::default()
    }
}

/// The receiver of a connection.
pub(crate) fn data_receiver(timestamps: bool, random: &mut Random) -> ReceiverConfig {
    ReceiverConfig {
        segments_per_ack: *pick(&[2, 2, 2, 2, 1, 4], random),
        timestamps,
        ..ReceiverConfig::default()
    }
}

pub(super) fn pick<'a, T>(choices: &'a [T], random: &mut Random) -> &'a T {
    &choices[random.below(choices.len() as u64) as usize]
}

/// Chunks as of video: some seconds' worth each at this rate, with pauses of 0.5 to 2 s.
pub(super) fn chunks(case: &mut Case, rate_bps: u64, least_bytes: u64, random: &mut Random) {
    let seconds = random.uniform(1.5, 6.0);
    let bytes = (rate_bps as f64 / 8.0 * seconds) as u64;
    let bytes = bytes.clamp(400_000, 8_000_000).max(least_bytes);
    let pause_ns = (random.uniform(500.0, 2_000.0) * MS as f64) as i64;
    let count = 3 + random.below(4) as u32;
    case.facts.pause_ns = pause_ns;
    for flow in &mut case.scenario.flows {
        flow.application = Application::Chunks {
            bytes,
            count,
            pause_ns,
        };
    }
}

/// In some cases, adds a link before the hop that is faster and busy with packets in no capture: it never drops, but
/// packets reach the hop after varying waits.
pub(super) fn busy_link(case: &mut Case, rate_bps: u64, random: &mut Random) {
    if !random.chance(0.2) {
        return;
    }
    let link_bps = (rate_bps as f64 * random.uniform(2.0, 8.0)) as u64;
    let spare_bps = link_bps - rate_bps;
    let load_bps = (spare_bps as f64 * random.uniform(0.2, 0.7)) as u64;
    note(case, "busy_link_bps", link_bps);
    note(case, "busy_link_load_bps", load_bps);
    case.scenario.stages[BUSY_STAGE].element = Box::new(Fifo::new(link_bps, Limit::NONE));
    let on_off = random.chance(0.5);
    // Bursts fill the link while they last, so they are short.
    let mean_ns = (random.log_uniform(1.0, 20.0) * MS as f64) as i64;
    case.scenario.cross_traffic.push(CrossTraffic {
        stage: BUSY_STAGE,
        rate_bps: if on_off { 2 * load_bps } else { load_bps },
        packet_bytes: *pick(&[1_500, 1_500, 1_200, 576], random),
        poisson: true,
        mean_on_ns: mean_ns,
        mean_off_ns: if on_off { mean_ns } else { 0 },
        start_ns: 0,
    });
}

/// In some cases, starts the capture when the connection has lasted a while.
pub(super) fn late_start(case: &mut Case, random: &mut Random) {
    if random.chance(0.05) {
        let begins_ns = (random.log_uniform(50.0, 2_000.0) * MS as f64) as i64;
        case.scenario.capture.begins_ns = begins_ns;
        note(case, "capture_begins_s", begins_ns as f64 / 1e9);
    }
}

/// Sets the element of the impaired hop.
pub(super) fn set_element(case: &mut Case, element: Element) {
    case.scenario.stages[ELEMENT_STAGE].element = element;
}

/// Takes the capture at another place than the drawn one.
pub(super) fn move_tap(case: &mut Case, tap: usize) {
    let capture = &mut case.scenario.capture;
    capture.tap = tap.min(STAGES);
    capture.segmentation_offload &= capture.tap == 0;
    note(
        case,
        "segmentation_offload",
        case.scenario.capture.segmentation_offload,
    );
    note_tap(case);
}

/// Records where the capture is taken.
pub(super) fn note_tap(case: &mut Case) {
    let tap = TAP_NAMES[case.scenario.capture.tap];
    note(case, "tap", tap);
}

/// Records a parameter for the truth.
pub(super) fn note(case: &mut Case, name: &str, value: impl Into<serde_json::Value>) {
    case.facts.parameters.insert(name.into(), value.into());
}
