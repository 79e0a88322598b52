//! The link between both ends after the handshake of the control channel.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::Socket;

use super::socket;
use crate::flow::FlowSpec;
use crate::local_end::LocalEnd;

/// The flow number of exchanges of stamps that belong to no flow: every session has it.
pub const SYNCHRONISATION_FLOW: u32 = u32::MAX;

/// The address and keys by which a client reaches its session at the responder's UDP port.
#[derive(Clone)]
pub struct Link {
    pub remote: SocketAddr,
    /// Where its packets leave from.
    pub source: LocalEnd,
    /// Names the session.
    pub token: u64,
    /// Of this session alone; authenticates every packet.
    pub key: [u8; 32],
}

impl Link {
    /// A socket of a flow towards the far end.
    pub(crate) fn open(&self, spec: &FlowSpec, read_timeout: Duration) -> io::Result<Socket> {
        socket::connect(
            self.remote,
            &self.source,
            spec.traffic_class(),
            read_timeout,
        )
    }
}

impl fmt::Debug for Link {
    /// Without the key, so that no log holds it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Link")
            .field("remote", &self.remote)
            .field("source", &self.source)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// The far end, asked over the control channel.
pub trait FarSide {
    /// Which sequence numbers of this probe flow reached the responder, as inclusive ranges in ascending order;
    /// `None` where the far end cannot be asked any more.
    fn arrivals(&self, flow: u32) -> Option<Vec<(u64, u64)>>;
}
