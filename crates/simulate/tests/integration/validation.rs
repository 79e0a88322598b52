//! The simulation compared with known results: rates, counts and limits that follow from the scenario by arithmetic.

use whydrop_path::{Chain, Delay, Fifo, Jitter, Limit, PathElement, Policer, RandomLoss, overhead};
use whydrop_simulate::{
    Algorithm, Application, CaptureConfig, FlowConfig, FlowTruth, History, PacketFate,
    ReceiverConfig, Scenario, SenderConfig, Simulation, Stage, Toward, flow_truths,
};

const MS: i64 = 1_000_000;

fn flow(bytes: u64) -> FlowConfig {
    FlowConfig {
        sender: SenderConfig::default(),
        receiver: ReceiverConfig::default(),
        application: Application::Chunks {
            bytes,
            count: 1,
            pause_ns: 0,
        },
        client: [10, 1, 0, 1],
        server: [10, 2, 0, 1],
        client_port: 40_000,
        server_port: 443,
        start_ns: 0,
        captured: true,
        timestamps: true,
        closes: true,
        extra_rtt_ns: 0,
    }
}

/// A network card of 1 Gbit/s and half of the path, the element, the other half of the path.
fn path(element: impl PathElement + Send + 'static, rtt_ms: i64) -> Vec<Stage> {
    let card = Fifo::new(1_000_000_000, Limit::NONE).with_overhead(overhead::WIRE);
    let delay = |ms: i64| Delay::new(ms * MS);
    let before = Chain::new(vec![Box::new(card), Box::new(delay(rtt_ms / 4))]);
    vec![
        Stage {
            name: "before",
            element: Box::new(before),
            reverse_delay_ns: rtt_ms / 4 * MS,
        },
        Stage {
            name: "element",
            element: Box::new(element),
            reverse_delay_ns: 0,
        },
        Stage {
            name: "behind",
            element: Box::new(delay(rtt_ms / 4)),
            reverse_delay_ns: rtt_ms / 4 * MS,
        },
    ]
}

fn run(flows: &[FlowConfig], stages: Vec<Stage>) -> (History, Vec<FlowTruth>) {
    let scenario = Scenario {
        seed: 1,
        flows: flows.to_vec(),
        stages,
        cross_traffic: Vec::new(),
        reverse_jitter_ns: 0,
        acknowledgment_loss: 0.0,
        capture: CaptureConfig::default(),
        end_ns: 300_000 * MS,
    };
    let history = Simulation::new(scenario).run();
    let truths = flow_truths(&history, flows);
    (history, truths)
}

#[test]
fn a_deep_queue_is_filled_and_the_link_is_busy() {
    // 1448 of 1500 IP bytes are payload: 20 Mbit/s carry 19.31 of goodput.
    for algorithm in [Algorithm::Cubic, Algorithm::NewReno] {
        let mut flow = flow(40_000_000);
        flow.sender.algorithm = algorithm;
        let (history, truths) = run(
            &[flow],
            path(Fifo::new(20_000_000, Limit::bytes(250_000)), 40),
        );
        assert_eq!(history.complete, [true]);
        let share = truths[0].goodput_bps() / (20e6 * 1448.0 / 1500.0);
        assert!((0.97..=1.0).contains(&share), "{algorithm:?}: {share}");
        assert_eq!(truths[0].payload_bytes, 40_000_000);
        assert_eq!(
            truths[0].lost(),
            truths[0].retransmitted,
            "each loss is repaired once, nothing else is retransmitted"
        );
        assert!(truths[0].lost() > 0);
    }
}

#[test]
fn without_an_impairment_nothing_is_lost_or_retransmitted() {
    let (_, truths) = run(&[flow(5_000_000)], path(Delay::new(0), 100));
    assert_eq!(
        (
            truths[0].lost(),
            truths[0].retransmitted,
            truths[0].duplicate
        ),
        (0, 0, 0)
    );
    assert_eq!(truths[0].sent, 5_000_000u64.div_ceil(1_448));
}

