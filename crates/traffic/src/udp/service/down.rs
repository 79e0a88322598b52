//! A flow from the responder: the client proves its address, then a thread sends while the client keeps the flow alive.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use socket2::{Domain, Socket};

use crate::clock;
use crate::flow::{FlowSpec, Kind};
use crate::sample::Sink;
use crate::stop::Stop;

use super::super::copies::{Admission, Requests};
use super::super::facts;
use super::super::packet::{Body, Keys, Nonce, Packet, Refusal};
use super::super::schedule::Schedule;
use super::super::socket::{Envelope, send};
use super::super::transmit::{Course, Outcome, transmit};
use super::super::upload;

/// Without a proof for this long, the client is gone. Shorter in tests, which wait for it.
const DEAD_NS: i64 = if cfg!(test) {
    2_500_000_000
} else {
    5_000_000_000
};
/// A nonce is valid for one to two of these.
const EPOCH_NS: i64 = 30_000_000_000;
/// How often the end is announced until it is confirmed.
const FINISH_TIMES: u32 = 25;
const FINISH_AGAIN_NS: i64 = 200_000_000;

/// How a request arrived, and how its answer is returned.
pub(super) struct ReplyPath<'a> {
    pub socket: &'a Arc<Socket>,
    pub from: SocketAddr,
    pub to: Option<IpAddr>,
    pub domain: Domain,
    pub stop: &'a Stop,
}

/// One flow down.
pub(super) struct Down {
    token: u64,
    spec: FlowSpec,
    schedule: Schedule,
    refusal: Option<Refusal>,
    ends_ns: i64,
    secret: [u8; 32],
    requests: Requests,
    running: Option<Running>,
}

struct Running {
    address: SocketAddr,
    nonce: Nonce,
    signals: Arc<Signals>,
    thread: Option<JoinHandle<()>>,
}

/// Signals from the service's thread to the sending thread.
#[derive(Debug)]
struct Signals {
    /// The time of the latest proof.
    alive_ns: AtomicI64,
    is_left: AtomicBool,
    is_confirmed: AtomicBool,
}

impl Down {
    pub(super) fn new(
        token: u64,
        spec: &FlowSpec,
        schedule: Schedule,
        refusal: Option<Refusal>,
        ends_ns: i64,
        secret: [u8; 32],
    ) -> Down {
        Down {
            token,
            requests: Requests::default(),
            spec: spec.clone(),
            schedule,
            refusal,
            ends_ns,
            secret,
            running: None,
        }
    }

    /// Registers a request before it is served.
    pub(super) fn admit(&mut self, packet: &Packet) -> Admission {
        self.requests.admit(packet.sequence)
    }

    pub(super) fn class(&self) -> u8 {
        self.spec.traffic_class()
    }

    /// Handles the client's request; returns the body of the answer, if any.
    pub(super) fn serve(
        &mut self,
        packet: &Packet,
        reply_path: &ReplyPath,
        keys: &Keys,
        sink: &Arc<Sink>,
        now_ns: i64,
    ) -> Option<Body> {
        if let Some(refusal) = self.refusal {
            return matches!(packet.body, Body::Hello | Body::Proof { .. })
                .then_some(Body::Refused(refusal));
        }
        match packet.body {
            Body::Hello => Some(Body::Challenge(
                self.nonce(reply_path.from, now_ns / EPOCH_NS),
            )),
            Body::Proof { nonce, start_in_ns } => match &self.running {
                Some(running) => running
                    .keep_alive(nonce, reply_path.from, now_ns)
                    .then_some(Body::Accepted),
                None => {
                    let epoch = now_ns / EPOCH_NS;
                    let is_proved = [epoch, epoch - 1]
                        .iter()
                        .any(|&epoch| nonce == self.nonce(reply_path.from, epoch));
                    if !is_proved {
                        return None;
                    }
                    let start_ns =
                        now_ns.saturating_add(i64::try_from(start_in_ns).unwrap_or(i64::MAX));
                    let running = self.start(nonce, reply_path, keys, sink, start_ns).ok()?;
                    self.running = Some(running);
                    Some(Body::Accepted)
                }
            },
            Body::Leave(nonce) => {
                if let Some(running) = self
                    .running
                    .as_ref()
                    .filter(|running| running.nonce == nonce)
                {
                    running.signals.is_left.store(true, Ordering::Relaxed);
                }
                None
            }
            Body::Finished(_) => {
                if let Some(running) = &self.running {
                    running.signals.is_confirmed.store(true, Ordering::Relaxed);
                }
                None
            }
            _ => None,
        }
    }

