//! All nodes of one process, and the switch of them from one gang to another: stop, drain, context, resume.

use super::ChannelError;
use super::context::{ContextError, Counts, Layout};
use super::fabric::NetctxFabric;
use super::node::{Node, Traffic};
use super::policy::Policy;
use super::port::{PREFIX, ThreadPort};
use super::transport::Transport;
use idlewave_units::Nanos;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two turns of the thread that moves frames on while ranks compute or are gone.
const TURN: Duration = Duration::from_micros(500);

/// Why gangs could not be set up or switched.
#[derive(Debug, thiserror::Error)]
pub enum NetctxError {
    /// There is no such context.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// A channel refused.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The old gang goes on in a new epoch; nothing is lost.
    #[error("drain the network within {limit:?}: {counts:?} frames, the gang goes on")]
    NotDrained {
        /// The time that it had.
        limit: Duration,
        /// Frames of the gang.
        counts: Counts,
    },
    /// The thread that moves frames on did not start.
    #[error("start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// How gangs share nodes.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of gangs, each with a rank on every node.
    pub gangs: u32,
    /// What a switch does with contexts.
    pub policy: Policy,
    /// Bytes of each context.
    pub context_bytes: usize,
    /// After which time without an answer everything is said again.
    pub timeout: Nanos,
}

impl Default for Options {
    /// One gang, contexts of 1 MiB, 5 ms.
    fn default() -> Self {
        Self {
            gangs: 1,
            policy: Policy::Resident,
            context_bytes: 1 << 20,
            timeout: Nanos::from_millis(5),
        }
    }
}

/// What a switch did.
#[derive(Clone, Copy, Debug)]
pub struct Switched {
    /// The epoch that the new gang runs in.
    pub epoch: u64,
    /// Frames of the old gang so far: as many came in as were sent.
    pub counts: Counts,
    /// Bytes copied on all nodes.
    pub copied: usize,
    /// From the stop until everything was drained.
    pub drain: Nanos,
    /// Change of the contexts on all nodes, one after the other, and their resumption.
    pub context: Nanos,
}

/// What the ranks of all gangs share.
pub(super) struct Shared<T> {
    nodes: Box<[Mutex<Node<T>>]>,
    /// By gang: whether one of its ranks failed.
    pub(super) failed: Box<[AtomicBool]>,
    began: Instant,
}

impl<T> Shared<T> {
    /// Number of nodes, which is that of the ranks of each gang.
    pub(super) fn size(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// A node. What a rank that panicked left of one is whole: nothing in it panics halfway.
    pub(super) fn node(&self, rank: u32) -> MutexGuard<'_, Node<T>> {
        let node = self.nodes[rank as usize].lock();
        node.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Nanos {
        Nanos::from_nanos(self.began.elapsed().as_nanos() as u64)
    }
}

/// The ranks of each gang.
pub type Gangs<T> = Vec<Vec<NetctxFabric<ThreadPort<T>>>>;

/// All nodes. Gangs run on after it is dropped, without switches.
pub struct World<T> {
    shared: Arc<Shared<T>>,
    epoch: u64,
}

impl<T: Transport + 'static> World<T> {
    /// Nodes on these transports, and the ranks of each gang, to be moved into their threads. The first gang is active.
    ///
    /// # Errors
    /// Contexts of this size are not possible, there are no gangs, or a thread did not start.
    pub fn new(transports: Vec<T>, options: Options) -> Result<(Self, Gangs<T>), NetctxError> {
        let size = transports.len() as u32;
        let longest = transports.iter().map(Transport::longest).min().unwrap_or(0);
        let payload = longest.saturating_sub(super::frame::HEADER_BYTES);
        if payload <= PREFIX {
            return Err(ContextError::Payload(payload).into());
        }
        let layout = Layout::fit(options.context_bytes, size, payload)?;
        let gangs: Vec<u32> = (0..options.gangs).collect();
        let mut nodes = Vec::new();
        for (rank, transport) in (0..size).zip(transports) {
            let (policy, timeout) = (options.policy, options.timeout);
            let node = Node::new(transport, layout, policy, &gangs, rank, timeout)?;
            nodes.push(Mutex::new(node));
        }
        let shared = Arc::new(Shared {
            nodes: nodes.into(),
            failed: gangs.iter().map(|_| AtomicBool::new(false)).collect(),
            began: Instant::now(),
        });
        let mut world = Self { shared, epoch: 0 };
        world.resume(&mut world.all())?;
        world.epoch = 1;
        world.move_on()?;
        let rank = |gang, rank| NetctxFabric::new(ThreadPort::new(&world.shared, gang, rank));
        let gang = |gang: &u32| (0..size).map(|r| rank(*gang, r)).collect();
        let fabrics = gangs.iter().map(gang).collect();
        Ok((world, fabrics))
    }

