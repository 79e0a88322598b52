//! Captures of paths with one known cause have that cause as their headline.

use crate::common::{MS, chunks, explained, flow, headline, holds, path, text};
use whydrop_explain::document::Document;
use whydrop_path::{Chain, CoDel, Fifo, InService, Jitter, Limit, Policer, RandomLoss, Shaper};
use whydrop_simulate::{Algorithm, Application, FlowConfig, Pacing, Scenario};

#[test]
fn a_policer_is_named_with_rate_and_burst_inside_their_intervals() {
    let cases = [
        (3_000_000, 30_000, 20, Algorithm::Cubic),
        (10_000_000, 64_000, 40, Algorithm::NewReno),
        (50_000_000, 400_000, 15, Algorithm::Cubic),
        (2_000_000, 100_000, 120, Algorithm::Cubic),
    ];
    for (rate_bps, burst_bytes, rtt_ms, algorithm) in cases {
        let mut scenario = path(Box::new(Policer::new(rate_bps, burst_bytes)), rtt_ms);
        scenario.flows[0].sender.algorithm = algorithm;
        let (document, truths) = explained(scenario);
        let verdict = headline(&document);
        assert_eq!(verdict.cause.name(), "policer", "{}", text(&document));
        assert!(
            holds(verdict, "rate_bps", rate_bps as f64),
            "{}",
            text(&document)
        );
        assert!(
            holds(verdict, "burst_bytes", burst_bytes as f64),
            "{}",
            text(&document)
        );
        assert_eq!(verdict.lost, truths[0].lost());
        assert!(verdict.explained > 0.9, "{}", text(&document));
    }
}

#[test]
fn a_queue_with_a_buckets_rate_and_limit_is_a_queue_because_packets_waited() {
    for (rate_bps, bytes, rtt_ms) in [(3_000_000, 30_000, 20), (10_000_000, 64_000, 40)] {
        let queue = Fifo::new(rate_bps, Limit::bytes(bytes)).with_in_service(InService::Counted);
        let (document, _) = explained(path(Box::new(queue), rtt_ms));
        let verdict = headline(&document);
        assert!(
            verdict.cause.name().ends_with("-queue"),
            "{}",
            text(&document)
        );
        assert!(
            holds(verdict, "drain_rate_bps", rate_bps as f64),
            "{}",
            text(&document)
        );
        assert!(
            holds(verdict, "limit_bytes", bytes as f64),
            "{}",
            text(&document)
        );
        let why = &verdict
            .against
            .iter()
            .find(|against| against.cause.name() == "policer")
            .unwrap()
            .fact;
        assert!(why.number("waited_s") > Some(0.0), "{why:?}");
    }
}

/// Few losses may resemble any pattern, so some of many captures may be unknown; none may get another name.
fn assert_random_loss(documents: &[Document]) {
    let mut named = 0;
    for document in documents {
        let cause = headline(document).cause.name();
        assert!(
            ["random-loss", "unknown"].contains(&cause),
            "{}",
            text(document)
        );
        assert!(
            document
                .verdicts
                .iter()
                .all(|v| v.cause.name() != "policer")
        );
        assert!(
            document
                .transfers
                .iter()
                .all(|t| t.cause.name() != "policer")
        );
        named += usize::from(cause == "random-loss");
    }
    assert!(
        2 * named > documents.len(),
        "{named} of {}",
        documents.len()
    );
}

#[test]
fn random_loss_is_never_a_policer() {
    let mut documents = Vec::new();
    for (probability, rtt_ms) in [(0.003, 20), (0.005, 80), (0.01, 10), (0.02, 30), (0.03, 15)] {
        for seed in 1..=4 {
            let lossy = RandomLoss::independent(probability, seed);
            let (document, truths) = explained(path(Box::new(lossy), rtt_ms));
            let verdict = headline(&document);
            let share = truths[0].lost() as f64 / truths[0].sent as f64;
            if verdict.cause.name() == "random-loss" {
                assert!(
                    holds(verdict, "loss_probability", share),
                    "{share}: {}",
                    text(&document)
                );
            }
            documents.push(document);
        }
    }
    assert_random_loss(&documents);
}

