use super::*;
use crate::fit::passage::Passage;
use crate::fit::trace::Seen;
use crate::{Arrival, CoDel, DualPi2, Limit, Outcome, PathElement, Pie, Random, Red, replay};

const RATE_BPS: u64 = 12_000_000;

/// Full packets at a rate that swings by some per cent around that of the link, like a sender's sawtooth.
fn sawing(seconds: f64) -> Vec<Arrival> {
    let mut random = Random::new(5);
    let mut now_s = 0.0;
    let mut arrivals = Vec::new();
    while now_s < seconds {
        arrivals.push(Arrival {
            time_ns: (now_s * 1e9) as i64,
            bytes: 1_500,
        });
        let share = 0.88 + 0.3 * (now_s / 2.1).fract();
        now_s += 0.001 / share * random.uniform(0.8, 1.2);
    }
    arrivals
}

fn through(element: impl PathElement) -> Passages {
    through_for(40.0, element)
}

fn through_for(seconds: f64, element: impl PathElement) -> Passages {
    passages(element, &sawing(seconds))
}

fn passages(mut element: impl PathElement, arrivals: &[Arrival]) -> Passages {
    let outcomes = replay(&mut element, arrivals);
    let passage = |(arrival, outcome): (&Arrival, &Outcome)| Passage {
        arrival_ns: arrival.time_ns,
        bytes: arrival.bytes,
        outcome: if outcome.is_dropped() {
            Seen::Lost
        } else {
            Seen::Passed
        },
        transit_ns: outcome
            .departure_ns()
            .map(|departure_ns| departure_ns - arrival.time_ns),
        flow: 0,
        marked: matches!(outcome, Outcome::Marked { .. }),
    };
    Passages::new(arrivals.iter().zip(&outcomes).map(passage).collect())
}

const SEEING: Seeing = Seeing {
    rate_bps: RATE_BPS as f64,
    noise_s: 1e-6,
    isolated: false,
    by_acknowledgments: false,
};

fn fitted(element: impl PathElement) -> Management {
    fit_management(&through(element), SEEING).expect("enough is dropped")
}

#[test]
fn codel_is_identified_with_its_target_and_interval() {
    for (target_ms, interval_ms) in [(5, 100), (10, 60), (8, 120), (17, 180), (35, 140)] {
        let element = CoDel::new(RATE_BPS, Limit::NONE);
        let found = fitted(element.with_target(target_ms * 1_000_000, interval_ms * 1_000_000));
        let best = found.laws[0];
        assert_eq!(best.law, Law::CoDel, "{found:?}");
        assert!(
            found.lead_nats() > 20.0 && found.margin_nats() > 20.0,
            "{found:?}"
        );
        let near =
            |value: f64, truth_ms: i64| (value / (truth_ms as f64 * 1e-3) - 1.0).abs() < 0.25;
        assert!(near(best.target_s.value, target_ms), "{best:?}");
        let truth_s = target_ms as f64 * 1e-3;
        assert!(best.target_s.low.unwrap() <= truth_s && truth_s <= best.target_s.high.unwrap());
        assert!(
            near(best.interval_s.unwrap().value, interval_ms),
            "{best:?}"
        );
    }
}

#[test]
fn parameters_between_those_that_are_tried_first_are_found() {
    for (seconds, target_ms, interval_ms) in [(4.0, 23, 140), (6.0, 23, 140), (5.0, 35, 180)] {
        let element = CoDel::new(RATE_BPS, Limit::NONE)
            .with_target(target_ms * 1_000_000, interval_ms * 1_000_000);
        let mut passages = through_for(seconds, element);
        let mut random = Random::new(8);
        for wait_s in &mut passages.wait_s {
            *wait_s += random.uniform(0.0, 2e-4);
        }
        let seeing = Seeing {
            noise_s: 1e-4,
            ..SEEING
        };
        let found = fit_management(&passages, seeing).expect("enough is dropped");
        let best = found.laws[0];
        assert_eq!(best.law, Law::CoDel, "{found:?}");
        let near = |value: f64, truth_ms: i64| (value * 1e3 / truth_ms as f64 - 1.0).abs() < 0.04;
        assert!(near(best.target_s.value, target_ms), "{best:?}");
        assert!(
            near(best.interval_s.unwrap().value, interval_ms),
            "{best:?}"
        );
    }
}

#[test]
fn marks_identify_the_law_like_drops() {
    struct Capable(CoDel);
    impl PathElement for Capable {
        fn arrive(&mut self, packet: Arrival) -> Outcome {
            let header = crate::Header {
                ecn: crate::Ecn::Ect0,
                ..crate::Header::default()
            };
            self.0.arrive_with(packet, header)
        }
        fn reset(&mut self) {
            self.0.reset();
        }
        fn next_event_ns(&self) -> Option<i64> {
            self.0.next_event_ns()
        }
        fn poll(&mut self, now_ns: i64, decided: &mut Vec<crate::Decision>) {
            self.0.poll(now_ns, decided);
        }
        fn decides_at_arrival(&self) -> bool {
            false
        }
    }
    let found = fitted(Capable(CoDel::new(RATE_BPS, Limit::NONE).marking()));
    assert_eq!(found.laws[0].law, Law::CoDel, "{found:?}");
}

