//! The search for the target and the interval of CoDel.
//!
//! Their likelihood has a narrow peak, since each drop of an episode is due at a certain time. Beside the peak
//! it does not show where that is.

use super::laws::TARGETS_S;

const INTERVALS_S: [f64; 13] = [
    10e-3, 20e-3, 30e-3, 45e-3, 60e-3, 80e-3, 100e-3, 125e-3, 160e-3, 200e-3, 250e-3, 300e-3,
    500e-3,
];
/// The factor between close targets, from the first to the last of the others.
const CLOSE_STEP: f64 = 1.04;
/// Factors of each parameter in a finer search around the best.
const FINER: [f64; 9] = [0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2];
/// The share of their distances in the finest search, of one parameter after the other.
const FINEST: f64 = 0.2;

/// Log-likelihood of parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Score {
    /// The smallest number if drops are neither due nor nearly due.
    pub nats: f64,
    /// The smallest number if they are not due.
    pub strict_nats: f64,
}

impl Score {
    /// Drops do not occur when they are due.
    pub const NONE: Self = Self {
        nats: f64::MIN,
        strict_nats: f64::MIN,
    };
}

/// Parameters that were tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tried {
    pub target_s: f64,
    pub interval_s: f64,
    pub score: Score,
}

/// All parameters that were tried, and the first of the best.
pub(super) struct Search<F> {
    score: F,
    pub tried: Vec<Tried>,
    pub best: Tried,
}

impl<F: Fn(f64, f64) -> Score> Search<F> {
    /// Searches among usual values and intervals that the drops show, then around the best of these. `score` is
    /// given a target and an interval in seconds.
    pub fn new(score: F, shown_intervals_s: &[f64]) -> Self {
        let usual = Tried {
            target_s: 5e-3,
            interval_s: 100e-3,
            score: Score::NONE,
        };
        let mut search = Self {
            score,
            tried: Vec::new(),
            best: usual,
        };
        search.each(&TARGETS_S, &INTERVALS_S);
        search.each(&close_targets_s(), shown_intervals_s);
        let rough = search.best;
        search.each(&around(rough.target_s), &around(rough.interval_s));
        let finer = search.best;
        search.each(&close(finer.target_s), &[finer.interval_s]);
        let best = search.best;
        search.each(&[best.target_s], &close(best.interval_s));
        search
    }

    fn each(&mut self, targets_s: &[f64], intervals_s: &[f64]) {
        for &target_s in targets_s {
            for &interval_s in intervals_s {
                let one = Tried {
                    target_s,
                    interval_s,
                    score: (self.score)(target_s, interval_s),
                };
                self.tried.push(one);
                if one.score.nats > self.best.score.nats {
                    self.best = one;
                }
            }
        }
    }

    /// The highest likelihood with drops that are due.
    pub fn strict_nats(&self) -> f64 {
        let each = self.tried.iter().map(|one| one.score.strict_nats);
        each.fold(f64::MIN, f64::max)
    }

    /// Those that are less likely than the best by at most this.
    pub fn likely(&self, nats: f64) -> impl Iterator<Item = &Tried> {
        let least_nats = self.best.score.nats - nats;
        let tried = self.tried.iter();
        tried.filter(move |one| one.score.nats > least_nats)
    }
}

fn close_targets_s() -> Vec<f64> {
    let last_s = TARGETS_S[TARGETS_S.len() - 1];
    std::iter::successors(Some(TARGETS_S[0]), |target_s| Some(CLOSE_STEP * target_s))
        .take_while(|target_s| *target_s <= last_s)
        .collect()
}

fn around(value: f64) -> [f64; FINER.len()] {
    FINER.map(|factor| factor * value)
}

fn close(value: f64) -> [f64; FINER.len()] {
    around(value).map(|other| value + FINEST * (other - value))
}
