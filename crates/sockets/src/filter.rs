//! A selection of sockets in the kernel's format: a program of conditional jumps (linux/inet_diag.h,
//! `INET_DIAG_REQ_BYTECODE`), so that of a million sockets only the selected ones are copied.

use std::net::IpAddr;

use crate::message::Socket;

/// The selected sockets. Any entry of each list suffices; an empty list selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Ports of either end.
    pub ports: Vec<u16>,
    /// Addresses of the remote end.
    pub networks: Vec<Network>,
    /// Numbers of control groups (version 2), each without its descendants.
    pub cgroups: Vec<u64>,
}

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

/// The most conditions: the program's jumps reach 64 KiB.
pub const MOST_CONDITIONS: usize = 512;

const BC_JMP: u8 = 1;
const BC_S_COND: u8 = 7;
const BC_D_COND: u8 = 8;
const BC_CGROUP_COND: u8 = 13;
const OPERATION: usize = 4;
const ANY_PORT: i32 = -1;
const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

impl Network {
    /// `None` if the address does not have this many bits.
    pub fn new(address: IpAddr, prefix_bits: u8) -> Option<Network> {
        let most = if address.is_ipv4() { 32 } else { 128 };
        (prefix_bits <= most).then_some(Network {
            address,
            prefix_bits,
        })
    }

    pub fn contains(&self, other: IpAddr) -> bool {
        let bits = u32::from(self.prefix_bits);
        match (self.address, other) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                (ours.to_bits() ^ other.to_bits()).leading_zeros() >= bits
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                (ours.to_bits() ^ other.to_bits()).leading_zeros() >= bits
            }
            _ => false,
        }
    }
}

impl Filter {
    /// The number of its conditions; see [`MOST_CONDITIONS`].
    pub fn conditions(&self) -> usize {
        2 * self.ports.len() + self.networks.len() + self.cgroups.len()
    }

    /// Applies the filter in user space, to sockets that the kernel reports unasked. Sockets with missing information
    /// (the control group of a socket that is gone) are not selected.
    pub fn wants(&self, socket: &Socket<'_>) -> bool {
        let any = |list: bool, found: bool| list || found;
        any(
            self.ports.is_empty(),
            self.ports.contains(&socket.local.port()) || self.ports.contains(&socket.remote.port()),
        ) && any(
            self.networks.is_empty(),
            self.networks
                .iter()
                .any(|network| network.contains(socket.remote.ip())),
        ) && any(
            self.cgroups.is_empty(),
            socket
                .cgroup_id
                .is_some_and(|id| self.cgroups.contains(&id)),
        )
    }

    /// The program; empty if everything is selected.
    pub fn bytecode(&self) -> Vec<u8> {
        let ports = self
            .ports
            .iter()
            .flat_map(|port| [BC_S_COND, BC_D_COND].map(|side| host_port(side, *port)));
        let networks = self
            .networks
            .iter()
            .map(|network| host_in(BC_D_COND, network));
        let cgroups = self.cgroups.iter().map(|id| cgroup(*id));
        [any(ports), any(networks), any(cgroups)]
            .into_iter()
            .reduce(both)
            .unwrap_or_default()
    }
}

// A piece of the program continues after its end if its condition is true, and four bytes further if it is false.

/// One condition: if it is false, the jump leads four bytes past its end.
fn condition(code: u8, argument: &[u8]) -> Vec<u8> {
    let length = OPERATION + argument.len();
    let mut bytes = vec![code, length as u8];
    bytes.extend(((length + OPERATION) as u16).to_ne_bytes());
    bytes.extend(argument);
    bytes
}

/// `struct inet_diag_hostcond`: one end's port.
fn host_port(side: u8, port: u16) -> Vec<u8> {
    let mut argument = vec![AF_UNSPEC, 0, 0, 0];
    argument.extend(i32::from(port).to_ne_bytes());
    condition(side, &argument)
}

/// `struct inet_diag_hostcond`: one end's address.
fn host_in(side: u8, network: &Network) -> Vec<u8> {
    let (family, address) = match network.address {
        IpAddr::V4(address) => (AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, address.octets().to_vec()),
    };
    let mut argument = vec![family, network.prefix_bits, 0, 0];
    argument.extend(ANY_PORT.to_ne_bytes());
    argument.extend(address);
    condition(side, &argument)
}

fn cgroup(id: u64) -> Vec<u8> {
    condition(BC_CGROUP_COND, &id.to_ne_bytes())
}

/// Combines conditions with "or": each but the last is followed by a jump to the end, which false conditions skip.
fn any(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let pieces: Vec<_> = pieces.collect();
    let mut program = Vec::new();
    for piece in pieces.into_iter().rev() {
        if program.is_empty() {
            program = piece;
            continue;
        }
        let mut longer = piece;
        longer.extend([BC_JMP, OPERATION as u8]);
        longer.extend(((OPERATION + program.len()) as u16).to_ne_bytes());
        longer.extend(program);
        program = longer;
    }
    program
}

