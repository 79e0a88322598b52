//! Tests of the ledger in small simulated worlds with known outcomes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const MS: i64 = 1_000_000;
const TIMEOUT_NS: i64 = 100 * MS;
const EVERY_NS: i64 = 10 * MS;
/// The round-trip time of answers without extra delay.
const RTT_NS: i64 = 3 * MS;

/// The far end: computes a responder's answers.
#[derive(Default)]
struct Far {
    arrived: BTreeSet<u64>,
}

impl Far {
    fn answers(&mut self, sequence: u64, at_ns: i64) -> FarStamps {
        self.arrived.insert(sequence);
        let window = (0..64)
            .filter(|behind| {
                sequence
                    .checked_sub(*behind)
                    .is_some_and(|before| self.arrived.contains(&before))
            })
            .fold(0, |window, behind| window | 1 << behind);
        FarStamps {
            received_ns: at_ns,
            turnaround_ns: 1000,
            arrived: self.arrived.len() as u32,
            window,
        }
    }

    fn ranges(&self) -> Vec<(u64, u64)> {
        // As single numbers in descending order: a far end may report them in any form.
        self.arrived
            .iter()
            .rev()
            .map(|&sequence| (sequence, sequence))
            .collect()
    }
}

/// The events of one probe.
#[derive(Clone, Copy, Debug)]
enum ProbeOutcome {
    LostUp,
    LostDown,
    /// Answered one or more times, after this many milliseconds.
    Answered(i64, u32),
    NotSent,
}

fn outcome() -> impl Strategy<Value = ProbeOutcome> {
    prop_oneof![
        2 => Just(ProbeOutcome::LostUp),
        2 => Just(ProbeOutcome::LostDown),
        5 => (0_i64..8, 1_u32..3).prop_map(|(delay_ms, times)| ProbeOutcome::Answered(delay_ms, times)),
        1 => (0_i64..150, 1_u32..2).prop_map(|(delay_ms, times)| ProbeOutcome::Answered(delay_ms, times)),
        1 => Just(ProbeOutcome::NotSent),
    ]
}

/// Outcomes in runs, as outages produce them.
fn outcomes() -> impl Strategy<Value = Vec<ProbeOutcome>> {
    let run = (outcome(), prop_oneof![9 => 1_usize..4, 1 => 60_usize..150]);
    proptest::collection::vec(run, 1..40).prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(outcome, length)| std::iter::repeat_n(outcome, length))
            .collect()
    })
}

fn expected(outcome: ProbeOutcome) -> Fate {
    match outcome {
        ProbeOutcome::LostUp => Fate::LostUp,
        ProbeOutcome::LostDown => Fate::LostDown,
        ProbeOutcome::NotSent => Fate::NotSent,
        ProbeOutcome::Answered(delay_ms, _) if RTT_NS + delay_ms * MS > TIMEOUT_NS => Fate::Late,
        ProbeOutcome::Answered(..) => Fate::Ok,
    }
}

/// Runs a world in order of time; returns its rows, and the number of rows before the end.
fn run(outcomes: &[ProbeOutcome], far_is_asked: bool) -> (Vec<Probe>, usize) {
    let mut ledger = Ledger::new(1, 64, TIMEOUT_NS, true);
    let mut far = Far::default();
    let mut answers: BTreeMap<(i64, u64, u32), FarStamps> = BTreeMap::new();
    let mut rows = Vec::new();
    let end_ns = outcomes.len() as i64 * EVERY_NS + 10_000 * MS;
    let mut sequence = 0;
    let mut now_ns = 0;
    while now_ns < end_ns {
        if let Some(&outcome) = outcomes.get(sequence as usize)
            && sequence as i64 * EVERY_NS <= now_ns
        {
            ledger.due(now_ns, Some(now_ns));
            match outcome {
                ProbeOutcome::NotSent => ledger.unsent(sequence),
                ProbeOutcome::LostUp => {}
                ProbeOutcome::LostDown => {
                    far.answers(sequence, now_ns);
                }
                ProbeOutcome::Answered(delay_ms, times) => {
                    let stamps = far.answers(sequence, now_ns);
                    for copy in 0..times {
                        let arrives_ns = now_ns + RTT_NS + delay_ms * MS + 1000 + i64::from(copy);
                        answers.insert((arrives_ns, sequence, copy), stamps);
                    }
                }
            }
            sequence += 1;
        }
        while let Some((&(received_ns, sequence, _), _)) = answers.first_key_value()
            && received_ns <= now_ns
        {
            let (_, stamps) = answers.pop_first().unwrap();
            ledger.answered(Answered {
                sequence,
                received_ns,
                far: Some(stamps),
            });
        }
        ledger.settle(now_ns, &mut rows);
        now_ns += EVERY_NS / 2;
    }
    let early = rows.len();
    let arrivals = far_is_asked.then(|| far.ranges());
    assert!(
        ledger.strays() == Strays::default(),
        "{:?}",
        ledger.strays()
    );
    ledger.finish(arrivals.as_deref(), &mut rows);
    rows.sort_by_key(|row| row.sequence);
    (rows, early)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_probe_gets_one_row_with_its_true_fate(outcomes in outcomes()) {
        let (rows, _) = run(&outcomes, true);
        prop_assert_eq!(rows.len(), outcomes.len());
        for (row, &outcome) in rows.iter().zip(&outcomes) {
            prop_assert_eq!(row.fate, expected(outcome), "probe {}", row.sequence);
            if let ProbeOutcome::Answered(delay_ms, times) = outcome {
                prop_assert_eq!(row.duplicates, times - 1);
                let turnaround_ns = row.far_sent_ns.unwrap() - row.far_received_ns.unwrap();
                let rtt_ns = row.rtt_ns.unwrap();
                prop_assert!((rtt_ns - (RTT_NS + delay_ms * MS)).abs() < 1000);
                prop_assert_eq!(row.received_ns.unwrap() - row.sent_ns.unwrap(), rtt_ns + turnaround_ns);
            } else {
                prop_assert_eq!((row.rtt_ns, row.received_ns, row.duplicates), (None, None, 0));
            }
            prop_assert_eq!(row.sent_ns.is_none(), matches!(outcome, ProbeOutcome::NotSent));
        }
    }

    #[test]
    fn a_far_end_that_is_gone_makes_fates_unknown_but_never_wrong(outcomes in outcomes()) {
        let (rows, _) = run(&outcomes, false);
        prop_assert_eq!(rows.len(), outcomes.len());
        for (row, &outcome) in rows.iter().zip(&outcomes) {
            prop_assert!(row.fate == Fate::Lost || row.fate == expected(outcome), "probe {}", row.sequence);
        }
    }

    #[test]
    fn answers_in_any_order_to_anything_break_no_rule(
        answers in proptest::collection::vec((0_u64..80, -5_i64..3000, any::<u64>(), any::<u32>()), 0..200),
        ranges in proptest::collection::vec(any::<(u64, u64)>(), 0..10),
    ) {
        let mut ledger = Ledger::new(1, 64, TIMEOUT_NS, true);
        let mut rows = Vec::new();
        for (number, (sequence, at_ms, window, arrived)) in answers.iter().enumerate() {
            if number % 2 == 0 {
                ledger.due(number as i64 * MS, Some(number as i64 * MS));
            }
            ledger.answered(Answered {
                sequence: *sequence,
                received_ns: at_ms * MS,
                far: Some(FarStamps { received_ns: i64::MAX, turnaround_ns: *at_ms, arrived: *arrived, window: *window }),
            });
            ledger.settle(at_ms * MS, &mut rows);
        }
        ledger.finish(Some(&ranges), &mut rows);
        let sequences: BTreeSet<u64> = rows.iter().map(|row| row.sequence).collect();
        prop_assert_eq!(sequences.len(), rows.len());
        prop_assert_eq!(rows.len(), answers.len().div_ceil(2));
    }
}

