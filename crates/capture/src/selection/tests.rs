use std::net::IpAddr;

use super::*;
use crate::packet::{TcpFlags, TcpOptions, TcpSegment};

fn network(source: &str, destination: &str) -> Network {
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    Network {
        source: address(source),
        destination: address(destination),
        ip_bytes: 40,
        identification: None,
        ttl: 64,
        dscp: 0,
        ecn: 0,
        tunnel_depth: 0,
    }
}

fn tcp(source_port: u16, destination_port: u16) -> Transport<'static> {
    Transport::Tcp(TcpSegment {
        source_port,
        destination_port,
        sequence: 0,
        acknowledgment: 0,
        flags: TcpFlags::default(),
        window: 0,
        payload_bytes: 0,
        payload: &[],
        options: TcpOptions::default(),
    })
}

fn matches(filter: &str) -> bool {
    let filter = Filter::parse(filter).expect("a filter");
    filter.matches(&network("10.1.2.3", "192.0.2.7"), &tcp(50_000, 443))
}

#[test]
fn a_filter_holds_for_either_direction_of_a_connection() {
    for holds in [
        "tcp",
        "ip",
        "tcp.port == 443 and ip.addr == 10.0.0.0/8",
        "tcp.srcport == 443",
        "ip.src == 192.0.2.7 && tcp.dstport == 50000",
        "tcp.port in {80, 440..450}",
        "udp or (ip.dst eq 10.1.2.3)",
        "not udp",
        "!(tcp.port == 80)",
        "tcp.port != 80",
        "ip.addr == 0.0.0.0/0",
        "udp or tcp and ip",
    ] {
        assert!(matches(holds), "{holds}");
    }
    for fails in [
        "udp",
        "ipv6",
        "tcp.port == 80",
        "tcp.port != 443",
        "ip.src == 10.1.2.3 and tcp.srcport == 443",
        "ip.addr == 10.1.2.4/31 or tcp.port in {80}",
        "udp.port != 1",
        "ipv6.addr == ::/0",
        "not tcp",
    ] {
        assert!(!matches(fails), "{fails}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (filter, message) in [
        ("", "at character 1: expected a field"),
        (
            "tcp.port = 443",
            "at character 10: expected '==', '!=' or 'in'",
        ),
        ("tcp.port == https", "at character 13: expected a port"),
        ("tcp.port == 70000", "at character 13: expected a port"),
        (
            "ip.addr == ::1",
            "at character 12: expected an IPv4 address",
        ),
        (
            "ip.addr == 10.0.0.0/33",
            "at character 12: expected an IPv4",
        ),
        (
            "tcp.port == 443 tcp",
            "at character 17: expected 'and', 'or'",
        ),
        ("(tcp", "at character 5: expected ')'"),
        ("tcp.port in 443", "at character 13: expected '{'"),
        ("frame.len > 100", "at character 1: expected a field"),
    ] {
        let error = Filter::parse(filter).expect_err(filter).to_string();
        assert!(error.starts_with(message), "{filter}: {error}");
    }
    let deep = "(".repeat(100_000);
    assert!(Filter::parse(&deep).is_err());
}

#[test]
fn times_count_from_the_first_packet_or_from_the_epoch() {
    let selection = Selection {
        filter: None,
        from: Some(Moment::SinceStart(10)),
        to: Some(Moment::At(130)),
    };
    let holds = |time_ns| selection.holds(100, time_ns, None, &Transport::NotIp(0));
    assert_eq!([109, 110, 130, 131].map(holds), [false, true, true, false]);
}
