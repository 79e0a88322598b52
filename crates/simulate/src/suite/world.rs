//! A world before it is simulated: hosts, the path between them as data, connections, the points of capture.

use serde_json::Value;
use whydrop_hosts::{Algorithm, Pacing, ReceiverConfig, SenderConfig};
use whydrop_path::{PathSpec, Random, overhead};

use crate::pair::{Flow, SimulatedPair};
use whydrop_network::Resolution;
use whydrop_network::{Application, CaptureConfig, FlowConfig, Scenario, Stage};
use whydrop_network::{DatagramSource, Extras, WatchConfig};

pub const MS: i64 = 1_000_000;
pub const MBIT: f64 = 1e6;
/// A full packet on the IP layer.
pub const FULL_PACKET_BYTES: u64 = 1_500;
/// Payload of all connections of a pair together: some 25 000 full segments, so that a capture stays below 60 000
/// packets.
pub const MOST_BYTES: u64 = 36_000_000;
/// The longest duration of a connection in a single capture.
const LONGEST_NS: i64 = 240_000 * MS;
const GIGABIT_BPS: u64 = 1_000_000_000;

/// The stages of the path of a single capture: before the impaired hop, a link shared with other traffic, the hop,
/// behind it.
pub mod single {
    pub const BUSY: usize = 1;
    pub const ELEMENT: usize = 2;
    pub const STAGES: usize = 4;
}

/// The stages of the path of a pair: the sender's card, the path to B, from B to the element, the element, from it to Y,
/// the rest.
pub mod pair {
    pub const CARD: usize = 0;
    pub const BEFORE: usize = 1;
    pub const APPROACH: usize = 2;
    pub const ELEMENT: usize = 3;
    pub const ONWARD: usize = 4;
    pub const BEYOND: usize = 5;
}

/// Names in a truth file of the place before each stage, and after the last, of a single capture.
pub const TAP_NAMES: [&str; single::STAGES + 1] =
    ["sender", "before-busy-link", "before", "behind", "receiver"];

/// A part of the path, and the delay of acknowledgments over it.
pub struct Part {
    pub name: &'static str,
    pub path: PathSpec,
    pub back_ns: i64,
}

/// Everything that is drawn.
pub struct World {
    /// Its stages are `parts`, until it is simulated.
    pub scenario: Scenario,
    pub parts: Vec<Part>,
    /// The number of the part that the kind is about.
    pub element: usize,
    /// The pair before the simulation; of single captures, only the parameters.
    pub pair: SimulatedPair,
    pub rtt_ns: i64,
    pub line_bps: u64,
    pub extras: Extras,
    pub watch: WatchConfig,
    pub ipv6: bool,
    /// The packets have to determine the parameters of this path.
    pub policer: Option<PathSpec>,
}

/// A path as the suites write it.
pub fn parsed(text: &str) -> PathSpec {
    let path = text.parse();
    path.unwrap_or_else(|error| panic!("the suites write what can be read: {error}"))
}

pub fn pick<'a, T>(choices: &'a [T], random: &mut Random) -> &'a T {
    &choices[random.below(choices.len() as u64) as usize]
}

pub fn logarithmic_ns(low_ms: f64, high_ms: f64, random: &mut Random) -> i64 {
    (random.log_uniform(low_ms, high_ms) * MS as f64) as i64
}

/// Zero with this probability.
fn or_none_ns(none: f64, low_ms: f64, high_ms: f64, random: &mut Random) -> i64 {
    match random.chance(none) {
        true => 0,
        false => logarithmic_ns(low_ms, high_ms, random),
    }
}

fn line_bps(random: &mut Random) -> u64 {
    match random.chance(0.3) {
        true => 10 * GIGABIT_BPS,
        false => GIGABIT_BPS,
    }
}

fn card(line_bps: u64) -> String {
    format!("line:rate={line_bps},overhead={}B", overhead::WIRE)
}

