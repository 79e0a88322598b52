//! Streams and bursts from the responder, received and counted at the client.

use std::io;
use std::time::Duration;

use crate::flow::{Direction, FlowSpec};
use crate::sample::{Ending, Sink};
use crate::stop::Stop;
use crate::{clock, udp::Link};

use super::collector::Collector;
use super::exchange::End;
use super::facts;
use super::packet::{Body, HEADER_BYTES, Nonce, Packet, Refusal};
use super::schedule::Schedule;
use super::socket::{self, Inbox};
use super::transmit::Refusals;
use super::words::{ended, explained, may_pass};

/// How long to request the flow from the responder before giving up.
const ASKING_NS: i64 = 5_000_000_000;
/// The time between keepalives; the responder gives up after five times that.
const KEEPALIVE_NS: i64 = 1_000_000_000;
/// How long after the planned end to wait for the last packets and the `finish`.
const LINGER_NS: i64 = 5_000_000_000;
/// How long after the `finish` to wait for packets that it overtook.
const OVERTAKEN_NS: i64 = 100_000_000;
/// A flow without a planned end is over after this silence.
const SILENCE_NS: i64 = 10_000_000_000;
/// How long after the end to wait for packets that still arrive from a deep queue.
const STRAGGLING_NS: i64 = 1_000_000_000;
const READ_TIMEOUT: Duration = Duration::from_millis(10);
const INBOX: usize = 64;

/// Receives one flow of kind `Udp` or `Burst`.
pub(crate) fn run(spec: &FlowSpec, link: &Link, start_ns: i64, stop: &Stop, sink: &Sink) -> Ending {
    ended(download(spec, link, start_ns, stop, sink), stop)
}

fn download(
    spec: &FlowSpec,
    link: &Link,
    start_ns: i64,
    stop: &Stop,
    sink: &Sink,
) -> Result<(), String> {
    let schedule = Schedule::of(spec)?;
    let peer = link.remote.to_string();
    let say = |error: io::Error| explained(&error, &peer);
    let keys = link.keys();
    let socket = link.open(spec, READ_TIMEOUT).map_err(say)?;
    if let Some(bytes) = spec.receive_buffer_bytes {
        socket::set_receive_buffer(&socket, bytes as usize);
    }
    let end = End::new(spec.flow, &keys, &socket);
    let start_ns = start_ns.saturating_add(clock::ns(spec.start_s));
    let until_ns = clock::now_ns() + ASKING_NS;
    let mut inbox = Inbox::new(INBOX, schedule.packet_bytes.max(HEADER_BYTES));
    let Some(nonce) = challenge(&end, &mut inbox, until_ns, stop, &peer)? else {
        return Ok(());
    };
    let mut reception = Reception {
        end,
        nonce,
        start_ns,
        confirmed: None,
        collector: Collector::new(spec, &schedule, Some(start_ns)),
        inbox,
        last_arrival_ns: clock::now_ns().max(start_ns),
    };
    if reception.agree(until_ns, stop, &peer)?.is_none() {
        return Ok(());
    }
    let result = reception.receive(&schedule, stop, sink).map_err(say);
    let lost_by_host = reception.inbox.dropped();
    let arrived = reception.collector.packets();
    let now_ns = clock::now_ns();
    // Waiting for the sender's `finish` does not count as part of the flow; a silence before it does.
    let end_ns = match (&result, schedule.duration_ns()) {
        (Ok(true), Some(duration_ns)) => start_ns.saturating_add(duration_ns).min(now_ns),
        (Ok(true), None) => i64::MIN,
        _ => now_ns,
    };
    reception.collector.finish(end_ns, Direction::Down, sink);
    if lost_by_host > 0 {
        facts::record(
            spec.flow,
            [("packets_lost_in_receive_buffer", lost_by_host.to_string())],
            sink,
        );
    }
    let is_confirmed = result?;
    if stop.is_set() {
        return Ok(());
    }
    if arrived == 0 {
        return Err(format!(
            "{peer}: the responder agreed to send, but no packet arrived: a firewall blocks them, or they are \
             too large for the path"
        ));
    }
    if !is_confirmed {
        return Err(format!(
            "{peer}: packets stopped arriving before the flow's end: the responder or the path failed"
        ));
    }
    Ok(())
}

/// Requests the flow and receives the nonce that proves this end's address; `None` if the flow is no longer wanted.
fn challenge(
    end: &End,
    inbox: &mut Inbox,
    until_ns: i64,
    stop: &Stop,
    peer: &str,
) -> Result<Option<Nonce>, String> {
    let answer = end.ask(
        inbox,
        until_ns,
        &|| !stop.is_set(),
        &|| Body::Hello,
        &mut |packet, _| match packet.body {
            Body::Challenge(nonce) => Some(Ok(nonce)),
            Body::Refused(refusal) => Some(Err(refusal)),
            _ => None,
        },
    );
    granted(answer, stop, peer)
}

/// Interprets the answer to a request; `None` if the flow is no longer wanted.
fn granted<T>(
    answer: io::Result<Option<Result<T, Refusal>>>,
    stop: &Stop,
    peer: &str,
) -> Result<Option<T>, String> {
    match answer.map_err(|error| explained(&error, peer))? {
        Some(Ok(granted)) => Ok(Some(granted)),
        Some(Err(refusal)) => Err(refused(refusal, peer)),
        None if stop.is_set() => Ok(None),
        None => Err(silent(peer)),
    }
}

