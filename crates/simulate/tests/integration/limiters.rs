//! The simulator's limiters of a transfer, in cases with a result known from arithmetic or a standard.

use proptest::prelude::*;
use whydrop_path::{Chain, CoDel, Delay, Fifo, Limit, PathElement, RandomLoss};
use whydrop_simulate::limiter::{Account, Limiter};
use whydrop_simulate::{
    Algorithm, Application, Behaviour, CaptureConfig, Ending, Extras, FlowConfig, FlowTruth,
    History, Pacing, ReceiverConfig, ReturnLink, Scenario, SenderConfig, Simulation, Stage,
    StopsReading, flow_truths,
};

const MS: i64 = 1_000_000;
const RTT_MS: i64 = 40;

fn chunk(bytes: u64) -> Application {
    Application::Chunks {
        bytes,
        count: 1,
        pause_ns: 0,
    }
}

fn flow(application: Application) -> FlowConfig {
    FlowConfig {
        sender: SenderConfig::default(),
        receiver: ReceiverConfig::default(),
        application,
        client: [10, 1, 0, 1],
        server: [10, 2, 0, 1],
        client_port: 40_000,
        server_port: 443,
        start_ns: 10 * MS,
        captured: true,
        timestamps: true,
        closes: true,
        extra_rtt_ns: 0,
    }
}

/// A card of 1 Gbit/s, an element, and a path of 20 ms in each direction.
fn scenario(flow: FlowConfig, element: Box<dyn PathElement + Send>) -> Scenario {
    let stage = |name, element, reverse_delay_ns| Stage {
        name,
        element,
        reverse_delay_ns,
    };
    Scenario {
        seed: 3,
        flows: vec![flow],
        stages: vec![
            stage("card", Box::new(Fifo::new(1_000_000_000, Limit::NONE)), 0),
            stage("element", element, 0),
            stage(
                "path",
                Box::new(Delay::new(RTT_MS / 2 * MS)),
                RTT_MS / 2 * MS,
            ),
        ],
        cross_traffic: Vec::new(),
        reverse_jitter_ns: 0,
        acknowledgment_loss: 0.0,
        capture: CaptureConfig::default(),
        end_ns: 120_000 * MS,
    }
}

fn nothing() -> Box<dyn PathElement + Send> {
    Box::new(Chain::new(Vec::new()))
}

fn link(rate_bps: u64, packets: u64) -> Box<dyn PathElement + Send> {
    Box::new(Fifo::new(rate_bps, Limit::packets(packets)))
}

fn behaving(behaviour: Behaviour) -> Extras {
    Extras {
        behaviours: vec![behaviour],
        ..Extras::default()
    }
}

fn play(
    flow: FlowConfig,
    element: Box<dyn PathElement + Send>,
    extras: Extras,
) -> (History, FlowTruth) {
    let history = Simulation::new(scenario(flow, element)).with(extras).run();
    let truth = flow_truths(&history, &[flow]).remove(0);
    (history, truth)
}

fn share(account: &Account, limiter: Limiter) -> f64 {
    let times = account.times_ns(i64::MIN, i64::MAX);
    times[limiter as usize] as f64 / times.iter().sum::<i64>() as f64
}

fn spent_ms(account: &Account, limiter: Limiter) -> f64 {
    account.times_ns(i64::MIN, i64::MAX)[limiter as usize] as f64 / 1e6
}

#[test]
fn the_handshake_takes_a_round_trip_and_slow_start_the_rest_of_a_small_transfer() {
    // 30 segments: 10, then 20 in a second round trip.
    let (_, truth) = play(flow(chunk(30 * 1_448)), nothing(), Extras::default());
    let account = &truth.account;
    assert!((spent_ms(account, Limiter::ConnectionSetup) - 40.0).abs() < 0.1);
    assert!((spent_ms(account, Limiter::SlowStart) - 80.0).abs() < 1.0);
    assert_eq!(
        account.bounds().unwrap().0,
        30 * MS,
        "when the SYN reaches the server"
    );
}

