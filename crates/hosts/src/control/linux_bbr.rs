//! BBR as Linux has it.

use super::long_term::{Counts, LongTerm};
use super::windowed_max::WindowedMax;
use super::{Acked, Answer, Controller, Repair};

/// The first version of BBR, as in Linux 6.1: a model of the path by its largest delivery rate and its least round trip,
/// paced by a cycle of gains. Beside that of the draft ([`Bbr`](super::bbr::Bbr)) it has the additions by which Linux
/// fills more of a queue: what hosts keep back (`quantization`), and acknowledgments that come together. It conserves
/// packets in the first round of a recovery, and keeps the long-term rate that a policer lets pass.
#[derive(Debug)]
pub struct LinuxBbr {
    mode: Mode,
    rates: WindowedMax,
    round: u64,
    /// A round ends when a segment is acknowledged that was sent after this many were delivered.
    round_end: u64,
    new_round: bool,
    pacing_gain: f64,
    /// Segments per second.
    pacing_rate: Option<f64>,
    initial_window: f64,
    pipe: FullPipe,
    /// Nanoseconds, and when it was measured.
    least_rtt: Option<(i64, i64)>,
    probe: RttProbe,
    aggregation: Aggregation,
    long_term: LongTerm,
    recovery: Recovery,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Startup,
    Drain,
    /// Position in the cycle of gains, and its start.
    ProbeBandwidth {
        place: usize,
        since_ns: i64,
    },
    ProbeRtt,
}

/// The growth of the rate, until it ceases.
#[derive(Debug, Clone, Copy, Default)]
struct FullPipe {
    rate: f64,
    rounds_without_growth: u32,
    is_reached: bool,
}

/// A small flight for a while, so that the least round trip shows.
#[derive(Debug, Clone, Copy, Default)]
struct RttProbe {
    /// `None` until the flight is small.
    until_ns: Option<i64>,
    has_seen_round: bool,
    /// Segments sent after these were delivered say nothing about the rate: from and until.
    excluded: Option<(u64, u64)>,
}

/// Segments that were acknowledged beyond the rate, in an epoch since the rate was last reached.
#[derive(Debug, Clone, Copy, Default)]
struct Aggregation {
    /// The most of the present window of rounds and of the one before.
    most: [f64; 2],
    present: usize,
    rounds: u32,
    since_ns: i64,
    acknowledged: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Recovery {
    repair: Repair,
    /// The window to return to.
    window_before: f64,
    conserves_packets: bool,
}

/// Of the rate filter, in rounds.
const RATE_ROUNDS: u64 = 10;
/// 2 / ln 2, at which the rate doubles in each round.
const STARTUP_GAIN: f64 = 2.885;
const WINDOW_GAIN: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// It paces one hundredth below its rate.
const PACED_SHARE: f64 = 0.99;
const GROWTH: f64 = 1.25;
const ROUNDS_WITHOUT_GROWTH: u32 = 3;
const LEAST_RTT_LASTS_NS: i64 = 10_000_000_000;
const PROBE_RTT_NS: i64 = 200_000_000;
const LEAST_WINDOW: f64 = 4.0;
/// The window of the most aggregation, in rounds, and the time of which it may add the segments at most.
const AGGREGATION_ROUNDS: u32 = 5;
const MOST_AGGREGATION_S: f64 = 0.1;
const NO_RTT_YET_NS: i64 = 1_000_000;
/// Linux hands so many milliseconds' segments to a queue at once, at least two, or one below a rate of about
/// 1.2 Mbit/s with segments of 1448 bytes.
const HANDOVERS_PER_S: f64 = 1024.0;
const SLOW_PER_S: f64 = 103.6;
const MOST_AT_ONCE: f64 = 44.0;

impl LinuxBbr {
    pub fn new(initial_window: f64) -> Self {
        Self {
            mode: Mode::Startup,
            rates: WindowedMax::new(RATE_ROUNDS),
            round: 0,
            round_end: 0,
            new_round: false,
            pacing_gain: STARTUP_GAIN,
            pacing_rate: None,
            initial_window,
            pipe: FullPipe::default(),
            least_rtt: None,
            probe: RttProbe::default(),
            aggregation: Aggregation::default(),
            long_term: LongTerm::default(),
            recovery: Recovery::default(),
        }
    }

