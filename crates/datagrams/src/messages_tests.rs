use super::*;

fn role(ports: Ports, payload: &[u8]) -> Option<(Service, Role)> {
    let message = read(ports, payload.len() as u32, payload)?;
    Some((message.service, message.role))
}

fn same(one: (Ports, &[u8]), other: (Ports, &[u8])) -> bool {
    let number = |(ports, payload): (Ports, &[u8])| {
        read(ports, payload.len() as u32, payload).map(|m| (m.subject, m.identity))
    };
    number(one).is_some() && number(one) == number(other)
}

#[test]
fn an_answer_of_radius_has_the_number_of_its_request() {
    let request = ((40_000, 1812), &[1, 7, 0, 20][..]);
    assert!(same(request, ((1812, 40_000), &[3, 7, 0, 20])));
    assert!(!same(request, ((1812, 40_000), &[3, 8, 0, 20])));
}

#[test]
fn an_answer_of_snmp_has_the_number_of_its_request() {
    let get = [
        &[0x30, 0x18, 2, 1, 1, 4, 6][..],
        b"public",
        &[0xa0, 0x0b, 2, 2, 0x12, 0x34],
    ]
    .concat();
    let response = [
        &[0x30, 0x18, 2, 1, 1, 4, 6][..],
        b"public",
        &[0xa2, 0x0b, 2, 2, 0x12, 0x34],
    ]
    .concat();
    assert!(same(((40_000, 161), &get), ((161, 40_000), &response)));
    assert_eq!(
        role((40_000, 161), &get),
        Some((Service::Snmp, Role::Request))
    );
    let trap = [
        &[0x30, 0x18, 2, 1, 1, 4, 6][..],
        b"public",
        &[0xa7, 0x0b, 2, 2, 0x12, 0x34],
    ]
    .concat();
    assert_eq!(role((40_000, 162), &trap), None);
}

#[test]
fn an_answer_of_ntp_returns_the_clients_time() {
    let mut request = [0; 48];
    (request[0], request[47]) = (0x23, 9);
    let mut answer = [0; 48];
    (answer[0], answer[31]) = (0x24, 9);
    assert!(same(((123, 123), &request), ((123, 123), &answer)));
    let broadcast = [0x25; 48];
    assert_eq!(role((123, 123), &broadcast), None);
}

#[test]
fn a_sip_request_is_answered_by_call_and_command_and_an_ack_is_not() {
    let ask = b"REGISTER sip:a SIP/2.0\r\nVia: x\r\nCall-ID: 5@a\r\nCSeq: 1 REGISTER\r\n\r\n";
    let ok = b"SIP/2.0 401 Unauthorized\r\ni: 5@a\r\ncseq:1 REGISTER\r\n\r\n";
    assert!(same(((5060, 5060), ask), ((5060, 5060), ok)));
    let ack = b"ACK sip:a SIP/2.0\r\nCall-ID: 5@a\r\nCSeq: 1 ACK\r\n\r\n";
    assert_eq!(role((5060, 5060), ack), None);
}

#[test]
fn a_dhcp_discover_asks_and_a_release_does_not() {
    let message = |operation: u8, kind: u8| {
        let mut bytes = vec![0; 240];
        bytes[0] = operation;
        bytes[4..8].copy_from_slice(&[1, 2, 3, 4]);
        bytes.extend([0, 53, 1, kind, 255]);
        bytes
    };
    let (discover, offer) = (message(1, 1), message(2, 2));
    assert!(same(((68, 67), &discover), ((67, 68), &offer)));
    assert_eq!(role((68, 67), &message(1, 7)), None);
    let nak = role((67, 68), &message(2, 6));
    assert_eq!(nak, Some((Service::Dhcp, Role::Answer(Reply::Refused))));
}

#[test]
fn a_quic_connection_begins_with_a_large_initial() {
    let mut initial = vec![0xc0, 0, 0, 0, 1, 8];
    initial.resize(1200, 1);
    let begins = |payload: &[u8]| match read((50_000, 443), payload.len() as u32, payload)?.role {
        Role::Either { begins, reply } => Some((begins, reply)),
        _ => None,
    };
    assert_eq!(begins(&initial), Some((true, Reply::Given)));
    assert_eq!(begins(&initial[..600]), Some((false, Reply::Given)));
    initial[4] = 0;
    assert_eq!(begins(&initial), Some((false, Reply::OtherVersion)));
    initial[4] = 9;
    assert_eq!(begins(&initial), None);
}

#[test]
fn what_is_cut_off_anywhere_is_read_without_harm() {
    let mut any = vec![0x30, 0x82, 0xff, 0xff, 2, 1, 3, 0x30, 0x81];
    any.resize(300, 0x30);
    let services = [53, 67, 69, 123, 161, 500, 546, 1812, 4500, 5060, 9999];
    for length in 0..any.len() {
        for port in services {
            let _ = read((port, port), 1300, &any[..length]);
            let _ = tftp_answer((port, port), &any[..length]);
        }
    }
}
