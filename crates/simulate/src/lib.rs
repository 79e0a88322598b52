//! Captures with known truth: a discrete-event simulation of TCP over the path elements of `whydrop-path`.
//!
//! A [`Scenario`] contains the connections, the stages of the path, other traffic and the point of capture.
//! [`Simulation::run`] simulates it, [`write_capture`] writes what a sniffer recorded, and [`flow_truths`] returns what
//! happened. [`suite`] draws scenarios at random over a wide range of physics, so that rules and thresholds can be
//! tested on paths that no sample contains.
//!
//! ```sh
//! cargo run --release -p whydrop-simulate -- suite --out /tmp/suite --split train --seed 1 --count 104
//! cargo run --release -p whydrop-simulate -- score /tmp/suite --jobs 2 -- whydrop explain --json
//! ```
//!
//! [`pair`] captures at two points around the hop instead of one: [`pair::published`] reproduces a published case, and
//! [`suite::pairs`] draws pairs with every mechanism, with wrong clocks, address translation, offload, tunnels and
//! sniffers that miss packets.
//!
//! ```sh
//! cargo run --release -p whydrop-simulate -- published --out /tmp/published
//! cargo run --release -p whydrop-simulate -- pairs --out /tmp/pairs --seed 1 --count 48
//! cargo run --release -p whydrop-simulate -- score /tmp/pairs --jobs 2 -- whydrop explain --json
//! ```
//!
//! The hosts follow Linux in everything that affects losses and delays: CUBIC (RFC 9438) and NewReno, SACK with D-SACK,
//! RACK and tail-loss probes (RFC 8985) or counting (RFC 6675), proportional rate reduction (RFC 6937), a timer of the
//! smoothed RTT plus at least 200 ms, delayed acknowledgments, growing windows, and TCP timestamps. [`Behaviour`] and
//! [`Extras`] add ECN, applications that answer late, connections that fail, outages and narrow return paths. A lost
//! FIN is not retransmitted.
//!
//! The truth contains the limiter of each moment of a connection: [`limiter`]; `docs/simulator.md` has the definitions.

#![forbid(unsafe_code)]

mod capture;
mod files;
mod headers;
pub mod pair;
mod pcap;
pub mod score;
pub mod suite;
mod truth;

pub use capture::write_capture;
pub use files::WriteError;
pub use pcap::EPOCH_NS;
pub use truth::{FlowTruth, cross_traffic, flow_truths, flows_json};
pub use whydrop_hosts::{
    Algorithm, Pacing, Reason, ReceiverConfig, Segment, SenderConfig, StopsReading, Toward,
};
pub use whydrop_network::{
    Application, Behaviour, CaptureConfig, CrossTraffic, Datagram, DatagramSource, Ending, Extras,
    FlowConfig, History, Packet, PacketFate, Record, Resolution, ReturnLink, Scenario, Simulation,
    Stage, WatchConfig, history, limiter,
};
