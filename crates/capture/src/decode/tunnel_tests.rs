//! Tunnels of every kind, around the same inner packet.

use crate::testing::*;
use crate::{LinkType, Transport, decode_frame};

const RAW: LinkType = LinkType::RAW;

fn gre(flags: u16, kind: u16, words: usize, body: &[u8]) -> Vec<u8> {
    ipv4(
        47,
        &join(&[
            &flags.to_be_bytes(),
            &kind.to_be_bytes(),
            &vec![0; words * 4],
            body,
        ]),
    )
}

fn vxlan(port: u16, body: &[u8]) -> Vec<u8> {
    ipv4(17, &udp(port, &join(&[&[8, 0, 0, 0, 0, 0, 42, 0], body])))
}

fn geneve(options: &[u8], kind: u16, body: &[u8]) -> Vec<u8> {
    let head = [
        (options.len() / 4) as u8,
        0,
        (kind >> 8) as u8,
        kind as u8,
        0,
        0,
        42,
        0,
    ];
    ipv4(17, &udp(6081, &join(&[&head, options, body])))
}

#[track_caller]
fn assert_unwraps(outer: &[u8]) {
    assert_holds_packet(RAW, outer);
    assert_eq!(decoded(RAW, outer).network.unwrap().tunnel_depth, 1);
}

#[test]
fn gre_is_unwrapped_with_any_of_its_optional_fields() {
    assert_unwraps(&gre(0, 0x0800, 0, &packet()));
    assert_unwraps(&gre(0x8000, 0x0800, 1, &packet()));
    assert_unwraps(&gre(0x2000, 0x0800, 1, &packet()));
    assert_unwraps(&gre(0x1000, 0x0800, 1, &packet()));
    assert_unwraps(&gre(0xb000, 0x0800, 3, &packet()));
    assert_unwraps(&gre(0x2000, 0x6558, 1, &frame()));
    let inner = ipv6(6, &Tcp::default().bytes());
    assert_eq!(
        tcp_of(&decoded(RAW, &gre(0, 0x86dd, 0, &inner))).payload,
        b"hello"
    );
}

#[test]
fn mirrored_frames_are_unwrapped_from_erspan() {
    assert_unwraps(&gre(0x0000, 0x88be, 0, &frame()));
    // Type II: a sequence number and a header of eight bytes.
    assert_unwraps(&gre(0x1000, 0x88be, 3, &frame()));
    // Type III: twelve bytes, eight more if the last bit is set.
    assert_unwraps(&gre(0x1000, 0x22eb, 4, &frame()));
    let mut with_subheader = vec![0; 24];
    with_subheader[15] = 1;
    assert_unwraps(&gre(0x1000, 0x22eb, 0, &join(&[&with_subheader, &frame()])));
}

#[test]
fn pptp_is_unwrapped() {
    // Key with length and call, sequence number, acknowledgment number.
    assert_unwraps(&gre(
        0x3081,
        0x880b,
        3,
        &join(&[&[0xff, 0x03, 0x00, 0x21], &packet()]),
    ));
    assert_unwraps(&gre(0x3001, 0x880b, 2, &join(&[&[0x21], &packet()])));
}

#[test]
fn vxlan_and_geneve_are_unwrapped() {
    assert_unwraps(&vxlan(4789, &frame()));
    assert_unwraps(&vxlan(8472, &frame()));
    assert_unwraps(&geneve(&[], 0x6558, &frame()));
    assert_unwraps(&geneve(&[0; 12], 0x6558, &frame()));
    assert_unwraps(&geneve(&[0; 4], 0x0800, &packet()));
}

