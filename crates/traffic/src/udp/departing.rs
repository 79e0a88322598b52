//! Departure times of packets: the kernel timestamps them as it hands them to the interface, after its own queues.
//!
//! An application's timestamp is when it sent a packet; the packet then waits in the host's own queue while the line is
//! busy. The kernel timestamps the departure (Linux, Documentation/networking/timestamping.rst) and returns the packet
//! with its headers over the socket's error queue. Its contents identify it, even if several flows share the socket.

use std::io::IoSliceMut;
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, TimestampingFlag, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeValLike;
use socket2::Socket;

use crate::clock;
use crate::sample::{Departure, Sink};

use super::packet::{Body, HEADER_BYTES, Keys, Packet};
use super::transmit::Course;

/// The longest headers before whydrop's own: Ethernet with two VLAN tags, IPv6 and UDP.
const MOST_BEFORE_BYTES: usize = 22 + 40 + 8;

/// Departure timestamps of one flow's packets while it sends.
pub(super) struct Departing<'a> {
    flow: u32,
    /// UDP payload of each packet.
    packet_bytes: usize,
    keys: &'a Keys,
    socket: &'a Socket,
    sink: &'a Sink,
    rows: Vec<Departure>,
}

impl<'a> Departing<'a> {
    /// Requests timestamps. If the kernel or the interface provides none, there are no rows, and nothing else changes.
    pub(super) fn of(course: &Course<'a>) -> Departing<'a> {
        let stamps = TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
        let _ = setsockopt(course.socket, sockopt::Timestamping, &stamps);
        Departing {
            flow: course.flow,
            packet_bytes: course.schedule.packet_bytes,
            keys: course.keys,
            socket: course.socket,
            sink: course.sink,
            rows: Vec::new(),
        }
    }

    /// Reads the departures that the kernel has timestamped since the last call.
    pub(super) fn take(&mut self) {
        while let Some(departure) = self.next() {
            self.rows.extend(departure);
        }
    }

    /// Reads the next timestamp; the inner value is `None` for a packet of another flow.
    fn next(&self) -> Option<Option<Departure>> {
        let mut bytes = [0; MOST_BEFORE_BYTES + HEADER_BYTES];
        // IPv6 adds the packet's addresses, its traffic class, and a longer extended error: with less room, nothing.
        let mut room = cmsg_space!([libc::timespec; 3], [u8; 256]);
        let (length, stamp_ns) = {
            let mut pieces = [IoSliceMut::new(&mut bytes)];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let message =
                recvmsg::<()>(self.socket.as_raw_fd(), &mut pieces, Some(&mut room), flags).ok()?;
            let stamp_ns =
                message
                    .cmsgs()
                    .into_iter()
                    .flatten()
                    .find_map(|control| match control {
                        ControlMessageOwned::ScmTimestampsns(stamps) => {
                            Some(stamps.system.num_nanoseconds())
                        }
                        _ => None,
                    });
            (message.bytes, stamp_ns)
        };
        Some(
            stamp_ns
                .zip(self.sequence(&bytes[..length]))
                .map(|(stamp_ns, sequence)| Departure {
                    flow: self.flow,
                    sequence,
                    left_ns: clock::of_kernel_stamp_ns(stamp_ns),
                }),
        )
    }

    /// Parses the sequence number of a packet of this flow from the packet with its headers.
    fn sequence(&self, bytes: &[u8]) -> Option<u64> {
        let places = 0..bytes.len().saturating_sub(HEADER_BYTES - 1);
        let mut packets = places.filter_map(|place| {
            Packet::open_own(&bytes[place..], self.packet_bytes, self.keys).ok()
        });
        let packet = packets.next()?;
        let is_ours = packet.flow == self.flow;
        (is_ours && matches!(packet.body, Body::Burst(_))).then_some(packet.sequence)
    }

    /// Passes on the departures. Not while a burst is being sent: the responder's reports would share its path.
    pub(super) fn hand_on(&mut self) {
        if !self.rows.is_empty() {
            self.sink
                .with(|samples| samples.departures.append(&mut self.rows));
        }
    }
}

impl Drop for Departing<'_> {
    /// Timestamps that are no longer read would fill the socket's receive buffer.
    fn drop(&mut self) {
        let _ = setsockopt(
            self.socket,
            sockopt::Timestamping,
            &TimestampingFlag::empty(),
        );
        self.take();
        self.hand_on();
    }
}