#[test]
fn through_a_policer_goodput_stays_below_the_committed_rate() {
    // After the first burst. 10 Mbit/s, 50 kB.
    let (history, truths) = run(
        &[flow(20_000_000)],
        path(Policer::new(10_000_000, 50_000), 50),
    );
    assert_eq!(history.complete, [true]);
    let goodput_bps = truths[0].goodput_bps();
    assert!(goodput_bps < 10e6 * 1448.0 / 1500.0, "{goodput_bps}");
    assert!(goodput_bps > 3e6, "TCP still makes progress: {goodput_bps}");
    assert_eq!(truths[0].lost_by_stage[1], truths[0].lost());
    assert!(truths[0].lost() > 50);
}

#[test]
fn random_loss_takes_its_share() {
    let (_, truths) = run(
        &[flow(40_000_000)],
        path(RandomLoss::independent(0.01, 5), 20),
    );
    let share = truths[0].lost() as f64 / truths[0].sent as f64;
    // About 27 900 packets: a standard deviation of 0.0006.
    assert!((share - 0.01).abs() < 0.0025, "{share}");
}

#[test]
fn a_receive_window_limits_the_rate_to_one_window_in_a_round_trip() {
    let mut flow = flow(10_000_000);
    flow.receiver.buffer_bytes = 64_000;
    flow.receiver.initial_window_bytes = 64_000;
    let (_, truths) = run(&[flow], path(Delay::new(0), 100));
    // 64 kB, less the part that does not fill a segment, in 100 ms: 5.1 Mbit/s.
    let goodput_bps = truths[0].goodput_bps();
    assert!((4.7e6..5.13e6).contains(&goodput_bps), "{goodput_bps}");
    assert_eq!(truths[0].lost(), 0);
}

#[test]
fn a_slow_reader_sets_the_rate() {
    let mut flow = flow(4_000_000);
    flow.receiver.read_rate_bps = Some(2_000_000);
    flow.receiver.buffer_bytes = 200_000;
    flow.receiver.initial_window_bytes = 64_000;
    let (history, truths) = run(&[flow], path(Delay::new(0), 40));
    assert_eq!(history.complete, [true]);
    let goodput_bps = truths[0].goodput_bps();
    assert!((1.9e6..2.25e6).contains(&goodput_bps), "{goodput_bps}");
}

#[test]
fn flows_that_share_a_queue_fill_the_link_together() {
    let second = FlowConfig {
        client_port: 40_001,
        start_ns: 100 * MS,
        ..flow(10_000_000)
    };
    let flows = [flow(10_000_000), second];
    let (_, truths) = run(&flows, path(Fifo::new(20_000_000, Limit::packets(100)), 40));
    let first_ns = truths.iter().filter_map(|t| t.first_data_ns).min().unwrap();
    let last_ns = truths.iter().filter_map(|t| t.last_data_ns).max().unwrap();
    let bits = 8.0 * truths.iter().map(|t| t.payload_bytes as f64).sum::<f64>();
    let share = bits * 1e9 / (last_ns - first_ns) as f64 / (20e6 * 1448.0 / 1500.0);
    assert!((0.93..=1.0).contains(&share), "{share}");
}

#[test]
fn every_packet_is_accounted_for() {
    let (history, truths) = run(
        &[flow(5_000_000)],
        path(Fifo::new(5_000_000, Limit::packets(10)), 60),
    );
    let truth = &truths[0];
    assert_eq!(truth.sent, truth.delivered + truth.lost());
    let in_flight_at_end = history
        .packets
        .iter()
        .filter(|p| p.fate == PacketFate::InFlight && p.segment.is_some())
        .count();
    assert_eq!(in_flight_at_end, 0);
    // At the sender every packet is in the capture, once.
    let captured = history
        .records
        .iter()
        .filter_map(|r| history.packets[r.packet].segment);
    let data = captured
        .filter(|s| s.toward == Toward::Client && s.payload_bytes > 0)
        .count() as u64;
    assert_eq!(data, truth.sent);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let stages = || path(RandomLoss::bursts(0.02, 3.0, 9), 80);
    let (first, _) = run(&[flow(3_000_000)], stages());
    let (second, _) = run(&[flow(3_000_000)], stages());
    assert_eq!(first.records.len(), second.records.len());
    assert!(
        first
            .records
            .iter()
            .zip(&second.records)
            .all(|(a, b)| a.time_ns == b.time_ns)
    );
}