fn part(name: &'static str, path: String, back_ns: i64) -> Part {
    Part {
        name,
        path: parsed(&path),
        back_ns,
    }
}

impl World {
    fn new(rtt_ns: i64, element: usize, scenario: Scenario) -> Self {
        Self {
            scenario,
            parts: Vec::new(),
            element,
            pair: SimulatedPair::default(),
            rtt_ns,
            line_bps: 0,
            extras: Extras::default(),
            watch: WatchConfig::default(),
            ipv6: false,
            policer: None,
        }
    }

    /// Draws hosts and distances of a single capture.
    pub fn of_capture(random: &mut Random) -> Self {
        let rtt_ns = logarithmic_ns(5.0, 300.0, random);
        let line_bps = line_bps(random);
        let jitter_ns = or_none_ns(0.3, 0.001, 5.0, random);
        let (parts, before_ns) = around_the_hop(rtt_ns, line_bps, jitter_ns, random);
        let capture = capture(random);
        let scenario = Scenario {
            seed: random.next_u64(),
            flows: vec![flow(0, random)],
            stages: Vec::new(),
            cross_traffic: Vec::new(),
            reverse_jitter_ns: or_none_ns(0.5, 0.001, 2.0, random),
            acknowledgment_loss: match random.chance(0.1) {
                true => random.uniform(0.0, 0.01),
                false => 0.0,
            },
            capture,
            end_ns: LONGEST_NS,
        };
        let mut world = Self::new(rtt_ns, single::ELEMENT, scenario);
        world.parts = parts;
        world.parameter("rtt_ms", rtt_ns as f64 / 1e6);
        world.parameter("line_bps", line_bps);
        world.parameter("jitter_before_ms", jitter_ns as f64 / 1e6);
        world.parameter("one_way_before_ms", before_ns as f64 / 1e6);
        world.move_tap(capture.tap);
        world
    }

    /// Draws hosts, distances and the two points of a pair.
    pub fn of_pair(random: &mut Random) -> Self {
        let rtt_ns = logarithmic_ns(5.0, 200.0, random);
        let y_is_far = random.chance(0.35);
        let ipv6 = random.chance(0.2);
        let seed = random.next_u64();
        let parts = between_the_points(rtt_ns, y_is_far, random);
        let scenario = Scenario {
            seed,
            flows: Vec::new(),
            stages: Vec::new(),
            cross_traffic: Vec::new(),
            reverse_jitter_ns: or_none_ns(0.5, 0.001, 2.0, random),
            acknowledgment_loss: 0.0,
            // The captures of a pair are made from the packets that pass the two points.
            capture: CaptureConfig {
                begins_ns: i64::MAX,
                ..CaptureConfig::default()
            },
            end_ns: (random.uniform(5.0, 20.0) * 1e9) as i64,
        };
        let mut world = Self::new(rtt_ns, pair::ELEMENT, scenario);
        world.parts = parts;
        world.ipv6 = ipv6;
        world.watch = WatchConfig {
            points: [pair::APPROACH, pair::BEYOND],
            return_jitter_ns: or_none_ns(0.5, 0.001, 0.5, random),
            longer_ip_header_bytes: if ipv6 { 20 } else { 0 },
            seed: random.next_u64(),
            ..WatchConfig::default()
        };
        world.set_line(line_bps(random));
        world.circumstance("rtt_ms", rtt_ns as f64 / 1e6);
        world.circumstance("y_behind_the_forward_delay", y_is_far);
        let first_port = 20_000 + (random.below(40_000) as u16 & !15);
        world.add_connection("data", first_port, random);
        world
    }

    /// The scenario with the elements of its path.
    pub fn scenario(&mut self) -> Scenario {
        let stage = |part: &Part| Stage {
            name: part.name,
            element: part.path.assemble(0),
            reverse_delay_ns: part.back_ns,
        };
        self.scenario.stages = self.parts.iter().map(stage).collect();
        std::mem::take(&mut self.scenario)
    }

