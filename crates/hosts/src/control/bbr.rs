//! A sender that models its path instead of increasing its rate until packets are lost.

use super::{Acked, Controller, PathSample};

/// A minimal model of BBR: the start-up, the drain, and the steady state of draft-ietf-ccwg-bbr (section 5.3), with the
/// largest delivery rate of ten round trips and the least round trip of ten seconds, paced by eight phases of gain, and
/// a window of twice the product. Losses and marks do not matter to it: the bounds that the draft sets
/// after them (inflight_hi, inflight_lo, bw_lo), its adaptation to aggregation and its randomised waits between probes
/// are not modelled.
#[derive(Debug)]
pub struct Bbr {
    phase: Phase,
    /// The largest rate of each of the last rounds, segments per second, the present round last.
    rates: [f64; RATE_ROUNDS],
    /// A round ends when a segment is acknowledged that was sent after this many were delivered.
    round_end: u64,
    full_rate: f64,
    rounds_without_growth: u32,
    growth: Growth,
    least_rtt: Option<(i64, i64)>,
    initial_window: f64,
}

/// The growth of the flight in start-up, less half of the segments delivered meanwhile.
#[derive(Debug, Clone, Copy, Default)]
struct Growth {
    /// At the last acknowledgment: flight, delivered segments, and whether there was more to send.
    last: Option<(usize, u64)>,
    ahead: f64,
    /// The largest lead of growth, its time, the flight then, and the segments delivered since while there was more to
    /// send.
    most: f64,
    most_ns: i64,
    out_then: u64,
    delivered_since: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Startup,
    Drain,
    /// Position in the cycle of gains, and its start.
    Probe {
        place: usize,
        since_ns: i64,
    },
    /// A small flight for a while, so that the least round trip shows; and its start.
    ProbeRtt {
        since_ns: i64,
    },
}

/// The length of the rate filter, in rounds.
const RATE_ROUNDS: usize = 10;
/// 4 ln 2, with which the rate can double in each round (the draft, section 5.6.2: 2.77), and the window's gain.
const STARTUP_GAIN: f64 = 2.77;
const WINDOW_GAIN: f64 = 2.0;
/// Up, down, then cruise.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The maximum age of the least round trip, and the time to look for a smaller one.
const LEAST_RTT_LASTS_NS: i64 = 10_000_000_000;
const PROBE_RTT_NS: i64 = 200_000_000;
const PROBE_RTT_WINDOW: f64 = 4.0;

impl Bbr {
    pub fn new(initial_window: f64) -> Self {
        Self {
            phase: Phase::Startup,
            rates: [0.0; RATE_ROUNDS],
            round_end: 0,
            full_rate: 0.0,
            rounds_without_growth: 0,
            growth: Growth::default(),
            least_rtt: None,
            initial_window,
        }
    }

    /// The path's rate, segments per second.
    fn bottleneck_rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    fn is_starting(&self) -> bool {
        self.phase == Phase::Startup
    }

    fn gain(&self) -> f64 {
        match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => 1.0 / STARTUP_GAIN,
            Phase::Probe { place, .. } => CYCLE[place],
            Phase::ProbeRtt { .. } => 1.0,
        }
    }

    /// Bandwidth times delay, in packets.
    fn product(&self) -> Option<f64> {
        let (rtt_ns, _) = self.least_rtt?;
        let rate = self.bottleneck_rate();
        (rate > 0.0).then(|| rate * rtt_ns as f64 / 1e9)
    }

    fn window(&self) -> f64 {
        if matches!(self.phase, Phase::ProbeRtt { .. }) {
            return PROBE_RTT_WINDOW;
        }
        let gain = if self.is_starting() {
            STARTUP_GAIN
        } else {
            WINDOW_GAIN
        };
        let wanted = self.product().map_or(0.0, |product| gain * product);
        let least = if self.is_starting() {
            self.initial_window
        } else {
            PROBE_RTT_WINDOW
        };
        wanted.max(least)
    }

    fn note_growth(&mut self, path: PathSample) {
        let PathSample {
            now_ns,
            in_flight,
            delivered,
            starved,
            ..
        } = path;
        let growth = &mut self.growth;
        let last = std::mem::replace(
            &mut growth.last,
            (!starved).then_some((in_flight, delivered)),
        );
        if let (Some(then), false) = (last, starved) {
            growth.ahead += in_flight as f64 - then.0 as f64 - (delivered - then.1) as f64 / 2.0;
            growth.delivered_since += delivered - then.1;
        }
        if growth.ahead >= growth.most {
            (growth.most, growth.most_ns) = (growth.ahead, now_ns);
            (growth.out_then, growth.delivered_since) = (in_flight.max(1) as u64, 0);
        }
    }

    fn note_rtt(&mut self, now_ns: i64, rtt_ns: i64) {
        let probing = matches!(self.phase, Phase::ProbeRtt { .. });
        let expired = |&(_, at_ns): &(i64, i64)| now_ns.saturating_sub(at_ns) > LEAST_RTT_LASTS_NS;
        if self.least_rtt.as_ref().is_some_and(expired) && !probing && !self.is_starting() {
            self.phase = Phase::ProbeRtt { since_ns: now_ns };
            self.least_rtt = Some((rtt_ns, now_ns));
        }
        if self
            .least_rtt
            .is_none_or(|(least_ns, _)| rtt_ns <= least_ns)
        {
            self.least_rtt = Some((rtt_ns, now_ns));
        }
    }

    /// Checks for a full pipe: the rate grew by less than a quarter in three rounds (section 5.3.1.2).
    fn look_for_growth(&mut self) {
        if !self.is_starting() {
            return;
        }
        let rate = self.bottleneck_rate();
        if rate >= 1.25 * self.full_rate {
            (self.full_rate, self.rounds_without_growth) = (rate, 0);
            return;
        }
        self.rounds_without_growth += 1;
        if self.rounds_without_growth >= 3 {
            self.phase = Phase::Drain;
        }
    }

    fn move_on(&mut self, now_ns: i64, in_flight: f64) {
        let product = self.product().unwrap_or(f64::INFINITY);
        let cruise = Phase::Probe {
            place: 2,
            since_ns: now_ns,
        };
        match self.phase {
            Phase::Drain if in_flight <= product => self.phase = cruise,
            Phase::Probe { place, since_ns } => {
                let rtt_ns = self.least_rtt.map_or(0, |(rtt_ns, _)| rtt_ns);
                // The phase that drains the probe's queue ends as soon as the queue is empty.
                let drained = place == 1 && in_flight <= product;
                if now_ns - since_ns >= rtt_ns || drained {
                    self.phase = Phase::Probe {
                        place: (place + 1) % CYCLE.len(),
                        since_ns: now_ns,
                    };
                }
            }
            Phase::ProbeRtt { since_ns } if now_ns - since_ns >= PROBE_RTT_NS => {
                self.phase = cruise;
            }
            _ => {}
        }
    }
}

