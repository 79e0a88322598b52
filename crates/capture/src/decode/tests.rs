//! Link layers, IP headers and transport headers, from bytes built by hand.

use std::net::IpAddr;

use proptest::prelude::*;

use crate::testing::*;
use crate::{LinkType, TcpFlags, Transport, decode_frame};

const ETHERNET: LinkType = LinkType::ETHERNET;

#[test]
fn a_plain_segment_is_decoded_field_by_field() {
    let header = Ipv4 {
        type_of_service: 0xb9,
        identification: 0x1234,
        ttl: 57,
        ..Ipv4::default()
    };
    let segment = Tcp {
        flags: 0x1ff,
        window: 0xfedc,
        ..Tcp::default()
    };
    let frame = ethernet(0x0800, &header.bytes(&segment.bytes()));
    let packet = decoded(ETHERNET, &frame);
    let network = packet.network.unwrap();
    assert_eq!(network.source, "10.0.0.1".parse::<IpAddr>().unwrap());
    assert_eq!(network.destination, "10.0.0.2".parse::<IpAddr>().unwrap());
    assert_eq!(
        (network.ip_bytes, network.identification, network.ttl),
        (57, Some(0x1234), 57)
    );
    // 0xb9 is DSCP 46 (expedited forwarding) and ECT(1).
    assert_eq!(
        (network.dscp, network.ecn, network.tunnel_depth),
        (46, 1, 0)
    );
    let tcp = tcp_of(&packet);
    assert_eq!((tcp.source_port, tcp.destination_port), (40_000, 443));
    assert_eq!(
        (tcp.sequence, tcp.acknowledgment),
        (0x0102_0304, 0x0506_0708)
    );
    assert_eq!((tcp.flags, tcp.window), (TcpFlags(0x1ff), 0xfedc));
    assert_eq!((tcp.payload_bytes, tcp.payload), (5, &b"hello"[..]));
    assert_eq!(tcp.options.timestamps, Some((1000, 2000)));
}

#[test]
fn tags_of_any_standing_are_stepped_over() {
    let tag = |inner: u16| join(&[&[0x20, 0x64], &inner.to_be_bytes()]);
    let tagged =
        |outer: u16, tags: &[Vec<u8>]| ethernet(outer, &join(&[&tags.concat(), &packet()]));
    assert_holds_packet(ETHERNET, &tagged(0x8100, &[tag(0x0800)]));
    for outer in [0x8100, 0x88a8, 0x9100, 0x9200] {
        assert_holds_packet(ETHERNET, &tagged(outer, &[tag(0x8100), tag(0x0800)]));
    }
    assert_holds_packet(
        ETHERNET,
        &tagged(0x88a8, &[tag(0x88a8), tag(0x8100), tag(0x0800)]),
    );
    // A frame that ends with a tag.
    assert_eq!(
        decoded(ETHERNET, &ethernet(0x8100, &[0, 1])).transport,
        Transport::Undecodable
    );
}

#[test]
fn an_ieee_802_3_frame_is_ip_only_with_a_snap_header() {
    let snap = join(&[&[0xaa, 0xaa, 0x03, 0, 0, 0, 0x08, 0x00], &packet()]);
    assert_holds_packet(ETHERNET, &ethernet(snap.len() as u16, &snap));
    let spanning_tree = [0x42, 0x42, 0x03, 0, 0, 0, 0, 0];
    assert_eq!(
        decoded(ETHERNET, &ethernet(8, &spanning_tree)).transport,
        Transport::NotIp(0)
    );
}

#[test]
fn an_mpls_stack_leads_to_ip_or_to_a_pseudowire() {
    let (more, last) = ([0, 1, 0x00, 64], [0, 2, 0x01, 64]);
    for ethertype in [0x8847, 0x8848] {
        assert_holds_packet(ETHERNET, &ethernet(ethertype, &join(&[&last, &packet()])));
        assert_holds_packet(
            ETHERNET,
            &ethernet(ethertype, &join(&[&more, &more, &last, &packet()])),
        );
    }
    let control_word = [0; 4];
    assert_holds_packet(
        ETHERNET,
        &ethernet(0x8847, &join(&[&last, &control_word, &frame()])),
    );
    assert_eq!(
        decoded(ETHERNET, &ethernet(0x8847, &more)).transport,
        Transport::Undecodable
    );
    let unknown = join(&[&last, &[0x90, 0]]);
    assert_eq!(
        decoded(ETHERNET, &ethernet(0x8847, &unknown)).transport,
        Transport::NotIp(0)
    );
}