#[test]
fn random_loss_behind_a_slow_link_is_not_the_doing_of_its_queue() {
    let documents: Vec<Document> = (11..20)
        .map(|seed| {
            let link = Fifo::new(20_000_000, Limit::NONE);
            let lossy = RandomLoss::independent(0.01, seed);
            explained(path(
                Box::new(Chain::new(vec![Box::new(link), Box::new(lossy)])),
                60,
            ))
            .0
        })
        .collect();
    assert_random_loss(&documents);
}

#[test]
fn losses_before_a_full_link_limit_for_no_longer_than_it_was_idle() {
    let mut full = 0;
    for seed in 1..=12 {
        let (probability, rtt_ms) = [(0.002, 10), (0.004, 10), (0.01, 30)][seed as usize % 3];
        let lossy = RandomLoss::independent(probability, seed);
        let link = Fifo::new(5_000_000, Limit::NONE);
        let mut scenario = path(
            Box::new(Chain::new(vec![Box::new(lossy), Box::new(link)])),
            rtt_ms,
        );
        scenario.flows[0].application = chunks(3_000_000, 1);
        let (document, _) = explained(scenario);
        let verdict = headline(&document);
        if verdict.cause.name() != "random-loss" {
            continue;
        }
        let link = verdict.facts.iter().find(|fact| fact.code == "link-busy");
        let busy_share = link.and_then(|fact| fact.number("busy_share"));
        let busy_share = busy_share.expect("a queue stood before the link");
        assert!(verdict.limited_share <= 1.0 - busy_share + 1e-9);
        full += usize::from(busy_share > 0.9);
    }
    assert!(full > 3, "{full}");
}

#[test]
fn a_queue_of_a_dozen_packets_is_shallow_and_one_of_many_round_trips_is_deep() {
    for rtt_ms in [10, 60] {
        let shallow = Fifo::new(20_000_000, Limit::packets(12));
        let (document, _) = explained(path(Box::new(shallow), rtt_ms));
        let verdict = headline(&document);
        assert_eq!(verdict.cause.name(), "shallow-queue", "{}", text(&document));
        assert!(holds(verdict, "limit_packets", 12.0), "{}", text(&document));
        assert!(
            holds(verdict, "drain_rate_bps", 20e6),
            "{}",
            text(&document)
        );
    }
    for (packets, rtt_ms) in [(250, 20), (400, 60)] {
        let deep = Fifo::new(20_000_000, Limit::packets(packets));
        let mut scenario = path(Box::new(deep), rtt_ms);
        scenario.flows[0].application = chunks(6_000_000, 3);
        scenario.flows[0].sender.hystart = false;
        let (document, _) = explained(scenario);
        let verdict = headline(&document);
        assert_eq!(verdict.cause.name(), "deep-queue", "{}", text(&document));
        assert!(
            holds(verdict, "limit_packets", packets as f64),
            "{}",
            text(&document)
        );
        assert!(
            holds(verdict, "drain_rate_bps", 20e6),
            "{}",
            text(&document)
        );
    }
}

#[test]
fn a_shaper_delays_at_its_rate_and_drops_nothing() {
    let shaper = Shaper::new(8_000_000, 40_000, Limit::NONE);
    let (document, truths) = explained(path(Box::new(shaper), 30));
    let verdict = headline(&document);
    assert_eq!((verdict.lost, truths[0].lost()), (0, 0));
    assert_eq!(verdict.cause.name(), "shaper", "{}", text(&document));
    assert!(holds(verdict, "rate_bps", 8e6), "{}", text(&document));
    assert!(holds(verdict, "burst_bytes", 40e3), "{}", text(&document));
}

#[test]
fn queue_management_is_no_policer() {
    for (rate_bps, rtt_ms) in [(5_000_000, 40), (20_000_000, 20)] {
        let (document, truths) = explained(path(
            Box::new(CoDel::new(rate_bps, Limit::packets(1000))),
            rtt_ms,
        ));
        assert!(truths[0].lost() > 0);
        assert!(
            document
                .verdicts
                .iter()
                .all(|v| v.cause.name() != "policer"),
            "{}",
            text(&document)
        );
    }
}

