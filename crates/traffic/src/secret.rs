//! The secret that a responder and a client share: random by making, or chosen, and then refused where it is weak and
//! stretched.
//!
//! A client that does not know the secret gets one answer of the responder with which it can try secrets offline. A
//! secret made by [`random`] has too many possible values for that. For others, each trial costs what [`Secret::new`]
//! costs: 32 MiB of memory, three times.

use scrypt::{Params, scrypt};
use sha2::{Digest, Sha256};

use crate::auth::Bytes32;
use crate::name::Name;

/// Shorter secrets are refused.
const SHORTEST_BYTES: usize = 16;
/// The characters that must not follow from those before them, by repetition or by counting.
const LEAST_NEW: usize = 10;

/// How secrets made by [`random`] begin.
const PREFIX: &str = "whydrop-";
/// No computer tries 2^160 secrets.
const RANDOM_BYTES: usize = 20;
/// Characters that show a typing mistake.
const CHECK_CHARACTERS: usize = 4;

/// Parameters of scrypt (RFC 7914), of the Password Storage Cheat Sheet of OWASP: N = 2^15, r = 8, p = 3.
const STRETCHING: (u8, u32, u32) = (15, 8, 3);
/// Both ends must get the same key from the same text, so the salt is one for all.
const SALT: &[u8] = b"whydrop 5 secret";

const ADVICE: &str = "make a good one with: whydrop secret -o FILE";

/// The key that both ends know, which is never shown, and its name.
#[derive(Clone)]
pub struct Secret {
    name: Name,
    key: Bytes32,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Secret({}..)", self.name)
    }
}

impl Secret {
    /// Reads a line with a secret, or with a name and a secret made by [`random`], and checks it. White space around
    /// it is ignored. A secret that was not made is stretched, which takes some tenths of a second.
    ///
    /// # Errors
    /// A message if the secret is too weak or not as it was made, or the name is invalid.
    pub fn new(line: &[u8]) -> Result<Secret, String> {
        let line = line.trim_ascii();
        let (name, text) = match named(line) {
            Some((name, text)) => (Name::new(&String::from_utf8_lossy(name))?, text),
            None => (Name::default(), line),
        };
        check(text)?;
        let key = if text.starts_with(PREFIX.as_bytes()) {
            Sha256::digest([SALT, text].concat()).into()
        } else {
            stretched(text)
        };
        Ok(Secret { name, key })
    }

    pub fn name(&self) -> Name {
        self.name
    }

    pub(crate) fn key(&self) -> &Bytes32 {
        &self.key
    }

    /// A secret with a name and a key.
    pub(crate) fn of_key(name: Name, key: Bytes32) -> Secret {
        Secret { name, key }
    }
}

/// Splits a line with a name and a secret that was made. In other secrets the first word could be a part of the secret,
/// and names are sent unencrypted.
fn named(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = line.iter().position(u8::is_ascii_whitespace)?;
    let (name, rest) = line.split_at(end);
    let text = rest.trim_ascii();
    text.starts_with(PREFIX.as_bytes()).then_some((name, text))
}

/// True for a line with a name and a secret that was made.
pub(crate) fn has_name(line: &[u8]) -> bool {
    named(line).is_some()
}

fn stretched(text: &[u8]) -> Bytes32 {
    let (log_n, r, p) = STRETCHING;
    let mut key = [0; 32];
    let params = Params::new(log_n, r, p, key.len()).expect("the parameters are valid");
    scrypt(text, SALT, &params, &mut key).expect("the key has a valid length");
    key
}

/// Makes a random secret of 160 bits, with characters that show a typing mistake.
pub fn random() -> String {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
    let body = base32(&bytes);
    let check = check_characters(&body);
    format!("{PREFIX}{body}{check}")
}

fn check(text: &[u8]) -> Result<(), String> {
    if let Some(made) = text.strip_prefix(PREFIX.as_bytes()) {
        return check_made(made);
    }
    if text.len() < SHORTEST_BYTES {
        return Err(format!(
            "the secret has {} bytes; at least {SHORTEST_BYTES} are needed, since short ones can be guessed; {ADVICE}",
            text.len()
        ));
    }
    let new = new_characters(text);
    if new < LEAST_NEW {
        return Err(format!(
            "the secret is easy to guess: {new} of its {} characters do not follow from those before them, and at \
             least {LEAST_NEW} are needed; {ADVICE}",
            text.len()
        ));
    }
    Ok(())
}

