//! Which law of queue management the drops and marks of a queue follow, given the waits that its packets had.
//!
//! Nothing is replayed: each law is led along what was seen. Its state follows the waits and the drops that happened,
//! and at every packet it says how likely the next drop is. The likelihood of all drops, and of all packets that passed,
//! is compared with that of a queue that drops when it is full, and of chance.

mod controlled;
mod laws;
mod queue;
mod red;
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
    /// The wait above a target for an interval, then the interval over the square root of the count (RFC 8289).
    CoDel,
    /// The same law, which counts down again instead of starting anew (cake's COBALT).
    Cobalt,
    /// A probability that a controller moves with the wait (RFC 8033).
    Pie,
    /// The square of such a probability (RFC 9332, for the classic queue).
    DualPi2,
    /// A probability that rises with the average length (Floyd and Jacobson 1993).
    Red,
}

/// A law with the parameters that suit best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LawFit {
    pub law: Law,
    /// How much likelier the law makes the drops and marks than chance does, nats, less what its parameters cost.
    pub nats: f64,
    /// Wait that it aims at, seconds; of RED the average wait from which on it drops.
    pub target_s: Interval,
    /// CoDel's, seconds.
    pub interval_s: Option<Interval>,
}

/// The laws in competition.
#[derive(Debug, Clone)]
pub struct Management {
    /// Drops and marks that were looked at.
    pub events: usize,
    /// The best first.
    pub laws: Vec<LawFit>,
    /// How much likelier a queue that drops when it is full makes them than chance, nats.
    pub tail_drop_nats: f64,
}

impl Management {
    /// By how much the best law beats a queue that drops when it is full, nats.
    pub fn margin_nats(&self) -> f64 {
        self.laws[0].nats - self.tail_drop_nats.max(0.0)
    }

    /// By how much COBALT beats CoDel, nats.
    pub fn cobalt_nats(&self) -> f64 {
        let nats = |law: Law| {
            self.laws
                .iter()
                .find(|fit| fit.law == law)
                .map_or(0.0, |fit| fit.nats)
        };
        nats(Law::Cobalt) - nats(Law::CoDel).max(0.0)
    }

    /// By how much the best law beats the best of the others, nats.
    pub fn lead_nats(&self) -> f64 {
        let own = self.laws[0].law.kin();
        let rival = self.laws.iter().find(|fit| fit.law.kin() != own);
        self.laws[0].nats - rival.map_or(0.0, |fit| fit.nats)
    }
}

impl Law {
    /// COBALT is CoDel but for what it does between overloads.
    fn kin(self) -> Self {
        match self {
            Self::Cobalt => Self::CoDel,
            law => law,
        }
    }
}

/// How the queue is seen.
#[derive(Debug, Clone, Copy)]
pub struct Seeing {
    /// Bit/s at which it drains.
    pub rate_bps: f64,
    /// By how much stamps vary, seconds.
    pub noise_s: f64,
    /// Flows have queues of their own.
    pub isolated: bool,
    /// Waits are those of acknowledgments, which come late at times and never early.
    pub by_acknowledgments: bool,
}

/// Fewer drops and marks tell no law.
const FEWEST_EVENTS: usize = 5;

/// Lets the laws compete. `None` where too little was dropped or marked.
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