#[test]
fn a_small_receive_buffer_is_the_receivers_window() {
    let mut scenario = path(Box::new(Fifo::new(200_000_000, Limit::NONE)), 60);
    scenario.flows[0].receiver.buffer_bytes = 60_000;
    scenario.flows[0].receiver.initial_window_bytes = 60_000;
    let (document, _) = explained(scenario);
    let verdict = headline(&document);
    assert_eq!(
        verdict.cause.name(),
        "receiver-window",
        "{}",
        text(&document)
    );
    assert!(verdict.limited_share > 0.5);
    assert!(
        document
            .transfers
            .iter()
            .filter(|transfer| transfer.packets > 1)
            .all(|transfer| transfer.cause.name() == "receiver-window")
    );
}

#[test]
fn packets_that_overtake_each_other_are_reordering_and_not_loss() {
    let jitter = Jitter::new(0, 4 * MS, 5).reordering();
    let link = Fifo::new(30_000_000, Limit::NONE);
    let chain = Chain::new(vec![Box::new(link), Box::new(jitter)]);
    let (document, truths) = explained(path(Box::new(chain), 30));
    assert_eq!(truths[0].lost(), 0);
    let verdict = headline(&document);
    assert_eq!(verdict.cause.name(), "reordering", "{}", text(&document));
    assert_eq!(verdict.lost, 0);
}

#[test]
fn packets_missing_from_the_capture_are_not_lost() {
    let mut scenario = path(Box::new(Fifo::new(50_000_000, Limit::NONE)), 20);
    scenario.capture.missed = 0.02;
    let (document, _) = explained(scenario);
    let missed = document
        .verdicts
        .iter()
        .find(|verdict| verdict.cause.name() == "capture-loss")
        .expect("2 % are missing");
    assert_eq!((missed.lost, missed.explained), (0, 0.0));
    assert!(document.flows.iter().all(|flow| flow.lost == 0));
    assert!(document.flows.iter().any(|f| f.missed_by_capture_bytes > 0));
}

#[test]
fn an_application_that_delivers_little_at_a_time_is_the_sender() {
    let mut scenario = path(Box::new(Fifo::new(500_000_000, Limit::NONE)), 20);
    scenario.flows[0].application = Application::Stream {
        bytes: 20_000,
        count: 100,
        interval_ns: 100 * MS,
    };
    let (document, _) = explained(scenario);
    assert_eq!(
        headline(&document).cause.name(),
        "sender",
        "{}",
        text(&document)
    );
}

#[test]
fn a_short_exchange_without_loss_has_no_cause() {
    let mut scenario = path(Box::new(Fifo::new(500_000_000, Limit::NONE)), 20);
    scenario.flows[0].application = chunks(30_000, 1);
    let (document, _) = explained(scenario);
    let verdict = headline(&document);
    assert_eq!(verdict.cause.name(), "none", "{}", text(&document));
    assert!(verdict.parameters.is_empty());
}

#[test]
fn losses_without_a_pattern_are_unknown() {
    // two losses among some thousand packets fit any cause
    let document = with_losses(2, |seed| {
        let mut scenario = path(Box::new(RandomLoss::independent(0.0005, seed)), 30);
        scenario.flows[0].application = chunks(1_500_000, 2);
        scenario
    });
    let verdict = headline(&document);
    assert_eq!(verdict.cause.name(), "unknown", "{}", text(&document));
    assert_eq!((verdict.lost, verdict.explained), (2, 0.0));
    assert!(verdict.parameters.is_empty());
}

/// A scenario with the first seed that loses this many packets.
fn with_losses(lost: u64, scenario: impl Fn(u64) -> Scenario) -> Document {
    let found = (1..200).find_map(|seed| {
        let (document, truths) = explained(scenario(seed));
        (truths.iter().map(|truth| truth.lost()).sum::<u64>() == lost).then_some(document)
    });
    found.expect("some seed loses as many")
}

