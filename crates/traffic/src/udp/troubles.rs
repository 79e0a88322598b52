//! Troubles of an end itself: times in which its process stood still, and in which its socket's buffer was full. What was
//! lost then was not lost on the path.
//!
//! The responder tells them as one fact of the exchange of stamps, which belongs to no flow: `KIND FROM TO COUNT`, one
//! after the other with a semicolon between, times in nanoseconds of its clock. A client that does not know this fact
//! passes over it.

use super::socket::Overflow;

/// The key of the fact.
pub(crate) const KEY: &str = "troubles_of_responder";
/// More are not kept: the last one is then drawn out.
const MOST: usize = 500;
/// The process was not run for so long: far more than a thread waits for its turn on a busy host.
const PAUSE_NS: i64 = 200_000_000;

/// One span of time, in the clock of the end that it befell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub kind: TroubleKind,
    pub from_ns: i64,
    pub to_ns: i64,
    /// Datagrams that were thrown away.
    pub count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// The process did not run.
    Pause,
    /// The socket's buffer was full.
    Overflow,
}

impl TroubleKind {
    pub fn name(self) -> &'static str {
        match self {
            TroubleKind::Pause => "pause",
            TroubleKind::Overflow => "overflow",
        }
    }
}

/// The troubles of one end so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Troubles(Vec<Trouble>);

impl Troubles {
    pub(crate) fn overflowed(&mut self, overflow: &Overflow) {
        self.add(Trouble {
            kind: TroubleKind::Overflow,
            from_ns: overflow.from_ns,
            to_ns: overflow.to_ns,
            count: overflow.count.into(),
        });
    }

    /// A thread that looks up often did so at these two times, and not in between.
    pub(crate) fn looked(&mut self, before_ns: i64, now_ns: i64) {
        self.0
            .extend(pause(before_ns, now_ns).filter(|_| self.0.len() < MOST));
    }

    fn add(&mut self, trouble: Trouble) {
        let has_room = self.0.len() < MOST;
        match self.0.last_mut() {
            // Behind one another, or too many.
            Some(last)
                if last.kind == trouble.kind && (last.to_ns >= trouble.from_ns || !has_room) =>
            {
                last.to_ns = trouble.to_ns;
                last.count = last.count.saturating_add(trouble.count);
            }
            _ if has_room => self.0.push(trouble),
            _ => {}
        }
    }

    /// The fact; `None` where there were none.
    pub(crate) fn told(&self) -> Option<String> {
        let words: Vec<String> = self
            .0
            .iter()
            .map(|one| {
                let name = one.kind.name();
                format!("{name} {} {} {}", one.from_ns, one.to_ns, one.count)
            })
            .collect();
        (!words.is_empty()).then(|| words.join(";"))
    }
}

/// The time between two looks, where it is so long that the process cannot have run.
pub fn pause(before_ns: i64, now_ns: i64) -> Option<Trouble> {
    (now_ns.saturating_sub(before_ns) > PAUSE_NS).then_some(Trouble {
        kind: TroubleKind::Pause,
        from_ns: before_ns,
        to_ns: now_ns,
        count: 0,
    })
}

/// Reads the fact; what is none of ours in it is passed over.
pub(crate) fn heard(told: &str) -> Vec<Trouble> {
    told.split(';').take(MOST).filter_map(one).collect()
}

fn one(told: &str) -> Option<Trouble> {
    let mut words = told.split(' ');
    let kind = match words.next()? {
        "pause" => TroubleKind::Pause,
        "overflow" => TroubleKind::Overflow,
        _ => return None,
    };
    let trouble = Trouble {
        kind,
        from_ns: words.next()?.parse().ok()?,
        to_ns: words.next()?.parse().ok()?,
        count: words.next()?.parse().ok()?,
    };
    (trouble.from_ns <= trouble.to_ns && words.next().is_none()).then_some(trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overflow(from_ns: i64, to_ns: i64, count: u32) -> Overflow {
        Overflow {
            from_ns,
            to_ns,
            count,
        }
    }

    #[test]
    fn troubles_are_read_back_as_they_were_told() {
        let mut troubles = Troubles::default();
        troubles.looked(5, 1_000_000_005);
        troubles.overflowed(&overflow(7, 9, 3));
        troubles.overflowed(&overflow(9, 12, 2));
        let read = heard(&troubles.told().unwrap());
        assert_eq!(read, troubles.0);
        assert_eq!((read.len(), read[1].to_ns, read[1].count), (2, 12, 5));
    }

    #[test]
    fn a_thread_that_waits_for_its_turn_has_not_stood_still() {
        let mut troubles = Troubles::default();
        troubles.looked(0, PAUSE_NS);
        assert_eq!(troubles.told(), None);
    }

    #[test]
    fn however_many_there_are_they_are_told_in_few_words() {
        let mut troubles = Troubles::default();
        for number in 0..10_000 {
            troubles.overflowed(&overflow(10 * number, 10 * number + 1, 1));
        }
        let read = heard(&troubles.told().unwrap());
        assert_eq!(read.len(), MOST);
        assert_eq!(read.iter().map(|one| one.count).sum::<u64>(), 10_000);
    }

    proptest::proptest! {
        #[test]
        fn no_words_of_a_responder_make_the_reader_panic(told in ".{0,200}") {
            heard(&told);
        }
    }
}
