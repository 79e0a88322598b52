//! Limits that a responder imposes on its clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::flow::{Direction, FlowSpec, Kind};
use crate::tcp::options;

/// A slower TCP flow measures nothing useful.
const LEAST_TCP_BPS: f64 = 1000.0;

/// The limits of a responder. Requests that exceed one are refused before anything is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    pub max_sessions: usize,
    /// Sessions from one address at once. For IPv6, from one /64 prefix, since a host can use any number of addresses
    /// in it.
    pub max_sessions_per_address: usize,
    /// All clients of one network together ([`network`]) may take at most half of the sessions.
    pub shares_by_network: bool,
    /// How long no flow of a session may be active, beyond pauses of the plan; no pause may be longer either. `None`:
    /// as long as the session lasts.
    pub max_idle_s: Option<f64>,
    pub max_flows: usize,
    /// From the common start of a session's flows to their end, including idle time.
    pub max_duration_s: f64,
    /// The highest rate at which one session may send, all flows together, and likewise receive; `None`: unlimited.
    pub max_rate_bps: Option<f64>,
    /// The shortest interval of answered probes and of reported rows.
    pub min_interval_s: f64,
    /// Intervals and samples per second, all flows of a session together.
    pub max_rows_per_s: f64,
    pub max_packet_payload_bytes: u32,
}

impl Limits {
    /// The limits for clients that have proved that they know the secret.
    pub fn authenticated() -> Limits {
        Limits {
            max_sessions: 32,
            max_sessions_per_address: 32,
            shares_by_network: false,
            max_idle_s: None,
            max_flows: 1024,
            max_duration_s: 4.0 * 3600.0,
            max_rate_bps: None,
            min_interval_s: 0.001,
            max_rows_per_s: 25_000.0,
            max_packet_payload_bytes: 65_507,
        }
    }

    /// The limits for unauthenticated clients.
    pub fn open() -> Limits {
        Limits {
            max_sessions: 8,
            max_sessions_per_address: 4,
            shares_by_network: true,
            max_idle_s: Some(20.0),
            max_flows: 256,
            max_duration_s: 600.0,
            max_rate_bps: Some(1e9),
            min_interval_s: 0.001,
            max_rows_per_s: 25_000.0,
            max_packet_payload_bytes: 9000,
        }
    }

    /// The limits for clients with or without a secret, with the changes that are given.
    pub fn with(
        open: bool,
        max_sessions: Option<usize>,
        max_duration_s: Option<f64>,
        max_rate_bps: Option<f64>,
    ) -> Limits {
        let mut limits = if open {
            Limits::open()
        } else {
            Limits::authenticated()
        };
        limits.max_sessions = max_sessions.unwrap_or(limits.max_sessions);
        if !open {
            // With a secret, all clients may share one address.
            limits.max_sessions_per_address = limits.max_sessions;
        }
        limits.max_duration_s = max_duration_s.unwrap_or(limits.max_duration_s);
        limits.max_rate_bps = max_rate_bps.or(limits.max_rate_bps);
        limits
    }

    /// The most sessions of one network at once.
    pub fn sessions_per_network(&self) -> usize {
        match self.shares_by_network {
            true => self.max_sessions.div_ceil(2),
            false => self.max_sessions,
        }
    }

    /// How long no flow of a session with this plan may be active.
    pub fn idle_s(&self, flows: &[FlowSpec]) -> Option<f64> {
        Some(self.max_idle_s? + longest_pause_s(flows))
    }

    /// The rate at which the responder reads the client's TCP flows, all together; `None`: unlimited.
    pub fn intake_bps(&self, flows: &[FlowSpec]) -> Option<f64> {
        Some(self.max_rate_bps? - udp_bps(flows, Direction::Up))
    }

