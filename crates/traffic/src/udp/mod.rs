//! UDP probes at fixed intervals, streams and bursts, from the client and from the responder.
//!
//! | module | contents |
//! |---|---|
//! | `link` | what both ends share after the handshake |
//! | `packet` | the wire format, byte by byte |
//! | `schedule` | when each packet of a flow is due |
//! | `probe` | probes that the responder answers, at the client |
//! | `isochronous` | sending probes at even intervals and tracking them, for any protocol |
//! | `ledger` | the outcome of each probe |
//! | `upload`, `download` | streams and bursts, at the client |
//! | `transmit` | sending them, at either end |
//! | `departing` | when the kernel handed packets to the interface |
//! | `collector`, `tally`, `bursts` | receiving and counting them, at either end |
//! | `troubles` | an end's own faults: pauses, a full receive buffer |
//! | `service` | the responder's end: one thread behind one port |
//! | `clocks` | the offset of the far host's clock |
//! | `copies` | packets that arrived before: duplicates and replays |
//! | `exchange`, `exchanges`, `arrivals`, `marks`, `pace`, `words` | small parts of these |
//! | `socket` | the kernel's interface: timestamps, traffic classes, many packets per call |

mod arrivals;
mod bursts;
pub mod clocks;
mod collector;
mod copies;
mod departing;
mod download;
mod exchange;
pub(crate) mod exchanges;
pub(crate) mod facts;
pub(crate) mod isochronous;
pub(crate) mod ledger;
mod link;
pub(crate) mod marks;
mod packet;
mod probe;
#[cfg(test)]
mod proxy;
pub(crate) mod schedule;
pub(crate) mod service;
pub(crate) mod socket;
mod tally;
mod transmit;
pub mod troubles;
pub(crate) mod turns;
mod upload;
pub(crate) mod words;

pub use clocks::{ClockEstimate, ClockFit};
pub use link::{FarSide, Link, SYNCHRONISATION_FLOW};
pub use service::{Registration, Service, SessionLimits, Statistics};
pub use troubles::Trouble;

use crate::flow::{Direction, FlowSpec, Kind};
use crate::sample::{Ending, Sink};
use crate::stop::Stop;

/// Runs one flow of kind `Probe`, `Udp` or `Burst` at the client's end until it is over, in the caller's thread.
///
/// `start_ns` is the test's common start in the time of [`clock::now_ns`](crate::clock::now_ns). Rows and facts go to
/// `sink` as soon as they are settled; packets sent up are counted at the responder. `far` is asked once, when a flow
/// of probes is over and the direction of some losses is unknown.
pub fn run(
    spec: &FlowSpec,
    link: &Link,
    start_ns: i64,
    stop: &Stop,
    sink: &Sink,
    far: &dyn FarSide,
) -> Ending {
    match (spec.kind, spec.direction) {
        (Kind::Probe, _) => probe::run(spec, link, start_ns, stop, sink, far),
        (Kind::Udp | Kind::Burst, Direction::Up) => upload::run(spec, link, start_ns, stop, sink),
        (Kind::Udp | Kind::Burst, Direction::Down) => {
            download::run(spec, link, start_ns, stop, sink)
        }
        (kind, direction) => Ending::Failed(format!(
            "flow {}: {kind:?} in direction {direction:?} is no UDP flow: expected probe, or udp or burst up or \
             down",
            spec.flow
        )),
    }
}

/// Exchanges `count` timestamps with the responder, one each `interval_ns`, for comparing the clocks; they go to
/// `sink`.
///
/// Fails if no answer arrives, which also detects a firewall that blocks UDP.
pub fn synchronise(link: &Link, count: u32, interval_ns: i64, stop: &Stop, sink: &Sink) -> Ending {
    let interval_s = interval_ns as f64 * 1e-9;
    let spec = FlowSpec {
        interval_s,
        // Ends halfway between the last probe and the one that must not be sent.
        duration_s: Some((f64::from(count) - 0.5).max(0.0) * interval_s),
        timeout_s: Some(1.0),
        ..FlowSpec::new(SYNCHRONISATION_FLOW, Kind::Probe, Direction::Both)
    };
    let own = Sink::default();
    let now_ns = crate::clock::now_ns();
    let ending = probe::run(&spec, link, now_ns, stop, &own, &Silent);
    let mut exchanges = own.take().exchanges;
    sink.with(|samples| samples.exchanges.append(&mut exchanges));
    ending
}

/// A far end that returns no arrivals.
struct Silent;

impl FarSide for Silent {
    fn arrivals(&self, _: u32) -> Option<Vec<(u64, u64)>> {
        None
    }
}
