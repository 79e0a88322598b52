//! The laws replayed along the observations, with a search for the parameters of each.

use super::episode;
use super::queue::{Item, Queue};
use super::search::{Score, Search, Tried};
use super::{Law, LawFit, Seeing};
use crate::fit::profile::Interval;

/// Likelihoods of drops and marks by law, over all queues.
pub(super) struct Hazards<'a> {
    pub(super) queues: &'a [Queue],
    pub(super) events: f64,
    pub(super) packets: f64,
    /// Uncertainty of the time at which a drop is due: the head may be removed before its turn, and
    /// timestamps vary.
    pub(super) near_s: f64,
    /// Uncertainty of delays, seconds.
    pub(super) noise_s: f64,
    /// Transmission time of a full packet, seconds.
    pub(super) packet_s: f64,
    /// Intervals of CoDel that episodes of drops show.
    shown_intervals_s: Vec<f64>,
}

/// A parameter's interval ends where the drops become e^2 times less likely: half the 95 % quantile of
/// chi-squared with one degree of freedom.
pub(super) const REFUTED_NATS: f64 = 1.92;
/// The share of all drops attributed to other causes: they affect any packet.
pub(super) const STRAY_SHARE: f64 = 0.05;

pub(super) const TARGETS_S: [f64; 13] = [
    1e-3, 1.5e-3, 2.5e-3, 4e-3, 5e-3, 6.5e-3, 8e-3, 10e-3, 12.5e-3, 15e-3, 20e-3, 30e-3, 50e-3,
];
/// Largest uncertainty of the due time as a share of an interval: beyond it every drop would be due.
const MOST_UNCERTAIN: f64 = 2.0;

impl<'a> Hazards<'a> {
    pub fn new(queues: &'a [Queue], events: usize, packets: usize, seeing: Seeing) -> Self {
        let longest_service_s = queues
            .iter()
            .flat_map(|queue| &queue.items)
            .map(|item| item.service_s)
            .fold(0.0, f64::max);
        let near_s = 2.0 * longest_service_s + 2.0 * seeing.noise_s;
        Self {
            queues,
            events: events as f64,
            packets: packets as f64,
            near_s,
            shown_intervals_s: episode::intervals_s(queues, near_s),
            noise_s: seeing.noise_s,
            packet_s: longest_service_s,
        }
    }

    /// Log-likelihood of drops at one rate for all packets.
    pub(super) fn chance_nats(&self) -> f64 {
        nats_of_rate(self.events, self.packets)
    }

    pub(super) fn cost(&self, parameters: f64) -> f64 {
        0.5 * parameters * self.events.ln()
    }

    /// CoDel or COBALT; `in_all`: packets in other queues count as backlog too, as in Linux's fq_codel.
    pub fn codel(&self, law: Law, in_all: bool) -> LawFit {
        // a law is excluded if its drops do not occur when they are due
        let are_due = |due: (f64, f64)| {
            due.0 >= 0.3 * self.events && due.0 / due.1.max(1.0) >= self.events / self.packets
        };
        let score = |target_s: f64, interval_s: f64| {
            if interval_s < MOST_UNCERTAIN * self.near_s {
                return Score::NONE;
            }
            let table = self.replayed(law, in_all, target_s, interval_s);
            let each = table.iter();
            let nats = each
                .map(|(events, packets)| nats_of_rate(*events, *packets))
                .sum();
            // with the true parameters all may seem slightly early, because of the measurement of delays
            let if_due = |due| if are_due(due) { nats } else { f64::MIN };
            Score {
                nats: if_due(near_due(&table)),
                strict_nats: if_due(table[DUE]),
            }
        };
        let search = Search::new(score, &self.shown_intervals_s);
        let Tried {
            target_s,
            interval_s,
            ..
        } = search.best;
        let refuted_nats =
            REFUTED_NATS + doubt_nats(&self.replayed(law, in_all, target_s, interval_s));
        // the law is evaluated at a packet's turn: successive delays differ by a packet's service time; and a
        // target is known no better than the delays
        let unsure_s = self.packet_s + self.noise_s;
        let between_looks =
            |one: &Tried| [-unsure_s, unsure_s].map(|step_s| (one.target_s + step_s).max(0.0));
        let likely = || search.likely(refuted_nats);
        LawFit {
            law,
            nats: search.strict_nats() - self.chance_nats() - self.cost(5.0),
            target_s: spread(target_s, likely().flat_map(between_looks)),
            interval_s: Some(spread(interval_s, likely().map(|one| one.interval_s))),
        }
    }

    /// Drops and packets by the states of CoDel's timing.
    fn replayed(&self, law: Law, in_all: bool, target_s: f64, interval_s: f64) -> Table {
        let mut table = [(0.0, 0.0); CODEL_STATES];
        for queue in self.queues {
            match law {
                Law::Cobalt => {
                    Cobalt::default().lead(queue, target_s, interval_s, self.near_s, &mut table)
                }
                _ => {
                    let mut codel = CoDel {
                        in_all,
                        ..CoDel::default()
                    };
                    codel.lead(queue, target_s, interval_s, self.near_s, &mut table)
                }
            }
        }
        table
    }

