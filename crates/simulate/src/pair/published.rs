//! A published case reproduced: one sender's bursts through a policer, captured at both ends of a path of 73 ms.
//!
//! One server sends bursts of 10, 20, 40, 80, 160 and then 84 to 98 segments per round trip, each burst at the rate of
//! a gigabit Ethernet (160 segments take 1.95 ms). On the path to the client `rate police 300` with a bucket of 50 KB
//! passes about three of ten packets once the bucket is empty. Transit varies by 0.45 ms, and is 0.4 ms longer for
//! packets after a gap. The clock of the second capture is 2.19 ms ahead and 220 ppm slow.
//!
//! The sizes of the bursts are given and not the result of congestion control, which would collapse under such losses.
//! Everything else is TCP: sender and receiver are those of the other simulations, with SACK. Losses are detected by RACK
//! (RFC 8985), or by the timer, and retransmitted first.

mod path;

use serde_json::json;
use whydrop_hosts::{
    AckIn, Algorithm, Host, Receiver, ReceiverConfig, Segment, Sender, SenderConfig, Toward, flags,
};
use whydrop_path::Random;

use super::crossing::{Body, Crossing};
use super::sniffer::{Clock, Point, Sniffer};
use super::world::{Flow, Realism, SimulatedPair};
use path::Path;
use whydrop_network::Calendar;

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
/// The receiver's first window.
const WINDOW_BYTES: u64 = 2_000_000;
/// Segments sent this much before a delivered one count as lost: RACK's reordering window.
const REORDERING_NS: i64 = 1_000_000;
const LINE_RATE_BPS: u64 = 1_000_000_000;
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
        tcp_flows: vec![flow],
        crossings,
        b: sniffer(Point::B),
        y,
        realism,
        right: vec!["policer"],
        ..SimulatedPair::default()
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
        .insert("sender_line_rate_bps".into(), json!(LINE_RATE_BPS));
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
    calendar: Calendar<Event>,
    now_ns: i64,
    bursts: u32,
    path: Path,
    sender: Sender,
    receiver: Receiver,
    random: Random,
    client: End,
    server: End,
    crossings: Vec<Crossing>,
}

/// A host, and the next sequence number of either direction.
#[derive(Debug, Clone, Copy)]
struct End {
    host: Host,
    next: u64,
    received: u64,
}

impl End {
    fn new(peer: Toward, random: &mut Random) -> Self {
        let identification = random.next_u64() as u16;
        Self {
            host: Host::new(0, peer, identification, Some(random.next_u64() as u32)),
            next: 0,
            received: 0,
        }
    }

    fn segment(&mut self, now_ns: i64, flags: u8, payload_bytes: u32) -> Segment {
        let segment = Segment {
            acknowledgment: self.received,
            window_bytes: 64_128,
            ..self.host.segment(now_ns, flags, self.next, payload_bytes)
        };
        self.next = segment.end();
        segment
    }

    fn got(&mut self, segment: &Segment) {
        self.host.recent = segment
            .timestamps
            .map_or(self.host.recent, |stamps| stamps.0);
        self.received = self.received.max(segment.end());
    }
}

/// The server's sender: what is lost first, then new data. How much and when, the case decides.
fn sender() -> Sender {
    Sender::new(SenderConfig {
        algorithm: Algorithm::FixedRate {
            rate_bps: LINE_RATE_BPS,
        },
        initial_window: f64::INFINITY,
        mss: u64::from(PAYLOAD_BYTES),
        fixed_reordering_ns: Some(REORDERING_NS),
        tail_loss_probe: false,
        hystart: false,
        ..SenderConfig::default()
    })
}

impl Case {
    fn new(config: PublishedConfig, random: &mut Random) -> Self {
        let receiver = ReceiverConfig {
            quick_acks: 0,
            initial_window_bytes: WINDOW_BYTES,
            ..ReceiverConfig::default()
        };
        Self {
            config,
            calendar: Calendar::default(),
            now_ns: 0,
            bursts: 0,
            path: Path::new(random.next_u64()),
            sender: sender(),
            receiver: Receiver::new(receiver, u64::from(PAYLOAD_BYTES)),
            client: End::new(Toward::Server, random),
            server: End::new(Toward::Client, random),
            random: Random::new(random.next_u64()),
            crossings: Vec::new(),
        }
    }

