//! Laws with a probability that is adjusted to the delay: PIE, and the classic queue of DualPI2.
//!
//! The probability, the times of the controller's updates, and its exact inputs are not observable; and it
//! accumulates its inputs. So it is followed by a particle filter (Gordon, Salmond and Smith 1993): many
//! controllers update at different times, each with errors of its own, and those that made the observations
//! likely are continued.

use super::laws::{Hazards, REFUTED_NATS, STRAY_SHARE, TARGETS_S, spread};
use super::queue::{Item, Queue};
use super::{Law, LawFit};
use crate::Random;
use crate::aqm::{PieControl, PieRules};

/// RFC 8033, section 4.
const PIE_UPDATE_S: f64 = 0.015;
// RFC 9332, appendix A.1.
const DUAL_UPDATE_S: f64 = 0.016;
/// The state has decayed to zero after this time without a packet.
const DUAL_FORGETS_S: f64 = 60.0;
const DUAL_ALPHA_HZ: f64 = 0.16;
const DUAL_BETA_HZ: f64 = 3.2;

const PARTICLES: usize = 48;
/// Spread, in the logarithm, of the drop share of resampled particles: without it all become equal (the
/// paper's "roughening", and its constant). With more, any share that changes slowly is followed, including
/// RED's.
const ROUGHENING: f64 = 0.2;
/// Particles are resampled if this share of them or less carries the weight.
const FEWEST_SHARE: f64 = 0.5;
/// A law is excluded if it is less likely than another by this many nats: odds of 1 to 10^13.
const HOPELESS_NATS: f64 = 30.0;
/// The filter's likelihoods scatter by chance, more with every drop: a target is excluded only if it is less
/// likely than another by this many nats for each root of the number of drops, and as with other laws besides.
/// Without it, the intervals of PIE included the target in 7 of 16 explanations of simulated pairs, with it in 15.
const SCATTER_NATS: f64 = 1.5;
/// Most updates of a controller that are followed: 50 minutes, without the pauses in which its state decays.
/// Each update is calculated for every particle, form and target, two thousand in all.
const MOST_LOOKS: f64 = 200_000.0;
/// Packets that may have been queued beyond those counted: PIE never drops from a queue of up to two average
/// packets, but some implementations count the packet in transmission too, or link headers. Whether a drop is
/// possible must not depend on that.
const UNSURE_PACKETS: u32 = 1;
/// Shorter targets are below those that a controller with updates every 15 ms can maintain.
const SHORTEST_TARGET_S: f64 = 4e-3;

impl Hazards<'_> {
    /// Fits PIE and similar laws: a controller that updates every few milliseconds. If it explains the drops
    /// far less well than another law, which is `rival_nats` above chance, it is stopped early.
    pub fn controlled(&self, law: Law, rival_nats: f64) -> LawFit {
        let stray = STRAY_SHARE * self.events / self.packets;
        let as_good_nats = REFUTED_NATS + SCATTER_NATS * self.events.sqrt();
        let mut hopeless = self.chance_nats() + rival_nats - HOPELESS_NATS;
        let mut tried: Vec<(f64, f64)> = Vec::new();
        let is_followed = self.queues.iter().map(looks).sum::<f64>() <= MOST_LOOKS;
        for target_s in TARGETS_S {
            if !is_followed {
                tried.push((f64::MIN, target_s));
                continue;
            }
            for form in Form::of(law) {
                if target_s < SHORTEST_TARGET_S {
                    continue;
                }
                let controlled = Controlled {
                    form: *form,
                    target_s,
                    noise_s: 0.5 * self.near_s,
                    stray,
                };
                let mut nats = 0.0;
                for queue in self.queues {
                    nats += controlled.nats(queue, hopeless - nats);
                }
                if nats < hopeless {
                    nats = f64::MIN;
                }
                hopeless = hopeless.max(nats - as_good_nats);
                tried.push((nats, target_s));
            }
        }
        let best = *tried
            .iter()
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .expect("targets");
        let likely = tried.iter().filter(|one| one.0 > best.0 - as_good_nats);
        let forms = Form::of(law).len() as f64;
        LawFit {
            law,
            nats: best.0 - self.chance_nats() - self.cost(2.0) - forms.ln(),
            target_s: spread(best.1, likely.map(|one| one.1)),
            interval_s: None,
        }
    }
}

