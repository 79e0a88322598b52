//! Duplicates and packets that are none: each case occurs in real captures.

use crate::testing::*;
use crate::{LinkType, OpenOptions, Summary};

const US: i64 = 1000;
const MS: i64 = 1_000_000;

/// Frames at given times, read without duplicates: the indices that remain.
fn kept(frames: &[(i64, Vec<u8>)]) -> Vec<u64> {
    kept_and_summary(frames).0
}

fn kept_and_summary(frames: &[(i64, Vec<u8>)]) -> (Vec<u64>, Summary) {
    let frames: Vec<(i64, &[u8])> = frames.iter().map(|(at, frame)| (*at, &frame[..])).collect();
    let (lines, summary) = read_with(&PcapFile::default().of(&frames), OpenOptions::default());
    assert_eq!(summary.packets as usize, frames.len());
    assert_eq!(summary.packets - summary.duplicates, lines.len() as u64);
    (lines.iter().map(|line| line.index).collect(), summary)
}

fn numbered(identification: u16, segment: &Tcp) -> Vec<u8> {
    ethernet(
        0x0800,
        &Ipv4 {
            identification,
            ..Ipv4::default()
        }
        .bytes(&segment.bytes()),
    )
}

fn version_6(segment: &Tcp) -> Vec<u8> {
    ethernet(0x86dd, &ipv6(6, &segment.bytes()))
}

/// The same IPv6 frame after a router: other addresses on the link, hop limit one less.
fn routed(mut frame: Vec<u8>) -> Vec<u8> {
    frame[5] = 3;
    frame[11] = 2;
    frame[14 + 7] -= 1;
    frame
}

#[test]
fn a_numbered_packet_is_given_once_wherever_it_was_seen_again() {
    let first = numbered(77, &Tcp::default());
    let mut routed = Ipv4 {
        identification: 77,
        ttl: 63,
        type_of_service: 0x28,
        ..Ipv4::default()
    };
    routed.options = Vec::new();
    let routed = ethernet(
        0x8100,
        &join(&[&[0, 9, 8, 0], &routed.bytes(&Tcp::default().bytes())]),
    );
    let frames = [
        (0, first.clone()),
        (3 * US, first.clone()),
        (50 * MS, routed),
        (51 * MS, first),
    ];
    let (kept, summary) = kept_and_summary(&frames);
    assert_eq!((kept, summary.duplicates), (vec![0], 3));
    assert_eq!(summary.kinds.tcp, 4);
}

#[test]
fn copies_are_given_to_those_who_ask() {
    let frame = numbered(77, &Tcp::default());
    let bytes = PcapFile::default().of(&[(0, &frame), (0, &frame)]);
    let (lines, summary) = read(&bytes);
    assert_eq!((lines.len(), summary.duplicates), (2, 1));
}

#[test]
fn a_retransmission_has_a_number_of_its_own() {
    let segment = Tcp::default();
    assert_eq!(
        kept(&[(0, numbered(1, &segment)), (US, numbered(2, &segment))]),
        [0, 1]
    );
}

#[test]
fn a_timeout_is_longer_than_any_copy_takes() {
    let frame = numbered(7, &Tcp::default());
    assert_eq!(kept(&[(0, frame.clone()), (200 * MS, frame)]), [0, 1]);
}

#[test]
fn any_difference_in_the_transport_header_makes_another_packet() {
    let base = Tcp {
        options: join(&[&TIMESTAMPS, &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]]),
        ..Tcp::default()
    };
    let mut changed = vec![
        Tcp {
            sequence: 9,
            ..base.clone()
        },
        Tcp {
            acknowledgment: 9,
            ..base.clone()
        },
        Tcp {
            flags: 0x18,
            ..base.clone()
        },
        Tcp {
            window: 501,
            ..base.clone()
        },
        Tcp {
            payload: b"hello!".to_vec(),
            ..base.clone()
        },
    ];
    for byte in [4, 8, 19, 23] {
        let mut options = base.options.clone();
        options[byte] ^= 1;
        changed.push(Tcp {
            options,
            ..base.clone()
        });
    }
    for (index, other) in changed.iter().enumerate() {
        assert_eq!(
            kept(&[(0, numbered(5, &base)), (US, numbered(5, other))]),
            [0, 1],
            "change {index}"
        );
    }
}

#[test]
fn a_host_that_uses_one_number_for_all_packets_keeps_its_retransmissions() {
    let segment = |sequence: u32| Tcp {
        sequence,
        options: Vec::new(),
        ..Tcp::default()
    };
    let mut frames: Vec<(i64, Vec<u8>)> = (0..20)
        .map(|place| {
            (
                i64::from(place) * US,
                numbered(0x4242, &segment(place as u32 * 5)),
            )
        })
        .collect();
    // The nineteenth packet again, after a round trip in a local network.
    frames.push((500 * US, numbered(0x4242, &segment(18 * 5))));
    assert_eq!(kept(&frames).len(), 21);
}

