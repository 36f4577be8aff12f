//! Ranks as threads of one process, with mailboxes in shared memory.

use crate::mailbox::{Ends, Mailboxes};
use crate::matching::{Messages, Receiving, Sending};
use crate::meeting::Meeting;
use crate::members::{Chosen, place_among};
use crate::{Delivery, Fabric, FabricError, Nodes, PointToPoint, Tag};
use idlewave_units::Rank;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Iterations of a wait between checks for a failed rank.
const TURNS_PER_LOOK: u32 = 256;
/// Iterations of a wait after which a rank that shares its CPU yields it.
const TURNS_BEFORE_YIELD: u32 = 64;

/// How a rank waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Keeps its CPU, as MPI libraries do: for ranks that have a CPU each.
    Spin,
    /// Yields its CPU after a short while: for more ranks than CPUs.
    Yield,
}

/// A flag of the barrier on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Flag(AtomicU64);

/// What the ranks of one world share.
struct Shared {
    waiting: Waiting,
    failed: AtomicBool,
    mailboxes: Arc<Mailboxes>,
    /// Barrier: at `r * rounds + k`, the last barrier signalled to rank `r` in round `k`.
    flags: Box<[Flag]>,
    rounds: u32,
    meeting: Meeting,
}

/// One rank of a world of threads. If it is dropped while its thread panics, the others' waits end
/// with [`FabricError::PeerFailed`].
pub struct Endpoint {
    rank: u32,
    shared: Arc<Shared>,
    ends: Ends,
    messages: Messages,
    barriers: u64,
    /// The participating ranks, if not all participate.
    chosen: Option<Chosen>,
    meetings: u64,
}

/// The ends of `size` ranks, to be moved into their threads.
pub fn world(size: u32, waiting: Waiting) -> Vec<Endpoint> {
    let n = size as usize;
    let rounds = rounds_of(size);
    let shared = Arc::new(Shared {
        waiting,
        failed: AtomicBool::new(false),
        mailboxes: Arc::new(Mailboxes::new(size)),
        flags: (0..n * rounds as usize).map(|_| Flag::default()).collect(),
        rounds,
        meeting: Meeting::default(),
    });
    let end = |rank| Endpoint {
        rank,
        shared: Arc::clone(&shared),
        ends: Ends::new(rank, &shared.mailboxes),
        messages: Messages::new(size),
        barriers: 0,
        chosen: None,
        meetings: 0,
    };
    (0..size).map(end).collect()
}

/// Rounds of a barrier.
pub(crate) fn rounds_of(size: u32) -> u32 {
    size.max(1).next_power_of_two().trailing_zeros()
}

impl Endpoint {
    /// Called by a rank that gives up: the waits of all ranks fail.
    pub fn fail(&self) {
        self.shared.failed.store(true, Ordering::Relaxed);
    }

    /// Number of participating ranks.
    fn active(&self) -> u32 {
        match &self.chosen {
            Some(chosen) => chosen.members.len() as u32,
            None => self.shared.mailboxes.size(),
        }
    }

    /// Translates a rank among the participants to its rank in the whole world.
    fn resolve(&self, rank: Rank) -> Result<Rank, FabricError> {
        Chosen::resolve(self.chosen.as_ref(), rank, self.shared.mailboxes.size())
    }

    /// The result of a receive, with the sender's rank translated to its rank among the
    /// participants.
    fn heard(&self, result: Result<Delivery, FabricError>) -> Result<Delivery, FabricError> {
        Chosen::heard(self.chosen.as_ref(), result)
    }

    /// Sleeps until all ranks of the world have met; returns the highest number of barriers that
    /// any rank has passed.
    fn meet(&mut self) -> Result<u64, FabricError> {
        self.meetings += 1;
        let (size, shared) = (self.shared.mailboxes.size(), &self.shared);
        let failed = || shared.failed.load(Ordering::Relaxed);
        let met = shared
            .meeting
            .meet(size, self.meetings, self.barriers, failed);
        met.ok_or(FabricError::PeerFailed)
    }

    fn look(&self) -> Result<(), FabricError> {
        if self.shared.failed.load(Ordering::Relaxed) {
            return Err(FabricError::PeerFailed);
        }
        Ok(())
    }

