//! ICMP echo (RFC 792, RFC 4443): round-trip times to hosts and routers that run no responder.
//!
//! The payload begins with 8 random bytes and the sequence number in 8 bytes, big-endian. Answers from other hosts or
//! to other programs' requests are thereby recognised, and sequence numbers do not wrap at 65 536.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::clock;
use crate::flow::FlowSpec;
use crate::local_end::{LocalEnd, with_zone};
use crate::sample::{Ending, Sink};
use crate::stop::Stop;
use crate::udp::exchanges::Thinning;
use crate::udp::facts;
use crate::udp::isochronous::{Book, DEFAULT_TIMEOUT_S, MOST_OVERDUE_NS, Probing};
use crate::udp::ledger::{Answered, Ledger};
use crate::udp::marks::Marks;
use crate::udp::schedule::Schedule;
use crate::udp::socket::{self, Datagram, Envelope};
use crate::udp::turns::Emitter;
use crate::udp::words::{ended, explained};

const READ_TIMEOUT: Duration = Duration::from_millis(20);
/// Type, code, checksum, identifier, sequence.
const HEADER_BYTES: usize = 8;
/// The bytes of an answer that are read: the largest IPv4 header, the ICMP header, the random number and the sequence
/// number.
const ANSWER_BYTES: usize = 60 + HEADER_BYTES + 16;

/// Runs one flow of echo requests until it is over, in the caller's thread.
///
/// The rows are probes without timestamps of the far end. If an answer is missing, the direction of the loss is
/// unknown. Fails if this kernel permits no echo requests, with a message that says what to change.
pub fn run(
    spec: &FlowSpec,
    remote: SocketAddr,
    source: &LocalEnd,
    start_ns: i64,
    stop: &Stop,
    sink: &Sink,
) -> Ending {
    ended(
        echo(spec, unmapped(remote), source, start_ns, stop, sink),
        stop,
    )
}

/// Converts IPv4-mapped IPv6 addresses to IPv4; other IPv6 addresses keep their zone. The port is dropped.
fn unmapped(remote: SocketAddr) -> SocketAddr {
    match (remote, remote.ip().to_canonical()) {
        (_, IpAddr::V4(v4)) => SocketAddr::new(v4.into(), 0),
        (SocketAddr::V6(v6), _) => SocketAddrV6::new(*v6.ip(), 0, 0, v6.scope_id()).into(),
        (SocketAddr::V4(_), address) => SocketAddr::new(address, 0),
    }
}

fn echo(
    spec: &FlowSpec,
    remote: SocketAddr,
    source: &LocalEnd,
    start_ns: i64,
    stop: &Stop,
    sink: &Sink,
) -> Result<(), String> {
    let schedule = Schedule::of(spec)?;
    let peer = with_zone(remote);
    let say = |error: io::Error| explained(&error, &peer);
    let (socket, is_raw) = open(remote.ip())?;
    prepare(&socket, remote, source, spec.traffic_class()).map_err(say)?;
    let mut number = [0; 8];
    getrandom::fill(&mut number).map_err(|error| error.to_string())?;
    let timeout_ns = clock::ns(spec.timeout_s.unwrap_or(DEFAULT_TIMEOUT_S)).max(0);
    let ledger = Ledger::new(spec.flow, schedule.packet_bytes as u32, timeout_ns, false);
    let mut book = Book::new(spec.flow, ledger, Thinning::by_windows());
    let wire = Wire {
        is_ipv6: remote.is_ipv6(),
        is_raw,
        number,
    };
    let mut sender = Sender {
        wire,
        socket: &socket,
        packet: wire.request(schedule.packet_bytes),
    };
    let mut marks = Marks::default();
    let probing = Probing {
        flow: spec.flow,
        schedule: &schedule,
        start_ns: start_ns.saturating_add(clock::ns(spec.start_s)),
        socket: &socket,
        most_overdue_ns: MOST_OVERDUE_NS,
        answer_bytes: ANSWER_BYTES,
        stop,
        sink,
    };
    let result = probing.run(
        &mut book,
        &mut sender,
        &mut |datagram: &Datagram, book: &mut Book| {
            if let Some(sequence) = wire.answered(datagram.bytes) {
                marks.add(datagram.traffic_class);
                let answered = Answered {
                    sequence,
                    received_ns: datagram.received_ns,
                    far: None,
                };
                book.answered(answered, 0);
            }
        },
    );
    book.close(|| None, sink);
    book.record_facts(&peer, sink);
    let facts = marks.dscp().map(|dscp| ("dscp_received_down", dscp));
    facts::record(spec.flow, facts, sink);
    result.map_err(say)?;
    book.verdict(
        &peer,
        "not one echo request was answered: the host is down, or ICMP is filtered on the path",
    )
}

