//! The state of a domain: its endpoint with the rank's port, completion queues, counters and
//! address vectors. One lock protects all of it, so that any thread may call anything
//! (FI_THREAD_SAFE).

use crate::abi::{CqEntry, CqErrEntry, NO_ADDRESS, code, flag};
use crate::address::Address;
use crate::done::Done;
use crate::matching::Matching;
use crate::port;
use idlewave_fabric::netctx::device::RankPort;
use idlewave_sys::terminal::say;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of unexpected messages, 1 GiB. A program with more is assumed never to receive
/// them.
const MOST_EARLY: usize = 1 << 30;

/// An engine that several objects share.
pub type Shared = Arc<Mutex<Engine>>;

/// Locks it. What a panic may have left is consistent enough to report errors.
pub fn lock(shared: &Shared) -> MutexGuard<'_, Engine> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where completions of one direction are reported.
#[derive(Clone, Copy, Debug, Default)]
pub struct Binding {
    /// A completion queue.
    pub queue: Option<usize>,
    /// Whether it gets only the completions that were asked for.
    pub selective: bool,
    /// A counter.
    pub counter: Option<usize>,
}

/// The open endpoint.
pub struct Endpoint {
    pub port: RankPort,
    pub matching: Matching,
    pub send: Binding,
    pub receive: Binding,
    pub av: Option<usize>,
    /// Whether receives may name their source.
    pub directed: bool,
    /// Flags of operations that have none of their own.
    pub send_flags: u64,
    pub receive_flags: u64,
    pub enabled: bool,
    /// Bytes that must be left in a buffer for several messages.
    pub least: usize,
}

/// A completion queue.
#[derive(Default)]
pub struct Queue {
    /// Completions with the rank that a message came from; `None` for those of sends.
    pub entries: VecDeque<(CqEntry, Option<u32>)>,
    pub errors: VecDeque<CqErrEntry>,
}

/// A counter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter {
    pub value: u64,
    pub errors: u64,
}

/// An address vector: addresses by fi_addr.
pub type Addresses = Vec<Option<Address>>;

/// See the module.
#[derive(Default)]
pub struct Engine {
    pub endpoint: Option<Endpoint>,
    pub queues: Vec<Option<Queue>>,
    pub counters: Vec<Option<Counter>>,
    pub avs: Vec<Option<Addresses>>,
    /// Why nothing is carried any more.
    failed: Option<isize>,
}

/// Puts an item at a free place and returns its index.
pub fn place<T>(all: &mut Vec<Option<T>>, item: T) -> usize {
    match all.iter().position(Option::is_none) {
        Some(free) => {
            all[free] = Some(item);
            free
        }
        None => {
            all.push(Some(item));
            all.len() - 1
        }
    }
}

impl Engine {
    /// Opens the endpoint.
    ///
    /// # Errors
    /// A code: there is one already, or no device for this process.
    pub fn open(&mut self, directed: bool, flags: (u64, u64)) -> Result<(), isize> {
        if self.endpoint.is_some() {
            return Err(code::EBUSY);
        }
        self.endpoint = Some(Endpoint::new(port::take()?, directed, flags));
        Ok(())
    }

    /// Closes it.
    pub fn close(&mut self) {
        if let Some(endpoint) = self.endpoint.take() {
            if endpoint.matching.is_within_a_send() {
                // The rest of that message will never come: whoever waits for it is told.
                endpoint.port.fail();
            }
            port::put_back(endpoint.port, endpoint.matching);
        }
    }

    /// Moves messages as far as possible without waiting; returns whether the gang runs. After a
    /// failure it only reports.
    pub fn progress(&mut self) -> bool {
        if self.failed.is_some() {
            self.report();
            return true;
        }
        let Some(endpoint) = &mut self.endpoint else {
            return true;
        };
        let Endpoint { port, matching, .. } = endpoint;
        let runs = port.reach(|rings| matching.progress(rings)).1;
        port.tested();
        let failure = if let Some(error) = port.failure() {
            Some(error.to_string())
        } else if matching.is_forged() {
            Some("another rank of this gang sent something that is no message".to_owned())
        } else if matching.early_bytes() > MOST_EARLY {
            let bytes = matching.early_bytes();
            Some(format!(
                "it holds {bytes} bytes of messages that no receive has asked for, more than 1 GiB"
            ))
        } else {
            None
        };
        if let Some(why) = failure {
            self.fail(&why);
        }
        self.report();
        runs
    }

