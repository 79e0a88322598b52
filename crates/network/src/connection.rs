//! The two hosts of one connection: handshake, requests, acknowledgments, timestamps and the end.

mod client;
mod limits;

use whydrop_hosts::{
    AckIn, Host, Reason, Receiver, Segment, Sender, Toward, Transmission, WINDOW_SCALE, flags,
};
use whydrop_path::Ecn;

use crate::limiter::Ledger;
use crate::scenario::{Behaviour, Ending, FlowConfig};
use client::Repeated;

/// First retransmission timeout of a SYN-ACK (RFC 6298).
const SYN_ACK_TIMEOUT_NS: i64 = 1_000_000_000;
/// Bytes of a client's request for a chunk.
const REQUEST_BYTES: u32 = 120;
const SERVER_WINDOW_BYTES: u32 = 65_152;

/// How a host reacts to a segment.
#[derive(Debug, Default)]
pub struct Reaction {
    pub send: Vec<Segment>,
    /// The server received a request: its application writes.
    pub requested: bool,
    /// The client has received all that it requested.
    pub chunk_complete: bool,
}

pub struct Connection {
    pub config: FlowConfig,
    sender: Sender,
    receiver: Receiver,
    handshake: Handshake,
    client_next: u64,
    server_received: u64,
    requests: u32,
    /// The server's FIN when it was sent, and when it has reached the client.
    server_fin: Option<u64>,
    server_fin_seen: Option<u64>,
    client: Host,
    server: Host,
    /// Last.ACK.sent at the client (RFC 7323, section 4.3).
    client_last_ack: u64,
    /// The client has requested a chunk that is not complete.
    awaiting: bool,
    complete: bool,
    behaviour: Behaviour,
    /// A mark has reached the client, and the server has not reported a reduced window (RFC 3168, section 6.1.3).
    echoes: bool,
    /// The segment that the client retransmits until it is answered.
    repeated: Option<Repeated>,
    client_rtt_ns: i64,
    syn_sent_ns: i64,
    /// Remaining writes for the present request, and whether the first one has been made.
    writes_left: u32,
    answering: bool,
    ledger: Ledger,
}

#[derive(Debug, Clone, Copy, Default)]
struct Handshake {
    syn_ack_sent_ns: Option<i64>,
    syn_ack_due_ns: Option<i64>,
    syn_ack_tries: u32,
    server_established: bool,
    client_established: bool,
}

impl Connection {
    /// `random` chooses the numbers that real hosts choose at random.
    pub fn new(flow: usize, config: FlowConfig, random: &mut whydrop_path::Random) -> Self {
        let [client_id, server_id] = [(); 2].map(|()| random.next_u64() as u16);
        let [client_origin, server_origin] = [(); 2].map(|()| {
            let origin = random.next_u64() as u32;
            config.timestamps.then_some(origin)
        });
        Self {
            config,
            sender: Sender::new(config.sender),
            receiver: Receiver::new(config.receiver, config.sender.mss),
            handshake: Handshake::default(),
            client_next: 0,
            server_received: 0,
            requests: 0,
            server_fin: None,
            server_fin_seen: None,
            client: Host::new(flow, Toward::Server, client_id, client_origin),
            server: Host::new(flow, Toward::Client, server_id, server_origin),
            client_last_ack: 0,
            awaiting: false,
            complete: false,
            behaviour: Behaviour::default(),
            echoes: false,
            repeated: None,
            client_rtt_ns: 0,
            syn_sent_ns: 0,
            writes_left: 0,
            answering: false,
            ledger: Ledger::default(),
        }
    }

    pub fn set_behaviour(&mut self, behaviour: Behaviour) {
        self.behaviour = behaviour;
    }

    pub fn behaviour(&self) -> Behaviour {
        self.behaviour
    }

    pub fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    pub fn is_complete(&self) -> bool {
        self.complete
    }

    pub fn received_bytes(&self) -> u64 {
        self.receiver.received() - 1
    }

    fn client_segment(&mut self, now_ns: i64, flags: u8, payload_bytes: u32) -> Segment {
        let segment = self
            .client
            .segment(now_ns, flags, self.client_next, payload_bytes);
        self.client_next = segment.end();
        segment
    }

