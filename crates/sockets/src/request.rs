//! Questions to `sock_diag(7)`: which sockets, and what to tell of them.

use crate::attributes::aligned;
use crate::message::attribute;

pub const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
/// `NLM_F_ROOT | NLM_F_MATCH`.
const NLM_F_DUMP: u16 = 0x300;
const INET_DIAG_REQ_BYTECODE: u16 = 1;
const NETLINK_HEADER: usize = 16;
/// `struct inet_diag_req_v2`.
const REQUEST: usize = 56;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Ipv4 = 2,
    Ipv6 = 10,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp = 6,
    Udp = 17,
}

/// One bit a state, as `1 << TCP_ESTABLISHED`. Connections that have, had or will have two ends; without TIME-WAIT,
/// which has nothing to tell, and listeners, which are none.
pub const CONNECTIONS: u32 = (1 << 1)    // established
    | (1 << 2) | (1 << 3)                // SYN sent, received
    | (1 << 4) | (1 << 5)                // FIN-WAIT-1, FIN-WAIT-2
    | (1 << 8) | (1 << 9) | (1 << 11); // CLOSE-WAIT, LAST-ACK, CLOSING
/// UDP sockets with a peer are `TCP_ESTABLISHED`, those without `TCP_CLOSE`.
pub const DATAGRAMS: u32 = (1 << 1) | (1 << 7);

/// The message that asks for all sockets of a family and protocol in these states for which the program
/// ([`crate::filter`]) holds.
pub fn dump(family: Family, protocol: Protocol, states: u32, program: &[u8]) -> Vec<u8> {
    let attribute = if program.is_empty() {
        0
    } else {
        4 + aligned(program.len())
    };
    let length = NETLINK_HEADER + REQUEST + attribute;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    // Number and sender: there is one question at a time on each socket.
    bytes.extend([0; 8]);
    bytes.extend([family as u8, protocol as u8, extensions(protocol), 0]);
    bytes.extend(states.to_ne_bytes());
    bytes.resize(NETLINK_HEADER + REQUEST, 0);
    if !program.is_empty() {
        bytes.extend(((4 + program.len()) as u16).to_ne_bytes());
        bytes.extend(INET_DIAG_REQ_BYTECODE.to_ne_bytes());
        bytes.extend(program);
        bytes.resize(length, 0);
    }
    bytes
}

/// The extensions to report beside the message itself. `INET_DIAG_MEMINFO` is a part of `INET_DIAG_SKMEMINFO`; the
/// states of DCTCP and BBR come with `INET_DIAG_VEGASINFO`.
fn extensions(protocol: Protocol) -> u8 {
    let bit = |attribute: u16| 1_u8 << (attribute - 1);
    match protocol {
        Protocol::Tcp => {
            bit(attribute::INFO)
                | bit(attribute::VEGASINFO)
                | bit(attribute::CONG)
                | bit(attribute::TOS)
                | bit(attribute::TCLASS)
                | bit(attribute::SKMEMINFO)
        }
        Protocol::Udp => bit(attribute::SKMEMINFO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_without_a_filter_is_this_message() {
        let bytes = dump(Family::Ipv6, Protocol::Tcp, 0x10, &[]);
        assert_eq!(bytes.len(), 72);
        assert_eq!(bytes[..8], [72, 0, 0, 0, 20, 0, 1, 3]);
        // Family, protocol, extensions 2 to 7, states.
        assert_eq!(bytes[16..24], [10, 6, 0b0111_1110, 0, 0x10, 0, 0, 0]);
        assert!(bytes[24..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn the_filter_stands_behind_it() {
        let bytes = dump(Family::Ipv4, Protocol::Udp, DATAGRAMS, &[1, 4, 8, 0]);
        assert_eq!(bytes.len(), 80);
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