#[test]
fn a_pseudowire_without_a_control_word_is_distinguished_from_ip_for_any_address() {
    let label = [0, 0, 0x11, 0x40];
    for first in [0x00, 0x02, 0x40, 0x64, 0xfc] {
        let mut inner = frame();
        inner[0] = first;
        assert_holds_packet(ETHERNET, &ethernet(0x8847, &join(&[&label, &inner])));
        assert_holds_packet(
            ETHERNET,
            &ethernet(0x8847, &join(&[&label, &[0; 4], &inner])),
        );
    }
}

#[test]
fn tags_of_switches_and_rings_are_stepped_over() {
    let ip = 0x0800u16.to_be_bytes();
    // IEEE 802.1ah, FabricPath: a frame within the frame
    assert_holds_packet(ETHERNET, &ethernet(0x88e7, &join(&[&[0; 4], &frame()])));
    assert_holds_packet(ETHERNET, &ethernet(0x8903, &join(&[&[0; 2], &frame()])));
    // VN-tag, HSR, E-tag, Cisco's metadata
    assert_holds_packet(
        ETHERNET,
        &ethernet(0x8926, &join(&[&[0; 4], &ip, &packet()])),
    );
    assert_holds_packet(
        ETHERNET,
        &ethernet(0x892f, &join(&[&[0; 4], &ip, &packet()])),
    );
    assert_holds_packet(
        ETHERNET,
        &ethernet(0x893f, &join(&[&[0; 6], &ip, &packet()])),
    );
    assert_holds_packet(
        ETHERNET,
        &ethernet(0x8909, &join(&[&[0; 6], &ip, &packet()])),
    );
    // MACsec that protects without encrypting, with a channel and without
    assert_holds_packet(
        ETHERNET,
        &ethernet(0x88e5, &join(&[&[0; 6], &ip, &packet()])),
    );
    let with_channel = join(&[&[0x20, 0, 0, 0, 0, 1], &[0; 8], &ip, &packet()]);
    assert_holds_packet(ETHERNET, &ethernet(0x88e5, &with_channel));
    let encrypted = join(&[&[0x0c, 0, 0, 0, 0, 1], &packet()]);
    assert_eq!(
        decoded(ETHERNET, &ethernet(0x88e5, &encrypted)).transport,
        Transport::NotIp(0x88e5)
    );
}

#[test]
fn a_service_header_names_what_follows_it() {
    let header = |words: u8, next: u8| [0x0f, 0xc0 | words, 1, next, 0, 0, 1, 255];
    let context = [0; 16];
    let frames = [(1, packet()), (3, frame())];
    for (next, body) in &frames {
        let service = join(&[&header(6, *next), &context, body]);
        assert_holds_packet(ETHERNET, &ethernet(0x894f, &service));
    }
    let lying = join(&[&header(0, 4), &packet()]);
    assert_eq!(
        decoded(ETHERNET, &ethernet(0x894f, &lying)).transport,
        Transport::NotIp(0x894f)
    );
}

#[test]
fn packets_are_found_behind_the_headers_of_many_capturing_hosts() {
    let snap = [0xaa, 0xaa, 0x03, 0, 0, 0, 8, 0];
    let attribute = |kind: u8, body: &[u8]| join(&[&[(body.len() + 4) as u8, 0, kind, 0], body]);
    let logged = join(&[
        &[2, 0, 0, 0],
        &attribute(1, &[8, 0, 0, 0]),
        &attribute(10, b"drop\0\0\0\0"),
        &attribute(9, &packet()),
    ]);
    assert_holds_packet(LinkType::NETFILTER_LOG, &logged);
    let mut pflog = vec![0; 64];
    pflog[0] = 61;
    assert_holds_packet(LinkType::OPENBSD_FILTER, &join(&[&pflog, &packet()]));
    assert_holds_packet(LinkType::ATM_LLC, &join(&[&snap, &packet()]));
    assert_holds_packet(LinkType::FDDI, &join(&[&[0; 13], &snap, &packet()]));
    assert_holds_packet(LinkType::TOKEN_RING, &join(&[&[0; 14], &snap, &packet()]));
    let mut pktap = vec![0; 156];
    (pktap[0], pktap[4], pktap[8]) = (156, 1, 1);
    assert_holds_packet(LinkType::APPLE_PKTAP, &join(&[&pktap, &frame()]));
    let mut endace = vec![0; 18];
    endace[8] = 2;
    assert_holds_packet(LinkType::ENDACE, &join(&[&endace, &frame()]));
}

