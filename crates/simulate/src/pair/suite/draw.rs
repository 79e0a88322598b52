//! A world before its mechanism and treatments: hosts, distances, the two points, connections.

use serde_json::{Map, Value};
use whydrop_path::{Delay, Fifo, Jitter, Limit, PathSpec, Random, overhead};

use super::kind::Mechanism;
use super::policer::Element;
use crate::network::{DatagramSource, Extras, WatchConfig};
use crate::pair::sniffer::{Point, Sniffer};
use crate::pair::world::{Flow, Realism, Translation};
use crate::scenario::{Application, CaptureConfig, FlowConfig, Scenario, Stage};
use crate::suite::{data_receiver, data_sender};

pub const MS: i64 = 1_000_000;
/// The stages of every path: the sender's card, the path to B, from B to the element, the element, from it to Y, the
/// rest.
pub const CARD_STAGE: usize = 0;
pub const BEFORE_STAGE: usize = 1;
pub const APPROACH_STAGE: usize = 2;
pub const ELEMENT_STAGE: usize = 3;
pub const BEYOND_STAGE: usize = 5;
/// Payload of all connections together: some 25 000 full segments, so that a capture stays below 60 000 packets.
pub const MOST_BYTES: u64 = 36_000_000;

/// A pair before it is simulated.
pub struct World {
    pub mechanism: Mechanism,
    pub scenario: Scenario,
    pub watch: WatchConfig,
    pub parameters: Map<String, Value>,
    pub circumstances: Map<String, Value>,
    pub flows: Vec<Flow>,
    pub udp_flows: Vec<Flow>,
    pub ipv6: bool,
    pub b: Sniffer,
    pub y: Sniffer,
    pub translation: Option<Translation>,
    pub realism: Realism,
    pub rtt_ns: i64,
    pub line_bps: u64,
    pub policer: Option<PathSpec>,
    pub extras: Extras,
}

impl World {
    /// Draws hosts and distances.
    pub fn base(mechanism: Mechanism, random: &mut Random) -> Self {
        let rtt_ns = (random.log_uniform(5.0, 200.0) * MS as f64) as i64;
        let y_is_far = random.chance(0.35);
        let ipv6 = random.chance(0.2);
        let scenario = Scenario {
            seed: random.next_u64(),
            flows: Vec::new(),
            stages: stages(rtt_ns, y_is_far, random),
            cross_traffic: Vec::new(),
            reverse_jitter_ns: if random.chance(0.5) {
                0
            } else {
                logarithmic_ns(0.001, 2.0, random)
            },
            acknowledgment_loss: 0.0,
            // The captures of a pair are made from the packets that pass the two points.
            capture: CaptureConfig {
                begins_ns: i64::MAX,
                ..CaptureConfig::default()
            },
            end_ns: (random.uniform(5.0, 20.0) * 1e9) as i64,
        };
        let watch = WatchConfig {
            points: [APPROACH_STAGE, BEYOND_STAGE],
            return_jitter_ns: if random.chance(0.5) {
                0
            } else {
                logarithmic_ns(0.001, 0.5, random)
            },
            longer_ip_header_bytes: if ipv6 { 20 } else { 0 },
            seed: random.next_u64(),
            ..WatchConfig::default()
        };
        let mut world = Self {
            mechanism,
            scenario,
            watch,
            parameters: Map::new(),
            circumstances: Map::new(),
            flows: Vec::new(),
            udp_flows: Vec::new(),
            ipv6,
            b: Sniffer::new(Point::B),
            y: Sniffer::new(Point::Y),
            translation: None,
            realism: Realism::default(),
            rtt_ns,
            line_bps: 0,
            policer: None,
            extras: Extras::default(),
        };
        world.set_line(if random.chance(0.3) {
            10_000_000_000
        } else {
            1_000_000_000
        });
        world.circumstance("rtt_ms", rtt_ns as f64 / 1e6);
        world.circumstance("y_behind_the_forward_delay", y_is_far);
        let first_port = 20_000 + (random.below(40_000) as u16 & !15);
        world.add_connection("data", first_port, random);
        world
    }

    /// Sets the rate of the sender's card.
    pub fn set_line(&mut self, line_bps: u64) {
        self.line_bps = line_bps;
        let card = Fifo::new(line_bps, Limit::NONE).with_overhead(overhead::WIRE);
        self.scenario.stages[CARD_STAGE].element = Box::new(card);
        self.circumstance("sender_line_rate_bps", line_bps);
    }

