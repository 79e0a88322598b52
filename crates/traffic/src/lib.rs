//! The traffic engine: TCP flows, UDP probes, streams and bursts towards a responder, and the responder itself.
//!
//! Threads block on their own sockets; nothing is shared on the hot path but one counter a flow. Everything that is
//! measured goes to a [`Sink`](sample::Sink), from which its owner takes it away while the test still runs.

pub mod auth;
pub mod channel;
pub mod client;
pub mod clock;
pub mod flow;
pub mod hello;
pub mod icmp;
mod life;
pub mod local_end;
pub mod message;
mod pace;
pub mod responder;
pub mod sample;
pub mod stop;
pub mod tcp;
pub mod udp;
