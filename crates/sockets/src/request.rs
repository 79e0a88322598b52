//! Requests to `sock_diag(7)`: which sockets to list, and which information to include.

use crate::attributes::aligned;
use crate::message::attribute;

pub const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// The older request: for TCP alone, and both families at once. The kernel scans its whole connection table for each
/// request, which takes longer than reporting a thousand connections.
pub const TCPDIAG_GETSOCK: u16 = 18;
const NLM_F_REQUEST: u16 = 1;
/// `NLM_F_ROOT | NLM_F_MATCH`.
const NLM_F_DUMP: u16 = 0x300;
const INET_DIAG_REQ_BYTECODE: u16 = 1;
const NETLINK_HEADER: usize = 16;
const IPPROTO_UDP: u8 = 17;
/// `struct inet_diag_sockid`.
const SOCKET_ID: [u8; 48] = [0; 48];

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Ipv4 = 2,
    Ipv6 = 10,
}

/// One bit per state, as `1 << TCP_ESTABLISHED`: all states of connections, without TIME-WAIT, which has no
/// information, and without listeners.
const CONNECTIONS: u32 = (1 << 1)    // established
    | (1 << 2) | (1 << 3)                // SYN sent, received
    | (1 << 4) | (1 << 5)                // FIN-WAIT-1, FIN-WAIT-2
    | (1 << 8) | (1 << 9) | (1 << 11); // CLOSE-WAIT, LAST-ACK, CLOSING
/// UDP sockets with a peer are `TCP_ESTABLISHED`, those without are `TCP_CLOSE`.
const DATAGRAMS: u32 = (1 << 1) | (1 << 7);

/// The request for all TCP connections, over IPv4 and IPv6, that the program selects ([`crate::filter`]); as `struct
/// inet_diag_req`.
pub fn connections(program: &[u8]) -> Vec<u8> {
    // The kernel ignores the family for a list.
    let mut request = vec![Family::Ipv4 as u8, 0, 0, OF_CONNECTIONS];
    request.extend(SOCKET_ID);
    request.extend(CONNECTIONS.to_ne_bytes());
    request.extend([0; 4]);
    question(TCPDIAG_GETSOCK, &request, program)
}

/// The request for all UDP sockets of a family, as `struct inet_diag_req_v2`.
pub fn datagrams(family: Family, program: &[u8]) -> Vec<u8> {
    let mut request = vec![family as u8, IPPROTO_UDP, bit(attribute::SKMEMINFO), 0];
    request.extend(DATAGRAMS.to_ne_bytes());
    request.extend(SOCKET_ID);
    question(SOCK_DIAG_BY_FAMILY, &request, program)
}

fn question(kind: u16, request: &[u8], program: &[u8]) -> Vec<u8> {
    let attribute = if program.is_empty() {
        0
    } else {
        4 + aligned(program.len())
    };
    let length = NETLINK_HEADER + request.len() + attribute;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    // Number and sender: there is one request at a time on each socket.
    bytes.extend([0; 8]);
    bytes.extend(request);
    if !program.is_empty() {
        bytes.extend(((4 + program.len()) as u16).to_ne_bytes());
        bytes.extend(INET_DIAG_REQ_BYTECODE.to_ne_bytes());
        bytes.extend(program);
        bytes.resize(length, 0);
    }
    bytes
}

/// The extensions to include. `INET_DIAG_MEMINFO` is a part of `INET_DIAG_SKMEMINFO`; the states of DCTCP and BBR come
/// with `INET_DIAG_VEGASINFO`.
const OF_CONNECTIONS: u8 = bit(attribute::INFO)
    | bit(attribute::VEGASINFO)
    | bit(attribute::CONG)
    | bit(attribute::TOS)
    | bit(attribute::TCLASS)
    | bit(attribute::SKMEMINFO);

const fn bit(attribute: u16) -> u8 {
    1 << (attribute - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_for_connections_is_this_message() {
        let bytes = connections(&[]);
        assert_eq!(bytes.len(), 76);
        assert_eq!(bytes[..8], [76, 0, 0, 0, 18, 0, 1, 3]);
        // Family, lengths of addresses, extensions 2 to 7.
        assert_eq!(bytes[16..20], [2, 0, 0, 0b0111_1110]);
        assert_eq!(bytes[68..72], CONNECTIONS.to_ne_bytes());
        assert!(
            bytes[20..68]
                .iter()
                .chain(&bytes[72..])
                .all(|byte| *byte == 0)
        );
    }

    #[test]
    fn the_question_for_datagrams_is_this_message_and_the_filter_stands_behind_it() {
        let bytes = datagrams(Family::Ipv6, &[1, 4, 8, 0]);
        assert_eq!(bytes.len(), 80);
        assert_eq!(bytes[..8], [80, 0, 0, 0, 20, 0, 1, 3]);
        // Family, protocol, extension 7, states.
        assert_eq!(bytes[16..24], [10, 17, 0b0100_0000, 0, 0x82, 0, 0, 0]);
        assert!(bytes[24..72].iter().all(|byte| *byte == 0));
        assert_eq!(bytes[72..], [8, 0, 1, 0, 1, 4, 8, 0]);
    }

    #[test]
    fn the_states_are_those_of_connections() {
        for listed in [1, 2, 3, 4, 5, 8, 9, 11] {
            assert_ne!(CONNECTIONS & (1 << listed), 0, "{listed}");
        }
        // TIME-WAIT, CLOSE, LISTEN.
        for left_out in [6, 7, 10] {
            assert_eq!(CONNECTIONS & (1 << left_out), 0, "{left_out}");
        }
    }
}