#[test]
fn a_far_application_is_charged_for_as_long_as_it_thinks() {
    let asked = Application::Chunks {
        bytes: 20_000,
        count: 3,
        pause_ns: 100 * MS,
    };
    let behaviour = Behaviour {
        answers_after_ns: 250 * MS,
        ..Behaviour::default()
    };
    let (_, truth) = play(flow(asked), nothing(), behaving(behaviour));
    let account = &truth.account;
    assert!((spent_ms(account, Limiter::PeerApplication) - 750.0).abs() < 0.01);
    assert_eq!(account.transfers.len(), 3);
    for &(from_ns, until_ns) in &account.transfers {
        let times = account.times_ns(from_ns, until_ns);
        assert_eq!(times[Limiter::PeerApplication as usize], 250 * MS);
        assert_eq!(
            times[Limiter::Application as usize],
            0,
            "pauses lie between transfers"
        );
    }
}

#[test]
fn an_application_that_writes_now_and_then_is_what_limits() {
    let asked = Application::Answers {
        bytes: 3_000,
        writes: 20,
        gap_ns: 100 * MS,
        count: 1,
        pause_ns: 0,
    };
    let (_, truth) = play(flow(asked), nothing(), Extras::default());
    assert!(share(&truth.account, Limiter::Application) > 0.95);
}

#[test]
fn a_full_window_at_a_bottleneck_is_the_congestion_window() {
    let mut flow = flow(chunk(8_000_000));
    flow.sender.algorithm = Algorithm::NewReno;
    let (_, truth) = play(flow, link(10_000_000, 100), Extras::default());
    assert!(
        share(&truth.account, Limiter::CongestionWindow) > 0.8,
        "{:?}",
        truth.account.to_json()["shares"]
    );
    assert!(truth.lost() > 0 && share(&truth.account, Limiter::LossRecovery) > 0.0);
}

#[test]
fn the_receive_window_and_the_send_buffer_are_distinguished() {
    let mut windowed = flow(chunk(4_000_000));
    windowed.receiver.buffer_bytes = 64_000;
    windowed.receiver.initial_window_bytes = 64_000;
    let (_, truth) = play(windowed, nothing(), Extras::default());
    assert!(share(&truth.account, Limiter::ReceiveWindow) > 0.9);
    let mut buffered = flow(chunk(4_000_000));
    buffered.sender.buffer_bytes = 64_000;
    let (_, truth) = play(buffered, nothing(), Extras::default());
    assert!(share(&truth.account, Limiter::SendBuffer) > 0.9);
}

#[test]
fn a_reader_that_stops_closes_the_window_for_as_long_as_it_stops() {
    let mut flow = flow(chunk(1_000_000));
    flow.receiver.buffer_bytes = 100_000;
    flow.receiver.initial_window_bytes = 60_000;
    flow.receiver.stops_reading = Some(StopsReading {
        after_bytes: 300_000,
        for_ns: 5_000 * MS,
    });
    let (history, truth) = play(flow, nothing(), Extras::default());
    assert_eq!(history.complete, [true]);
    let closed_ms = spent_ms(&truth.account, Limiter::ReceiveWindow);
    assert!((5_000.0..5_800.0).contains(&closed_ms), "{closed_ms}");
}

#[test]
fn a_paced_sender_is_limited_by_its_pace() {
    let mut flow = flow(chunk(2_000_000));
    flow.sender.pacing = Pacing::Rate(8_000_000);
    let (_, truth) = play(flow, link(100_000_000, 1_000), Extras::default());
    assert!(
        share(&truth.account, Limiter::Pacing) > 0.9,
        "{:?}",
        truth.account.to_json()["shares"]
    );
}

