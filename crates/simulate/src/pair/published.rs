//! A published case reproduced: one sender's bursts through a policer, captured at both ends of a path of 73 ms.
//!
//! One server sends bursts of 10, 20, 40, 80, 160 and then 84 to 98 segments per round trip, each burst at the rate of
//! a gigabit Ethernet (160 segments take 1.95 ms). On the path to the client `rate police 300` with a bucket of 50 KB
//! passes about three of ten packets once the bucket is empty. Transit varies by 0.45 ms, and is 0.4 ms longer for
//! packets after a gap. The clock of the second capture is 2.19 ms ahead and 220 ppm slow.
//!
//! The sizes of the bursts are given and not the result of congestion control, which would collapse under such losses.
//! Everything else is TCP: the receiver is that of the other simulations, with SACK, and losses are detected by RACK
//! (RFC 8985) and retransmitted first.

mod path;
mod sender;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde_json::json;
use whydrop_hosts::{Reason, Receiver, ReceiverConfig, SackBlocks, Segment, Toward, flags};
use whydrop_path::Random;

use super::crossing::{Body, Crossing};
use super::sniffer::{Clock, Point, Sniffer};
use super::world::{Flow, Realism, SimulatedPair};
use path::Path;
use sender::ScriptedSender;

/// Payload of a full segment: 1500 bytes of IP with timestamps.
pub const PAYLOAD_BYTES: u32 = 1_448;
/// Bits of IP packets per second, and bytes of them in the bucket (50 KB as `tc` interprets it).
pub const RATE_BPS: u64 = 300_000_000;
pub const BURST_BYTES: u64 = 51_200;
pub const ROUND_TRIP_NS: i64 = 73_000_000;
pub const CLOCK_OFFSET_NS: i64 = 2_190_000;
pub const CLOCK_DRIFT_PPM: f64 = -220.0;
/// Sizes of the first bursts, in segments, and the range of those that follow.
pub const FIRST_BURSTS: [u32; 5] = [10, 20, 40, 80, 160];
pub const LATER_BURSTS: std::ops::RangeInclusive<u32> = 84..=98;
/// A full segment with preamble, gap and check sequence (1538 bytes) at 1 Gbit/s.
const SPACING_NS: i64 = 12_304;
/// Between a host and the sniffer beside it.
const BESIDE_NS: i64 = 20_000;
const REQUEST_BYTES: u32 = 120;
const MILLISECOND_NS: i64 = 1_000_000;

/// Which random variant of the case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedConfig {
    pub seed: u64,
    pub round_trips: u32,
    /// Leave the return direction out of both captures.
    pub one_way: bool,
}

impl Default for PublishedConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            round_trips: 60,
            one_way: false,
        }
    }
}

/// Simulates the case.
pub fn pair(config: PublishedConfig) -> SimulatedPair {
    let mut random = Random::new(config.seed ^ 0x7075_626c_6973_6865);
    let port = 20_000 + random.below(40_000) as u16;
    let flow = Flow::new("data", false, (20, 10), (port, 443), 1_460, &mut random);
    let crossings = Case::new(config, &mut random).play();
    let sniffer = |point| Sniffer {
        forward_only: config.one_way,
        ..Sniffer::new(point)
    };
    let mut realism = Realism::default();
    if config.one_way {
        realism.add("one-path");
    }
    let mut y = sniffer(Point::Y);
    y.clock = Clock {
        offset_ns: CLOCK_OFFSET_NS,
        drift_ppm: CLOCK_DRIFT_PPM,
        ..Clock::default()
    };
    let mut pair = SimulatedPair {
        name: format!(
            "published-{}{}",
            config.seed,
            if config.one_way { "-one-path" } else { "" }
        ),
        split: "published",
        kind: "policer",
        variant: "published",
        note: "bursts at 1 Gbit/s through rate police 300, 50 KB".into(),
        seed: config.seed,
        parameters: Default::default(),
        identifiable: Default::default(),
        circumstances: Default::default(),
        tcp_flows: vec![flow],
        udp_flows: Vec::new(),
        crossings,
        b: sniffer(Point::B),
        y,
        translation: None,
        realism,
        accounts: Vec::new(),
        right: None,
        right_by_transfer: Vec::new(),
    };
    pair.parameter("rate_bps", RATE_BPS);
    pair.parameter("burst_bytes", BURST_BYTES);
    pair.parameter("byte_basis", "IP length (L3, no Ethernet header)");
    pair.parameter(
        "implementation",
        "Linux act_police: whydrop_path::LinuxPolice, overhead 0",
    );
    pair.parameter("queue", false);
    pair.circumstances
        .insert("rtt_ms".into(), json!(ROUND_TRIP_NS as f64 / 1e6));
    pair.circumstances
        .insert("sender_line_rate_bps".into(), json!(1_000_000_000u64));
    pair
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A burst begins.
    Burst,
    /// The next segment of the burst leaves.
    Send {
        left: u32,
    },
    /// A data packet reaches the client.
    Arrive {
        crossing: usize,
    },
    Delayed,
    /// An acknowledgment reaches the server.
    Return {
        crossing: usize,
    },
}