    /// Sets the rate of the sender's card.
    pub fn set_line(&mut self, line_bps: u64) {
        self.line_bps = line_bps;
        self.parts[pair::CARD].path = parsed(&card(line_bps));
        self.circumstance("sender_line_rate_bps", line_bps);
    }

    /// Sets what the part that the kind is about does.
    pub fn set_element(&mut self, path: &str) {
        self.parts[self.element].path = parsed(path);
    }

    /// Appends elements to a part.
    pub fn put_behind(&mut self, part: usize, path: &str) {
        let behind = parsed(path).elements;
        self.parts[part].path.elements.extend(behind);
    }

    /// Records a parameter for the truth, in the unit of its name.
    pub fn parameter(&mut self, name: &str, value: impl Into<Value>) {
        self.pair.parameter(name, value);
    }

    pub fn circumstance(&mut self, name: &str, value: impl Into<Value>) {
        self.pair.circumstances.insert(name.into(), value.into());
    }

    /// Bytes that the path has in flight at a rate, without a queue.
    pub fn product_bytes(&self, rate_bps: u64) -> f64 {
        rate_bps as f64 / 8.0 * self.rtt_ns as f64 / 1e9
    }

    /// Takes the single capture at another place.
    pub fn move_tap(&mut self, tap: usize) {
        let capture = &mut self.scenario.capture;
        capture.tap = tap.min(single::STAGES);
        capture.segmentation_offload &= capture.tap == 0;
        let (tap, offload) = (TAP_NAMES[capture.tap], capture.segmentation_offload);
        self.parameter("segmentation_offload", offload);
        self.parameter("tap", tap);
    }

    /// Adds a connection of a pair between the same hosts, or from another server.
    pub fn add_connection(&mut self, role: &'static str, port: u16, random: &mut Random) {
        let number = self.scenario.flows.len() as u16;
        let config = pair_flow(self.ipv6, port.wrapping_add(number), random);
        let header = if config.timestamps { 12 } else { 0 };
        let host = match random.chance(0.6) {
            true => 10,
            false => 10 + number as u8,
        };
        let ports = (config.client_port, config.server_port);
        let mss = config.sender.mss as u16 + header;
        self.pair
            .tcp_flows
            .push(Flow::new(role, self.ipv6, (20, host), ports, mss, random));
        self.scenario.flows.push(config);
    }

    /// Draws chunks that take this long at the rate, shared between the data connections of a pair.
    pub fn transfer(&mut self, rate_bps: u64, least_bytes: u64, random: &mut Random) {
        let seconds = (self.scenario.end_ns as f64 / 1e9) * random.uniform(0.5, 0.9);
        let wanted = (rate_bps as f64 / 8.0 * seconds) as u64;
        let total = wanted.max(least_bytes).clamp(600_000, MOST_BYTES);
        let count = 1 + random.below(4) as u32;
        let bytes = total / self.scenario.flows.len() as u64 / u64::from(count);
        self.ask_for(bytes, count, logarithmic_ns(50.0, 1_500.0, random));
    }

    /// Chunks as of video, in a single capture: some seconds' worth each at this rate, with pauses of 0.5 to 2 s.
    pub fn chunks(&mut self, rate_bps: u64, least_bytes: u64, random: &mut Random) {
        let seconds = random.uniform(1.5, 6.0);
        let bytes = (rate_bps as f64 / 8.0 * seconds) as u64;
        let bytes = bytes.clamp(400_000, 8_000_000).max(least_bytes);
        let pause_ns = (random.uniform(500.0, 2_000.0) * MS as f64) as i64;
        self.ask_for(bytes, 3 + random.below(4) as u32, pause_ns);
    }

    fn ask_for(&mut self, bytes: u64, count: u32, pause_ns: i64) {
        for flow in &mut self.scenario.flows {
            flow.application = Application::Chunks {
                bytes,
                count,
                pause_ns,
            };
        }
    }
}

