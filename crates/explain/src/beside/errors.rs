//! ICMP errors about datagrams, echo requests, and connections of which the capture holds nothing else.
//!
//! Each error names the packet that it is about and comes from the router, filter or host that did not pass
//! that packet on. Not a failure are errors that a program provoked (one that looks for the routers on the
//! path, or for its MTU), errors about a port that had answered before and was closed since, and errors sent
//! to a client that no longer waits.

use std::collections::BTreeMap;
use std::net::IpAddr;

use whydrop_capture::IcmpErrorKind;
use whydrop_datagrams::{Datagrams, Report, is_probe_of_the_way};
use whydrop_tcp::Endpoint;
use whydrop_verdict::{Cause, Fact, Quantity, fact};

use super::{MOST_NAMED, MOST_PACKETS, Seen, address, endpoint, gathered, seconds};
use crate::conditions::Condition;

/// Services that ask all hosts, many of which have the port closed: NetBIOS names, SSDP, WS-Discovery, mDNS,
/// LLMNR.
const ASKED_OF_ALL: [u16; 6] = [137, 138, 1900, 3702, 5353, 5355];
/// Ports of system services end here (RFC 6335, section 6) ...
const FIRST_USER_PORT: u16 = 1_024;
/// ... and ephemeral ports of clients begin here.
const FIRST_EPHEMERAL_PORT: u16 = 32_768;

/// Kinds of failure that errors report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Failure {
    Rejected,
    Unreachable,
    Looped,
    TooLarge,
    NotReassembled,
}

impl Failure {
    fn of(kind: IcmpErrorKind) -> Option<Self> {
        Some(match kind {
            IcmpErrorKind::PortUnreachable | IcmpErrorKind::Prohibited => Self::Rejected,
            IcmpErrorKind::NetworkUnreachable | IcmpErrorKind::HostUnreachable => Self::Unreachable,
            IcmpErrorKind::TimeExceeded => Self::Looped,
            IcmpErrorKind::TooBig => Self::TooLarge,
            IcmpErrorKind::NotReassembled => Self::NotReassembled,
            IcmpErrorKind::ParameterProblem
            | IcmpErrorKind::SourceQuench
            | IcmpErrorKind::Redirect => return None,
        })
    }

    fn cause(self) -> Cause {
        match self {
            Self::Rejected => Cause::Refused,
            Self::Unreachable | Self::Looped => Cause::NoAnswer,
            Self::TooLarge => Cause::Mtu,
            Self::NotReassembled => Cause::Unknown,
        }
    }

    fn detail(self) -> &'static str {
        match self {
            Self::Rejected => "icmp",
            Self::Unreachable => "unreachable",
            Self::Looped => "loop",
            Self::TooLarge => "datagrams",
            Self::NotReassembled => "fragments",
        }
    }
}

/// Errors about one endpoint, from one router.
struct Errors<'a> {
    report: &'a Report,
    messages: u64,
    packets: Vec<u64>,
    lasted_s: f64,
    names: Vec<String>,
}

/// Find the failures that they report.
pub(super) fn find(datagrams: &Datagrams, seen: &Seen) -> Vec<Condition> {
    let mut by_failure: BTreeMap<Failure, Vec<Errors>> = BTreeMap::new();
    for report in &datagrams.reports {
        let Some(failure) =
            Failure::of(report.kind).filter(|_| is_failure(report, datagrams, seen))
        else {
            continue;
        };
        let of_failure = by_failure.entry(failure).or_default();
        let known = of_failure.iter_mut().find(|known| {
            let known = known.report;
            (known.router, known.destination, known.destination_port)
                == (report.router, report.destination, report.destination_port)
        });
        let errors = Errors::of(report, seen);
        match known {
            Some(known) => known.take_in(errors),
            None => of_failure.push(errors),
        }
    }
    let mut found = Vec::new();
    for (failure, errors) in by_failure {
        let together = gathered(errors, |errors| errors.messages, Errors::take_in);
        found.extend(
            together
                .into_iter()
                .map(|(errors, others)| condition(failure, errors, others)),
        );
    }
    found
}

/// True if an error reports a failure.
fn is_failure(report: &Report, datagrams: &Datagrams, seen: &Seen) -> bool {
    let source = |port| Endpoint {
        address: report.source,
        port,
    };
    let destination = |port| Endpoint {
        address: report.destination,
        port,
    };
    if report.kind == IcmpErrorKind::TooBig {
        return !report.is_tcp();
    }
    let is_followed = report.is_tcp()
        && report.destination_port.is_some_and(|port| {
            seen.connections
                .contains(&(source(report.source_port), destination(port)))
        });
    let is_alive = report.destination_port.is_some_and(|port| {
        report.is_udp() && seen.answers((report.destination, port), report.source)
    });
    !is_followed && !is_alive && !is_noise(report) && !is_asked_for(report, datagrams)
}

