//! A map of sockets by their cookies that exploits the order in which the kernel lists them.
//!
//! The kernel lists thousands of sockets in the same order at every poll. The next socket is usually the one that was
//! next before: it is adjacent in memory and needs no look-up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// One value for each socket.
#[derive(Debug)]
pub(crate) struct Listing<T> {
    all: Vec<(u64, T)>,
    places: HashMap<u64, usize, BuildHasherDefault<CookieHasher>>,
    /// The entry after the last one accessed.
    next: usize,
}

impl<T> Default for Listing<T> {
    fn default() -> Listing<T> {
        Listing {
            all: Vec::new(),
            places: HashMap::default(),
            next: 0,
        }
    }
}

impl<T> Listing<T> {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn contains(&self, cookie: u64) -> bool {
        self.places.contains_key(&cookie)
    }

    pub fn get_mut(&mut self, cookie: u64) -> Option<&mut T> {
        let follows = |place: &usize| self.all.get(*place).is_some_and(|one| one.0 == cookie);
        let next = Some(self.next).filter(follows);
        let place = next.or_else(|| self.places.get(&cookie).copied())?;
        self.next = place + 1;
        self.all.get_mut(place).map(|(_, one)| one)
    }

    /// Appends a new entry.
    pub fn insert(&mut self, cookie: u64, one: T) {
        self.places.insert(cookie, self.all.len());
        self.all.push((cookie, one));
    }

    pub fn remove(&mut self, cookie: u64) -> Option<T> {
        let place = self.places.remove(&cookie)?;
        let (_, one) = self.all.swap_remove(place);
        if let Some((moved, _)) = self.all.get(place) {
            self.places.insert(*moved, place);
        }
        Some(one)
    }

    /// Removes the entries for which `stays` is false.
    pub fn retain(&mut self, mut stays: impl FnMut(&mut T) -> bool) {
        let before = self.all.len();
        self.all.retain_mut(|(_, one)| stays(one));
        if self.all.len() < before {
            let cookies = self.all.iter().map(|(cookie, _)| *cookie);
            self.places = cookies.zip(0..).collect();
        }
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.all.iter_mut().map(|(_, one)| one)
    }
}

/// Cookies are the kernel's own consecutive numbers: they cannot be chosen to collide.
#[derive(Debug, Default)]
pub(crate) struct CookieHasher(u64);

impl Hasher for CookieHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4): the high bits differ, which the map uses
        // too.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Put(u64),
        Get(u64),
        Remove(u64),
        KeepMultiplesOf(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0_u64..20).prop_map(Step::Put),
            4 => (0_u64..20).prop_map(Step::Get),
            2 => (0_u64..20).prop_map(Step::Remove),
            1 => (1_u64..5).prop_map(Step::KeepMultiplesOf),
        ];
        prop::collection::vec(step, 0..100)
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(steps in steps()) {
            let (mut listing, mut map) = (Listing::default(), BTreeMap::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Put(cookie) if listing.contains(cookie) => {}
                    Step::Put(cookie) => {
                        listing.insert(cookie, (cookie, number));
                        map.insert(cookie, (cookie, number));
                    }
                    Step::Get(cookie) => prop_assert_eq!(listing.get_mut(cookie), map.get_mut(&cookie)),
                    Step::Remove(cookie) => prop_assert_eq!(listing.remove(cookie), map.remove(&cookie)),
                    Step::KeepMultiplesOf(divisor) => {
                        listing.retain(|one| one.0 % divisor == 0);
                        map.retain(|cookie, _| cookie % divisor == 0);
                    }
                }
                let mut all: Vec<_> = listing.iter_mut().map(|one| *one).collect();
                all.sort_unstable();
                prop_assert_eq!(&all, &map.values().copied().collect::<Vec<_>>());
                prop_assert_eq!(listing.len(), map.len());
            }
        }
    }
}
