//! Rows and lines preserve the relevant parts of a trace.

use proptest::prelude::*;

use super::rows::Rows;
use super::trace::{Seen, Trace, TracePacket};

fn observations() -> impl Strategy<Value = Vec<TracePacket>> {
    let gap_ns = prop_oneof![2 => Just(0i64), 4 => 0..200_000i64, 1 => 0..50_000_000i64];
    let outcome =
        prop_oneof![12 => Just(Seen::Passed), 2 => Just(Seen::Lost), 1 => Just(Seen::Unknown)];
    let delay_s = prop::option::of(0.0f32..0.5);
    prop::collection::vec((gap_ns, 40u32..9_000, outcome, delay_s), 1..400).prop_map(|packets| {
        let mut time_ns = 1_700_000_000_000_000_000;
        let observe = |(gap_ns, bytes, outcome, delay_s)| {
            time_ns += gap_ns;
            TracePacket {
                time_ns,
                bytes,
                outcome,
                delay_s,
            }
        };
        packets.into_iter().map(observe).collect()
    })
}

proptest! {
    #[test]
    fn condensing_conserves_bytes_packets_time_and_losses(observations in observations(), most in 1u16..40) {
        let trace = Trace::new(observations);
        let rows = Rows::condense(&trace, 0, trace.len(), most);
        let packets: usize = rows.rows.iter().map(|row| usize::from(row.packets)).sum();
        let bytes: f64 = rows.rows.iter().map(|row| row.bytes).sum();
        let time_s: f64 = rows.rows.iter().map(|row| row.gap_s + row.span_s).sum();
        prop_assert_eq!(packets, trace.len());
        prop_assert_eq!(bytes, trace.bytes.iter().map(|bytes| f64::from(*bytes)).sum::<f64>());
        prop_assert!((time_s - trace.duration_s()).abs() < 1e-6 * trace.duration_s().max(1e-3));
        prop_assert_eq!((rows.lost, rows.passed, rows.passed_bytes), (trace.lost, trace.passed, trace.passed_bytes));
        let single_losses = rows.rows.iter().filter(|row| row.outcome == Seen::Lost && row.packets == 1).count();
        prop_assert_eq!(single_losses, trace.lost);
        prop_assert!(rows.rows.iter().all(|row| row.packets <= most && row.last_bytes <= row.bytes));
    }

    #[test]
    fn a_window_of_losses_has_the_requested_number_of_runs(observations in observations(), runs in 1usize..12) {
        let trace = Trace::new(observations);
        let (from, to) = Rows::window(&trace, runs);
        prop_assert!(from <= to && to <= trace.len());
        let inside = Trace { outcome: trace.outcome[from..to].to_vec(), ..Trace::default() };
        prop_assert!(inside.loss_runs() >= runs.min(trace.loss_runs()));
    }

    #[test]
    fn a_line_keeps_the_order_and_its_rate(observations in observations(), line_bps in 1e5f64..1e10) {
        let trace = Trace::new(observations);
        let through = trace.through_line(line_bps);
        let service_s = |index: usize| f64::from(trace.bytes[index]) * 8.0 / line_bps;
        // a double of some hundred seconds is precise to a tenth of a picosecond
        let rounding_s = 1e-12 * (1.0 + through.duration_s());
        for index in 0..trace.len() {
            let leaves_s = through.time_s[index];
            prop_assert!(leaves_s >= trace.time_s[index] + service_s(index) - rounding_s);
            if index > 0 {
                let before_s = through.time_s[index - 1];
                prop_assert!(leaves_s >= before_s + service_s(index) - rounding_s);
                let idle = trace.time_s[index] >= before_s;
                let expected_s = if idle { trace.time_s[index] } else { before_s } + service_s(index);
                prop_assert!((leaves_s - expected_s).abs() < rounding_s, "never idle while a packet waits");
            }
        }
        prop_assert_eq!(through.bytes, trace.bytes);
        prop_assert_eq!(through.outcome, trace.outcome);
        let delays: Vec<f32> = through.delay_s.iter().copied().filter(|delay| !delay.is_nan()).collect();
        prop_assert_eq!(delays.len(), trace.delay_s.iter().filter(|delay| !delay.is_nan()).count());
        prop_assert!(delays.iter().all(|delay| *delay >= 0.0) && (delays.is_empty() || delays.contains(&0.0)));
    }
}

#[test]
fn losses_one_after_the_other_are_one_run() {
    let observe = |(index, lost): (usize, &bool)| TracePacket {
        time_ns: index as i64,
        bytes: 100,
        outcome: if *lost { Seen::Lost } else { Seen::Passed },
        delay_s: None,
    };
    let runs =
        |fates: &[bool]| Trace::new(fates.iter().enumerate().map(observe).collect()).loss_runs();
    assert_eq!(runs(&[]), 0);
    assert_eq!(runs(&[true, true, false, true, false, false]), 2);
    assert_eq!(runs(&[false, true, true, true]), 1);
}
