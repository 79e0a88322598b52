//! A host's clock as shown by its TCP timestamps (RFC 7323), and the delay of the packets that carried them.

/// Ticks a second of the clocks in use (RFC 7323 allows 1 to 1000; Linux: 1000, before 100 or 250).
const TICK_RATES: [f64; 4] = [1000.0, 250.0, 100.0, 10.0];
/// Clocks are off by parts per million; a growing queue distorts the apparent rate.
const RATE_TOLERANCE: f64 = 0.3;
/// With fewer ticks the rate is unknown.
const FEWEST_TICKS: u32 = 30;
/// Hosts' crystals are off by up to this many parts per million, so two of them differ by at most twice that.
const CLOCK_PPM: i64 = 100;

/// The clock value in a packet, and when the packet passed the capture point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub time_ns: i64,
    pub ticks: u32,
}

/// Length of a tick, nanoseconds; `None` if the readings are not conclusive.
pub(crate) fn tick_ns(readings: &[Reading]) -> Option<i64> {
    tick_within_ns(readings, 1.0 - RATE_TOLERANCE)
}

/// The same for a clock that may appear slowed down to this share of its rate.
fn tick_within_ns(readings: &[Reading], slowest: f64) -> Option<i64> {
    let (first, last) = (readings.first()?, readings.last()?);
    let since = |reading: &Reading| reading.ticks.wrapping_sub(first.ticks);
    let ticks = since(last);
    if !(FEWEST_TICKS..=i32::MAX as u32).contains(&ticks) {
        return None;
    }
    let later = (readings.iter()).filter(|one| (ticks / 2..=ticks).contains(&since(one)));
    let lasted_s = |one: &Reading| (one.time_ns - first.time_ns) as f64 / 1e9;
    // a growing queue makes a clock look slow
    let measured = later
        .filter(|one| lasted_s(one) > 0.0)
        .map(|one| f64::from(since(one)) / lasted_s(one))
        .fold(0.0, f64::max);
    let within = |least: f64| {
        let of_rate = least..1.0 + RATE_TOLERANCE;
        let is_near = |rate: &&f64| of_rate.contains(&(measured / **rate));
        TICK_RATES.iter().find(is_near)
    };
    let rate = within(1.0 - RATE_TOLERANCE).or_else(|| within(slowest))?;
    Some((1e9 / rate) as i64)
}

/// The certain excess delay of each packet to the capture point over the fastest, nanoseconds: it may have left at any
/// moment of its tick. `None` if the clock is unusable.
pub(crate) fn queued_ns(readings: &[Reading], slowest: f64) -> Option<Vec<i64>> {
    let tick_ns = tick_within_ns(readings, slowest)?;
    let mut late_ns = late_ns(readings, tick_ns);
    (late_ns.iter_mut()).for_each(|late| *late = (*late - tick_ns).max(0));
    Some(late_ns)
}

/// How much later each packet passed than the fastest would have, if it left at the beginning of its tick, nanoseconds.
pub(crate) fn late_ns(readings: &[Reading], tick_ns: i64) -> Vec<i64> {
    let first = readings[0];
    let late = |one: &Reading| {
        let ticks = one.ticks.wrapping_sub(first.ticks) as i32;
        one.time_ns - first.time_ns - i64::from(ticks) * tick_ns
    };
    let late_ns: Vec<i64> = readings.iter().map(late).collect();
    let mut least_ns = late_ns.clone();
    // the fastest packet bounds how fast all others could have been, except for clock drift in between
    for index in 1..readings.len() {
        let drift_ns = drift_ns(&readings[index - 1], &readings[index]);
        least_ns[index] = least_ns[index].min(least_ns[index - 1] + drift_ns);
    }
    for index in (1..readings.len()).rev() {
        let drift_ns = drift_ns(&readings[index - 1], &readings[index]);
        least_ns[index - 1] = least_ns[index - 1].min(least_ns[index] + drift_ns);
    }
    let both = late_ns.iter().zip(&least_ns);
    both.map(|(late, least)| late - least).collect()
}

fn drift_ns(before: &Reading, after: &Reading) -> i64 {
    (after.time_ns - before.time_ns).max(0) / 1_000_000 * 2 * CLOCK_PPM
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Packets each 10 ms, by departure time in milliseconds: the delay of each, milliseconds.
    fn passed(count: i64, on_its_way_ms: impl Fn(i64) -> i64) -> Vec<Reading> {
        let left = (0..count).map(|number| number * 10);
        left.map(|left_ms| Reading {
            time_ns: (left_ms + on_its_way_ms(left_ms)) * MS,
            ticks: 5000 + left_ms as u32,
        })
        .collect()
    }

    #[test]
    fn a_queue_that_grows_faster_and_faster_does_not_hide_the_clock() {
        let readings = passed(100, |left_ms| (left_ms - 600).max(0) * 3 / 2);
        assert_eq!(tick_ns(&readings), Some(MS));
    }

    #[test]
    fn a_queue_that_stands_for_a_minute_is_seen_by_what_was_fast_before_it() {
        let readings = passed(6000, |left_ms| if left_ms < 1000 { 20 } else { 220 });
        let late_ns = late_ns(&readings, MS);
        assert!(late_ns[..100].iter().all(|late| *late == 0));
        // except for the drift of two clocks in between
        for late in &late_ns[100..] {
            assert!((188 * MS..=200 * MS).contains(late), "{late}");
        }
    }

    #[test]
    fn a_queue_that_grows_all_the_time_makes_a_clock_look_half_as_fast() {
        let readings = passed(100, |left_ms| left_ms);
        assert_eq!(tick_ns(&readings), None);
        assert_eq!(queued_ns(&readings, 1.0), None);
        let queued_ns = queued_ns(&readings, 0.45).unwrap();
        assert!((980 * MS..=990 * MS).contains(&queued_ns[99]));
    }

    #[test]
    fn clocks_that_drift_apart_make_no_queue() {
        // 50 parts per million
        let readings = passed(60_000, |left_ms| 20 + left_ms / 20_000);
        assert!(late_ns(&readings, MS).iter().all(|late| *late <= MS));
    }
}