    pub fn set_element(&mut self, element: Element) {
        self.scenario.stages[ELEMENT_STAGE].element = element;
    }

    pub fn parameter(&mut self, name: &str, value: impl Into<Value>) {
        self.parameters.insert(name.into(), value.into());
    }

    pub fn circumstance(&mut self, name: &str, value: impl Into<Value>) {
        self.circumstances.insert(name.into(), value.into());
    }

    /// Adds a connection between the same hosts, or from another server.
    pub fn add_connection(&mut self, role: &'static str, port: u16, random: &mut Random) {
        let number = self.scenario.flows.len() as u16;
        let config = connection(self.ipv6, port.wrapping_add(number), random);
        let header = if config.timestamps { 12 } else { 0 };
        let host = if random.chance(0.6) {
            10
        } else {
            10 + number as u8
        };
        let ports = (config.client_port, config.server_port);
        let mss = config.sender.mss as u16 + header;
        self.flows
            .push(Flow::new(role, self.ipv6, (20, host), ports, mss, random));
        self.scenario.flows.push(config);
    }

    /// Draws chunks that take this long at the rate, shared between the data connections.
    pub fn transfer(&mut self, rate_bps: u64, least_bytes: u64, random: &mut Random) {
        let seconds = (self.scenario.end_ns as f64 / 1e9) * random.uniform(0.5, 0.9);
        let wanted = (rate_bps as f64 / 8.0 * seconds) as u64;
        let total = wanted.max(least_bytes).clamp(600_000, MOST_BYTES);
        let flows = self.scenario.flows.len() as u64;
        let count = 1 + random.below(4) as u32;
        let bytes = total / flows / u64::from(count);
        let pause_ns = logarithmic_ns(50.0, 1_500.0, random);
        for flow in &mut self.scenario.flows {
            flow.application = Application::Chunks {
                bytes,
                count,
                pause_ns,
            };
        }
    }
}

pub fn logarithmic_ns(low_ms: f64, high_ms: f64, random: &mut Random) -> i64 {
    (random.log_uniform(low_ms, high_ms) * MS as f64) as i64
}

pub fn pick<'a, T>(choices: &'a [T], random: &mut Random) -> &'a T {
    &choices[random.below(choices.len() as u64) as usize]
}

/// The forward path in three parts. If Y is just behind the element, its distance to B is only that of a cable.
fn stages(rtt_ns: i64, y_is_far: bool, random: &mut Random) -> Vec<Stage> {
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
    let before: Element = match random.chance(0.4) {
        true => Box::new(Delay::new(before_ns)),
        false => {
            let spread_ns = logarithmic_ns(0.001, 2.0, random);
            Box::new(Jitter::new(
                before_ns,
                before_ns + spread_ns,
                random.next_u64(),
            ))
        }
    };
    let approach_ns = if random.chance(0.8) {
        CABLE_NS
    } else {
        logarithmic_ns(0.005, 0.3, random)
    };
    let stage = |name, element: Element, reverse_delay_ns| Stage {
        name,
        element,
        reverse_delay_ns,
    };
    vec![
        stage("card", Box::new(Delay::new(0)), 0),
        stage("before", before, before_ns),
        stage("approach", Box::new(Delay::new(approach_ns)), approach_ns),
        stage("element", Box::new(Delay::new(0)), 0),
        stage("onward", Box::new(Delay::new(onward_ns)), back_onward_ns),
        stage("beyond", Box::new(Delay::new(beyond_ns)), beyond_ns),
    ]
}

/// Creates a connection; the mechanisms set what it transfers.
fn connection(ipv6: bool, client_port: u16, random: &mut Random) -> FlowConfig {
    let timestamps = random.chance(0.85);
    let mss =
        *pick(&[1_460, 1_460, 1_460, 1_400, 1_380, 1_240], random) - if ipv6 { 20 } else { 0 };
    FlowConfig {
        sender: data_sender(mss, timestamps, 0.8, 0.7, random),
        receiver: data_receiver(timestamps, random),
        application: Application::Chunks {
            bytes: 2_000_000,
            count: 3,
            pause_ns: 500 * MS,
        },
        client: [192, 0, 2, 20],
        server: [10, 0, 1, 10],
        client_port,
        server_port: *pick(&[443, 80, 5_201], random),
        start_ns: 10 * MS + random.below(300 * MS as u64) as i64,
        captured: true,
        timestamps,
        closes: random.chance(0.7),
        extra_rtt_ns: 0,
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
        world.udp_flows.push(flow);
        world.realism.add("udp");
    }
}
