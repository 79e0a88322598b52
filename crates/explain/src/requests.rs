//! Requests of a connection, and how long they waited: a request is data of the side that opened the connection, its answer what
//! the other side sends next.

use whydrop_tcp::{Connection, Flow, Segment, SegmentFlags, Transfer};

/// A wait that a person feels (Nielsen 1993: after a second a train of thought breaks; half of it is noticed).
pub(crate) const FELT_NS: i64 = 500_000_000;
/// Nobody that is asked answers later without reason to; before that, whoever waits may still get an answer.
const OPEN_NS: i64 = 3_000_000_000;
/// More than this is an upload, whose end may ask for nothing.
const LARGEST_REQUEST_BYTES: u64 = 1 << 20;

/// Who ended the wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GaveUp {
    Asking,
    Asked,
    /// It went on to the end of the capture.
    Nobody,
}

/// The last request of a connection, which was acknowledged and never answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenRequest {
    pub bytes: u64,
    /// All of it was acknowledged, as seen here.
    pub acknowledged_ns: i64,
    pub until_ns: i64,
    pub gave_up: GaveUp,
}

impl OpenRequest {
    pub fn waited_ns(&self) -> i64 {
        self.until_ns.saturating_sub(self.acknowledged_ns).max(0)
    }
}

/// The request that a connection ended with, if it had no answer although one was due; the capture ends at `last_ns`.
///
/// One was due where none ever came, or where the same side had answers to what was as small; and where somebody gave up, or the
/// wait was long. A side that writes now and then, and goes on without an answer, asks for none.
pub(crate) fn open_request(connection: &Connection, last_ns: i64) -> Option<OpenRequest> {
    let asked = connection.responder();
    let [asking_flow, asked_flow] = [1 - asked, asked].map(|side| &connection.flows[side]);
    let (last, earlier) = asking_flow.transfers.split_last()?;
    let request = own_segments(asking_flow, last);
    let written_ns = request.last()?.time_ns;
    let acknowledged_ns = last.end_ns;
    let is_answered = asked_flow
        .segments
        .last()
        .is_some_and(|answer| answer.time_ns >= written_ns);
    let is_acknowledged =
        connection.unanswered[1 - asked].bytes == 0 && acknowledged_ns > request.first()?.time_ns;
    // what was selectively acknowledged came behind a hole: the application got none of it
    let is_whole = asking_flow.sack().blocks == 0
        && !request
            .iter()
            .any(|segment| segment.flags.has(SegmentFlags::INFERRED));
    let is_request =
        is_whole && is_written_at_once(request) && last.payload_bytes <= LARGEST_REQUEST_BYTES;
    if is_answered || !is_acknowledged || !is_request || lacks_much(connection) {
        return None;
    }
    let (until_ns, gave_up) = end_of_wait(connection, asked, last_ns);
    let request = OpenRequest {
        bytes: last.payload_bytes,
        acknowledged_ns,
        until_ns,
        gave_up,
    };
    let waited_ns = request.waited_ns();
    let ever_answered = asked_flow.carried_data();
    let is_as_large = || {
        let least_bytes = earlier.iter().map(|known| known.payload_bytes).min();
        least_bytes.is_some_and(|least_bytes| last.payload_bytes >= least_bytes)
    };
    let is_reset = connection
        .reset
        .as_deref()
        .is_some_and(|reset| reset.by == asked);
    let is_due = match gave_up {
        GaveUp::Asking => waited_ns >= FELT_NS && (!ever_answered || is_as_large()),
        // what a side says that closes itself is no request: it comes just before
        GaveUp::Asked if is_reset => !ever_answered || is_as_large(),
        GaveUp::Asked => waited_ns >= FELT_NS && (!ever_answered || is_as_large()),
        GaveUp::Nobody => waited_ns >= OPEN_NS && !ever_answered && connection.from_start,
    };
    is_due.then_some(request)
}

/// When a wait ended, and by whom. A side that closes as it asks has all that it wants to say out, and goes on waiting.
fn end_of_wait(connection: &Connection, asked: usize, last_ns: i64) -> (i64, GaveUp) {
    let reset = connection.reset.as_deref();
    let by = |side: usize| {
        let reset_ns = reset
            .filter(|reset| reset.by == side)
            .map(|reset| reset.time_ns);
        let ends_ns = [connection.closed_ns[side], reset_ns];
        ends_ns.into_iter().flatten().min()
    };
    match (by(1 - asked), by(asked)) {
        (Some(asking_ns), Some(asked_ns)) if asked_ns < asking_ns => (asked_ns, GaveUp::Asked),
        (Some(asking_ns), _) => (asking_ns, GaveUp::Asking),
        (None, Some(asked_ns)) => (asked_ns, GaveUp::Asked),
        (None, None) => (last_ns, GaveUp::Nobody),
    }
}

fn own_segments<'a>(flow: &'a Flow, transfer: &Transfer) -> &'a [Segment] {
    flow.segments
        .get(transfer.first..transfer.end)
        .unwrap_or(&[])
}

/// A request is written in one go; pauses in between are those of somebody who does not wait.
fn is_written_at_once(request: &[Segment]) -> bool {
    request
        .windows(2)
        .all(|pair| pair[1].time_ns.saturating_sub(pair[0].time_ns) < FELT_NS)
}

/// The share of a flow's packets that are missing from a capture, beyond which nothing can be told by what is not there.
const MUCH_MISSING_SHARE: f64 = 0.02;

/// True if so much is missing that the answer may be, too.
pub(crate) fn lacks_much(connection: &Connection) -> bool {
    connection.flows.iter().any(|flow| {
        let missed = flow.counters.missed_by_capture_packets as f64;
        missed > MUCH_MISSING_SHARE * flow.segments.len() as f64
    })
}
