//! Control connections of measuring programs. They carry a test's settings and results beside its load, and their rate
//! depends only on the messages. They are recognised by their first bytes or, if the capture lacks those, by port and
//! message sizes.
//!
//! | program | its control connection |
//! |---|---|
//! | whydrop | a hello of 96 bytes that requests the control channel, one of 48 bytes in return, then frames that begin with their length |
//! | iperf3 | a cookie of 37 bytes as on every connection of a test, answered by a state of one byte |
//! | netperf | messages of one size in both directions, to port 12865 |

use whydrop_capture::TcpSegment;

use crate::flow::{Connection, Endpoint, Flow};

const WHYDROP_MAGIC: &[u8] = b"whydrop";
const WHYDROP_PORT: u16 = 17370;
/// Offset behind the magic and the version: the purpose of the connection, control (0) or data of a flow (1).
const WHYDROP_PURPOSE: usize = 8;
const WHYDROP_HELLOS: [u32; 2] = [96, 48];
/// Bytes that both sides send before anything else, on data connections too.
const WHYDROP_HANDSHAKE: [i64; 2] = [128, 81];
/// Length and authentication code of a frame, besides its payload.
const WHYDROP_FRAME: u32 = 20;
/// The most packets that are checked for frames, if the capture begins during the test.
const MOST_LOOKED_AT: u8 = 4;

const IPERF3_PORT: u16 = 5201;
const IPERF3_COOKIE: usize = 37;

const NETPERF_PORT: u16 = 12865;
/// Of version 2.5 and later, and of earlier ones.
const NETPERF_MESSAGES: [u32; 2] = [656, 256];

/// The most connections that are named.
const MOST_NAMED: usize = 1 << 10;

/// A measuring program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    Whydrop,
    Iperf3,
    Netperf,
}

impl Program {
    pub fn name(self) -> &'static str {
        match self {
            Self::Whydrop => "whydrop",
            Self::Iperf3 => "iperf3",
            Self::Netperf => "netperf",
        }
    }
}

/// The meaning of the first bytes of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FirstData {
    /// None were captured.
    #[default]
    Nothing,
    WhydropControl,
    WhydropData,
    Iperf3Cookie,
    Other,
}

/// The first data of one side.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Beginning {
    first_bytes: u32,
    said: FirstData,
    looked_at: u8,
    has_frame: bool,
}

impl Beginning {
    #[inline]
    pub fn take(&mut self, tcp: &TcpSegment) {
        if self.looked_at < MOST_LOOKED_AT {
            self.look_at(tcp.payload_bytes, tcp.payload);
        }
    }

    fn look_at(&mut self, payload_bytes: u32, payload: &[u8]) {
        if self.looked_at == 0 {
            self.first_bytes = payload_bytes;
            self.said = said(payload_bytes, payload);
        }
        self.looked_at += 1;
        self.has_frame |= is_frame(payload_bytes, payload);
    }
}

fn said(payload_bytes: u32, payload: &[u8]) -> FirstData {
    if payload.is_empty() {
        return FirstData::Nothing;
    }
    if payload.starts_with(WHYDROP_MAGIC) && payload_bytes == WHYDROP_HELLOS[0] {
        return match payload.get(WHYDROP_PURPOSE) {
            Some(0) => FirstData::WhydropControl,
            Some(1) => FirstData::WhydropData,
            Some(_) => FirstData::Other,
            None => FirstData::Nothing,
        };
    }
    match is_cookie(payload_bytes, payload) {
        true => FirstData::Iperf3Cookie,
        false => FirstData::Other,
    }
}

/// 36 characters of base 32 and a zero byte, as far as captured.
fn is_cookie(payload_bytes: u32, payload: &[u8]) -> bool {
    let is_base_32 = |byte: &u8| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(byte);
    let characters = &payload[..payload.len().min(IPERF3_COOKIE - 1)];
    payload_bytes as usize == IPERF3_COOKIE
        && characters.iter().all(is_base_32)
        && payload.get(IPERF3_COOKIE - 1).is_none_or(|end| *end == 0)
}

/// A whole frame of whydrop's control channel, which begins with its length.
fn is_frame(payload_bytes: u32, payload: &[u8]) -> bool {
    let length = payload
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes));
    length.is_some_and(|length| length.checked_add(WHYDROP_FRAME) == Some(payload_bytes))
}

