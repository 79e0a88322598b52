//! Requests and answers of UDP protocols that have both, as far as their headers are in the clear.
//!
//! Each reader recognises requests and answers, and extracts the numbers that they share.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::dns;

/// A protocol that answers each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    Dns,
    Ntp,
    Snmp,
    Radius,
    Sip,
    Tftp,
    Dhcp,
    Dhcpv6,
    Ike,
    WireGuard,
    Quic,
}

impl Service {
    pub fn name(self) -> &'static str {
        match self {
            Self::Dns => "DNS",
            Self::Ntp => "NTP",
            Self::Snmp => "SNMP",
            Self::Radius => "RADIUS",
            Self::Sip => "SIP",
            Self::Tftp => "TFTP",
            Self::Dhcp => "DHCP",
            Self::Dhcpv6 => "DHCPv6",
            Self::Ike => "IKE",
            Self::WireGuard => "WireGuard",
            Self::Quic => "QUIC",
        }
    }

    /// True if requests are broadcast, and any server may answer.
    pub(crate) fn asks_everybody(self) -> bool {
        matches!(self, Self::Dhcp | Self::Dhcpv6)
    }
}

/// The role of a message in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Request,
    Answer(Reply),
    /// An answer if the other side has sent a request, otherwise a request if it can be one.
    Either {
        begins: bool,
        reply: Reply,
    },
}

/// The result in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reply {
    #[default]
    Given,
    /// The name does not exist: a valid answer.
    NoSuchName,
    /// It did not fit.
    Truncated,
    /// The server refuses this client.
    Refused,
    /// The server failed.
    Failed,
    /// QUIC: another version is required, or the client's address must be validated first.
    OtherVersion,
    Retry,
}

/// A message of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub service: Service,
    pub role: Role,
    /// Equal for all attempts of one client to get the same answer.
    pub subject: u64,
    /// Equal for one or several attempts and their answer.
    pub identity: u64,
}

/// The ports of a datagram: source and destination.
pub(crate) type Ports = (u16, u16);

const DNS: u16 = 53;
const DHCP: [u16; 2] = [67, 68];
const DHCPV6: [u16; 2] = [546, 547];
const TFTP: u16 = 69;
const NTP: u16 = 123;
const SNMP: u16 = 161;
const IKE: u16 = 500;
const IKE_BEHIND_TRANSLATION: u16 = 4500;
const RADIUS: [u16; 5] = [1645, 1646, 1812, 1813, 3799];
const SIP: u16 = 5060;

/// Parses a datagram; `None` for unknown protocols and those without answers. TFTP answers come from any port, and are
/// parsed only where one is expected.
pub(crate) fn read(ports: Ports, payload_bytes: u32, payload: &[u8]) -> Option<Message> {
    let (source, destination) = ports;
    let either = |port: u16| source == port || destination == port;
    let any = |of: &[u16]| of.contains(&source) || of.contains(&destination);
    match () {
        () if either(DNS) => of_dns(ports, payload),
        () if DHCP.contains(&source) && DHCP.contains(&destination) => dhcp(payload),
        () if DHCPV6.contains(&source) && DHCPV6.contains(&destination) => dhcpv6(payload),
        () if destination == TFTP => tftp_request(source, payload),
        () if either(NTP) => ntp(payload),
        () if either(SNMP) => snmp(ports, payload),
        () if either(IKE) => ike(payload),
        () if either(IKE_BEHIND_TRANSLATION) => ike(payload.strip_prefix(&[0; 4])?),
        () if any(&RADIUS) => radius(ports, payload),
        () if either(SIP) => sip(payload),
        () => {
            wireguard(ports, payload_bytes, payload).or_else(|| quic(ports, payload_bytes, payload))
        }
    }
}