#[test]
fn numbers_that_collide_by_chance_still_prove_copies() {
    let segment = |sequence: u32| Tcp {
        sequence,
        ..Tcp::default()
    };
    let mut frames = Vec::new();
    for place in 0..1000u32 {
        // Every hundredth packet has the number of the one before it.
        let number = (place - u32::from(place % 100 == 99)) as u16 + 1;
        frames.push((
            i64::from(place) * 10 * US,
            numbered(number, &segment(place)),
        ));
    }
    frames.push((10_000 * US, frames[999].1.clone()));
    assert_eq!(kept(&frames).len(), 1000);
}

#[test]
fn unnumbered_duplicate_acknowledgments_are_kept() {
    for options in [Vec::new(), TIMESTAMPS.to_vec()] {
        let acknowledgment = Tcp {
            options,
            payload: Vec::new(),
            ..Tcp::default()
        };
        for frame in [numbered(0, &acknowledgment), version_6(&acknowledgment)] {
            let frames: Vec<_> = (0..5).map(|place| (place, frame.clone())).collect();
            assert_eq!(kept(&frames), [0, 1, 2, 3, 4]);
        }
    }
}

#[test]
fn unnumbered_packets_seen_at_two_points_are_given_once() {
    let acknowledgment = Tcp {
        payload: Vec::new(),
        ..Tcp::default()
    };
    for segment in [Tcp::default(), acknowledgment] {
        let (here, there) = (version_6(&segment), routed(version_6(&segment)));
        assert_eq!(kept(&[(0, here.clone()), (5 * MS, there.clone())]), [0]);
        // Longer than a queue delays packets between two captures.
        assert_eq!(kept(&[(0, here.clone()), (11 * MS, there.clone())]), [0, 1]);
        // A retransmission passes both points again: it is returned once.
        let again = [
            (0, here.clone()),
            (20 * US, there.clone()),
            (MS, here),
            (MS + 20 * US, there),
        ];
        assert_eq!(kept(&again), [0, 2]);
    }
}

#[test]
fn unnumbered_data_is_a_copy_only_where_no_sender_can_be_so_fast() {
    let data = version_6(&Tcp::default());
    assert_eq!(kept(&[(0, data.clone()), (15 * US, data.clone())]), [0]);
    assert_eq!(kept(&[(0, data.clone()), (50 * US, data)]), [0, 1]);
    // Without timestamps, a retransmission that a queue moved next to its original cannot be recognised.
    let bare = version_6(&Tcp {
        options: Vec::new(),
        ..Tcp::default()
    });
    assert_eq!(kept(&[(0, bare.clone()), (US, bare)]), [0, 1]);
}

#[test]
fn interfaces_and_directions_are_points() {
    let order = ByteOrder::Little;
    let frame = version_6(&Tcp {
        payload: Vec::new(),
        ..Tcp::default()
    });
    let head = join(&[
        &section_header(order),
        &interface(order, LinkType::ETHERNET, 0, &[]),
        &interface(order, LinkType::ETHERNET, 0, &[]),
    ]);
    let on = |interface: u32, direction: u8| {
        enhanced_packet(
            order,
            interface,
            1,
            &frame,
            &option(order, 2, &[direction, 0, 0, 0]),
        )
    };
    let count = |second: Vec<u8>| {
        read_with(&join(&[&head, &on(0, 1), &second]), OpenOptions::default())
            .0
            .len()
    };
    assert_eq!(count(on(0, 1)), 2);
    assert_eq!(count(on(0, 2)), 1);
    assert_eq!(count(on(1, 1)), 1);
}

#[test]
fn an_any_capture_of_a_forwarding_host_is_thinned_to_single_packets() {
    let body = ipv6(
        6,
        &Tcp {
            payload: Vec::new(),
            ..Tcp::default()
        }
        .bytes(),
    );
    let cooked = |interface: u8, kind: u8| {
        let head = [
            0x86, 0xdd, 0, 0, 0, 0, 0, interface, 0, 1, kind, 6, 2, 0, 0, 0, 0, 1, 0, 0,
        ];
        join(&[&head, &body])
    };
    let file = PcapFile {
        link: LinkType::LINUX_COOKED_2.0,
        ..PcapFile::default()
    };
    let bytes = file.of(&[
        (0, &cooked(2, 0)),
        (5 * US, &cooked(3, 4)),
        (9 * US, &cooked(4, 4)),
    ]);
    assert_eq!(read_with(&bytes, OpenOptions::default()).0.len(), 1);
}

#[test]
fn inside_and_outside_of_a_tunnel_are_two_points() {
    let inner = ipv6(
        6,
        &Tcp {
            payload: Vec::new(),
            ..Tcp::default()
        }
        .bytes(),
    );
    let frames = [
        (0, ethernet(0x86dd, &inner)),
        (5 * US, ethernet(0x0800, &ipv4(41, &inner))),
    ];
    assert_eq!(kept(&frames), [0]);
}