#[test]
fn nagle_against_a_delayed_acknowledgment_costs_40_ms_in_each_exchange() {
    // Two small writes for each request: the second waits for the acknowledgment of the first (RFC 896), which the
    // receiver delays (RFC 1122, section 4.2.3.2).
    let asked = Application::Answers {
        bytes: 200,
        writes: 2,
        gap_ns: 0,
        count: 20,
        pause_ns: 0,
    };
    let mut with_nagle = flow(asked);
    with_nagle.sender.nagle = true;
    with_nagle.sender.tail_loss_probe = false;
    with_nagle.receiver.quick_acks = 0;
    let (_, truth) = play(with_nagle, nothing(), Extras::default());
    let delayed_ms = spent_ms(&truth.account, Limiter::DelayedAck);
    assert!((delayed_ms - 20.0 * 40.0).abs() < 1.0, "{delayed_ms}");
    let mut without = with_nagle;
    without.sender.nagle = false;
    let (_, truth) = play(without, nothing(), Extras::default());
    assert_eq!(spent_ms(&truth.account, Limiter::DelayedAck), 0.0);
    let mut quick = with_nagle;
    quick.receiver.quick_acks = 1_000;
    let (_, truth) = play(quick, nothing(), Extras::default());
    assert_eq!(spent_ms(&truth.account, Limiter::DelayedAck), 0.0);
}

#[test]
fn a_send_buffer_of_one_segment_waits_for_delayed_acknowledgments() {
    let mut flow = flow(chunk(50 * 1_448));
    flow.sender.buffer_bytes = 1_448;
    flow.receiver.quick_acks = 0;
    let (_, truth) = play(flow, nothing(), Extras::default());
    let delayed_ms = spent_ms(&truth.account, Limiter::DelayedAck);
    assert!((delayed_ms - 50.0 * 40.0).abs() < 45.0, "{delayed_ms}");
    assert!(share(&truth.account, Limiter::SendBuffer) > 0.4);
}

#[test]
fn an_outage_lasts_until_the_first_answer_after_it() {
    let extras = Extras {
        behaviours: vec![Behaviour {
            client_repeats: true,
            ..Behaviour::default()
        }],
        outages: vec![(1_000 * MS, 3_000 * MS)],
        outage_stage: 1,
        ..Extras::default()
    };
    let (history, truth) = play(flow(chunk(4_000_000)), link(10_000_000, 1_000), extras);
    assert_eq!(history.complete, [true]);
    let outage_ms = spent_ms(&truth.account, Limiter::Outage);
    // The timeout doubles: the wait after the outage is shorter than the outage itself.
    assert!((2_000.0..4_100.0).contains(&outage_ms), "{outage_ms}");
}

#[test]
fn losses_at_the_tail_that_a_timer_repairs_are_loss_recovery() {
    // The outage happens to hit all of the only flight except its beginning, at the element only.
    let mut flow = flow(chunk(8 * 1_448));
    flow.sender.tail_loss_probe = false;
    let lossy = RandomLoss::gilbert_elliott(0.25, 0.0, 0.0, 1.0, 5);
    let (history, truth) = play(flow, Box::new(lossy), Extras::default());
    assert!(!history.complete[0] && truth.lost() > 0);
    assert!(
        share(&truth.account, Limiter::LossRecovery) > 0.9,
        "{:?}",
        truth.account.to_json()["shares"]
    );
}

#[test]
fn unanswered_syns_are_retransmitted_and_all_time_is_setup() {
    let behaviour = Behaviour {
        client_repeats: true,
        ending: Ending::NoAnswer,
        ..Behaviour::default()
    };
    let (history, truth) = play(flow(chunk(1_000)), nothing(), behaving(behaviour));
    let sent_s: Vec<i64> = history
        .packets
        .iter()
        .map(|p| (p.sent_ns - 10 * MS) / (1_000 * MS))
        .collect();
    assert_eq!(
        sent_s,
        [0, 1, 3, 7, 15, 31, 63],
        "1 s, doubled each time (RFC 6298)"
    );
    assert_eq!(share(&truth.account, Limiter::ConnectionSetup), 1.0);
}

