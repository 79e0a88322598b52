//! Observations: what captures show of a group of flows, before any cause is named.
//!
//! | module | subject |
//! |---|---|
//! | [`group`] | flows that share a path, and the trace of their packets |
//! | `one_capture` | the path behind one capture point, or before it |
//! | `hop` | the hop between two captures, with the exact fates of its packets |
//! | `trace` | packets with known fates and delays: fitted buckets and queues, patterns of losses |
//! | [`observation`] | the measurements themselves |
//! | `delays` | what the delays around losses show of a queue |
//! | `exact` | what only two captures show |
//! | [`totals`] | counters and times |
//! | [`replay_check`] | the agreement of a replayed policer with the losses |
//! | `senders_line`, `line` | the line on which super-segments are split |
//! | `buckets`, `behind_queue` | token buckets that explain exact losses, before a queue and behind it |
//! | `full_queue` | whether lost packets found a queue full |
//! | `thinning` | a slow link that drops superseded acknowledgments |
//! | `before_capture`, `arrivals` | what arrivals show of the path before the capture point |
//! | `datagram_share` | datagrams that take a share of a group's capacity |
//! | `standing` | queues that stand for long without a drop |
//! | `runs` | runs of lost packets |
//! | `silence` | the time in which nothing passed |
//! | `stated` | facts that several causes state |
//! | `laws`, `laws_replayed` | the laws of queue management that drops and marks may follow |

mod arrivals;
mod before_capture;
mod behind_queue;
mod buckets;
mod byte_basis;
mod datagram_share;
mod delays;
mod exact;
mod full_queue;
pub mod group;
mod hop;
mod laws;
mod laws_replayed;
mod line;
pub mod observation;
mod one_capture;
pub mod replay_check;
mod runs;
mod senders_line;
mod silence;
mod standing;
mod stated;
mod thinning;
pub mod totals;
mod trace;

#[cfg(test)]
mod group_tests;

pub use arrivals::Arrivals;
pub use before_capture::{Burst, spent_at_once};
pub use buckets::{TwoBuckets, beside_second};
pub use byte_basis::ByteBasis;
pub use datagram_share::datagrams_beside;
pub use exact::Exact;
pub use group::{FlowRef, Group};
pub use hop::{HopInput, MOST_NOISE_S, measure_hop};
pub use laws::Laws;
pub use laws_replayed::{laws_of_group, laws_of_hop};
pub use observation::Observation;
pub use one_capture::{measure_before, measure_behind};
pub use runs::Runs;
pub use silence::{share_in_silence, silence};
pub use standing::stood_s;
pub use thinning::Thinning;
pub use trace::measure_trace;
