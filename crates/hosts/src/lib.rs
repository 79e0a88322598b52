//! The hosts of a TCP connection, close to Linux, without sockets and clocks.
//!
//! The caller gives the time with every call, delivers what arrives ([`Sender::on_ack`], [`Receiver::on_data`]), carries
//! away what is to be sent ([`Sender::transmit`], [`Receiver::acknowledge`]), and wakes each half at its `deadline_ns`.
//!
//! | module | subject |
//! |---|---|
//! | `sender` | the data out and its fate (scoreboard), recovery, timers, pacing |
//! | `control` | congestion control: [`Controller`], one file for each [`Algorithm`] |
//! | `receiver` | acknowledgments and the window |
//! | `segment` | segments between the hosts |
//! | `host` | identification and timestamps of their headers |

#![forbid(unsafe_code)]

mod autotuning;
mod control;
mod host;
mod receiver;
mod segment;
mod sender;

pub use control::{Acked, Algorithm, Controller, PathSample};
pub use host::Host;
pub use receiver::{Acknowledgment, Receiver, ReceiverConfig, StopsReading};
pub use segment::{Range, Reason, SackBlocks, Segment, Toward, WINDOW_SCALE, flags, join};
pub use sender::{AckIn, Pacing, RateSample, Sender, SenderConfig, Transmission, Wait};
