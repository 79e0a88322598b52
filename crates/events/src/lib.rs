//! Events of TCP inside this host's kernel: each reduction of a congestion window with its cause, retransmissions,
//! segments that this host's own queue refused, and counts that the kernel itself does not keep.
//!
//! Small programs ([`program`]) run at tracepoints, with the offsets of the running kernel ([`layout`]). They select
//! connections, remember each one's state as of the last acknowledgment, and write a [`report`] only when something
//! has changed. [`attribution`] names the cause, [`totals`] counts, and the [`monitor`] collects rows in bounded
//! memory.

#![forbid(unsafe_code)]

pub mod attribution;
pub mod filter;
pub mod layout;
pub mod monitor;
pub mod program;
pub mod report;
pub mod source;
pub mod totals;
