//! Two captures of one path: packets matched, clocks aligned, losses located.
//!
//! ```no_run
//! use whydrop_capture::{Capture, OpenOptions};
//! use whydrop_pair::{PairOptions, read_pair};
//!
//! let open = |path| Capture::open(&[path], OpenOptions::default());
//! let pair = read_pair([open("client.pcap")?, open("server.pcap")?], PairOptions::default())?;
//! println!("{} packets lost between the points", pair.counts.lost[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`packet`] | fates of packets: the rows of the result |
//! | [`flow`] | fates of flows, and counts |
//! | `reading` | both captures in one pass, whatever their clocks show |
//! | `matching` | the same packet in the other capture |
//! | `finish` | directions of flows, fates of packets that only one capture holds, order |
//!
//! [`whydrop_clock`] finds offset, drift and steps between the two captures' clocks.

#![forbid(unsafe_code)]

mod error;
mod finish;
pub mod flow;
mod matching;
pub mod packet;
mod reading;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use whydrop_capture::{Capture, Summary};
use whydrop_clock::ClockFit;
use whydrop_tcp::Tracked;

pub use error::PairError;
pub use flow::{Direction, FlowName, LeftOut, Order, PairCounts, PairFlow, TrackedFlow};
pub use packet::{Crossing, NO_TIME, NOT_CAPTURED, PacketFlags, PairPacket};
pub use reading::{PairHints, PairOptions};

/// The findings from two captures of one path.
#[derive(Debug)]
pub struct Pair {
    pub summaries: [Summary; 2],
    /// The TCP connections in each capture alone.
    pub tracked: [Tracked; 2],
    pub flows: Vec<PairFlow>,
    /// In the order of capture 1's clock; packets that only capture 2 holds are placed accordingly.
    pub packets: Vec<PairPacket>,
    pub counts: PairCounts,
    /// The evidence for the order of the points.
    pub order: Order,
    /// The relation of the clocks; `None` if there is too little evidence.
    pub clock: Option<ClockFit>,
}

/// Reads two captures of one path and determines the fate of each packet between them.
///
/// The captures may be given in either order: the point nearer to the sender is determined for each flow.
///
/// # Errors
///
/// [`PairError::NothingInCommon`] if no packet is in both captures, [`PairError::Stopped`] if the progress
/// function asks to stop.
pub fn read_pair(captures: [Capture; 2], options: PairOptions) -> Result<Pair, PairError> {
    finish::finish(reading::read_through(captures, options)?)
}
