//! The elements of a path in real time, between two hosts on this machine.
//!
//! Two hosts in network namespaces are joined only through a third namespace, where a thread passes packets on from one
//! interface to the other (packet(7)). A [`Direction`] drives the elements of `whydrop-path` by the clock, as
//! `whydrop-network` does in virtual time: the arrival time is that of the kernel, and the decisions are the same
//! however late the thread is. Its [`Lateness`] is measured. [`run`] does all of it.

mod clock;
mod direction;
mod frame;
mod lateness;
mod processors;
mod programs;
mod rests;
mod rights;
mod ring;
mod session;
mod settings;
mod topology;
mod worker;

pub use direction::{Counts, Departure, Direction};
pub use lateness::{Lateness, Summary};
pub use session::{OneWay, Report, run};
pub use settings::Settings;
