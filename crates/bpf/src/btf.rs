//! The positions of members in the kernel's structures, from the type information (BTF) of the running kernel.
//!
//! Layout: `include/uapi/linux/btf.h`. A program built with these offsets fits the running kernel, whatever its
//! version.

use std::io;

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
const TYPE: usize = 12;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const POINTER: u32 = 2;
const FUNCTION: u32 = 13;
/// The deepest search through anonymous members: no structure is nested as deeply.
const DEEPEST: usize = 16;

/// The types of a kernel.
pub struct Btf {
    bytes: Vec<u8>,
    strings: usize,
    /// The position of each type, by its number; 0 is `void`.
    types: Vec<usize>,
}

impl Btf {
    /// Reads the types of the running kernel.
    ///
    /// # Errors
    /// The kernel provides none (`CONFIG_DEBUG_INFO_BTF`), or in an unknown format.
    pub fn of_kernel() -> io::Result<Btf> {
        Btf::parse(std::fs::read("/sys/kernel/btf/vmlinux")?)
    }

    fn parse(bytes: Vec<u8>) -> io::Result<Btf> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's BTF is damaged");
        let word = |at| word(&bytes, at).ok_or_else(damaged);
        if bytes.get(..2) != Some(&MAGIC.to_ne_bytes()) {
            return Err(damaged());
        }
        let header = word(4)? as usize;
        let (first, length) = (word(8)? as usize, word(12)? as usize);
        let strings = word(16)? as usize;
        if header < HEADER {
            return Err(damaged());
        }
        let begin = header.checked_add(first).ok_or_else(damaged)?;
        let end = begin.checked_add(length).ok_or_else(damaged)?;
        let strings = header.checked_add(strings).ok_or_else(damaged)?;
        let mut types = vec![0];
        let mut at = begin;
        while at < end {
            types.push(at);
            at = at
                .checked_add(TYPE + following(word(at + 4)?).ok_or_else(damaged)?)
                .ok_or_else(damaged)?;
        }
        Ok(Btf {
            bytes,
            strings,
            types,
        })
    }

    /// The offset of a member in bytes: `of("sock", "__sk_common.skc_net")`. Members of anonymous structures and unions
    /// belong to the enclosing structure, as in C.
    pub fn of(&self, structure: &str, path: &str) -> Option<u16> {
        let mut number = self.named(STRUCT, structure)?;
        let mut bits = 0;
        for name in path.split('.') {
            let (offset, kind) = self.member(number, name.as_bytes(), DEEPEST)?;
            bits += offset;
            number = self.plain(kind);
        }
        u16::try_from(bits / 8).ok()
    }

    /// The number of a tracepoint's arguments, which a program finds eight bytes apart; `None` if there is no such
    /// tracepoint.
    pub fn arguments(&self, tracepoint: &str) -> Option<usize> {
        let number = self.named(TYPEDEF, &format!("btf_trace_{tracepoint}"))?;
        let pointer = self.word(number, 8)? as usize;
        let function = self.word(pointer, 8)? as usize;
        if self.kind(pointer) != Some(POINTER) || self.kind(function) != Some(FUNCTION) {
            return None;
        }
        // The first is not passed to programs.
        (self.word(function, 4)? as usize & 0xffff).checked_sub(1)
    }

    /// The names and values of an enumeration; empty if there is none.
    pub fn values(&self, enumeration: &str) -> Vec<(String, u32)> {
        let Some(number) = self.named(ENUM, enumeration) else {
            return Vec::new();
        };
        let count = self.word(number, 4).unwrap_or(0) as usize & 0xffff;
        (0..count)
            .filter_map(|place| {
                let name = self.name(self.word(number, TYPE + 8 * place))?;
                let value = self.word(number, TYPE + 8 * place + 4)?;
                Some((String::from_utf8_lossy(name).into_owned(), value))
            })
            .collect()
    }

    /// The position of a member of some bits: its byte, the lowest bit in it, and the number of bits. Members of more
    /// than a byte are not found.
    pub fn bits_of(&self, structure: &str, member: &str) -> Option<(u16, u8, u8)> {
        let number = self.named(STRUCT, structure)?;
        let info = self.word(number, 4)?;
        for place in 0..info as usize & 0xffff {
            let at = TYPE + 12 * place;
            if self.name(self.word(number, at)) != Some(member.as_bytes()) {
                continue;
            }
            let packed = self.word(number, at + 8)?;
            let (bit, width) = if info >> 31 == 1 && packed >> 24 > 0 {
                (packed & 0xff_ffff, packed >> 24)
            } else {
                (
                    if info >> 31 == 1 {
                        packed & 0xff_ffff
                    } else {
                        packed
                    },
                    8,
                )
            };
            let (byte, lowest) = (u16::try_from(bit / 8).ok()?, (bit % 8) as u8);
            return (u32::from(lowest) + width <= 8).then_some((byte, lowest, width as u8));
        }
        None
    }

    /// The number of the first type of this kind and name.
    fn named(&self, kind: u32, name: &str) -> Option<usize> {
        (1..self.types.len()).find(|&number| {
            self.kind(number) == Some(kind)
                && self.name(self.word(number, 0)) == Some(name.as_bytes())
        })
    }

    /// The offset in bits of a member, and the number of its type.
    fn member(&self, number: usize, wanted: &[u8], deepest: usize) -> Option<(u32, usize)> {
        if deepest == 0 || !matches!(self.kind(number), Some(STRUCT | UNION)) {
            return None;
        }
        let info = self.word(number, 4)?;
        for place in 0..info & 0xffff {
            let at = TYPE + 12 * place as usize;
            let name = self.name(self.word(number, at))?;
            let kind = self.word(number, at + 4)? as usize;
            let packed = self.word(number, at + 8)?;
            // With the top bit set, the upper byte is the width of a bit field.
            let offset = if info >> 31 == 1 {
                packed & 0xff_ffff
            } else {
                packed
            };
            if name == wanted {
                return Some((offset, kind));
            }
            if name.is_empty()
                && let Some((inner, kind)) = self.member(self.plain(kind), wanted, deepest - 1)
            {
                return Some((offset + inner, kind));
            }
        }
        None
    }

    /// The number of a type without its typedefs and qualifiers.
    fn plain(&self, mut number: usize) -> usize {
        for _ in 0..DEEPEST {
            // TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG
            if !matches!(self.kind(number), Some(8..=11 | 18)) {
                break;
            }
            number = self.word(number, 8).unwrap_or(0) as usize;
        }
        number
    }

    fn kind(&self, number: usize) -> Option<u32> {
        self.word(number, 4).map(kind)
    }

    fn word(&self, number: usize, offset: usize) -> Option<u32> {
        let at = *self.types.get(number).filter(|_| number > 0)?;
        word(&self.bytes, at + offset)
    }

    fn name(&self, offset: Option<u32>) -> Option<&[u8]> {
        let rest = self.bytes.get(self.strings + offset? as usize..)?;
        rest.split(|&byte| byte == 0).next()
    }
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

