//! Kinds with a hop that drops or shapes: policers, queues, shapers, random loss, active queue management.

use whydrop_hosts::{Algorithm, Pacing};

use whydrop_path::{
    Chain, CoDel, Fifo, InService, Limit, LinuxPolice, PathElement, Pie, Policer, Random,
    RandomLoss, Red, Shaper, SingleRateThreeColour, TwoRateThreeColour, overhead,
};

use super::draw::{
    ELEMENT_STAGE, Element, MS, busy_link, chunks, flow, late_start, note, note_tap, pick,
    set_element,
};
use super::{Case, Kind};
use crate::scenario::{Application, CrossTraffic, FlowConfig};

const MBIT: f64 = 1e6;
const FULL_PACKET_BYTES: u64 = 1_500;

pub(super) fn apply(case: &mut Case, random: &mut Random) {
    match case.kind {
        Kind::RandomLoss | Kind::BurstLoss => chance(case, random),
        Kind::Shaper => shaper(case, random),
        Kind::CoDel | Kind::Pie | Kind::Red => managed_queue(case, random),
        Kind::Queue
        | Kind::QueueShallow
        | Kind::QueueCrossTraffic
        | Kind::QueueHiddenCrossTraffic
        | Kind::QueueWithRandomLoss => queue(case, random),
        _ => policer(case, random),
    }
    late_start(case, random);
}

/// Draws the bytes that the hop counts, and their name in a truth file.
fn byte_basis(case: &mut Case, random: &mut Random) -> u32 {
    let (name, bytes) = match random.unit() {
        u if u < 0.6 => ("ip", overhead::IP),
        u if u < 0.9 => ("ethernet", overhead::ETHERNET),
        _ => ("wire", overhead::WIRE),
    };
    note(case, "byte_basis", name);
    bytes
}

fn policer(case: &mut Case, random: &mut Random) {
    let kind = case.kind;
    let rate_bps = (random.log_uniform(0.3, 500.0) * MBIT) as u64;
    let burst_bytes = match kind {
        Kind::PolicerSmallBurst => 5 * FULL_PACKET_BYTES + random.below(5 * FULL_PACKET_BYTES),
        // Not so deep that it takes minutes to reach the rate.
        _ => {
            let most = (rate_bps as f64 / 8.0 * 4.0).clamp(60_000.0, 2_000_000.0);
            random.log_uniform(15_000.0, most) as u64
        }
    };
    case.facts.policer_rate_bps = Some(rate_bps);
    case.facts.policer_burst_bytes = Some(burst_bytes);
    note(case, "rate_bps", rate_bps);
    note(case, "burst_bytes", burst_bytes);
    let overhead_bytes = byte_basis(case, random);
    let plain = Policer::new(rate_bps, burst_bytes).with_overhead(overhead_bytes);
    let element: Element = match kind {
        Kind::PolicerDualRate => dual_rate(case, rate_bps, burst_bytes, overhead_bytes, random),
        Kind::PolicerBehindShaper => {
            let shaper_bps = (rate_bps as f64 * random.uniform(1.3, 6.0)) as u64;
            note(case, "shaper_rate_bps", shaper_bps);
            let shaper = Shaper::new(shaper_bps, 2 * FULL_PACKET_BYTES, Limit::NONE);
            Box::new(Chain::new(vec![Box::new(shaper), Box::new(plain)]))
        }
        Kind::Policer if random.chance(0.25) => {
            note(case, "implementation", "linux act_police");
            Box::new(LinuxPolice::new(rate_bps, burst_bytes).with_overhead(overhead_bytes))
        }
        _ => Box::new(plain),
    };
    set_element(case, element);
    if kind == Kind::PolicerWithRandomLoss {
        lose_behind(case, random);
    }
    busy_link(case, rate_bps, random);
    fixed_rate_sender(case, rate_bps, random);
    cross_traffic(case, rate_bps, random);
    chunks(case, rate_bps, (3 * burst_bytes).min(6_000_000), random);
    steady_cross_flow(case, random);
}

