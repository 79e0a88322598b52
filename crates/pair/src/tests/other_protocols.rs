//! UDP, ICMP and fragments: there are no acknowledgments.

use std::net::{IpAddr, Ipv4Addr};

use crate::testing::{Body, Encoding, Journey, Passing, Random, Scene, Wire};
use crate::{Crossing, Direction};

const US: i64 = 1000;
const START: i64 = 1_700_000_000_000_000_000;

fn client() -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1))
}

fn server() -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7))
}

/// Packets from the client, one every 100 µs, some lost; the first and the last are not.
fn stream(count: u64, lost: f64, body: impl Fn(u64) -> (Body, u16)) -> Vec<Journey> {
    let mut random = Random(4711);
    (0..count)
        .map(|number| {
            let (body, identification) = body(number);
            let time_ns = START + number as i64 * 100 * US;
            let passing = |time_ns: i64, ttl: u8| Passing {
                time_ns,
                order_ns: time_ns,
                wire: Wire {
                    source: (client(), 5000),
                    destination: (server(), 6000),
                    ttl,
                    tos: 0,
                    identification,
                    body: body.clone(),
                },
            };
            let inside = number > 10 && number + 100 < count;
            let lost = inside && random.chance(lost);
            Journey {
                seen: [
                    Some(passing(time_ns, 63)),
                    (!lost).then(|| passing(time_ns + 3000 * US, 62)),
                ],
                crossing: if lost {
                    Crossing::Lost
                } else {
                    Crossing::Matched
                },
            }
        })
        .collect()
}

fn payload(number: u64) -> Vec<u8> {
    let mut bytes = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    bytes.below(2);
    (0..100).map(|_| bytes.below(256) as u8).collect()
}

#[test]
fn lost_datagrams_are_named() {
    for identification in [0, 1] {
        let journeys = stream(2000, 0.05, |number| {
            (
                Body::Udp(payload(number)),
                (number as u16 + 1) * identification,
            )
        });
        let pair = Scene::new(journeys).check();
        assert_eq!(pair.flows[0].direction, Direction::FirstToSecond);
        assert!(pair.counts.lost[0] > 50);
        assert_eq!(pair.flows[0].name(), "10.0.1.1:5000 > 192.0.2.7:6000");
    }
}

#[test]
fn identical_datagrams_match_by_number_within_their_flow() {
    let journeys = stream(2000, 0.05, |number| {
        (Body::Udp(vec![0; 200]), number as u16 + 1)
    });
    Scene::new(journeys).check();
}

#[test]
fn identical_missing_datagrams_are_counted_as_lost() {
    let journeys = stream(2000, 0.02, |_| (Body::Udp(vec![0; 200]), 0));
    let lost = journeys
        .iter()
        .filter(|journey| journey.crossing == Crossing::Lost)
        .count() as u64;
    let pair = Scene::new(journeys).read().unwrap();
    // which one was lost first is unknown, so at the end one may count as still in transit
    let found = pair.counts.lost[0];
    assert!((lost - 1..=lost).contains(&found), "{:?}", pair.counts);
    assert_eq!(found + pair.counts.outside_overlap[0], lost);
}

/// Removes one in twenty packets from one capture; the fate of these is then `crossing`.
fn seen_once(journeys: &mut [Journey], missing_at: usize, crossing: Crossing) -> u64 {
    let within = 50..journeys.len() - 50;
    let some = journeys[within].iter_mut().step_by(20);
    some.map(|journey| {
        journey.seen[missing_at] = None;
        journey.crossing = crossing;
    })
    .count() as u64
}

#[test]
fn datagrams_missing_upstream_are_no_copies_despite_equal_identifications() {
    for identification in [0, 7] {
        let mut journeys = stream(2000, 0.0, |number| {
            (Body::Udp(payload(number)), identification)
        });
        let missed = seen_once(&mut journeys, 0, Crossing::MissedUpstream);
        let pair = Scene::new(journeys).check();
        assert_eq!(pair.counts.missed, [missed, 0]);
    }
}

#[test]
fn additional_identical_datagrams_downstream_stay_undecided() {
    for identification in [0, 7] {
        let mut journeys = stream(1000, 0.0, |_| (Body::Udp(vec![0; 200]), identification));
        let more = seen_once(&mut journeys, 0, Crossing::Undecided);
        // further apart than copies made by a capture could be; both captures continue past them
        journeys.extend(stream(1, 0.0, |_| (Body::Icmp(8, 0, payload(1)), 1)));
        for (number, journey) in (0..).zip(&mut journeys) {
            for passing in journey.seen.iter_mut().flatten() {
                passing.time_ns += number * 20_000 * US;
                passing.order_ns = passing.time_ns;
            }
        }
        // the last one is the echo
        let echo = journeys.len() - 1;
        for passing in journeys[echo].seen.iter_mut().flatten() {
            passing.time_ns += 10_000_000 * US;
            passing.order_ns = passing.time_ns;
        }
        let pair = Scene::new(journeys).read().unwrap();
        let counts = pair.counts;
        let only_downstream = [counts.duplicated[0], counts.missed[0], counts.undecided[1]];
        assert_eq!(only_downstream, [0, 0, more], "{counts:?}");
    }
}

