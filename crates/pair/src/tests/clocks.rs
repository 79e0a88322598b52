//! Wrong clocks.

use crate::testing::{Path, Random, Scene, Transfer};
use crate::{Direction, PairOptions};

const S: i64 = 1_000_000_000;

fn scene() -> Scene {
    let path = Path {
        lost: [0.02, 0.0],
        ..Path::default()
    };
    path.carry(&[Transfer {
        segments: 3000,
        ..Transfer::default()
    }])
}

#[test]
fn clocks_an_hour_apart_do_not_matter() {
    for offset in [3600 * S, -3600 * S, 100 * 365 * 86_400 * S / 10] {
        let pair = scene().at(1, |passing| passing.time_ns += offset).check();
        assert_eq!(pair.flows[0].direction, Direction::FirstToSecond);
        let found = pair.clock.unwrap().intervals[0].offset_ns;
        assert!((found - offset as f64).abs() < 1e6, "{found} for {offset}");
    }
}

#[test]
fn a_clock_step_during_the_captures_does_not_matter() {
    let middle = Transfer::default().start_ns + S / 4;
    for (side, step) in [
        (1, 3600 * S),
        (1, -3600 * S),
        (0, 7 * S),
        (0, -7 * S),
        (1, S / 5),
    ] {
        let scene = scene().at(side, |passing| {
            if passing.order_ns > middle {
                passing.time_ns += step;
            }
        });
        let pair = scene.read().unwrap();
        let wrong = scene.wrong(&pair);
        assert!(wrong.is_empty(), "{side} {step}: {wrong:#?}");
        assert!(pair.clock.unwrap().intervals.len() > 1);
    }
}

#[test]
fn drift_of_hundreds_of_parts_per_million_does_not_hide_the_direction() {
    let start = Transfer::default().start_ns;
    for drift in [-400e-6, 400e-6] {
        // hop counts show nothing
        let pair = scene()
            .at(1, |passing| {
                let since = (passing.time_ns - start) as f64;
                passing.time_ns += (since * drift) as i64 - 5 * S;
                passing.wire.ttl = 63;
            })
            .at(0, |passing| passing.wire.ttl = 63)
            .check();
        assert_eq!(pair.flows[0].direction, Direction::FirstToSecond);
        assert_eq!(pair.flows[1].direction, Direction::SecondToFirst);
    }
}

#[test]
fn a_transit_of_microseconds_under_jittery_clocks_still_shows_the_direction() {
    let path = Path {
        transit_ns: [5_000, 5_000],
        jitter_ns: 2_000,
        ..Path::default()
    };
    let base = path.carry(&[Transfer::default()]);
    for swap in [false, true] {
        let mut random = Random(99);
        let mut scene = base.clone();
        for journey in &mut scene.journeys {
            for passing in journey.seen.iter_mut().flatten() {
                passing.time_ns += random.below(30_000) as i64;
                passing.wire.ttl = 63;
            }
        }
        let scene = if swap { scene.swapped() } else { scene };
        let pair = scene.read_with(PairOptions::default()).unwrap();
        let expected = match swap {
            false => Direction::FirstToSecond,
            true => Direction::SecondToFirst,
        };
        assert_eq!(pair.flows[0].direction, expected);
    }
}

#[test]
fn a_long_time_before_the_overlap_is_read_through() {
    // capture 1 has 300 000 packets of other connections before the common ones
    let early = Transfer {
        client: ("10.0.1.99".parse().unwrap(), 1234),
        start_ns: Transfer::default().start_ns - 100 * S,
        segments: 150_000,
        ..Transfer::default()
    };
    let mut scene = Path::default().carry(&[Transfer::default(), early]);
    for journey in &mut scene.journeys {
        let early = |p: &crate::testing::Passing| p.order_ns < Transfer::default().start_ns;
        if journey.seen[1].as_ref().is_some_and(early) {
            journey.seen[1] = None;
        }
    }
    let options = PairOptions {
        most_pending: 100_000,
        ..PairOptions::default()
    };
    let pair = scene.read_with(options).unwrap();
    assert_eq!(pair.counts.matched, 1006);
    assert_eq!(pair.counts.lost, [0, 0], "{:?}", pair.counts);
}
