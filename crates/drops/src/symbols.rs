//! Names of kernel functions by addresses in them, from /proc/kallsyms.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};

/// More places than those where the kernel drops packets.
const MOST: usize = 8192;

/// A cache of symbols.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    known: HashMap<u64, String>,
}

impl Symbols {
    /// Looks up the functions that contain these addresses. Call it with all of them before [`Symbols::name`], since
    /// the kernel's list is long. Without the privilege (`CAP_SYSLOG`, or `kernel.kptr_restrict`) the list contains
    /// zeros, and no name is known.
    pub fn look_up(&mut self, addresses: impl Iterator<Item = u64>) {
        let mut unknown: Vec<u64> = addresses
            .filter(|address| *address != 0 && !self.known.contains_key(address))
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        if unknown.is_empty() || self.known.len() + unknown.len() > MOST {
            return;
        }
        let found = match std::fs::File::open("/proc/kallsyms") {
            Ok(file) => nearest(BufReader::new(file), &unknown),
            Err(_) => HashMap::new(),
        };
        for address in unknown {
            let name = found.get(&address).cloned().unwrap_or_default();
            self.known.insert(address, name);
        }
    }

    /// The function's name; empty if unknown.
    pub fn name(&self, address: u64) -> &str {
        self.known.get(&address).map_or("", String::as_str)
    }
}

/// For each address, in ascending order, the symbol with the highest address not above it.
fn nearest(mut list: impl BufRead, addresses: &[u64]) -> HashMap<u64, String> {
    let mut best: Vec<(u64, String)> = vec![(0, String::new()); addresses.len()];
    let mut line = String::new();
    while list.read_line(&mut line).is_ok_and(|length| length > 0) {
        let mut parts = line.split_ascii_whitespace();
        if let (Some(at), Some(kind), Some(name)) = (parts.next(), parts.next(), parts.next())
            && let Ok(at) = u64::from_str_radix(at, 16)
            && matches!(kind, "t" | "T" | "w" | "W")
            && at != 0
        {
            let first = addresses.partition_point(|address| *address < at);
            for known in &mut best[first..] {
                if known.0 >= at {
                    // Later addresses have a symbol that is at least as near.
                    break;
                }
                *known = (at, name.to_owned());
            }
        }
        line.clear();
    }
    let named = addresses.iter().zip(best);
    named
        .filter(|(_, (at, _))| *at != 0)
        .map(|(address, (_, name))| (*address, name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_function_below_an_address_is_the_one() {
        let list = "\
0000000000000000 t nothing
0000000000000300 T last
0000000000000100 t first
0000000000000180 d data
0000000000000200 T middle [module]
";
        let found = nearest(list.as_bytes(), &[0x50, 0x100, 0x1ff, 0x2ff, 0x999]);
        assert_eq!(found.get(&0x50), None);
        for (address, name) in [
            (0x100, "first"),
            (0x1ff, "first"),
            (0x2ff, "middle"),
            (0x999, "last"),
        ] {
            assert_eq!(found[&address], name);
        }
    }
}