fn number(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// A message with attempts that share a key with their answer.
fn message(service: Service, role: Role, of: impl Hash) -> Message {
    let subject = number(of);
    Message {
        service,
        role,
        subject,
        identity: subject,
    }
}

fn given(is_answer: bool) -> Role {
    match is_answer {
        true => Role::Answer(Reply::Given),
        false => Role::Request,
    }
}

/// A question is repeated under other numbers and from other ports.
pub(crate) fn of_dns((source, destination): Ports, payload: &[u8]) -> Option<Message> {
    let dns = dns::read(payload)?;
    let (server, client) = match dns.is_answer {
        true => (source, destination),
        false => (destination, source),
    };
    let reply = match dns.response_code {
        dns::NO_ERROR if dns.is_truncated => Reply::Truncated,
        dns::NO_ERROR => Reply::Given,
        dns::NO_SUCH_NAME => Reply::NoSuchName,
        dns::REFUSED => Reply::Refused,
        _ => Reply::Failed,
    };
    let role = match dns.is_answer {
        true => Role::Answer(reply),
        false => Role::Request,
    };
    (server == DNS).then_some(Message {
        service: Service::Dns,
        role,
        subject: dns.question,
        identity: number((client, dns.id)),
    })
}

/// Matched by the client's timestamp, which the server returns (RFC 5905, section 7.3).
fn ntp(payload: &[u8]) -> Option<Message> {
    let header: &[u8; 48] = payload.first_chunk()?;
    let [first, ..] = *header;
    let (stamp, is_answer) = match first & 0x07 {
        3 => (&header[40..48], false),
        4 => (&header[24..32], true),
        _ => return None,
    };
    Some(message(Service::Ntp, given(is_answer), stamp))
}

/// Matched by the number of the request (RFC 3416, section 3), in version 3 by that of the message (RFC 3412, section
/// 6).
fn snmp((source, destination): Ports, payload: &[u8]) -> Option<Message> {
    const INTEGER: u8 = 0x02;
    const SEQUENCE: u8 = 0x30;
    let (sequence, body, _) = element(payload)?;
    let (kind, version, rest) = element(body)?;
    if sequence != SEQUENCE || kind != INTEGER {
        return None;
    }
    let (_, content, rest) = element(rest)?;
    if version == [3] {
        let (_, id, _) = element(content)?;
        let is_answer = source == SNMP && destination != SNMP;
        let client = if is_answer { destination } else { source };
        return Some(message(Service::Snmp, given(is_answer), (client, id)));
    }
    let (pdu, content, _) = element(rest)?;
    let (_, id, _) = element(content)?;
    let (is_answer, client) = match pdu {
        // get, get-next, set, get-bulk
        0xa0 | 0xa1 | 0xa3 | 0xa5 => (false, source),
        0xa2 => (true, destination),
        _ => return None,
    };
    Some(message(Service::Snmp, given(is_answer), (client, id)))
}

/// A BER element (ITU-T X.690): its tag, its captured content, and the bytes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => {
            let (&length, rest) = rest.split_first()?;
            (usize::from(length), rest)
        }
        0x82 => {
            let (&length, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(length)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at(length.min(rest.len()));
    Some((tag, content, rest))
}

/// Matched by the identifier, which a client repeats with the request (RFC 2865, section 3).
fn radius((source, destination): Ports, payload: &[u8]) -> Option<Message> {
    let &[code, identifier] = payload.first_chunk()?;
    let (is_answer, client) = match code {
        1 | 4 | 12 | 40 | 43 => (false, source),
        2 | 3 | 5 | 11 | 41 | 42 | 44 | 45 => (true, destination),
        _ => return None,
    };
    Some(message(
        Service::Radius,
        given(is_answer),
        (client, identifier),
    ))
}

/// Matched by the call and the number of the command in it (RFC 3261, section 17.1.3). An ACK is not answered.
fn sip(payload: &[u8]) -> Option<Message> {
    const MOST_HEADER_BYTES: usize = 2048;
    let head = payload.get(..payload.len().min(MOST_HEADER_BYTES))?;
    let mut lines = head
        .split(|byte| *byte == b'\n')
        .map(|line| line.trim_ascii());
    let first = lines.next()?;
    let is_answer = first.starts_with(b"SIP/2.0 ");
    if !is_answer && (!first.ends_with(b" SIP/2.0") || first.starts_with(b"ACK ")) {
        return None;
    }
    let (mut call, mut command) = (None, None);
    for line in lines.take_while(|line| !line.is_empty()) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"call-id") || name.eq_ignore_ascii_case(b"i") {
            call = Some(value);
        } else if name.eq_ignore_ascii_case(b"cseq") {
            command = Some(value);
        }
    }
    Some(message(Service::Sip, given(is_answer), (call?, command?)))
}

/// Matched by the client's port: the answers come from a new port (RFC 1350, section 4).
fn tftp_request(client: u16, payload: &[u8]) -> Option<Message> {
    let asks = matches!(payload.first_chunk()?, [0, 1 | 2]);
    asks.then(|| message(Service::Tftp, Role::Request, client))
}

/// Parses a possible answer to it.
pub(crate) fn tftp_answer((_, client): Ports, payload: &[u8]) -> Option<Message> {
    let answers = matches!(payload.first_chunk()?, [0, 3..=6]);
    answers.then(|| message(Service::Tftp, Role::Answer(Reply::Given), client))
}

