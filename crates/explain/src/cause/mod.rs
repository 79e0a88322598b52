//! The causes, one file each. [`HYPOTHESES`] lists them; [`weigh`] lets them compete for the losses of one
//! observation, and [`describe`] states what the remaining one did.
//!
//! On this scale random losses at one rate for all packets are at 0 nats. A hypothesis scores how much more
//! likely it makes the losses, less the cost of its search, relative to the background: the same
//! [`Patterns`] without a mechanism. So a pattern in the losses excludes random loss, whether or not a known
//! mechanism explains it.

mod answers;
pub mod aqm;
mod bursty_loss;
mod capture_loss;
mod hypothesis;
mod law_followed;
mod nothing;
mod outage;
mod patterns;
pub mod policer;
pub mod queue;
mod random_loss;
mod receiver_window;
mod reordering;
mod sender;
pub mod shaper;
mod unexplained;

use crate::observe::{Laws, Observation};
pub use hypothesis::{Description, Hypothesis, Outcome, Parameters, Weight};
pub use patterns::Patterns;

/// All causes of losses, and of slow transfers without losses. A new one is a file and a line here.
const HYPOTHESES: &[&dyn Hypothesis] = &[
    &policer::Policer,
    &queue::FullQueue,
    &aqm::Managed,
    &random_loss::RandomLoss,
    &bursty_loss::BurstyLoss,
    &outage::Outage,
    &shaper::Shaper,
    &reordering::Reordering,
    &receiver_window::ReceiverWindow,
    &sender::Sender,
    &answers::Answers,
    &capture_loss::CaptureLoss,
    &nothing::Nothing,
];

/// Lets all mechanisms compete for the losses of an observation.
pub fn weigh(seen: &Observation) -> Outcome {
    if let Some(weight) = queue::superseded_acknowledgments(seen) {
        return Outcome::of(vec![weight]);
    }
    let patterns = Patterns::of(seen);
    let weights = HYPOTHESES
        .iter()
        .flat_map(|hypothesis| hypothesis.weigh(seen, &patterns));
    Outcome::of(weights.collect())
}

/// Judges the losses of an observation. If that leaves queue management open, `laws` measures the laws that
/// drops may follow, which takes a while, and all mechanisms compete again.
pub fn judge(seen: &mut Observation, laws: impl FnOnce(&Observation) -> Option<Laws>) -> Outcome {
    let outcome = weigh(seen);
    if !aqm::is_open(seen, &outcome) {
        return outcome;
    }
    seen.laws = laws(seen);
    match &seen.laws {
        Some(_) => weigh(seen),
        None => outcome,
    }
}

/// The facts and quantities stated of the cause of an outcome.
pub fn describe(outcome: &Outcome, seen: &Observation) -> Description {
    let stands_for = |hypothesis: &&&dyn Hypothesis| {
        hypothesis.causes().contains(&outcome.cause) && hypothesis.kind() == outcome.kind
    };
    HYPOTHESES.iter().find(stands_for).map_or_else(
        || unexplained::describe(seen),
        |own| own.describe(outcome.cause, seen),
    )
}