/// Opens a socket for echo requests; returns it and whether it is raw.
fn open(address: IpAddr) -> Result<(Socket, bool), String> {
    let (domain, protocol) = match address {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
    };
    if let Ok(socket) = Socket::new(domain, Type::DGRAM, Some(protocol)) {
        return Ok((socket, false));
    }
    match Socket::new(domain, Type::RAW, Some(protocol)) {
        Ok(socket) => Ok((socket, true)),
        Err(error) => Err(format!(
            "this user may not send ICMP echo requests ({error}): allow it for all groups with `sysctl -w \
             net.ipv4.ping_group_range=\"0 2147483647\"`, or give whydrop CAP_NET_RAW"
        )),
    }
}

fn prepare(
    socket: &Socket,
    remote: SocketAddr,
    source: &LocalEnd,
    traffic_class: u8,
) -> io::Result<()> {
    socket::listen_closely(socket, Domain::for_address(remote))?;
    socket::set_traffic_class(socket, &remote, traffic_class)?;
    socket.set_read_timeout(Some(READ_TIMEOUT))?;
    source.bind(socket, remote)?;
    socket.connect(&remote.into())
}

/// The layout of requests and answers on this socket.
#[derive(Clone, Copy)]
struct Wire {
    is_ipv6: bool,
    is_raw: bool,
    number: [u8; 8],
}

impl Wire {
    fn request(&self, payload_bytes: usize) -> Vec<u8> {
        let mut packet = vec![0; HEADER_BYTES + payload_bytes];
        socket::fill_with_noise(&mut packet[HEADER_BYTES..]);
        packet[0] = if self.is_ipv6 { 128 } else { 8 };
        packet[1] = 0;
        // On sockets that are not raw, the kernel writes its own identifier.
        packet[4..6].copy_from_slice(&self.number[..2]);
        packet[HEADER_BYTES..][..8].copy_from_slice(&self.number);
        packet
    }

    fn number(&self, packet: &mut [u8], sequence: u64) {
        packet[6..8].copy_from_slice(&(sequence as u16).to_be_bytes());
        packet[HEADER_BYTES + 8..][..8].copy_from_slice(&sequence.to_be_bytes());
        packet[2..4].fill(0);
        // The kernel computes the checksum except on raw IPv4 sockets.
        if self.is_raw && !self.is_ipv6 {
            let checksum = checksum(packet);
            packet[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
    }

    /// Returns the sequence number of the request that this answers; `None` for any other packet.
    fn answered(&self, bytes: &[u8]) -> Option<u64> {
        let header_bytes = match (self.is_raw, self.is_ipv6) {
            // Raw IPv4 sockets deliver the IP header, which states its length in 32-bit words.
            (true, false) => usize::from(bytes.first()? & 0x0f) * 4,
            _ => 0,
        };
        let message = bytes.get(header_bytes..)?;
        let kind = if self.is_ipv6 { 129 } else { 0 };
        if *message.first()? != kind || *message.get(HEADER_BYTES..HEADER_BYTES + 8)? != self.number
        {
            return None;
        }
        let sequence = message.get(HEADER_BYTES + 8..HEADER_BYTES + 16)?;
        Some(u64::from_be_bytes(sequence.try_into().ok()?))
    }
}

struct Sender<'a> {
    wire: Wire,
    socket: &'a Socket,
    packet: Vec<u8>,
}

impl Emitter for Sender<'_> {
    fn prepare(&mut self, sequence: u64, _sent_ns: i64) {
        self.wire.number(&mut self.packet, sequence);
    }