    /// Starts the thread that answers for ranks that compute, and repeats what those said that are gone. It ends with the
    /// last of them.
    fn move_on(&self) -> Result<(), NetctxError> {
        let shared = Arc::downgrade(&self.shared);
        let turn = move || {
            while let Some(shared) = shared.upgrade() {
                for rank in 0..shared.size() {
                    let now = shared.now();
                    shared.node(rank).progress(now);
                }
                drop(shared);
                std::thread::sleep(TURN);
            }
        };
        let named = std::thread::Builder::new().name("netctx".to_owned());
        named.spawn(turn)?;
        Ok(())
    }

    /// All nodes, locked. Everybody else locks one at a time, so nobody waits for a node in a circle.
    fn all(&self) -> Vec<MutexGuard<'_, Node<T>>> {
        (0..self.shared.size())
            .map(|rank| self.shared.node(rank))
            .collect()
    }

    /// Resumes all nodes in the next epoch, at one moment: no frame of it meets a node that is not in it yet.
    fn resume(&self, nodes: &mut [MutexGuard<'_, Node<T>>]) -> Result<(), ChannelError> {
        for node in nodes {
            node.resume(self.epoch + 1)?;
        }
        Ok(())
    }

    /// Frames that the nodes have seen, added up.
    pub fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        for node in self.all() {
            let one = node.traffic();
            sum.sent += one.sent;
            sum.taken += one.taken;
            sum.damaged += one.damaged;
            sum.foreign += one.foreign;
            sum.timeouts += one.timeouts;
        }
        sum
    }

    /// Stops the gang that runs, waits until nothing of it is on the network, and lets the `gang`-th go on.
    ///
    /// # Errors
    /// There is no such gang; or the network was not drained within `limit`: then the old gang goes on.
    pub fn switch(&mut self, gang: u32, limit: Duration) -> Result<Switched, NetctxError> {
        let begin = self.shared.now();
        for rank in 0..self.shared.size() {
            self.shared.node(rank).current().stop();
        }
        while !self.is_drained() {
            let passed = self.shared.now().saturating_sub(begin);
            if passed.to_duration() > limit {
                let mut nodes = self.all();
                let counts = counts(&mut nodes);
                self.resume(&mut nodes)?;
                drop(nodes);
                self.epoch += 1;
                return Err(NetctxError::NotDrained { limit, counts });
            }
            std::thread::yield_now();
        }
        let drained = self.shared.now();
        let mut nodes = self.all();
        let counts = counts(&mut nodes);
        let mut copied = 0;
        let mut refused = None;
        for node in &mut nodes {
            match node.switch(gang) {
                Ok(bytes) => copied += bytes,
                Err(error) => refused = Some(error),
            }
        }
        self.resume(&mut nodes)?;
        drop(nodes);
        self.epoch += 1;
        if let Some(error) = refused {
            return Err(error.into());
        }
        Ok(Switched {
            epoch: self.epoch,
            counts,
            copied,
            drain: drained.saturating_sub(begin),
            context: self.shared.now().saturating_sub(drained),
        })
    }

    fn is_drained(&self) -> bool {
        let mut all = true;
        for rank in 0..self.shared.size() {
            let mut node = self.shared.node(rank);
            node.progress(self.shared.now());
            all &= node.current().is_drained();
        }
        all
    }
}

fn counts<T: Transport>(nodes: &mut [MutexGuard<'_, Node<T>>]) -> Counts {
    let mut sum = Counts::default();
    for node in nodes {
        let one = node.counts();
        sum.sent += one.sent;
        sum.received += one.received;
    }
    sum
}