    /// Checks what a client requests, and limits the flows towards it to the session's rate.
    ///
    /// # Errors
    /// The first limit that is exceeded, with its value.
    pub fn admit(&self, flows: &mut [FlowSpec]) -> Result<(), String> {
        if flows.len() > self.max_flows {
            return Err(format!(
                "{} flows; this responder accepts at most {}",
                flows.len(),
                self.max_flows
            ));
        }
        for flow in flows.iter() {
            self.check(flow)
                .map_err(|problem| format!("flow {}: {problem}", flow.flow))?;
        }
        let rows_per_s: f64 = flows
            .iter()
            .filter(|flow| matches!(flow.kind, Kind::Tcp | Kind::Udp))
            .map(|flow| 1.0 / flow.interval_s)
            .sum();
        if rows_per_s > self.max_rows_per_s {
            return Err(format!(
                "{rows_per_s:.0} intervals per second in all flows; this responder records at most {:.0}: \
                 make interval_s longer",
                self.max_rows_per_s
            ));
        }
        let pause_s = longest_pause_s(flows);
        if let Some(most_s) = self.max_idle_s.filter(|&most_s| pause_s > most_s) {
            return Err(format!(
                "the plan has a pause of {pause_s:.0} s without any flow; this responder (--open) allows {most_s:.0} s: \
                 add a probe flow, or use a secret"
            ));
        }
        if let Some(rate_bps) = self.max_rate_bps {
            share(flows, rate_bps)?;
        }
        Ok(())
    }

    fn check(&self, flow: &FlowSpec) -> Result<(), String> {
        flow.check()?;
        let end_s = flow.start_s + flow.duration_s.unwrap_or(0.0);
        if end_s > self.max_duration_s {
            return Err(format!(
                "the flow ends after {end_s:.0} s; this responder allows {:.0} s (--max-duration)",
                self.max_duration_s
            ));
        }
        if flow.interval_s < self.min_interval_s {
            return Err(format!(
                "an interval of {} s; this responder allows {} s and longer",
                flow.interval_s, self.min_interval_s
            ));
        }
        if flow
            .packet_payload_bytes
            .is_some_and(|bytes| bytes > self.max_packet_payload_bytes)
        {
            return Err(format!(
                "packets of more than {} bytes of payload are not allowed",
                self.max_packet_payload_bytes
            ));
        }
        if flow.kind == Kind::Udp && flow.rate_bps.is_none_or(|rate| rate <= 0.0) {
            return Err("a UDP stream needs a rate".to_owned());
        }
        match (&flow.congestion_control, flow.kind, flow.direction) {
            (Some(name), Kind::Tcp, Direction::Down) => options::check_congestion_control(name)
                .map_err(|error| format!("at the responder: {error}")),
            _ => Ok(()),
        }
    }
}

/// The prefix that counts as one address: a whole IPv4 address, mapped or not, or the first 64 bits of an IPv6 address.
pub fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(prefix))
        }
        address => address,
    }
}

/// The network of an address: the first 24 bits of an IPv4 address, mapped or not, or the first 48 of an IPv6 address.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & !0xff)),
        IpAddr::V6(address) => {
            let rest = u128::MAX >> 48;
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !rest))
        }
    }
}

/// The longest time that the plan leaves without a packet of any flow: before the first one, between flows, or within
/// one of them.
fn longest_pause_s(flows: &[FlowSpec]) -> f64 {
    let mut flows: Vec<&FlowSpec> = flows.iter().collect();
    flows.sort_by(|one, other| one.start_s.total_cmp(&other.start_s));
    let (mut end_s, mut longest_s) = (0.0_f64, 0.0_f64);
    for flow in flows {
        let within_s = match flow.kind {
            Kind::Burst => flow.burst_every_s,
            Kind::Probe => Some(flow.interval_s),
            _ => flow.off_s,
        };
        longest_s = longest_s
            .max(flow.start_s - end_s)
            .max(within_s.unwrap_or(0.0));
        end_s = end_s.max(flow.start_s + flow.duration_s.unwrap_or(f64::INFINITY));
    }
    longest_s
}

/// Limits flows to a rate in each direction. UDP must not exceed it, and TCP gets the rest: flows that the responder
/// sends are paced, and it reads the others no faster ([`Limits::intake_bps`]).
fn share(flows: &mut [FlowSpec], rate_bps: f64) -> Result<(), String> {
    for (direction, does) in [(Direction::Up, "takes"), (Direction::Down, "sends")] {
        let udp_bps = udp_bps(flows, direction);
        if udp_bps > rate_bps {
            return Err(format!(
                "UDP of {udp_bps:.0} bit/s; this responder {does} at most {rate_bps:.0} bit/s (--max-rate)"
            ));
        }
        let has_tcp = flows.iter().any(|flow| is_tcp(flow, direction));
        if has_tcp && rate_bps - udp_bps < LEAST_TCP_BPS {
            return Err(format!(
                "UDP of {udp_bps:.0} bit/s leaves nothing for TCP; this responder {does} at most {rate_bps:.0} bit/s \
                 (--max-rate)"
            ));
        }
    }
    let left_bps = rate_bps - udp_bps(flows, Direction::Down);
    let down = |flow: &FlowSpec| is_tcp(flow, Direction::Down);
    let each_bps = left_bps / flows.iter().filter(|flow| down(flow)).count().max(1) as f64;
    for flow in flows.iter_mut().filter(|flow| down(flow)) {
        flow.pacing_rate_bps = Some(flow.pacing_rate_bps.unwrap_or(each_bps).min(each_bps));
    }
    Ok(())
}

