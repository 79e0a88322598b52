//! The message in which the kernel last told of a socket: at most polls it says the same again, and is not read anew.

use std::ops::Range;

use crate::info::AGES;
use crate::message::{Socket, UNREAD};

/// A message about a socket that has `tcp_info`.
#[derive(Clone, Debug)]
pub struct Answer {
    message: Vec<u8>,
    /// Where it tells how long ago things were, which changes by itself.
    ages: Range<usize>,
}

impl Answer {
    /// `None` without `tcp_info`.
    pub fn of(socket: &Socket<'_>) -> Option<Answer> {
        let start = socket.info_at? + AGES.start;
        Some(Answer {
            message: socket.message.to_vec(),
            ages: start..start + AGES.len(),
        })
    }

    pub fn socket(&self) -> Option<Socket<'_>> {
        Socket::parse(&self.message)
    }

    /// Takes a message's place that says the same but for how long ago things were, and for timers that nobody reads;
    /// false, and nothing is taken, if it says anything else.
    pub fn repeated_by(&mut self, message: &[u8]) -> bool {
        let same = |range: Range<usize>| self.message.get(range.clone()) == message.get(range);
        let [first, second] = UNREAD;
        let repeated = message.len() == self.message.len()
            && same(0..first.start)
            && same(first.end..second.start)
            && same(second.end..self.ages.start)
            && same(self.ages.end..message.len());
        if repeated {
            self.message[self.ages.clone()].copy_from_slice(&message[self.ages.clone()]);
        }
        repeated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::tests::written;
    use crate::message::attribute;
    use crate::message::tests::message;

    fn told() -> Vec<u8> {
        let attributes = [
            written(attribute::CONG, b"cubic\0"),
            written(attribute::INFO, &[3; 232]),
            written(attribute::SKMEMINFO, &[5; 36]),
        ];
        message(9, 5, &attributes)
    }

    #[test]
    fn a_message_that_differs_in_anything_that_is_read_is_no_repetition() {
        let bytes = told();
        let mut answer = Answer::of(&Socket::parse(&bytes).unwrap()).unwrap();
        assert!(answer.repeated_by(&bytes));
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 0x40;
            let repeated = answer.clone().repeated_by(&other);
            let says_the_same = Socket::parse(&other).is_some_and(|mut read| {
                let told = Socket::parse(&bytes).unwrap();
                let moved = told
                    .info
                    .zip(read.info)
                    .is_none_or(|(one, two)| one.differs(&two));
                (read.message, read.info) = (told.message, told.info);
                !moved && read == told
            });
            // What nobody reads may differ: then it is read again, which does no harm.
            assert!(!repeated || says_the_same, "byte {place}");
            assert!(repeated || !answer.ages.contains(&place), "byte {place}");
        }
        let mut longer = bytes.clone();
        longer.extend([0; 4]);
        assert!(!answer.repeated_by(&longer) && !answer.repeated_by(&bytes[..bytes.len() - 4]));
    }

    #[test]
    fn a_repetition_tells_how_long_ago_things_are_now() {
        let bytes = told();
        let mut answer = Answer::of(&Socket::parse(&bytes).unwrap()).unwrap();
        let mut later = bytes.clone();
        let ages = answer.ages.clone();
        later[ages].fill(8);
        // The timer that runs, and when it ends.
        later[2..4].fill(1);
        later[52..56].fill(1);
        assert!(answer.repeated_by(&later));
        let info = answer.socket().unwrap().info.unwrap();
        assert_eq!(info.last_data_sent_ms(), u32::from_ne_bytes([8; 4]));
        assert_eq!(info.rtt_us(), u32::from_ne_bytes([3; 4]));
    }

    #[test]
    fn what_has_no_tcp_info_is_no_answer() {
        assert!(Answer::of(&Socket::parse(&message(1, 0, &[])).unwrap()).is_none());
    }
}
