use std::net::{IpAddr, Ipv4Addr};

use whydrop_capture::{Network, Packet, Transport, contain};

use crate::rtp::RtpStream;
use crate::spin::Spin;
use crate::{DatagramTracker, Datagrams, MOST_FLOWS};

const MS: i64 = 1_000_000;
const SSRC: u32 = 0x1234_5678;

/// Pseudo-random numbers (G. Marsaglia, "Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn push(tracker: &mut DatagramTracker, time_ns: i64, ports: (u16, u16), payload: &[u8]) {
    // the end with the higher port keeps its address in both directions
    let [source, destination] = [ports.0 > ports.1, ports.0 < ports.1]
        .map(|higher| IpAddr::V4(Ipv4Addr::new(192, 0, 2, if higher { 1 } else { 2 })));
    let ip_bytes = payload.len() as u32 + 28;
    tracker.push(&Packet {
        index: 0,
        time_ns,
        interface: 0,
        wire_bytes: ip_bytes + 14,
        captured_bytes: ip_bytes + 14,
        network: Some(Network {
            source,
            destination,
            ip_bytes,
            identification: None,
            ttl: 64,
            dscp: 46,
            ecn: 0,
            tunnel_depth: 0,
        }),
        transport: Transport::Udp {
            source_port: ports.0,
            destination_port: ports.1,
            payload_bytes: payload.len() as u32,
            payload,
        },
    });
}

fn rtp(payload_type: u8, number: u16, timestamp: u32) -> Vec<u8> {
    let mut packet = vec![0x80, payload_type];
    packet.extend(number.to_be_bytes());
    packet.extend(timestamp.to_be_bytes());
    packet.extend(SSRC.to_be_bytes());
    packet.extend([0xd5; 160]);
    packet
}

/// Packets of speech, one each 20 ms: (number, arrival time), with numbers that wrap.
fn speech(came: impl IntoIterator<Item = (u16, i64)>, payload_type: u8) -> Vec<RtpStream> {
    let mut tracker = DatagramTracker::default();
    for (number, time_ns) in came {
        let packet = rtp(
            payload_type,
            number.wrapping_add(65_500),
            u32::from(number)
                .wrapping_mul(160)
                .wrapping_add(u32::MAX - 3000),
        );
        push(&mut tracker, time_ns, (40_000, 5004), &packet);
    }
    tracker.finish().rtp.remove(0)
}

fn evenly(count: u16) -> impl Iterator<Item = (u16, i64)> {
    (0..count).map(|number| (number, i64::from(number) * 20 * MS))
}

#[test]
fn speech_is_found_across_the_end_of_its_numbers_and_timestamps() {
    let Ok([stream]) = <[RtpStream; 1]>::try_from(speech(evenly(200), 0)) else {
        panic!("one stream")
    };
    assert_eq!((stream.source, stream.clock_hz), (SSRC, 8000.0));
    assert_eq!(
        (stream.received, stream.expected, stream.lost),
        (200, 200, 0)
    );
    assert!(stream.jitter_max_s < 1e-9, "{stream:?}");
    assert_eq!(stream.codec, Some("G.711 u-law"));
    assert!((stream.opinion_score.unwrap() - 4.41).abs() < 0.01);
}

#[test]
fn lost_doubled_and_late_packets_are_counted_once_each() {
    let mut came: Vec<(u16, i64)> = evenly(300)
        .filter(|(number, _)| !matches!(number, 50 | 51 | 90))
        .collect();
    let doubled = came[20];
    came.insert(22, doubled);
    came.swap(120, 121);
    let Ok([stream]) = <[RtpStream; 1]>::try_from(speech(came, 111)) else {
        panic!("one stream")
    };
    assert_eq!(
        (stream.expected, stream.received, stream.lost),
        (300, 297, 3)
    );
    assert_eq!((stream.duplicates, stream.reordered), (1, 1));
    assert_eq!(
        stream.opinion_score, None,
        "the codec of a dynamic type is unknown"
    );
}

#[test]
fn jitter_is_that_of_the_standard() {
    // every second packet 8 ms late: |D| is 8 ms each time, which J approaches by sixteenths
    let late = |number: u16| if number % 2 == 1 { 8 * MS } else { 0 };
    let came = evenly(400).map(|(number, time_ns)| (number, time_ns + late(number)));
    let Ok([stream]) = <[RtpStream; 1]>::try_from(speech(came, 8)) else {
        panic!("one stream")
    };
    assert!((stream.jitter_s - 8e-3).abs() < 1e-5, "{stream:?}");
    let after = |packets: i32| 8e-3 * (1.0 - (15.0f64 / 16.0).powi(packets));
    let mean = (1..400).map(after).sum::<f64>() / 399.0;
    assert!((stream.jitter_mean_s - mean).abs() < 1e-6, "{stream:?}");
}

