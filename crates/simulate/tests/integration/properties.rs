//! Properties of every simulation, whatever the path.

use proptest::prelude::*;
use whydrop_path::{Chain, Delay, Fifo, Jitter, Limit, PathElement, Policer, RandomLoss, Shaper};
use whydrop_simulate::{
    Algorithm, Application, CaptureConfig, FlowConfig, Pacing, Reason, ReceiverConfig, Scenario,
    SenderConfig, Simulation, Stage, Toward, flow_truths,
};

const MS: i64 = 1_000_000;

#[derive(Debug, Clone, Copy)]
enum Hop {
    Policer { rate_bps: u64, burst_bytes: u64 },
    Fifo { rate_bps: u64, packets: u64 },
    Shaper { rate_bps: u64, burst_bytes: u64 },
    Loss { probability: f64, seed: u64 },
    Reordering { spread_ms: i64, seed: u64 },
}

impl Hop {
    fn element(self) -> Box<dyn PathElement + Send> {
        match self {
            Hop::Policer {
                rate_bps,
                burst_bytes,
            } => Box::new(Policer::new(rate_bps, burst_bytes)),
            Hop::Fifo { rate_bps, packets } => {
                Box::new(Fifo::new(rate_bps, Limit::packets(packets)))
            }
            Hop::Shaper {
                rate_bps,
                burst_bytes,
            } => Box::new(Shaper::new(rate_bps, burst_bytes, Limit::NONE)),
            Hop::Loss { probability, seed } => Box::new(RandomLoss::independent(probability, seed)),
            Hop::Reordering { spread_ms, seed } => {
                Box::new(Jitter::new(0, spread_ms * MS, seed).reordering())
            }
        }
    }
}

fn hop() -> impl Strategy<Value = Hop> {
    let rate = 500_000u64..100_000_000;
    prop_oneof![
        (rate.clone(), 3_000u64..200_000).prop_map(|(rate_bps, burst_bytes)| Hop::Policer {
            rate_bps,
            burst_bytes
        }),
        (rate.clone(), 2u64..200).prop_map(|(rate_bps, packets)| Hop::Fifo { rate_bps, packets }),
        (rate, 3_000u64..50_000).prop_map(|(rate_bps, burst_bytes)| Hop::Shaper {
            rate_bps,
            burst_bytes
        }),
        (0.0f64..0.05, any::<u64>())
            .prop_map(|(probability, seed)| Hop::Loss { probability, seed }),
        (0i64..8, any::<u64>()).prop_map(|(spread_ms, seed)| Hop::Reordering { spread_ms, seed }),
    ]
}

fn sender() -> impl Strategy<Value = SenderConfig> {
    let algorithm = prop_oneof![Just(Algorithm::Cubic), Just(Algorithm::NewReno)];
    let pacing = prop_oneof![Just(Pacing::None), Just(Pacing::Window)];
    (
        algorithm,
        pacing,
        any::<bool>(),
        any::<bool>(),
        500u64..1_460,
    )
        .prop_map(|(algorithm, pacing, rack, hystart, mss)| SenderConfig {
            algorithm,
            pacing,
            rack,
            tail_loss_probe: rack,
            hystart,
            mss,
            ..SenderConfig::default()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn all_data_arrives_in_the_end_and_every_packet_is_accounted_for(
        hop in hop(), sender in sender(), rtt_ms in 2i64..200, timestamps in any::<bool>(),
        acknowledgment_loss in prop_oneof![Just(0.0), 0.0f64..0.02], seed in any::<u64>(),
    ) {
        let flow = FlowConfig {
            sender,
            receiver: ReceiverConfig { timestamps, ..ReceiverConfig::default() },
            application: Application::Chunks { bytes: 150_000, count: 2, pause_ns: 300 * MS },
            client: [10, 1, 0, 1],
            server: [10, 2, 0, 1],
            client_port: 40_000,
            server_port: 443,
            start_ns: 0,
            captured: true,
            timestamps,
            closes: true,
            extra_rtt_ns: 0,
        };
        let card = Fifo::new(1_000_000_000, Limit::NONE);
        let stage = |name, element, reverse_delay_ns| Stage { name, element, reverse_delay_ns };
        let scenario = Scenario {
            seed,
            flows: vec![flow],
            stages: vec![
                stage("card", Box::new(Chain::new(vec![Box::new(card)])), 0),
                stage("element", hop.element(), 0),
                stage("path", Box::new(Delay::new(rtt_ms * MS / 2)), rtt_ms * MS / 2),
            ],
            cross_traffic: Vec::new(),
            reverse_jitter_ns: 0,
            acknowledgment_loss,
            capture: CaptureConfig::default(),
            end_ns: 3_600_000 * MS,
        };
        let history = Simulation::new(scenario).run();
        prop_assert_eq!(&history.complete, &[true]);
        let truth = &flow_truths(&history, &[flow])[0];
        prop_assert_eq!(truth.payload_bytes, 300_000);
        prop_assert_eq!(truth.sent, truth.delivered + truth.lost());
        // All but the first transmission of each byte are retransmissions, and each is needed or arrives twice.
        prop_assert!(truth.retransmitted <= truth.lost() + truth.duplicate);
        let sent_in_order = history.packets.iter().filter(|p| {
            p.segment.is_some_and(|s| s.toward == Toward::Client && s.payload_bytes > 0 && s.reason == Reason::New)
        });
        prop_assert!(sent_in_order.is_sorted_by_key(|p| p.segment.map(|s| s.sequence)));
    }
}
