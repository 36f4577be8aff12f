//! Receives that wait for messages, and messages that wait for receives, of every rank.
//!
//! Usually there are few, and they match in order: a list linked through the operations' own state.
//! A list that needs long searches becomes a [`Crowd`], which finds an operation by rank and tag.

use super::crowd::{Crowd, List, NONE};
use super::matching::fits;
use super::prefetch::prefetch;
use super::schedule::Task;
use super::work::Work;

/// In place of the first operation: the list is a crowd, whose number stands in place of the last
/// operation.
const CROWD: u32 = u32::MAX - 1;
/// Operations passed over before a list becomes a crowd.
const PATIENCE: u32 = 48;

/// What waits on every rank. `POSTED` are receives without a message, in the order in which they
/// were posted; the others are messages without a receive, in the order in which they were taken
/// from the network.
pub(super) struct Lists {
    /// Lists of each rank: receives, messages.
    ranks: Vec<[List; 2]>,
    crowds: Vec<Crowd>,
    /// Crowds that are empty.
    unused: Vec<u32>,
}

impl Lists {
    pub fn new(ranks: u32) -> Self {
        Lists {
            ranks: vec![[List::EMPTY; 2]; ranks as usize],
            crowds: Vec::new(),
            unused: Vec::new(),
        }
    }

    /// The first receive that waits on a rank, if it is directly known.
    #[inline]
    pub fn first_posted(&self, rank: u32) -> Option<u32> {
        let first = self.ranks[rank as usize][1].first;
        (first < CROWD).then_some(first)
    }

    /// Prefetches what waits on this rank.
    #[inline]
    pub fn fetch(&self, rank: u32) {
        prefetch(&self.ranks, rank as usize);
    }

    /// Appends an operation.
    #[inline]
    pub fn append<const POSTED: bool, const MANY: bool>(
        &mut self,
        work: &mut impl Work<MANY>,
        rank: u32,
        index: u32,
    ) {
        let list = &mut self.ranks[rank as usize][usize::from(POSTED)];
        if list.first == CROWD {
            self.crowds[list.last as usize].append::<POSTED, MANY>(work, index);
            return;
        }
        work.set_next(index, NONE);
        match list.last {
            NONE => list.first = index,
            last => work.set_next(last, index),
        }
        list.last = index;
    }

    /// Takes the first operation that matches this one.
    #[inline]
    pub fn take<const POSTED: bool, const MANY: bool>(
        &mut self,
        work: &mut impl Work<MANY>,
        rank: u32,
        comes: &Task,
    ) -> Option<u32> {
        let list = &mut self.ranks[rank as usize][usize::from(POSTED)];
        if list.first == CROWD {
            return self.take_of_crowd::<POSTED, MANY>(work, rank, comes);
        }
        let (mut before, mut here) = (NONE, list.first);
        let mut passed = 0;
        while here != NONE {
            let next = work.next(here);
            if fits::<POSTED>(comes, work.task(here)) {
                match before {
                    NONE => list.first = next,
                    _ => work.set_next(before, next),
                }
                if next == NONE {
                    list.last = before;
                }
                break;
            }
            (before, here) = (here, next);
            passed += 1;
        }
        if passed > PATIENCE {
            self.crowd::<POSTED, MANY>(work, rank);
        }
        (here != NONE).then_some(here)
    }

    #[cold]
    fn crowd<const POSTED: bool, const MANY: bool>(&mut self, work: &impl Work<MANY>, rank: u32) {
        let list = &mut self.ranks[rank as usize][usize::from(POSTED)];
        let number = self.unused.pop().unwrap_or(self.crowds.len() as u32);
        if number as usize == self.crowds.len() {
            self.crowds.push(Crowd::default());
        }
        let crowd = &mut self.crowds[number as usize];
        let mut here = list.first;
        while here != NONE {
            crowd.append::<POSTED, MANY>(work, here);
            here = work.next(here);
        }
        (list.first, list.last) = (CROWD, number);
    }

    fn take_of_crowd<const POSTED: bool, const MANY: bool>(
        &mut self,
        work: &impl Work<MANY>,
        rank: u32,
        comes: &Task,
    ) -> Option<u32> {
        let list = &mut self.ranks[rank as usize][usize::from(POSTED)];
        let crowd = &mut self.crowds[list.last as usize];
        let found = crowd.take::<POSTED, MANY>(work, comes);
        if crowd.is_empty() {
            // Frees the memory: others may need it.
            *crowd = Crowd::default();
            self.unused.push(list.last);
            *list = List::EMPTY;
        }
        found
    }

    /// All waiting operations, rank by rank, in order.
    pub fn all<const POSTED: bool, const MANY: bool>(&self, work: &impl Work<MANY>) -> Vec<u32> {
        let mut all = Vec::new();
        for lists in &self.ranks {
            let list = lists[usize::from(POSTED)];
            if list.first == CROWD {
                all.extend(self.crowds[list.last as usize].iter());
                continue;
            }
            let mut here = list.first;
            while here != NONE {
                all.push(here);
                here = work.next(here);
            }
        }
        all
    }
}