#[test]
fn what_only_looks_like_it_is_no_stream() {
    let mut random = Random(88_172_645_463_325_252);
    let nothing = |packet: &mut dyn FnMut(u16) -> Vec<u8>| {
        let mut tracker = DatagramTracker::default();
        for number in 0..400u16 {
            push(
                &mut tracker,
                i64::from(number) * 20 * MS,
                (40_000, 5004),
                &packet(number),
            );
        }
        let found = tracker.finish();
        assert_eq!(found.judged(), (0, 0));
        found.rtp[0].is_empty()
    };
    // numbers that jump, as those of DNS do; constant timestamps; a rate of no media clock; version 1; random bytes
    assert!(nothing(&mut |number| rtp(
        0,
        number.wrapping_mul(40_503),
        u32::from(number) * 160
    )));
    assert!(nothing(&mut |number| rtp(96, number, 7)));
    assert!(nothing(&mut |number| rtp(
        96,
        number,
        u32::from(number) * 1_000_000
    )));
    assert!(nothing(&mut |number| rtp(
        0,
        number,
        u32::from(number) * 960
    )));
    assert!(nothing(&mut |number| {
        let mut packet = rtp(0, number, u32::from(number) * 160);
        packet[0] = 0x40;
        packet
    }));
    assert!(nothing(&mut |_| (0..40)
        .flat_map(|_| random.next().to_be_bytes())
        .collect()));
}

/// A QUIC connection of 4 s with a round trip of 40 ms: the client sends every 2 ms, the server every 3 ms. Each of
/// them sets the bit from the last one received.
fn quic(client: impl Fn(bool, u64) -> bool, server: impl Fn(bool, u64) -> bool) -> Datagrams {
    let mut tracker = DatagramTracker::default();
    let initial = [&[0xc3u8, 0, 0, 0, 1, 8][..], &[7; 40]].concat();
    push(&mut tracker, 0, (50_000, 443), &initial);
    let mut random = Random(362_436_069);
    // (time of arrival, value) in flight to the server and to the client, 20 ms each
    let mut under_way = [Vec::new(), Vec::new()];
    let mut got = [false; 2];
    for time_ms in 0..4000i64 {
        for end in 0..2 {
            let come = under_way[end].iter().rfind(|(at, _)| *at <= time_ms);
            got[end] = come.map_or(got[end], |(_, value)| *value);
            under_way[end].retain(|(at, _)| *at > time_ms);
        }
        for (end, every, ports) in [(0, 2, (50_000, 443)), (1, 3, (443, 50_000))] {
            if time_ms % every != 0 {
                continue;
            }
            let chance = random.next();
            let value = if end == 0 {
                client(got[0], chance)
            } else {
                server(got[1], chance)
            };
            under_way[1 - end].push((time_ms + 20, value));
            let first = 0x40 | if value { 0x20 } else { 0 } | (chance >> 40) as u8 & 0x1f;
            push(
                &mut tracker,
                time_ms * MS,
                ports,
                &[first, 1, 2, 3, 4, 5, 6, 7, 8, 9],
            );
        }
    }
    tracker.finish()
}

fn spins(found: &Datagrams) -> Vec<Spin> {
    found.spin.iter().flatten().copied().collect()
}

#[test]
fn a_bit_that_spins_measures_the_round_trip() {
    let found = quic(|got, _| !got, |got, _| got);
    let [one, two] = spins(&found)[..] else {
        panic!("both directions: {:?}", found.spin)
    };
    for spin in [one, two] {
        assert!((spin.rtt_median_s - 0.041).abs() < 0.004, "{spin:?}");
        assert!(spin.rtt_min_s > 0.036 && spin.round_trips > 80, "{spin:?}");
    }
    assert_eq!(found.judged(), found.totals());
}

#[test]
fn a_bit_that_is_random_or_fixed_at_either_end_measures_nothing() {
    let random = |_: bool, chance: u64| chance >> 20 & 1 == 1;
    assert_eq!(spins(&quic(random, random)), []);
    assert_eq!(spins(&quic(|got, _| !got, random)), []);
    assert_eq!(spins(&quic(random, |got, _| got)), []);
    assert_eq!(spins(&quic(|got, _| !got, |_, _| false)), []);
    assert_eq!(spins(&quic(|_, _| true, |got, _| got)), []);
}

#[test]
fn a_flood_of_ports_leaves_a_table_of_bounded_size_and_all_packets_counted() {
    let mut tracker = DatagramTracker::default();
    let flows = 3 * MOST_FLOWS;
    for number in 0..flows {
        let ports = (1024 + (number % 60_000) as u16, 53);
        push(
            &mut tracker,
            number as i64,
            ports,
            &(number as u64).to_be_bytes(),
        );
        assert!(tracker.flows.len() <= MOST_FLOWS);
        // a flow in use stays
        push(
            &mut tracker,
            number as i64,
            (65_000, 5004),
            &rtp(0, number as u16, 0),
        );
    }
    let found = tracker.finish();
    assert_eq!(found.totals().0, 2 * flows as u64);
    assert!(found.flows.iter().any(|flow| flow.packets == flows as u64));
    assert!(found.info().unwrap().flows.len() < 100);
}

#[test]
fn after_a_defect_nothing_is_known_but_the_defect() {
    let mut tracker = DatagramTracker::default();
    push(&mut tracker, 0, (40_000, 5_000), &[0; 100]);
    tracker.defect = contain(|| -> () { panic!("of a test") }).err();
    push(&mut tracker, MS, (40_000, 5_001), &[0; 100]);
    let datagrams = tracker.finish();
    assert!(datagrams.flows.is_empty());
    assert!(datagrams.defect.is_some());
}