#[test]
fn packets_of_mobile_users_are_unwrapped_behind_any_of_the_optional_fields() {
    let user_plane = |flags: u8, kind: u8, optional: &[u8], body: &[u8]| {
        let head = [flags, kind, 0, 0, 0, 0, 0, 42];
        ipv4(17, &udp(2152, &join(&[&head, optional, body])))
    };
    assert_unwraps(&user_plane(0x30, 255, &[], &packet()));
    // a sequence number, and no extension although there is a field for its type
    assert_unwraps(&user_plane(0x32, 255, &[0, 7, 0, 0x85], &packet()));
    let extensions = [0, 0, 0, 0x85, 1, 0, 9, 0xc0, 2, 0, 0, 0, 0, 0, 0, 0];
    assert_unwraps(&user_plane(0x34, 255, &extensions, &packet()));
    // an echo request; GTP of the control plane; an extension without end
    for other in [
        user_plane(0x32, 1, &[0; 4], &packet()),
        user_plane(0x48, 255, &[], &packet()),
        user_plane(0x34, 255, &[0, 0, 0, 0x85, 0, 0, 0, 0], &[]),
    ] {
        assert!(matches!(
            decoded(RAW, &other).transport,
            Transport::Udp { .. }
        ));
    }
}

#[test]
fn ip_in_ip_is_unwrapped() {
    assert_unwraps(&ipv4(4, &packet()));
    let over_6 = ipv6(4, &packet());
    assert_holds_packet(RAW, &over_6);
    let six_in_four = ipv4(41, &ipv6(6, &Tcp::default().bytes()));
    let packet = decoded(RAW, &six_in_four);
    assert!(packet.network.unwrap().source.is_ipv6());
    assert_eq!(tcp_of(&packet).payload, b"hello");
}

#[test]
fn only_as_many_levels_are_unwrapped_as_asked_for() {
    let nested = ipv4(4, &gre(0, 0x0800, 0, &vxlan(4789, &frame())));
    let levels = |levels: u8| decode_frame(RAW, &nested, nested.len() as u32, levels);
    assert_eq!(levels(0).transport, Transport::OtherProtocol(4));
    assert_eq!(levels(1).transport, Transport::OtherProtocol(47));
    assert!(matches!(
        levels(2).transport,
        Transport::Udp {
            destination_port: 4789,
            ..
        }
    ));
    assert_eq!(tcp_of(&levels(3)).payload, b"hello");
    assert_eq!(levels(3).network.unwrap().tunnel_depth, 3);
    assert_eq!(levels(255), levels(3));
}

#[test]
fn a_tunnel_without_an_ip_packet_inside_shows_itself() {
    let arp = ethernet(0x0806, &[0; 28]);
    assert!(matches!(
        decoded(RAW, &vxlan(4789, &arp)).transport,
        Transport::Udp { .. }
    ));
    assert_eq!(
        decoded(RAW, &gre(0, 0x6558, 0, &arp)).transport,
        Transport::OtherProtocol(47)
    );
    assert_eq!(
        decoded(RAW, &ipv4(4, &[0x45, 0])).transport,
        Transport::OtherProtocol(4)
    );
    // GRE with a source route, and of a version unknown.
    assert_eq!(
        decoded(RAW, &gre(0x4000, 0x0800, 1, &packet())).transport,
        Transport::OtherProtocol(47)
    );
    assert_eq!(
        decoded(RAW, &gre(0x0002, 0x0800, 0, &packet())).transport,
        Transport::OtherProtocol(47)
    );
}

#[test]
fn data_on_the_vxlan_port_that_is_not_vxlan_is_udp() {
    let mut other = vxlan(4789, &frame());
    other[28] = 0x48;
    assert!(matches!(
        decoded(RAW, &other).transport,
        Transport::Udp { .. }
    ));
}

#[test]
fn a_snapshot_length_that_cuts_the_inner_header_says_so() {
    let whole = ethernet(0x0800, &vxlan(4789, &frame()));
    // Outer headers and VXLAN 50 bytes, inner link 14, inner IP 20: the TCP header is truncated.
    let packet = decode_frame(LinkType::ETHERNET, &whole[..96], whole.len() as u32, 1);
    assert_eq!(packet.transport, Transport::Undecodable);
    assert_eq!(packet.network.unwrap().tunnel_depth, 1);
}

