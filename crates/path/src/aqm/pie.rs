//! Proportional integral controller enhanced (RFC 8033).

use std::collections::VecDeque;

use crate::element::with_overhead;
use crate::queue::Places;
use crate::transmitter::Transmitter;
use crate::{Arrival, Header, Limit, Outcome, PathElement, Random};

/// PIE (RFC 8033, sections 4 and 5.1): arriving packets are dropped with a probability that a controller
/// adjusts every 15 ms, so that the delay stays near a target of 15 ms; after a quiet time bursts of 150 ms
/// pass.
///
/// Drops are spread as in section 5.4, Linux and FreeBSD. The delay is that of the packet sent last,
/// as in Linux: it lags behind that of a packet that arrives now. Of the optional parts of the RFC,
/// turning off when idle (section 5.3) is left out. [`Pie::like_linux`] follows Linux where it departs from the RFC.
#[derive(Debug, Clone)]
pub struct Pie {
    line: Transmitter,
    limit: Limit,
    overhead_bytes: u32,
    rules: Rules,
    marks: bool,
    places: Places,
    waits: Waits,
    random: Random,
    control: Control,
}

/// How long packets wait: known at their arrival, and of use when their transmission begins.
#[derive(Debug, Clone, Default)]
struct Waits {
    /// Arrival and begin of the transmission.
    later: VecDeque<(i64, i64)>,
}

impl Waits {
    fn push(&mut self, arrived_ns: i64, start_ns: i64) {
        self.later.push_back((arrived_ns, start_ns));
    }

    /// The next transmission that has begun by then: its begin, and how long its packet waited; 0 if it left an empty
    /// queue.
    fn next(&mut self, time_ns: i64) -> Option<(i64, i64)> {
        let (arrived_ns, start_ns) = *self.later.front().filter(|sent| sent.1 <= time_ns)?;
        self.later.pop_front();
        let leaves_others = (self.later.front()).is_some_and(|&(next_ns, _)| next_ns <= start_ns);
        let waited_ns = start_ns.saturating_sub(arrived_ns);
        Some((start_ns, if leaves_others { waited_ns } else { 0 }))
    }
}

/// The parameters of the controller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub target_ns: i64,
    pub period_ns: i64,
    /// As Linux (`sch_pie`) computes it:
    /// - The allowance for bursts decreases at each transmission by the time since the one before.
    /// - A delay is short if that of the packet sent last is, not that at the last update.
    /// - The probability grows by 2 % more in each update with a delay beyond 250 ms.
    /// - It may grow beyond 1, and then takes long to fall.
    /// - It falls by 1/64 in updates of an empty queue, not by 2 %, and not where packets have come since the last one
    ///   left it empty.
    pub like_linux: bool,
}

impl Rules {
    /// Those of RFC 8033, with this target.
    pub fn with_target(target_ns: i64) -> Self {
        Self {
            target_ns,
            period_ns: UPDATE_NS,
            like_linux: false,
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::with_target(TARGET_NS)
    }
}

/// The variables of RFC 8033, section 4; FQ-PIE has them for each flow queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Control {
    pub drop_probability: f64,
    /// Of the packet sent last; of [`Self::sent`].
    delay_ns: i64,
    sent_ns: Option<i64>,
    /// Packets wait, though the one sent last left an empty queue; of [`Self::advance_by_own`].
    refilled: bool,
    /// The delay in the update before.
    wait_before_ns: i64,
    burst_allowance_ns: i64,
    /// Sum of the probabilities of the packets since the last dropped one.
    accumulated: f64,
    /// `None` before the first packet.
    next_update_ns: Option<i64>,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            drop_probability: 0.0,
            delay_ns: 0,
            sent_ns: None,
            refilled: false,
            wait_before_ns: 0,
            burst_allowance_ns: MAX_BURST_NS,
            accumulated: 0.0,
            next_update_ns: None,
        }
    }
}

