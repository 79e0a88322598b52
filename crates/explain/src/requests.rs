//! Requests of a connection and their waiting times: a request is data of the side that opened the
//! connection, its answer the next data of the other side.

use whydrop_tcp::{Connection, Flow, Segment, SegmentFlags, Transfer};

/// A delay that a person notices (Nielsen 1993: after a second a train of thought breaks; half of it is
/// noticed).
pub(crate) const NOTICEABLE_NS: i64 = 500_000_000;
/// A server normally answers within this time; before it has passed, an answer may still come.
const OPEN_NS: i64 = 3_000_000_000;
/// More than this is an upload, which may need no answer.
const LARGEST_REQUEST_BYTES: u64 = 1 << 20;

/// The side that ended the wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GaveUp {
    Asking,
    Asked,
    /// Neither: the wait continued to the end of the capture.
    Neither,
}

/// The last request of a connection, which was acknowledged and never answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenRequest {
    pub bytes: u64,
    /// Time at which all of it was acknowledged, on the capture's clock.
    pub acknowledged_ns: i64,
    pub until_ns: i64,
    pub gave_up: GaveUp,
}

impl OpenRequest {
    pub fn waited_ns(&self) -> i64 {
        self.until_ns.saturating_sub(self.acknowledged_ns).max(0)
    }
}

/// The request at the end of a connection, if it got no answer although one was due; the capture ends at
/// `last_ns`.
///
/// An answer was due if none was ever sent, or if the same side had got answers to requests of similar size;
/// and if a side gave up, or the wait was long. A side that writes occasionally, and continues without an
/// answer, requests none.
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
    // selectively acknowledged data came after a hole: the application got none of it
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
        GaveUp::Asking => waited_ns >= NOTICEABLE_NS && (!ever_answered || is_as_large()),
        // data that a side sends just before it closes is no request
        GaveUp::Asked if is_reset => !ever_answered || is_as_large(),
        GaveUp::Asked => waited_ns >= NOTICEABLE_NS && (!ever_answered || is_as_large()),
        GaveUp::Neither => waited_ns >= OPEN_NS && !ever_answered && connection.from_start,
    };
    is_due.then_some(request)
}

/// The end of a wait, and the side that ended it. A side that closes as it asks has sent all its data, and
/// continues to wait.
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
        (None, None) => (last_ns, GaveUp::Neither),
    }
}

fn own_segments<'a>(flow: &'a Flow, transfer: &Transfer) -> &'a [Segment] {
    flow.segments
        .get(transfer.first..transfer.end)
        .unwrap_or(&[])
}

/// A request is written at once; pauses within it are those of a side that does not wait.
fn is_written_at_once(request: &[Segment]) -> bool {
    request
        .windows(2)
        .all(|pair| pair[1].time_ns.saturating_sub(pair[0].time_ns) < NOTICEABLE_NS)
}

/// Share of a flow's missing packets beyond which an absence in the capture proves nothing.
const MUCH_MISSING_SHARE: f64 = 0.02;

/// True if so much is missing that the answer may be missing too.
pub(crate) fn lacks_much(connection: &Connection) -> bool {
    connection.flows.iter().any(|flow| {
        let missed = flow.counters.missed_by_capture_packets as f64;
        missed > MUCH_MISSING_SHARE * flow.segments.len() as f64
    })
}