#[test]
fn a_refused_connection_and_one_that_is_reset_end_with_a_reset() {
    let ends = |ending| {
        let behaviour = Behaviour {
            client_repeats: true,
            ending,
            ..Behaviour::default()
        };
        let (history, truth) = play(flow(chunk(2_000_000)), nothing(), behaving(behaviour));
        let resets = history
            .packets
            .iter()
            .filter_map(|p| p.segment)
            .filter(|s| s.flags & 0x04 != 0);
        assert_eq!(resets.count(), 1);
        assert_eq!(history.complete, [true]);
        truth
    };
    assert_eq!(ends(Ending::Refused).payload_bytes, 0);
    let reset = ends(Ending::Reset {
        after_bytes: 500_000,
    });
    assert!(
        (500_000..1_999_999).contains(&reset.payload_bytes),
        "{}",
        reset.payload_bytes
    );
}

#[test]
fn a_peer_that_is_gone_is_called_again_and_again() {
    let behaviour = Behaviour {
        ending: Ending::Gone {
            after_bytes: 100_000,
        },
        ..Behaviour::default()
    };
    let (history, truth) = play(flow(chunk(2_000_000)), nothing(), behaving(behaviour));
    assert_eq!(history.complete, [false]);
    assert!(
        truth.retransmitted_by_reason[1] >= 6,
        "{:?}",
        truth.retransmitted_by_reason
    );
    assert!(truth.payload_bytes < 500_000);
}

#[test]
fn marks_make_the_window_smaller_once_in_a_round_trip_and_lose_nothing() {
    let codel = || CoDel::new(10_000_000, Limit::packets(1_000));
    let ecn = Behaviour {
        ecn: true,
        ..Behaviour::default()
    };
    let (_, marked) = play(
        flow(chunk(8_000_000)),
        Box::new(codel().marking()),
        behaving(ecn),
    );
    assert!(
        marked.marked() >= 5 && marked.lost() == 0,
        "{}",
        marked.marked()
    );
    assert!(
        marked.goodput_bps() > 7_500_000.0,
        "{}",
        marked.goodput_bps()
    );
    let (_, dropped) = play(
        flow(chunk(8_000_000)),
        Box::new(codel().marking()),
        Extras::default(),
    );
    assert!(
        dropped.lost() >= 5 && dropped.marked() == 0,
        "without ECN the same queue drops"
    );
}

#[test]
fn bbr_finds_the_rate_and_keeps_the_queue_short() {
    let run = |algorithm| {
        let mut flow = flow(chunk(12_000_000));
        flow.sender.algorithm = algorithm;
        play(flow, link(20_000_000, 500), Extras::default()).1
    };
    let bbr = run(Algorithm::Bbr);
    // 1448 of 1500 bytes are payload.
    assert!(
        bbr.goodput_bps() > 0.85 * 20e6 * 1_448.0 / 1_500.0,
        "{}",
        bbr.goodput_bps()
    );
    assert!(share(&bbr.account, Limiter::CongestionWindow) > 0.5);
    let cubic = run(Algorithm::Cubic);
    assert!(
        bbr.lost() * 4 < cubic.lost().max(40),
        "{} {}",
        bbr.lost(),
        cubic.lost()
    );
}

