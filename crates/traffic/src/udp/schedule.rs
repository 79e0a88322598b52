//! When each packet of a flow is due.

use crate::clock;
use crate::flow::{FlowSpec, Kind};

use super::packet::{HEADER_BYTES, MAX_BYTES};

/// The shortest time between packets.
const SHORTEST_GAP_NS: f64 = 100.0;
/// Eleven days: a lower rate is a mistake.
const LONGEST_GAP_NS: f64 = 1e15;
/// Probes are sent less often: each costs a wake-up at both ends.
const SHORTEST_PROBE_GAP_NS: f64 = 100_000.0;
/// The most packets in a burst: the receiver keeps every packet of unsettled bursts.
const MOST_IN_A_BURST: u32 = 65_536;
const DEFAULT_STREAM_BYTES: u32 = 1_200;
/// The default of ping(8).
const DEFAULT_ECHO_BYTES: u32 = 56;
/// A random number and the sequence.
const LEAST_ECHO_BYTES: usize = 16;
const DEFAULT_BURST_EVERY_S: f64 = 1.0;
const DEFAULT_PER_BURST: u32 = 100;

/// The times of a flow's packets, by slot: 0, 1, 2, ...
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schedule {
    pub packet_bytes: usize,
    pub per_burst: u32,
    /// From one burst to the next; for streams and probes, from one packet to the next.
    pub every_ns: f64,
    /// Between the packets of a burst; zero is as fast as possible.
    pub gap_ns: f64,
    /// A square wave: the on time and the off time.
    wave_ns: Option<(f64, f64)>,
    duration_ns: Option<f64>,
    /// The number of slots, if bytes and not time limit them.
    most: Option<u64>,
}

impl Schedule {
    /// Computes the schedule of a flow; `Err` names the invalid setting.
    pub(crate) fn of(spec: &FlowSpec) -> Result<Schedule, String> {
        let (default_bytes, least_bytes) = match spec.kind {
            Kind::Icmp => (DEFAULT_ECHO_BYTES, LEAST_ECHO_BYTES),
            Kind::Probe => (HEADER_BYTES as u32, HEADER_BYTES),
            _ => (DEFAULT_STREAM_BYTES, HEADER_BYTES),
        };
        let packet_bytes = spec.packet_payload_bytes.unwrap_or(default_bytes) as usize;
        if !(least_bytes..=MAX_BYTES).contains(&packet_bytes) {
            return Err(format!(
                "packet_payload_bytes = {packet_bytes}: expected {least_bytes} (the header) to {MAX_BYTES} \
                 bytes"
            ));
        }
        let schedule = match spec.kind {
            Kind::Probe | Kind::Icmp => Schedule::of_probes(spec, packet_bytes)?,
            Kind::Burst => Schedule::of_bursts(spec, packet_bytes)?,
            _ => Schedule::of_stream(spec, packet_bytes)?,
        };
        Ok(Schedule {
            duration_ns: spec
                .duration_s
                .map(|duration_s| seconds("duration_s", duration_s))
                .transpose()?,
            ..schedule
        })
    }

    fn even(packet_bytes: usize, every_ns: f64) -> Schedule {
        Schedule {
            packet_bytes,
            per_burst: 1,
            every_ns,
            gap_ns: 0.0,
            wave_ns: None,
            duration_ns: None,
            most: None,
        }
    }

    fn of_probes(spec: &FlowSpec, packet_bytes: usize) -> Result<Schedule, String> {
        let every_ns = seconds("interval_s", spec.interval_s)?;
        if every_ns < SHORTEST_PROBE_GAP_NS {
            return Err(format!(
                "interval_s = {}: expected at least 0.0001 s between probes",
                spec.interval_s
            ));
        }
        Ok(Schedule::even(packet_bytes, every_ns))
    }

    fn of_stream(spec: &FlowSpec, packet_bytes: usize) -> Result<Schedule, String> {
        let every_ns = packet_gap_ns(spec, packet_bytes)?
            .ok_or("rate_bps: a UDP stream needs a rate, in bit/s")?;
        let wave_ns = match (spec.on_s, spec.off_s) {
            (Some(on_s), Some(off_s)) if off_s > 0.0 => {
                let on_ns = seconds("on_s", on_s)?;
                if on_ns < every_ns {
                    return Err(format!(
                        "on_s = {on_s}: expected at least the time of one packet"
                    ));
                }
                Some((on_ns, seconds("off_s", off_s)?))
            }
            _ => None,
        };
        let most = spec
            .payload_bytes
            .map(|bytes| bytes.div_ceil(packet_bytes as u64));
        Ok(Schedule {
            wave_ns,
            most,
            ..Schedule::even(packet_bytes, every_ns)
        })
    }

