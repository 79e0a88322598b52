//! Drops that follow a law of queue management, as a pattern of losses.

use whydrop_verdict::log_odds;

use crate::observe::{Exact, Observation};
use crate::thresholds::*;

/// Drops of a queue that is not full, as a pattern.
pub struct LawFollowed {
    /// How much more likely than losses at one rate, nats.
    pub nats: f64,
    /// Price of the same pattern without queue management, nats.
    pub price: f64,
}

/// The law that the drops follow, if the laws were measured and it predicts them far better than anything
/// else; between two captures also drops that depend on the backlog of a queue with room.
pub fn law_followed(seen: &Observation) -> Option<LawFollowed> {
    let laws = seen.laws.as_ref().filter(|_| seen.totals.lost > 0)?;
    let followed = |nats: f64, confidence: f64| LawFollowed {
        nats,
        price: log_odds(confidence) + seen.exact_nats(),
    };
    if laws.are_followed() {
        return Some(followed(laws.best_nats(), LAWFUL_CONFIDENCE));
    }
    let exact = seen.exact.as_ref()?;
    exact.departures.as_ref()?;
    let deviations = exact.deviations();
    // log-likelihood ratio of a normal distribution
    let nats = deviations * deviations / 2.0;
    match (deviations > RELATED_DEVIATIONS, overtakes_with_room(exact)) {
        (true, true) => Some(followed(nats, LAWFUL_CONFIDENCE)),
        (true, false) => Some(followed(nats, ISOLATES_CONFIDENCE)),
        (false, true) => Some(followed(-CHANCE, ISOLATES_CONFIDENCE)),
        (false, false) => None,
    }
}

/// True if exact fates show drops of a queue that is not full.
pub fn drops_early(seen: &Observation) -> bool {
    seen.exact.is_some() && law_followed(seen).is_some()
}

/// True if a queue that is long but not full drops, and flows overtake each other in it. On a path without
/// queue management, losses with a queue ahead are rare.
fn overtakes_with_room(exact: &Exact) -> bool {
    exact.has_a_long_queue() && exact.flows_overtake() && exact.drops_with_room()
}