struct Case {
    config: PublishedConfig,
    calendar: BinaryHeap<Reverse<(i64, u64, Event)>>,
    scheduled: u64,
    now_ns: i64,
    bursts: u32,
    path: Path,
    sender: ScriptedSender,
    receiver: Receiver,
    random: Random,
    client: Host,
    server: Host,
    crossings: Vec<Crossing>,
}

/// The counters of a host.
#[derive(Debug, Clone, Copy)]
struct Host {
    identification: u16,
    clock_origin: u32,
    /// The other host's timestamp, to be echoed.
    recent: u32,
    next: u64,
    received: u64,
}

impl Host {
    fn new(random: &mut Random) -> Self {
        Self {
            identification: random.next_u64() as u16,
            clock_origin: random.next_u64() as u32,
            recent: 0,
            next: 0,
            received: 0,
        }
    }

    fn segment(&mut self, now_ns: i64, toward: Toward, flags: u8, payload_bytes: u32) -> Segment {
        self.identification = self.identification.wrapping_add(1);
        let milliseconds = (now_ns / MILLISECOND_NS) as u32;
        let segment = Segment {
            flow: 0,
            toward,
            flags,
            sequence: self.next,
            acknowledgment: self.received,
            payload_bytes,
            window_bytes: 64_128,
            timestamps: Some((self.clock_origin.wrapping_add(milliseconds), self.recent)),
            sack: SackBlocks::default(),
            reason: Reason::New,
            identification: self.identification,
            ecn: whydrop_path::Ecn::NotCapable,
            delay_ns: 0,
        };
        self.next = segment.end();
        segment
    }

    fn got(&mut self, segment: &Segment) {
        self.recent = segment.timestamps.map_or(self.recent, |stamps| stamps.0);
        self.received = self.received.max(segment.end());
    }
}

impl Case {
    fn new(config: PublishedConfig, random: &mut Random) -> Self {
        let receiver = ReceiverConfig {
            quick_acks: 0,
            initial_window_bytes: 2_000_000,
            ..ReceiverConfig::default()
        };
        Self {
            config,
            calendar: BinaryHeap::new(),
            scheduled: 0,
            now_ns: 0,
            bursts: 0,
            path: Path::new(random.next_u64()),
            sender: ScriptedSender::default(),
            receiver: Receiver::new(receiver, u64::from(PAYLOAD_BYTES)),
            client: Host::new(random),
            server: Host::new(random),
            random: Random::new(random.next_u64()),
            crossings: Vec::new(),
        }
    }

    fn play(mut self) -> Vec<Crossing> {
        self.handshake();
        while let Some(Reverse((time_ns, _, event))) = self.calendar.pop() {
            self.now_ns = time_ns;
            match event {
                Event::Burst => self.burst(),
                Event::Send { left } => self.send(left),
                Event::Arrive { crossing } => self.arrive(crossing),
                Event::Delayed => {
                    if self.receiver.on_timer(self.now_ns) {
                        self.acknowledge();
                    }
                }
                Event::Return { crossing } => {
                    if let Body::Tcp(ack) = self.crossings[crossing].body {
                        self.server.recent = ack.timestamps.map_or(0, |stamps| stamps.0);
                        self.sender.on_ack(&ack);
                    }
                }
            }
        }
        self.crossings
    }

    fn at(&mut self, time_ns: i64, event: Event) {
        self.calendar
            .push(Reverse((time_ns, self.scheduled, event)));
        self.scheduled += 1;
    }

    /// SYN, SYN-ACK, acknowledgment and request; then the first burst.
    fn handshake(&mut self) {
        self.now_ns = 10 * MILLISECOND_NS;
        let mut syn = self
            .client
            .segment(self.now_ns, Toward::Server, flags::SYN, 0);
        (syn.acknowledgment, syn.window_bytes) = (0, 65_535);
        self.now_ns = self.back(syn).1;
        self.server.got(&syn);
        let mut syn_ack =
            self.server
                .segment(self.now_ns, Toward::Client, flags::SYN | flags::ACK, 0);
        syn_ack.window_bytes = 65_160;
        // The bucket is full: no packet is dropped here.
        self.now_ns = self.forth(syn_ack).1.unwrap_or(self.now_ns);
        self.client.got(&syn_ack);
        let ack = self
            .client
            .segment(self.now_ns, Toward::Server, flags::ACK, 0);
        self.back(ack);
        self.now_ns += 100_000;
        let request = self.client.segment(
            self.now_ns,
            Toward::Server,
            flags::ACK | flags::PSH,
            REQUEST_BYTES,
        );
        let arrives_ns = self.back(request).1;
        self.server.got(&request);
        self.at(arrives_ns + MILLISECOND_NS, Event::Burst);
    }

