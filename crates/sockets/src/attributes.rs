//! Netlink attributes (linux/netlink.h, `struct nlattr`): a length, a type, and a payload, aligned to four bytes.

/// The top two bits of a type are flags for its payload.
const TYPE: u16 = 0x3fff;
const HEADER: usize = 4;

/// The attributes in a byte string, as (type, payload). Ends at an invalid length.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    left: &'a [u8],
}

impl<'a> Attributes<'a> {
    pub fn new(bytes: &'a [u8]) -> Attributes<'a> {
        Attributes { left: bytes }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.left, 0)?);
        let kind = u16_at(self.left, 2)? & TYPE;
        let payload = self.left.get(HEADER..length)?;
        self.left = self.left.get(aligned(length)..).unwrap_or_default();
        Some((kind, payload))
    }
}

/// Appends an attribute.
pub fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend((HEADER as u16 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(aligned(bytes.len()), 0);
}

/// The next multiple of four, netlink's alignment.
pub fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array_at(bytes, offset).map(u16::from_ne_bytes)
}

pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array_at(bytes, offset).map(u32::from_ne_bytes)
}

pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    array_at(bytes, offset).map(u64::from_ne_bytes)
}

fn array_at<const SIZE: usize>(bytes: &[u8], offset: usize) -> Option<[u8; SIZE]> {
    bytes
        .get(offset..offset.checked_add(SIZE)?)?
        .try_into()
        .ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes an attribute as the kernel does, with padding.
    pub(crate) fn written(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, kind, payload);
        bytes
    }

    #[test]
    fn a_length_that_is_shorter_than_its_header_or_longer_than_the_rest_ends_them() {
        for length in [0_u16, 3, 9, u16::MAX] {
            let bytes = [&length.to_ne_bytes()[..], &[7, 0, 1, 2, 3, 4]].concat();
            assert_eq!(Attributes::new(&bytes).next(), None, "{length}");
        }
    }

    #[test]
    fn the_padding_behind_the_last_one_may_be_missing() {
        let mut bytes = written(4, b"cubic");
        bytes.truncate(9);
        assert_eq!(
            Attributes::new(&bytes).collect::<Vec<_>>(),
            [(4, &b"cubic"[..])]
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            all in prop::collection::vec((0..TYPE, prop::collection::vec(any::<u8>(), 0..40)), 0..10)
        ) {
            let bytes: Vec<u8> = all.iter().flat_map(|(kind, payload)| written(*kind, payload)).collect();
            let read: Vec<_> = Attributes::new(&bytes).map(|(kind, payload)| (kind, payload.to_vec())).collect();
            prop_assert_eq!(read, all);
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Attributes::new(&bytes).count() <= bytes.len() / HEADER);
        }
    }
}
