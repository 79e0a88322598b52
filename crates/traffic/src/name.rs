//! The name of a secret: with it a client shows, unencrypted, which of a responder's secrets it has.

use std::fmt;

/// The longest name.
pub const NAME_BYTES: usize = 32;

/// Letters, digits, `-`, `_` and `.`, at most [`NAME_BYTES`]; none for a secret without a name. Padded with zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name([u8; NAME_BYTES]);

impl Name {
    /// # Errors
    /// What a name may have, and what this text has.
    pub fn new(text: &str) -> Result<Name, String> {
        let mut bytes = [0; NAME_BYTES];
        let is_valid = (1..=NAME_BYTES).contains(&text.len()) && text.bytes().all(may_be_in_name);
        if !is_valid {
            return Err(format!(
                "the name '{}': expected letters, digits, '-', '_' or '.', at most {NAME_BYTES}",
                text.escape_debug()
            ));
        }
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Name(bytes))
    }

    /// Reads the name in a client's hello; `None` if it is invalid.
    pub fn decode(bytes: [u8; NAME_BYTES]) -> Option<Name> {
        let length = bytes.iter().position(|&byte| byte == 0);
        let (name, padding) = bytes.split_at(length.unwrap_or(NAME_BYTES));
        let is_valid =
            name.iter().copied().all(may_be_in_name) && padding.iter().all(|&byte| byte == 0);
        is_valid.then_some(Name(bytes))
    }

    pub fn bytes(&self) -> &[u8; NAME_BYTES] {
        &self.0
    }

    /// True for the name of a secret without a name.
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.iter().take_while(|&&byte| byte != 0);
        name.map(|&byte| char::from(byte))
            .try_for_each(|character| write!(formatter, "{character}"))
    }
}

fn may_be_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_as_it_was_written() {
        for text in ["a", "probe-7.example_net", &"x".repeat(NAME_BYTES)] {
            let name = Name::new(text).unwrap();
            assert_eq!(name.to_string(), text);
            assert_eq!(Name::decode(*name.bytes()), Some(name));
        }
        let none = Name::default();
        assert!(none.is_empty());
        assert_eq!(Name::decode(*none.bytes()), Some(none));
    }

    #[test]
    fn other_characters_and_longer_names_are_refused() {
        for text in [
            "",
            "a b",
            "ä",
            "a/b",
            "a\u{1b}",
            &"x".repeat(NAME_BYTES + 1),
        ] {
            let message = Name::new(text).unwrap_err();
            assert!(message.contains("expected letters, digits"), "{message}");
        }
        let mut bytes = *Name::new("ab").unwrap().bytes();
        bytes[1] = b' ';
        assert_eq!(Name::decode(bytes), None);
        bytes[1] = 0;
        bytes[2] = b'c';
        assert_eq!(Name::decode(bytes), None);
    }
}
