//! Streams and bursts from the client to the responder.

use std::io;
use std::time::Duration;

use crate::flow::{FlowSpec, Kind};
use crate::pace;
use crate::sample::{Ending, Sink};
use crate::stop::Stop;
use crate::{clock, udp::Link};

use super::exchange::{End, small_inbox};
use super::facts;
use super::packet::{Body, Key};
use super::schedule::Schedule;
use super::socket::{self, Envelope};
use super::transmit::{Course, Outcome, transmit};
use super::words::{ended, explained};

/// The end of a flow is repeated for so long: a full queue at the bottleneck may hold it for seconds.
const FINISH_NS: i64 = 5_000_000_000;
/// The same for a flow that was stopped: somebody waits.
const FINISH_STOPPED_NS: i64 = 500_000_000;
const READ_TIMEOUT: Duration = Duration::from_millis(20);
/// A stream whose packets are due closer together would keep a real-time thread busy.
const BUSY_GAP_NS: f64 = 1_000_000.0;

/// Sends one flow of kind `Udp` or `Burst`; what arrives is counted at the responder.
pub(crate) fn run(spec: &FlowSpec, link: &Link, start_ns: i64, stop: &Stop, sink: &Sink) -> Ending {
    ended(upload(spec, link, start_ns, stop, sink), stop)
}

fn upload(
    spec: &FlowSpec,
    link: &Link,
    start_ns: i64,
    stop: &Stop,
    sink: &Sink,
) -> Result<(), String> {
    let schedule = Schedule::of(spec)?;
    let whom = link.remote.to_string();
    let say = |error: io::Error| explained(&error, &whom);
    let key = Key::new(&link.key);
    let socket = link.open(spec, READ_TIMEOUT).map_err(say)?;
    if let Some(bytes) = spec.send_buffer_bytes {
        socket::set_send_buffer(&socket, bytes as usize);
    }
    let goes_on = || !stop.is_set();
    let course = Course {
        flow: spec.flow,
        token: link.token,
        key: &key,
        schedule: &schedule,
        is_bursts: spec.kind == Kind::Burst,
        socket: &socket,
        envelope: &Envelope::connected(),
        start_ns: start_ns.saturating_add(clock::ns(spec.start_s)),
        goes_on: &goes_on,
        sink,
    };
    let is_rare = course.is_bursts || schedule.every_ns >= BUSY_GAP_NS;
    let outcome = in_own_thread(is_rare, || transmit(&course)).map_err(say)?;
    tell(spec.flow, &outcome, &whom, sink);
    if outcome.packets == 0 && outcome.is_complete {
        return Err(match &outcome.error {
            Some(error) => explained(error, &whom),
            None => format!("{whom}: nothing was due to be sent in the flow's duration"),
        });
    }
    let end = End {
        flow: spec.flow,
        link,
        key: &key,
        socket: &socket,
    };
    if !finish(&end, &outcome, stop).map_err(say)? && !stop.is_set() {
        return Err(format!(
            "{whom}: the responder did not confirm the end of the flow within {} s: it is gone, or the path lets no \
             UDP through",
            FINISH_NS / 1_000_000_000
        ));
    }
    Ok(())
}

/// Runs `task` in a thread whose scheduling ends with it, so that the caller's stays as it is.
fn in_own_thread<T: Send>(is_rare: bool, task: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if is_rare {
                pace::prioritise();
            } else {
                clock::sharpen_timers();
            }
            task()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Tells the responder how much was sent; true where it confirms.
fn finish(end: &End, outcome: &Outcome, stop: &Stop) -> io::Result<bool> {
    let limit_ns = if stop.is_set() {
        FINISH_STOPPED_NS
    } else {
        FINISH_NS
    };
    let was_set = stop.is_set();
    let goes_on = || was_set || !stop.is_set();
    let request = || {
        (
            outcome.packets,
            Body::Finish {
                bursts: outcome.bursts,
            },
        )
    };
    let confirmed = end.ask(
        &mut small_inbox(),
        clock::now_ns() + limit_ns,
        &goes_on,
        &request,
        &mut |packet, _| matches!(packet.body, Body::Finished { .. }).then_some(()),
    )?;
    Ok(confirmed.is_some())
}

/// Facts about what the sender did.
pub(crate) fn tell(flow: u32, outcome: &Outcome, whom: &str, sink: &Sink) {
    let mut told = vec![("packets_sent", outcome.packets.to_string())];
    if outcome.skipped > 0 {
        told.push((
            "packets_left_out_by_busy_sender",
            outcome.skipped.to_string(),
        ));
    }
    if outcome.not_sent > 0 {
        told.push(("packets_not_sent", outcome.not_sent.to_string()));
    }
    if let Some(error) = &outcome.error {
        told.push(("not_sent_because", explained(error, whom)));
    }
    facts::tell(flow, told, sink);
}
