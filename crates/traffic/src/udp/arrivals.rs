//! The set of sequence numbers that have arrived: detects duplicates, and lists the arrivals on request.

use std::collections::VecDeque;

use super::copies::Admission;

/// One past the largest sequence number accepted as plausible.
const END: u64 = 1 << 62;

/// How many words below a leap are kept for packets that it overtook.
const KEPT_WORDS: usize = 64;

/// How a sequence number relates to those that arrived before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The highest so far.
    Ahead,
    /// Arrived for the first time, behind a higher one.
    Reordered,
    Duplicate,
    /// So far behind that its state is no longer known; it is not counted.
    Forgotten,
}

/// A set of sequence numbers of bounded size, which drops the lowest ones.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    /// Bit `i` of word `j` stands for sequence `base + 64 j + i`.
    words: VecDeque<u64>,
    base: u64,
    max_words: usize,
    highest: Option<u64>,
    distinct: u64,
}

impl Arrivals {
    /// Remembers at least the latest `span` sequence numbers.
    pub(crate) fn new(span: usize) -> Arrivals {
        Arrivals {
            words: VecDeque::new(),
            base: 0,
            max_words: span.div_ceil(64) + 1,
            highest: None,
            distinct: 0,
        }
    }

    pub(crate) fn insert(&mut self, sequence: u64) -> Arrival {
        if sequence < self.base || sequence >= END {
            return Arrival::Forgotten;
        }
        self.make_room(sequence);
        let place = sequence - self.base;
        let word = &mut self.words[(place / 64) as usize];
        let bit = 1 << (place % 64);
        if *word & bit != 0 {
            return Arrival::Duplicate;
        }
        *word |= bit;
        self.distinct += 1;
        if self.highest.is_some_and(|highest| sequence < highest) {
            return Arrival::Reordered;
        }
        self.highest = Some(sequence);
        Arrival::Ahead
    }

    /// Classifies a sequence number that has not been inserted.
    pub(crate) fn admission(&self, sequence: u64) -> Admission {
        if sequence < self.base || sequence >= END {
            return Admission::Stale;
        }
        let place = sequence - self.base;
        let word = self.words.get((place / 64) as usize).unwrap_or(&0);
        match word >> (place % 64) & 1 {
            0 => Admission::New,
            _ => Admission::Duplicate,
        }
    }

    /// Makes room for `sequence`, dropping the lowest words.
    fn make_room(&mut self, sequence: u64) {
        let words = (sequence - self.base) / 64 + 1;
        let missing = words.saturating_sub(self.words.len() as u64);
        if missing > self.max_words as u64 {
            // The leap exceeds the set's capacity: everything remembered is dropped, at constant cost.
            let kept = self.max_words.min(KEPT_WORDS) as u64;
            self.words.clear();
            self.base = (sequence / 64 + 1).saturating_sub(kept) * 64;
        }
        let words = ((sequence - self.base) / 64 + 1) as usize;
        while self.words.len() < words {
            self.words.push_back(0);
        }
        while self.words.len() > self.max_words {
            self.words.pop_front();
            self.base += 64;
        }
    }

    /// Bit `i`: `sequence - i` has arrived and is remembered.
    pub(crate) fn window(&self, sequence: u64) -> u64 {
        let Some(place) = sequence.checked_sub(self.base) else {
            return 0;
        };
        let word = |number: u64| self.words.get(number as usize).copied().unwrap_or_default();
        let shift = 63 - place % 64;
        let upper = word(place / 64) << shift;
        let lower = match (place / 64).checked_sub(1) {
            Some(below) if shift > 0 => word(below) >> (64 - shift),
            _ => 0,
        };
        // The highest bit stands for `sequence`.
        (upper | lower).reverse_bits()
    }

    /// Distinct sequence numbers so far, including dropped ones.
    pub(crate) fn distinct(&self) -> u64 {
        self.distinct
    }

    /// One past the highest sequence number: how many would have arrived without loss.
    pub(crate) fn expected(&self) -> u64 {
        self.highest.map_or(0, |highest| highest + 1)
    }

