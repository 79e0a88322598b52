//! The header and the question of a DNS message (RFC 1035, section 4.1).

use std::hash::{DefaultHasher, Hash, Hasher};

const HEADER_BYTES: usize = 12;
const ANSWER: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
const TRUNCATED: u16 = 0x0200;
const RESPONSE_CODE: u16 = 0x000f;
/// Longest name, with the lengths of its labels, and longest label.
const MOST_NAME_BYTES: usize = 255;
const MOST_LABEL_BYTES: u8 = 63;

/// The response codes with separate meanings here (RFC 1035, section 4.1.1; RFC 6895).
pub(crate) const NO_ERROR: u8 = 0;
pub(crate) const NO_SUCH_NAME: u8 = 3;
pub(crate) const REFUSED: u8 = 5;

/// A query or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DnsMessage {
    pub id: u16,
    pub is_answer: bool,
    /// The answer did not fit, and must be requested over TCP.
    pub is_truncated: bool,
    pub response_code: u8,
    /// A hash of name, type and class, equal for equal questions.
    pub question: u64,
}

/// Parses a message with one question; `None` for anything else.
pub(crate) fn read(payload: &[u8]) -> Option<DnsMessage> {
    let header: &[u8; HEADER_BYTES] = payload.first_chunk()?;
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let flags = field(2);
    if flags & OPCODE != 0 || field(4) != 1 {
        return None;
    }
    let mut question = DefaultHasher::new();
    let rest = walk_name(payload.get(HEADER_BYTES..)?, |label| {
        label.to_ascii_lowercase().hash(&mut question);
    })?;
    let kind_and_class: &[u8; 4] = rest.first_chunk()?;
    kind_and_class.hash(&mut question);
    Some(DnsMessage {
        id: field(0),
        is_answer: flags & ANSWER != 0,
        is_truncated: flags & TRUNCATED != 0,
        response_code: (flags & RESPONSE_CODE) as u8,
        question: question.finish(),
    })
}

/// The requested name in printable form.
pub(crate) fn name(payload: &[u8]) -> Option<String> {
    let mut labels: Vec<String> = Vec::new();
    walk_name(payload.get(HEADER_BYTES..)?, |label| {
        let printable = |byte: &u8| match byte.is_ascii_graphic() && *byte != b'.' {
            true => char::from(*byte),
            false => '?',
        };
        labels.push(label.iter().map(printable).collect());
    })?;
    Some(match labels.is_empty() {
        true => ".".to_owned(),
        false => labels.join("."),
    })
}

/// Calls `on_label` for each label of an uncompressed name, and returns the bytes after it.
fn walk_name(mut rest: &[u8], mut on_label: impl FnMut(&[u8])) -> Option<&[u8]> {
    let mut name_bytes = 0;
    loop {
        let (&length, after) = rest.split_first()?;
        if length == 0 {
            return Some(after);
        }
        let (label, after) = after.split_at_checked(usize::from(length))?;
        name_bytes += 1 + label.len();
        if length > MOST_LABEL_BYTES || name_bytes >= MOST_NAME_BYTES {
            return None;
        }
        on_label(label);
        rest = after;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A message with one question for an address.
    pub(crate) fn message(id: u16, flags: u16, name: &str) -> Vec<u8> {
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend([0, 1, 0, 0, 0, 0, 0, 0]);
        for label in name.split('.') {
            bytes.push(label.len() as u8);
            bytes.extend(label.as_bytes());
        }
        bytes.extend([0, 0, 1, 0, 1]);
        bytes
    }

    #[test]
    fn a_query_and_its_answer_have_the_same_question_in_any_case() {
        let query = read(&message(7, 0x0100, "www.Example.com")).expect("a query");
        let answer = read(&message(7, 0x8382, "www.example.COM")).expect("an answer");
        assert_eq!((query.id, query.is_answer), (7, false));
        assert_eq!(query.question, answer.question);
        assert_eq!(
            (answer.is_answer, answer.is_truncated, answer.response_code),
            (true, true, 2)
        );
        let other = read(&message(7, 0x0100, "www.example.net")).expect("a query");
        assert_ne!(query.question, other.question);
    }

    #[test]
    fn what_is_cut_off_is_no_message() {
        let whole = message(7, 0x0100, "www.example.com");
        assert!((0..whole.len()).all(|length| read(&whole[..length]).is_none()));
    }

    #[test]
    fn a_name_is_fit_for_printing() {
        let bytes = message(7, 0, "a\u{1b}b.example");
        assert_eq!(name(&bytes).as_deref(), Some("a?b.example"));
        assert_eq!(name(&message(7, 0, "")).as_deref(), Some("."));
    }
}