/// True for a data connection of a test: it is cut off when the time is up, whatever is outstanding.
pub(crate) fn carries_load([initiator, responder]: [Beginning; 2]) -> bool {
    match initiator.said {
        FirstData::WhydropData => true,
        FirstData::Iperf3Cookie => responder.first_bytes != 1,
        _ => false,
    }
}

/// Which sides sent only a greeting, on a connection for a test's data in the other direction.
pub(crate) fn only_greet(beginnings: [Beginning; 2], sent: [i64; 2]) -> [bool; 2] {
    // a FIN takes a sequence number, too
    let no_more = |side: usize, bytes: i64| (1..=bytes + 1).contains(&sent[side]);
    match beginnings[0].said {
        FirstData::WhydropData => [0, 1].map(|side| no_more(side, WHYDROP_HANDSHAKE[side])),
        FirstData::Iperf3Cookie => [no_more(0, IPERF3_COOKIE as i64), false],
        _ => [false; 2],
    }
}

/// The program that uses this connection for control, if any; `sent` is how many bytes each side has sent in all.
pub(crate) fn program(
    endpoints: [Endpoint; 2],
    beginnings: [Beginning; 2],
    sent: [i64; 2],
) -> Option<Program> {
    let [initiator, responder] = beginnings;
    let to_port = |port: u16| endpoints[1].port == port;
    let at_port = |port: u16| endpoints.iter().any(|end| end.port == port);
    let said = |what: FirstData| beginnings.iter().any(|one| one.said == what);
    if said(FirstData::WhydropControl) {
        return Some(Program::Whydrop);
    }
    let firsts = beginnings.map(|one| one.first_bytes);
    let is_by_frames = beginnings.iter().any(|one| one.has_frame) && !said(FirstData::WhydropData);
    let is_by_sizes = initiator.said == FirstData::Nothing
        && to_port(WHYDROP_PORT)
        && firsts == WHYDROP_HELLOS
        // a FIN takes a sequence number, too
        && sent.iter().zip(WHYDROP_HANDSHAKE).all(|(sent, least)| *sent > least + 1);
    if is_by_sizes || (is_by_frames && at_port(WHYDROP_PORT)) {
        return Some(Program::Whydrop);
    }
    let is_asked = initiator.said == FirstData::Iperf3Cookie
        || (initiator.said == FirstData::Nothing
            && firsts[0] as usize == IPERF3_COOKIE
            && to_port(IPERF3_PORT));
    if is_asked && responder.first_bytes == 1 {
        return Some(Program::Iperf3);
    }
    let is_netperf = NETPERF_MESSAGES.iter().any(|size| firsts == [*size; 2]);
    (is_netperf && to_port(NETPERF_PORT)).then_some(Program::Netperf)
}

/// The control connections of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlConnections {
    pub program: Program,
    pub connections: u64,
    /// Totals of both directions, as in [`crate::FlowCounters`].
    pub packets: u64,
    pub payload_bytes: u64,
    pub lost: u64,
    pub retransmitted: u64,
    pub retransmitted_by_kind: [u64; 5],
    pub spurious: u64,
    /// Initiator and responder of the first ones.
    pub endpoints: Vec<[Endpoint; 2]>,
}

impl ControlConnections {
    fn new(program: Program) -> Self {
        Self {
            program,
            connections: 0,
            packets: 0,
            payload_bytes: 0,
            lost: 0,
            retransmitted: 0,
            retransmitted_by_kind: [0; 5],
            spurious: 0,
            endpoints: Vec::new(),
        }
    }

