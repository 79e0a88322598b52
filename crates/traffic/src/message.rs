//! Messages between client and responder on the control channel.

use serde::{Deserialize, Serialize};

use crate::flow::FlowSpec;
use crate::sample::{BurstPacket, Departure, Ending, Interval, TcpSample};

/// From the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// The flows of the session: the first message, sent once.
    Open { flows: Vec<FlowSpec> },
    /// To be returned immediately: shows that the client is running, and compares the clocks.
    Echo { sent_ns: i64 },
    /// Requests the responder's metadata for the recording.
    Describe,
    /// Requests which probes of a flow arrived.
    Arrivals { flow: u32 },
    /// Ends all flows and requests the remaining measurements.
    Finish,
}

/// From the responder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The flows may begin; contains the number by which data connections and UDP packets name the session.
    Accepted {
        session: u64,
    },
    /// The reason, for the user.
    Refused(String),
    Echo {
        sent_ns: i64,
        far_ns: i64,
    },
    /// JSON.
    Description(String),
    /// Inclusive ranges of sequence numbers.
    Arrivals {
        flow: u32,
        ranges: Vec<(u64, u64)>,
    },
    Report(Report),
    /// All measurements have been sent.
    Finished,
    /// The responder ends the session, with the reason.
    Ended(String),
}

/// Measurements at the responder's end of the flows, in its clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub intervals: Vec<Interval>,
    pub tcp: Vec<TcpSample>,
    pub bursts: Vec<BurstPacket>,
    pub departures: Vec<Departure>,
    pub endings: Vec<(u32, Ending)>,
    pub facts: Vec<(u32, String, String)>,
}
