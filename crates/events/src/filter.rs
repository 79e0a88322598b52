//! The selection of connections: the programs report the events of these.

use std::net::IpAddr;

/// Values of one kind beyond this are not compared in the kernel: programs must be short.
const MOST: usize = 64;

/// A selection: connections match one value of each kind that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Number of the network namespace.
    pub namespace: u32,
    /// Ports of either end.
    pub ports: Vec<u16>,
    /// Addresses of the other end, each with the length of its prefix.
    pub networks: Vec<(IpAddr, u8)>,
}

impl Filter {
    /// The ports to compare in the kernel; empty: all.
    pub fn few_ports(&self) -> &[u16] {
        if self.ports.len() <= MOST {
            &self.ports
        } else {
            &[]
        }
    }

    /// The networks to compare in the kernel; empty: all.
    pub fn few_networks(&self) -> &[(IpAddr, u8)] {
        if self.networks.len() <= MOST {
            &self.networks
        } else {
            &[]
        }
    }
}

/// The words of an address in its own order, each with the mask of a prefix.
pub fn words(address: IpAddr, prefix: u8) -> Vec<(u32, u32)> {
    let bytes = match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    };
    bytes
        .chunks(4)
        .enumerate()
        .map(|(place, part)| {
            let word = part
                .iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte));
            let bits = usize::from(prefix).saturating_sub(32 * place).min(32) as u32;
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            (word & mask, mask)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_masks_the_bits_after_it() {
        let four = words("192.0.2.77".parse().unwrap(), 24);
        assert_eq!(four, [(0xc000_0200, 0xffff_ff00)]);
        assert_eq!(words("192.0.2.77".parse().unwrap(), 0), [(0, 0)]);
        let six = words("2001:db8::7".parse().unwrap(), 48);
        assert_eq!(six[..2], [(0x2001_0db8, u32::MAX), (0, 0xffff_0000)]);
        assert_eq!(six[2..], [(0, 0), (0, 0)]);
    }

    #[test]
    fn a_long_list_is_not_compared_in_the_kernel() {
        let ports = (1..=65).collect();
        let filter = Filter {
            ports,
            ..Filter::default()
        };
        assert!(filter.few_ports().is_empty());
    }
}
