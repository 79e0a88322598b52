//! A set of half-open ranges of sequence numbers, kept merged and sorted.

use std::collections::VecDeque;

/// The most ranges kept. A window with this many holes does not occur in practice; without a bound, forged blocks would
/// make each insertion slower.
const MOST_RANGES: usize = 1 << 12;

#[derive(Debug, Clone, Default)]
pub struct RangeSet {
    ranges: VecDeque<(i64, i64)>,
    total: i64,
}

impl RangeSet {
    /// Bytes in the set.
    pub fn total(&self) -> i64 {
        self.total
    }

    /// End of the highest range.
    pub fn highest(&self) -> Option<i64> {
        self.ranges.back().map(|r| r.1)
    }

    /// Adds `[start, end)` and calls `fresh` with each part that was not in the set before, in rising order. When the
    /// set is full, a range that touches no other is ignored.
    pub fn insert(&mut self, start: i64, end: i64, mut fresh: impl FnMut(i64, i64)) {
        if start >= end {
            return;
        }
        let first = self.ranges.partition_point(|r| r.1 < start);
        let apart = self.ranges.get(first).is_none_or(|r| r.0 > end);
        if apart && self.ranges.len() >= MOST_RANGES {
            return;
        }
        let (mut low, mut high) = (start, end);
        let mut position = start;
        let mut last = first;
        while let Some(&(a, b)) = self.ranges.get(last) {
            if a > end {
                break;
            }
            if position < a {
                fresh(position, a.min(end));
                self.total += a.min(end) - position;
            }
            position = position.max(b);
            low = low.min(a);
            high = high.max(b);
            last += 1;
        }
        if position < end {
            fresh(position, end);
            self.total += end - position;
        }
        if last == first {
            self.ranges.insert(first, (low, high));
        } else {
            self.ranges[first] = (low, high);
            if last - first > 1 {
                self.ranges.drain(first + 1..last);
            }
        }
    }

    /// Removes everything below `below`.
    pub fn trim(&mut self, below: i64) {
        while let Some(front) = self.ranges.front_mut() {
            if front.1 <= below {
                self.total -= front.1 - front.0;
                self.ranges.pop_front();
            } else {
                if front.0 < below {
                    self.total -= below - front.0;
                    front.0 = below;
                }
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inserted(set: &mut RangeSet, start: i64, end: i64) -> Vec<(i64, i64)> {
        let mut fresh = Vec::new();
        set.insert(start, end, |a, b| fresh.push((a, b)));
        fresh
    }

    #[test]
    fn only_what_is_new_is_reported() {
        let mut set = RangeSet::default();
        assert_eq!(inserted(&mut set, 10, 20), [(10, 20)]);
        assert_eq!(inserted(&mut set, 30, 40), [(30, 40)]);
        assert_eq!(inserted(&mut set, 5, 35), [(5, 10), (20, 30)]);
        assert_eq!(set.total(), 35);
        set.trim(12);
        assert_eq!((set.total(), set.highest()), (28, Some(40)));
    }

    #[test]
    fn a_full_set_grows_ranges_but_takes_no_new_ones() {
        let mut set = RangeSet::default();
        for number in 0..2 * MOST_RANGES as i64 {
            set.insert(10 * number, 10 * number + 5, |_, _| ());
        }
        assert_eq!(set.total(), 5 * MOST_RANGES as i64);
        assert_eq!(inserted(&mut set, 3, 7), [(5, 7)]);
        assert_eq!(inserted(&mut set, 1 << 40, 1 << 41), []);
    }

    proptest! {
        #[test]
        fn a_range_set_is_a_set_of_bytes(ops in proptest::collection::vec((0i64..60, 1i64..20, any::<bool>()), 1..40)) {
            let mut set = RangeSet::default();
            let mut bytes = std::collections::BTreeSet::new();
            for (start, length, insert) in ops {
                if insert {
                    let fresh: Vec<i64> = inserted(&mut set, start, start + length)
                        .into_iter().flat_map(|(a, b)| a..b).collect();
                    let expected: Vec<i64> = (start..start + length).filter(|b| !bytes.contains(b)).collect();
                    prop_assert_eq!(fresh, expected);
                    bytes.extend(start..start + length);
                } else {
                    set.trim(start);
                    bytes.retain(|b| *b >= start);
                }
                prop_assert_eq!(set.total(), bytes.len() as i64);
                prop_assert_eq!(set.highest(), bytes.last().map(|last| last + 1));
            }
        }
    }
}