/// Matched by the transaction (RFC 2131, section 2). A client that releases an address gets no answer.
fn dhcp(payload: &[u8]) -> Option<Message> {
    const COOKIE_AT: usize = 236;
    const RELEASE: u8 = 7;
    const NAK: u8 = 6;
    let head: &[u8; 8] = payload.first_chunk()?;
    let [operation, _, _, _, transaction @ ..] = *head;
    let kind = payload.get(COOKIE_AT + 4..).and_then(dhcp_kind);
    let role = match (operation, kind) {
        // DISCOVER and REQUEST; others need no answer, or belong to BOOTP
        (1, None | Some(1 | 3)) => Role::Request,
        (2, Some(NAK)) => Role::Answer(Reply::Refused),
        (2, _) => Role::Answer(Reply::Given),
        (1, Some(RELEASE)) => return None,
        _ => return None,
    };
    Some(message(Service::Dhcp, role, transaction))
}

/// The option that contains the kind of a DHCP message.
fn dhcp_kind(mut options: &[u8]) -> Option<u8> {
    const KIND: u8 = 53;
    loop {
        match *options {
            [0, ref rest @ ..] => options = rest,
            [KIND, _, kind, ..] => return Some(kind),
            [255, ..] | [] => return None,
            [_, length, ref rest @ ..] => options = rest.get(usize::from(length)..)?,
            [_] => return None,
        }
    }
}

/// Matched by the transaction (RFC 8415, section 8).
fn dhcpv6(payload: &[u8]) -> Option<Message> {
    let &[kind, transaction @ ..] = payload.first_chunk::<4>()?;
    let is_answer = match kind {
        // solicit, request, confirm, renew, rebind, information-request
        1 | 3 | 4 | 5 | 6 | 11 => false,
        2 | 7 => true,
        _ => return None,
    };
    Some(message(Service::Dhcpv6, given(is_answer), transaction))
}

/// Matched by the initiator's number for the association and that of the message (RFC 7296, section 3.1; RFC 2408,
/// section 3.1).
fn ike(payload: &[u8]) -> Option<Message> {
    let header: &[u8; 24] = payload.first_chunk()?;
    let (initiator, responder) = (&header[..8], &header[8..16]);
    let message_number = &header[20..24];
    let is_answer = match header[17] >> 4 {
        2 => header[19] & 0x20 != 0,
        1 => responder != [0; 8],
        _ => return None,
    };
    Some(message(
        Service::Ike,
        given(is_answer),
        (initiator, message_number),
    ))
}

/// Matched by the sender's index, which differs for each attempt.
fn wireguard((source, destination): Ports, payload_bytes: u32, payload: &[u8]) -> Option<Message> {
    const INITIATION_BYTES: u32 = 148;
    const RESPONSE_BYTES: u32 = 92;
    let header: &[u8; 12] = payload.first_chunk()?;
    let (role, client, index) = match (header[..4].first_chunk()?, payload_bytes) {
        ([1, 0, 0, 0], INITIATION_BYTES) => (Role::Request, source, &header[4..8]),
        ([2, 0, 0, 0], RESPONSE_BYTES) => (Role::Answer(Reply::Given), destination, &header[8..12]),
        _ => return None,
    };
    Some(Message {
        service: Service::WireGuard,
        role,
        subject: number(client),
        identity: number(index),
    })
}

/// Long headers (RFC 8999; RFC 9000, section 17.2): a client begins with an Initial of at least 1200 bytes, and the
/// first answer has a long header as well.
fn quic((source, destination): Ports, payload_bytes: u32, payload: &[u8]) -> Option<Message> {
    const LONG: u8 = 0x80;
    const FIXED: u8 = 0x40;
    const VERSION_2: u32 = 0x6b33_43cf;
    const LEAST_INITIAL_BYTES: u32 = 1200;
    let &[first, a, b, c, d, connection_id_bytes] = payload.first_chunk()?;
    let version = u32::from_be_bytes([a, b, c, d]);
    let is_known = version == 1 || version == VERSION_2 || version & 0xffff_ff00 == 0xff00_0000;
    let is_negotiation = version == 0;
    if first & LONG == 0 || connection_id_bytes > 20 {
        return None;
    }
    if !is_negotiation && (!is_known || first & FIXED == 0) {
        return None;
    }
    let kind = (first >> 4) & 0x03;
    let (initial, retry) = match version {
        VERSION_2 => (1, 0),
        _ => (0, 3),
    };
    let reply = match kind {
        _ if is_negotiation => Reply::OtherVersion,
        kind if kind == retry => Reply::Retry,
        _ => Reply::Given,
    };
    let begins = !is_negotiation && kind == initial && payload_bytes >= LEAST_INITIAL_BYTES;
    let (low, high) = (source.min(destination), source.max(destination));
    Some(message(
        Service::Quic,
        Role::Either { begins, reply },
        (low, high),
    ))
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
