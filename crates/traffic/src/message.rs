//! Messages of client and responder on the control channel.

use serde::{Deserialize, Serialize};

use crate::flow::FlowSpec;
use crate::sample::{BurstPacket, Departure, Ending, Interval, TcpSample};

/// From the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// The flows of the session; the first message, and sent once.
    Open { flows: Vec<FlowSpec> },
    /// To be sent back at once: shows that the client lives, and compares the clocks.
    Echo { sent_ns: i64 },
    /// The responder's own metadata, for the recording.
    Describe,
    /// Which probes of a flow arrived.
    Arrivals { flow: u32 },
    /// End all flows and send what is left.
    Finish,
}

/// From the responder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The flows may begin; the number by which data connections and UDP packets name the session.
    Accepted {
        session: u64,
    },
    /// Why not, for the person who must act.
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
    /// Everything is sent.
    Finished,
    /// The responder ends the session by itself, and why.
    Ended(String),
}

/// Measurements of the responder's end of the flows, in its own clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub intervals: Vec<Interval>,
    pub tcp: Vec<TcpSample>,
    pub bursts: Vec<BurstPacket>,
    pub departures: Vec<Departure>,
    pub endings: Vec<(u32, Ending)>,
    pub facts: Vec<(u32, String, String)>,
}
