//! Packets of one capture that wait for the other capture: found by key, given up in order of age.

use super::sighting::Parts;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;
/// Most packets with equal keys that one lookup checks: repeated acknowledgments without an identification
/// are equal, and floods of one packet must not make lookups slow.
const MOST_EQUAL: usize = 512;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub key: u64,
    /// Its row of the result.
    pub row: u32,
    pub parts: Parts,
    /// Next and previous in the bucket: later ones behind earlier ones, and those with a new key last.
    next: u32,
    previous: u32,
    older: u32,
    newer: u32,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    head: u32,
    tail: u32,
}

const EMPTY: Bucket = Bucket {
    head: NONE,
    tail: NONE,
};

#[derive(Debug)]
pub(crate) struct Pending {
    buckets: Vec<Bucket>,
    entries: Vec<Entry>,
    /// First of the unused entries, linked by `next`.
    free: u32,
    oldest: u32,
    newest: u32,
    len: usize,
    /// Entries that were touched while buckets changed.
    #[cfg(test)]
    touched: usize,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            buckets: vec![EMPTY; 1024],
            entries: Vec::new(),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            len: 0,
            #[cfg(test)]
            touched: 0,
        }
    }
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, key: u64, row: u32, parts: Parts) {
        if self.len >= self.buckets.len() {
            self.rebuild(self.buckets.len() * 2, |_| None);
        }
        let entry = Entry {
            key,
            row,
            parts,
            next: NONE,
            previous: NONE,
            older: self.newest,
            newer: NONE,
        };
        let slot = match self.free {
            NONE => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
            slot => {
                self.free = self.entries[slot as usize].next;
                self.entries[slot as usize] = entry;
                slot
            }
        };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.entries[newest as usize].newer = slot,
        }
        self.newest = slot;
        self.link(slot);
        self.len += 1;
    }

    #[inline]
    pub(crate) fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    /// Entries with this key in the order in which they got it, at most [`MOST_EQUAL`] of them.
    #[inline]
    pub(crate) fn with_key(&self, key: u64) -> impl Iterator<Item = (u32, &Entry)> {
        let mut slot = self.buckets[self.place(key)].head;
        std::iter::from_fn(move || {
            let entry = self.entries.get(slot as usize)?;
            let at = slot;
            slot = entry.next;
            Some((at, entry))
        })
        .filter(move |(_, entry)| entry.key == key)
        .take(MOST_EQUAL)
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Entry {
        let entry = self.entries[slot as usize];
        self.unlink(&entry);
        match entry.older {
            NONE => self.oldest = entry.newer,
            older => self.entries[older as usize].newer = entry.newer,
        }
        match entry.newer {
            NONE => self.newest = entry.older,
            newer => self.entries[newer as usize].older = entry.older,
        }
        self.entries[slot as usize].next = self.free;
        self.free = slot;
        self.len -= 1;
        entry
    }

    /// Replaces the packet of an entry, with the same age and row.
    pub(crate) fn replace(&mut self, slot: u32, key: u64, parts: Parts) {
        let entry = self.entries[slot as usize];
        self.unlink(&entry);
        self.entries[slot as usize] = Entry {
            key,
            parts,
            next: NONE,
            previous: NONE,
            ..entry
        };
        self.link(slot);
    }

    /// All waiting packets and their slots, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        let mut slot = self.oldest;
        std::iter::from_fn(move || {
            let entry = self.entries.get(slot as usize)?;
            let at = slot;
            slot = entry.newer;
            Some((at, entry))
        })
    }

    pub(crate) fn oldest(&self) -> Option<(u32, &Entry)> {
        self.iter().next()
    }

    /// Gives all waiting packets the new numbers of their rows.
    pub(crate) fn renumber_rows(&mut self, number: impl Fn(u32) -> u32) {
        let mut slot = self.oldest;
        while let Some(entry) = self.entries.get_mut(slot as usize) {
            entry.row = number(entry.row);
            slot = entry.newer;
        }
    }

    /// Gives every entry a new key.
    pub(crate) fn rekey(&mut self, mut key_of: impl FnMut(&Entry) -> u64) {
        self.rebuild(self.buckets.len(), |entry| Some(key_of(entry)));
    }

    /// Packets of the bucket that has the most.
    #[cfg(test)]
    pub(super) fn longest_bucket(&self) -> usize {
        let mut counts = vec![0; self.buckets.len()];
        for (_, entry) in self.iter() {
            counts[self.place(entry.key)] += 1;
        }
        counts.into_iter().max().unwrap_or(0)
    }

    #[inline]
    fn place(&self, key: u64) -> usize {
        // a power of two
        key as usize & (self.buckets.len() - 1)
    }

    fn link(&mut self, slot: u32) {
        let place = self.place(self.entries[slot as usize].key);
        let last = std::mem::replace(&mut self.buckets[place].tail, slot);
        self.touch(slot).previous = last;
        match last {
            NONE => self.buckets[place].head = slot,
            last => self.touch(last).next = slot,
        }
    }

    fn unlink(&mut self, entry: &Entry) {
        let place = self.place(entry.key);
        match entry.previous {
            NONE => self.buckets[place].head = entry.next,
            previous => self.touch(previous).next = entry.next,
        }
        match entry.next {
            NONE => self.buckets[place].tail = entry.previous,
            next => self.touch(next).previous = entry.previous,
        }
    }

    #[inline]
    fn touch(&mut self, slot: u32) -> &mut Entry {
        #[cfg(test)]
        {
            self.touched += 1;
        }
        &mut self.entries[slot as usize]
    }

    /// Distributes all entries again, in order of age so that buckets stay in that order.
    fn rebuild(&mut self, buckets: usize, mut key_of: impl FnMut(&Entry) -> Option<u64>) {
        self.buckets.clear();
        self.buckets.resize(buckets, EMPTY);
        let mut slot = self.oldest;
        while slot != NONE {
            let entry = &mut self.entries[slot as usize];
            if let Some(key) = key_of(entry) {
                entry.key = key;
            }
            entry.next = NONE;
            let newer = entry.newer;
            self.link(slot);
            slot = newer;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARTS: Parts = Parts {
        material: [0; 5],
        identification: 0,
        protocol: 6,
        bits: 0,
    };

    #[derive(Debug, Clone)]
    enum Action {
        Insert(u64),
        /// Remove the packet with this key at this distance from the oldest.
        Remove(u64, usize),
        RemoveOldest,
        /// Give the packet at this distance from the oldest one a key of its own.
        Replace(usize),
        /// Give all packets keys modulo this.
        Rekey(u64),
    }

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![
            6 => (0..40u64).prop_map(Action::Insert),
            4 => (0..40u64, 0..3usize).prop_map(|(key, nth)| Action::Remove(key, nth)),
            1 => Just(Action::RemoveOldest),
            1 => (0..20usize).prop_map(Action::Replace),
            1 => (1..40u64).prop_map(Action::Rekey),
        ]
    }

    proptest! {
        #[test]
        fn packets_are_found_by_key_in_order_of_age(
            actions in proptest::collection::vec(action(), 0..400),
        ) {
            let mut pending = Pending::default();
            let mut model: Vec<(u64, u32)> = Vec::new();
            for (row, action) in (0u32..).zip(actions) {
                match action {
                    Action::Insert(key) => {
                        pending.insert(key, row, PARTS);
                        model.push((key, row));
                    }
                    Action::Remove(key, nth) => {
                        let slot = pending.with_key(key).nth(nth).map(|(slot, _)| slot);
                        let at = (0..model.len()).filter(|&at| model[at].0 == key).nth(nth);
                        prop_assert_eq!(slot.is_some(), at.is_some());
                        if let (Some(slot), Some(at)) = (slot, at) {
                            prop_assert_eq!(pending.remove(slot).row, model.remove(at).1);
                        }
                    }
                    Action::RemoveOldest => {
                        let slot = pending.oldest().map(|(slot, _)| slot);
                        let oldest = slot.map(|slot| pending.remove(slot).row);
                        let expected = (!model.is_empty()).then(|| model.remove(0).1);
                        prop_assert_eq!(oldest, expected);
                    }
                    Action::Replace(nth) => {
                        let slot = pending.iter().nth(nth).map(|(slot, _)| slot);
                        prop_assert_eq!(slot.is_some(), nth < model.len());
                        if let Some(slot) = slot {
                            pending.replace(slot, u64::from(row) + 40, PARTS);
                            model[nth].0 = u64::from(row) + 40;
                        }
                    }
                    Action::Rekey(modulus) => {
                        pending.rekey(|entry| entry.key % modulus);
                        for (key, _) in &mut model {
                            *key %= modulus;
                        }
                    }
                }
                let all: Vec<(u64, u32)> =
                    pending.iter().map(|(_, entry)| (entry.key, entry.row)).collect();
                prop_assert_eq!(&all, &model);
                prop_assert_eq!(pending.len(), model.len());
                for key in 0..40 + u64::from(row) + 1 {
                    let found: Vec<u32> =
                        pending.with_key(key).map(|(_, entry)| entry.row).collect();
                    let expected: Vec<u32> = model
                        .iter()
                        .filter(|(other, _)| *other == key)
                        .map(|(_, row)| *row)
                        .collect();
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }

    #[test]
    fn each_of_many_equal_packets_is_removed_in_a_few_steps() {
        for count in [1_000, 2_000, 4_000u32] {
            let mut pending = Pending::default();
            (0..count).for_each(|row| pending.insert(7, row, PARTS));
            pending.touched = 0;
            // those that came last, first
            for slot in (0..count).rev() {
                assert_eq!(pending.remove(slot).row, slot);
            }
            assert!(pending.touched <= 2 * count as usize, "{}", pending.touched);
        }
    }
}
