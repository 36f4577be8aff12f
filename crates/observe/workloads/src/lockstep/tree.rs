//! How a lockstep run ends if its own operations cannot tell all ranks: by a tree of small
//! messages.
//!
//! After every `every` iterations each rank receives what its parent sent and passes it on to its
//! children, which receive it one check later: a message has a whole period to arrive, so receiving
//! it costs no wait. What rank 0 decides reaches a rank of depth d after d checks, so the end is
//! set as many checks ahead as the deepest rank needs. There is no cyclic wait: in check j a rank
//! waits only for messages sent, or receives posted, in check j - 1.

use super::message::{HEADER, Header, NO_END};
use crate::WorkloadError;
use idlewave_fabric::{Fabric, Tag};
use idlewave_units::{Nanos, Rank};

/// Time between two checks: short for a user who waits for the end, long compared with a step.
const PERIOD: Nanos = Nanos::from_millis(5);
const MOST_EVERY: u64 = 1_024;
const TAG: Tag = Tag(100);

/// One rank's place in the tree. Rank r has the children 2 r + 1 and 2 r + 2.
pub struct Tree<F: Fabric> {
    every: u64,
    depth: u64,
    parent: Option<Rank>,
    children: Vec<Rank>,
    expected: Option<F::Receiving>,
    under_way: Vec<F::Sending>,
    buffer: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

impl<F: Fabric> Tree<F> {
    /// For iterations with `work` of computation, which must be the same on all ranks.
    pub fn new(fabric: &F, work: Nanos) -> Self {
        let (rank, size) = (fabric.rank().get(), fabric.size());
        let child = |nth: u32| {
            let child = 2 * u64::from(rank) + u64::from(nth);
            u32::try_from(child).ok().filter(|c| *c < size)
        };
        let children: Vec<Rank> = [1, 2]
            .into_iter()
            .filter_map(child)
            .map(Rank::new)
            .collect();
        Self {
            every: (PERIOD.get() / work.get().max(1)).clamp(1, MOST_EVERY),
            depth: u64::from(size.max(1).ilog2()),
            parent: (rank > 0).then(|| Rank::new((rank - 1) / 2)),
            expected: None,
            under_way: Vec::with_capacity(2),
            buffer: vec![0; HEADER],
            spare: children.iter().map(|_| vec![0; HEADER]).collect(),
            children,
        }
    }

    /// The last iteration, if rank 0 decides at the end of `iteration`, after any check due then.
    pub fn last_after(&self, iteration: u64) -> u64 {
        // The check after this iteration, if any, is already over.
        let next_check = ((iteration + 1) / self.every + 1) * self.every - 1;
        next_check + self.depth * self.every
    }

    /// Whether there is a check after this iteration.
    pub fn is_due(&self, iteration: u64) -> bool {
        (iteration + 1) % self.every == 0
    }

    /// Prepares the first check.
    pub fn begin(&mut self, fabric: &mut F) -> Result<(), WorkloadError> {
        self.tell(fabric, 0, NO_END)
    }

    /// The check after `iteration`: returns the last iteration, if known by then.
    pub fn check(
        &mut self,
        fabric: &mut F,
        iteration: u64,
        last: u64,
        hook: &mut impl FnMut(),
    ) -> Result<u64, WorkloadError> {
        let last = last.min(self.settle(fabric, hook)?);
        if iteration < last {
            self.tell(fabric, iteration + 1, last)?;
        }
        Ok(last)
    }

    fn tell(&mut self, fabric: &mut F, iteration: u64, last: u64) -> Result<(), WorkloadError> {
        if let Some(parent) = self.parent {
            let buffer = std::mem::take(&mut self.buffer);
            self.expected = Some(fabric.start_receive(Some(parent), TAG, HEADER, buffer)?);
        }
        let header = Header {
            last,
            iteration,
            sender: fabric.rank(),
            way: 0,
        };
        for &child in &self.children {
            let mut message = self.spare.pop().unwrap_or_else(|| vec![0; HEADER]);
            header.write(&mut message);
            self.under_way.push(fabric.start_send(child, TAG, message)?);
        }
        Ok(())
    }

    /// Completes what is in flight; returns what the parent said, or [`NO_END`].
    pub fn settle(
        &mut self,
        fabric: &mut F,
        hook: &mut impl FnMut(),
    ) -> Result<u64, WorkloadError> {
        let mut last = NO_END;
        if let Some(receiving) = self.expected.take() {
            self.buffer = fabric.finish_receive(receiving, hook)?.data;
            last = Header::read(&self.buffer).map_or(NO_END, |h| h.last);
        }
        for sending in self.under_way.drain(..) {
            self.spare.push(fabric.finish_send(sending, hook)?);
        }
        Ok(last)
    }
}
