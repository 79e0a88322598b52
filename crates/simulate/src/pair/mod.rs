//! Pairs of captures with known truth: the same packets before a path element (point B) and behind it (point Y).
//!
//! [`published`] reproduces one well-documented case; [`suite`](crate::suite) draws pairs at random with every mechanism
//! of the models.

mod crossing;
mod frame;
mod output;
pub mod published;
mod sniffer;

mod truth;
mod world;

pub use crossing::{Body, Crossing};
pub use frame::{Ends, Link};
pub use output::write;
pub(crate) use output::write_records;
pub use sniffer::{Clock, Offload, OffloadStamp, Point, Seen, Sighting, Sniffer};
pub use truth::{Counts, count, covered};
pub use world::{Flow, Realism, SimulatedPair, Translation};