// RFC 8033, section 4 and appendix A.
const TARGET_NS: i64 = 15_000_000;
const UPDATE_NS: i64 = 15_000_000;
const MAX_BURST_NS: i64 = 150_000_000;
const ALPHA_HZ: f64 = 0.125;
const BETA_HZ: f64 = 1.25;
const MEAN_PACKET_BYTES: u64 = 1_500;
const QUIET_FACTOR: f64 = 0.98;
// Linux, beyond the RFC.
const LINUX_QUIET_FACTOR: f64 = 63.0 / 64.0;
const LONG_NS: i64 = 250_000_000;
const LONG_STEP: f64 = 0.02;
/// Its probability has 56 bits of a 64 bit number, and grows into the others.
const LINUX_MOST: f64 = 256.0;
/// Above this drop probability even ECN-capable packets are dropped (RFC 8033, section 5.2).
const MARK_LIMIT: f64 = 0.1;
/// No packet is dropped before the probabilities add up to the first of these, and each from the second on
/// (section 5.4).
const ACCUMULATED: [f64; 2] = [0.85, 8.5];
/// After this many updates without a packet, 30 s, the state has decayed to zero: 0.98^2000 is 10^-18.
const UPDATES_TO_FORGET: i64 = 2_000;

impl Pie {
    pub fn new(drain_rate_bps: u64, limit: Limit, seed: u64) -> Self {
        Self {
            line: Transmitter::new(drain_rate_bps),
            limit,
            overhead_bytes: 0,
            rules: Rules::default(),
            marks: false,
            places: Places::default(),
            waits: Waits::default(),
            random: Random::new(seed),
            control: Control::default(),
        }
    }

    pub fn with_target(mut self, target_ns: i64) -> Self {
        self.rules.target_ns = target_ns.max(1);
        self
    }

    /// Update the probability so often: Linux with 250 ticks a second does it every 20 ms.
    pub fn with_period(mut self, period_ns: i64) -> Self {
        self.rules.period_ns = period_ns.max(1);
        self
    }

    /// Follow Linux where it departs from the RFC, apart from its period.
    pub fn like_linux(mut self) -> Self {
        self.rules.like_linux = true;
        self
    }

    /// Mark packets instead of dropping them early, while the probability is low; see [`Header`].
    pub fn marking(mut self) -> Self {
        self.marks = true;
        self
    }

    with_overhead!();

    /// The updates and the transmissions until now, in turn.
    fn advance(&mut self, now_ns: i64) {
        let (control, rules) = (&mut self.control, self.rules);
        while let Some((start_ns, wait_ns)) = self.waits.next(now_ns) {
            control.advance_by_own(start_ns.saturating_sub(1), true, rules);
            control.sent(start_ns, wait_ns, rules);
        }
        control.advance_by_own(now_ns, !self.waits.later.is_empty(), rules);
    }
}

impl Control {
    /// Run the updates that are due; `wait_ns` returns the delay of a packet at a given time. It is called
    /// with each arrival, so that in between delays only fall, and the state of an empty queue does not
    /// change.
    pub fn advance(&mut self, now_ns: i64, rules: Rules, mut wait_ns: impl FnMut(i64) -> i64) {
        let period_ns = rules.period_ns;
        let mut due_ns = self
            .next_update_ns
            .unwrap_or(now_ns.saturating_add(period_ns));
        if now_ns.saturating_sub(due_ns) / period_ns >= UPDATES_TO_FORGET {
            *self = Self::default();
            due_ns = now_ns.saturating_add(period_ns);
        }
        while due_ns <= now_ns {
            let waited_ns = wait_ns(due_ns);
            if waited_ns == 0 && self.is_at_rest() {
                due_ns += now_ns.saturating_sub(due_ns) / period_ns * period_ns;
            } else {
                self.update(waited_ns, rules);
            }
            let Some(next_ns) = due_ns.checked_add(period_ns) else {
                break;
            };
            due_ns = next_ns;
        }
        self.next_update_ns = Some(due_ns);
    }

    /// The same with the delays that came by [`Self::sent`]; `waits` is true if packets waited until now.
    pub fn advance_by_own(&mut self, now_ns: i64, waits: bool, rules: Rules) {
        let delay_ns = self.delay_ns;
        self.refilled = rules.like_linux && waits;
        self.advance(now_ns, rules, |_| delay_ns);
    }

    /// A transmission begins; its packet waited so long, or 0 if it leaves an empty queue.
    pub fn sent(&mut self, start_ns: i64, wait_ns: i64, rules: Rules) {
        self.delay_ns = wait_ns;
        if rules.like_linux {
            let since_ns = (self.sent_ns).map_or(0, |sent_ns| start_ns.saturating_sub(sent_ns));
            self.burst_allowance_ns = self.burst_allowance_ns.saturating_sub(since_ns).max(0);
            self.sent_ns = Some(start_ns);
        }
    }