    /// Segments per second.
    fn rate(&self) -> f64 {
        (self.long_term.rate()).unwrap_or_else(|| self.rates.get())
    }

    /// Segments that Linux hands to a queue at once.
    fn at_once(&self) -> f64 {
        let rate = self.pacing_rate.unwrap_or(0.0);
        let least = if rate < SLOW_PER_S { 1.0 } else { 2.0 };
        (rate / HANDOVERS_PER_S).floor().clamp(least, MOST_AT_ONCE)
    }

    /// Rate times least round trip times gain, in whole segments.
    fn product(&self, rate: f64, gain: f64) -> f64 {
        match self.least_rtt {
            Some((rtt_ns, _)) => (rate * rtt_ns as f64 / 1e9 * gain).ceil(),
            None => self.initial_window,
        }
    }

    /// With the segments that the hosts keep back.
    fn quantized(&self, segments: f64) -> f64 {
        let even = ((segments + 3.0 * self.at_once()) / 2.0).ceil() * 2.0;
        match self.mode {
            Mode::ProbeBandwidth { place: 0, .. } => even + 2.0,
            _ => even,
        }
    }

    fn flight_at(&self, gain: f64) -> f64 {
        self.quantized(self.product(self.rates.get(), gain))
    }

    /// The flight when the next segment leaves.
    fn flight_then(&self, answer: &Answer, in_flight: usize) -> f64 {
        let wait_s = (answer.next_send_ns - answer.now_ns).max(0) as f64 / 1e9;
        let delivered = (self.rate() * wait_s).floor();
        let next = if self.pacing_gain > 1.0 {
            self.at_once()
        } else {
            0.0
        };
        (in_flight as f64 + next - delivered).max(0.0)
    }

    fn cruise(&mut self, now_ns: i64) {
        // Linux draws one of the phases other than the second.
        let place = [0, 2, 3, 4, 5, 6, 7][(now_ns / 1_000).rem_euclid(7) as usize];
        self.mode = Mode::ProbeBandwidth {
            place,
            since_ns: now_ns,
        };
    }

    fn update_rate(&mut self, answer: &Answer) {
        self.new_round = false;
        let Some(sample) = answer.rate.filter(|sample| sample.is_valid) else {
            return;
        };
        if sample.latest_before >= self.round_end {
            self.round_end = answer.delivered;
            self.round += 1;
            self.new_round = true;
            self.recovery.conserves_packets = false;
        }
        let limited = self.is_limited(answer);
        let is_over = self.long_term.on_ack(Counts {
            now_ns: answer.now_ns,
            delivered: answer.delivered,
            lost: answer.lost,
            starved: limited,
            new_round: self.new_round,
            is_steady: matches!(self.mode, Mode::ProbeBandwidth { .. }),
        });
        if is_over {
            self.cruise(answer.now_ns);
        }
        if !limited || sample.whole_per_s >= self.rates.get() {
            self.rates.add(self.round, sample.whole_per_s);
        }
        self.update_aggregation(answer);
    }

    /// The application, or a small flight, was the limit when the segment was sent.
    fn is_limited(&self, answer: &Answer) -> bool {
        let excluded = |before| {
            (self.probe.excluded).is_some_and(|(from, until)| (from..=until).contains(&before))
        };
        answer.starved || (answer.rate).is_some_and(|sample| excluded(sample.latest_before))
    }

    fn update_aggregation(&mut self, answer: &Answer) {
        let newly = answer.newly_delivered as f64;
        if newly == 0.0 {
            return;
        }
        let rate = self.rate();
        let own = &mut self.aggregation;
        if self.new_round {
            own.rounds += 1;
            if own.rounds >= AGGREGATION_ROUNDS {
                (own.rounds, own.present) = (0, 1 - own.present);
                own.most[own.present] = 0.0;
            }
        }
        let epoch_s = (answer.now_ns - own.since_ns) as f64 / 1e9;
        let mut expected = (rate * epoch_s).floor();
        if own.acknowledged <= expected {
            (own.acknowledged, own.since_ns, expected) = (0.0, answer.now_ns, 0.0);
        }
        own.acknowledged += newly;
        let extra = (own.acknowledged - expected).min(answer.cwnd);
        own.most[own.present] = own.most[own.present].max(extra);
    }