#[test]
fn unknown_outcomes_follow_the_law() {
    // as echoes of marks hide those of the next 80 ms
    let element = CoDel::new(RATE_BPS, Limit::NONE).with_target(10_000_000, 60_000_000);
    let mut passages = through(element);
    let mut heard_from_s = f64::MIN;
    for index in 0..passages.len() {
        let lost = passages.outcome[index] == Seen::Lost;
        if passages.arrival_s[index] < heard_from_s {
            passages.outcome[index] = Seen::Unknown;
        } else if lost {
            heard_from_s = passages.arrival_s[index] + 0.08;
        }
    }
    let best = fit_management(&passages, SEEING).unwrap().laws[0];
    assert_eq!(best.law, Law::CoDel);
    assert!(
        (best.interval_s.unwrap().value / 0.06 - 1.0).abs() < 0.1,
        "{best:?}"
    );
}

#[test]
fn queues_with_random_drops_are_identified_by_the_input_of_the_probability() {
    assert_eq!(
        fitted(Pie::new(RATE_BPS, Limit::NONE, 3)).laws[0].law,
        Law::Pie
    );
    assert_eq!(
        fitted(DualPi2::new(RATE_BPS, 10_000, 3)).laws[0].law,
        Law::DualPi2
    );
    let red = Red::new(RATE_BPS, Limit::NONE, 10.0, 30.0, 0.1, 3).gentle();
    let found = fitted(red);
    assert_eq!(found.laws[0].law, Law::Red, "{found:?}");
}

/// PIE on a link so slow that often only two packets are queued: with their headers of 14 bytes, they have more
/// than 3000 bytes.
fn slow_pie(seed: u64) -> Management {
    const SLOWER: i64 = 5;
    let mut arrivals = sawing(40.0);
    for arrival in &mut arrivals {
        arrival.time_ns *= SLOWER;
    }
    let rate_bps = RATE_BPS / SLOWER as u64;
    let pie = Pie::new(rate_bps, Limit::NONE, seed).with_overhead(14);
    let seeing = Seeing {
        rate_bps: rate_bps as f64 * 1_500.0 / 1_514.0,
        ..SEEING
    };
    fit_management(&passages(pie, &arrivals), seeing).unwrap()
}

#[test]
fn pie_may_drop_where_two_packets_are_more_than_two_average_ones() {
    let found = slow_pie(3);
    assert_eq!(found.laws[0].law, Law::Pie, "{found:?}");
    assert!(found.lead_nats() > 20.0, "{found:?}");
}

#[test]
fn the_interval_of_pie_s_target_holds_it_whatever_the_chances() {
    for seed in 1..=4 {
        let fit = slow_pie(seed).laws[0];
        assert_eq!(fit.law, Law::Pie);
        // The RFC's default.
        let target_s = 0.015;
        let (low_s, high_s) = (fit.target_s.low.unwrap(), fit.target_s.high.unwrap());
        assert!(low_s <= target_s && target_s <= high_s, "{fit:?}");
    }
}

#[test]
fn a_full_queue_follows_no_law() {
    let found = fitted(crate::Fifo::new(RATE_BPS, Limit::packets(40)));
    assert!(found.margin_nats() < 0.0, "{found:?}");
}

/// As from acknowledgments: every other packet is answered late, by up to this many seconds.
fn seen_late(passages: &mut Passages, most_s: f64) {
    let mut random = Random::new(8);
    for wait_s in passages.wait_s.iter_mut().step_by(2) {
        *wait_s += random.uniform(0.0, most_s);
    }
}

const SEEING_LATE: Seeing = Seeing {
    noise_s: 0.5e-3,
    by_acknowledgments: true,
    ..SEEING
};

#[test]
fn late_acknowledgments_are_corrected_by_later_ones() {
    let seen_by = |most_s, by_acknowledgments| {
        let mut passages = through(Pie::new(RATE_BPS, Limit::NONE, 3));
        seen_late(&mut passages, most_s);
        let seeing = Seeing {
            by_acknowledgments,
            ..SEEING_LATE
        };
        fit_management(&passages, seeing).unwrap()
    };
    let (with, without) = (seen_by(0.02, true), seen_by(0.02, false));
    assert_eq!(with.laws[0].law, Law::Pie, "{with:?}");
    assert!(
        with.lead_nats() > without.lead_nats() + 10.0,
        "{with:?} {without:?}"
    );
    // So late that without the correction another law would be named.
    let (with, without) = (seen_by(0.04, true), seen_by(0.04, false));
    assert_eq!(with.laws[0].law, Law::Pie, "{with:?}");
    assert_ne!(without.laws[0].law, Law::Pie, "{without:?}");
}

#[test]
fn a_full_queue_observed_from_a_distance_follows_no_law() {
    for limit_packets in [40, 400] {
        let mut passages = through(crate::Fifo::new(RATE_BPS, Limit::packets(limit_packets)));
        seen_late(&mut passages, 0.1);
        let found = fit_management(&passages, SEEING_LATE).expect("enough is dropped");
        assert!(found.margin_nats() < -10.0, "{found:?}");
    }
}

#[test]
fn red_is_identified_above_its_upper_threshold() {
    // steady overload: the average stays near the threshold above which every packet is dropped
    let red = Red::new(RATE_BPS, Limit::NONE, 5.0, 8.0, 0.02, 3);
    let found = fitted(red);
    assert_eq!(found.laws[0].law, Law::Red, "{found:?}");
    assert!(found.lead_nats() > 20.0, "{found:?}");
}