/// How many bytes follow the head of a type.
fn following(info: u32) -> Option<usize> {
    let count = (info & 0xffff) as usize;
    Some(match kind(info) {
        1 | 14 | 17 => 4,              // INT, VAR, DECL_TAG
        3 => 12,                       // ARRAY
        4 | 5 | 15 | 19 => 12 * count, // STRUCT, UNION, DATASEC, ENUM64
        6 | 13 => 8 * count,           // ENUM, FUNC_PROTO
        2 | 7..=12 | 16 | 18 => 0, // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(four.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct a { int x; union { struct { int y; int z; }; }; const struct b w; }; struct b { int; int v; }`
    fn sample() -> Vec<u8> {
        let strings = b"\0a\0x\0y\0z\0w\0b\0v\0";
        let info = |kind: u32, count: u32| kind << 24 | count;
        let mut types: Vec<u32> = Vec::new();
        types.extend([0, info(1, 0), 4, 32]); // 1: int
        types.extend([1, info(4, 3), 20, 3, 1, 0, 0, 3, 32, 9, 6, 96]); // 2: struct a
        types.extend([0, info(5, 1), 8, 0, 4, 0]); // 3: the union
        types.extend([0, info(4, 2), 8, 5, 1, 0, 7, 1, 32]); // 4: what is in it
        types.extend([11, info(4, 1), 8, 13, 1, 32]); // 5: struct b
        types.extend([0, info(10, 0), 5]); // 6: const struct b
        let mut bytes = Vec::new();
        bytes.extend(MAGIC.to_ne_bytes());
        bytes.extend([1, 0]);
        for word in [
            24,
            0,
            4 * types.len() as u32,
            4 * types.len() as u32,
            strings.len() as u32,
        ] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(types.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_are_found_through_anonymous_ones_and_qualifiers() {
        let btf = Btf::parse(sample()).unwrap();
        assert_eq!(btf.of("a", "x"), Some(0));
        assert_eq!(btf.of("a", "z"), Some(8));
        assert_eq!(btf.of("a", "w.v"), Some(16));
        assert_eq!(btf.of("a", "nothing"), None);
        assert_eq!(btf.of("c", "x"), None);
    }

    #[test]
    fn damage_is_an_error_or_an_absent_member_and_never_a_panic() {
        let whole = sample();
        for cut in 0..whole.len() {
            if let Ok(btf) = Btf::parse(whole[..cut].to_vec()) {
                btf.of("a", "w.v");
            }
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            if let Ok(btf) = Btf::parse(changed) {
                btf.of("a", "w.v");
            }
        }
    }

    #[test]
    fn this_kernel_describes_where_a_packet_s_headers_are() {
        // Without BTF there is nothing to check.
        if let Ok(btf) = Btf::of_kernel() {
            assert!(btf.of("sk_buff", "network_header").is_some());
            assert!(btf.of("net_device", "nd_net").is_some());
            assert_eq!(btf.of("tcp_skb_cb", "seq"), Some(0));
            assert_eq!(btf.arguments("tcp_probe"), Some(2));
            assert_eq!(btf.arguments("no_such_tracepoint"), None);
            let states = btf.values("tcp_ca_state");
            assert!(states.contains(&("TCP_CA_Loss".to_owned(), 4)));
            let (_, lowest, width) = btf
                .bits_of("inet_connection_sock", "icsk_ca_state")
                .unwrap();
            assert!(lowest == 0 && width < 8);
        }
    }
}
