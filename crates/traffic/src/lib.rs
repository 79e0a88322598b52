//! The traffic engine: TCP flows, UDP probes, streams and bursts towards a responder, and the responder itself.
//!
//! Threads block on their own sockets; on the hot path they share one counter per flow and nothing else. All
//! measurements go to a [`Sink`](sample::Sink), from which its owner reads them while the test runs.

pub mod activity;
pub mod auth;
pub mod channel;
pub mod client;
pub mod clock;
pub mod flow;
pub mod frames;
pub mod handshake;
pub mod hello;
pub mod icmp;
pub mod keyring;
mod life;
pub mod local_end;
pub mod message;
pub mod name;
pub mod noise;
mod pace;
pub mod responder;
pub mod sample;
pub mod secret;
pub mod secret_file;
pub mod stop;
pub mod tcp;
pub mod timed;
pub mod udp;