    fn update_cycle(&mut self, answer: &Answer) {
        let Mode::ProbeBandwidth { place, since_ns } = self.mode else {
            return;
        };
        let is_full = answer.now_ns - since_ns > self.least_rtt.map_or(i64::MAX, |(ns, _)| ns);
        let in_flight = self.flight_then(answer, answer.in_flight_before);
        let gain = self.pacing_gain;
        let is_over = if gain > 1.0 {
            // Until the probe fills the pipe, unless the path has no room for it.
            is_full && (answer.newly_lost > 0 || in_flight >= self.flight_at(gain))
        } else if gain < 1.0 {
            is_full || in_flight <= self.flight_at(1.0)
        } else {
            is_full
        };
        if is_over {
            self.mode = Mode::ProbeBandwidth {
                place: (place + 1) % CYCLE.len(),
                since_ns: answer.now_ns,
            };
        }
    }

    fn update_start(&mut self, answer: &Answer) {
        let pipe = &mut self.pipe;
        if !pipe.is_reached && self.new_round && !answer.starved {
            let rate = self.rates.get();
            if rate >= GROWTH * pipe.rate {
                (pipe.rate, pipe.rounds_without_growth) = (rate, 0);
            } else {
                pipe.rounds_without_growth += 1;
                pipe.is_reached = pipe.rounds_without_growth >= ROUNDS_WITHOUT_GROWTH;
            }
        }
        if self.mode == Mode::Startup && self.pipe.is_reached {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain
            && self.flight_then(answer, answer.in_flight) <= self.flight_at(1.0)
        {
            self.cruise(answer.now_ns);
        }
    }

    /// Returns the window to return to when a probe of the round trip ends.
    fn update_rtt(&mut self, answer: &Answer) -> Option<f64> {
        let now_ns = answer.now_ns;
        let expired =
            (self.least_rtt).is_some_and(|(_, at_ns)| now_ns - at_ns > LEAST_RTT_LASTS_NS);
        if let Some(rtt_ns) = answer.rtt_ns
            && (expired
                || self
                    .least_rtt
                    .is_none_or(|(least_ns, _)| rtt_ns <= least_ns))
        {
            self.least_rtt = Some((rtt_ns, now_ns));
        }
        if expired && self.mode != Mode::ProbeRtt {
            self.save(answer.cwnd);
            self.mode = Mode::ProbeRtt;
            self.probe.until_ns = None;
        }
        if self.mode != Mode::ProbeRtt {
            return None;
        }
        let until = answer.delivered + answer.in_flight as u64;
        let from = match self.probe.excluded {
            Some((from, before)) if answer.delivered <= before => from,
            _ => answer.delivered,
        };
        self.probe.excluded = Some((from, until));
        match self.probe.until_ns {
            None if answer.in_flight as f64 <= LEAST_WINDOW => {
                self.probe.until_ns = Some(now_ns + PROBE_RTT_NS);
                self.probe.has_seen_round = false;
                self.round_end = answer.delivered;
            }
            Some(until_ns) => {
                self.probe.has_seen_round |= self.new_round;
                if self.probe.has_seen_round && now_ns > until_ns {
                    self.least_rtt = self.least_rtt.map(|(rtt_ns, _)| (rtt_ns, now_ns));
                    match self.pipe.is_reached {
                        true => self.cruise(now_ns),
                        false => self.mode = Mode::Startup,
                    }
                    return Some(self.recovery.window_before);
                }
            }
            None => {}
        }
        None
    }

    fn save(&mut self, cwnd: f64) {
        let recovery = &mut self.recovery;
        let is_good = recovery.repair == Repair::None && self.mode != Mode::ProbeRtt;
        recovery.window_before = if is_good {
            cwnd
        } else {
            recovery.window_before.max(cwnd)
        };
    }

    fn update_gains(&mut self) {
        self.pacing_gain = match self.mode {
            Mode::Startup => STARTUP_GAIN,
            Mode::Drain => 1.0 / STARTUP_GAIN,
            Mode::ProbeBandwidth { .. } if self.long_term.rate().is_some() => 1.0,
            Mode::ProbeBandwidth { place, .. } => CYCLE[place],
            Mode::ProbeRtt => 1.0,
        };
        let rate = PACED_SHARE * self.pacing_gain * self.rate();
        if self.pipe.is_reached || self.pacing_rate.is_some_and(|before| rate > before) {
            self.pacing_rate = Some(rate);
        }
    }

    /// The window where packets are conserved, and otherwise that from which it grows.
    fn repaired(&mut self, answer: &Answer, cwnd: f64) -> (f64, bool) {
        let mut cwnd = cwnd;
        let newly = answer.newly_delivered as f64;
        if answer.newly_lost > 0 {
            cwnd = (cwnd - answer.newly_lost as f64).max(1.0);
        }
        let before = std::mem::replace(&mut self.recovery.repair, answer.repair);
        if answer.repair == Repair::Losses && before != Repair::Losses {
            self.recovery.conserves_packets = true;
            self.round_end = answer.delivered;
            cwnd = answer.in_flight as f64 + newly;
        } else if answer.repair == Repair::None && before != Repair::None {
            cwnd = cwnd.max(self.recovery.window_before);
            self.recovery.conserves_packets = false;
        }
        if self.recovery.conserves_packets {
            return (cwnd.max(answer.in_flight as f64 + newly), true);
        }
        (cwnd, false)
    }

    fn window(&mut self, answer: &Answer, cwnd: f64) -> f64 {
        let newly = answer.newly_delivered as f64;
        if newly == 0.0 {
            return cwnd;
        }
        let (cwnd, conserves) = self.repaired(answer, cwnd);
        if conserves {
            return cwnd;
        }
        let rate = self.rate();
        let gain = match self.mode {
            Mode::Startup | Mode::Drain => STARTUP_GAIN,
            Mode::ProbeBandwidth { .. } => WINDOW_GAIN,
            Mode::ProbeRtt => 1.0,
        };
        let extra = match self.pipe.is_reached {
            true => {
                let [one, other] = self.aggregation.most;
                one.max(other).min(rate * MOST_AGGREGATION_S).floor()
            }
            false => 0.0,
        };
        let target = self.quantized(self.product(rate, gain) + extra);
        let grown = if self.pipe.is_reached {
            (cwnd + newly).min(target)
        } else if cwnd < target || (answer.delivered as f64) < self.initial_window {
            cwnd + newly
        } else {
            cwnd
        };
        grown.max(LEAST_WINDOW)
    }
}

impl Controller for LinuxBbr {
    fn grow(&mut self, cwnd: f64, _acked: Acked) -> f64 {
        cwnd
    }