#[test]
fn one_loss_while_packets_wait_is_no_queue_management() {
    let document = with_losses(1, |seed| {
        let queue = Fifo::new(20_000_000, Limit::NONE);
        let loss = RandomLoss::independent(0.0005, seed);
        let mut scenario = path(
            Box::new(Chain::new(vec![Box::new(queue), Box::new(loss)])),
            30,
        );
        scenario.flows[0].application = chunks(2_000_000, 3);
        scenario
    });
    let causes: Vec<&str> = document.verdicts.iter().map(|v| v.cause.name()).collect();
    assert!(!causes.contains(&"aqm"), "{causes:?} {}", text(&document));
    // the cause that took the time precedes a loss that cannot be judged
    assert_eq!(causes[0], "shaper", "{causes:?}");
    let unknown = document
        .verdicts
        .iter()
        .find(|v| v.cause.name() == "unknown");
    assert_eq!(unknown.map(|v| v.lost), Some(1), "{causes:?}");
}

#[test]
fn flows_without_losses_to_one_host_are_named_by_their_limit() {
    let mut scenario = path(Box::new(Policer::new(8_000_000, 60_000)), 30);
    scenario.flows.push(FlowConfig {
        client_port: 40_001,
        application: Application::Stream {
            bytes: 10_000,
            count: 20,
            interval_ns: 100 * MS,
        },
        start_ns: 20_000 * MS,
        ..flow()
    });
    let (document, truths) = explained(scenario);
    assert!(truths[0].lost() > 0 && truths[1].lost() == 0);
    let flows_of = |cause: &str| {
        let verdict = document.verdicts.iter().find(|v| v.cause.name() == cause);
        verdict
            .map(|verdict| verdict.flows.clone())
            .unwrap_or_default()
    };
    let (policed, paused) = (flows_of("policer"), flows_of("sender"));
    assert_eq!((policed.len(), paused.len()), (1, 1), "{}", text(&document));
    assert!(paused[0].contains(":40001"), "{paused:?}");
}

#[test]
fn an_outage_is_no_policer_however_many_packets_are_lost() {
    for seed in [1, 2, 3] {
        let link = Fifo::new(20_000_000, Limit::NONE);
        let outages = RandomLoss::outages(0.03, 30 * MS, seed);
        let chain = Chain::new(vec![Box::new(link), Box::new(outages)]);
        let mut scenario = path(Box::new(chain), 25);
        scenario.flows[0].application = chunks(4_000_000, 5);
        let (document, truths) = explained(scenario);
        assert!(truths[0].lost() > 5);
        assert_ne!(
            headline(&document).cause.name(),
            "policer",
            "{}",
            text(&document)
        );
    }
}

#[test]
fn flows_to_one_destination_share_a_policer_and_a_verdict() {
    let mut scenario = path(Box::new(Policer::new(8_000_000, 60_000)), 30);
    scenario.flows.push(FlowConfig {
        client_port: 40_001,
        start_ns: 900 * MS,
        extra_rtt_ns: 20 * MS,
        ..flow()
    });
    let (document, truths) = explained(scenario);
    let verdict = headline(&document);
    assert_eq!(verdict.cause.name(), "policer", "{}", text(&document));
    assert_eq!(verdict.flows.len(), 2, "{:?}", verdict.flows);
    assert!(holds(verdict, "rate_bps", 8e6), "{}", text(&document));
    assert_eq!(
        verdict.lost,
        truths.iter().map(|truth| truth.lost()).sum::<u64>()
    );
}

#[test]
fn a_sender_that_paces_just_above_the_rate_is_still_policed() {
    let mut scenario = path(Box::new(Policer::new(6_000_000, 40_000)), 50);
    let sender = &mut scenario.flows[0].sender;
    sender.algorithm = Algorithm::FixedRate {
        rate_bps: 6_600_000,
    };
    sender.pacing = Pacing::Rate(6_600_000);
    sender.initial_window = 100.0;
    sender.hystart = false;
    let (document, _) = explained(scenario);
    let verdict = headline(&document);
    assert_eq!(verdict.cause.name(), "policer", "{}", text(&document));
    assert!(holds(verdict, "rate_bps", 6e6), "{}", text(&document));
}

#[test]
fn super_segments_do_not_hide_the_policer_behind_them() {
    let mut scenario = path(Box::new(Policer::new(10_000_000, 64_000)), 40);
    scenario.capture.segmentation_offload = true;
    let (document, _) = explained(scenario);
    let verdict = headline(&document);
    assert_eq!(verdict.cause.name(), "policer", "{}", text(&document));
    assert!(holds(verdict, "rate_bps", 10e6), "{}", text(&document));
}
