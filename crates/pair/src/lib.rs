//! Two captures of one path: packets matched, clocks aligned, losses placed.
//!
//! ```no_run
//! use whydrop_capture::{Capture, OpenOptions};
//! use whydrop_pair::{PairOptions, read_pair};
//!
//! let open = |path| Capture::open(&[path], OpenOptions::default());
//! let pair = read_pair([open("client.pcap")?, open("server.pcap")?], PairOptions::default())?;
//! println!("{} packets lost on the way", pair.counts.lost[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`packet`] | what became of each packet: the rows of the result |
//! | [`flow`] | what became of each flow, and counts |
//! | `reading` | both captures in one pass, whatever their clocks say |
//! | `matching` | the same packet in the other capture |
//! | `finish` | which way flows go, what became of packets that only one capture holds, order |
//! | [`clock`] | offset, drift and steps between the two captures' clocks |

pub mod clock;
mod error;
mod finish;
pub mod flow;
mod hash;
mod matching;
pub mod packet;
mod reading;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use whydrop_capture::{Capture, Summary};
use whydrop_tcp::Tracked;

pub use clock::ClockFit;
pub use error::PairError;
pub use flow::{Direction, FlowName, LeftOut, PairCounts, PairFlow, TrackedFlow};
pub use packet::{Crossing, NO_TIME, NOT_CAPTURED, PacketFlags, PairPacket};
pub use reading::PairOptions;

/// The findings from two captures of one path.
#[derive(Debug)]
pub struct Pair {
    pub summaries: [Summary; 2],
    /// The TCP connections as each capture alone shows them.
    pub tracked: [Tracked; 2],
    pub flows: Vec<PairFlow>,
    /// In the order of capture 1's clock; packets that only capture 2 holds stand where they would have been.
    pub packets: Vec<PairPacket>,
    pub counts: PairCounts,
    /// How the clocks run; `None` where too little tells.
    pub clock: Option<ClockFit>,
}

/// Reads two captures of one path and says of each packet what became of it between them.
///
/// The captures may be given in either order: which point is nearer to the sender is found out for each flow.
///
/// # Errors
///
/// [`PairError::NothingInCommon`] if no packet is in both captures, [`PairError::Stopped`] if the progress function
/// says so.
pub fn read_pair(captures: [Capture; 2], options: PairOptions) -> Result<Pair, PairError> {
    finish::finish(reading::read_through(captures, options)?)
}