fn proof(nonce: Nonce, start_ns: i64) -> Body {
    Body::Proof {
        nonce,
        start_in_ns: start_ns.saturating_sub(clock::now_ns()).max(0) as u64,
    }
}

fn silent(peer: &str) -> String {
    format!(
        "{peer}: no answer over UDP for {} s: does a firewall let this UDP port through, in both directions?",
        ASKING_NS / 1_000_000_000
    )
}

fn refused(refusal: Refusal, peer: &str) -> String {
    match refusal {
        Refusal::Rate(allowed) => format!(
            "{peer}: the responder sends at most {allowed} bit/s for one session: request less, or start it with a \
             higher limit"
        ),
        Refusal::PacketSize(allowed) => format!(
            "{peer}: the responder sends packets of at most {allowed} bytes: request smaller ones, or start it with a \
             higher limit"
        ),
        Refusal::NoSuchFlow => {
            format!("{peer}: the responder does not know this flow: is it of the same version?")
        }
    }
}

struct Reception<'a> {
    end: End<'a>,
    nonce: Nonce,
    start_ns: i64,
    /// The number of the latest `finish` that was confirmed.
    confirmed: Option<u64>,
    collector: Collector,
    inbox: Inbox,
    last_arrival_ns: i64,
}

impl Reception<'_> {
    /// Proves this end's address; `None` if the flow is no longer wanted.
    fn agree(&mut self, until_ns: i64, stop: &Stop, peer: &str) -> Result<Option<()>, String> {
        let (nonce, start_ns, collector) = (self.nonce, self.start_ns, &mut self.collector);
        let answer = self.end.ask(
            &mut self.inbox,
            until_ns,
            &|| !stop.is_set(),
            &|| proof(nonce, start_ns),
            &mut |packet, datagram| match packet.body {
                Body::Accepted => Some(Ok(())),
                // The first packets of a flow that is already due may arrive before the answer.
                Body::Stream | Body::Burst(_) => {
                    collector.arrive(packet, datagram);
                    Some(Ok(()))
                }
                Body::Refused(refusal) => Some(Err(refusal)),
                _ => None,
            },
        );
        granted(answer, stop, peer)
    }

    /// Receives until the flow is over; true if its sender announced the end.
    fn receive(&mut self, schedule: &Schedule, stop: &Stop, sink: &Sink) -> io::Result<bool> {
        let end_ns = schedule.duration_ns().map_or(i64::MAX, |duration_ns| {
            self.start_ns.saturating_add(duration_ns)
        });
        let mut refusals = Refusals::default();
        let mut alive_ns = clock::now_ns();
        let mut finished_ns = None;
        loop {
            if stop.is_set() {
                return self.leave().map(|()| false);
            }
            let now_ns = clock::now_ns();
            if now_ns >= alive_ns + KEEPALIVE_NS {
                alive_ns = now_ns;
                self.end.send(proof(self.nonce, self.start_ns))?;
            }
            match self.inbox.receive(self.end.socket, true) {
                Err(error) if error.raw_os_error() == Some(libc::ECONNREFUSED) => {
                    if refusals.register(clock::now_ns()) {
                        return Err(error);
                    }
                }
                Err(error) if may_pass(&error) => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            if let Some(finish) = self.take() {
                self.confirm(&finish)?;
                finished_ns.get_or_insert(now_ns);
            }
            if let Some(finished_ns) = finished_ns {
                if now_ns >= finished_ns + OVERTAKEN_NS {
                    return Ok(true);
                }
                continue;
            }
            self.collector.tick(clock::now_ns(), sink);
            if self.is_over(now_ns, end_ns) {
                return Ok(false);
            }
        }
    }

    /// True if no more packets are expected although the sender did not announce the end.
    fn is_over(&self, now_ns: i64, end_ns: i64) -> bool {
        let quiet_ns = now_ns.saturating_sub(self.last_arrival_ns);
        match end_ns {
            i64::MAX => quiet_ns > SILENCE_NS,
            end_ns => now_ns.saturating_sub(LINGER_NS) >= end_ns && quiet_ns > STRAGGLING_NS,
        }
    }

    /// Counts the datagrams that have arrived; returns the sender's `finish`, if there was one.
    fn take(&mut self) -> Option<Packet> {
        let mut finish = None;
        for datagram in self.inbox.datagrams() {
            let Some(packet) = self.end.open(&datagram) else {
                continue;
            };
            match packet.body {
                Body::Stream | Body::Burst(_) => {
                    let is_new = self.collector.arrive(&packet, &datagram);
                    // Copies do not keep a flow alive.
                    if is_new {
                        self.last_arrival_ns = datagram.received_ns;
                    }
                }
                Body::Finish(total) => {
                    self.collector.announce_end(total);
                    finish = Some(packet);
                }
                _ => {}
            }
        }
        finish
    }

    /// Confirms the end several times: if the confirmation is lost, the sender repeats its request when this end no
    /// longer listens.
    fn confirm(&mut self, finish: &Packet) -> io::Result<()> {
        let Body::Finish(total) = finish.body else {
            return Ok(());
        };
        if self
            .confirmed
            .is_some_and(|number| finish.sequence <= number)
        {
            return Ok(());
        }
        self.confirmed = Some(finish.sequence);
        for _ in 0..3 {
            self.end.send(Body::Finished(total))?;
        }
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        for _ in 0..3 {
            self.end.send(Body::Leave(self.nonce))?;
        }
        Ok(())
    }
}
