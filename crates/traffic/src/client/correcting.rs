//! Measurements as the recording stores them: all times are in this host's clock.

use std::borrow::Cow;

use crate::sample::{BurstPacket, Departure, Ending, Interval, Probe, Samples, TcpSample};
use crate::udp::{ClockEstimate, ClockFit};

/// A probe and its one-way delays.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeRow {
    pub probe: Probe,
    /// `None` if the far end's timestamps or its clock offset are unknown.
    pub up_ns: Option<i64>,
    pub down_ns: Option<i64>,
}

/// The state of a far clock at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockRow {
    /// The host's number.
    pub host: usize,
    pub time_ns: i64,
    pub offset_ns: i64,
    pub uncertainty_ns: i64,
    pub drift_ppm: Option<f64>,
}

impl ClockRow {
    pub fn new(host: usize, estimate: &ClockEstimate) -> ClockRow {
        ClockRow {
            host,
            time_ns: estimate.time_ns,
            offset_ns: estimate.offset_ns,
            uncertainty_ns: estimate.uncertainty_ns,
            drift_ppm: estimate.drift_ppm,
        }
    }
}

/// Measurements of a test since the previous call.
#[derive(Debug, Default)]
pub struct Taken {
    pub intervals: Vec<Interval>,
    pub tcp: Vec<TcpSample>,
    pub probes: Vec<ProbeRow>,
    pub bursts: Vec<BurstPacket>,
    pub departures: Vec<Departure>,
    pub clocks: Vec<ClockRow>,
    pub endings: Vec<(u32, Ending)>,
    pub facts: Vec<(u32, Cow<'static, str>, String)>,
}

impl Taken {
    /// Adds measurements made at this end; `offset` returns the far clock's offset at a time of the local clock.
    pub fn add_near(&mut self, samples: Samples, offset: impl Fn(i64) -> Option<i64>) {
        let Samples {
            mut intervals,
            tcp,
            probes,
            mut bursts,
            departures,
            endings,
            facts,
            ..
        } = samples;
        for interval in &mut intervals {
            // The far clock stamped the departure, the local clock the arrival.
            if let Some(datagrams) = &mut interval.datagrams {
                let offset_ns = offset(interval.end_ns).unwrap_or(0);
                datagrams.delay_ns = datagrams.delay_ns.saturating_add(offset_ns);
            }
        }
        for packet in &mut bursts {
            let offset_ns = offset(packet.received_ns.unwrap_or(packet.sent_ns)).unwrap_or(0);
            packet.sent_ns = packet.sent_ns.saturating_sub(offset_ns);
        }
        self.probes
            .extend(probes.into_iter().map(|probe| with_delays(probe, &offset)));
        self.intervals.append(&mut intervals);
        self.tcp.extend(tcp);
        self.bursts.append(&mut bursts);
        self.departures.extend(departures);
        self.endings.extend(endings);
        self.facts.extend(facts);
    }