/// Number of updates of a controller over a queue, without pauses in which its state decays.
fn looks(queue: &Queue) -> f64 {
    let spans = queue.items.windows(2).map(|two| {
        let (gap_s, turned_s) = (
            two[1].arrival_s - two[0].arrival_s,
            two[1].turn_s - two[0].turn_s,
        );
        gap_s.max(turned_s)
    });
    let watched = spans.filter(|span_s| (0.0..=DUAL_FORGETS_S).contains(span_s));
    watched.sum::<f64>() / PIE_UPDATE_S
}

/// Variants of the implementation of a law.
#[derive(Debug, Clone, Copy)]
enum Form {
    Pie {
        /// Uses the delay at the head, as Linux does; otherwise the backlog divided by the rate, as the RFC
        /// does.
        by_head: bool,
        /// Drops are spread (RFC 8033, section 5.4).
        spread: bool,
    },
    DualPi2,
}

impl Form {
    const fn pie(by_head: bool, spread: bool) -> Self {
        Self::Pie { by_head, spread }
    }

    const PIE: [Self; 4] = [
        Self::pie(true, true),
        Self::pie(false, true),
        Self::pie(true, false),
        Self::pie(false, false),
    ];

    fn of(law: Law) -> &'static [Self] {
        match law {
            Law::DualPi2 => &[Self::DualPi2],
            _ => &Self::PIE,
        }
    }
}

/// A law with its parameters, and the observation noise.
struct Controlled {
    form: Form,
    target_s: f64,
    noise_s: f64,
    /// Probability of a drop by another cause.
    stray: f64,
}

/// A possible state of the controller.
#[derive(Clone, Copy)]
struct Particle {
    state: State,
    /// The first packet of the queue that it has not processed.
    from: usize,
    weight: f64,
}

#[derive(Clone, Copy)]
enum State {
    Pie(PieControl),
    DualPi2 {
        probability: f64,
        before_s: f64,
        due_s: f64,
    },
}

impl State {
    /// With the drop share multiplied by `factor`: DualPI2 drops with the square of its probability.
    fn times(mut self, factor: f64) -> Self {
        let (probability, factor) = match &mut self {
            Self::Pie(control) => (&mut control.drop_probability, factor),
            Self::DualPi2 { probability, .. } => (probability, factor.sqrt()),
        };
        *probability = (*probability * factor).min(1.0);
        self
    }
}

impl Controlled {
    /// Log-likelihood of drops and passes, as long as it stays above `hopeless`.
    fn nats(&self, queue: &Queue, hopeless: f64) -> f64 {
        let Some(first) = queue.items.first() else {
            return 0.0;
        };
        let mut random = Random::new(1);
        let mut particles: Vec<Particle> = (0..PARTICLES)
            .map(|number| self.begin(first, (number as f64 + 0.5) / PARTICLES as f64))
            .collect();
        let mut nats = 0.0;
        for item in &queue.items {
            for particle in &mut particles {
                let probability = self.probability(particle, queue, item, &mut random);
                if item.hidden {
                    continue;
                }
                let hazard = (self.stray + (1.0 - self.stray) * probability).min(0.99);
                particle.weight *= if item.chosen { hazard } else { 1.0 - hazard };
            }
            let sum: f64 = particles.iter().map(|one| one.weight).sum();
            nats += sum.ln();
            if nats < hopeless {
                break;
            }
            let mut squares = 0.0;
            for particle in &mut particles {
                particle.weight /= sum;
                squares += particle.weight * particle.weight;
            }
            if squares * FEWEST_SHARE * PARTICLES as f64 > 1.0 {
                particles = resampled(&particles, &mut random);
            }
        }
        nats
    }

    /// A state with the first update at this `phase` of the interval.
    fn begin(&self, first: &Item, phase: f64) -> Particle {
        let state = match self.form {
            Form::DualPi2 => State::DualPi2 {
                probability: 0.0,
                before_s: 0.0,
                due_s: first.arrival_s + (1.0 - phase) * DUAL_UPDATE_S,
            },
            Form::Pie { .. } => {
                let mut control = PieControl::default();
                let rules = PieRules::with_target(0);
                control.advance(to_ns(first.arrival_s - phase * PIE_UPDATE_S), rules, |_| 0);
                State::Pie(control)
            }
        };
        Particle {
            state,
            from: 0,
            weight: 1.0 / PARTICLES as f64,
        }
    }