    fn on_loss(&mut self, cwnd: f64, _in_flight: f64) -> f64 {
        self.save(cwnd);
        cwnd
    }

    fn has_own_window(&self) -> bool {
        true
    }

    fn on_answer(&mut self, answer: Answer) -> Option<f64> {
        if self.pacing_rate.is_none() {
            self.pacing_rate = self.pacing_rate(answer.smoothed_rtt_ns);
        }
        self.update_rate(&answer);
        self.update_cycle(&answer);
        self.update_start(&answer);
        let restored = self.update_rtt(&answer).map(|cwnd| cwnd.max(answer.cwnd));
        self.update_gains();
        let cwnd = self.window(&answer, restored.unwrap_or(answer.cwnd));
        Some(match self.mode {
            Mode::ProbeRtt => cwnd.min(LEAST_WINDOW),
            _ => cwnd,
        })
    }

    /// The window after a timeout with this many segments still in flight.
    fn on_timeout(&mut self, in_flight: f64) -> Option<f64> {
        self.recovery.repair = Repair::Timeout;
        self.pipe.rate = 0.0;
        Some(in_flight + 1.0)
    }

    fn restart(&mut self) {
        (self.pipe.rate, self.pipe.rounds_without_growth) = (0.0, 0);
        self.long_term = LongTerm::default();
    }

    fn in_startup(&self) -> Option<bool> {
        Some(self.mode == Mode::Startup)
    }

