//! Messages: every send matched with its receive.
//!
//! Messages of one sender that could match the same receive arrive in the order in which they were
//! sent (MPI 4.1, section 3.5), and receives that could match the same message take it in the order
//! in which they were posted. All receives of a stream (communicator, sender, receiver, tag),
//! including wildcard receives that turned out to belong to it, could match all its messages; so
//! the n-th send goes with the n-th receive.

use super::find::{CallFinder, LaneFinder};
use super::lanes::{Program, mix};
use crate::ExplainError;
use idlewave_run::tables::{Direction, Message, Messages, Table, Transfers};
use idlewave_run::{Ledger, RunReader};
use idlewave_units::{Bytes, Rank};
use rayon::prelude::*;
use std::num::NonZeroU64;

/// One end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// Communicator.
    pub comm: u32,
    /// Sender, in MPI_COMM_WORLD.
    pub from: Rank,
    /// Receiver, in MPI_COMM_WORLD.
    pub to: Rank,
    /// Tag.
    pub tag: i32,
    /// Start of the call that started it.
    pub posted: u64,
    /// Order of the rows, for equal times.
    pub row: u32,
    /// Lane that started it.
    pub lane: u32,
    /// Start of the call that completed it.
    pub wait: Option<NonZeroU64>,
    /// End of that call.
    pub completed: Option<NonZeroU64>,
    /// Length.
    pub bytes: u64,
}

impl End {
    fn stream(&self) -> (u32, Rank, Rank, i32) {
        (self.comm, self.from, self.to, self.tag)
    }
}

/// The messages of a program.
#[derive(Debug, Default)]
pub struct Matched {
    /// All sends.
    pub sends: Vec<End>,
    /// All receives that completed.
    pub receives: Vec<End>,
    /// Indices of matching send and receive, in order of streams and times.
    pub pairs: Vec<(u32, u32)>,
    /// Indices of the pairs in order of receiver, sender and completion.
    by_receiver: Vec<u32>,
}

/// The ends of messages as recorded.
#[derive(Debug, Default)]
pub(super) struct Ends {
    sends: Vec<End>,
    receives: Vec<End>,
    /// Receives that never completed: lane, start of the call, sender.
    pending: Vec<(u32, u64, Rank)>,
    /// Receives whose sender is not known either.
    anonymous: u64,
    /// Ends of processes outside MPI_COMM_WORLD.
    foreign: u64,
}

impl Ends {
    /// Reads the transfers of the threads of `program`.
    pub fn read(run: &RunReader, program: &Program) -> Result<Self, ExplainError> {
        let mut found = Self::default();
        let mut row = 0u32;
        let mut lanes = LaneFinder::of(program);
        run.for_each::<Transfers>(|t| {
            row = row.saturating_add(1);
            let Some(lane) = lanes.find(t.rank, t.thread) else {
                found.foreign += 1;
                return;
            };
            let Some(peer) = t.peer else {
                found.anonymous += 1;
                return;
            };
            if !program.of_rank.contains_key(&peer) {
                found.foreign += 1;
                return;
            }
            let receives = t.direction == Direction::Receive;
            if receives && t.completed_ns.is_none() {
                found.pending.push((lane, t.posted_ns, peer));
                return;
            }
            let (from, to) = match receives {
                true => (peer, t.rank),
                false => (t.rank, peer),
            };
            let end = End {
                comm: t.comm,
                from,
                to,
                tag: t.tag,
                posted: t.posted_ns,
                row,
                lane,
                wait: t.wait_ns.and_then(NonZeroU64::new),
                completed: t.completed_ns.and_then(NonZeroU64::new),
                bytes: t.bytes.map_or(0, Bytes::get),
            };
            match receives {
                true => found.receives.push(end),
                false => found.sends.push(end),
            }
        })?;
        Ok(found)
    }

    /// Gives every call the site that follows from its partners.
    fn add_partners(&self, program: &mut Program) {
        let sends = self.sends.iter().map(|s| (s.lane, s.posted, s.to, 2));
        let receives = self.receives.iter().map(|r| (r.lane, r.posted, r.from, 3));
        let pending = self
            .pending
            .iter()
            .map(|&(lane, at, from)| (lane, at, from, 3));
        let mut calls = CallFinder::of(program);
        for (lane, posted, partner, direction) in sends.chain(receives).chain(pending) {
            if let Some(call) = calls.find(program, lane, posted) {
                let site = &mut program.lanes[lane as usize].calls[call as usize].site;
                // A sum, so the order in which a call starts its transfers does not matter.
                *site = site.wrapping_add(mix(partner.get(), direction));
            }
        }
    }
}