#[test]
fn pppoe_sessions_carry_ip_and_other_things() {
    let session = |protocol: [u8; 2], body: &[u8]| {
        ethernet(
            0x8864,
            &join(&[&[0x11, 0, 0, 1, 0, (body.len() + 2) as u8], &protocol, body]),
        )
    };
    assert_holds_packet(ETHERNET, &session([0x00, 0x21], &packet()));
    let packet_6 = ipv6(6, &Tcp::default().bytes());
    assert_eq!(
        tcp_of(&decoded(ETHERNET, &session([0x00, 0x57], &packet_6))).payload,
        b"hello"
    );
    let echo_request = session([0xc0, 0x21], &[9, 0, 0, 8, 0, 0, 0, 0]);
    assert_eq!(
        decoded(ETHERNET, &echo_request).transport,
        Transport::NotIp(0)
    );
}

#[test]
fn ppp_may_be_framed_and_compressed() {
    for head in [
        &[0xff, 0x03, 0x00, 0x21][..],
        &[0x00, 0x21],
        &[0xff, 0x03, 0x21],
        &[0x21],
    ] {
        assert_holds_packet(LinkType::PPP, &join(&[head, &packet()]));
        assert_holds_packet(LinkType::PPP_HDLC, &join(&[head, &packet()]));
        assert_holds_packet(
            LinkType::PPP_WITH_DIRECTION,
            &join(&[&[1], head, &packet()]),
        );
    }
    assert_holds_packet(
        LinkType::CISCO_HDLC,
        &join(&[&[0x0f, 0, 0x08, 0x00], &packet()]),
    );
}

#[test]
fn cooked_captures_name_the_protocol() {
    let mut cooked = vec![0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x08, 0x00];
    cooked.extend(packet());
    assert_holds_packet(LinkType::LINUX_COOKED, &cooked);
    let mut cooked_2 = vec![
        0x08, 0x00, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 2, 0, 0, 0, 0, 1, 0, 0,
    ];
    cooked_2.extend(packet());
    assert_holds_packet(LinkType::LINUX_COOKED_2, &cooked_2);
    let mut tagged = vec![
        0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x81, 0x00, 0, 5, 0x08, 0x00,
    ];
    tagged.extend(packet());
    assert_holds_packet(LinkType::LINUX_COOKED, &tagged);
    cooked[14..16].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(
        decoded(LinkType::LINUX_COOKED, &cooked).transport,
        Transport::NotIp(0x0806)
    );
}

#[test]
fn raw_ip_is_of_the_version_that_it_says() {
    for link in [101, 12, 14, 228, 229].map(LinkType) {
        assert_holds_packet(link, &packet());
        let packet = ipv6(6, &Tcp::default().bytes());
        assert!(decoded(link, &packet).network.unwrap().source.is_ipv6());
    }
    assert_eq!(
        decoded(LinkType::RAW, &[0x50; 60]).transport,
        Transport::Undecodable
    );
}

#[test]
fn loopback_families_are_read_in_both_byte_orders() {
    for link in [LinkType::NULL, LinkType::LOOP] {
        assert_holds_packet(link, &join(&[&[2, 0, 0, 0], &packet()]));
        assert_holds_packet(link, &join(&[&[0, 0, 0, 2], &packet()]));
        for family in [24, 28, 30, 10] {
            let bytes = join(&[&[family, 0, 0, 0], &ipv6(6, &Tcp::default().bytes())]);
            assert_eq!(tcp_of(&decoded(link, &bytes)).payload, b"hello");
        }
        assert_eq!(
            decoded(link, &[7, 0, 0, 0, 1, 2]).transport,
            Transport::NotIp(0)
        );
    }
}

#[test]
fn a_link_type_that_is_not_known_is_undecodable() {
    assert_eq!(
        decoded(LinkType(147), &frame()).transport,
        Transport::Undecodable
    );
    assert_eq!(LinkType(147).to_string(), "link type 147 (not decoded)");
}