    fn of_bursts(spec: &FlowSpec, packet_bytes: usize) -> Result<Schedule, String> {
        let every_ns = seconds(
            "burst_every_s",
            spec.burst_every_s.unwrap_or(DEFAULT_BURST_EVERY_S),
        )?;
        let per_burst = spec.packets_per_burst.unwrap_or(DEFAULT_PER_BURST);
        if !(1..=MOST_IN_A_BURST).contains(&per_burst) {
            return Err(format!(
                "packets_per_burst = {per_burst}: expected 1 to {MOST_IN_A_BURST}"
            ));
        }
        let gap_ns = packet_gap_ns(spec, packet_bytes)?.unwrap_or(0.0);
        let shortest_ns =
            (f64::from(per_burst) * gap_ns.max(SHORTEST_GAP_NS)).max(SHORTEST_PROBE_GAP_NS);
        if every_ns < shortest_ns {
            return Err(format!(
                "burst_every_s = {}: expected at least {} s, the duration of a burst",
                every_ns / 1e9,
                shortest_ns / 1e9
            ));
        }
        Ok(Schedule {
            per_burst,
            gap_ns,
            ..Schedule::even(packet_bytes, every_ns)
        })
    }

    /// When the packet of this slot is due, relative to the flow's start; `None` after the last.
    pub(crate) fn at_ns(&self, slot: u64) -> Option<i64> {
        if self.most.is_some_and(|most| slot >= most) {
            return None;
        }
        let per_burst = u64::from(self.per_burst);
        let steady_ns = (slot / per_burst) as f64 * self.every_ns;
        let begin_ns = match self.wave_ns {
            Some((on_ns, off_ns)) => steady_ns + (steady_ns / on_ns).floor() * off_ns,
            None => steady_ns,
        };
        // A started burst is sent to its end: the receiver would count the rest as lost.
        if self
            .duration_ns
            .is_some_and(|duration_ns| begin_ns >= duration_ns)
        {
            return None;
        }
        Some((begin_ns + (slot % per_burst) as f64 * self.gap_ns).round() as i64)
    }