    /// Ends all operations with an error, and says why.
    fn fail(&mut self, why: &str) {
        self.failed = Some(code::ENETDOWN);
        if let Some(endpoint) = &mut self.endpoint {
            let rank = endpoint.port.rank();
            say(&format!("idlewave: rank {rank} gives up: {why}\n"));
            endpoint.matching.fail(code::ENETDOWN);
            // The others must not wait for this rank.
            endpoint.port.fail();
        }
    }

    /// Where the endpoint, if there is one, reports to.
    pub fn bindings(&self) -> impl Iterator<Item = Binding> {
        let both = |endpoint: &Endpoint| [endpoint.send, endpoint.receive];
        self.endpoint.as_ref().map(both).into_iter().flatten()
    }

    /// Why nothing is carried any more; `None` if messages are.
    pub fn failed(&self) -> Option<isize> {
        self.failed
    }

    /// Passes completions to queues and counters.
    pub fn report(&mut self) {
        let Self {
            endpoint,
            queues,
            counters,
            ..
        } = self;
        let Some(endpoint) = endpoint else { return };
        while let Some(done) = endpoint.matching.done() {
            let binding = match done.is_send() {
                true => endpoint.send,
                false => endpoint.receive,
            };
            let counter = binding
                .counter
                .and_then(|at| counters.get_mut(at)?.as_mut());
            if let Some(counter) = counter {
                match done.error {
                    Some(_) => counter.errors = counter.errors.wrapping_add(1),
                    None => counter.value = counter.value.wrapping_add(1),
                }
            }
            let queue = binding.queue.and_then(|at| queues.get_mut(at)?.as_mut());
            if let Some(queue) = queue {
                queue.add(&done);
            }
        }
    }

    /// The rank that an fi_addr means.
    pub fn rank_of(&self, address: u64) -> Option<u32> {
        let endpoint = self.endpoint.as_ref()?;
        let addresses = self.avs.get(endpoint.av?)?.as_ref()?;
        let address = addresses.get(usize::try_from(address).ok()?).copied()??;
        // What was inserted before there was an endpoint was not checked.
        self.accepts(&address).then_some(address.rank)
    }

    /// The fi_addr of a rank, for programs that ask where a message came from.
    pub fn address_of(&self, rank: u32) -> u64 {
        let place = self.endpoint.as_ref().and_then(|endpoint| {
            let gang = endpoint.port.gang();
            let all = self.avs.get(endpoint.av?)?.as_ref()?;
            all.iter()
                .position(|one| *one == Some(Address { gang, rank }))
        });
        place.map_or(NO_ADDRESS, |place| place as u64)
    }

    /// Whether an address is that of a rank of this gang, as far as is known.
    pub fn accepts(&self, address: &Address) -> bool {
        let port = self.endpoint.as_ref().map(|endpoint| &endpoint.port);
        port.is_none_or(|port| address.gang == port.gang() && address.rank < port.size())
    }
}

impl Queue {
    fn add(&mut self, done: &Done) {
        match done.error {
            Some((error, olen)) => self.errors.push_back(CqErrEntry {
                entry: done.entry,
                olen,
                err: error as c_int,
                prov_errno: error as c_int,
                err_data: std::ptr::null_mut(),
                err_data_size: 0,
            }),
            None if done.reports => self.entries.push_back((done.entry, done.source)),
            None => {}
        }
    }
}

// SAFETY: the addresses in completions are never followed.
unsafe impl Send for Queue {}

impl Endpoint {
    /// One that reports nowhere and is not enabled yet; flags are those of sends and of receives.
    fn new(
        (port, matching): (RankPort, Matching),
        directed: bool,
        (send_flags, receive_flags): (u64, u64),
    ) -> Self {
        Self {
            port,
            matching,
            send: Binding::default(),
            receive: Binding::default(),
            av: None,
            directed,
            send_flags,
            receive_flags,
            enabled: false,
            least: 64,
        }
    }

    /// Whether a completion is to be reported: `flags` are those of the operation.
    pub fn reports(binding: &Binding, flags: u64) -> bool {
        !binding.selective || flags & flag::COMPLETION != 0
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