#[test]
fn padding_of_a_short_frame_is_not_payload() {
    let bare = Tcp {
        options: Vec::new(),
        payload: Vec::new(),
        ..Tcp::default()
    };
    let mut frame = ethernet(0x0800, &ipv4(6, &bare.bytes()));
    frame.resize(60, 0);
    let packet = decoded(ETHERNET, &frame);
    assert_eq!(
        (tcp_of(&packet).payload_bytes, tcp_of(&packet).payload.len()),
        (0, 0)
    );
    let mut datagram = ethernet(0x0800, &ipv4(17, &udp(53, b"x")));
    datagram.resize(60, 0);
    let Transport::Udp {
        payload_bytes,
        payload,
        ..
    } = decoded(ETHERNET, &datagram).transport
    else {
        panic!("UDP expected");
    };
    assert_eq!((payload_bytes, payload), (1, &b"x"[..]));
}

#[test]
fn payload_is_counted_by_the_ip_length_and_given_as_captured() {
    let segment = Tcp {
        payload: vec![7; 1000],
        ..Tcp::default()
    };
    let frame = ethernet(0x0800, &ipv4(6, &segment.bytes()));
    for captured in 54..frame.len() {
        let packet = decode_frame(ETHERNET, &frame[..captured], frame.len() as u32, 1);
        let tcp = tcp_of(&packet);
        assert_eq!(tcp.payload_bytes, 1000, "{captured} bytes captured");
        assert_eq!(tcp.payload.len(), captured.saturating_sub(66));
        assert_eq!(tcp.options.truncated, captured < 66);
        assert_eq!(tcp.options.timestamps.is_some(), captured >= 66);
    }
    for captured in 0..54 {
        let packet = decode_frame(ETHERNET, &frame[..captured], frame.len() as u32, 1);
        assert_eq!(
            packet.transport,
            Transport::Undecodable,
            "{captured} bytes captured"
        );
        assert_eq!(packet.network.is_some(), captured >= 34);
    }
}

#[test]
fn a_super_segment_without_a_length_has_that_of_its_frame() {
    let segment = Tcp {
        payload: vec![0; 100_000],
        ..Tcp::default()
    };
    let header = Ipv4 {
        total_bytes: Some(0),
        ..Ipv4::default()
    };
    let frame = ethernet(0x0800, &header.bytes(&segment.bytes()));
    let packet = decode_frame(ETHERNET, &frame[..96], frame.len() as u32, 1);
    assert_eq!(tcp_of(&packet).payload_bytes, 100_000);
    assert_eq!(packet.network.unwrap().ip_bytes, 100_052);
}

#[test]
fn an_ip_header_that_contradicts_itself_is_undecodable() {
    let body = Tcp::default().bytes();
    let too_short = Ipv4 {
        total_bytes: Some(19),
        ..Ipv4::default()
    }
    .bytes(&body);
    assert_eq!(
        decoded(LinkType::RAW, &too_short).transport,
        Transport::Undecodable
    );
    let no_room_for_tcp = Ipv4 {
        total_bytes: Some(45),
        ..Ipv4::default()
    }
    .bytes(&body);
    assert_eq!(
        decoded(LinkType::RAW, &no_room_for_tcp).transport,
        Transport::Undecodable
    );
    let mut short_header = ipv4(6, &body);
    short_header[0] = 0x44;
    assert_eq!(
        decoded(LinkType::RAW, &short_header).transport,
        Transport::Undecodable
    );
    let mut short_tcp = ipv4(6, &body);
    short_tcp[32] = 0x40;
    assert_eq!(
        decoded(LinkType::RAW, &short_tcp).transport,
        Transport::Undecodable
    );
}

#[test]
fn ipv4_options_move_the_transport_header() {
    let header = Ipv4 {
        options: vec![0x94, 4, 0, 0, 1, 1, 1, 0],
        ..Ipv4::default()
    };
    let bytes = header.bytes(&Tcp::default().bytes());
    let packet = decoded(LinkType::RAW, &bytes);
    assert_eq!(
        (tcp_of(&packet).payload_bytes, tcp_of(&packet).payload),
        (5, &b"hello"[..])
    );
}

