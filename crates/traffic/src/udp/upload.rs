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
use super::packet::Body;
use super::schedule::Schedule;
use super::socket::{self, Envelope};
use super::transmit::{Course, Outcome, transmit};
use super::words::{ended, explained};

/// How long the end of a flow is repeated: a full queue at the bottleneck may delay it for seconds.
const FINISH_NS: i64 = 5_000_000_000;
/// The same for a stopped flow, for which a user is waiting.
const FINISH_STOPPED_NS: i64 = 500_000_000;
const READ_TIMEOUT: Duration = Duration::from_millis(20);
/// A stream with smaller gaps would keep a real-time thread busy.
const BUSY_GAP_NS: f64 = 1_000_000.0;

/// Sends one flow of kind `Udp` or `Burst`; the responder counts its arrivals.
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
    let peer = link.remote.to_string();
    let say = |error: io::Error| explained(&error, &peer);
    let keys = link.keys();
    let socket = link.open(spec, READ_TIMEOUT).map_err(say)?;
    if let Some(bytes) = spec.send_buffer_bytes {
        socket::set_send_buffer(&socket, bytes as usize);
    }
    let goes_on = || !stop.is_set();
    let course = Course {
        flow: spec.flow,
        keys: &keys,
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
    record_facts(spec.flow, &outcome, &peer, sink);
    if outcome.packets == 0 && outcome.is_complete {
        return Err(match &outcome.error {
            Some(error) => explained(error, &peer),
            None => format!("{peer}: no packet was due in the flow's duration"),
        });
    }
    let end = End::new(spec.flow, &keys, &socket);
    if !finish(&end, &outcome, stop).map_err(say)? && !stop.is_set() {
        return Err(format!(
            "{peer}: the responder did not confirm the end of the flow within {} s: it has stopped, or the path blocks \
             UDP",
            FINISH_NS / 1_000_000_000
        ));
    }
    Ok(())
}

/// Runs `task` in its own thread, so that the scheduling it requests does not affect the caller.
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

/// Announces to the responder how many packets were sent; returns true if it confirms.
fn finish(end: &End, outcome: &Outcome, stop: &Stop) -> io::Result<bool> {
    let limit_ns = if stop.is_set() {
        FINISH_STOPPED_NS
    } else {
        FINISH_NS
    };
    let was_set = stop.is_set();
    let goes_on = || was_set || !stop.is_set();
    let request = || Body::Finish(outcome.total());
    let confirmed = end.ask(
        &mut small_inbox(),
        clock::now_ns() + limit_ns,
        &goes_on,
        &request,
        &mut |packet, _| matches!(packet.body, Body::Finished(_)).then_some(()),
    )?;
    Ok(confirmed.is_some())
}

/// Records facts about what was sent.
pub(crate) fn record_facts(flow: u32, outcome: &Outcome, peer: &str, sink: &Sink) {
    let mut facts = vec![("packets_sent", outcome.packets.to_string())];
    if outcome.skipped > 0 {
        facts.push((
            "packets_left_out_by_busy_sender",
            outcome.skipped.to_string(),
        ));
    }
    if outcome.not_sent > 0 {
        facts.push(("packets_not_sent", outcome.not_sent.to_string()));
    }
    if let Some(error) = &outcome.error {
        facts.push(("not_sent_because", explained(error, peer)));
    }
    facts::record(flow, facts, sink);
}