#[test]
fn datagrams_are_distinguished_by_their_contents() {
    let datagram = |number: u16, payload: &[u8]| {
        let header = Ipv4 {
            protocol: 17,
            identification: number,
            ..Ipv4::default()
        };
        ethernet(0x0800, &header.bytes(&udp(9, payload)))
    };
    assert_eq!(
        kept(&[(0, datagram(4, b"one")), (1, datagram(4, b"two"))]),
        [0, 1]
    );
    assert_eq!(
        kept(&[(0, datagram(4, b"one")), (1, datagram(4, b"one"))]),
        [0]
    );
    // Without a number and at one point: a sender may repeat a packet.
    assert_eq!(
        kept(&[(0, datagram(0, b"one")), (1, datagram(0, b"one"))]),
        [0, 1]
    );
}

#[test]
fn fragments_of_one_datagram_are_not_copies() {
    let fragment = |place: u16, payload: &[u8]| {
        let header = Ipv4 {
            flags_and_offset: place,
            ..Ipv4::default()
        };
        ethernet(0x0800, &header.bytes(payload))
    };
    let first = Tcp {
        payload: vec![0; 24],
        ..Tcp::default()
    }
    .bytes();
    let frames = [
        (0, fragment(0x2000, &first)),
        (1, fragment(0x2007, &[0; 56])),
        (2, fragment(0x000e, &[0; 56])),
    ];
    assert_eq!(kept(&frames), [0, 1, 2]);
    let twice = [frames.clone(), frames].concat();
    assert_eq!(kept(&twice), [0, 1, 2]);
}

#[test]
fn numbered_packets_of_other_protocols_are_distinguished_by_their_contents() {
    let other = |payload: &[u8]| ethernet(0x0800, &ipv4(50, payload));
    assert_eq!(kept(&[(0, other(&[1; 40])), (1, other(&[2; 40]))]), [0, 1]);
    assert_eq!(kept(&[(0, other(&[1; 40])), (1, other(&[1; 40]))]), [0]);
}

#[test]
fn a_clock_that_jumps_is_survived() {
    let frame = numbered(7, &Tcp::default());
    let order = ByteOrder::Big;
    let far = option(order, 14, &i64::MIN.to_be_bytes());
    let bytes = join(&[
        &section_header(order),
        &interface(order, LinkType::ETHERNET, 0, &[]),
        &interface(order, LinkType::ETHERNET, 0, &far),
        &enhanced_packet(order, 0, u64::MAX, &frame, &[]),
        &enhanced_packet(order, 1, 0, &frame, &[]),
        &enhanced_packet(order, 0, u64::MAX, &frame, &[]),
    ]);
    let (lines, summary) = read_with(&bytes, OpenOptions::default());
    assert_eq!((lines.len(), summary.out_of_order), (2, 1));
    assert_eq!(
        (summary.first_ns, summary.last_ns),
        (Some(i64::MIN), Some(i64::MAX))
    );
}

#[test]
fn many_possible_duplicates_are_reported() {
    let acknowledgment = version_6(&Tcp {
        payload: Vec::new(),
        ..Tcp::default()
    });
    let frames: Vec<_> = (0..50)
        .map(|place| (place, acknowledgment.clone()))
        .collect();
    let (kept, summary) = kept_and_summary(&frames);
    assert_eq!(kept.len(), 50);
    assert!(
        summary.notes[0].contains("20 µs before): 49 packets"),
        "{:?}",
        summary.notes
    );
}

#[test]
fn a_test_tool_that_sends_one_datagram_over_and_over_is_not_a_mirror() {
    let datagram = ethernet(0x0800, &ipv4(17, &udp(9, b"probe")));
    assert_eq!(kept(&[(0, datagram.clone()), (16 * MS, datagram)]), [0, 1]);
}

#[test]
fn a_tap_that_copies_a_syn_copies_all_that_its_hosts_send() {
    let later = |flags: u16, sequence: u32| {
        version_6(&Tcp {
            flags,
            sequence,
            options: Vec::new(),
            ..Tcp::default()
        })
    };
    let (syn, data) = (later(0x02, 1), later(0x10, 2));
    let acknowledgment = version_6(&Tcp {
        payload: Vec::new(),
        ..Tcp::default()
    });
    let twice = |at: i64, frame: &Vec<u8>| [(at, frame.clone()), (at + 100 * US, frame.clone())];
    let of_all = [
        twice(0, &syn),
        twice(50 * MS, &data),
        twice(51 * MS, &acknowledgment),
        // retransmitted, and duplicated again
        twice(50 * MS + 300 * US, &data),
    ];
    let mut frames = of_all.concat();
    frames.sort_by_key(|(at, _)| *at);
    assert_eq!(kept(&frames), [0, 2, 4, 6]);
    // without the SYN's duplicate they cannot be distinguished from retransmissions
    assert_eq!(kept(&frames[2..]), [0, 1, 2, 3, 4, 5]);
}
