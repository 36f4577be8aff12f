//! Requests: what a handle stands for until it is completed.
//!
//! A handle may stand for several requests at once: libraries return one shared handle for
//! operations that are complete as soon as they start (MPICH for small sends, Open MPI for
//! MPI_PROC_NULL and for sends that it copied). The request last started with the same variable of
//! the program is then taken or, if the program has copied the handle, the oldest.

use crate::call::Call;
use crate::communicators::Comm;
use crate::library::Kind;
use crate::narrow::Kept;
use crate::point_to_point::Transfer;
use crate::state::Want;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a request does.
#[derive(Clone)]
pub enum What {
    /// Sends or receives, with its record as posted.
    Transfer { comm: Arc<Comm>, transfer: Transfer },
    /// A collective, with the arrays that the library needs for it.
    Collective(#[allow(dead_code)] Kept),
    /// Makes a communicator.
    Communicator {
        parent: u64,
        at: usize,
        fortran: bool,
    },
    /// Does nothing: the other end is MPI_PROC_NULL.
    Nothing,
}

/// A request.
#[derive(Clone)]
pub struct Request {
    /// Number of the request in its process; a persistent request gets a new one at each start.
    pub serial: u64,
    pub what: What,
    /// Whether MPI_Cancel was called.
    pub cancelled: bool,
    /// What it waits for, as described in the state page.
    pub want: Want,
    persistent: bool,
    active: bool,
    slot: usize,
}

enum Queue {
    One(Request),
    Many(VecDeque<Request>),
}

#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }
    fn write_usize(&mut self, value: usize) {
        // Addresses and handles differ in the middle bits: spread those to the top, where the map
        // looks, and to the bottom.
        let x = (self.0 ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = x ^ (x >> 32);
    }
}

type Map = HashMap<usize, Queue, BuildHasherDefault<Multiply>>;

const SHARDS: usize = 16;
static SHARD: [Mutex<Map>; SHARDS] =
    [const { Mutex::new(HashMap::with_hasher(BuildHasherDefault::new())) }; SHARDS];
static NEXT: AtomicU64 = AtomicU64::new(0);

fn shard(handle: usize) -> MutexGuard<'static, Map> {
    let place = (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
    SHARD[place as usize]
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// A new number.
fn next() -> u64 {
    NEXT.fetch_add(1, Relaxed)
}

/// Registers the request that a call started and that argument `i` points to; returns its number.
pub fn started(call: &Call, i: usize, what: What) -> u64 {
    insert(call, i, what, false)
}

/// Registers the persistent request that a call made.
pub fn made(call: &Call, i: usize, what: What) {
    insert(call, i, what, true);
}

fn insert(call: &Call, i: usize, what: What, persistent: bool) -> u64 {
    let handle = call.handle_of(i, 0, Kind::Request);
    let serial = if persistent { 0 } else { next() };
    let slot = call.slot(i, 0);
    let request = Request {
        serial,
        what,
        cancelled: false,
        want: call.want,
        persistent,
        active: !persistent,
        slot,
    };
    let mut shard = shard(handle);
    match shard.remove(&handle) {
        None => shard.insert(handle, Queue::One(request)),
        Some(Queue::One(first)) => {
            shard.insert(handle, Queue::Many(VecDeque::from([first, request])))
        }
        Some(Queue::Many(mut all)) => {
            all.push_back(request);
            shard.insert(handle, Queue::Many(all))
        }
    };
    serial
}

/// Gives a persistent request that is started a new number. `None` if the request is not known.
pub fn start(handle: usize) -> Option<Request> {
    match shard(handle).get_mut(&handle) {
        Some(Queue::One(request)) if request.persistent => {
            request.serial = next();
            request.active = true;
            request.cancelled = false;
            Some(request.clone())
        }
        _ => None,
    }
}

/// What is known about a request before a call that queries it.
pub enum Known {
    /// It is active.
    Active(Want),
    /// It is persistent and not started; it holds what the request would do.
    Idle(Want, What),
}

/// What a request waits for; `None` if it is not known.
pub fn known(handle: usize, slot: usize) -> Option<Known> {
    let shard = shard(handle);
    let request = match shard.get(&handle)? {
        Queue::One(request) => request,
        Queue::Many(all) => all
            .iter()
            .rfind(|request| request.slot == slot)
            .or(all.front())?,
    };
    Some(if request.persistent && !request.active {
        Known::Idle(request.want, request.what.clone())
    } else if request.cancelled {
        Known::Active(Want::UNKNOWN)
    } else {
        Known::Active(request.want)
    })
}

/// Sets what a persistent request that is about to start will wait for.
pub fn set_want(handle: usize, want: Want) {
    if let Some(Queue::One(request)) = shard(handle).get_mut(&handle) {
        request.want = want;
    }
}

/// Removes a completed request and returns it. `None` if it is not known or is a persistent
/// request that was not started.
pub fn finish(handle: usize, slot: usize) -> Option<Request> {
    let mut shard = shard(handle);
    let queue = shard.get_mut(&handle)?;
    match queue {
        Queue::One(request) if request.persistent => {
            let active = std::mem::replace(&mut request.active, false);
            active.then(|| request.clone())
        }
        Queue::One(_) => match shard.remove(&handle)? {
            Queue::One(request) => Some(request),
            Queue::Many(_) => None,
        },
        Queue::Many(all) => {
            let place = all
                .iter()
                .rposition(|request| request.slot == slot)
                .unwrap_or(0);
            let request = all.remove(place);
            if all.is_empty() {
                shard.remove(&handle);
            }
            request
        }
    }
}

/// Records a call of MPI_Cancel.
pub fn cancel(handle: usize, slot: usize) {
    if let Some(queue) = shard(handle).get_mut(&handle) {
        match queue {
            Queue::One(request) => request.cancelled = true,
            Queue::Many(all) => {
                if let Some(request) = all.iter_mut().rfind(|request| request.slot == slot) {
                    request.cancelled = true;
                }
            }
        }
    }
}

/// MPI_Request_free: returns the request if it was still active.
pub fn free(handle: usize, slot: usize) -> Option<Request> {
    let mut guard = shard(handle);
    if let Some(Queue::One(request)) = guard.get(&handle) {
        if request.persistent {
            let active = request.active.then(|| request.clone());
            guard.remove(&handle);
            return active;
        }
    }
    drop(guard);
    finish(handle, slot)
}