/// Combines two conditions with "and"; an empty one is always true.
fn both(first: Vec<u8>, second: Vec<u8>) -> Vec<u8> {
    let mut program = first;
    let failed = program.len() + OPERATION;
    let mut place = 0;
    // If the first is false, the second does not matter.
    while place < program.len() {
        let no = usize::from(u16::from_ne_bytes([program[place + 2], program[place + 3]]));
        if place + no == failed {
            program[place + 2..place + 4]
                .copy_from_slice(&((no + second.len()) as u16).to_ne_bytes());
        }
        place += usize::from(program[place + 1]);
    }
    program.extend(second);
    program
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::message::tests::message;

    /// Runs a program as the kernel does (net/ipv4/inet_diag.c, `inet_diag_bc_run`); `None` if it would refuse the
    /// program (`inet_diag_bc_audit`).
    fn run(program: &[u8], local: SocketAddr, remote: SocketAddr, cgroup: u64) -> Option<bool> {
        let (mut place, end) = (0_usize, program.len());
        while place < end {
            let (code, yes) = (program[place], usize::from(program[place + 1]));
            let no = usize::from(u16::from_ne_bytes([program[place + 2], program[place + 3]]));
            if yes < 4 || yes % 4 != 0 || no < yes || no % 4 != 0 || place + no > end + 4 {
                return None;
            }
            let argument = &program[place + 4..place + yes];
            let holds = match code {
                BC_JMP => false,
                BC_CGROUP_COND => argument == cgroup.to_ne_bytes(),
                BC_S_COND | BC_D_COND => {
                    let side = if code == BC_S_COND { local } else { remote };
                    let port = i32::from_ne_bytes(argument[4..8].try_into().unwrap());
                    let address = match side.ip() {
                        IpAddr::V4(address) => (AF_INET, address.octets().to_vec()),
                        IpAddr::V6(address) => (AF_INET6, address.octets().to_vec()),
                    };
                    let bits = usize::from(argument[1]);
                    let same = |bit: usize| {
                        (argument[8 + bit / 8] ^ address.1[bit / 8]) >> (7 - bit % 8) & 1 == 0
                    };
                    (port == ANY_PORT || port == i32::from(side.port()))
                        && (argument[0] == AF_UNSPEC || argument[0] == address.0)
                        && (0..bits).all(same)
                }
                _ => return None,
            };
            place += if holds { yes } else { no };
        }
        Some(place == end)
    }

    fn network(text: &str, bits: u8) -> Network {
        Network::new(text.parse().unwrap(), bits).unwrap()
    }

    #[test]
    fn one_port_of_either_end_is_this_program() {
        let filter = Filter {
            ports: vec![443],
            ..Filter::default()
        };
        let condition =
            |code, no: u8| [&[code, 12, no, 0, 0, 0, 0, 0][..], &[0xbb, 1, 0, 0]].concat();
        // If the first is true, it leads to the jump to the end, otherwise to the second.
        let expected = [condition(7, 16), vec![1, 4, 16, 0], condition(8, 16)].concat();
        assert_eq!(filter.bytecode(), expected);
    }

    #[test]
    fn who_wants_everything_needs_no_program() {
        assert_eq!(Filter::default().bytecode(), Vec::<u8>::new());
    }

    #[test]
    fn a_network_holds_the_addresses_that_begin_as_it_does() {
        let net = network("192.0.2.128", 25);
        assert!(net.contains("192.0.2.200".parse().unwrap()));
        assert!(!net.contains("192.0.2.1".parse().unwrap()));
        assert!(!net.contains("::ffff:192.0.2.200".parse().unwrap()));
        assert!(network("::", 0).contains("2001:db8::1".parse().unwrap()));
        assert_eq!(Network::new("192.0.2.1".parse().unwrap(), 33), None);
    }

    fn addresses() -> impl Strategy<Value = SocketAddr> {
        // Few of each, so that they coincide.
        let address = prop_oneof![
            (0_u8..4).prop_map(|last| IpAddr::from([192, 0, 2, last << 6])),
            (0_u16..4).prop_map(|last| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last << 14])),
        ];
        (address, 1_u16..5).prop_map(|(address, port)| SocketAddr::new(address, port))
    }

    fn filters() -> impl Strategy<Value = Filter> {
        let networks = (addresses(), 0_u8..=32).prop_map(|(address, bits)| {
            let bits = if address.is_ipv6() { 96 + bits } else { bits };
            Network::new(address.ip(), bits).unwrap()
        });
        (
            prop::collection::vec(1_u16..5, 0..4),
            prop::collection::vec(networks, 0..4),
            prop::collection::vec(1_u64..4, 0..3),
        )
            .prop_map(|(ports, networks, cgroups)| Filter {
                ports,
                networks,
                cgroups,
            })
    }

    proptest! {
        #[test]
        fn the_kernel_wants_what_we_want(
            filter in filters(), local in addresses(), remote in addresses(), cgroup in 1_u64..4
        ) {
            let bytes = message(1, 0, &[]);
            let mut socket = Socket::parse(&bytes).unwrap();
            (socket.local, socket.remote, socket.cgroup_id) = (local, remote, Some(cgroup));
            prop_assert_eq!(run(&filter.bytecode(), local, remote, cgroup), Some(filter.wants(&socket)));
        }
    }
}