    /// Adds measurements made at the far end, in its clock. The caller decides about its endings.
    pub fn add_far(&mut self, samples: Samples, offset: impl Fn(i64) -> Option<i64>) {
        let Samples {
            mut intervals,
            mut tcp,
            mut bursts,
            mut departures,
            facts,
            ..
        } = samples;
        let ahead = |time_ns| ClockFit::offset_at_far(time_ns, &offset).unwrap_or(0);
        for interval in &mut intervals {
            let offset_ns = ahead(interval.end_ns);
            interval.start_ns = interval.start_ns.saturating_sub(offset_ns);
            interval.end_ns = interval.end_ns.saturating_sub(offset_ns);
            if let Some(datagrams) = &mut interval.datagrams {
                datagrams.delay_ns = datagrams.delay_ns.saturating_sub(offset_ns);
            }
        }
        for sample in &mut tcp {
            sample.time_ns = sample.time_ns.saturating_sub(ahead(sample.time_ns));
        }
        for packet in &mut bursts {
            packet.received_ns = packet
                .received_ns
                .map(|time_ns| time_ns.saturating_sub(ahead(time_ns)));
        }
        for departure in &mut departures {
            departure.left_ns = departure.left_ns.saturating_sub(ahead(departure.left_ns));
        }
        self.departures.append(&mut departures);
        self.intervals.append(&mut intervals);
        self.tcp.append(&mut tcp);
        self.bursts.append(&mut bursts);
        self.facts.extend(facts);
    }
}

fn with_delays(probe: Probe, offset: impl Fn(i64) -> Option<i64>) -> ProbeRow {
    let offset_ns = probe.sent_ns.and_then(offset);
    let between = |from_ns: Option<i64>, to_ns: Option<i64>, correction: i64| {
        Some(
            to_ns?
                .saturating_sub(from_ns?)
                .saturating_add(correction.saturating_mul(offset_ns?)),
        )
    };
    ProbeRow {
        up_ns: between(probe.sent_ns, probe.far_received_ns, -1),
        down_ns: between(probe.far_sent_ns, probe.received_ns, 1),
        probe,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Datagrams, Fate};

    const AHEAD_NS: i64 = 1_000_000;

    fn ahead(_: i64) -> Option<i64> {
        Some(AHEAD_NS)
    }

    #[test]
    fn one_way_delays_add_up_to_the_round_trip_whatever_the_offset() {
        let probe = Probe {
            flow: 0,
            sequence: 0,
            scheduled_ns: 0,
            sent_ns: Some(0),
            far_received_ns: Some(7_000 + AHEAD_NS),
            far_sent_ns: Some(8_000 + AHEAD_NS),
            received_ns: Some(20_000),
            rtt_ns: Some(19_000),
            fate: Fate::Ok,
            duplicates: 0,
            reordered: false,
            payload_bytes: 64,
        };
        let row = with_delays(probe.clone(), ahead);
        assert_eq!((row.up_ns, row.down_ns), (Some(7_000), Some(12_000)));
        assert_eq!(with_delays(probe, |_| None).up_ns, None);
    }

    #[test]
    fn far_times_are_brought_to_this_hosts_clock_and_near_ones_are_left() {
        let interval = Interval {
            flow: 0,
            start_ns: 5 + AHEAD_NS,
            end_ns: 9 + AHEAD_NS,
            payload_bytes: 1,
            datagrams: Some(Datagrams {
                delay_ns: 3 + AHEAD_NS,
                ..Datagrams::default()
            }),
        };
        let mut taken = Taken::default();
        taken.add_far(
            Samples {
                intervals: vec![interval.clone()],
                ..Samples::default()
            },
            ahead,
        );
        assert_eq!(
            (taken.intervals[0].start_ns, taken.intervals[0].end_ns),
            (5, 9)
        );
        assert_eq!(taken.intervals[0].datagrams.unwrap().delay_ns, 3);
        let mut taken = Taken::default();
        taken.add_near(
            Samples {
                intervals: vec![interval.clone()],
                ..Samples::default()
            },
            ahead,
        );
        assert_eq!(taken.intervals[0].start_ns, interval.start_ns);
    }
    #[test]
    fn a_far_end_that_lies_about_its_clock_cannot_make_the_computation_overflow() {
        let interval = Interval {
            start_ns: i64::MIN,
            end_ns: i64::MAX,
            datagrams: Some(Datagrams {
                delay_ns: i64::MIN,
                ..Datagrams::default()
            }),
            ..Interval::default()
        };
        let sample = TcpSample {
            time_ns: i64::MIN,
            ..TcpSample::default()
        };
        let packet = BurstPacket {
            flow: 0,
            burst: 0,
            sequence: 0,
            sent_ns: i64::MIN,
            received_ns: Some(i64::MIN),
            payload_bytes: 0,
            marked: false,
        };
        let samples = || Samples {
            intervals: vec![interval.clone()],
            tcp: vec![sample.clone()],
            bursts: vec![packet.clone()],
            ..Samples::default()
        };
        for offset_ns in [i64::MIN, i64::MAX, AHEAD_NS] {
            let mut taken = Taken::default();
            taken.add_far(samples(), |_| Some(offset_ns));
            taken.add_near(samples(), |_| Some(offset_ns));
            assert_eq!(taken.intervals.len(), 2);
        }
    }
}