fn check_made(made: &[u8]) -> Result<(), String> {
    let is_intact = std::str::from_utf8(made)
        .ok()
        .and_then(|made| made.split_at_checked(made.len().saturating_sub(CHECK_CHARACTERS)))
        .is_some_and(|(body, check)| {
            body.len() == RANDOM_BYTES * 8 / 5 && check == check_characters(body)
        });
    if is_intact {
        return Ok(());
    }
    Err(format!(
        "the secret begins with {PREFIX}, but a part of it is missing or was changed: copy it again, or {ADVICE}"
    ))
}

/// Counts the characters that neither repeat or continue the one before them ("aaaa", "1234"), nor end a pair that
/// occurs earlier ("abcabc").
fn new_characters(text: &[u8]) -> usize {
    let follows = |place: usize| {
        let pair = &text[place - 1..=place];
        pair[0].abs_diff(pair[1]) <= 1 || text[..place].windows(2).any(|earlier| earlier == pair)
    };
    (0..text.len())
        .filter(|&place| place == 0 || !follows(place))
        .count()
}

/// Encodes bytes in base 32 (RFC 4648, lower case, without padding).
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bit = |place: usize| {
        bytes
            .get(place / 8)
            .map_or(0, |byte| byte >> (7 - place % 8) & 1)
    };
    (0..(bytes.len() * 8).div_ceil(5))
        .map(|group| (0..5).fold(0, |value, place| value << 1 | bit(group * 5 + place)))
        .map(|value| char::from(ALPHABET[usize::from(value)]))
        .collect()
}

fn check_characters(body: &str) -> String {
    let mut characters = base32(&Sha256::digest(body));
    characters.truncate(CHECK_CHARACTERS);
    characters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weak_secret_is_refused_and_its_message_says_how_to_make_a_good_one() {
        for (weak, expected) in [
            ("  short  \n", "5 bytes"),
            ("aaaaaaaaaaaaaaaaaaaaaaaa", "easy to guess"),
            ("0123456789abcdefghijklmnop", "easy to guess"),
            ("passwordpasswordpassword", "easy to guess"),
            ("letmeinletmeinletmein", "easy to guess"),
        ] {
            let message = Secret::new(weak.as_bytes()).unwrap_err();
            assert!(message.contains(expected), "{message}");
            assert!(message.contains("whydrop secret -o FILE"), "{message}");
        }
        assert_eq!(check(b"a secret of some length"), Ok(()));
    }

    #[test]
    fn random_secrets_differ_are_accepted_and_show_a_typing_mistake() {
        let made = random();
        assert_ne!(made, random());
        assert_eq!(check(made.as_bytes()), Ok(()));
        for place in PREFIX.len()..made.len() {
            let mut wrong = made.clone().into_bytes();
            wrong[place] = if wrong[place] == b'a' { b'b' } else { b'a' };
            assert!(check(&wrong).unwrap_err().contains("copy it again"));
        }
        for wrong in [&made[..made.len() - 1], PREFIX, "whydrop-ä"] {
            assert!(check(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn base_32_is_that_of_the_standard() {
        // RFC 4648, section 10.
        for (bytes, text) in [
            ("", ""),
            ("f", "my"),
            ("fo", "mzxq"),
            ("foobar", "mzxw6ytboi"),
        ] {
            assert_eq!(base32(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn the_same_text_gives_the_same_key_and_another_text_another_one() {
        let key = |text: &[u8]| *Secret::new(text).unwrap().key();
        let one = key(b"a secret of some length\n");
        assert_eq!(one, key(b"a secret of some length"));
        assert_ne!(one, key(b"another secret of some length"));
    }

    #[test]
    fn a_made_secret_may_have_a_name_before_it() {
        let made = random();
        let bare = Secret::new(made.as_bytes()).unwrap();
        assert!(bare.name().is_empty());
        let named = Secret::new(format!(" alice \t{made}\r\n").as_bytes()).unwrap();
        assert_eq!(named.name(), Name::new("alice").unwrap());
        assert_eq!(named.key(), bare.key());
        let message = Secret::new(format!("al/ice {made}").as_bytes()).unwrap_err();
        assert!(message.contains("the name 'al/ice'"), "{message}");
    }

    #[test]
    fn the_first_word_of_a_chosen_secret_is_no_name() {
        let chosen = Secret::new(b"alice a secret of some length").unwrap();
        assert!(chosen.name().is_empty());
    }

    #[test]
    fn a_secret_is_not_shown_when_it_is_printed_for_debugging() {
        let secret = Secret::of_key(Name::new("alice").unwrap(), [7; 32]);
        assert_eq!(format!("{secret:?}"), "Secret(alice..)");
    }
}