fn dual_rate(
    case: &mut Case,
    rate_bps: u64,
    burst_bytes: u64,
    overhead_bytes: u32,
    random: &mut Random,
) -> Element {
    match random.below(3) {
        0 => {
            let peak_rate_bps = (rate_bps as f64 * random.uniform(1.5, 8.0)) as u64;
            let peak_burst_bytes = FULL_PACKET_BYTES * (3 + random.below(20));
            note(case, "implementation", "two buckets");
            note(case, "peak_rate_bps", peak_rate_bps);
            note(case, "peak_burst_bytes", peak_burst_bytes);
            let policer =
                Policer::new(rate_bps, burst_bytes).with_peak(peak_rate_bps, peak_burst_bytes);
            Box::new(policer.with_overhead(overhead_bytes))
        }
        1 => {
            // Yellow packets pass, so that the two bursts act as one.
            let excess_bytes = random.log_uniform(15_000.0, 200_000.0) as u64;
            note(case, "implementation", "RFC 2697, red dropped");
            note(case, "excess_burst_bytes", excess_bytes);
            case.facts.policer_burst_bytes = Some(burst_bytes + excess_bytes);
            let marker = SingleRateThreeColour::new(rate_bps, burst_bytes, excess_bytes);
            Box::new(marker.with_overhead(overhead_bytes))
        }
        _ => {
            // Only red packets are dropped, so that the peak rate polices.
            let committed_bps = rate_bps / 2;
            note(
                case,
                "implementation",
                "RFC 2698, red dropped; rate and burst are PIR and PBS",
            );
            let marker =
                TwoRateThreeColour::new(committed_bps, burst_bytes / 2, rate_bps, burst_bytes);
            Box::new(marker.with_overhead(overhead_bytes))
        }
    }
}

/// Random losses behind the hop.
fn lose_behind(case: &mut Case, random: &mut Random) {
    let loss = random.log_uniform(0.0005, 0.005);
    note(case, "random_loss", loss);
    let behind = &mut case.scenario.stages[ELEMENT_STAGE + 1];
    let delay = std::mem::replace(&mut behind.element, Box::new(Chain::new(Vec::new())));
    let lossy = RandomLoss::independent(loss, random.next_u64());
    behind.element = Box::new(Chain::new(vec![delay, Box::new(lossy)]));
}

/// In some cases, a sender with a fixed rate near that of the hop.
fn fixed_rate_sender(case: &mut Case, rate_bps: u64, random: &mut Random) {
    if !random.chance(0.12) {
        return;
    }
    // Flows that share the hop follow: see `cross_traffic`.
    let flows = if case.kind == Kind::PolicerShared {
        3.0
    } else {
        1.0
    };
    let own_bps = (rate_bps as f64 * random.uniform(1.02, 1.4) / flows) as u64;
    note(case, "sender_rate_bps", own_bps);
    let flight_bytes = own_bps as f64 / 8.0 * (case.facts.rtt_ns as f64 / 1e9 + 0.1);
    for flow in &mut case.scenario.flows {
        flow.sender.algorithm = Algorithm::FixedRate { rate_bps: own_bps };
        flow.sender.pacing = Pacing::Rate(own_bps);
        flow.sender.initial_window = (2.0 * flight_bytes / flow.sender.mss as f64).max(10.0);
        flow.sender.hystart = false;
    }
}

/// Adds other flows to the same client, in the capture or hidden from it, as the kind requires.
fn cross_traffic(case: &mut Case, rate_bps: u64, random: &mut Random) {
    let more = match case.kind {
        Kind::PolicerShared => 1 + random.below(3),
        Kind::PolicerSharedCrossTraffic => 1,
        Kind::QueueCrossTraffic => 0,
        _ => 0,
    };
    let first = case.scenario.flows[0];
    for number in 1..=more {
        let start_ns = (random.uniform(10.0, 3_000.0) * MS as f64) as i64;
        let client_port = first.client_port + number as u16;
        case.scenario.flows.push(FlowConfig {
            client_port,
            start_ns,
            ..first
        });
    }
    if matches!(
        case.kind,
        Kind::PolicerHiddenCrossTraffic | Kind::QueueHiddenCrossTraffic
    ) {
        let share = random.uniform(0.1, 0.6);
        let on_off = random.chance(0.5);
        note(case, "hidden_share_of_rate", share);
        case.scenario.cross_traffic.push(CrossTraffic {
            stage: ELEMENT_STAGE,
            rate_bps: (rate_bps as f64 * share) as u64,
            packet_bytes: *pick(&[1_500, 1_500, 1_200, 576, 200], random),
            poisson: random.chance(0.7),
            mean_on_ns: (random.log_uniform(50.0, 3_000.0) * MS as f64) as i64,
            mean_off_ns: if on_off {
                (random.log_uniform(50.0, 3_000.0) * MS as f64) as i64
            } else {
                0
            },
            start_ns: 0,
        });
    }
}

