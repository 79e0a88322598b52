//! From capture files to packets: pcap and pcapng, plain or compressed, with any link layer.
//!
//! ```no_run
//! use whydrop_capture::{Capture, OpenOptions};
//!
//! let mut capture = Capture::open(&["server.pcap.xz"], OpenOptions::default())?;
//! while let Some(packet) = capture.next_packet() {
//!     println!("{} ns: {} bytes", packet.time_ns, packet.wire_bytes);
//! }
//! println!("{} packets", capture.summary().packets);
//! # Ok::<(), whydrop_capture::CaptureError>(())
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`packet`] | the fields of a decoded packet: the output |
//! | `capture` | the stream of packets over one file or several in sequence |
//! | `input` | opening, decompressing, the buffer that the rest reads from |
//! | `format` | pcap and pcapng: the position and capture time of each frame |
//! | `decode` | link layers, IP, tunnels, transport headers |
//! | `selection` | which packets are read: a display filter, a span of time |
//! | `sequence` | files in time order |
//! | `timeline` | packets in time order, and clocks that were set |
//! | `unread` | contents that are counted and not read |
//! | `duplicates` | packets that one capture contains twice |
//! | `contain` | the boundary that confines a panic on hostile input |
//!
//! Memory does not grow with the file: one buffer, one table of recent packets.

#![forbid(unsafe_code)]

mod bytes;
mod capture;
mod checksum;
mod contain;
mod decode;
mod duplicates;
mod error;
mod format;
#[cfg(test)]
mod hostile_tests;
mod icmp;
mod input;
mod link_type;
pub mod packet;
mod selection;
mod sequence;
mod summary;
#[cfg(test)]
mod testing;
mod ticks;
mod timeline;
mod unread;

pub use capture::{Capture, OpenOptions};
pub use checksum::Checksum;
pub use contain::{Defect, contain, latest_defect};
pub use decode::decode_frame;
pub use error::CaptureError;
pub use icmp::{IcmpError, IcmpErrorKind};
pub use link_type::LinkType;
pub use packet::{Network, Packet, TcpFlags, TcpOptions, TcpSegment, Transport};
pub use selection::{Filter, FilterError, Moment, Selection};
pub use summary::{Copies, PacketKinds, Summary, Translation};
pub use ticks::Timeless;