    /// Probability that this one drops the packet.
    fn probability(
        &self,
        particle: &mut Particle,
        queue: &Queue,
        item: &Item,
        random: &mut Random,
    ) -> f64 {
        let Particle { state, from, .. } = particle;
        let by_head = !matches!(self.form, Form::Pie { by_head: false, .. });
        let mut observed_wait_s = |due_s: f64| {
            let wait_s = queue.looked_at(due_s, from, by_head);
            if wait_s == 0.0 {
                return 0.0;
            }
            (wait_s + self.noise_s * random.uniform(-1.0, 1.0)).max(0.0)
        };
        match state {
            State::Pie(control) => {
                let rules = PieRules::with_target(to_ns(self.target_s));
                control.advance(to_ns(item.arrival_s), rules, |due_ns| {
                    to_ns(observed_wait_s(due_ns as f64 * 1e-9))
                });
                let spread = matches!(self.form, Form::Pie { spread: true, .. });
                let probability = pie(control, rules, item, spread);
                if item.chosen || (item.hidden && random.chance(probability)) {
                    control.chosen();
                }
                probability
            }
            State::DualPi2 {
                probability,
                before_s,
                due_s,
            } => {
                if item.turn_s - *due_s > DUAL_FORGETS_S {
                    (*probability, *before_s, *due_s) = (0.0, 0.0, item.turn_s + DUAL_UPDATE_S);
                }
                while *due_s <= item.turn_s {
                    let wait_s = observed_wait_s(*due_s);
                    let step = DUAL_ALPHA_HZ * (wait_s - self.target_s)
                        + DUAL_BETA_HZ * (wait_s - *before_s);
                    *probability = (*probability + step).clamp(0.0, 1.0);
                    *before_s = wait_s;
                    *due_s += DUAL_UPDATE_S;
                }
                *probability * *probability
            }
        }
    }
}

/// Drop probability of the controller of RFC 8033.
fn pie(control: &mut PieControl, rules: PieRules, item: &Item, spread: bool) -> f64 {
    let backlog_bytes = u64::from(item.before + UNSURE_PACKETS) * 1_500;
    control.count(rules, backlog_bytes);
    if spread {
        control.spread(rules, backlog_bytes)
    } else {
        control.alone(rules, backlog_bytes)
    }
}

/// As many particles, resampled by weight, in even steps.
fn resampled(particles: &[Particle], random: &mut Random) -> Vec<Particle> {
    let share = 1.0 / particles.len() as f64;
    let begin = random.unit() * share;
    let (mut index, mut sum) = (0, particles[0].weight);
    let draw = |number: usize| {
        while sum < begin + number as f64 * share && index + 1 < particles.len() {
            index += 1;
            sum += particles[index].weight;
        }
        let state = particles[index].state;
        let factor = random.uniform(-ROUGHENING, ROUGHENING).exp();
        Particle {
            state: state.times(factor),
            weight: share,
            ..particles[index]
        }
    };
    (0..particles.len()).map(draw).collect()
}

fn to_ns(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(gaps_s: impl Iterator<Item = f64>) -> Queue {
        let mut now_s = 0.0;
        let item = |gap_s: f64| {
            now_s += gap_s;
            Item {
                arrival_s: now_s,
                turn_s: now_s + 0.02,
                service_s: 1e-3,
                behind_bytes: 0.0,
                behind_in_all_bytes: 0.0,
                before: 3,
                chosen: false,
                hidden: false,
            }
        };
        Queue {
            items: gaps_s.map(item).collect(),
        }
    }

    #[test]
    fn a_pause_of_years_needs_no_updates_and_one_of_seconds_its_own() {
        assert_eq!(looks(&queue([0.0, 3e9, 1e9].into_iter())), 0.0);
        let looks = looks(&queue([0.0, 15.0, 3e9, 15.0].into_iter()));
        assert!((looks - 2_000.0).abs() < 1.0, "{looks}");
    }

    #[test]
    fn few_distant_packets_need_more_updates_than_the_limit() {
        let apart = queue((0..10_000).map(|_| 25.0));
        assert!(looks(&apart) > MOST_LOOKS);
        let dense = queue((0..100_000).map(|_| 1e-3));
        assert!(looks(&dense) < MOST_LOOKS);
    }
}