    fn emit(&mut self) -> io::Result<()> {
        socket::send(self.socket, &Envelope::connected(), &self.packet)
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u64 = bytes
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::flow::{Direction, Kind};
    use crate::sample::Fate;

    fn wire(is_ipv6: bool, is_raw: bool) -> Wire {
        Wire {
            is_ipv6,
            is_raw,
            number: [1, 2, 3, 4, 5, 6, 7, 8],
        }
    }

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // The example in section 3 of the RFC sums to 0xddf2.
        assert_eq!(
            checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
        let wire = wire(false, true);
        let mut packet = wire.request(57);
        wire.number(&mut packet, 77);
        assert_eq!(checksum(&packet), 0);
    }

    #[test]
    fn an_answer_is_known_by_its_number_with_or_without_an_ip_header() {
        for (is_ipv6, is_raw) in [(false, false), (false, true), (true, false), (true, true)] {
            let wire = wire(is_ipv6, is_raw);
            let mut packet = wire.request(56);
            wire.number(&mut packet, 1 << 40);
            packet[0] = if is_ipv6 { 129 } else { 0 };
            if is_raw && !is_ipv6 {
                let mut ip = vec![0; 24];
                ip[0] = 0x46;
                packet = [ip, packet].concat();
            }
            assert_eq!(wire.answered(&packet), Some(1 << 40));
            for length in 0..packet.len() - 40 {
                assert_eq!(wire.answered(&packet[..length]), None);
            }
            let end = packet.len();
            packet[end - 56] ^= 1;
            assert_eq!(wire.answered(&packet), None);
        }
    }

    proptest! {
        #[test]
        fn garbage_is_no_answer(bytes in proptest::collection::vec(any::<u8>(), 0..100), flags in any::<(bool, bool)>()) {
            prop_assert_eq!(wire(flags.0, flags.1).answered(&bytes), None);
        }
    }

    #[test]
    fn this_host_answers_its_own_echo_requests_or_says_what_to_permit() {
        for address in ["127.0.0.1", "::1"] {
            let spec = FlowSpec {
                interval_s: 0.005,
                duration_s: Some(0.0975),
                dscp: 8,
                ..FlowSpec::new(4, Kind::Icmp, Direction::Both)
            };
            let (stop, sink) = (Stop::default(), Sink::default());
            let ending = run(
                &spec,
                SocketAddr::new(address.parse().unwrap(), 0),
                &LocalEnd::default(),
                clock::now_ns() + 300_000_000,
                &stop,
                &sink,
            );
            let samples = sink.take();
            if let Ending::Failed(words) = &ending {
                assert!(words.contains("ping_group_range"), "{words}");
                continue;
            }
            assert_eq!(ending, Ending::Complete);
            assert_eq!(samples.probes.len(), 20);
            for probe in &samples.probes {
                assert_eq!(
                    (probe.fate, probe.payload_bytes, probe.far_received_ns),
                    (Fate::Ok, 56, None)
                );
                assert!(probe.rtt_ns.unwrap() > 0);
            }
            assert!(samples.exchanges.is_empty());
        }
    }

    #[test]
    fn an_address_of_one_link_alone_keeps_its_zone() {
        let remote: SocketAddr = SocketAddrV6::new("fe80::1".parse().unwrap(), 7, 0, 1).into();
        let SocketAddr::V6(kept) = unmapped(remote) else {
            panic!("an IPv6 address was expected")
        };
        assert_eq!((kept.scope_id(), kept.port()), (1, 0));
        // Interface 1 is loopback on every host.
        assert_eq!(with_zone(remote), "fe80::1%lo");
        let mapped = "[::ffff:192.0.2.1]:7".parse().unwrap();
        assert_eq!(with_zone(mapped), "192.0.2.1");
        assert_eq!(unmapped(mapped), "192.0.2.1:0".parse().unwrap());
    }

    #[test]
    fn an_address_that_does_not_answer_fails_and_keeps_its_rows() {
        let spec = FlowSpec {
            interval_s: 0.01,
            duration_s: Some(0.025),
            timeout_s: Some(0.1),
            ..FlowSpec::new(4, Kind::Icmp, Direction::Both)
        };
        let (stop, sink) = (Stop::default(), Sink::default());
        // The reserved block 240.0.0.0/4 (RFC 1112): no host has this address.
        let ending = run(
            &spec,
            "240.0.0.1:0".parse().unwrap(),
            &LocalEnd::default(),
            clock::now_ns() + 300_000_000,
            &stop,
            &sink,
        );
        assert!(matches!(ending, Ending::Failed(_)), "{ending:?}");
        let fates: Vec<Fate> = sink.take().probes.iter().map(|probe| probe.fate).collect();
        assert!(
            fates
                .iter()
                .all(|fate| matches!(fate, Fate::Lost | Fate::NotSent)),
            "{fates:?}"
        );
    }
}