impl Controller for Bbr {
    fn grow(&mut self, cwnd: f64, _acked: Acked) -> f64 {
        cwnd
    }

    fn on_loss(&mut self, cwnd: f64, _in_flight: f64) -> f64 {
        cwnd
    }

    fn has_own_window(&self) -> bool {
        true
    }

    /// Samples of the rate taken while the application had no data count only if they are larger.
    fn on_ack(&mut self, path: PathSample) -> Option<f64> {
        let PathSample {
            now_ns, starved, ..
        } = path;
        if let Some(rtt_ns) = path.rtt_ns {
            self.note_rtt(now_ns, rtt_ns);
        }
        if let Some(sample) = path.rate {
            let new_round = sample.delivered_before >= self.round_end;
            if new_round {
                self.round_end = path.delivered;
                self.rates.rotate_left(1);
                self.rates[RATE_ROUNDS - 1] = 0.0;
            }
            if !starved || sample.segments_per_s > self.bottleneck_rate() {
                let present = &mut self.rates[RATE_ROUNDS - 1];
                *present = present.max(sample.segments_per_s);
            }
            if new_round && !starved {
                self.look_for_growth();
            }
        }
        self.move_on(now_ns, path.in_flight as f64);
        if self.is_starting() {
            self.note_growth(path);
        }
        Some(self.window())
    }

    fn in_startup(&self) -> Option<bool> {
        Some(self.is_starting())
    }

    /// Since when the flight in start-up has not grown by half of the delivered segments: start-up then confirms that
    /// the pipe is full, and its window stands still. `None` until the whole flight is delivered, and until start-up is
    /// over: if it continues, its window stands still only between samples of the rate.
    fn stands_since_ns(&self) -> Option<i64> {
        let delivered = (1..=self.growth.delivered_since).contains(&self.growth.out_then);
        let shows = delivered && !self.is_starting();
        shows.then_some(self.growth.most_ns)
    }

    fn pacing_rate(&self, smoothed_rtt_ns: i64) -> Option<f64> {
        let rate = match self.bottleneck_rate() {
            // Before the first sample: the initial window per round trip.
            0.0 => self.initial_window * 1e9 / smoothed_rtt_ns.max(1_000_000) as f64,
            rate => rate,
        };
        Some(self.gain() * rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::RateSample;

    const RTT_NS: i64 = 10_000_000;

    /// Successive round trips, acknowledged at these rates.
    fn at_rates(rates: &[f64]) -> Bbr {
        let mut bbr = Bbr::new(10.0);
        let mut delivered = 0;
        for (round, &segments_per_s) in (1..).zip(rates) {
            let sample = RateSample {
                segments_per_s,
                delivered_before: delivered,
                latest_before: delivered,
                whole_per_s: segments_per_s,
                is_valid: true,
            };
            let in_flight = bbr.window() as usize;
            delivered += in_flight as u64;
            bbr.on_ack(PathSample {
                now_ns: round * RTT_NS,
                rate: Some(sample),
                rtt_ns: Some(RTT_NS),
                in_flight,
                delivered,
                lost: 0,
                starved: false,
            });
        }
        bbr
    }

    #[test]
    fn a_start_up_grows_while_its_window_does() {
        assert_eq!(at_rates(&[]).stands_since_ns(), None);
        assert_eq!(
            at_rates(&[1_000.0, 2_700.0, 7_400.0]).stands_since_ns(),
            None
        );
        let stands = at_rates(&[1_000.0, 2_700.0, 2_700.0, 2_700.0]);
        assert!(stands.is_starting());
        assert_eq!(stands.stands_since_ns(), None, "it may continue to grow");
        let ended = at_rates(&[1_000.0, 2_700.0, 2_700.0, 2_700.0, 2_700.0, 2_700.0]);
        assert!(!ended.is_starting());
        assert_eq!(ended.stands_since_ns(), Some(3 * RTT_NS));
    }
}