    /// Adds a connection to its program's.
    pub(crate) fn add(all: &mut Vec<Self>, program: Program, connection: &Connection) {
        let place = all.iter().position(|one| one.program == program);
        let place = place.unwrap_or_else(|| {
            all.push(Self::new(program));
            all.len() - 1
        });
        let own = &mut all[place];
        let sum = |of: fn(&Flow) -> u64| connection.flows.iter().map(of).sum::<u64>();
        own.connections += 1;
        own.packets += sum(|flow| flow.counters.packets);
        own.payload_bytes += sum(|flow| flow.counters.payload_bytes);
        own.lost += sum(|flow| flow.counters.lost);
        own.retransmitted += sum(|flow| flow.counters.retransmitted);
        own.spurious += sum(|flow| flow.counters.spurious);
        for flow in &connection.flows {
            let kinds = flow.counters.retransmitted_by_kind;
            for (all, one) in own.retransmitted_by_kind.iter_mut().zip(kinds) {
                *all += one;
            }
        }
        if own.endpoints.len() < MOST_NAMED {
            let [initiated, _] = &connection.flows;
            own.endpoints
                .push([initiated.source, initiated.destination]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Packets<'a> = &'a [(u32, &'static [u8])];

    const HELLO: &[u8] = b"whydrop\x03\x00\x00\x00\x00";
    const DATA_HELLO: &[u8] = b"whydrop\x03\x01\x00\x00\x00";
    const ANSWER: &[u8] = b"whydrop\x03\x00";
    const COOKIE: &[u8] = b"abcdefghijklmnopqrstuvwxyz234567abcd\0";

    /// The program of a connection to a port, from the sizes and the captured bytes of each side's packets.
    fn recognised(port: u16, sides: [Packets; 2]) -> Option<Program> {
        let endpoint = |port| Endpoint {
            port,
            ..Endpoint::default()
        };
        let sent = sides.map(|packets| packets.iter().map(|(bytes, _)| i64::from(*bytes)).sum());
        let beginnings = sides.map(|packets| {
            let mut beginning = Beginning::default();
            for (bytes, payload) in packets {
                if beginning.looked_at < MOST_LOOKED_AT {
                    beginning.look_at(*bytes, payload);
                }
            }
            beginning
        });
        program([endpoint(40_001), endpoint(port)], beginnings, sent)
    }

    #[test]
    fn whydrops_control_connection_says_so_at_any_port() {
        assert_eq!(
            recognised(4000, [&[(96, HELLO)], &[(48, ANSWER)]]),
            Some(Program::Whydrop)
        );
        assert_eq!(
            recognised(17370, [&[(96, DATA_HELLO), (32, b"")], &[(48, ANSWER)]]),
            None
        );
        assert_eq!(recognised(17370, [&[(1448, b"\x07random")], &[]]), None);
    }

    #[test]
    fn a_capture_that_begins_during_a_test_recognises_its_frames() {
        let frame: &[u8] = &[0, 0, 0, 9, 1];
        assert_eq!(
            recognised(17370, [&[(29, frame)], &[]]),
            Some(Program::Whydrop)
        );
        assert_eq!(recognised(4000, [&[(29, frame)], &[]]), None);
        assert_eq!(recognised(17370, [&[(30, frame)], &[]]), None);
    }

    #[test]
    fn without_payload_sizes_distinguish_it_from_data_connections() {
        let (handshake, answered): (Packets, Packets) =
            (&[(96, b""), (32, b"")], &[(48, b""), (33, b"")]);
        let more = |said: Packets, bytes| [said, &[(bytes, &[])]].concat();
        let control = [more(handshake, 60), more(answered, 60)];
        assert_eq!(
            recognised(17370, [&control[0], &control[1]]),
            Some(Program::Whydrop)
        );
        assert_eq!(recognised(17370, [&more(handshake, 1448), answered]), None);
        assert_eq!(recognised(17370, [handshake, &more(answered, 1448)]), None);
    }

    #[test]
    fn iperf3_answers_the_cookie_of_its_control_connection_with_one_byte() {
        assert_eq!(
            recognised(5202, [&[(37, COOKIE)], &[(1, b"\x09")]]),
            Some(Program::Iperf3)
        );
        assert_eq!(
            recognised(5202, [&[(37, &COOKIE[..6])], &[(1, b"")]]),
            Some(Program::Iperf3)
        );
        assert_eq!(
            recognised(5201, [&[(37, b"")], &[(1, b"")]]),
            Some(Program::Iperf3)
        );
        // data connections, up and down
        assert_eq!(recognised(5201, [&[(37, COOKIE), (1448, b"x")], &[]]), None);
        assert_eq!(recognised(5201, [&[(37, COOKIE)], &[(1448, b"x")]]), None);
        // other data of the same size
        assert_eq!(
            recognised(5202, [&[(37, b"GET / HTTP/1.0")], &[(1, b"x")]]),
            None
        );
        assert_eq!(recognised(5202, [&[(37, b"")], &[(1, b"")]]), None);
    }

    #[test]
    fn netperf_talks_in_messages_of_one_size() {
        assert_eq!(
            recognised(12865, [&[(656, b"")], &[(656, b"")]]),
            Some(Program::Netperf)
        );
        assert_eq!(recognised(12866, [&[(656, b"")], &[(656, b"")]]), None);
        assert_eq!(recognised(12865, [&[(656, b"")], &[]]), None);
    }
}