    fn pacing_rate(&self, smoothed_rtt_ns: i64) -> Option<f64> {
        let rtt_ns = if smoothed_rtt_ns > 0 {
            smoothed_rtt_ns
        } else {
            NO_RTT_YET_NS
        };
        let first = PACED_SHARE * STARTUP_GAIN * self.initial_window * 1e9 / rtt_ns as f64;
        Some(self.pacing_rate.unwrap_or(first))
    }

    /// As Linux without the queueing discipline `fq`.
    fn paces_in_its_host(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::RateSample;

    const RTT_NS: i64 = 50_000_000;

    /// A connection that receives one acknowledgment in each round trip.
    struct Rounds {
        bbr: LinuxBbr,
        cwnd: f64,
        now_ns: i64,
        delivered: u64,
        lost: u64,
    }

    impl Rounds {
        fn new() -> Self {
            Self {
                bbr: LinuxBbr::new(10.0),
                cwnd: 10.0,
                now_ns: 0,
                delivered: 0,
                lost: 0,
            }
        }

        /// All of the window is acknowledged, at this rate, but for lost segments.
        fn round(&mut self, per_s: f64, in_flight: usize, lost: u64, repair: Repair) {
            let newly_delivered = self.cwnd as u64 - lost;
            let sample = RateSample {
                segments_per_s: per_s,
                delivered_before: self.delivered,
                latest_before: self.delivered,
                whole_per_s: per_s,
                is_valid: true,
            };
            self.now_ns += RTT_NS + 1;
            self.delivered += newly_delivered;
            self.lost += lost;
            let cwnd = self.bbr.on_answer(Answer {
                now_ns: self.now_ns,
                rate: Some(sample),
                rtt_ns: Some(RTT_NS),
                smoothed_rtt_ns: RTT_NS,
                in_flight,
                in_flight_before: self.cwnd as usize,
                delivered: self.delivered,
                newly_delivered,
                lost: self.lost,
                newly_lost: lost,
                starved: false,
                cwnd: self.cwnd,
                repair,
                next_send_ns: self.now_ns,
            });
            self.cwnd = cwnd.unwrap();
        }

        /// In steady state at 400 segments a second: 20 in a round trip.
        fn steady() -> Self {
            let mut rounds = Self::new();
            for rate in [200.0, 400.0, 400.0, 400.0, 400.0] {
                rounds.round(rate, 10, 0, Repair::None);
            }
            rounds
        }
    }

    #[test]
    fn three_rounds_without_growth_end_the_start_up_and_the_window_is_twice_the_product_and_what_hosts_keep_back()
     {
        let rounds = Rounds::steady();
        assert!(matches!(rounds.bbr.mode, Mode::ProbeBandwidth { .. }));
        assert_eq!(rounds.bbr.product(400.0, 2.0), 40.0);
        // Three times two segments, an even number, and two more while it probes.
        let mut bbr = rounds.bbr;
        bbr.mode = Mode::ProbeBandwidth {
            place: 2,
            since_ns: 0,
        };
        assert_eq!(bbr.quantized(39.0), 46.0);
        bbr.mode = Mode::ProbeBandwidth {
            place: 0,
            since_ns: 0,
        };
        assert_eq!(bbr.quantized(39.0), 48.0);
    }

    #[test]
    fn the_first_round_of_a_recovery_sends_no_more_than_arrives_and_its_end_restores_the_window() {
        let mut rounds = Rounds::steady();
        let before = rounds.cwnd;
        rounds.bbr.on_loss(before, before);
        rounds.round(400.0, 12, 5, Repair::Losses);
        let arrived = before.trunc() - 5.0;
        assert_eq!(rounds.cwnd, 12.0 + arrived);
        rounds.cwnd = 8.0;
        rounds.round(400.0, 4, 0, Repair::None);
        assert!(
            rounds.cwnd >= before.min(rounds.bbr.quantized(40.0)),
            "{}",
            rounds.cwnd
        );
    }

    #[test]
    fn it_paces_one_hundredth_below_the_largest_rate() {
        let rounds = Rounds::steady();
        let gain = rounds.bbr.pacing_gain;
        assert_eq!(rounds.bbr.pacing_rate(RTT_NS), Some(0.99 * gain * 400.0));
    }
}
