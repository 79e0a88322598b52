//! The state that both ends share after the handshake of the control channel.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::Socket;

use super::packet::Keys;
use super::socket;
use crate::flow::FlowSpec;
use crate::local_end::LocalEnd;

/// The flow number of exchanges of timestamps, which belong to no flow. Every session has it.
pub const SYNCHRONISATION_FLOW: u32 = u32::MAX;

/// The address and keys with which a client reaches its session at the responder's UDP port.
#[derive(Clone)]
pub struct Link {
    pub remote: SocketAddr,
    /// The local address and interface of its packets.
    pub source: LocalEnd,
    /// Names the session.
    pub token: u64,
    /// Of this session only; authenticates every packet.
    pub key: [u8; 32],
}

impl Link {
    pub(crate) fn keys(&self) -> Keys {
        Keys::of_client(&self.key, self.token)
    }

    /// Opens a socket for a flow towards the far end.
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
    /// Omits the key, so that it never appears in a log.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Link")
            .field("remote", &self.remote)
            .field("source", &self.source)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// The far end, as reached over the control channel.
pub trait FarSide {
    /// Returns the sequence numbers of this probe flow that reached the responder, as inclusive ranges in ascending
    /// order; `None` if the far end can no longer be asked.
    fn arrivals(&self, flow: u32) -> Option<Vec<(u64, u64)>>;
}
