//! Requests that are repeated until they are answered: how both ends agree on a flow's beginning and end.

use std::io;

use socket2::Socket;

use crate::clock;

use super::link::Link;
use super::packet::{Body, HEADER_BYTES, Key, Packet};
use super::socket::{Datagram, Envelope, Inbox, send};
use super::transmit::Refusals;

/// The time between attempts.
const AGAIN_NS: i64 = 200_000_000;

/// One end of a flow, at the client.
pub(crate) struct End<'a> {
    pub flow: u32,
    pub link: &'a Link,
    pub key: &'a Key,
    /// Connected to the responder, with a short read timeout.
    pub socket: &'a Socket,
}

impl End<'_> {
    /// Authenticates a packet of this flow from the far end; `None` for any other datagram.
    pub(crate) fn open(&self, datagram: &Datagram) -> Option<Packet> {
        Packet::open(datagram.bytes, self.key)
            .ok()
            .filter(|packet| packet.token == self.link.token && packet.flow == self.flow)
    }

    /// Sends one small packet; transient errors are treated like its loss.
    pub(crate) fn send(&self, sequence: u64, body: Body) -> io::Result<()> {
        let packet = Packet {
            flow: self.flow,
            token: self.link.token,
            sequence,
            sent_ns: clock::now_ns(),
            body,
        };
        match send(self.socket, &Envelope::connected(), &packet.bytes(self.key)) {
            Err(error) if super::words::may_pass(&error) => Ok(()),
            result => result,
        }
    }

    /// Sends what `request` produces, once for each attempt, until `is_answer` accepts a reply.
    ///
    /// `Ok(None)`: no answer arrived by `until_ns`, or it is no longer wanted.
    pub(crate) fn ask<T>(
        &self,
        inbox: &mut Inbox,
        until_ns: i64,
        goes_on: &dyn Fn() -> bool,
        request: &dyn Fn() -> (u64, Body),
        is_answer: &mut dyn FnMut(&Packet, &Datagram) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let mut refusals = Refusals::default();
        let mut next_ns = i64::MIN;
        while goes_on() {
            let now_ns = clock::now_ns();
            if now_ns >= until_ns {
                break;
            }
            if now_ns >= next_ns {
                let (sequence, body) = request();
                self.send(sequence, body)?;
                next_ns = now_ns + AGAIN_NS;
            }
            match inbox.receive(self.socket, true) {
                Err(error) if error.raw_os_error() == Some(libc::ECONNREFUSED) => {
                    if refusals.register(clock::now_ns()) {
                        return Err(error);
                    }
                }
                Err(error) if super::words::may_pass(&error) => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            // All datagrams are examined: those that arrived with the answer will not be repeated.
            let mut answers = inbox.datagrams().filter_map(|datagram| {
                let packet = self.open(&datagram)?;
                is_answer(&packet, &datagram)
            });
            let answer = answers.next();
            answers.for_each(drop);
            if answer.is_some() {
                return Ok(answer);
            }
        }
        Ok(None)
    }
}

/// An inbox with room for one small packet more than is ever expected.
pub(crate) fn small_inbox() -> Inbox {
    Inbox::new(8, HEADER_BYTES)
}
