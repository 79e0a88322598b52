//! The kernel's last message about a socket: most polls repeat it, and it is not parsed again.

use std::ops::Range;

use crate::info::AGES;
use crate::message::{Socket, UNREAD};

/// A message about a socket with `tcp_info`.
#[derive(Clone, Debug)]
pub struct Answer {
    message: Vec<u8>,
    /// The position of ages of events, which change by themselves.
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

    /// Replaces the message by one that differs only in ages and timers, which are not used; returns false, and keeps
    /// the old one, if anything else differs.
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

    fn sample() -> Vec<u8> {
        let attributes = [
            written(attribute::CONG, b"cubic\0"),
            written(attribute::INFO, &[3; 232]),
            written(attribute::SKMEMINFO, &[5; 36]),
        ];
        message(9, 5, &attributes)
    }

    #[test]
    fn a_message_that_differs_in_anything_that_is_read_is_no_repetition() {
        let bytes = sample();
        let mut answer = Answer::of(&Socket::parse(&bytes).unwrap()).unwrap();
        assert!(answer.repeated_by(&bytes));
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 0x40;
            let repeated = answer.clone().repeated_by(&other);
            let says_the_same = Socket::parse(&other).is_some_and(|mut read| {
                let socket = Socket::parse(&bytes).unwrap();
                let moved = socket
                    .info
                    .zip(read.info)
                    .is_none_or(|(one, two)| one.differs(&two));
                (read.message, read.info) = (socket.message, socket.info);
                !moved && read == socket
            });
            // Unused bytes may differ: the message is then parsed again, which does no harm.
            assert!(!repeated || says_the_same, "byte {place}");
            assert!(repeated || !answer.ages.contains(&place), "byte {place}");
        }
        let mut longer = bytes.clone();
        longer.extend([0; 4]);
        assert!(!answer.repeated_by(&longer) && !answer.repeated_by(&bytes[..bytes.len() - 4]));
    }

    #[test]
    fn a_repetition_updates_the_ages() {
        let bytes = sample();
        let mut answer = Answer::of(&Socket::parse(&bytes).unwrap()).unwrap();
        let mut later = bytes.clone();
        let ages = answer.ages.clone();
        later[ages].fill(8);
        // The running timer, and when it ends.
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
