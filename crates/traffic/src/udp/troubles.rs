//! Faults at an end itself: times in which its process did not run or its socket's buffer was full. Packets lost then
//! were not lost on the path.
//!
//! The responder reports them as one fact of the exchange of timestamps, which belongs to no flow: `KIND FROM TO
//! COUNT`, separated by semicolons, with times in nanoseconds of its clock. A client that does not know this fact
//! ignores it.

use super::socket::Overflow;

/// The key of the fact.
pub(crate) const KEY: &str = "troubles_of_responder";
/// The most that are kept; beyond it the last one is extended.
const MOST: usize = 500;
/// A gap this long means that the process did not run: a thread on a busy host waits far less for its turn.
const PAUSE_NS: i64 = 200_000_000;

/// One span of time, in the clock of the affected end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub kind: TroubleKind,
    pub from_ns: i64,
    pub to_ns: i64,
    /// Datagrams that were dropped.
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

/// The faults of one end so far.
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

    /// Registers that a regularly running thread ran at these two times and not in between.
    pub(crate) fn looked(&mut self, before_ns: i64, now_ns: i64) {
        self.0
            .extend(pause(before_ns, now_ns).filter(|_| self.0.len() < MOST));
    }

    fn add(&mut self, trouble: Trouble) {
        let has_room = self.0.len() < MOST;
        match self.0.last_mut() {
            // They adjoin, or there are too many.
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

    /// Formats the fact; `None` if there were no faults.
    pub(crate) fn to_fact(&self) -> Option<String> {
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

/// Returns the time between two checks if it is so long that the process cannot have run.
pub fn pause(before_ns: i64, now_ns: i64) -> Option<Trouble> {
    (now_ns.saturating_sub(before_ns) > PAUSE_NS).then_some(Trouble {
        kind: TroubleKind::Pause,
        from_ns: before_ns,
        to_ns: now_ns,
        count: 0,
    })
}

/// Parses the fact; unknown parts are ignored.
pub(crate) fn parse(fact: &str) -> Vec<Trouble> {
    fact.split(';').take(MOST).filter_map(one).collect()
}

fn one(fact: &str) -> Option<Trouble> {
    let mut words = fact.split(' ');
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
    fn troubles_are_read_back_as_they_were_written() {
        let mut troubles = Troubles::default();
        troubles.looked(5, 1_000_000_005);
        troubles.overflowed(&overflow(7, 9, 3));
        troubles.overflowed(&overflow(9, 12, 2));
        let read = parse(&troubles.to_fact().unwrap());
        assert_eq!(read, troubles.0);
        assert_eq!((read.len(), read[1].to_ns, read[1].count), (2, 12, 5));
    }

    #[test]
    fn a_thread_that_waits_for_its_turn_has_not_stood_still() {
        let mut troubles = Troubles::default();
        troubles.looked(0, PAUSE_NS);
        assert_eq!(troubles.to_fact(), None);
    }

    #[test]
    fn any_number_of_troubles_gives_a_short_fact() {
        let mut troubles = Troubles::default();
        for number in 0..10_000 {
            troubles.overflowed(&overflow(10 * number, 10 * number + 1, 1));
        }
        let read = parse(&troubles.to_fact().unwrap());
        assert_eq!(read.len(), MOST);
        assert_eq!(read.iter().map(|one| one.count).sum::<u64>(), 10_000);
    }

    proptest::proptest! {
        #[test]
        fn no_fact_of_a_responder_makes_the_parser_panic(fact in ".{0,200}") {
            parse(&fact);
        }
    }
}