/// A network card and some distance; the busy link and the hop, still without effect; the rest of the distance.
fn around_the_hop(
    rtt_ns: i64,
    line_bps: u64,
    jitter_ns: i64,
    random: &mut Random,
) -> (Vec<Part>, i64) {
    let one_way_ns = rtt_ns / 2;
    let before_ns = (one_way_ns as f64 * random.uniform(0.0, 1.0)) as i64;
    let behind_ns = one_way_ns - before_ns;
    let back_ns = rtt_ns - one_way_ns;
    let back_before_ns = back_ns * before_ns / one_way_ns.max(1);
    let before = format!(
        "{}+jitter:low={before_ns}ns,high={}ns,seed={}",
        card(line_bps),
        before_ns + jitter_ns,
        random.next_u64()
    );
    let parts = vec![
        part("before", before, back_before_ns),
        part("busy-link", "delay:time=0ns".into(), 0),
        part("element", "delay:time=0ns".into(), 0),
        part(
            "behind",
            format!("delay:time={behind_ns}ns"),
            back_ns - back_before_ns,
        ),
    ];
    (parts, before_ns)
}

/// The forward path in three parts. If Y is just behind the element, its distance to B is only that of a cable.
fn between_the_points(rtt_ns: i64, y_is_far: bool, random: &mut Random) -> Vec<Part> {
    const CABLE_NS: i64 = 2_000;
    let one_way_ns = rtt_ns / 2;
    let before_ns = (one_way_ns as f64 * random.uniform(0.0, 0.4)) as i64;
    let onward_ns = match y_is_far {
        true => (one_way_ns as f64 * random.uniform(0.2, 0.6)) as i64,
        false => CABLE_NS,
    };
    // Routes may differ by direction.
    let back_onward_ns = match y_is_far && random.chance(0.3) {
        true => (onward_ns as f64 * random.uniform(0.7, 1.3)) as i64,
        false => onward_ns,
    };
    let beyond_ns = (one_way_ns - before_ns - onward_ns).max(0);
    let before = match random.chance(0.4) {
        true => format!("delay:time={before_ns}ns"),
        false => {
            let high_ns = before_ns + logarithmic_ns(0.001, 2.0, random);
            let seed = random.next_u64();
            format!("jitter:low={before_ns}ns,high={high_ns}ns,seed={seed}")
        }
    };
    let approach_ns = match random.chance(0.8) {
        true => CABLE_NS,
        false => logarithmic_ns(0.005, 0.3, random),
    };
    let delay = |time_ns: i64| format!("delay:time={time_ns}ns");
    vec![
        part("card", delay(0), 0),
        part("before", before, before_ns),
        part("approach", delay(approach_ns), approach_ns),
        part("element", delay(0), 0),
        part("onward", delay(onward_ns), back_onward_ns),
        part("beyond", delay(beyond_ns), beyond_ns),
    ]
}

fn capture(random: &mut Random) -> CaptureConfig {
    let tap = match random.unit() {
        u if u < 0.76 => 0,
        u if u < 0.86 => single::ELEMENT,
        u if u < 0.93 => single::ELEMENT + 1,
        _ => single::STAGES,
    };
    CaptureConfig {
        tap,
        resolution: match random.chance(0.3) {
            true => Resolution::Microseconds,
            false => Resolution::Nanoseconds,
        },
        segmentation_offload: tap == 0 && random.chance(0.3),
        ..CaptureConfig::default()
    }
}

/// A connection of a single capture, between the same two hosts; the kinds set what it transfers.
pub fn flow(number: u16, random: &mut Random) -> FlowConfig {
    let flow = connection(0, (0.7, 0.8), random);
    FlowConfig {
        client: [192, 0, 2, 10],
        server: [198, 51, 100, 20],
        client_port: 20_000 + (random.below(40_000) as u16 & !7) + number,
        closes: random.chance(0.7),
        ..flow
    }
}

