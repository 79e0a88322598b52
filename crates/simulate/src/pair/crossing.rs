//! Crossings of the two points: every packet with the true times at which it passed them.

use whydrop_hosts::{Segment, Toward};

use whydrop_network::history::Datagram;

/// A packet between the hosts, as it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossing {
    pub body: Body,
    /// When it passed each point, by one true clock; `None` if it never did.
    pub at_b_ns: Option<i64>,
    pub at_y_ns: Option<i64>,
    /// It was dropped between the two points. (A packet may also be in flight when the simulation ends.)
    pub lost_between: bool,
    /// It was marked between the two points; a mark from before B is in the segment.
    pub marked_between: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Body {
    Tcp(Segment),
    Udp(Datagram),
}

impl Body {
    pub fn toward(&self) -> Toward {
        match self {
            Body::Tcp(segment) => segment.toward,
            Body::Udp(_) => Toward::Client,
        }
    }

    pub fn payload_bytes(&self) -> u32 {
        match self {
            Body::Tcp(segment) => segment.payload_bytes,
            Body::Udp(datagram) => datagram.payload_bytes,
        }
    }
}

impl Crossing {
    /// True if it travels in the direction of the data: from B to Y.
    pub fn is_forward(&self) -> bool {
        self.body.toward() == Toward::Client
    }

    /// True transit between the points: from B to Y forward, from Y to B in reverse.
    pub fn transit_ns(&self) -> Option<i64> {
        let (b_ns, y_ns) = (self.at_b_ns?, self.at_y_ns?);
        Some(if self.is_forward() {
            y_ns - b_ns
        } else {
            b_ns - y_ns
        })
    }
}
