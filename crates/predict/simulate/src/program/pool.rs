//! The operations in flight: freed and not yet forgotten.

use crate::goal::Task;

/// Most operations in flight: their numbers leave one bit free.
const MOST: usize = (1 << 31) - 1;

/// An operation in flight: half a cache line.
#[derive(Clone, Copy)]
pub(super) struct Flying {
    pub task: Task,
    /// The next one in a list of waiting receives or messages, or in the list of free entries.
    pub next: u32,
    /// Its position among the operations of its rank, from 0.
    pub index: u32,
}

/// When a send ended its own overhead, and when its message was taken from the network, in
/// nanoseconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Moments {
    pub sent: u64,
    pub arrived: u64,
}

/// Entries of 32 bytes that are reused; with several CPUs 16 bytes more.
pub(super) struct Pool<const MANY: bool> {
    places: Vec<Flying>,
    moments: Vec<Moments>,
    /// First free entry, if there is one.
    free: Option<u32>,
    free_places: usize,
}

impl<const MANY: bool> Pool<MANY> {
    pub fn new() -> Self {
        Pool {
            places: Vec::new(),
            moments: Vec::new(),
            free: None,
            free_places: 0,
        }
    }

    /// Adds an operation; `None` if no number is left for it.
    #[inline]
    pub fn add(&mut self, task: Task, index: u32) -> Option<u32> {
        let flying = Flying {
            task,
            next: 0,
            index,
        };
        let Some(place) = self.free else {
            return self.grow(flying);
        };
        self.free_places -= 1;
        let next = self.places[place as usize].next;
        self.free = (self.free_places > 0).then_some(next);
        self.places[place as usize] = flying;
        Some(place)
    }

    fn grow(&mut self, flying: Flying) -> Option<u32> {
        let count = self.places.len();
        if count == MOST {
            return None;
        }
        if count == self.places.capacity() {
            // Grows by a sixteenth instead of doubling: growth is rare, and idle memory counts.
            let more = (count / 16).max(1_024);
            self.places.reserve_exact(more);
            if MANY {
                self.moments.reserve_exact(more);
            }
        }
        self.places.push(flying);
        if MANY {
            self.moments.push(Moments::default());
        }
        Some(count as u32)
    }

    /// Frees the entry of an operation.
    #[inline]
    pub fn remove(&mut self, place: u32) {
        self.places[place as usize].next = self.free.unwrap_or(0);
        self.free = Some(place);
        self.free_places += 1;
    }

    #[inline]
    pub fn get(&self, place: u32) -> &Flying {
        &self.places[place as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, place: u32) -> &mut Flying {
        &mut self.places[place as usize]
    }

    /// With `MANY`.
    #[inline]
    pub fn moments(&mut self, place: u32) -> &mut Moments {
        &mut self.moments[place as usize]
    }

    /// With `MANY`.
    #[inline]
    pub fn moments_of(&self, place: u32) -> Moments {
        self.moments[place as usize]
    }

    pub fn fetch(&self, place: u32) {
        crate::goal::prefetch(&self.places, place as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::Operation;

    #[test]
    fn an_operation_in_flight_is_half_a_cache_line() {
        assert_eq!(size_of::<Flying>(), 32);
        assert_eq!(size_of::<Moments>(), 16);
    }

    #[test]
    fn places_are_used_again_before_there_are_new_ones() {
        let mut pool = Pool::<true>::new();
        let task = |rank| Task::new(Operation::calc(7), rank);
        let places: Vec<u32> = (0..5).map(|i| pool.add(task(i), i).unwrap()).collect();
        assert_eq!(places, [0, 1, 2, 3, 4]);
        for place in [3, 0, 4] {
            pool.remove(place);
        }
        let again: Vec<u32> = (5..10).map(|i| pool.add(task(i), i).unwrap()).collect();
        assert_eq!(again, [4, 0, 3, 5, 6]);
        for (place, rank) in [(1, 1), (2, 2), (4, 5), (0, 6), (3, 7), (5, 8), (6, 9)] {
            assert_eq!(
                (pool.get(place).task.rank, pool.get(place).index),
                (rank, rank)
            );
            pool.moments(place).sent = u64::from(rank);
            assert_eq!(pool.moments_of(place).sent, u64::from(rank));
        }
    }
}
