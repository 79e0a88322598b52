use whydrop_hosts::{ReceiverConfig, SenderConfig, Toward};
use whydrop_path::{Chain, Delay, Fifo, Limit, PathElement, Policer};

use super::*;
use crate::history::History;
use crate::scenario::{Application, CaptureConfig, FlowConfig, Scenario, Stage};

const MS: i64 = 1_000_000;

fn scenario(tap: usize) -> Scenario {
    let stage = |name, element: Box<dyn PathElement + Send>, reverse_delay_ns| Stage {
        name,
        element,
        reverse_delay_ns,
    };
    let flow = FlowConfig {
        sender: SenderConfig::default(),
        receiver: ReceiverConfig::default(),
        application: Application::Chunks {
            bytes: 800_000,
            count: 2,
            pause_ns: 100 * MS,
        },
        client: [192, 0, 2, 1],
        server: [192, 0, 2, 2],
        client_port: 40_000,
        server_port: 443,
        start_ns: 0,
        captured: true,
        timestamps: true,
        closes: true,
        extra_rtt_ns: 0,
    };
    Scenario {
        seed: 9,
        flows: vec![flow],
        stages: vec![
            stage("card", Box::new(Fifo::new(1_000_000_000, Limit::NONE)), 0),
            stage(
                "element",
                Box::new(Policer::new(20_000_000, 30_000)),
                5 * MS,
            ),
            stage(
                "path",
                Box::new(Chain::new(vec![Box::new(Delay::new(10 * MS))])),
                8 * MS,
            ),
        ],
        cross_traffic: Vec::new(),
        reverse_jitter_ns: 0,
        acknowledgment_loss: 0.0,
        capture: CaptureConfig {
            tap,
            ..CaptureConfig::default()
        },
        end_ns: 60_000 * MS,
    }
}

fn watched(config: WatchConfig) -> History {
    let points = WatchConfig {
        points: [1, 2],
        seed: 4,
        ..config
    };
    Simulation::new(scenario(1)).watching(points).run()
}

#[test]
fn the_points_see_what_a_capture_there_would() {
    for (point, tap) in [(0, 1), (1, 2)] {
        let plain = Simulation::new(scenario(tap)).run();
        let watched = Simulation::new(scenario(tap)).watching(WatchConfig {
            points: [1, 2],
            ..WatchConfig::default()
        });
        let watched = watched.run();
        // Recording two points changes only the return paths, which are the same here within a nanosecond or so.
        let captured: Vec<i64> = plain.records.iter().map(|record| record.time_ns).collect();
        let mut passed: Vec<i64> = watched
            .passed
            .iter()
            .filter_map(|times| times[point])
            .collect();
        passed.sort_unstable();
        assert_eq!(captured.len(), passed.len());
        let apart = captured
            .iter()
            .zip(&passed)
            .map(|(a, b)| a.abs_diff(*b))
            .max();
        assert!(apart.unwrap() < 10_000, "{apart:?}");
    }
}

#[test]
fn a_packet_that_the_element_drops_has_passed_the_first_point_only() {
    let history = watched(WatchConfig::default());
    let mut dropped = 0;
    for (packet, passed) in history.packets.iter().zip(&history.passed) {
        match packet.fate {
            PacketFate::Dropped { stage: 1 } => {
                dropped += 1;
                assert!(passed[0].is_some() && passed[1].is_none());
            }
            PacketFate::Delivered { .. } => assert!(passed[0].is_some() && passed[1].is_some()),
            _ => {}
        }
    }
    assert!(dropped > 20);
}

#[test]
fn acknowledgments_are_lost_at_the_configured_places() {
    for place in 0..3 {
        let mut return_loss = [0.0; 3];
        return_loss[place] = 0.05;
        let history = watched(WatchConfig {
            return_loss,
            ..WatchConfig::default()
        });
        assert_eq!(history.complete, [true]);
        let lost: Vec<[bool; 2]> = (history.packets.iter().zip(&history.passed))
            .filter(|(packet, _)| packet.fate == PacketFate::LostReturning)
            .map(|(_, passed)| passed.map(|time| time.is_some()))
            .collect();
        assert!(lost.len() > 5);
        let expected = [[false, false], [false, true], [true, true]][place];
        assert!(lost.iter().all(|&seen| seen == expected));
    }
}

#[test]
fn what_goes_back_keeps_its_order_however_it_is_delayed() {
    let history = watched(WatchConfig {
        return_jitter_ns: 3 * MS,
        ..WatchConfig::default()
    });
    let back = history
        .packets
        .iter()
        .zip(&history.passed)
        .filter(|(packet, _)| packet.segment.is_some_and(|s| s.toward == Toward::Server));
    let mut times: Vec<(i64, i64)> = back.filter_map(|(_, p)| p[1].zip(p[0])).collect();
    times.sort_unstable();
    assert!(times.is_sorted_by_key(|&(_, at_b_ns)| at_b_ns));
    let least_ns = times.iter().map(|(y, b)| b - y).min();
    assert!(
        (5 * MS..6 * MS).contains(&least_ns.unwrap()),
        "{least_ns:?}"
    );
}

#[test]
fn datagrams_pass_both_points_and_the_element_and_longer_headers_count() {
    let source = DatagramSource {
        payload_bytes: (1_400, 1_400),
        mean_gap_ns: 5.0 * MS as f64,
        poisson: false,
        start_ns: 0,
    };
    let history = watched(WatchConfig {
        datagrams: vec![source],
        longer_ip_header_bytes: 20,
        ..WatchConfig::default()
    });
    let datagrams: Vec<_> = (history.packets.iter().zip(&history.passed))
        .filter(|(packet, _)| packet.datagram.is_some())
        .collect();
    assert!(datagrams.len() > 100);
    assert!(
        datagrams
            .iter()
            .all(|(packet, _)| packet.ip_bytes == 1_400 + 8 + 40)
    );
    assert!(datagrams.iter().all(|(_, passed)| passed[0].is_some()));
    assert!(
        datagrams
            .iter()
            .any(|(packet, _)| packet.fate == PacketFate::Dropped { stage: 1 })
    );
    let numbers: Vec<u32> = datagrams
        .iter()
        .filter_map(|(p, _)| Some(p.datagram?.number))
        .collect();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u32));
    let tcp = history
        .packets
        .iter()
        .find_map(|p| p.segment.map(|s| (s, p.ip_bytes)));
    let (segment, ip_bytes) = tcp.unwrap();
    assert_eq!(ip_bytes, segment.ip_bytes() + 20);
}