    /// True if updates with an empty queue change nothing.
    fn is_at_rest(&self) -> bool {
        self.drop_probability == 0.0
            && self.wait_before_ns == 0
            && self.burst_allowance_ns == MAX_BURST_NS
            && self.sent_ns.is_none()
    }

    /// Adjust the drop probability (RFC 8033, section 4.2, with the scaling of appendix A).
    fn update(&mut self, wait_ns: i64, rules: Rules) {
        let seconds = |ns: i64| ns as f64 / 1e9;
        let mut step = ALPHA_HZ * seconds(wait_ns.saturating_sub(rules.target_ns))
            + BETA_HZ * seconds(wait_ns.saturating_sub(self.wait_before_ns));
        // The closer to 0 the probability is, the smaller its steps.
        step /= match self.drop_probability {
            p if p < 0.000_001 => 2048.0,
            p if p < 0.000_01 => 512.0,
            p if p < 0.000_1 => 128.0,
            p if p < 0.001 => 32.0,
            p if p < 0.01 => 8.0,
            p if p < 0.1 => 2.0,
            _ => 1.0,
        };
        if self.drop_probability >= 0.1 {
            step = step.min(0.02);
        }
        if rules.like_linux && wait_ns > LONG_NS {
            step += LONG_STEP;
        }
        self.drop_probability += step;
        if wait_ns == 0 && self.wait_before_ns == 0 && !self.refilled {
            self.drop_probability *= match rules.like_linux {
                true => LINUX_QUIET_FACTOR,
                false => QUIET_FACTOR,
            };
        }
        let most = if rules.like_linux { LINUX_MOST } else { 1.0 };
        self.drop_probability = self.drop_probability.clamp(0.0, most);
        let short = |ns: i64| ns < rules.target_ns / 2;
        let quiet = self.drop_probability == 0.0 && short(wait_ns) && short(self.wait_before_ns);
        self.wait_before_ns = wait_ns;
        if quiet {
            self.burst_allowance_ns = MAX_BURST_NS;
            if rules.like_linux {
                (self.sent_ns, self.accumulated) = (None, 0.0);
            }
        } else if !rules.like_linux {
            let left_ns = self.burst_allowance_ns.saturating_sub(rules.period_ns);
            self.burst_allowance_ns = left_ns.max(0);
        }
    }

    /// True if a packet that arrives at `backlog_bytes` is to be dropped early.
    pub fn chooses(&mut self, rules: Rules, backlog_bytes: u64, random: &mut Random) -> bool {
        self.count(rules, backlog_bytes);
        let chosen = random.chance(self.spread(rules, backlog_bytes));
        if chosen {
            self.chosen();
        }
        chosen
    }

    /// Counts a packet that arrived at `backlog_bytes`, for spreading drops.
    pub fn count(&mut self, rules: Rules, backlog_bytes: u64) {
        if !self.rests(rules, backlog_bytes) {
            self.accumulated = if self.drop_probability > 0.0 {
                self.accumulated + self.drop_probability
            } else {
                0.0
            };
        }
    }

    /// Its drop probability if drops are spread.
    pub fn spread(&self, rules: Rules, backlog_bytes: u64) -> f64 {
        match self.alone(rules, backlog_bytes) {
            _ if self.accumulated < ACCUMULATED[0] => 0.0,
            probability if probability > 0.0 && self.accumulated >= ACCUMULATED[1] => 1.0,
            probability => probability,
        }
    }

    /// Its drop probability if each packet is drawn independently.
    pub fn alone(&self, rules: Rules, backlog_bytes: u64) -> f64 {
        if self.rests(rules, backlog_bytes) {
            0.0
        } else {
            self.drop_probability
        }
    }

    /// Called after it was dropped or marked.
    pub fn chosen(&mut self) {
        self.accumulated = 0.0;
    }

    /// True if no packet is dropped early: a burst passes, the delay is short, or the queue is (section 4.1).
    fn rests(&self, rules: Rules, backlog_bytes: u64) -> bool {
        let delay_ns = match rules.like_linux {
            true => self.delay_ns,
            false => self.wait_before_ns,
        };
        let calm = delay_ns < rules.target_ns / 2 && self.drop_probability < 0.2;
        self.burst_allowance_ns > 0 || calm || backlog_bytes <= 2 * MEAN_PACKET_BYTES
    }

