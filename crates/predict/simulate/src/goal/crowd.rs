//! Many operations that wait on one rank, found by rank and tag.
//!
//! They are kept in order in one array, with empty places where one was taken, and linked by the
//! hashes of their rank and tag. Operations with the same rank and tag are found in order, so the
//! one taken is always the first of its key. Memory: 8 bytes for each place, and 8 for each hash,
//! of which there are at most twice as many as places.

use super::matching::{fits, key};
use super::schedule::{ANY, Task};
use super::work::Work;

/// End of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// Fewest places.
const FEWEST: usize = 64;

/// First and last place of a linked list.
#[derive(Clone, Copy)]
pub(super) struct List {
    pub first: u32,
    pub last: u32,
}

impl List {
    pub const EMPTY: List = List {
        first: NONE,
        last: NONE,
    };
}

#[derive(Clone, Copy)]
struct Entry {
    /// The operation; `NONE` once it was taken.
    index: u32,
    /// Next place with the same hash.
    next: u32,
}

#[derive(Default)]
pub(super) struct Crowd {
    entries: Vec<Entry>,
    /// First and last place of each hash; the length is a power of two.
    hashes: Vec<List>,
    /// Number of operations present.
    live: usize,
    /// All places before this one are empty.
    first: usize,
    /// Receives from any rank or with any tag have been added.
    wild: bool,
}

impl Crowd {
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// All operations present, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let all = self.entries.iter().map(|entry| entry.index);
        all.filter(|&index| index != NONE)
    }

    fn hash(&self, (rank, tag): (u32, u32)) -> usize {
        // Golden ratio and a mixing constant of Steele, Lea and Flood (SplitMix64).
        let mixed = (u64::from(rank) << 32 | u64::from(tag)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed >> 32) as usize & (self.hashes.len() - 1)
    }

    pub fn append<const POSTED: bool, const MANY: bool>(
        &mut self,
        work: &impl Work<MANY>,
        index: u32,
    ) {
        if self.entries.len() == self.entries.capacity() {
            self.rebuild::<POSTED, MANY>(work);
        }
        self.place::<POSTED>(index, work.task(index));
    }

    fn place<const POSTED: bool>(&mut self, index: u32, task: &Task) {
        let key = key::<POSTED>(task);
        self.wild |= key.0 == ANY || key.1 == ANY;
        let hash = self.hash(key);
        let place = self.entries.len() as u32;
        let list = &mut self.hashes[hash];
        match list.last {
            NONE => list.first = place,
            last => self.entries[last as usize].next = place,
        }
        list.last = place;
        self.entries.push(Entry { index, next: NONE });
        self.live += 1;
    }

    /// Removes the empty places and makes room for a quarter more.
    fn rebuild<const POSTED: bool, const MANY: bool>(&mut self, work: &impl Work<MANY>) {
        let room = (self.live + self.live / 4).max(FEWEST);
        let old = std::mem::take(&mut self.entries);
        self.entries.reserve_exact(room);
        self.hashes = vec![List::EMPTY; room.next_power_of_two() / 2];
        (self.live, self.first, self.wild) = (0, 0, false);
        for entry in old.iter().filter(|entry| entry.index != NONE) {
            self.place::<POSTED>(entry.index, work.task(entry.index));
        }
    }

    /// Takes the first operation that matches this one.
    pub fn take<const POSTED: bool, const MANY: bool>(
        &mut self,
        work: &impl Work<MANY>,
        comes: &Task,
    ) -> Option<u32> {
        let place = match (POSTED, key::<true>(comes)) {
            (true, _) => {
                let (rank, tag) = (comes.rank, comes.tag);
                let exact = [(rank, tag)];
                let all = [(rank, tag), (rank, ANY), (ANY, tag), (ANY, ANY)];
                let keys: &[_] = if self.wild { &all } else { &exact };
                let found = keys.iter();
                found
                    .filter_map(|&key| self.find::<POSTED, MANY>(work, key))
                    .min()?
            }
            (false, (ANY, _) | (_, ANY)) => self.search::<POSTED, MANY>(work, comes)?,
            (false, key) => self.find::<POSTED, MANY>(work, key)?,
        };
        let index = self.entries[place].index;
        self.remove(place, key::<POSTED>(work.task(index)));
        if self.live < self.entries.len() / 4 && self.entries.len() > FEWEST {
            self.rebuild::<POSTED, MANY>(work);
        }
        Some(index)
    }

    /// Place of the first operation with this key.
    fn find<const POSTED: bool, const MANY: bool>(
        &self,
        work: &impl Work<MANY>,
        wanted: (u32, u32),
    ) -> Option<usize> {
        let mut here = self.hashes[self.hash(wanted)].first;
        while here != NONE {
            let entry = &self.entries[here as usize];
            if key::<POSTED>(work.task(entry.index)) == wanted {
                return Some(here as usize);
            }
            here = entry.next;
        }
        None
    }

    /// Place of the first operation that matches this one, by linear search.
    fn search<const POSTED: bool, const MANY: bool>(
        &mut self,
        work: &impl Work<MANY>,
        comes: &Task,
    ) -> Option<usize> {
        while self.entries.get(self.first)?.index == NONE {
            self.first += 1;
        }
        let meets =
            |entry: &Entry| entry.index != NONE && fits::<POSTED>(comes, work.task(entry.index));
        let found = self.entries[self.first..].iter().position(meets)?;
        Some(self.first + found)
    }

    fn remove(&mut self, place: usize, key: (u32, u32)) {
        let hash = self.hash(key);
        let next = self.entries[place].next;
        let list = &mut self.hashes[hash];
        let (mut before, mut here) = (NONE, list.first);
        while here != place as u32 && here != NONE {
            (before, here) = (here, self.entries[here as usize].next);
        }
        match before {
            NONE => list.first = next,
            _ => self.entries[before as usize].next = next,
        }
        if next == NONE {
            list.last = before;
        }
        self.entries[place].index = NONE;
        self.live -= 1;
    }
}
