//! The hop, or several, between two captures: the effect on the packets, and the mechanism behind it.
//!
//! | module | subject |
//! |---|---|
//! | [`measure`](measure_hop) | losses and delays of the packets that entered it, and the buckets and queues fitted to them |
//! | [`judge`](judge_hop) | the mechanism that explains the losses |
//! | `management` | the law of queue management that drops and marks follow |
//! | [`models`] | replays of the mechanism and its rivals: the effect of each on the same packets |
//! | `line` | the rate at which super-segments left the sender |
//! | `buckets` | the token bucket, or the two of a dual-rate policer, that explain the losses |
//! | `full_queue` | whether lost packets found a queue full |
//! | `behind_queue` | a bucket that receives packets as a queue releases them |
//! | `thinning` | a slow link that drops superseded acknowledgments |
//! | `parameters` | rates and limits, counted between the points |
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