    fn server_segment(
        &mut self,
        now_ns: i64,
        flags: u8,
        sequence: u64,
        payload_bytes: u32,
    ) -> Segment {
        Segment {
            acknowledgment: self.server_received,
            window_bytes: SERVER_WINDOW_BYTES,
            ..self.server.segment(now_ns, flags, sequence, payload_bytes)
        }
    }

    pub fn open(&mut self, now_ns: i64) -> Segment {
        let mut syn = self.client_segment(now_ns, flags::SYN, 0);
        syn.window_bytes = self.config.receiver.initial_window_bytes.min(65_535) as u32;
        if self.behaviour.ecn {
            syn.flags |= flags::ECE | flags::CWR;
        }
        self.syn_sent_ns = now_ns;
        self.repeat_until_answered(now_ns, syn);
        self.note_state(now_ns);
        syn
    }

    fn syn_ack(&mut self, now_ns: i64) -> Segment {
        let timeout_ns = SYN_ACK_TIMEOUT_NS << self.handshake.syn_ack_tries.min(6);
        self.handshake.syn_ack_tries += 1;
        self.handshake.syn_ack_sent_ns = Some(now_ns);
        self.handshake.syn_ack_due_ns = Some(now_ns + timeout_ns);
        let mut segment = self.server_segment(now_ns, flags::SYN | flags::ACK, 0, 0);
        segment.identification = 0;
        if self.behaviour.ecn {
            segment.flags |= flags::ECE;
        }
        segment
    }

    /// Builds an acknowledgment from the client, with its window and SACK blocks.
    fn client_ack(&mut self, now_ns: i64) -> Segment {
        let ack = self.receiver.acknowledge(now_ns);
        let mut segment = self.client_segment(now_ns, flags::ACK, 0);
        // A FIN that has arrived counts once all earlier data has.
        let fin = self.server_fin_seen == Some(ack.acknowledgment);
        segment.acknowledgment = ack.acknowledgment + u64::from(fin);
        // The header can express multiples of the scale's unit only.
        segment.window_bytes = (ack.window_bytes as u32) >> WINDOW_SCALE << WINDOW_SCALE;
        segment.sack = ack.sack;
        segment.delay_ns = ack.delay_ns;
        if self.echoes {
            segment.flags |= flags::ECE;
        }
        self.client_last_ack = segment.acknowledgment;
        segment
    }

    /// Requests the next chunk.
    pub fn request(&mut self, now_ns: i64) -> Segment {
        self.requests += 1;
        self.awaiting = true;
        let mut segment = self.client_ack(now_ns);
        segment.flags |= flags::PSH;
        segment.payload_bytes = REQUEST_BYTES;
        self.client_next = segment.end();
        self.repeat_until_answered(now_ns, segment);
        segment
    }

    /// Processes a segment from the server at the client.
    pub fn at_client(&mut self, now_ns: i64, segment: &Segment) -> Reaction {
        let mut reaction = Reaction::default();
        if self.client_is_gone() {
            return reaction;
        }
        if segment.flags & flags::RST != 0 {
            self.complete = true;
            self.repeated = None;
            return reaction;
        }
        self.answered(now_ns, segment);
        if segment.flags & flags::CWR != 0 {
            self.echoes = false;
        }
        self.echoes |= segment.ecn == Ecn::Ce;
        if let Some((value, _)) = segment.timestamps {
            // RFC 7323, section 4.3: in order, and not from an old duplicate (section 5.3).
            let first = self.client_last_ack == 0;
            let newer = value.wrapping_sub(self.client.recent) as i32 >= 0;
            if first || (newer && segment.sequence <= self.client_last_ack) {
                self.client.recent = value;
            }
        }
        if segment.flags & flags::SYN != 0 {
            let first = !self.handshake.client_established;
            self.handshake.client_established = true;
            reaction.send.push(self.client_ack(now_ns));
            reaction.chunk_complete = first;
            return reaction;
        }
        if segment.flags & flags::FIN != 0 {
            self.server_fin_seen = Some(segment.sequence);
            reaction.send.push(self.client_ack(now_ns));
            return reaction;
        }
        if segment.payload_bytes == 0 {
            // A window probe repeats an old sequence number and must be answered (RFC 9293, section 3.8.6.1).
            if segment.sequence < self.receiver.received() {
                reaction.send.push(self.client_ack(now_ns));
            }
            return reaction;
        }
        if let Some(echo_ns) = self.client.echoed_ns(segment) {
            self.receiver.on_echo(now_ns, echo_ns);
        }
        if self
            .receiver
            .on_data(now_ns, segment.sequence, segment.end())
        {
            reaction.send.push(self.client_ack(now_ns));
        }
        let wanted = self.config.application.bytes_per_request() * u64::from(self.requests);
        // Only once: duplicates of the last data follow.
        if self.awaiting && self.received_bytes() == wanted {
            self.awaiting = false;
            reaction.chunk_complete = true;
        }
        reaction
    }