#[test]
fn a_narrow_return_link_delays_thins_or_loses_acknowledgments() {
    let back = |thins, limit_packets| {
        let extras = Extras {
            behaviours: vec![Behaviour {
                client_repeats: true,
                ..Behaviour::default()
            }],
            return_link: Some(ReturnLink {
                rate_bps: 200_000,
                limit_packets,
                thins,
                overhead_bytes: 0,
            }),
            ..Extras::default()
        };
        // A full window, so that each acknowledgment allows what it acknowledges, and no growth.
        let mut windowed = flow(chunk(4_000_000));
        windowed.receiver.buffer_bytes = 300_000;
        let (history, truth) = play(windowed, link(50_000_000, 1_000), extras);
        assert_eq!(history.complete, [true]);
        let lost = history
            .packets
            .iter()
            .filter(|p| p.fate == whydrop_simulate::PacketFate::LostReturning);
        (lost.count(), truth)
    };
    let (queued, slow) = back(false, 100_000);
    assert_eq!(queued, 0);
    // 52 bytes at 200 kbit/s: 481 acknowledgments per second, for two segments each.
    assert!(
        slow.goodput_bps() < 481.0 * 2.0 * 1_448.0 * 8.0 * 1.05,
        "{}",
        slow.goodput_bps()
    );
    let (thinned, faster) = back(true, 100_000);
    assert!(
        thinned > 100 && faster.goodput_bps() > 1.3 * slow.goodput_bps(),
        "{thinned} {}",
        faster.goodput_bps()
    );
    assert!(back(false, 10).0 > 50);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_moment_belongs_to_exactly_one_limiter(
        (bytes, writes, gap_ms, count) in (50u64..60_000, 1u32..6, 0i64..200, 1u32..4),
        (nagle, ecn, quick_acks, segments_per_ack) in (any::<bool>(), any::<bool>(), 0u32..20, 1u32..4),
        (buffer, window) in (1_448u64..200_000, 5_000u64..200_000),
        (rate_bps, packets, loss) in (300_000u64..50_000_000, 5u64..200, prop_oneof![Just(0.0), 0.0..0.05]),
        algorithm in prop_oneof![Just(Algorithm::Cubic), Just(Algorithm::NewReno), Just(Algorithm::Bbr)],
        (pace, thinks_ms, outage_ms, back_bps, seed) in
            (prop::option::of(500_000u64..20_000_000), 0i64..500, prop::option::of(10i64..3_000),
             prop::option::of(50_000u64..1_000_000), any::<u64>()),
    ) {
        let mut flow = flow(Application::Answers { bytes, writes, gap_ns: gap_ms * MS, count, pause_ns: 50 * MS });
        flow.sender = SenderConfig {
            algorithm, nagle, buffer_bytes: buffer,
            pacing: pace.map_or(Pacing::None, Pacing::Rate),
            ..SenderConfig::default()
        };
        flow.receiver.quick_acks = quick_acks;
        flow.receiver.segments_per_ack = segments_per_ack;
        flow.receiver.buffer_bytes = window;
        flow.receiver.initial_window_bytes = window.min(64_000);
        let element: Vec<Box<dyn PathElement + Send>> =
            vec![link(rate_bps, packets), Box::new(RandomLoss::independent(loss, seed))];
        let extras = Extras {
            behaviours: vec![Behaviour {
                answers_after_ns: thinks_ms * MS, client_repeats: true, ecn, ending: Ending::Orderly,
            }],
            outages: outage_ms.map(|ms| (200 * MS, (200 + ms) * MS)).into_iter().collect(),
            outage_stage: 1,
            return_link: back_bps.map(|rate_bps| ReturnLink { rate_bps, limit_packets: 50, thins: seed % 2 == 0, overhead_bytes: 0 }),
        };
        let (history, truth) = play(flow, Box::new(Chain::new(element)), extras);
        let account = &truth.account;
        prop_assert_eq!(&history.complete, &[true]);
        prop_assert_eq!(truth.payload_bytes, bytes * u64::from(writes * count));
        let (from_ns, until_ns) = account.bounds().unwrap();
        prop_assert!(from_ns >= flow.start_ns + RTT_MS / 2 * MS);
        prop_assert!(account.spans.iter().all(|s| s.until_ns > s.from_ns));
        prop_assert!(account.spans.windows(2).all(|w| w[0].until_ns == w[1].from_ns && w[0].limiter != w[1].limiter));
        prop_assert_eq!(account.times_ns(from_ns, until_ns).iter().sum::<i64>(), until_ns - from_ns);
        let shares: f64 = account.shares(from_ns, until_ns).values().filter_map(|v| v.as_f64()).sum();
        prop_assert!((shares - 1.0).abs() < 1e-9);
        // The last moment is the acknowledgment of the last data: it reaches the server then, unless it was lost and
        // the simulation ends first.
        let last = history.packets.iter().any(|p| p.fate == whydrop_simulate::PacketFate::Delivered { time_ns: until_ns });
        prop_assert!(last || until_ns == history.end_ns);
        prop_assert_eq!(account.transfers.len(), count as usize);
        prop_assert!(account.transfers.windows(2).all(|w| w[0].1 <= w[1].0));
    }
}