    /// Log-likelihood from the drop probability of each packet, with a small share for other causes.
    pub(super) fn likelihood(&self, queue: &Queue, probabilities: Vec<f64>) -> f64 {
        let stray = STRAY_SHARE * self.events / self.packets;
        let of = |(item, probability): (&Item, f64)| {
            let hazard = (stray + (1.0 - stray) * probability).min(0.99);
            if item.chosen {
                hazard.ln()
            } else {
                (-hazard).ln_1p()
            }
        };
        let pairs = queue.items.iter().zip(probabilities);
        pairs.filter(|(item, _)| !item.hidden).map(of).sum()
    }
}

/// Log-likelihood of `events` among `packets` at their own rate.
pub(super) fn nats_of_rate(events: f64, packets: f64) -> f64 {
    let part = |count: f64| {
        if count > 0.0 {
            count * (count / packets).ln()
        } else {
            0.0
        }
    };
    part(events) + part(packets - events)
}

pub(super) fn spread(value: f64, likely: impl Iterator<Item = f64>) -> Interval {
    let (low, high) = likely.fold((value, value), |(low, high), one| {
        (low.min(one), high.max(one))
    });
    // the search has discrete steps
    Interval {
        value,
        low: Some(0.95 * low),
        high: Some(1.05 * high),
    }
}

/// States of CoDel's timing: no drop is due, one is nearly due, due, or overdue.
const CODEL_STATES: usize = 4;
const NEARLY: usize = 1;
const DUE: usize = 2;

/// Drops and packets in each of the states.
type Table = [(f64, f64); CODEL_STATES];

/// Drops and packets when a drop is due, or nearly.
fn near_due(table: &Table) -> (f64, f64) {
    let ((events, packets), (more_events, more_packets)) = (table[NEARLY], table[DUE]);
    (events + more_events, packets + more_packets)
}

/// Standard deviations of the number of drops at other than due times by which a likelihood may be wrong.
const DOUBT: f64 = 3.0;

/// The difference of the likelihoods of two parameters that chance causes although both are equally good,
/// nats. Parameters differ by the drops that are due with one of them and not with the other. Each of those
/// has a weight from the drop rates in and out of due times. Drops that the law, replayed along noisy delays,
/// leaves unexplained are random: so their number varies by its square root, and by at least one.
fn doubt_nats(table: &Table) -> f64 {
    let due = near_due(table);
    let (events, packets) = table
        .iter()
        .fold((-due.0, -due.1), |(events, packets), state| {
            (events + state.0, packets + state.1)
        });
    let rate = |events: f64, packets: f64| (events + 0.5) / (packets + 1.0);
    let weighs_nats = (rate(due.0, due.1) / rate(events, packets)).ln();
    DOUBT * weighs_nats.max(0.0) * (events + 1.0).sqrt()
}

/// The state at `late_s` after a drop is due.
fn state(late_s: Option<f64>, near_s: f64) -> usize {
    match late_s {
        Some(late_s) if late_s > 2.0 * near_s => 3,
        Some(late_s) if late_s >= 0.0 => DUE,
        Some(late_s) if late_s > -near_s => NEARLY,
        _ => 0,
    }
}

/// Counts an item in its state: chosen, and in total.
fn count(state: &mut (f64, f64), item: &Item) {
    if !item.hidden {
        state.0 += f64::from(u8::from(item.chosen));
        state.1 += 1.0;
    }
}

/// A count that is wrong by one in eight, as after drops that no capture holds, moves the next drop by this
/// share of the time to it ...
const COUNT_NOISE: f64 = 0.06;
/// ... and smaller counts are not wrong.
const DOUBTFUL_COUNT: f64 = 8.0;

/// Uncertainty of the time of a drop, `step_s` after the one before.
fn noise_s(stamps_s: f64, count: f64, step_s: f64) -> f64 {
    if count < DOUBTFUL_COUNT {
        stamps_s
    } else {
        stamps_s.max(COUNT_NOISE * step_s)
    }
}

/// Less than this behind a packet is no queue: the RFC's "maximum packet size".
const MAX_PACKET_BYTES: f64 = 1_514.0;

/// RFC 8289, section 5, replayed along the observed drops.
#[derive(Default)]
struct CoDel {
    in_all: bool,
    first_above_s: Option<f64>,
    dropping: bool,
    drop_next_s: f64,
    count: f64,
    last_count: f64,
}