    /// The number of slots; `None` if neither time nor bytes limit it.
    pub(crate) fn slots(&self) -> Option<u64> {
        let (mut low, mut high) = (0, self.most.unwrap_or(1 << 53));
        if self.most.is_none() && self.duration_ns.is_none() {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.at_ns(middle).is_some() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    /// The average rate of UDP payload while the flow is on.
    pub(crate) fn rate_bps(&self) -> f64 {
        self.packet_bytes as f64 * 8.0 * f64::from(self.per_burst) / self.every_ns * 1e9
    }

    /// The planned duration of the flow.
    pub(crate) fn duration_ns(&self) -> Option<i64> {
        self.duration_ns.map(|duration_ns| duration_ns as i64)
    }
}

fn packet_gap_ns(spec: &FlowSpec, packet_bytes: usize) -> Result<Option<f64>, String> {
    let Some(rate_bps) = spec.rate_bps else {
        return Ok(None);
    };
    let gap_ns = packet_bytes as f64 * 8e9 / rate_bps;
    if !rate_bps.is_finite() || !(SHORTEST_GAP_NS..=LONGEST_GAP_NS).contains(&gap_ns) {
        return Err(format!(
            "rate_bps = {rate_bps}: expected a rate above zero, with {SHORTEST_GAP_NS} ns or more for each packet of \
             {packet_bytes} bytes"
        ));
    }
    Ok(Some(gap_ns))
}

/// Converts a user's seconds to nanoseconds; refuses values that are no valid span of time.
fn seconds(name: &str, span_s: f64) -> Result<f64, String> {
    const LONGEST_S: f64 = 1e7;
    if (0.0..=LONGEST_S).contains(&span_s) {
        Ok(clock::ns(span_s) as f64)
    } else {
        Err(format!(
            "{name} = {span_s}: expected 0 to {LONGEST_S} seconds"
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flow::Direction;

    fn spec(kind: Kind) -> FlowSpec {
        FlowSpec::new(1, kind, Direction::Up)
    }

    #[test]
    fn a_stream_of_voice_is_due_every_20_ms_for_its_duration() {
        let schedule = Schedule::of(&FlowSpec {
            rate_bps: Some(68_800.0),
            packet_payload_bytes: Some(172),
            duration_s: Some(1.0),
            ..spec(Kind::Udp)
        })
        .unwrap();
        assert_eq!(schedule.at_ns(0), Some(0));
        assert_eq!(schedule.at_ns(1), Some(20_000_000));
        assert_eq!(schedule.at_ns(49), Some(980_000_000));
        assert_eq!(schedule.at_ns(50), None);
        assert_eq!(schedule.slots(), Some(50));
    }

    #[test]
    fn a_square_wave_sends_nothing_while_it_is_off() {
        let schedule = Schedule::of(&FlowSpec {
            rate_bps: Some(80_000.0),
            packet_payload_bytes: Some(100),
            on_s: Some(0.02),
            off_s: Some(0.1),
            duration_s: Some(0.3),
            ..spec(Kind::Udp)
        })
        .unwrap();
        let times_ms: Vec<i64> = (0..)
            .map_while(|slot| schedule.at_ns(slot))
            .map(|time_ns| time_ns / 1_000_000)
            .collect();
        assert_eq!(times_ms, [0, 10, 120, 130, 240, 250]);
    }

    #[test]
    fn bursts_begin_at_their_period_and_are_sent_to_their_end() {
        let schedule = Schedule::of(&FlowSpec {
            packets_per_burst: Some(3),
            burst_every_s: Some(0.5),
            rate_bps: Some(8_000_000.0),
            packet_payload_bytes: Some(1000),
            duration_s: Some(0.5005),
            ..spec(Kind::Burst)
        })
        .unwrap();
        let times_us: Vec<i64> = (0..)
            .map_while(|slot| schedule.at_ns(slot))
            .map(|time_ns| time_ns / 1000)
            .collect();
        assert_eq!(times_us, [0, 1000, 2000, 500_000, 501_000, 502_000]);
    }

    #[test]
    fn settings_that_make_no_sense_are_named() {
        let refused = |spec: FlowSpec, key: &str| {
            let words = Schedule::of(&spec).unwrap_err();
            assert!(words.starts_with(key), "{words}");
        };
        refused(spec(Kind::Udp), "rate_bps");
        for rate_bps in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e30] {
            refused(
                FlowSpec {
                    rate_bps: Some(rate_bps),
                    ..spec(Kind::Udp)
                },
                "rate_bps",
            );
        }
        for interval_s in [0.0, -1.0, f64::NAN, 1e-9, 1e300] {
            refused(
                FlowSpec {
                    interval_s,
                    ..spec(Kind::Probe)
                },
                "interval_s",
            );
        }
        for bytes in [0, 63, 65_508] {
            refused(
                FlowSpec {
                    packet_payload_bytes: Some(bytes),
                    ..spec(Kind::Probe)
                },
                "packet_payload_bytes",
            );
        }
        refused(
            FlowSpec {
                packets_per_burst: Some(0),
                ..spec(Kind::Burst)
            },
            "packets_per_burst",
        );
        refused(
            FlowSpec {
                burst_every_s: Some(0.0),
                ..spec(Kind::Burst)
            },
            "burst_every_s",
        );
        refused(
            FlowSpec {
                duration_s: Some(-1.0),
                ..spec(Kind::Probe)
            },
            "duration_s",
        );
    }

    proptest! {
        #[test]
        fn slots_are_in_order_of_time_and_as_many_as_are_said(
            rate_bps in 1e4_f64..1e8,
            duration_s in 0.001_f64..0.05,
            wave in proptest::option::of((0.02_f64..0.1, 0.001_f64..0.1)),
        ) {
            let spec = FlowSpec {
                rate_bps: Some(rate_bps),
                duration_s: Some(duration_s),
                packet_payload_bytes: Some(64),
                on_s: wave.map(|wave| wave.0.max(64.0 * 8.0 / rate_bps)),
                off_s: wave.map(|wave| wave.1),
                ..spec(Kind::Udp)
            };
            let schedule = Schedule::of(&spec).unwrap();
            let times: Vec<i64> = (0..).map_while(|slot| schedule.at_ns(slot)).collect();
            prop_assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
            prop_assert_eq!(schedule.slots(), Some(times.len() as u64));
        }
    }
}