impl Matched {
    /// Matches the ends of the messages of `program`; gives every call the site that follows from
    /// its partners.
    pub(super) fn of(ends: Ends, program: &mut Program, losses: &mut Ledger) -> Self {
        ends.add_partners(program);
        let unfinished = ends.anonymous + ends.pending.len() as u64;
        let mut found = Matched {
            sends: ends.sends,
            receives: ends.receives,
            ..Matched::default()
        };
        let backwards = found.pair_up(program);
        let unmatched =
            (found.sends.len() + found.receives.len()) as u64 - 2 * found.pairs.len() as u64;
        losses.enter(
            "receives that never completed",
            unfinished,
            "they belong to no message",
            "nothing, unless you expect the program to complete all of them",
        );
        losses.enter(
            "sends and receives without their other end",
            unmatched - 2 * backwards,
            "they belong to no message, and waits for them are not explained",
            "check whether calls were lost, or ranks not recorded",
        );
        losses.enter(
            "messages received before they were sent",
            backwards,
            "they are left out: the wrong ends were matched, or the clocks differ more than measured",
            "check whether calls were lost",
        );
        losses.enter(
            "sends and receives of processes outside MPI_COMM_WORLD",
            ends.foreign,
            "they are left out",
            "record the program without spawning processes",
        );
        found
    }

    /// Pairs the ends of every stream; returns how many pairs contradict the clocks.
    fn pair_up(&mut self, program: &Program) -> u64 {
        rayon::join(
            || self.sends.par_sort_unstable(),
            || self.receives.par_sort_unstable(),
        );
        let mut backwards = 0;
        let (mut s, mut r) = (0, 0);
        while let (Some(send), Some(receive)) = (self.sends.get(s), self.receives.get(r)) {
            match send.stream().cmp(&receive.stream()) {
                std::cmp::Ordering::Less => s += 1,
                std::cmp::Ordering::Greater => r += 1,
                std::cmp::Ordering::Equal => {
                    let error = program.clock_error(send.lane, receive.lane);
                    let completed = receive.completed.map_or(0, NonZeroU64::get);
                    if send.posted > completed.saturating_add(error) {
                        backwards += 1;
                    } else {
                        self.pairs.push((s as u32, r as u32));
                    }
                    (s, r) = (s + 1, r + 1);
                }
            }
        }
        let mut order: Vec<u32> = (0..self.pairs.len() as u32).collect();
        order.sort_by_key(|&p| self.receiver_key(p));
        self.by_receiver = order;
        backwards
    }

    fn receiver_key(&self, pair: u32) -> (Rank, Rank, u64, u32) {
        let receive = &self.receives[self.pairs[pair as usize].1 as usize];
        let completed = receive.completed.map_or(0, NonZeroU64::get);
        (receive.to, receive.from, completed, pair)
    }

    /// When the last message from `from` that `to` had received by `time` was sent.
    pub(super) fn last_sent(&self, from: Rank, to: Rank, time: u64) -> Option<u64> {
        let key = (to, from, time, u32::MAX);
        let after = self
            .by_receiver
            .partition_point(|&p| self.receiver_key(p) <= key);
        let pair = *self.by_receiver.get(after.checked_sub(1)?)?;
        let (found_to, found_from, ..) = self.receiver_key(pair);
        let send = self.pairs[pair as usize].0;
        ((found_to, found_from) == (to, from)).then(|| self.sends[send as usize].posted)
    }

    /// The table `messages`, in order of sending.
    pub fn table(&self) -> Messages {
        let mut order: Vec<u32> = (0..self.pairs.len() as u32).collect();
        order.sort_by_key(|&p| (self.sends[self.pairs[p as usize].0 as usize].posted, p));
        let mut out = Messages::default();
        for p in order {
            let (s, r) = self.pairs[p as usize];
            let (send, receive) = (&self.sends[s as usize], &self.receives[r as usize]);
            out.push(Message {
                from: send.from,
                to: send.to,
                comm: send.comm,
                tag: send.tag,
                bytes: Bytes::new(receive.bytes),
                sent_ns: send.posted,
                posted_ns: receive.posted,
                wait_ns: receive.wait.map_or(0, NonZeroU64::get),
                completed_ns: receive.completed.map_or(0, NonZeroU64::get),
            });
        }
        out
    }
}
