//! The verdict on a hop, or several, between two captures.
//!
//! | module | subject |
//! |---|---|
//! | [`models`] | replays of the mechanism and its rivals: the effect of each on the same packets |
//! | `verdict` | the verdict, with the replays that rule others out |

pub mod models;
mod verdict;

use std::ops::Deref;

use crate::observe::{Exact, Observation};
pub use verdict::Replayed;
pub(crate) use verdict::{hop_verdict, measure};

/// An observation between two captures, with its exact part.
#[derive(Clone, Copy)]
struct Hop<'a> {
    seen: &'a Observation,
    exact: &'a Exact,
}

impl Deref for Hop<'_> {
    type Target = Exact;

    fn deref(&self) -> &Exact {
        self.exact
    }
}

impl Hop<'_> {
    /// A typical full packet, IP bytes.
    fn packet_bytes(&self) -> f64 {
        self.seen.group_trace.trace.typical_bytes
    }
}