    /// Sends the burst of the next size; after the last one, bursts of data still lost, and the end.
    fn burst(&mut self) {
        if self.bursts >= self.config.round_trips {
            return self.repair();
        }
        let first = FIRST_BURSTS.get(self.bursts as usize).copied();
        let span = u64::from(LATER_BURSTS.end() - LATER_BURSTS.start() + 1);
        let left = first.unwrap_or_else(|| LATER_BURSTS.start() + self.random.below(span) as u32);
        self.bursts += 1;
        self.at(self.now_ns, Event::Send { left });
        self.plan_burst();
    }

    fn plan_burst(&mut self) {
        // The acknowledgments that trigger the next burst have some jitter.
        let wander_ns = self.random.below(200_000) as i64 - 100_000;
        self.at(self.now_ns + ROUND_TRIP_NS + wander_ns, Event::Burst);
    }

    fn repair(&mut self) {
        if self.sender.is_done() {
            return self.close();
        }
        // No new data follows the last losses to reveal them: the timer does.
        let left = self.sender.time_out(self.now_ns);
        if left > 0 {
            self.at(self.now_ns, Event::Send { left });
        }
        self.plan_burst();
    }

    /// The server's FIN, and the client's.
    fn close(&mut self) {
        self.server.next = self.sender.end();
        let fin = self
            .server
            .segment(self.now_ns, Toward::Client, flags::FIN | flags::ACK, 0);
        let (_, arrives_ns) = self.forth(fin);
        self.now_ns = arrives_ns.unwrap_or(self.now_ns);
        self.client.got(&fin);
        let answer = self
            .client
            .segment(self.now_ns, Toward::Server, flags::FIN | flags::ACK, 0);
        self.now_ns = self.back(answer).1;
        self.server.got(&answer);
        let last = self
            .server
            .segment(self.now_ns, Toward::Client, flags::ACK, 0);
        self.forth(last);
    }

    fn send(&mut self, left: u32) {
        let (sequence, again) = self.sender.next(self.now_ns);
        let push = if left == 1 { flags::PSH } else { 0 };
        let mut segment = self.server.segment(
            self.now_ns,
            Toward::Client,
            flags::ACK | push,
            PAYLOAD_BYTES,
        );
        segment.sequence = sequence;
        segment.reason = if again {
            Reason::FastRetransmission
        } else {
            Reason::New
        };
        if let (crossing, Some(arrives_ns)) = self.forth(segment) {
            self.at(arrives_ns, Event::Arrive { crossing });
        }
        if left > 1 {
            self.at(self.now_ns + SPACING_NS, Event::Send { left: left - 1 });
        }
    }

    fn arrive(&mut self, crossing: usize) {
        let Body::Tcp(segment) = self.crossings[crossing].body else {
            return;
        };
        if segment.sequence <= self.receiver.received() {
            self.client.recent = segment.timestamps.map_or(0, |stamps| stamps.0);
        }
        if self
            .receiver
            .on_data(self.now_ns, segment.sequence, segment.end())
        {
            self.acknowledge();
        } else if let Some(due_ns) = self.receiver.deadline_ns() {
            self.at(due_ns, Event::Delayed);
        }
    }

    fn acknowledge(&mut self) {
        let ack = self.receiver.acknowledge(self.now_ns);
        let mut segment = self
            .client
            .segment(self.now_ns, Toward::Server, flags::ACK, 0);
        segment.acknowledgment = ack.acknowledgment;
        segment.window_bytes = ack.window_bytes as u32;
        segment.sack = ack.sack;
        let (crossing, arrives_ns) = self.back(segment);
        self.at(arrives_ns, Event::Return { crossing });
    }

    /// Sends a packet from the server; returns when it reaches the client, if it does.
    fn forth(&mut self, segment: Segment) -> (usize, Option<i64>) {
        let at_b_ns = self.now_ns + BESIDE_NS;
        let at_y_ns = self.path.forth(at_b_ns, segment.ip_bytes());
        self.crossings.push(Crossing {
            body: Body::Tcp(segment),
            at_b_ns: Some(at_b_ns),
            at_y_ns,
            lost_between: at_y_ns.is_none(),
            marked_between: false,
        });
        (
            self.crossings.len() - 1,
            at_y_ns.map(|time_ns| time_ns + BESIDE_NS),
        )
    }

    /// Sends a packet from the client; returns when it reaches the server.
    fn back(&mut self, segment: Segment) -> (usize, i64) {
        let at_y_ns = self.now_ns + BESIDE_NS;
        let at_b_ns = self.path.back(at_y_ns);
        self.crossings.push(Crossing {
            body: Body::Tcp(segment),
            at_b_ns: Some(at_b_ns),
            at_y_ns: Some(at_y_ns),
            lost_between: false,
            marked_between: false,
        });
        (self.crossings.len() - 1, at_b_ns + BESIDE_NS)
    }
}

#[cfg(test)]
mod tests;