#[test]
fn copies_of_datagrams_without_identification_are_known_by_their_contents() {
    let mut journeys = stream(1000, 0.0, |number| (Body::Udp(payload(number)), 0));
    let mut copies = journeys[100..].to_vec();
    // later than a copy made by the capture could be
    for copy in &mut copies {
        if let Some(passing) = &mut copy.seen[1] {
            passing.time_ns += 150_000 * US;
            passing.order_ns += 150_000 * US;
        }
    }
    let number = seen_once(&mut copies, 0, Crossing::Duplicated);
    copies.retain(|copy| copy.crossing == Crossing::Duplicated);
    journeys.extend(copies);
    let pair = Scene::new(journeys).check();
    assert_eq!(pair.counts.duplicated, [number, 0]);
}

#[test]
fn datagrams_match_across_translation_and_a_short_snapshot_length() {
    for snaplen_bytes in [96, 36] {
        let journeys = stream(1000, 0.05, |number| {
            (Body::Udp(payload(number)), number as u16 + 1)
        });
        let scene = Scene::new(journeys).at(1, |passing| {
            passing.wire.source = (IpAddr::V4(Ipv4Addr::new(198, 51, 100, 3)), 777);
        });
        // eight bytes of payload are enough, the identification helps
        let scene = scene.encoded(
            0,
            Encoding {
                snaplen_bytes,
                ..Encoding::default()
            },
        );
        let pair = scene.check();
        assert!(pair.flows[0].is_translated());
    }
}

#[test]
fn echoes_match_though_translation_renumbers_them() {
    let echo = |identifier: u16| {
        move |number: u64| {
            let mut rest = identifier.to_be_bytes().to_vec();
            rest.extend((number as u16).to_be_bytes());
            rest.extend(payload(number));
            (Body::Icmp(8, 0, rest), number as u16 + 1)
        }
    };
    let journeys = stream(500, 0.05, echo(9));
    let scene = Scene::new(journeys).at(1, |passing| {
        passing.wire.source.0 = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 3));
        if let Body::Icmp(_, _, rest) = &mut passing.wire.body {
            rest[0] ^= 0x55;
        }
    });
    let pair = scene.check();
    assert!(pair.counts.lost[0] > 5);
}

#[test]
fn fragments_match_by_their_number() {
    let mut journeys = stream(500, 0.05, |number| {
        (Body::Fragment(0, true, payload(number)), number as u16 + 1)
    });
    journeys.extend(stream(500, 0.08, |number| {
        (
            Body::Fragment(1480, false, payload(number)),
            number as u16 + 1,
        )
    }));
    let pair = Scene::new(journeys).check();
    assert!(pair.counts.lost[0] > 30);
}

/// A router between the points announces itself on both links by the same datagram, at times unrelated to the
/// path's.
fn announcements(destination: IpAddr) -> Vec<Journey> {
    (0..50)
        .map(|number: u16| {
            let passing = |time_ns: i64| Passing {
                time_ns,
                order_ns: time_ns,
                wire: Wire {
                    source: (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)), 1900),
                    destination: (destination, 1900),
                    ttl: 1,
                    tos: 0,
                    identification: number + 1,
                    body: Body::Udp(payload(1_000_000 + u64::from(number))),
                },
            };
            let time_ns = START + i64::from(number) * 4_000 * US;
            Journey {
                // 40 ms before it could have arrived from there
                seen: [Some(passing(time_ns + 40_000 * US)), Some(passing(time_ns))],
                crossing: Crossing::Matched,
            }
        })
        .collect()
}

#[test]
fn broadcast_and_multicast_are_never_matched_nor_used_for_clocks() {
    let both_directions = || {
        let forward = stream(2000, 0.05, |number| {
            (Body::Udp(payload(number)), number as u16 + 1)
        });
        forward.into_iter().chain(answers(500))
    };
    let alone = Scene::new(both_directions().collect())
        .read()
        .expect("they share packets");
    for to_many in [[224, 0, 0, 251], [255, 255, 255, 255], [10, 0, 0, 255]] {
        let announced = announcements(IpAddr::V4(Ipv4Addr::from(to_many)));
        let pair = Scene::new(both_directions().chain(announced).collect())
            .read()
            .expect("they share packets");
        assert_eq!(pair.counts.to_many, [50, 50]);
        assert_eq!(pair.counts.matched, alone.counts.matched);
        assert_eq!(pair.clock, alone.clock);
        assert_eq!(pair.flows.len(), alone.flows.len());
    }
    // from one host to another the same is an ordinary flow
    let unicast = announcements(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)));
    let pair = Scene::new(both_directions().chain(unicast).collect())
        .read()
        .expect("they share packets");
    assert_eq!(pair.counts.to_many, [0, 0]);
    assert_eq!(pair.counts.matched, alone.counts.matched + 50);
}

/// Packets from the server, one every 400 µs, that take 2 ms.
fn answers(count: u64) -> impl Iterator<Item = Journey> {
    (0..count).map(|number| {
        let time_ns = START + number as i64 * 400 * US;
        let passing = |time_ns: i64, ttl: u8| Passing {
            time_ns,
            order_ns: time_ns,
            wire: Wire {
                source: (server(), 6000),
                destination: (client(), 5000),
                ttl,
                tos: 0,
                identification: number as u16 + 1,
                body: Body::Udp(payload(500_000 + number)),
            },
        };
        Journey {
            seen: [
                Some(passing(time_ns + 2000 * US, 62)),
                Some(passing(time_ns, 63)),
            ],
            crossing: Crossing::Matched,
        }
    })
}