    /// True if a packet may be marked instead of dropped: while the probability is low (section 5.1).
    pub fn may_mark(&self) -> bool {
        self.drop_probability <= MARK_LIMIT
    }
}

impl PathElement for Pie {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        self.arrive_with(packet, Header::default())
    }

    fn arrive_with(&mut self, packet: Arrival, header: Header) -> Outcome {
        let bytes = u64::from(packet.bytes) + u64::from(self.overhead_bytes);
        let now_ns = self.places.advance(packet.time_ns);
        self.advance(now_ns);
        let waits = self.line.free_ns() > now_ns;
        if waits && !self.limit.admits(self.places.backlog(), bytes) {
            if self.rules.like_linux {
                self.control.chosen();
            }
            return Outcome::Dropped;
        }
        let backlog_bytes = self.places.backlog().bytes;
        let chosen = (self.control).chooses(self.rules, backlog_bytes, &mut self.random);
        let may_mark = self.marks && header.ecn.is_capable();
        let mark = chosen && may_mark && self.control.may_mark();
        if chosen && !mark {
            return Outcome::Dropped;
        }
        let service = self.line.send(now_ns, bytes);
        self.waits.push(now_ns, service.start_ns);
        if service.start_ns > now_ns {
            self.places.hold(service.start_ns, bytes);
        }
        Outcome::leaves(service.end_ns, mark)
    }

    fn reset(&mut self) {
        self.line.reset();
        self.places.clear();
        self.waits = Waits::default();
        self.random.reset();
        self.control = Control::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay;

    const MS: i64 = 1_000_000;

    #[test]
    fn the_delay_is_that_of_the_packet_sent_last_and_nothing_once_the_queue_is_empty() {
        let mut waits = Waits::default();
        // Three packets of 10 ms each that arrive at once.
        for start_ms in [0, 10, 20] {
            waits.push(0, start_ms * MS);
        }
        assert_eq!(waits.next(9 * MS), Some((0, 0)));
        assert_eq!(waits.next(9 * MS), None);
        assert_eq!(waits.next(20 * MS), Some((10 * MS, 10 * MS)));
        assert_eq!(
            waits.next(20 * MS),
            Some((20 * MS, 0)),
            "it left an empty queue"
        );
    }

    #[test]
    fn linux_raises_the_probability_further_while_packets_wait_longer_than_250_ms() {
        for (like_linux, beyond) in [(false, 0.0), (true, 0.02)] {
            let mut control = Control {
                drop_probability: 0.2,
                wait_before_ns: 260 * MS,
                ..Control::default()
            };
            let rules = Rules {
                like_linux,
                ..Rules::default()
            };
            control.update(260 * MS, rules);
            // 0.125 Hz of 245 ms are more than the 2 % that a step may have
            assert!((control.drop_probability - (0.22 + beyond)).abs() < 1e-12);
        }
    }

    #[test]
    fn the_burst_allowance_of_linux_decreases_with_transmissions_and_that_of_the_rfc_with_updates()
    {
        for (like_linux, left_ms) in [(false, 135), (true, 50)] {
            let rules = Rules {
                like_linux,
                ..Rules::default()
            };
            let mut control = Control::default();
            control.advance_by_own(0, false, rules);
            for start_ms in [10, 110] {
                control.sent(start_ms * MS, 20 * MS, rules);
            }
            control.advance_by_own(15 * MS, true, rules);
            assert_eq!(control.burst_allowance_ns, left_ms * MS);
        }
    }

    #[test]
    fn a_period_of_its_own_sets_the_times_of_updates() {
        let rules = Rules {
            period_ns: 20 * MS,
            ..Rules::default()
        };
        let mut control = Control::default();
        control.advance(0, rules, |_| 0);
        let mut asked = Vec::new();
        control.advance(65 * MS, rules, |due_ns| {
            asked.push(due_ns / MS);
            30 * MS
        });
        assert_eq!(asked, [20, 40, 60]);
    }

    #[test]
    fn an_idle_time_has_the_effect_of_its_updates() {
        let rules = Rules::default();
        for (probability, updates) in [(0.0, 3), (0.004, 700), (1.0, 1_900)] {
            let mut control = Control {
                drop_probability: probability,
                next_update_ns: Some(0),
                ..Control::default()
            };
            let mut stepped = control;
            let now_ns = updates * UPDATE_NS + 1;
            control.advance(now_ns, rules, |_| 0);
            (0..=updates).for_each(|_| stepped.update(0, rules));
            assert_eq!(control.drop_probability, stepped.drop_probability);
            assert_eq!(control.burst_allowance_ns, stepped.burst_allowance_ns);
            assert_eq!(control.next_update_ns, Some((updates + 1) * UPDATE_NS));
        }
    }

    fn steady(packets: i64, every_ns: i64) -> Vec<Arrival> {
        (0..packets)
            .map(|i| Arrival {
                time_ns: i * every_ns,
                bytes: 1_500,
            })
            .collect()
    }

    #[test]
    fn under_steady_overload_it_drops_the_excess_and_keeps_the_delay_near_its_target() {
        // 1500 bytes every 0.9 ms into 1 ms of service: 10 % must be dropped. 60 s, the first 20 for the
        // controller to settle.
        let arrivals = steady(66_667, 900_000);
        let outcomes = replay(
            &mut Pie::new(12_000_000, Limit::packets(1_000), 1),
            &arrivals,
        );
        let settled = 22_222;
        let dropped = outcomes[settled..]
            .iter()
            .filter(|o| o.is_dropped())
            .count() as f64;
        let share = dropped / (outcomes.len() - settled) as f64;
        assert!((share - 0.1).abs() < 0.01, "{share}");
        let waits_ms: Vec<f64> = arrivals[settled..]
            .iter()
            .zip(&outcomes[settled..])
            .filter_map(|(a, o)| Some((o.departure_ns()? - a.time_ns) as f64 / 1e6))
            .collect();
        let mean_ms = waits_ms.iter().sum::<f64>() / waits_ms.len() as f64;
        assert!(
            (10.0..22.0).contains(&mean_ms),
            "mean time in the element {mean_ms} ms, target 15 ms + 1 ms of service"
        );
    }

    #[test]
    fn a_burst_after_a_quiet_time_passes() {
        let burst = vec![
            Arrival {
                time_ns: 0,
                bytes: 1_500
            };
            100
        ];
        let outcomes = replay(&mut Pie::new(12_000_000, Limit::packets(1_000), 1), &burst);
        assert!(outcomes.iter().all(|o| !o.is_dropped()));
    }

    #[test]
    fn drops_keep_apart() {
        // 2 % overload: one of fifty is dropped, and none within 0.85 times fifty of the one before
        let outcomes = replay(
            &mut Pie::new(12_000_000, Limit::NONE, 1),
            &steady(60_000, 980_000),
        );
        let dropped: Vec<usize> = (20_000..60_000)
            .filter(|&index| outcomes[index].is_dropped())
            .collect();
        let apart = |two: &[usize]| two[1] - two[0];
        let closest = dropped.windows(2).map(apart).min();
        assert!(closest.is_some_and(|packets| packets > 10), "{closest:?}");
    }

    #[test]
    fn a_jump_of_centuries_is_over_at_once() {
        let arrivals = [i64::MIN, 0, i64::MAX].map(|time_ns| Arrival {
            time_ns,
            bytes: 1_500,
        });
        assert_eq!(
            replay(&mut Pie::new(12_000_000, Limit::NONE, 1), &arrivals).len(),
            3
        );
    }

    #[test]
    fn packets_are_marked_at_low_probability_and_dropped_when_marks_do_not_help() {
        // Senders that ignore 2 % of marks drive the probability past a tenth, where the RFC drops.
        let outcomes = replay(
            &mut Pie::new(12_000_000, Limit::NONE, 1).marking(),
            &steady(5_000, 980_000),
        );
        let early: Vec<&Outcome> = outcomes
            .iter()
            .filter(|o| !matches!(o, Outcome::Departs { .. }))
            .collect();
        assert!(
            early.len() > 50
                && early[..10]
                    .iter()
                    .all(|o| matches!(o, Outcome::Marked { .. }))
        );
        assert!(early.iter().any(|o| o.is_dropped()));
    }
}
