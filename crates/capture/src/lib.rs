//! Capture files to packets.

pub mod packet;

pub use packet::{Network, Packet, TcpFlags, TcpOptions, TcpSegment, Transport};
