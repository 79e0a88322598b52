//! Failures beside TCP data, and harmless cases like them.

use whydrop_capture::{Network, Packet, Transport};
use whydrop_datagrams::DatagramTracker;
use whydrop_testkit::{Ipv4, Udp};
use whydrop_verdict::Cause;

use super::*;

const CLIENT: [u8; 4] = [192, 0, 2, 10];
const SERVER: [u8; 4] = [198, 51, 100, 53];
const ROUTER: [u8; 4] = [203, 0, 113, 1];

/// A capture under construction.
#[derive(Default)]
struct Talk {
    tracker: DatagramTracker,
    packets: u64,
    ttl: u8,
}

impl Talk {
    fn new() -> Self {
        Self {
            ttl: 64,
            ..Self::default()
        }
    }

    fn push(&mut self, second: f64, ends: ([u8; 4], [u8; 4]), ecn: u8, transport: Transport) {
        let network = Network {
            source: IpAddr::from(ends.0),
            destination: IpAddr::from(ends.1),
            ip_bytes: 100,
            identification: None,
            ttl: self.ttl,
            dscp: 0,
            ecn,
            tunnel_depth: 0,
        };
        self.tracker.push(&Packet {
            index: self.packets,
            time_ns: (second * 1e9) as i64,
            interface: 0,
            wire_bytes: 114,
            captured_bytes: 114,
            network: Some(network),
            transport,
        });
        self.packets += 1;
    }

    fn udp(&mut self, second: f64, ends: ([u8; 4], [u8; 4]), ports: (u16, u16), payload: &[u8]) {
        self.marked(second, ends, ports, payload, 0);
    }

    fn marked(
        &mut self,
        second: f64,
        ends: ([u8; 4], [u8; 4]),
        ports: (u16, u16),
        payload: &[u8],
        ecn: u8,
    ) {
        let transport = Transport::Udp {
            source_port: ports.0,
            destination_port: ports.1,
            payload_bytes: payload.len() as u32,
            payload,
        };
        self.push(second, ends, ecn, transport);
    }

    /// An ICMP error to the client about its datagram from port 40000 to a port of the server.
    fn error(&mut self, second: f64, from: [u8; 4], (kind, code): (u8, u8), port: u16) {
        let datagram = Udp {
            ports: (40_000, port),
            ..Udp::default()
        };
        let packet = Ipv4 {
            source: CLIENT,
            destination: SERVER,
            protocol: 17,
            identification: 1,
            ttl: 1,
            total_bytes: Some(1500),
            ..Ipv4::default()
        };
        let payload = [&[0, 0, 0x05, 0x14], &packet.bytes(&datagram.bytes())[..]].concat();
        let transport = Transport::Icmp {
            kind,
            code,
            payload: &payload,
        };
        self.push(second, (from, CLIENT), 0, transport);
    }

    fn echo(&mut self, second: f64, number: u16, is_answered: bool) {
        let [high, low] = number.to_be_bytes();
        let payload = [0, 9, high, low];
        let (code, payload) = (0, &payload);
        let request = Transport::Icmp {
            kind: 8,
            code,
            payload,
        };
        self.push(second, (CLIENT, SERVER), 0, request);
        if is_answered {
            let reply = Transport::Icmp {
                kind: 0,
                code,
                payload,
            };
            self.push(second + 0.02, (SERVER, CLIENT), 0, reply);
        }
    }

    /// Cause, detail and code of the headline of each verdict.
    fn verdicts(self) -> Vec<(String, String, String)> {
        let found = verdicts(&self.tracker.finish(), &Tracked::default());
        let of = |ranked: Ranked| {
            let verdict = ranked.verdict;
            let code = verdict.facts[0].code.to_string();
            (
                verdict.cause.name().to_owned(),
                verdict.detail.unwrap_or_default(),
                code,
            )
        };
        found.into_iter().map(of).collect()
    }
}

fn verdict(cause: &str, detail: &str, code: &str) -> (String, String, String) {
    (cause.to_owned(), detail.to_owned(), code.to_owned())
}

const RADIUS_REQUEST: &[u8] = &[1, 7, 0, 20];

#[test]
fn repeated_unanswered_requests_give_a_verdict_and_answered_ones_none() {
    let mut talk = Talk::new();
    talk.udp(0.0, (CLIENT, SERVER), (40_000, 1812), RADIUS_REQUEST);
    talk.udp(3.0, (CLIENT, SERVER), (40_000, 1812), RADIUS_REQUEST);
    assert_eq!(
        talk.verdicts(),
        [verdict("no-answer", "requests", "requests-unanswered")]
    );
    let mut talk = Talk::new();
    talk.udp(0.0, (CLIENT, SERVER), (40_000, 1812), RADIUS_REQUEST);
    talk.udp(0.1, (SERVER, CLIENT), (1812, 40_000), &[3, 7, 0, 20]);
    assert!(talk.verdicts().is_empty());
}

#[test]
fn a_closed_port_refuses_but_not_one_closed_after_an_answer() {
    let mut talk = Talk::new();
    talk.udp(0.0, (CLIENT, SERVER), (40_000, 1812), RADIUS_REQUEST);
    talk.error(0.1, SERVER, (3, 3), 1812);
    talk.udp(3.0, (CLIENT, SERVER), (40_000, 1812), RADIUS_REQUEST);
    talk.error(3.1, SERVER, (3, 3), 1812);
    assert_eq!(
        talk.verdicts(),
        [verdict("refused", "icmp", "datagrams-rejected")]
    );
    let mut talk = Talk::new();
    talk.udp(0.0, (SERVER, CLIENT), (6000, 40_000), b"speech");
    talk.udp(1.0, (CLIENT, SERVER), (40_000, 6000), b"speech");
    talk.error(1.1, SERVER, (3, 3), 6000);
    assert!(talk.verdicts().is_empty());
}