    /// One iteration of a wait.
    #[inline]
    fn relax(&self, turn: &mut u32) -> Result<(), FabricError> {
        *turn = turn.wrapping_add(1);
        if *turn % TURNS_PER_LOOK == 0 {
            self.look()?;
        }
        if self.shared.waiting == Waiting::Yield && *turn % TURNS_BEFORE_YIELD == 0 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl PointToPoint for Endpoint {
    type Sending = Sending;
    type Receiving = Receiving;

    fn rank(&self) -> Rank {
        let chosen = self.chosen.as_ref().map(|chosen| chosen.place);
        Rank::new(chosen.unwrap_or(self.rank))
    }
    fn size(&self) -> u32 {
        self.active()
    }

    fn start_send(&mut self, to: Rank, tag: Tag, data: Vec<u8>) -> Result<Sending, FabricError> {
        let to = self.resolve(to)?;
        Ok(self.messages.send(&mut self.ends, to, tag, data))
    }

    fn start_receive(
        &mut self,
        from: Option<Rank>,
        tag: Tag,
        capacity: usize,
        buffer: Vec<u8>,
    ) -> Result<Receiving, FabricError> {
        let from = from.map(|from| self.resolve(from)).transpose()?;
        Ok(self.messages.receive(from, tag, capacity, buffer))
    }

    fn is_sent(&mut self, sending: &Sending) -> Result<bool, FabricError> {
        self.look()?;
        self.messages.progress(&mut self.ends);
        Ok(self.messages.is_sent(sending))
    }

    fn is_received(&mut self, receiving: &Receiving) -> Result<bool, FabricError> {
        self.look()?;
        self.messages.progress(&mut self.ends);
        Ok(self.messages.is_received(receiving))
    }

    fn finish_send(
        &mut self,
        sending: Sending,
        hook: &mut impl FnMut(),
    ) -> Result<Vec<u8>, FabricError> {
        let mut turn = 0;
        loop {
            if let Some(data) = self.messages.finish_send(&sending) {
                return Ok(data);
            }
            self.messages.progress(&mut self.ends);
            hook();
            self.relax(&mut turn)?;
        }
    }

    fn finish_receive(
        &mut self,
        receiving: Receiving,
        hook: &mut impl FnMut(),
    ) -> Result<Delivery, FabricError> {
        let mut turn = 0;
        loop {
            if let Some(delivery) = self.messages.finish_receive(&receiving) {
                return self.heard(delivery);
            }
            self.messages.progress(&mut self.ends);
            hook();
            self.relax(&mut turn)?;
        }
    }
}

impl Fabric for Endpoint {
    fn fail(&self) {
        Self::fail(self);
    }

    fn nodes(&mut self) -> Result<Nodes, FabricError> {
        Ok(Nodes::single(self.active()))
    }

    fn with_ranks<T>(
        &mut self,
        members: &[Rank],
        work: impl FnOnce(&mut Self) -> T,
    ) -> Result<Option<T>, FabricError> {
        assert!(self.chosen.is_none(), "already among chosen ranks");
        let place = place_among(members, Rank::new(self.rank), self.active())?;
        // A rank may leave a barrier while another has yet to send its signals. Once the partners
        // change, these could overwrite newer ones, so no rank goes on before all have left.
        self.meet()?;
        let done = place.map(|place| {
            let members = members.to_vec();
            self.chosen = Some(Chosen { place, members });
            let done = work(self);
            self.chosen = None;
            done
        });
        // No rank can pass another barrier of the world before all have read this number.
        self.barriers = self.meet()?;
        Ok(done)
    }

    /// Dissemination (Hensgen, Finkel and Manber 1988): in round k rank r signals rank r + 2^k and
    /// waits for rank r - 2^k; after log2(size) rounds, rounded up, it has heard from all.
    fn barrier(&mut self, hook: &mut impl FnMut()) -> Result<(), FabricError> {
        self.barriers += 1;
        let (size, rounds) = (self.active(), self.shared.rounds as usize);
        let place = u64::from(self.rank().get());
        for round in 0..rounds_of(size) as usize {
            let to = (place + (1 << round)) % u64::from(size);
            let to = self.resolve(Rank::new(to as u32))?.get();
            // Release: whoever sees the signal sees what this rank did before the barrier and,
            // because this rank acquired earlier rounds, what the ranks it heard from did.
            self.shared.flags[to as usize * rounds + round]
                .0
                .store(self.barriers, Ordering::Release);
            let own = &self.shared.flags[self.rank as usize * rounds + round].0;
            let mut turn = 0;
            // Not `!=`: the other side may be one barrier ahead.
            while own.load(Ordering::Acquire) < self.barriers {
                hook();
                self.relax(&mut turn)?;
            }
        }
        Ok(())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail();
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.active())
    }
}