impl CoDel {
    fn lead(
        &mut self,
        queue: &Queue,
        target_s: f64,
        interval_s: f64,
        near_s: f64,
        table: &mut Table,
    ) {
        let stamps_s = near_s;
        for item in &queue.items {
            let now_s = item.turn_s;
            let near_s = noise_s(
                stamps_s,
                self.count,
                interval_s / self.count.max(1.0).sqrt(),
            );
            let behind_bytes = if self.in_all {
                item.behind_in_all_bytes
            } else {
                item.behind_bytes
            };
            let above = item.wait_s() >= target_s && behind_bytes > MAX_PACKET_BYTES;
            if above && self.first_above_s.is_none() {
                self.first_above_s = Some(now_s + interval_s);
            } else if !above && !item.chosen {
                self.first_above_s = None;
            }
            let since_s = self.first_above_s.map(|first_s| now_s - first_s);
            if since_s.is_none_or(|since_s| since_s < -near_s) {
                self.dropping = false;
            }
            let late_s = since_s.map(|since_s| {
                if self.dropping {
                    since_s.min(now_s - self.drop_next_s)
                } else {
                    since_s
                }
            });
            // if the outcome is unknown, the law's own decision
            let chosen = item.chosen || (item.hidden && late_s.is_some_and(|late_s| late_s >= 0.0));
            count(&mut table[state(late_s, near_s)], item);
            if !chosen {
                continue;
            }
            if self.dropping {
                self.count += 1.0;
                // a drop at another time restarts the law
                let on_time = (now_s - self.drop_next_s).abs() <= 2.0 * near_s;
                let from_s = if on_time { self.drop_next_s } else { now_s };
                self.drop_next_s = from_s + interval_s / self.count.sqrt();
            } else if late_s.is_some_and(|late_s| late_s > -near_s) {
                let delta = self.count - self.last_count;
                let recent = now_s - self.drop_next_s < 16.0 * interval_s;
                self.count = if delta > 1.0 && recent { delta } else { 1.0 };
                self.last_count = self.count;
                self.dropping = true;
                self.drop_next_s = now_s + interval_s / self.count.sqrt();
            }
        }
    }
}

/// COBALT, the CoDel of cake, likewise.
#[derive(Default)]
struct Cobalt {
    dropping: bool,
    drop_next_s: f64,
    count: f64,
}

impl Cobalt {
    fn lead(
        &mut self,
        queue: &Queue,
        target_s: f64,
        interval_s: f64,
        near_s: f64,
        table: &mut Table,
    ) {
        let step_s = |count: f64| interval_s / count.max(1.0).sqrt();
        let stamps_s = near_s;
        for item in &queue.items {
            let now_s = item.turn_s;
            let near_s = noise_s(stamps_s, self.count, step_s(self.count));
            if item.wait_s() > target_s {
                if !self.dropping {
                    self.dropping = true;
                    self.drop_next_s = now_s + step_s(self.count);
                }
                self.count = self.count.max(1.0);
            } else if !item.chosen {
                self.dropping = false;
            }
            let late_s = self.dropping.then_some(now_s - self.drop_next_s);
            let chosen = item.chosen || (item.hidden && late_s.is_some_and(|late_s| late_s >= 0.0));
            count(&mut table[state(late_s, near_s)], item);
            // the last packet of a queue is never dropped; its drop counts nevertheless
            let spared =
                !chosen && item.behind_bytes <= 0.0 && late_s.is_some_and(|late_s| late_s >= 0.0);
            if chosen || spared {
                if late_s.is_some_and(|late_s| late_s > -near_s) {
                    self.count += 1.0;
                    let on_time = (now_s - self.drop_next_s).abs() <= 2.0 * near_s;
                    let from_s = if on_time { self.drop_next_s } else { now_s };
                    self.drop_next_s = from_s + step_s(self.count);
                }
            } else if !self.dropping {
                while self.count > 0.0 && now_s >= self.drop_next_s {
                    self.count -= 1.0;
                    self.drop_next_s += step_s(self.count);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_at_other_than_due_times_make_a_law_doubtful() {
        // 40 drops in 60 packets when they are due, and at the same rates 36 more at other times
        let sure = doubt_nats(&[(0.0, 3_000.0), (10.0, 20.0), (30.0, 40.0), (0.0, 0.0)]);
        let unsure = doubt_nats(&[(20.0, 3_000.0), (10.0, 20.0), (30.0, 40.0), (16.0, 900.0)]);
        // by one drop, or six, each with a weight of the logarithm of the likelihood ratio of due drops
        assert!((20.0..30.0).contains(&sure), "{sure}");
        assert!((65.0..90.0).contains(&unsure), "{unsure}");
        assert_eq!(
            doubt_nats(&[(30.0, 60.0), (1.0, 50.0), (0.0, 50.0), (0.0, 0.0)]),
            0.0
        );
    }

    #[test]
    fn the_last_packet_of_a_queue_is_spared_and_counts_as_dropped() {
        let item = |turn_s: f64, behind_bytes: f64, chosen: bool| Item {
            arrival_s: turn_s - 0.02,
            turn_s,
            service_s: 1e-3,
            behind_bytes,
            behind_in_all_bytes: behind_bytes,
            before: 1,
            chosen,
            hidden: false,
        };
        // the second drop occurs an interval over the square root of two after the first was due
        let items = vec![
            item(0.0, 1_500.0, false),
            item(0.1, 0.0, false),
            item(0.171, 1_500.0, true),
        ];
        let mut table = [(0.0, 0.0); CODEL_STATES];
        Cobalt::default().lead(&Queue { items }, 5e-3, 0.1, 1e-3, &mut table);
        assert_eq!(table[DUE].0, 1.0, "{table:?}");
    }
}