#[test]
fn the_first_fragment_is_decoded_and_the_others_are_fragments() {
    let body = Tcp::default().bytes();
    let first = Ipv4 {
        flags_and_offset: 0x2000,
        ..Ipv4::default()
    }
    .bytes(&body);
    assert_eq!(tcp_of(&decoded(LinkType::RAW, &first)).payload, b"hello");
    let later = Ipv4 {
        flags_and_offset: 0x0001,
        ..Ipv4::default()
    }
    .bytes(&body);
    assert_eq!(
        decoded(LinkType::RAW, &later).transport,
        Transport::Fragment
    );

    let fragment_header =
        |place: u16| join(&[&[6, 0], &place.to_be_bytes(), &[0xde, 0xad, 0xbe, 0xef]]);
    let first = ipv6(44, &join(&[&fragment_header(1), &body]));
    let packet = decoded(LinkType::RAW, &first);
    assert_eq!(tcp_of(&packet).payload, b"hello");
    assert_eq!(packet.network.unwrap().identification, Some(0xbeef));
    let later = ipv6(44, &join(&[&fragment_header(8), &body]));
    assert_eq!(
        decoded(LinkType::RAW, &later).transport,
        Transport::Fragment
    );
}

#[test]
fn ipv6_fields_are_where_rfc_8200_puts_them() {
    let bytes = ipv6(6, &Tcp::default().bytes());
    let network = decoded(LinkType::RAW, &bytes).network.unwrap();
    assert_eq!(network.source, "fd00::1".parse::<IpAddr>().unwrap());
    assert_eq!(network.destination, "fd00::2".parse::<IpAddr>().unwrap());
    // Traffic class 0x2a: DSCP 10, ECT(0).
    assert_eq!((network.dscp, network.ecn, network.ttl), (10, 2, 60));
    assert_eq!((network.ip_bytes, network.identification), (77, None));
}

#[test]
fn ipv6_extension_headers_are_stepped_over() {
    let body = Tcp::default().bytes();
    let options = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let routing = |next: u8| join(&[&[next, 2, 4, 0], &[0; 20]]);
    let authentication = |next: u8| join(&[&[next, 4], &[0; 22]]);
    let chain = join(&[
        &options(43),
        &routing(60),
        &options(51),
        &authentication(6),
        &body,
    ]);
    let bytes = ipv6(0, &chain);
    let packet = decoded(LinkType::RAW, &bytes);
    assert_eq!(
        (tcp_of(&packet).payload_bytes, tcp_of(&packet).payload),
        (5, &b"hello"[..])
    );
    let with_authentication = ipv4(51, &join(&[&authentication(6), &body]));
    assert_eq!(
        tcp_of(&decoded(LinkType::RAW, &with_authentication)).payload,
        b"hello"
    );
    // The packet ends before the header that it announces.
    assert_eq!(
        decoded(LinkType::RAW, &ipv6(0, &[6, 9, 0, 0])).transport,
        Transport::Undecodable
    );
    // No next header.
    assert_eq!(
        decoded(LinkType::RAW, &ipv6(59, &[])).transport,
        Transport::OtherProtocol(59)
    );
}

#[test]
fn a_jumbogram_has_the_length_of_its_option() {
    let segment = Tcp {
        payload: vec![0; 80_000],
        ..Tcp::default()
    }
    .bytes();
    let length = (segment.len() as u32 + 8).to_be_bytes();
    let mut bytes = ipv6(0, &join(&[&[6, 0, 0xc2, 4], &length, &segment]));
    bytes[4..6].copy_from_slice(&[0, 0]);
    let packet = decode_frame(LinkType::RAW, &bytes[..128], bytes.len() as u32, 1);
    assert_eq!(tcp_of(&packet).payload_bytes, 80_000);
}

#[test]
fn icmp_gives_what_follows_the_checksum() {
    let fragmentation_needed = ipv4(
        1,
        &join(&[&[3, 4, 0xaa, 0xbb, 0, 0, 0x05, 0x78], &packet()]),
    );
    let Transport::Icmp {
        kind,
        code,
        payload,
    } = decoded(LinkType::RAW, &fragmentation_needed).transport
    else {
        panic!("ICMP expected");
    };
    assert_eq!((kind, code, &payload[..4]), (3, 4, &[0, 0, 0x05, 0x78][..]));
    let too_big = ipv6(58, &[2, 0, 0, 0, 0, 0, 5, 0]);
    let Transport::Icmp {
        kind: 2,
        code: 0,
        payload,
    } = decoded(LinkType::RAW, &too_big).transport
    else {
        panic!("ICMPv6 expected");
    };
    assert_eq!(payload, [0, 0, 5, 0]);
}

