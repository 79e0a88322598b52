//! TCP connections over the elements of a path, in virtual time: a discrete-event simulation.
//!
//! A [`Scenario`] contains the connections, the stages of the path and other traffic. [`Simulation::run`] simulates it
//! and returns its [`history`]: every packet and its fate. The hosts are those of `whydrop-hosts`, the elements those of
//! `whydrop-path`. The simulator draws captures from it, and `whydrop predict` runs it with a fitted path.
//!
//! The history contains the limiter of each moment of a connection: [`limiter`]; `docs/simulator.md` has the definitions.

#![forbid(unsafe_code)]

mod calendar;
mod connection;
pub mod history;
pub mod limiter;
mod scenario;
mod simulation;

pub use calendar::Calendar;
pub use history::{Datagram, History, Packet, PacketFate, Record};
pub use scenario::{
    Application, Behaviour, CaptureConfig, CrossTraffic, Ending, FlowConfig, Resolution, Scenario,
    Stage,
};
pub use simulation::{DatagramSource, Extras, ReturnLink, Simulation, WatchConfig, Witness};
