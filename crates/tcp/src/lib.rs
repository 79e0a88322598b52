//! From packets to flows: transfers, segments and their fates, round-trip times, windows.
//!
//! [`Tracker`] takes packets in capture order and never looks back; [`Tracker::finish`] returns one [`Connection`] for
//! each TCP connection that carried data, each with the [`Flow`] of both directions. If there are too many small ones,
//! as in a flood, the least informative are summed up as [`SmallConnections`].
//!
//! The packets of a flow and the acknowledgments of its peer determine the record of each transmission: when it left,
//! what it carried, whether it arrived ([`Fate`]), and what made a retransmission necessary or spurious ([`Kind`]).
//! This crate contains no path models or causes.

#![forbid(unsafe_code)]

mod abandoned;
mod account;
mod clocked_waits;
mod closed_window;
mod control;
mod echoed;
mod echoed_round_trips;
mod ecn;
mod failed;
mod flow;
mod half;
mod hosts;
mod key;
mod limits;
mod options;
mod outcome;
mod own_time;
mod quantile;
mod ranges;
mod recovery;
mod round_trip;
mod rounds;
mod segmentation;
mod sender_clock;
mod sequence;
mod signs;
mod slow_start;
mod small;
mod spacing;
mod start_up;
mod state;
mod stretch;
mod timestamp_clock;
mod tracker;
mod unseen;
mod vantage;
mod window;
mod window_scale;

#[cfg(test)]
mod account_middle_tests;
#[cfg(test)]
mod account_pace_tests;
#[cfg(test)]
mod account_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod outcome_tests;
#[cfg(test)]
mod retransmission_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod window_tests;
#[cfg(test)]
mod without_sack_tests;

pub use abandoned::{Abandoned, AbandonedConnections};
pub use clocked_waits::{ClockedWait, clocked_wait_ns};
pub use control::{ControlConnections, Program};
pub use ecn::Ecn;
pub use failed::FailedConnections;
pub use flow::{
    Acknowledgment, Connection, Endpoint, Fate, Flow, FlowCounters, Handshake, Kind, LimitedTime,
    OutstandingAtLoss, SackBlock, Segment, SegmentFlags, Transfer, Vantage, flow_name,
};
pub use hosts::Hosts;
pub use limits::{Account, ByClocks, Limiter, Span};
pub use options::TrackerOptions;
pub use outcome::{Outcome, Reset, Setup, Unanswered};
pub use signs::{
    ConnectionSigns, EcnWithdrawn, FlowSigns, Notice, Offer, OpenHole, Pause, Pauses, Quoted,
    SackCounters, Silence, TakenForOld,
};
pub use small::{SMALL_PACKETS, SmallConnections};
pub use tracker::{Tracked, Tracker};
pub use unseen::UnseenData;