/// Adds a long transfer from another server (as iperf), in the capture, through the same hop.
fn steady_cross_flow(case: &mut Case, random: &mut Random) {
    if !matches!(
        case.kind,
        Kind::PolicerSharedCrossTraffic | Kind::QueueCrossTraffic
    ) {
        return;
    }
    case.facts.cross_traffic = true;
    let first = case.scenario.flows[0];
    let asked = first.application;
    let all_bytes = asked.bytes_per_request() * u64::from(asked.requests());
    case.scenario.flows.push(FlowConfig {
        application: Application::Chunks {
            bytes: all_bytes,
            count: 1,
            pause_ns: 0,
        },
        server_port: 5_001,
        client_port: first.client_port.wrapping_add(4_000).max(1_024),
        start_ns: (random.uniform(10.0, 2_000.0) * MS as f64) as i64,
        ..flow(7, random)
    });
}

fn queue(case: &mut Case, random: &mut Random) {
    let kind = case.kind;
    let rate_bps = (random.log_uniform(0.5, 300.0) * MBIT) as u64;
    let rtt_s = case.facts.rtt_ns as f64 / 1e9;
    let packets_per_s = rate_bps as f64 / (8.0 * FULL_PACKET_BYTES as f64);
    let product = packets_per_s * rtt_s;
    let limit_packets = if kind == Kind::QueueShallow {
        // Shallow in packets and in time: a full queue adds less than half of the path's own round trip, or has very
        // few packets.
        random.log_uniform(3.0, (product / 2.0).clamp(8.0, 30.0))
    } else {
        // From half of the bandwidth-delay product to several times it.
        (product * random.log_uniform(0.5, 5.0)).clamp(40.0, 4_000.0)
    };
    let limit_packets = limit_packets.round() as u64;
    let in_bytes = random.chance(0.4);
    let limit_bytes = limit_packets * FULL_PACKET_BYTES;
    let limit = if in_bytes {
        Limit::bytes(limit_bytes)
    } else {
        Limit::packets(limit_packets)
    };
    let in_service = if random.chance(0.3) {
        InService::Counted
    } else {
        InService::NotCounted
    };
    case.facts.link_rate_bps = Some(rate_bps);
    case.facts.link_burst_bytes = Some(limit_bytes);
    note(case, "drain_rate_bps", rate_bps);
    note(
        case,
        if in_bytes {
            "limit_bytes"
        } else {
            "limit_packets"
        },
        if in_bytes { limit_bytes } else { limit_packets },
    );
    note(case, "in_service", format!("{in_service:?}"));
    let overhead_bytes = byte_basis(case, random);
    set_element(
        case,
        Box::new(
            Fifo::new(rate_bps, limit)
                .with_in_service(in_service)
                .with_overhead(overhead_bytes),
        ),
    );
    if kind == Kind::QueueWithRandomLoss {
        lose_behind(case, random);
    }
    busy_link(case, rate_bps, random);
    fixed_rate_sender(case, rate_bps, random);
    cross_traffic(case, rate_bps, random);
    // Long enough to fill the queue several times.
    let product_bytes = (rate_bps as f64 / 8.0 * rtt_s) as u64 + limit_bytes;
    chunks(case, rate_bps, (5 * product_bytes).min(12_000_000), random);
    steady_cross_flow(case, random);
}