    /// The remembered numbers as inclusive ranges in ascending order; at most the latest `most` ranges.
    pub(crate) fn ranges(&self, most: usize) -> Vec<(u64, u64)> {
        let mut ranges: VecDeque<(u64, u64)> = VecDeque::new();
        for (number, &word) in self.words.iter().enumerate() {
            let first = self.base + 64 * number as u64;
            let mut rest = word;
            while rest != 0 {
                let from = u64::from(rest.trailing_zeros());
                let length = u64::from((!(rest >> from)).trailing_zeros());
                let range = (first + from, first + from + length - 1);
                rest &= u64::MAX.checked_shl((from + length) as u32).unwrap_or(0);
                match ranges.back_mut() {
                    Some(last) if last.1 + 1 == range.0 => last.1 = range.1,
                    _ => ranges.push_back(range),
                }
                if ranges.len() > most {
                    ranges.pop_front();
                }
            }
        }
        ranges.into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_set_as_long_as_nothing_is_forgotten(
            sequences in proptest::collection::vec(0_u64..600, 0..400),
            asked in 0_u64..700,
        ) {
            let mut arrivals = Arrivals::new(1000);
            let mut plain = BTreeSet::new();
            for sequence in sequences {
                let expected = match (plain.contains(&sequence), plain.last()) {
                    (true, _) => Arrival::Duplicate,
                    (false, Some(&last)) if last > sequence => Arrival::Reordered,
                    _ => Arrival::Ahead,
                };
                plain.insert(sequence);
                let is_new = arrivals.admission(sequence) == Admission::New;
                prop_assert_eq!(is_new, expected != Arrival::Duplicate);
                prop_assert_eq!(arrivals.insert(sequence), expected);
            }
            prop_assert_eq!(arrivals.distinct(), plain.len() as u64);
            prop_assert_eq!(arrivals.expected(), plain.last().map_or(0, |last| last + 1));
            for behind in 0..64 {
                let has = asked.checked_sub(behind).is_some_and(|sequence| plain.contains(&sequence));
                prop_assert_eq!(arrivals.window(asked) >> behind & 1 == 1, has);
            }
            let listed: BTreeSet<u64> = arrivals.ranges(usize::MAX).into_iter().flat_map(|(from, to)| from..=to).collect();
            prop_assert_eq!(&listed, &plain);
            let ranges = arrivals.ranges(usize::MAX);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
            let few = arrivals.ranges(3);
            prop_assert_eq!(&few[..], &ranges[ranges.len().saturating_sub(3)..]);
        }

        #[test]
        fn no_sequence_counts_twice_however_far_apart_they_are(sequences in proptest::collection::vec(
            prop_oneof![0_u64..500, any::<u64>(), (0_u64..50).prop_map(|close| (1 << 40) + close)], 0..200
        )) {
            let mut arrivals = Arrivals::new(128);
            let mut counted = BTreeSet::new();
            for sequence in sequences {
                let is_new = arrivals.admission(sequence) == Admission::New;
                let is_counted = matches!(arrivals.insert(sequence), Arrival::Ahead | Arrival::Reordered);
                prop_assert_eq!(is_new, is_counted);
                if is_counted {
                    prop_assert!(counted.insert(sequence));
                }
                prop_assert!(arrivals.words.len() <= arrivals.max_words);
            }
            prop_assert_eq!(arrivals.distinct(), counted.len() as u64);
        }
    }

    #[test]
    fn the_latest_sequence_numbers_are_remembered_and_old_ones_forgotten() {
        let mut arrivals = Arrivals::new(128);
        for sequence in 0..1000 {
            arrivals.insert(sequence);
        }
        assert_eq!(arrivals.admission(5), Admission::Stale);
        assert_eq!(arrivals.insert(5), Arrival::Forgotten);
        assert_eq!(arrivals.insert(999 - 127), Arrival::Duplicate);
        assert_eq!(arrivals.window(5), 0);
        assert_eq!(arrivals.distinct(), 1000);
    }
}