#[test]
fn a_stream_is_limited_by_its_application() {
    let mut flow = flow(0);
    flow.application = Application::Stream {
        bytes: 12_500,
        count: 100,
        interval_ns: 100 * MS,
    };
    let (_, truths) = run(&[flow], path(Delay::new(0), 30));
    // 12.5 kB each 100 ms are 1 Mbit/s over 9.9 s and a little.
    let goodput_bps = truths[0].goodput_bps();
    assert!((1.0e6..1.02e6).contains(&goodput_bps), "{goodput_bps}");
}

/// Five chunks of 2 MB over 100 ms through a policer: packets lost in each chunk.
fn lost_by_chunk(rate_bps: u64, burst_bytes: u64, pause_ms: i64) -> Vec<u64> {
    let mut flow = flow(0);
    // Linux 3.x, as in the laboratory: losses detected by counting.
    flow.sender.rack = false;
    flow.application = Application::Chunks {
        bytes: 2_000_000,
        count: 5,
        pause_ns: pause_ms * MS,
    };
    let mut stages = path(Policer::new(rate_bps, burst_bytes), 0);
    stages[2] = Stage {
        name: "behind",
        element: Box::new(Delay::new(50 * MS)),
        reverse_delay_ns: 50 * MS,
    };
    let (history, _) = run(&[flow], stages);
    let mut lost = vec![0; 5];
    for packet in &history.packets {
        let Some(segment) = packet
            .segment
            .filter(|s| s.toward == Toward::Client && s.payload_bytes > 0)
        else {
            continue;
        };
        if matches!(packet.fate, PacketFate::Dropped { .. }) {
            lost[((segment.sequence - 1) / 2_000_000) as usize] += 1;
        }
    }
    lost
}

#[test]
fn losses_through_a_policer_are_those_of_linux_hosts_in_a_laboratory() {
    // Flach et al., An Internet-Wide Analysis of Traffic Policing (SIGCOMM 2016): Linux hosts, a hardware policer, 100
    // ms, five chunks of 2 MB; losses by chunk as their detector counted them; one or two runs.
    let cases = [
        (
            500_000,
            1_000_000,
            2_000,
            vec![[795, 141, 115, 117, 96], [889, 119, 114, 112, 107]],
        ),
        (
            500_000,
            100_000,
            2_000,
            vec![[252, 104, 99, 112, 115], [421, 98, 105, 112, 109]],
        ),
        (1_500_000, 1_000_000, 2_000, vec![[901, 64, 59, 36, 114]]),
        (
            1_500_000,
            100_000,
            2_000,
            vec![[469, 79, 37, 160, 34], [432, 28, 18, 19, 23]],
        ),
    ];
    for (rate_bps, burst_bytes, pause_ms, laboratory) in cases {
        let simulated = lost_by_chunk(rate_bps, burst_bytes, pause_ms);
        // The first chunk shows the overshoot of slow start, the others the steady state. Which loss comes first
        // differs between runs, so agreement means within a factor of two.
        let parts: [fn(&[u64]) -> u64; 2] = [|c| c[0], |c| c[1..].iter().sum()];
        for part in parts {
            let measured: Vec<u64> = laboratory.iter().map(|run| part(run)).collect();
            let (low, high) = (
                measured.iter().min().unwrap() / 2,
                measured.iter().max().unwrap() * 2,
            );
            let got = part(&simulated);
            assert!(
                (low..=high).contains(&got),
                "{rate_bps} bit/s, {burst_bytes} bytes: {simulated:?}"
            );
        }
    }
}

#[test]
fn duplicates_of_a_chunk_do_not_make_the_client_ask_again() {
    let mut flow = flow(0);
    flow.application = Application::Chunks {
        bytes: 500_000,
        count: 4,
        pause_ns: 50 * MS,
    };
    let jitter = Jitter::new(0, 8 * MS, 3).reordering();
    let reordering = Chain::new(vec![
        Box::new(Fifo::new(100_000_000, Limit::NONE)),
        Box::new(jitter),
    ]);
    let (_, truths) = run(&[flow], path(reordering, 20));
    assert!(truths[0].duplicate > 0);
    assert_eq!(truths[0].payload_bytes, 2_000_000);
    assert_eq!(truths[0].sent, truths[0].delivered);
}
