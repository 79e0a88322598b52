//! Floods of addresses and ports: memory stays limited, and discarded flows are counted.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use crate::reading::read_through;
use crate::testing::{Body, Journey, Passing, Path, Scene, Transfer, Wire, opened, read_files};
use crate::{Crossing, PairOptions, PairPacket};

const US: i64 = 1000;
const TTL: u8 = 60;

/// Datagrams of this many sources, one each, during the transfer and after it.
fn flood(flows: u32, crosses: impl Fn(u32) -> bool) -> Vec<Journey> {
    let passing = |number: u32, time_ns: i64, ttl: u8| Passing {
        time_ns,
        order_ns: time_ns,
        wire: Wire {
            source: (IpAddr::V4(Ipv4Addr::from(0xac10_0000 + number)), 1234),
            destination: (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), 443),
            ttl,
            tos: 0,
            identification: number as u16 | 1,
            body: Body::Udp(number.wrapping_mul(0x9e37_79b1).to_le_bytes().repeat(8)),
        },
    };
    (0..flows)
        .map(|number| {
            let time_ns = Transfer::default().start_ns + i64::from(number) * 200 * US;
            let crosses = crosses(number);
            Journey {
                seen: [
                    Some(passing(number, time_ns, TTL)),
                    crosses.then(|| passing(number, time_ns + 2500 * US, TTL - 1)),
                ],
                crossing: if crosses {
                    Crossing::Matched
                } else {
                    Crossing::Lost
                },
            }
        })
        .collect()
}

fn flooded(mut scene: Scene, flood: Vec<Journey>) -> Scene {
    scene.journeys.extend(flood);
    scene
}

fn transfer() -> Scene {
    let path = Path {
        lost: [0.05, 0.0],
        ..Path::default()
    };
    path.carry(&[Transfer::default()])
}

fn few(most_small_flows: usize, most_pending: usize) -> PairOptions<'static> {
    PairOptions {
        most_small_flows,
        most_pending,
        ..PairOptions::default()
    }
}

#[test]
fn the_rest_is_matched_as_without_the_flood() {
    const FLOOD: u32 = 6000;
    let scene = flooded(transfer(), flood(FLOOD, |_| true));
    let pair = scene.read_with(few(100, 1 << 20)).unwrap();
    let alone = transfer().read().unwrap();
    let left_out = pair.counts.left_out;
    assert_eq!(
        (left_out.flows, left_out.unmatched),
        (left_out.matched, [0, 0])
    );
    let kept = u64::from(FLOOD) - left_out.flows;
    assert!((90..400).contains(&kept), "{left_out:?}");
    assert_eq!(pair.flows.len() as u64, alone.flows.len() as u64 + kept);
    assert_eq!(pair.counts.lost, alone.counts.lost);
    assert_eq!(pair.counts.matched, alone.counts.matched + kept);
    // row by row, except for the numbers of packets in files with a flood
    let row = |packet: &PairPacket| {
        (
            packet.time_ns,
            packet.sequence,
            packet.crossing,
            packet.flags.0,
        )
    };
    let transfers = pair.packets.iter().filter(|packet| packet.ttl[0] != TTL);
    assert!(transfers.map(row).eq(alone.packets.iter().map(row)));
}

#[test]
fn a_flood_needs_no_more_memory_however_long_it_is() {
    // some pass both points, some only the first one
    let memory = |flows: u32| {
        let (files, _) = flooded(transfer(), flood(flows, |number| number % 3 > 0)).files();
        let matcher = read_through(opened(files), few(100, 200)).unwrap().matcher;
        let numbers = [0, 1].map(|side| matcher.flows.all(side).len());
        (
            numbers[0].max(numbers[1]),
            matcher.rows.len(),
            matcher.left_out(),
        )
    };
    let (flows, rows, _) = memory(4_000);
    let (flows_of_more, rows_of_more, left_out) = memory(16_000);
    assert!(
        flows_of_more < 2 * flows.max(400),
        "{flows} {flows_of_more}"
    );
    // the transfer's own rows are about a thousand
    assert!(rows_of_more < 2 * rows.max(2000), "{rows} {rows_of_more}");
    assert!(left_out.flows > 15_000, "{left_out:?}");
    assert!(
        left_out.matched > 9_000 && left_out.unmatched[0] > 4_500,
        "{left_out:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_in_a_row_or_counted_as_left_out(
        most_small_flows in 0..30usize,
        most_pending in 1..300usize,
        count in 1..12u16,
        segments in 1..12u32,
        reused: bool,
        lost in 0.0..0.4f64,
        missed in 0.0..0.4f64,
        seed: u64,
    ) {
        let transfers: Vec<Transfer> = (0..count)
            .map(|number| Transfer {
                client: (Transfer::default().client.0, 40_000 + if reused { number % 3 } else { number }),
                first_sequence: u32::from(number).wrapping_mul(0x9e37_79b1),
                segments,
                start_ns: Transfer::default().start_ns + i64::from(number) * 33_333_333,
                ..Transfer::default()
            })
            .collect();
        let path = Path { lost: [lost, lost], missed: [missed, missed], seed: seed | 1, ..Path::default() };
        let scene = flooded(path.carry(&transfers), flood(200, |number| number % 3 > 0));
        let (files, orders) = scene.files();
        let Ok(pair) = read_files(files, few(most_small_flows, most_pending)) else {
            return Ok(());
        };
        let left_out = pair.counts.left_out;
        for (side, order) in orders.iter().enumerate() {
            let rows = pair.packets.iter().filter(|packet| packet.is_at(side)).count() as u64;
            let copies = pair.summaries[side].duplicates;
            prop_assert_eq!(
                rows + left_out.matched + left_out.unmatched[side] + copies,
                order.len() as u64
            );
        }
        for flow in &pair.flows {
            prop_assert!(flow.reverse.is_none_or(|reverse| (reverse as usize) < pair.flows.len()));
            prop_assert!(flow.packets != [0, 0]);
        }
    }
}
