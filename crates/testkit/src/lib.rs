//! Packets and capture files as bytes, field by field, for the tests of other crates.
//!
//! Nothing here reads: what reads is tested against it. Fields have the values that most tests do not vary, and may
//! contradict each other, as a hostile capture's do.

#![forbid(unsafe_code)]

mod files;
mod packets;

pub use files::{
    ByteOrder, PcapFile, block, enhanced_packet, interface, option, put32, section_header,
};
pub use packets::{ACK, Ipv4, Ipv6, TIMESTAMPS, Tcp, TcpOptions, Udp, ethernet};