#[test]
fn ethernet_padding_outside_a_tunnel_is_not_payload_inside() {
    let bare = Tcp {
        payload: Vec::new(),
        options: Vec::new(),
        ..Tcp::default()
    };
    let inner = Ipv4 {
        total_bytes: Some(0),
        ..Ipv4::default()
    }
    .bytes(&bare.bytes());
    let mut frame = ethernet(0x0800, &ipv4(4, &inner));
    frame.extend([0; 30]);
    let packet = decoded(LinkType::ETHERNET, &frame);
    assert_eq!(
        (tcp_of(&packet).payload_bytes, tcp_of(&packet).payload.len()),
        (0, 0)
    );
}

#[test]
fn frames_of_mirrors_and_controllers_are_unwrapped() {
    let to = |port: u16, head: &[u8], body: &[u8]| ipv4(17, &udp(port, &join(&[head, body])));
    assert_unwraps(&to(37_008, &[1, 0, 0, 1, 1], &frame()));
    // TZSP with tags before the end of tags
    assert_unwraps(&to(37_008, &[1, 0, 0, 1, 0, 0x0a, 1, 0xd0, 1], &frame()));
    assert_unwraps(&to(5247, &[0, 0x10, 0, 0, 0, 0, 0, 0], &frame()));
    let keep_alive = to(37_008, &[1, 4, 0, 0], &[]);
    assert!(matches!(
        decoded(RAW, &keep_alive).transport,
        Transport::Udp { .. }
    ));
}

#[test]
fn l2tp_of_both_versions_is_unwrapped() {
    let over_udp = |head: &[u8], body: &[u8]| ipv4(17, &udp(1701, &join(&[head, body])));
    let framed = join(&[&[0xff, 0x03, 0x00, 0x21], &packet()]);
    assert_unwraps(&over_udp(&[0, 2, 0, 1, 0, 1], &framed));
    let with_length = [0x40, 2, 0, 70, 0, 1, 0, 1];
    assert_unwraps(&over_udp(&with_length, &framed));
    let with_all = [0x4a, 2, 0, 70, 0, 1, 0, 1, 0, 5, 0, 6, 0, 2, 9, 9];
    assert_unwraps(&over_udp(&with_all, &framed));
    // version 3: the cookie and the sublayer are negotiated, and not announced
    for before in [0, 4, 8, 12] {
        let inner = join(&[&vec![0; before], &frame()]);
        assert_unwraps(&over_udp(&[0, 3, 0, 0, 0, 0, 0, 9], &inner));
        assert_unwraps(&ipv4(115, &join(&[&[0, 0, 0, 9], &inner])));
    }
    let control = over_udp(&[0xc8, 2, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0], &packet());
    assert!(matches!(
        decoded(RAW, &control).transport,
        Transport::Udp { .. }
    ));
}

#[test]
fn headers_that_name_what_they_carry_are_followed() {
    let to = |port: u16, head: &[u8], body: &[u8]| ipv4(17, &udp(port, &join(&[head, body])));
    assert_unwraps(&to(4790, &[0x0c, 0, 0, 1, 0, 0, 9, 0], &packet()));
    assert_unwraps(&to(4790, &[0x0c, 0, 0, 3, 0, 0, 9, 0], &frame()));
    assert_unwraps(&to(4789, &[0x88, 0, 0, 7, 0, 0, 9, 0], &frame()));
    assert_unwraps(&to(6635, &[0, 0, 0x11, 0x40], &packet()));
    assert_unwraps(&to(4341, &[0; 8], &packet()));
    assert_unwraps(&ipv4(97, &join(&[&[0x30, 0], &frame()])));
    assert_unwraps(&ipv4(137, &join(&[&[0, 0, 0x11, 0x40], &packet()])));
    let inner = ipv6(6, &Tcp::default().bytes());
    for head in [&[][..], &[0, 0, 1, 2, 3, 4, 5, 6]] {
        let teredo = to(3544, head, &inner);
        assert_eq!(tcp_of(&decoded(RAW, &teredo)).payload, b"hello");
    }
}
