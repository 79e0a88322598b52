//! Parameters of path elements, from the observations of one capture: which packets were lost, and the delays
//! of the others.
//!
//! All fits use one identity. The deficit of a token bucket that fills at `rate` and the backlog of a queue
//! that drains at `rate` are the same number, the [virtual queue](virtual_queue): it grows by each packet
//! that passes, shrinks with time, and never falls below zero. A policer drops a packet that would raise it
//! above the burst size, a drop-tail queue one that would raise it above the limit. So both have the same
//! losses; only the queue delays. [`bucket`] therefore determines the rate and the limit from the losses, and
//! [`delay`] determines which of the two it was.

mod backlog_by_waits;
mod beside;
pub mod bucket;
pub mod delay;
pub mod envelope;
pub mod exact;
mod lanes;
mod level;
pub mod managed;
mod never_nan;
mod pair;
pub mod passage;
mod pattern;
mod profile;
mod releases;
mod rows;
mod search;
mod sparse_waits;
pub mod trace;
pub mod virtual_queue;

#[cfg(test)]
mod bucket_tests;
#[cfg(test)]
mod delay_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod trace_tests;

pub use backlog_by_waits::{BacklogByWaits, backlog_by_departures, backlog_by_waits};
pub use beside::refine_beside;
pub use bucket::{BucketFit, Found, fit_bucket, score_near, search_bucket};
pub use delay::{
    DelayAtLoss, DelayByOccupancy, DrainFit, burst_bytes_at, delay_at_loss, delay_by_occupancy,
    fit_drain_rate,
};
pub use envelope::{Envelope, envelope};
pub use exact::{Refined, refine_exact};
pub use pair::{Ascent, PairFit, best_of_tops, climb_pair, score_alone, with_second_buckets};
pub use pattern::{LossPattern, Silence, loss_pattern};
pub use profile::Interval;
pub use releases::rate_cut_off;
pub use rows::{Row, Rows};
pub use sparse_waits::{Filled, fill_waits};
pub use trace::{Seen, Trace, TracePacket, unseen_at_start};
pub use virtual_queue::Agreement;