fn shaper(case: &mut Case, random: &mut Random) {
    let rate_bps = (random.log_uniform(0.5, 300.0) * MBIT) as u64;
    let burst_bytes = random.log_uniform(3_000.0, 200_000.0) as u64;
    note(case, "rate_bps", rate_bps);
    note(case, "burst_bytes", burst_bytes);
    case.facts.link_rate_bps = Some(rate_bps);
    case.facts.link_burst_bytes = Some(burst_bytes);
    let overhead_bytes = byte_basis(case, random);
    let shaper = Shaper::new(rate_bps, burst_bytes, Limit::NONE).with_overhead(overhead_bytes);
    set_element(case, Box::new(shaper));
    // Behind the hop its delay cannot be seen.
    case.scenario.capture.tap = case.scenario.capture.tap.min(ELEMENT_STAGE);
    note_tap(case);
    chunks(case, rate_bps, 4 * burst_bytes, random);
}

fn chance(case: &mut Case, random: &mut Random) {
    let loss = random.log_uniform(0.0005, 0.03);
    note(case, "random_loss", loss);
    case.facts.random_loss_percent = Some(loss * 100.0);
    let seed = random.next_u64();
    let lossy = if case.kind == Kind::BurstLoss && random.chance(0.5) {
        // Longer loss bursts would also drop successive retransmissions, which are sent singly.
        let mean_burst_packets = random.uniform(1.5, 3.5);
        note(case, "mean_burst_packets", mean_burst_packets);
        RandomLoss::bursts(loss, mean_burst_packets, seed)
    } else if case.kind == Kind::BurstLoss {
        let mean_outage_ns = (random.log_uniform(1.0, 40.0) * MS as f64) as i64;
        note(case, "mean_outage_ms", mean_outage_ns as f64 / 1e6);
        RandomLoss::outages(loss, mean_outage_ns, seed)
    } else {
        RandomLoss::independent(loss, seed)
    };
    // In half of the cases behind a link that is slower than the sender's card and never drops.
    let rate_bps = (random.log_uniform(5.0, 500.0) * MBIT) as u64;
    let mut elements: Vec<Element> = vec![Box::new(lossy)];
    if random.chance(0.5) {
        note(case, "link_rate_bps", rate_bps);
        case.facts.link_rate_bps = Some(rate_bps);
        elements.insert(0, Box::new(Fifo::new(rate_bps, Limit::NONE)));
    }
    set_element(case, Box::new(Chain::new(elements)));
    chunks(
        case,
        rate_bps,
        (20.0 / loss * 300.0).min(6_000_000.0) as u64,
        random,
    );
}

fn managed_queue(case: &mut Case, random: &mut Random) {
    let rate_bps = (random.log_uniform(2.0, 200.0) * MBIT) as u64;
    let seed = random.next_u64();
    let packets_per_s = rate_bps as f64 / (8.0 * FULL_PACKET_BYTES as f64);
    // A realistic limit that early drops keep the queue below: a second's worth.
    let limit = Limit::packets((packets_per_s as u64).max(300));
    note(case, "drain_rate_bps", rate_bps);
    case.facts.link_rate_bps = Some(rate_bps);
    let overhead_bytes = byte_basis(case, random);
    let element: Box<dyn PathElement + Send> = match case.kind {
        Kind::CoDel => Box::new(CoDel::new(rate_bps, limit).with_overhead(overhead_bytes)),
        Kind::Pie => Box::new(Pie::new(rate_bps, limit, seed).with_overhead(overhead_bytes)),
        _ => {
            // Thresholds at 10 and 30 ms of packets, at least 5 and 15 of them.
            let min_packets = (packets_per_s * 0.01).max(5.0);
            note(case, "min_packets", min_packets);
            let red = Red::new(
                rate_bps,
                limit,
                min_packets,
                3.0 * min_packets,
                random.uniform(0.02, 0.2),
                seed,
            );
            Box::new(red.gentle().with_overhead(overhead_bytes))
        }
    };
    set_element(case, element);
    chunks(case, rate_bps, 1_500_000, random);
}