    /// True where the client will request another chunk after this one. If not, it may close.
    pub fn wants_more(&self) -> bool {
        self.requests < self.config.application.requests()
    }

    pub fn finish(&mut self, now_ns: i64) -> Option<Segment> {
        self.complete = true;
        if !self.config.closes {
            return None;
        }
        let mut segment = self.client_ack(now_ns);
        segment.flags |= flags::FIN;
        self.client_next = segment.end();
        Some(segment)
    }

    /// Processes a segment from the client at the server.
    pub fn at_server(&mut self, now_ns: i64, segment: &Segment) -> Reaction {
        let mut reaction = Reaction::default();
        if let Some((value, _)) = segment.timestamps {
            self.server.recent = value;
        }
        if segment.flags & flags::SYN != 0 {
            self.on_syn(now_ns, &mut reaction);
            return reaction;
        }
        if self.is_over() {
            return reaction;
        }
        if !self.handshake.server_established {
            self.handshake.server_established = true;
            self.handshake.syn_ack_due_ns = None;
            let rtt_ns = now_ns - self.handshake.syn_ack_sent_ns.unwrap_or(now_ns);
            self.sender
                .on_established(now_ns, rtt_ns, u64::from(segment.window_bytes));
        }
        let requested = segment.payload_bytes > 0
            && segment.sequence <= self.server_received
            && segment.end() > self.server_received;
        // Not beyond a request that was lost.
        if segment.sequence <= self.server_received {
            self.server_received = self.server_received.max(segment.end());
        }
        // The acknowledgment of the server's FIN is one beyond the sender's data; the sender is done then.
        if self.server_fin.is_none() {
            let ack = AckIn {
                acknowledgment: segment.acknowledgment,
                window_bytes: u64::from(segment.window_bytes),
                sack: segment.sack.as_slice(),
                pure: segment.is_pure_acknowledgment(),
                echo_ns: self.server.echoed_ns(segment),
            };
            self.note_acknowledgment(now_ns, segment);
            self.sender.on_ack(now_ns, ack);
            if self.behaviour.ecn && segment.flags & flags::ECE != 0 {
                self.sender.on_echo();
            }
        }
        if requested {
            reaction.requested = true;
            self.writes_left = self.config.application.writes().0;
            self.answering = false;
            self.ledger.requested(now_ns);
        }
        if segment.payload_bytes > 0 {
            let next = self.sender.next_sequence();
            reaction
                .send
                .push(self.server_segment(now_ns, flags::ACK, next, 0));
        }
        if segment.flags & flags::FIN != 0 {
            let next = self.sender.next_sequence();
            self.server_fin = Some(next);
            reaction
                .send
                .push(self.server_segment(now_ns, flags::FIN | flags::ACK, next, 0));
        }
        self.transmit(now_ns, &mut reaction.send);
        if let Ending::Reset { after_bytes } = self.behaviour.ending
            && self.sender.acknowledged_bytes() >= after_bytes
        {
            reaction.send.clear();
            reaction.send.push(self.reset(now_ns));
        }
        self.note_state(now_ns);
        reaction
    }

    /// Processes a SYN at the server.
    fn on_syn(&mut self, now_ns: i64, reaction: &mut Reaction) {
        match self.behaviour.ending {
            Ending::NoAnswer => {}
            Ending::Refused => reaction.send.push(self.reset(now_ns)),
            _ => {
                if self.server_received == 0 {
                    self.ledger.syn_arrived(now_ns - self.syn_sent_ns);
                }
                self.server_received = 1;
                if !self.handshake.server_established {
                    reaction.send.push(self.syn_ack(now_ns));
                }
            }
        }
    }

