//! The hop, or several, between two captures: what it did to the packets, and by which mechanism.
//!
//! | module | what it does |
//! |---|---|
//! | [`measure`](measure_hop) | losses and waits of the packets that entered it, buckets and queues fitted to them |
//! | [`judge`](judge_hop) | which mechanism accounts for the losses |
//! | `management` | which law of queue management drops and marks follow |
//! | [`models`] | the mechanism and its rivals replayed: what each would have done to the same packets |
//! | `line` | how fast super-segments left the sender |
//! | `buckets` | the token bucket, or the two of a dual-rate policer, that account for the losses |
//! | `full_queue` | whether lost packets found a queue full |
//! | `behind_queue` | a bucket that sees packets as a queue lets them out |
//! | `thinning` | a slow link that drops superseded acknowledgments |
//! | `parameters` | rates and limits as counted between the points |
//! | `verdict` | the verdict, with the replays that rule others out |

mod behind_queue;
mod buckets;
mod byte_basis;
mod full_queue;
mod judge;
mod line;
mod management;
mod measure;
pub mod models;
mod parameters;
mod thinning;
mod verdict;

pub use buckets::{TwoBuckets, beside_second};
pub use byte_basis::ByteBasis;
pub use judge::{HopJudgement, judge_hop};
pub use management::family;
pub use measure::{Hop, HopInput, measure_hop};
pub use verdict::{Replayed, hop_verdict};
