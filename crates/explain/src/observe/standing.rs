//! Standing queues: packets wait for long, one after the other, and none is dropped.

use whydrop_path::fit::{Seen, Trace};

/// The longest time in seconds without losses in which all packets with a known delay waited for longer than
/// `wait_s`.
pub fn stood_s(trace: &Trace, wait_s: f64) -> f64 {
    let (mut longest_s, mut since_s) = (0.0_f64, None);
    let packets = trace.time_s.iter().zip(&trace.delay_s).zip(&trace.outcome);
    for ((&time_s, &delay_s), &outcome) in packets {
        if outcome == Seen::Lost || f64::from(delay_s) <= wait_s {
            since_s = None;
        } else if !delay_s.is_nan() {
            let from_s: f64 = *since_s.get_or_insert(time_s);
            longest_s = longest_s.max(time_s - from_s);
        }
    }
    longest_s
}

#[cfg(test)]
mod tests {
    use whydrop_path::fit::TracePacket;

    use super::*;

    /// A packet every 10 ms, each with its delay; `None` for one that was lost.
    fn trace(delays_s: impl Iterator<Item = Option<f32>>) -> Trace {
        let observations = delays_s.enumerate().map(|(number, delay_s)| TracePacket {
            time_ns: number as i64 * 10_000_000,
            bytes: 1_500,
            outcome: delay_s.map_or(Seen::Lost, |_| Seen::Passed),
            delay_s,
        });
        Trace::new(observations.collect())
    }

    fn stood(delays_s: impl Fn(usize) -> Option<f32>) -> f64 {
        stood_s(&trace((0..400).map(delays_s)), 0.3)
    }

    #[test]
    fn a_standing_queue_lasts_from_the_first_long_delay_to_the_last() {
        let stood_s = stood(|number| Some(if number < 100 { 0.1 } else { 0.5 }));
        assert!((stood_s - 2.99).abs() < 1e-9, "{stood_s}");
    }

    #[test]
    fn a_loss_or_a_short_wait_ends_it() {
        let with_losses = stood(|number| (number % 50 != 0).then_some(0.5));
        assert!((with_losses - 0.48).abs() < 1e-9, "{with_losses}");
        let drained = stood(|number| Some(if number % 50 == 0 { 0.1 } else { 0.5 }));
        assert!((drained - 0.48).abs() < 1e-9, "{drained}");
    }

    #[test]
    fn a_packet_of_unknown_fate_neither_ends_nor_begins_it() {
        let known = stood(|number| Some(if number % 3 == 0 { 0.5 } else { f32::NAN }));
        assert!(known > 3.9, "{known}");
        assert_eq!(stood(|_| Some(f32::NAN)), 0.0);
    }
}