    /// Stops the thread. Joining it takes a few hundredths of a second.
    pub(super) fn end(self) -> Option<JoinHandle<()>> {
        let running = self.running?;
        running.signals.is_left.store(true, Ordering::Relaxed);
        running.thread
    }

    /// Computes the nonce that only a host receiving at `address` can know; it is recomputed instead of stored.
    fn nonce(&self, address: SocketAddr, epoch: i64) -> Nonce {
        let mut code =
            Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        code.update(&self.token.to_be_bytes());
        code.update(&self.spec.flow.to_be_bytes());
        code.update(&epoch.to_be_bytes());
        code.update(address.to_string().as_bytes());
        let code = code.finalize().into_bytes();
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&code[..16]);
        nonce
    }

    fn start(
        &self,
        nonce: Nonce,
        reply_path: &ReplyPath,
        keys: &Keys,
        sink: &Arc<Sink>,
        start_ns: i64,
    ) -> io::Result<Running> {
        let signals = Arc::new(Signals {
            alive_ns: AtomicI64::new(clock::now_ns()),
            is_left: AtomicBool::new(false),
            is_confirmed: AtomicBool::new(false),
        });
        let sender = Sender {
            flow: self.spec.flow,
            is_bursts: self.spec.kind == Kind::Burst,
            schedule: self.schedule.clone(),
            keys: keys.clone(),
            socket: Arc::clone(reply_path.socket),
            envelope: Envelope::new(
                reply_path.domain,
                reply_path.from,
                reply_path.to,
                self.class(),
            ),
            client: reply_path.from,
            start_ns,
            ends_ns: self.ends_ns,
            signals: Arc::clone(&signals),
            stop: reply_path.stop.clone(),
            sink: Arc::clone(sink),
        };
        let thread = std::thread::Builder::new()
            .name("whydrop-udp-down".to_owned())
            .spawn(move || sender.run())?;
        Ok(Running {
            address: reply_path.from,
            nonce,
            signals,
            thread: Some(thread),
        })
    }
}

impl Running {
    /// True if this proof, which is no copy of an earlier one, comes from the flow's client.
    fn keep_alive(&self, nonce: Nonce, from: SocketAddr, now_ns: i64) -> bool {
        let is_clients = nonce == self.nonce && from == self.address;
        if is_clients {
            self.signals.alive_ns.store(now_ns, Ordering::Relaxed);
        }
        is_clients
    }
}

/// The thread that sends one flow down.
struct Sender {
    flow: u32,
    is_bursts: bool,
    schedule: Schedule,
    keys: Keys,
    socket: Arc<Socket>,
    envelope: Envelope,
    client: SocketAddr,
    start_ns: i64,
    ends_ns: i64,
    signals: Arc<Signals>,
    stop: Stop,
    sink: Arc<Sink>,
}

impl Sender {
    fn run(&self) {
        clock::sharpen_timers();
        let course = Course {
            flow: self.flow,
            keys: &self.keys,
            schedule: &self.schedule,
            is_bursts: self.is_bursts,
            socket: &self.socket,
            envelope: &self.envelope,
            start_ns: self.start_ns,
            goes_on: &|| self.goes_on(),
            sink: &self.sink,
        };
        match transmit(&course) {
            Ok(outcome) => {
                upload::record_facts(self.flow, &outcome, &self.client.to_string(), &self.sink);
                self.finish(&outcome);
            }
            Err(error) => {
                let words = super::super::words::explained(&error, &self.client.to_string());
                facts::record(self.flow, [("responder_could_not_send", words)], &self.sink);
            }
        }
    }

    /// True while the client is alive and the flow has not been stopped.
    fn goes_on(&self) -> bool {
        let now_ns = clock::now_ns();
        let alive_ns = self.signals.alive_ns.load(Ordering::Relaxed);
        !self.signals.is_left.load(Ordering::Relaxed)
            && !self.stop.is_set()
            && now_ns < self.ends_ns
            && now_ns < alive_ns.saturating_add(DEAD_NS)
    }

    fn finish(&self, outcome: &Outcome) {
        for number in 0..FINISH_TIMES {
            if !self.goes_on() || self.signals.is_confirmed.load(Ordering::Relaxed) {
                return;
            }
            let packet = Packet {
                flow: self.flow,
                sequence: number.into(),
                sent_ns: clock::now_ns(),
                body: Body::Finish(outcome.total()),
            };
            let _ = send(&self.socket, &self.envelope, &packet.bytes(&self.keys));
            let next_ns = clock::now_ns() + FINISH_AGAIN_NS;
            let is_open = || self.goes_on() && !self.signals.is_confirmed.load(Ordering::Relaxed);
            crate::pace::wait(next_ns, &is_open);
        }
    }
}
