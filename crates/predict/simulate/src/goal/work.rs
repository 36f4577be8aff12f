//! What the engine asks of those who know the operations: a schedule in memory, or a program that is expanded as it is played.

use super::schedule::Task;

/// Whose dependents are freed.
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
    /// The operations that come next cannot be told.
    Work(Box<E>),
}

/// The operations of all ranks, by numbers below 2^31. With one CPU for each rank (not `MANY`) its clock says when an
/// operation may start; with several there are moments to be remembered, all in nanoseconds.
pub(crate) trait Work<const MANY: bool> {
    /// Why operations that come next cannot be told.
    type Error;

    fn ranks(&self) -> u32;

    /// An operation that has been freed and not been forgotten.
    fn task(&self, index: u32) -> &Task;

    /// The link of an operation in the list in which it waits.
    fn next(&self, index: u32) -> u32;
    fn set_next(&mut self, index: u32, next: u32);

    /// Frees what a rank begins with.
    fn begin(&mut self, rank: u32, freed: &mut Vec<u32>) -> Result<(), Stop<Self::Error>>;

    /// An operation has started at `start`, or will have ended at `end`, or both: what waited for nothing else is freed, in
    /// its order. All of it is of the same rank.
    fn fulfil(
        &mut self,
        index: u32,
        when: When,
        start: u64,
        end: u64,
        freed: &mut Vec<u32>,
    ) -> Result<(), Stop<Self::Error>>;

    /// Nobody asks for this operation any more.
    fn forget(&mut self, index: u32);

    /// Whether nothing waits any more for others, once no event is left.
    fn all_done(&self) -> bool;

    /// With `MANY`: the latest end of what an operation waited for.
    fn ready(&self, index: u32) -> u64;

    /// With `MANY`: when a send has ended its own overhead.
    fn set_sent(&mut self, index: u32, time: u64);
    fn sent(&self, index: u32) -> u64;

    /// With `MANY`: when the message of a send has been taken from the network.
    fn set_arrived(&mut self, index: u32, time: u64);
    fn arrived(&self, index: u32) -> u64;

    /// An event of this operation, or its message, comes soon.
    fn fetch(&self, index: u32);
    /// So does what begins after it; itself it has been fetched.
    fn fetch_next(&self, index: u32);
    /// This rank goes on soon.
    fn fetch_rank(&self, rank: u32);
}
