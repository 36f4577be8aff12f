//! The source of the engine's operations: a schedule in memory, or a program expanded while it is
//! played.

use super::schedule::Task;

/// Which dependents to free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    Start,
    End,
    Both,
}

/// Why the engine cannot go on.
#[derive(Debug)]
pub(crate) enum Stop<E> {
    /// A time beyond 64 bits, at this operation.
    TooLong(u32),
    /// The next operations cannot be determined.
    Work(Box<E>),
}

/// The operations of all ranks, by numbers below 2^31. With one CPU per rank (not `MANY`), its
/// clock says when an operation may start; with several, further times are kept, all in
/// nanoseconds.
pub(crate) trait Work<const MANY: bool> {
    /// Why the next operations cannot be determined.
    type Error;

    fn ranks(&self) -> u32;

    /// An operation that has been freed and not forgotten.
    fn task(&self, index: u32) -> &Task;

    /// The link of an operation in the list in which it waits.
    fn next(&self, index: u32) -> u32;
    fn set_next(&mut self, index: u32, next: u32);

    /// Frees the first operations of a rank.
    fn begin(&mut self, rank: u32, freed: &mut Vec<u32>) -> Result<(), Stop<Self::Error>>;

    /// An operation has started at `start`, or will have ended at `end`, or both: frees what waited
    /// for nothing else, in order. All of it belongs to the same rank.
    fn fulfil(
        &mut self,
        index: u32,
        when: When,
        start: u64,
        end: u64,
        freed: &mut Vec<u32>,
    ) -> Result<(), Stop<Self::Error>>;

    /// The operation is no longer needed.
    fn forget(&mut self, index: u32);

    /// Whether nothing is left waiting once there are no more events.
    fn all_done(&self) -> bool;

    /// With `MANY`: the latest end of the operations that it waited for.
    fn ready(&self, index: u32) -> u64;

    /// With `MANY`: sets when a send ended its own overhead.
    fn set_sent(&mut self, index: u32, time: u64);
    fn sent(&self, index: u32) -> u64;

    /// With `MANY`: sets when the message of a send was taken from the network.
    fn set_arrived(&mut self, index: u32, time: u64);
    fn arrived(&self, index: u32) -> u64;

    /// Prefetches an operation: an event of it, or its message, comes soon.
    fn fetch(&self, index: u32);
    /// Prefetches what begins after an operation that has itself been prefetched.
    fn fetch_next(&self, index: u32);
    /// Prefetches the state of a rank that goes on soon.
    fn fetch_rank(&self, rank: u32);
}