#[test]
fn a_hop_limit_that_runs_out_is_a_loop_unless_it_was_small() {
    let of = |ttl| {
        let mut talk = Talk::new();
        talk.ttl = ttl;
        talk.udp(0.0, (CLIENT, SERVER), (40_000, 6000), b"x");
        talk.error(0.1, ROUTER, (11, 0), 6000);
        talk.verdicts()
    };
    assert_eq!(of(64), [verdict("no-answer", "loop", "datagrams-looped")]);
    assert!(of(1).is_empty());
}

#[test]
fn the_end_of_a_trace_is_no_refusal() {
    let mut talk = Talk::new();
    talk.ttl = 2;
    talk.udp(0.0, (CLIENT, SERVER), (40_000, 33_434), b"x");
    talk.error(0.1, ROUTER, (11, 0), 33_434);
    talk.udp(1.0, (CLIENT, SERVER), (40_000, 33_435), b"x");
    talk.error(1.1, SERVER, (3, 3), 33_435);
    assert!(talk.verdicts().is_empty());
}

#[test]
fn a_router_that_rejects_or_has_no_route_is_named() {
    let of = |code| {
        let mut talk = Talk::new();
        talk.udp(0.0, (CLIENT, SERVER), (40_000, 6000), b"x");
        talk.error(0.1, ROUTER, (3, code), 6000);
        talk.verdicts()
    };
    let rejected = verdict("refused", "icmp", "datagrams-rejected");
    let unreachable = verdict("no-answer", "unreachable", "datagrams-unreachable");
    assert_eq!(of(13), [rejected]);
    assert_eq!(of(1), [unreachable]);
    assert_eq!(of(4), [verdict("mtu", "datagrams", "too-large-reported")]);
}

#[test]
fn lost_echo_requests_are_judged_by_their_pattern() {
    let of = |is_answered: fn(u16) -> bool| {
        let mut talk = Talk::new();
        for number in 0..40 {
            talk.echo(f64::from(number), number, is_answered(number));
        }
        let mut verdicts = talk.verdicts();
        verdicts.pop().map(|(cause, ..)| cause)
    };
    assert_eq!(of(|_| true), None);
    assert_eq!(of(|_| false).as_deref(), Some("no-answer"));
    let silent = |number: u16| !(10..20).contains(&number);
    assert_eq!(of(silent).as_deref(), Some("outage"));
    assert_eq!(of(|number| number < 20).as_deref(), Some("no-answer"));
    let scattered = |number: u16| ![3, 9, 10, 22, 31].contains(&number);
    assert_eq!(of(scattered).as_deref(), Some("random-loss"));
    assert_eq!(of(|number| number != 5).as_deref(), Some("unknown"));
}

#[test]
fn echo_requests_lost_beside_bulk_data_are_no_random_loss() {
    let mut talk = Talk::new();
    for number in 0..40 {
        talk.echo(
            f64::from(number),
            number,
            ![3, 9, 10, 22, 31].contains(&number),
        );
    }
    let datagrams = talk.tracker.finish();
    let causes = |is_loaded| {
        let seen = Seen {
            is_loaded,
            ..Seen::of(&datagrams, &Tracked::default())
        };
        let found = pings::find(&datagrams, &seen);
        found.into_iter().map(|one| one.cause).collect::<Vec<_>>()
    };
    assert_eq!(causes(false), [Some(Cause::RandomLoss)]);
    assert_eq!(causes(true), [Some(Cause::Unknown)]);
}

#[test]
fn marks_come_from_a_queue_only_if_the_sender_sets_other_code_points() {
    let of = |ecn: fn(u16) -> u8| {
        let mut talk = Talk::new();
        for number in 0..20_u16 {
            let second = f64::from(number) * 0.01;
            let payload = number.to_be_bytes();
            talk.marked(
                second,
                (CLIENT, SERVER),
                (5000, 5001),
                &payload,
                ecn(number),
            );
        }
        talk.verdicts()
    };
    assert_eq!(of(|_| 3), []);
    let marked = of(|number| if number % 7 == 0 { 3 } else { 1 });
    assert_eq!(marked, [verdict("aqm", "", "marked-by-aqm")]);
}

#[test]
fn many_endpoints_that_fail_alike_are_one_verdict() {
    let mut talk = Talk::new();
    for port in 1..200 {
        talk.udp(0.0, (CLIENT, SERVER), (40_000, port), b"x");
        talk.error(0.1, SERVER, (3, 3), port);
    }
    assert_eq!(talk.verdicts().len(), 1);
}

#[test]
fn many_unrepeated_questions_had_answers() {
    let mut talk = Talk::new();
    for number in 0..20_u8 {
        let mut query = vec![
            0,
            number,
            1,
            0,
            0,
            1,
            0,
            0,
            0,
            0,
            0,
            0,
            1,
            b'a' + number,
            0,
            0,
            1,
        ];
        query.extend([0, 1]);
        talk.udp(f64::from(number), (CLIENT, SERVER), (40_000, 53), &query);
    }
    assert_eq!(
        talk.verdicts(),
        [verdict(
            "capture-loss",
            "one-direction",
            "answers-not-captured"
        )]
    );
}
