//! A pair before it is written: the packets on the path, the sniffers, and everything known about both.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value, json};
use whydrop_path::Random;

use super::crossing::Crossing;
use super::frame::Ends;
use super::sniffer::{Point, Sighting, Sniffer};
use crate::headers::Endpoints;
use whydrop_network::limiter::Account;

/// Everything about a pair of captures.
#[derive(Debug, Clone)]
pub struct SimulatedPair {
    pub name: String,
    pub split: &'static str,
    /// The name of the mechanism in the scoring scripts.
    pub kind: &'static str,
    /// A narrower name.
    pub variant: &'static str,
    pub note: String,
    pub seed: u64,
    pub parameters: Map<String, Value>,
    /// True for each parameter with which an error of its tolerance would have had a different outcome; parameters that
    /// are not listed can be determined.
    pub identifiable: Map<String, Value>,
    /// Besides the parameters: round trip, rates of lines.
    pub circumstances: Map<String, Value>,
    pub tcp_flows: Vec<Flow>,
    pub udp_flows: Vec<Flow>,
    pub crossings: Vec<Crossing>,
    pub b: Sniffer,
    pub y: Sniffer,
    pub translation: Option<Translation>,
    pub realism: Realism,
    /// Limiters of each TCP flow; empty if the simulation does not record them.
    pub accounts: Vec<Account>,
    /// The right causes.
    pub right: Vec<&'static str>,
    /// The correct causes of each transfer of the first flow, in order; empty if all have the pair's.
    pub right_by_transfer: Vec<Vec<&'static str>>,
}

/// A data flow as it appears at B.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    pub ends: Ends,
    pub role: &'static str,
}

/// A network address translator between the points: at Y one of the hosts has another address and other ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translation {
    pub of_server: bool,
    pub address: IpAddr,
    pub first_port: u16,
}

/// The defects of the captures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Realism {
    pub treatments: Vec<&'static str>,
    /// The tolerance of a count of losses, as a share of them (of 30, if they are fewer).
    pub lost_tolerance: f64,
    /// The parameters of the treatments.
    pub details: Map<String, Value>,
}

impl Realism {
    pub fn add(&mut self, treatment: &'static str) {
        self.treatments.push(treatment);
    }

    pub fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.details.insert(name.into(), value.into());
    }

    pub fn tolerate(&mut self, share: f64) {
        self.lost_tolerance = f64::max(self.lost_tolerance, share);
    }
}

impl Flow {
    /// A flow between two hosts with separate addresses in documentation networks (RFC 5737, RFC 3849).
    pub fn new(
        role: &'static str,
        ipv6: bool,
        hosts: (u8, u8),
        ports: (u16, u16),
        mss: u16,
        random: &mut Random,
    ) -> Self {
        let address = |network: u8, host: u8| match (ipv6, network) {
            (true, _) => IpAddr::V6(Ipv6Addr::new(
                0x2001,
                0xdb8,
                network.into(),
                0,
                0,
                0,
                0,
                host.into(),
            )),
            (false, 0) => IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)),
            (false, _) => IpAddr::V4(Ipv4Addr::new(10, 0, 1, host)),
        };
        let isn = |random: &mut Random| random.next_u64() as u32;
        let tcp = Endpoints {
            client_port: ports.0,
            server_port: ports.1,
            client_isn: isn(random),
            server_isn: isn(random),
            mss,
            sack: true,
        };
        Self {
            ends: Ends {
                client: address(0, hosts.0),
                server: address(1, hosts.1),
                tcp,
                payload_seed: Some(random.next_u64()),
            },
            role,
        }
    }

    /// The flow as it appears behind a translator.
    pub fn translated(&self, translation: Option<Translation>, number: u16) -> Ends {
        let mut ends = self.ends;
        if let Some(translation) = translation {
            let port = translation.first_port.wrapping_add(number);
            if translation.of_server {
                (ends.server, ends.tcp.server_port) = (translation.address, port);
            } else {
                (ends.client, ends.tcp.client_port) = (translation.address, port);
            }
        }
        ends
    }
}

impl Default for SimulatedPair {
    /// Without packets, with sniffers that see everything.
    fn default() -> Self {
        Self {
            name: String::new(),
            split: "",
            kind: "",
            variant: "",
            note: String::new(),
            seed: 0,
            parameters: Map::new(),
            identifiable: Map::new(),
            circumstances: Map::new(),
            tcp_flows: Vec::new(),
            udp_flows: Vec::new(),
            crossings: Vec::new(),
            b: Sniffer::new(Point::B),
            y: Sniffer::new(Point::Y),
            translation: None,
            realism: Realism::default(),
            accounts: Vec::new(),
            right: Vec::new(),
            right_by_transfer: Vec::new(),
        }
    }
}

impl SimulatedPair {
    /// The captures of the two sniffers: first B, with a correct clock, then Y, with a drift that counts from B's first
    /// packet.
    pub fn watch(&mut self) -> (Sighting, Sighting) {
        let mut random = Random::new(self.seed ^ 0x736e_6966_6665_7273);
        let at_b = self.b.watch(&self.crossings, &mut random);
        self.y.clock.t0_ns = at_b.records.first().map_or(0, |record| record.time_ns);
        let at_y = self.y.watch(&self.crossings, &mut random);
        (at_b, at_y)
    }

    /// The flows as Y sees them: TCP, then UDP.
    pub fn ends_at_y(&self) -> (Vec<Ends>, Vec<Ends>) {
        let translated = |flows: &[Flow], first: usize| -> Vec<Ends> {
            let of = |(number, flow): (usize, &Flow)| {
                flow.translated(self.translation, (first + number) as u16)
            };
            flows.iter().enumerate().map(of).collect()
        };
        (
            translated(&self.tcp_flows, 0),
            translated(&self.udp_flows, self.tcp_flows.len()),
        )
    }

    /// Records a parameter of the path element for the truth.
    pub fn parameter(&mut self, name: &str, value: impl Into<Value>) {
        self.parameters.insert(name.into(), value.into());
    }

    /// The error of Y's clock, or null.
    pub fn distortion(&self) -> Value {
        let clock = &self.y.clock;
        if clock.offset_ns == 0 && clock.drift_ppm == 0.0 && clock.steps.is_empty() {
            return Value::Null;
        }
        let epoch_ns = crate::pcap::EPOCH_NS;
        let steps: Vec<Value> = (clock.steps.iter())
            .map(|&(at_ns, step_ns)| json!({"at_true_ns": epoch_ns + at_ns, "step_ns": step_ns}))
            .collect();
        json!({
            "capture": "y",
            "offset_ns": clock.offset_ns,
            "drift_ppm": clock.drift_ppm,
            "t0_ns": epoch_ns + clock.t0_ns,
            "steps": steps,
            "formula": "t_written = t_true + offset_ns + drift_ppm*1e-6*(t_true - t0_ns) + step_ns of each step past",
        })
    }
}
