//! Packets rewritten on the path by routers, translators and tunnels.

use std::net::{IpAddr, Ipv4Addr};

use crate::testing::{Body, Encoding, Passing, Path, Scene, Transfer};
use crate::{Direction, Pair};

fn scene(transfer: Transfer) -> Scene {
    let path = Path {
        lost: [0.03, 0.0],
        ..Path::default()
    };
    path.carry(&[transfer])
}

/// The client's private address becomes a public one, with another port.
fn translate(passing: &mut Passing) {
    let public = (IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 61_001);
    let wire = &mut passing.wire;
    for end in [&mut wire.source, &mut wire.destination] {
        if end.0 == IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)) {
            *end = (public.0, public.1 + end.1 % 100);
        }
    }
}

#[track_caller]
fn assert_directions(pair: &Pair) {
    assert_eq!(pair.flows[0].direction, Direction::FirstToSecond);
    assert_eq!(pair.flows[1].direction, Direction::SecondToFirst);
    assert!(pair.counts.lost[0] > 3 && pair.counts.lost[1] == 0);
}

#[test]
fn addresses_and_ports_may_be_translated() {
    let pair = scene(Transfer::default()).at(1, translate).check();
    assert_directions(&pair);
    assert_eq!(pair.flows.len(), 2);
    assert!(pair.flows[0].is_translated());
    assert_eq!(pair.flows[0].name(), "10.0.1.1:40000 > 192.0.2.7:443");
    let name = pair.flows[0].names[1].unwrap();
    assert_eq!(name.source.to_string(), "198.51.100.1:61001");
}

#[test]
fn translation_may_renumber_packets_too() {
    for timestamps in [true, false] {
        let transfer = Transfer {
            timestamps,
            ..Transfer::default()
        };
        let pair = scene(transfer)
            .at(1, translate)
            .at(1, |passing| {
                let id = &mut passing.wire.identification;
                *id = id.wrapping_mul(40_503).wrapping_add(1);
            })
            .check();
        assert_directions(&pair);
    }
}

#[test]
fn several_translated_connections_keep_apart() {
    let transfers: Vec<Transfer> = (0..10)
        .map(|number| Transfer {
            client: (Transfer::default().client.0, 40_000 + number),
            first_sequence: u32::from(number) * 7_000_003,
            segments: 100,
            ..Transfer::default()
        })
        .collect();
    let pair = Path::default().carry(&transfers).at(1, translate).check();
    assert_eq!(pair.flows.len(), 20);
    assert!(pair.flows.iter().all(|flow| flow.is_translated()));
}

#[test]
fn hops_code_points_and_marks_are_counted() {
    let mut number = 0;
    let mut scene = scene(Transfer::default()).at(0, |passing| passing.wire.tos = 0x2a);
    for journey in &mut scene.journeys {
        if let Some(passing) = &mut journey.seen[1]
            && passing.wire.source.1 == 40_000
        {
            number += 1;
            passing.wire.ttl = 60;
            passing.wire.tos = match number % 10 {
                0 => 0x2b,
                _ => 0x02,
            };
        } else if let Some(passing) = &mut journey.seen[1] {
            passing.wire.tos = 0x28;
        }
    }
    let pair = scene.check();
    let [forward, back] = [&pair.flows[0], &pair.flows[1]];
    assert_eq!(forward.hops, Some(3));
    let matched = forward.matched();
    assert_eq!(forward.ce_marked, matched / 10);
    assert_eq!(forward.dscp_changed, matched - matched / 10);
    assert_eq!(forward.ecn_changed, 0);
    assert_eq!(back.ecn_changed, back.matched());
    assert_eq!(back.hops, Some(1));
}

#[test]
fn a_clamped_segment_size_is_noticed() {
    let pair = scene(Transfer::default())
        .at(1, |passing| {
            if let Body::Tcp {
                mss: Some(mss @ 1460),
                ..
            } = &mut passing.wire.body
            {
                *mss = 1400;
            }
        })
        .check();
    assert_eq!(pair.flows[0].mss_changed, 1);
    assert_eq!(pair.flows[1].mss_changed, 1);
}

#[test]
fn ipv6_has_no_identification_and_matches_all_the_same() {
    for timestamps in [true, false] {
        let pair = scene(Transfer {
            client: ("2001:db8::1".parse().unwrap(), 40_000),
            server: ("2001:db8:1::2".parse().unwrap(), 443),
            timestamps,
            ..Transfer::default()
        })
        .check();
        assert_directions(&pair);
    }
}

#[test]
fn a_tunnel_at_one_point_is_seen_through() {
    for side in 0..2 {
        let encoding = Encoding {
            tunnel: true,
            ..Encoding::default()
        };
        let pair = scene(Transfer::default()).encoded(side, encoding).check();
        assert_directions(&pair);
    }
}

#[test]
fn packets_without_numbers_are_distinguished_by_timestamps_or_order() {
    for timestamps in [true, false] {
        let pair = scene(Transfer {
            numbered: false,
            timestamps,
            ..Transfer::default()
        })
        .check();
        assert_directions(&pair);
    }
}

#[test]
fn a_connection_without_a_captured_handshake_matches() {
    let pair = scene(Transfer {
        handshake: false,
        ..Transfer::default()
    })
    .at(1, translate)
    .check();
    assert_directions(&pair);
}
