//! Pairs of captures with known truth: the same packets before a path element (point B) and behind it (point Y).
//!
//! [`published`] reproduces one well-documented case; [`suite`] draws pairs at random with every mechanism of the
//! models.

mod crossing;
mod frame;
mod output;
pub mod published;
mod sniffer;
pub mod suite;
mod truth;
mod world;

pub use crossing::{Body, Crossing};
pub use frame::{Ends, Link};
pub use output::write;
pub use sniffer::{Clock, Offload, OffloadStamp, Point, Sighting, Sniffer};
pub use truth::{Counts, count, covered};
pub use world::{Flow, Realism, SimulatedPair, Translation};