/// True for services that ask all hosts, and for clients that no longer wait.
fn is_noise(report: &Report) -> bool {
    let asks_all = report
        .destination_port
        .is_some_and(|port| ASKED_OF_ALL.contains(&port));
    let is_answer = report.is_udp()
        && report.source_port < FIRST_USER_PORT
        && report
            .destination_port
            .is_some_and(|port| port >= FIRST_EPHEMERAL_PORT)
        && report.kind == IcmpErrorKind::PortUnreachable;
    asks_all || is_answer
}

/// True if the packet was sent to find the routers on the path: its own hop limit shows it, or that of other
/// packets to the same host.
fn is_asked_for(report: &Report, datagrams: &Datagrams) -> bool {
    let is_probe = |other: &Report| {
        other.kind == IcmpErrorKind::TimeExceeded
            && (other.source, other.destination) == (report.source, report.destination)
            && is_probe_of_the_way(other.ttl)
    };
    match report.kind {
        // if the packet itself was not captured, a loop looks like a probe
        IcmpErrorKind::TimeExceeded => report.ttl.is_none_or(|ttl| is_probe_of_the_way(Some(ttl))),
        _ => datagrams.reports.iter().any(is_probe),
    }
}

impl<'a> Errors<'a> {
    fn of(report: &'a Report, seen: &Seen) -> Self {
        let sent = report
            .destination_port
            .filter(|_| report.is_udp())
            .and_then(|port| seen.sent.get(&(report.source, report.destination, port)));
        let (first_ns, last_ns) = sent.map_or((report.first_ns, report.last_ns), |sent| {
            (sent.first_ns, sent.last_ns)
        });
        Self {
            report,
            messages: report.messages,
            packets: report.packets.clone(),
            lasted_s: seconds(last_ns.saturating_sub(first_ns)),
            names: sent.map_or_else(Vec::new, |sent| sent.names.clone()),
        }
    }

    fn take_in(&mut self, other: Self) {
        self.messages += other.messages;
        self.packets.extend(other.packets);
        self.lasted_s += other.lasted_s;
        self.names.extend(other.names);
        self.packets.truncate(MOST_PACKETS);
        self.names.truncate(MOST_NAMED);
    }
}

fn condition(failure: Failure, errors: Errors, others: u64) -> Condition {
    let report = errors.report;
    let mut condition = Condition::new(failure.cause(), errors.names.clone());
    condition.detail = Some(failure.detail());
    // after a report that a packet is too large the sender sends smaller ones
    condition.limited_s = match failure {
        Failure::TooLarge => 0.0,
        _ => errors.lasted_s,
    };
    if failure == Failure::TooLarge {
        let mtu_bytes = report
            .mtu_bytes
            .unwrap_or(report.ip_bytes.saturating_sub(1));
        let mtu = Quantity {
            value: f64::from(mtu_bytes),
            low: report.mtu_bytes.map(f64::from),
            high: Some(f64::from(mtu_bytes)),
        };
        condition.quantities.insert("mtu_bytes".to_owned(), mtu);
        condition.facts = too_large(&errors);
        return condition;
    }
    condition.facts = vec![headline(failure, errors, others)];
    condition
}

fn headline(failure: Failure, errors: Errors, others: u64) -> Fact {
    let report = errors.report;
    let code = match failure {
        Failure::Rejected => "datagrams-rejected",
        Failure::Unreachable => "datagrams-unreachable",
        Failure::Looped => "datagrams-looped",
        Failure::NotReassembled | Failure::TooLarge => "datagrams-not-reassembled",
    };
    let what = match () {
        () if report.is_tcp() => "TCP segment",
        () if report.is_udp() => "datagram",
        () if report.is_icmp() => "ICMP packet",
        () => "packet",
    };
    let responder = endpoint(report.destination, report.destination_port);
    let about = Fact {
        packets: errors.packets,
        ..fact!(
            code,
            messages = errors.messages,
            error = report.kind.name(),
            what = what,
            router_is_responder = report.router == report.destination,
            router_is_sender = report.router == report.source,
            lasted_s = errors.lasted_s,
            other_responders = others
        )
    };
    about
        .with("responder", responder)
        .with("router", address(report.router))
        .with("sender", address(report.source))
}

fn too_large(errors: &Errors) -> Vec<Fact> {
    let report = errors.report;
    let router: IpAddr = report.router;
    vec![
        fact!("too-large-reported", flows = 1_u64).with("router", address(router)),
        Fact {
            packets: errors.packets.clone(),
            ..fact!(
                "too-big-messages",
                messages = errors.messages,
                packet_bytes = u64::from(report.ip_bytes),
                mtu_bytes = report.mtu_bytes.map(u64::from)
            )
            .with("router", address(router))
        },
    ]
}