/// A connection of a pair.
fn pair_flow(ipv6: bool, client_port: u16, random: &mut Random) -> FlowConfig {
    let flow = connection(if ipv6 { 20 } else { 0 }, (0.8, 0.7), random);
    FlowConfig {
        client: [192, 0, 2, 20],
        server: [10, 0, 1, 10],
        client_port,
        server_port: *pick(&[443, 80, 5_201], random),
        start_ns: flow.start_ns + random.below(300 * MS as u64) as i64,
        closes: random.chance(0.7),
        ..flow
    }
}

/// Two ends with longer headers than IPv4's; the shares are of senders with RACK, and of CUBIC's with HyStart.
fn connection(longer_bytes: u64, shares: (f64, f64), random: &mut Random) -> FlowConfig {
    let timestamps = random.chance(0.85);
    let mss = *pick(&[1_460, 1_460, 1_460, 1_400, 1_380, 1_240], random) - longer_bytes;
    FlowConfig {
        sender: data_sender(mss, timestamps, shares, random),
        receiver: data_receiver(timestamps, random),
        application: Application::Chunks {
            bytes: 2_000_000,
            count: 3,
            pause_ns: 500 * MS,
        },
        client: [0; 4],
        server: [0; 4],
        client_port: 0,
        server_port: 443,
        start_ns: 10 * MS,
        captured: true,
        timestamps,
        closes: false,
        extra_rtt_ns: 0,
    }
}

/// The sender of a connection.
fn data_sender(
    mss: u64,
    timestamps: bool,
    (rack_share, hystart_share): (f64, f64),
    random: &mut Random,
) -> SenderConfig {
    let rack = random.chance(rack_share);
    let algorithm = match random.chance(0.8) {
        true => Algorithm::Cubic,
        false => Algorithm::NewReno,
    };
    SenderConfig {
        algorithm,
        mss: if timestamps { mss - 12 } else { mss },
        rack,
        tail_loss_probe: rack,
        hystart: algorithm == Algorithm::Cubic && random.chance(hystart_share),
        pacing: match random.chance(0.25) {
            true => Pacing::Window,
            false => Pacing::None,
        },
        slow_start_after_idle: random.chance(0.8),
        ..SenderConfig::default()
    }
}

/// The receiver of a connection.
fn data_receiver(timestamps: bool, random: &mut Random) -> ReceiverConfig {
    ReceiverConfig {
        segments_per_ack: *pick(&[2, 2, 2, 2, 1, 4], random),
        timestamps,
        ..ReceiverConfig::default()
    }
}

/// Adds cross traffic through both points: small packets of an interactive connection, and UDP.
pub fn cross_traffic(world: &mut World, random: &mut Random) {
    if random.chance(0.35) {
        let port = world.scenario.flows[0].client_port.wrapping_add(100);
        world.add_connection("small", port, random);
        let interval_ns = logarithmic_ns(3.0, 60.0, random);
        if let Some(flow) = world.scenario.flows.last_mut() {
            flow.application = Application::Stream {
                bytes: 20 + random.below(700),
                count: (world.scenario.end_ns * 3 / 4 / interval_ns) as u32,
                interval_ns,
            };
        }
    }
    if random.chance(0.25) {
        let low = 20 + random.below(300) as u32;
        world.watch.datagrams.push(DatagramSource {
            payload_bytes: (low, low + random.below(900) as u32),
            mean_gap_ns: random.log_uniform(3.0, 200.0) * MS as f64,
            poisson: random.chance(0.5),
            start_ns: random.below(2_000 * MS as u64) as i64,
        });
        let port = 30_000 + random.below(20_000) as u16;
        let flow = Flow::new("datagrams", world.ipv6, (20, 10), (port, 4_500), 0, random);
        world.pair.udp_flows.push(flow);
        world.pair.realism.add("udp");
    }
}