    fn play(mut self) -> Vec<Crossing> {
        self.handshake();
        while let Some((time_ns, event)) = self.calendar.pop() {
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
                        self.acknowledged(&ack);
                    }
                }
            }
        }
        self.crossings
    }

    fn acknowledged(&mut self, segment: &Segment) {
        self.server.host.recent = segment.timestamps.map_or(0, |stamps| stamps.0);
        let ack = AckIn {
            acknowledgment: segment.acknowledgment,
            window_bytes: u64::from(segment.window_bytes),
            sack: segment.sack.as_slice(),
            pure: true,
            echo_ns: self.server.host.echoed_ns(segment),
        };
        self.sender.on_ack(self.now_ns, ack);
    }

    /// SYN, SYN-ACK, acknowledgment and request; then the first burst.
    fn handshake(&mut self) {
        self.now_ns = 10 * MILLISECOND_NS;
        let mut syn = self.client.segment(self.now_ns, flags::SYN, 0);
        (syn.acknowledgment, syn.window_bytes) = (0, 65_535);
        self.now_ns = self.back(syn).1;
        self.server.got(&syn);
        let offered_ns = self.now_ns;
        let mut syn_ack = self.server.segment(self.now_ns, flags::SYN | flags::ACK, 0);
        syn_ack.window_bytes = 65_160;
        // The bucket is full: no packet is dropped here.
        self.now_ns = self.forth(syn_ack).1.unwrap_or(self.now_ns);
        self.client.got(&syn_ack);
        let ack = self.client.segment(self.now_ns, flags::ACK, 0);
        let established_ns = self.back(ack).1;
        let rtt_ns = established_ns - offered_ns;
        self.sender
            .on_established(established_ns, rtt_ns, WINDOW_BYTES);
        self.now_ns += 100_000;
        let request = self
            .client
            .segment(self.now_ns, flags::ACK | flags::PSH, REQUEST_BYTES);
        let arrives_ns = self.back(request).1;
        self.server.got(&request);
        self.calendar.at(arrives_ns + MILLISECOND_NS, Event::Burst);
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
        self.calendar.at(self.now_ns, Event::Send { left });
        self.plan_burst();
    }

    fn plan_burst(&mut self) {
        // The acknowledgments that trigger the next burst have some jitter.
        let wander_ns = self.random.below(200_000) as i64 - 100_000;
        self.calendar
            .at(self.now_ns + ROUND_TRIP_NS + wander_ns, Event::Burst);
    }

    fn repair(&mut self) {
        if self.sender.is_idle() {
            return self.close();
        }
        // No new data follows the last losses to reveal them: the timer does.
        self.sender.on_timer(self.now_ns);
        let left = self.sender.to_retransmit() as u32;
        if left > 0 {
            self.calendar.at(self.now_ns, Event::Send { left });
        }
        self.plan_burst();
    }

    /// The server's FIN, and the client's.
    fn close(&mut self) {
        self.server.next = self.sender.next_sequence();
        let fin = self.server.segment(self.now_ns, flags::FIN | flags::ACK, 0);
        let (_, arrives_ns) = self.forth(fin);
        self.now_ns = arrives_ns.unwrap_or(self.now_ns);
        self.client.got(&fin);
        let answer = self.client.segment(self.now_ns, flags::FIN | flags::ACK, 0);
        self.now_ns = self.back(answer).1;
        self.server.got(&answer);
        let last = self.server.segment(self.now_ns, flags::ACK, 0);
        self.forth(last);
    }

    fn send(&mut self, left: u32) {
        let sent = self.sender.transmit(self.now_ns).or_else(|| {
            self.sender.write(self.now_ns, u64::from(PAYLOAD_BYTES));
            self.sender.transmit(self.now_ns)
        });
        if let Some(sent) = sent {
            let push = if left == 1 { flags::PSH } else { 0 };
            let data = self
                .server
                .segment(self.now_ns, flags::ACK | push, PAYLOAD_BYTES);
            let segment = Segment {
                sequence: sent.range.0,
                reason: sent.reason,
                ..data
            };
            if let (crossing, Some(arrives_ns)) = self.forth(segment) {
                self.calendar.at(arrives_ns, Event::Arrive { crossing });
            }
        }
        if left > 1 {
            let next = Event::Send { left: left - 1 };
            self.calendar.at(self.now_ns + SPACING_NS, next);
        }
    }

    fn arrive(&mut self, crossing: usize) {
        let Body::Tcp(segment) = self.crossings[crossing].body else {
            return;
        };
        if segment.sequence <= self.receiver.received() {
            self.client.host.recent = segment.timestamps.map_or(0, |stamps| stamps.0);
        }
        if self
            .receiver
            .on_data(self.now_ns, segment.sequence, segment.end())
        {
            self.acknowledge();
        } else if let Some(due_ns) = self.receiver.deadline_ns() {
            self.calendar.at(due_ns, Event::Delayed);
        }
    }

    fn acknowledge(&mut self) {
        let ack = self.receiver.acknowledge(self.now_ns);
        let mut segment = self.client.segment(self.now_ns, flags::ACK, 0);
        segment.acknowledgment = ack.acknowledgment;
        segment.window_bytes = ack.window_bytes as u32;
        segment.sack = ack.sack;
        let (crossing, arrives_ns) = self.back(segment);
        self.calendar.at(arrives_ns, Event::Return { crossing });
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