    /// Makes the server end the connection at once.
    fn reset(&mut self, now_ns: i64) -> Segment {
        self.complete = true;
        self.server_received = self.server_received.max(1);
        let next = if self.handshake.server_established {
            self.sender.next_sequence()
        } else {
            0
        };
        let segment = self.server_segment(now_ns, flags::RST | flags::ACK, next, 0);
        self.note_end(now_ns);
        Segment {
            window_bytes: 0,
            timestamps: None,
            ..segment
        }
    }

    /// True if the server no longer takes part.
    fn is_over(&self) -> bool {
        let ends_by_reset = matches!(
            self.behaviour.ending,
            Ending::Reset { .. } | Ending::Refused
        );
        ends_by_reset && self.complete
    }

    /// Lets the server's application write.
    pub fn write(&mut self, now_ns: i64) -> Vec<Segment> {
        let mut sent = Vec::new();
        if self.is_over() {
            return sent;
        }
        self.answering = true;
        self.writes_left = self.writes_left.saturating_sub(1);
        let bytes = self.config.application.bytes_per_write();
        self.sender.write(now_ns, bytes);
        self.transmit(now_ns, &mut sent);
        self.note_state(now_ns);
        sent
    }

    fn transmit(&mut self, now_ns: i64, sent: &mut Vec<Segment>) {
        while let Some(transmission) = self.sender.transmit(now_ns) {
            let segment = self.data(now_ns, transmission);
            // a timer's retransmission waits for the same acknowledgment as before
            if !segment.reason.is_by_timer() {
                self.ledger.sent(now_ns);
            }
            sent.push(segment);
        }
    }

    /// A packet with this much data has left the server's own queue: the next may follow.
    pub fn left_host(&mut self, now_ns: i64, payload_bytes: u32) -> Vec<Segment> {
        let mut sent = Vec::new();
        self.sender.on_left_host(u64::from(payload_bytes));
        if !self.is_over() {
            self.transmit(now_ns, &mut sent);
            self.note_state(now_ns);
        }
        sent
    }

    fn data(&mut self, now_ns: i64, transmission: Transmission) -> Segment {
        let (start, end) = transmission.range;
        let push = if transmission.push { flags::PSH } else { 0 };
        let mut segment =
            self.server_segment(now_ns, flags::ACK | push, start, (end - start) as u32);
        segment.reason = transmission.reason;
        // Retransmissions must not be marked (RFC 3168, section 6.1.5), nor may window probes (6.1.6).
        let new_data = transmission.reason == Reason::New && !transmission.window_probe;
        if self.behaviour.ecn && new_data {
            segment.ecn = Ecn::Ect0;
            if self.sender.take_reduced() {
                segment.flags |= flags::CWR;
            }
        }
        segment
    }

    pub fn server_deadline_ns(&self) -> Option<i64> {
        if self.is_over() {
            return None;
        }
        self.handshake
            .syn_ack_due_ns
            .or_else(|| self.sender.deadline_ns())
    }

    pub fn on_server_timer(&mut self, now_ns: i64) -> Vec<Segment> {
        let mut sent = Vec::new();
        if let Some(due_ns) = self.handshake.syn_ack_due_ns {
            if due_ns <= now_ns {
                sent.push(self.syn_ack(now_ns));
            }
            return sent;
        }
        let due_ns = self.sender.answers_due_ns();
        self.sender.on_timer(now_ns);
        self.transmit(now_ns, &mut sent);
        self.note_silence(now_ns, due_ns, &sent);
        self.note_state(now_ns);
        sent
    }

    pub fn client_deadline_ns(&self) -> Option<i64> {
        if self.client_is_gone() {
            return None;
        }
        let repeats_ns = self.repeated.as_ref().map(|repeated| repeated.due_ns);
        self.receiver
            .deadline_ns()
            .into_iter()
            .chain(repeats_ns)
            .min()
    }

    pub fn on_client_timer(&mut self, now_ns: i64) -> Option<Segment> {
        if let Some(again) = self.repeat(now_ns) {
            return Some(again);
        }
        self.receiver
            .on_timer(now_ns)
            .then(|| self.client_ack(now_ns))
    }
}