fn is_tcp(flow: &FlowSpec, direction: Direction) -> bool {
    flow.kind == Kind::Tcp && flow.direction == direction
}

/// The average rate that the UDP flows in this direction request together.
fn udp_bps(flows: &[FlowSpec], direction: Direction) -> f64 {
    let goes = |flow: &&FlowSpec| flow.direction == direction || flow.kind == Kind::Probe;
    flows.iter().filter(goes).filter_map(demanded_bps).sum()
}

/// The average rate that a UDP flow requests.
fn demanded_bps(flow: &FlowSpec) -> Option<f64> {
    // The sender of bursts uses these defaults where the flow specifies nothing.
    const BURST: (u32, u32, f64) = (100, 1200, 1.0);
    const PROBE_BYTES: u32 = 64;
    match flow.kind {
        Kind::Udp => flow.rate_bps,
        Kind::Burst => {
            let packets = flow.packets_per_burst.unwrap_or(BURST.0);
            let bytes = flow.packet_payload_bytes.unwrap_or(BURST.1);
            let every_s = flow.burst_every_s.unwrap_or(BURST.2).max(1e-6);
            Some(f64::from(packets) * f64::from(bytes) * 8.0 / every_s)
        }
        // Answers are as long as their requests.
        Kind::Probe => {
            let bytes = flow.packet_payload_bytes.unwrap_or(PROBE_BYTES);
            Some(f64::from(bytes) * 8.0 / flow.interval_s.max(1e-6))
        }
        Kind::Tcp | Kind::Icmp => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down(flow: u32) -> FlowSpec {
        FlowSpec {
            duration_s: Some(10.0),
            ..FlowSpec::new(flow, Kind::Tcp, Direction::Down)
        }
    }

    #[test]
    fn flows_towards_the_client_share_the_rate_of_their_session() {
        let mut flows = vec![
            down(0),
            down(1),
            FlowSpec {
                direction: Direction::Up,
                ..down(2)
            },
        ];
        Limits {
            max_rate_bps: Some(10e6),
            ..Limits::open()
        }
        .admit(&mut flows)
        .unwrap();
        let rates: Vec<_> = flows.iter().map(|flow| flow.pacing_rate_bps).collect();
        assert_eq!(rates, [Some(5e6), Some(5e6), None]);
    }

    #[test]
    fn what_exceeds_a_limit_is_refused_in_words_that_name_the_flow_and_the_limit() {
        let limits = Limits::open();
        let cases = [
            (
                FlowSpec {
                    duration_s: Some(1e6),
                    ..down(3)
                },
                "600 s",
            ),
            (
                FlowSpec {
                    interval_s: 0.0,
                    ..down(3)
                },
                "interval",
            ),
            (
                FlowSpec {
                    start_s: f64::NAN,
                    ..down(3)
                },
                "start_s",
            ),
            (
                FlowSpec {
                    rate_bps: Some(-1.0),
                    ..down(3)
                },
                "rate_bps",
            ),
            (
                FlowSpec {
                    dscp: 64,
                    ..down(3)
                },
                "DSCP 64",
            ),
            (
                FlowSpec {
                    congestion_control: Some("nonesuch".to_owned()),
                    ..down(3)
                },
                "nonesuch",
            ),
            (
                FlowSpec {
                    kind: Kind::Udp,
                    rate_bps: Some(2e9),
                    ..down(3)
                },
                "at most",
            ),
        ];
        for (flow, expected) in cases {
            let message = limits.admit(&mut [flow]).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
        let many = &mut vec![down(0); limits.max_flows + 1];
        assert!(limits.admit(many).unwrap_err().contains("256"));
    }
    #[test]
    fn bursts_take_their_part_of_the_rate_too() {
        let bursts = FlowSpec {
            kind: Kind::Burst,
            packets_per_burst: Some(1000),
            packet_payload_bytes: Some(1000),
            burst_every_s: Some(1.0),
            ..down(0)
        };
        let limits = Limits {
            max_rate_bps: Some(10e6),
            ..Limits::open()
        };
        let mut flows = vec![bursts.clone(), down(1)];
        limits.admit(&mut flows).unwrap();
        assert_eq!(flows[1].pacing_rate_bps, Some(2e6));
        let message = limits.admit(&mut [bursts.clone(), bursts]).unwrap_err();
        assert!(message.contains("at most 10000000"), "{message}");
    }

    #[test]
    fn uploads_are_limited_to_the_rate_too() {
        let up = |flow| FlowSpec {
            direction: Direction::Up,
            ..down(flow)
        };
        let stream = |rate_bps| FlowSpec {
            kind: Kind::Udp,
            rate_bps: Some(rate_bps),
            ..up(7)
        };
        let probes = FlowSpec {
            interval_s: 0.001,
            packet_payload_bytes: Some(125),
            ..FlowSpec::new(8, Kind::Probe, Direction::Both)
        };
        let limits = Limits {
            max_rate_bps: Some(10e6),
            ..Limits::open()
        };
        let mut flows = vec![up(0), up(1), stream(4e6), probes.clone()];
        limits.admit(&mut flows).unwrap();
        assert_eq!(limits.intake_bps(&flows), Some(5e6));
        assert_eq!(flows[0].pacing_rate_bps, None);
        for (flows, expected) in [
            (vec![stream(11e6)], "takes at most 10000000"),
            (vec![stream(9.5e6), probes.clone()], "takes at most"),
            (vec![up(0), stream(10e6)], "leaves nothing for TCP"),
            (vec![probes; 11], "takes at most"),
        ] {
            let message = limits.admit(&mut flows.clone()).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
        assert_eq!(Limits::authenticated().intake_bps(&flows), None);
    }

    #[test]
    fn intervals_that_are_too_many_together_are_refused() {
        let limits = Limits::open();
        let quick = FlowSpec {
            interval_s: 0.001,
            ..down(0)
        };
        limits.admit(&mut [quick.clone()]).unwrap();
        let message = limits.admit(&mut vec![quick; 200]).unwrap_err();
        assert!(message.contains("interval_s"), "{message}");
    }

    #[test]
    fn a_plan_with_a_long_pause_is_refused_where_idle_sessions_end() {
        let at = |start_s| FlowSpec { start_s, ..down(0) };
        let bursts = FlowSpec {
            kind: Kind::Burst,
            burst_every_s: Some(30.0),
            ..down(0)
        };
        let limits = Limits::open();
        for (flows, idle_s) in [
            (vec![at(0.0), at(10.0)], 20.0),
            (vec![at(25.0), at(5.0)], 30.0),
            (vec![at(20.0)], 40.0),
        ] {
            assert_eq!(limits.admit(&mut flows.clone()), Ok(()));
            assert_eq!(limits.idle_s(&flows), Some(idle_s));
            assert_eq!(Limits::authenticated().idle_s(&flows), None);
        }
        for flows in [vec![at(21.0)], vec![at(0.0), at(31.0)], vec![bursts]] {
            let message = limits.admit(&mut flows.clone()).unwrap_err();
            assert!(message.contains("allows 20 s"), "{message}");
            assert_eq!(Limits::authenticated().admit(&mut flows.clone()), Ok(()));
        }
    }

    #[test]
    fn a_network_has_half_of_the_sessions_of_an_open_responder() {
        let of = |address: &str| network(address.parse().unwrap());
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.200"));
        assert_ne!(of("192.0.2.1"), of("192.0.3.1"));
        assert_eq!(of("2001:db8:7:1::1"), of("2001:db8:7:ffff::2"));
        assert_ne!(of("2001:db8:7::1"), of("2001:db8:8::1"));
        for (max_sessions, share) in [(8, 4), (3, 2), (1, 1)] {
            let limits = Limits {
                max_sessions,
                ..Limits::open()
            };
            assert_eq!(limits.sessions_per_network(), share);
        }
        assert_eq!(Limits::authenticated().sessions_per_network(), 32);
    }

    #[test]
    fn addresses_that_one_host_may_take_count_as_one() {
        let same = |one: &str, other: &str| {
            neighbourhood(one.parse().unwrap()) == neighbourhood(other.parse().unwrap())
        };
        assert!(same("2001:db8::1", "2001:db8::ffff:0:0:1"));
        assert!(same("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
        assert!(!same("::ffff:192.0.2.1", "::ffff:192.0.2.2"));
    }
}
