//! Random paths: the crossing of every packet is its true fate.

use proptest::prelude::*;

use crate::testing::{Path, Transfer};

fn transfers(count: u16, timestamps: bool, numbered: bool) -> Vec<Transfer> {
    (0..count)
        .map(|number| Transfer {
            client: (Transfer::default().client.0, 40_000 + number),
            first_sequence: u32::from(number).wrapping_mul(0x9e37_79b1),
            segments: 120,
            start_ns: Transfer::default().start_ns + i64::from(number) * 3_333_333,
            timestamps,
            numbered,
            ..Transfer::default()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn loss_and_reordering_are_determined_for_each_packet(
        lost in 0.0..0.3f64,
        lost_back in 0.0..0.1f64,
        lost_beyond in 0.0..0.05f64,
        reordered in 0.0..0.05f64,
        jitter_us in 0..800i64,
        transit_us in (1..20_000i64, 1..20_000i64),
        offset_ms in -4_000_000..4_000_000i64,
        count in 1..6u16,
        timestamps: bool,
        seed: u64,
    ) {
        let path = Path {
            lost: [lost, lost_back],
            lost_beyond,
            reordered,
            jitter_ns: jitter_us * 1000,
            transit_ns: [transit_us.0 * 1000, transit_us.1 * 1000],
            seed: seed | 1,
            ..Path::default()
        };
        let scene = path
            .carry(&transfers(count, timestamps, true))
            .at(1, |passing| passing.time_ns += offset_ms * 1_000_000);
        let pair = scene.read().unwrap();
        let wrong = scene.wrong(&pair);
        prop_assert!(wrong.is_empty(), "{:#?}", &wrong[..wrong.len().min(5)]);
        prop_assert!(pair.flows.iter().all(|flow| flow.sequence_added == 0));
    }

    #[test]
    fn data_missing_from_a_capture_is_not_counted_as_lost(
        missed in (0.0..0.4f64, 0.0..0.4f64),
        seed: u64,
    ) {
        let path = Path { missed: [missed.0, missed.1], seed: seed | 1, ..Path::default() };
        let scene = path.carry(&transfers(3, true, true));
        let pair = scene.read().unwrap();
        prop_assert_eq!(pair.counts.lost[0], 0, "{:?}", pair.counts);
        // acknowledgments are judged only by counting, which fails by chance once in some thousand cases
        prop_assert!(pair.counts.lost[1] <= 25 + pair.counts.missed[0] / 3, "{:?}", pair.counts);
        let packets: u64 = pair.flows.iter().map(|flow| flow.crossings.iter().sum::<u64>()).sum();
        prop_assert_eq!(packets as usize, pair.packets.len());
    }

    #[test]
    fn files_of_any_bytes_are_read_to_their_ends(
        bytes in (proptest::collection::vec(any::<u8>(), 0..3000), proptest::collection::vec(any::<u8>(), 0..3000)),
        flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..60),
        most_pending in 0..50usize,
    ) {
        let path = Path { lost: [0.1, 0.0], ..Path::default() };
        let (mut files, _) = path.carry(&transfers(2, true, true)).files();
        files[0].extend(bytes.0);
        files[1].extend(bytes.1);
        for (at, value) in flips {
            let file = &mut files[at % 2];
            let length = file.len();
            // past the magic number
            file[24 + at / 2 % (length - 24)] = value;
        }
        let options = crate::PairOptions { most_pending, ..crate::PairOptions::default() };
        if let Ok(pair) = crate::testing::read_files(files, options) {
            let packets: u64 = pair.flows.iter().map(|flow| flow.crossings.iter().sum::<u64>()).sum();
            prop_assert_eq!(packets as usize, pair.packets.len());
        }
    }
}