#[test]
fn bytes_marked_by_congestion_are_read_from_the_accurate_ecn_option() {
    let ce_bytes = |options: &[u8]| {
        let segment = Tcp {
            options: options.to_vec(),
            ..Tcp::default()
        };
        let bytes = Ipv4::default().bytes(&segment.bytes());
        tcp_of(&decoded(LinkType::RAW, &bytes)).options.ce_bytes
    };
    let counters = [0, 0, 1, 2, 3, 4, 0, 0, 9];
    for kind in [172, 174] {
        assert_eq!(
            ce_bytes(&join(&[&[kind, 11], &counters, &[1]])),
            Some(0x02_0304)
        );
        // without the unchanged counters
        assert_eq!(ce_bytes(&[kind, 5, 0, 0, 1, 1, 1, 1]), None);
    }
    let experiment = [254, 13, 0xac, 0xc1];
    assert_eq!(
        ce_bytes(&join(&[&experiment, &counters, &[1, 1, 1]])),
        Some(0x02_0304)
    );
    assert_eq!(
        ce_bytes(&join(&[&[254, 13, 0xab, 0xc1], &counters, &[1, 1, 1]])),
        None
    );
}

#[test]
fn options_of_a_syn_are_read() {
    let options = vec![
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    let bytes = ipv4(
        6,
        &Tcp {
            options,
            ..Tcp::default()
        }
        .bytes(),
    );
    let options = tcp_of(&decoded(LinkType::RAW, &bytes)).options;
    assert_eq!((options.mss, options.window_scale), (Some(1460), Some(7)));
    assert_eq!(
        (options.sack_permitted, options.timestamps),
        (true, Some((9, 0)))
    );
    assert!(!options.truncated);
}

#[test]
fn selective_acknowledgments_are_read_in_order() {
    let mut options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 5, 26];
    for edge in [100u32, 200, 300, 400, 500, 600] {
        options.extend(edge.to_be_bytes());
    }
    let bytes = ipv4(
        6,
        &Tcp {
            options,
            ..Tcp::default()
        }
        .bytes(),
    );
    let options = tcp_of(&decoded(LinkType::RAW, &bytes)).options;
    assert_eq!(options.sack_blocks(), [(100, 200), (300, 400), (500, 600)]);
    assert_eq!(options.timestamps, Some((1, 2)));
}

#[test]
fn malformed_options_end_the_list_and_nothing_else() {
    for options in [
        [8, 1, 0, 0],
        [2, 0, 0, 0],
        [5, 40, 0, 0],
        [2, 3, 9, 0],
        [3, 4, 1, 1],
    ] {
        let bytes = ipv4(
            6,
            &Tcp {
                options: options.to_vec(),
                ..Tcp::default()
            }
            .bytes(),
        );
        let packet = decoded(LinkType::RAW, &bytes);
        assert_eq!(tcp_of(&packet).payload, b"hello");
        assert_eq!(tcp_of(&packet).options, crate::TcpOptions::default());
    }
}

#[test]
fn a_window_scale_beyond_14_is_14() {
    let options = vec![3, 3, 200, 0];
    let bytes = ipv4(
        6,
        &Tcp {
            options,
            ..Tcp::default()
        }
        .bytes(),
    );
    assert_eq!(
        tcp_of(&decoded(LinkType::RAW, &bytes)).options.window_scale,
        Some(14)
    );
}

proptest! {
    #[test]
    fn any_bytes_on_any_link_are_decoded_to_something(
        link in prop_oneof![
            prop::sample::select(vec![0u16, 1, 9, 12, 14, 50, 101, 104, 108, 113, 204, 228, 229, 276]),
            any::<u16>(),
        ],
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        wire_bytes: u32,
        levels in 0u8..4,
    ) {
        decode_frame(LinkType(link), &bytes, wire_bytes, levels);
    }

    #[test]
    fn a_flipped_byte_never_reads_beyond_the_frame(at in 0usize..120, value: u8, cut in 0usize..120) {
        let inner = ethernet(0x8100, &join(&[&[0, 1, 8, 0], &packet()]));
        let vxlan = join(&[&[8, 0, 0, 0, 0, 0, 1, 0], &inner]);
        let mut bytes = ethernet(0x0800, &ipv4(17, &udp(4789, &vxlan)));
        let at = at.min(bytes.len() - 1);
        bytes[at] = value;
        let cut = cut.min(bytes.len());
        let packet = decode_frame(ETHERNET, &bytes[..cut], bytes.len() as u32, 1);
        if let Transport::Tcp(segment) = packet.transport {
            prop_assert!(segment.payload.len() <= cut);
            prop_assert!(segment.payload.len() as u32 <= segment.payload_bytes);
        }
    }
}
