//! Requests that are repeated until they are answered: how both ends agree on a flow's beginning and end.

use std::cell::Cell;
use std::io;

use socket2::Socket;

use crate::clock;

use super::packet::{Body, HEADER_BYTES, Keys, Packet};
use super::socket::{Datagram, Envelope, Inbox, send};
use super::transmit::Refusals;

/// The time between attempts.
const AGAIN_NS: i64 = 200_000_000;

/// One end of a flow, at the client.
pub(crate) struct End<'a> {
    flow: u32,
    keys: &'a Keys,
    /// Connected to the responder, with a short read timeout.
    pub socket: &'a Socket,
    /// The number of the next request: the responder accepts each number once.
    next: Cell<u64>,
}

impl<'a> End<'a> {
    pub(crate) fn new(flow: u32, keys: &'a Keys, socket: &'a Socket) -> End<'a> {
        End {
            flow,
            keys,
            socket,
            next: Cell::new(0),
        }
    }

    /// Authenticates a packet of this flow from the far end; `None` for any other datagram.
    pub(crate) fn open(&self, datagram: &Datagram) -> Option<Packet> {
        Packet::open(datagram.bytes, datagram.length, self.keys)
            .ok()
            .filter(|packet| packet.flow == self.flow)
    }

    /// Sends one request; transient errors are treated like its loss.
    pub(crate) fn send(&self, body: Body) -> io::Result<()> {
        let packet = Packet {
            flow: self.flow,
            sequence: self.next.replace(self.next.get() + 1),
            sent_ns: clock::now_ns(),
            body,
        };
        match send(
            self.socket,
            &Envelope::connected(),
            &packet.bytes(self.keys),
        ) {
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
        request: &dyn Fn() -> Body,
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
                self.send(request())?;
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
