//! The law of queue management that the drops and marks of a queue follow, given the delays of its packets.
//!
//! Nothing is simulated: each law is replayed along the observations. Its state follows the observed delays
//! and drops, and at every packet it gives the probability of a drop. The likelihood of all drops and passes
//! is compared with that of a queue that drops when it is full, and with chance.

mod controlled;
mod episode;
mod laws;
mod queue;
mod red;
mod search;
mod tail_drop;
#[cfg(test)]
mod tests;

use super::passage::Passages;
use super::profile::Interval;
use laws::Hazards;
use queue::Queue;

/// The law by which a queue drops or marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    /// The delay exceeds a target for an interval, then drops follow at the interval over the square root of
    /// the count (RFC 8289).
    CoDel,
    /// The same law, counting down again instead of restarting (cake's COBALT).
    Cobalt,
    /// A probability that a controller adjusts to the delay (RFC 8033).
    Pie,
    /// The square of such a probability (RFC 9332, for the classic queue).
    DualPi2,
    /// A probability that rises with the average length (Floyd and Jacobson 1993).
    Red,
}

/// A law with its best parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LawFit {
    pub law: Law,
    /// Gain of the law in nats over chance for the drops and marks, less the cost of its parameters.
    pub nats: f64,
    /// Target delay in seconds; for RED the average delay from which it drops.
    pub target_s: Interval,
    /// The interval of CoDel, seconds.
    pub interval_s: Option<Interval>,
}

/// The laws in competition.
#[derive(Debug, Clone)]
pub struct Management {
    /// Drops and marks that were evaluated.
    pub events: usize,
    /// The best first.
    pub laws: Vec<LawFit>,
    /// Gain in nats of a queue that drops when it is full, over chance.
    pub tail_drop_nats: f64,
}

impl Management {
    /// Gain of the best law over chance, nats.
    pub fn best_nats(&self) -> f64 {
        self.laws[0].nats
    }

    /// Lead of the best law over a queue that drops when it is full, nats.
    pub fn margin_nats(&self) -> f64 {
        self.laws[0].nats - self.tail_drop_nats.max(0.0)
    }

    /// Lead of COBALT over CoDel, nats.
    pub fn cobalt_nats(&self) -> f64 {
        let nats = |law: Law| {
            self.laws
                .iter()
                .find(|fit| fit.law == law)
                .map_or(0.0, |fit| fit.nats)
        };
        nats(Law::Cobalt) - nats(Law::CoDel).max(0.0)
    }

    /// Lead of the best law over the best of the others, nats.
    pub fn lead_nats(&self) -> f64 {
        let own = self.laws[0].law.kin();
        let rival = self.laws.iter().find(|fit| fit.law.kin() != own);
        self.laws[0].nats - rival.map_or(0.0, |fit| fit.nats)
    }
}

impl Law {
    /// COBALT is CoDel except between overloads.
    fn kin(self) -> Self {
        match self {
            Self::Cobalt => Self::CoDel,
            law => law,
        }
    }
}

/// Properties of the observation of the queue.
#[derive(Debug, Clone, Copy)]
pub struct Seeing {
    /// Drain rate, bit/s.
    pub rate_bps: f64,
    /// Variation of timestamps, seconds.
    pub noise_s: f64,
    /// Flows have queues of their own.
    pub isolated: bool,
    /// Delays are those of acknowledgments, which are sometimes late and never early.
    pub by_acknowledgments: bool,
}

/// Fewer drops and marks identify no law.
const FEWEST_EVENTS: usize = 5;

/// Lets the laws compete. `None` if too few packets were dropped or marked.
pub fn fit_management(passages: &Passages, seeing: Seeing) -> Option<Management> {
    if !(seeing.rate_bps.is_finite() && seeing.rate_bps > 0.0) {
        return None;
    }
    let queues = Queue::of(passages, seeing);
    let events = queues.iter().map(Queue::events).sum::<usize>();
    let packets: usize = queues.iter().map(Queue::packets).sum();
    if events < FEWEST_EVENTS || 2 * events > packets {
        return None;
    }
    let hazards = Hazards::new(&queues, events, packets, seeing);
    let mut laws = vec![
        hazards.codel(Law::CoDel, false),
        hazards.codel(Law::Cobalt, false),
        hazards.red(),
    ];
    if seeing.isolated {
        laws.push(hazards.codel(Law::CoDel, true));
    }
    for law in [Law::Pie, Law::DualPi2] {
        let rival_nats = laws.iter().map(|fit| fit.nats).fold(0.0, f64::max);
        laws.push(hazards.controlled(law, rival_nats));
    }
    laws.sort_by(|a, b| b.nats.total_cmp(&a.nats));
    Some(Management {
        events,
        laws,
        tail_drop_nats: hazards.tail_drop(),
    })
}