#[test]
fn of_an_answer_with_impossible_times_only_its_arrival_is_believed() {
    let far = |received_ns, turnaround_ns| FarStamps {
        received_ns,
        turnaround_ns,
        arrived: 1,
        window: 1,
    };
    for (stamps, is_believed) in [
        (far(MS, 2 * MS), true),
        (far(MS, 20 * MS), false),
        (far(MS, i64::MAX), false),
        (far(-1, 0), false),
        (far(i64::MIN, 0), false),
        (far(i64::MAX, 0), false),
    ] {
        let mut ledger = Ledger::new(1, 64, TIMEOUT_NS, true);
        ledger.due(0, Some(0));
        let answer = ledger.checked(Answered {
            sequence: 0,
            received_ns: RTT_NS,
            far: Some(stamps),
        });
        assert_eq!(answer.far.is_some(), is_believed);
        let rtt_ns = if is_believed { MS } else { RTT_NS };
        assert_eq!(ledger.answered(answer), Some(rtt_ns));
        assert_eq!(ledger.strays().impossible, u64::from(!is_believed));
    }
}

#[test]
fn rows_are_given_while_the_test_runs() {
    let mut outcomes = vec![ProbeOutcome::Answered(0, 1); 300];
    outcomes[20] = ProbeOutcome::LostUp;
    outcomes[40] = ProbeOutcome::LostDown;
    // An outage that the windows cannot bridge, but the count of arrivals can.
    outcomes[60..160].fill(ProbeOutcome::LostUp);
    let (rows, early) = run(&outcomes, false);
    assert_eq!((rows.len(), early), (300, 300));
    assert!(rows.iter().all(|row| row.fate != Fate::Lost));
}

#[test]
fn without_reports_of_arrivals_an_unanswered_probe_is_lost_somewhere() {
    let mut ledger = Ledger::new(1, 56, TIMEOUT_NS, false);
    ledger.due(0, Some(0));
    ledger.due(MS, Some(MS));
    ledger.answered(Answered {
        sequence: 1,
        received_ns: 5 * MS,
        far: None,
    });
    let mut rows = Vec::new();
    ledger.settle(10_000 * MS, &mut rows);
    let fates: Vec<Fate> = rows.iter().map(|row| row.fate).collect();
    assert_eq!(fates, [Fate::Lost, Fate::Ok]);
    assert!(!ledger.has_questions());
}

#[test]
fn what_comes_after_its_row_was_given_is_counted_and_changes_nothing() {
    let mut ledger = Ledger::new(1, 64, TIMEOUT_NS, false);
    let answer = |sequence, received_ns| Answered {
        sequence,
        received_ns,
        far: None,
    };
    ledger.due(0, Some(0));
    ledger.due(MS, Some(MS));
    ledger.answered(answer(0, 2 * MS));
    let mut rows = Vec::new();
    ledger.settle(5_000 * MS, &mut rows);
    assert_eq!(rows.len(), 2);
    ledger.answered(answer(1, 5_001 * MS));
    ledger.answered(answer(7, 5_001 * MS));
    let strays = ledger.strays();
    assert_eq!((strays.given_up, strays.unknown), (1, 1));
    ledger.finish(None, &mut rows);
    assert_eq!(rows.len(), 2);
}
