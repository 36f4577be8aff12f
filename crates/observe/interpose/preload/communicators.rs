//! Communicators: their members, and for each a number on which all members agree.
//!
//! The number is a hash of the parent's number, of the members as ranks of MPI_COMM_WORLD, and of
//! how many communicators with the same parent and members existed before. Every member of a
//! communicator took part in creating all of these, in the same order, so all members compute the
//! same number without a message.

use crate::call::Call;
use crate::library::{Kind, Library, call as mpi};
use crate::page::class;
use crate::requests::{self, What};
use crate::ring::{flags, kind, loss};
use crate::table::How;
use crate::thread::Thread;
use crate::world::world;
use crate::{Details, losses, state, write_call};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A communicator.
pub struct Comm {
    /// The number on which all members agree.
    pub key: u64,
    /// The processes that ranks refer to, as world ranks plus 1: in an intercommunicator, the
    /// remote group.
    pub members: Box<[u32]>,
    /// The local group of an intercommunicator, empty otherwise.
    local: Box<[u32]>,
    /// This process's rank in its own group.
    pub rank: i32,
    pub inter: bool,
    /// Slot in the state page plus 1; 0 if it has none.
    pub slot: AtomicU32,
    /// Number of collectives so far.
    collectives: AtomicU32,
    /// Neighbours, filled in when first needed.
    pub neighbours: OnceLock<Option<Neighbours>>,
}

/// Neighbours in a topology; MPI_PROC_NULL stands for no neighbour.
pub struct Neighbours {
    pub incoming: Vec<bool>,
    pub outgoing: Vec<bool>,
}

/// An entry in the cache of a thread.
pub struct Cached {
    handle: usize,
    generation: u64,
    comm: Option<Arc<Comm>>,
}

impl Cached {
    pub const NONE: Self = Self {
        handle: 0,
        generation: 0,
        comm: None,
    };
}

/// A communicator in the cache of the calling thread.
#[derive(Clone, Copy)]
pub struct Held<'a> {
    comm: *const Comm,
    life: PhantomData<&'a Comm>,
}

impl Held<'_> {
    fn new(comm: &Arc<Comm>) -> Self {
        Self {
            comm: Arc::as_ptr(comm),
            life: PhantomData,
        }
    }

    /// A reference that outlives this call.
    pub fn keep(&self) -> Arc<Comm> {
        // SAFETY: the pointer comes from the cache's own reference, which still exists: see `of`.
        unsafe {
            Arc::increment_strong_count(self.comm);
            Arc::from_raw(self.comm)
        }
    }
}

impl Deref for Held<'_> {
    type Target = Comm;
    #[inline(always)]
    fn deref(&self) -> &Comm {
        // SAFETY: as above.
        unsafe { &*self.comm }
    }
}

static KNOWN: Mutex<Option<HashMap<usize, Arc<Comm>>>> = Mutex::new(None);
/// How many communicators with the same parent and members have existed.
static TWINS: Mutex<Option<HashMap<u64, u64>>> = Mutex::new(None);
/// Raised whenever a handle may have come to mean another communicator.
static GENERATION: AtomicU64 = AtomicU64::new(1);

impl Comm {
    /// World rank plus 1 of a member; 0 for MPI_PROC_NULL and other values that name no process.
    #[inline(always)]
    pub fn peer(&self, rank: i32) -> u32 {
        usize::try_from(rank)
            .ok()
            .and_then(|rank| self.members.get(rank))
            .copied()
            .unwrap_or(0)
    }

    /// Number of the next collective, counted from 0.
    pub fn next_collective(&self) -> u32 {
        self.collectives.fetch_add(1, Relaxed)
    }

    /// Number of members of the local group.
    pub fn local_size(&self) -> usize {
        if self.inter {
            self.local.len()
        } else {
            self.members.len()
        }
    }

    /// [`flags::INTER`] or nothing.
    pub fn flags(&self) -> u8 {
        if self.inter { flags::INTER } else { 0 }
    }
}

/// The communicator of a handle, after writing its members to the ring. `None` before MPI_Init and
/// for invalid handles.
///
/// The result is valid while this call is recorded: the thread's cache holds it, and no call looks
/// up more communicators than the cache has entries.
#[inline(always)]
pub fn of<'a>(thread: &mut Thread, library: &Library, handle: usize) -> Option<Held<'a>> {
    let place = (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62;
    let cached = &thread.cache[place as usize];
    if cached.handle == handle && cached.generation == GENERATION.load(Relaxed) {
        if let Some(comm) = &cached.comm {
            return Some(Held::new(comm));
        }
    }
    find(thread, library, handle, place as usize)
}

#[cold]
fn find<'a>(
    thread: &mut Thread,
    library: &Library,
    handle: usize,
    place: usize,
) -> Option<Held<'a>> {
    if world().is_none() {
        losses::count(thread, loss::NOT_INITIALISED);
        return None;
    }
    if handle == library.comm_null {
        return None;
    }
    let generation = GENERATION.load(Relaxed);
    let known = lock(&KNOWN).get_or_insert_default().get(&handle).cloned();
    let comm = match known {
        Some(comm) => comm,
        None => register(library, handle, 0, 0)?,
    };
    // If there was no room for the members, they are written again next time.
    let generation = if announce(thread, &comm) {
        generation
    } else {
        0
    };
    let cached = &mut thread.cache[place];
    *cached = Cached {
        handle,
        generation,
        comm: Some(comm),
    };
    cached.comm.as_ref().map(Held::new)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the members to the ring of a thread, once. Returns `false` if there was no room; the
/// next call then tries again.
fn announce(thread: &mut Thread, comm: &Comm) -> bool {
    if !thread.has_ring() || thread.extra().announced.contains(&comm.key) {
        return true;
    }
    let all = comm.both();
    if all.contains(&0) {
        losses::count(thread, loss::OUTSIDE_WORLD);
    }
    for first in (0..all.len()).step_by(10) {
        let at = |i: usize| all.get(first + i).map_or(0, |&member| u64::from(member));
        let pair = |i: usize| at(i) | at(i + 1) << 32;
        let word = u64::from(kind::MEMBERS) | u64::from(comm.flags()) << 8;
        let count = all.len() as u64 | (first as u64) << 32;
        if !thread.write(&[
            count,
            pair(0),
            word,
            comm.key,
            pair(2),
            pair(4),
            pair(6),
            pair(8),
        ]) {
            return false;
        }
    }
    thread.extra().announced.insert(comm.key);
    true
}

impl Comm {
    /// Both groups of an intercommunicator, in an order on which all members agree.
    fn both(&self) -> Vec<u32> {
        let (first, second) = match self.local.first() <= self.members.first() {
            true => (&self.local, &self.members),
            false => (&self.members, &self.local),
        };
        first.iter().chain(second.iter()).copied().collect()
    }
}

/// Registers a new handle.
fn register(library: &Library, handle: usize, parent: u64, tag: u64) -> Option<Arc<Comm>> {
    let comm = Arc::new(describe(library, handle, parent, tag)?);
    lock(&KNOWN)
        .get_or_insert_default()
        .insert(handle, comm.clone());
    GENERATION.fetch_add(1, Relaxed);
    Some(comm)
}

fn describe(library: &Library, handle: usize, parent: u64, tag: u64) -> Option<Comm> {
    let (mut inter, mut rank) = (0_i32, 0_i32);
    // SAFETY: the handle is a communicator of the program; each call writes one int.
    unsafe {
        mpi(library.comm_test_inter, [handle, (&raw mut inter) as usize])?;
        mpi(library.comm_rank, [handle, (&raw mut rank) as usize])?;
    }
    let local = group(library, handle, library.comm_group)?;
    let remote = match inter {
        0 => Vec::new(),
        _ => group(library, handle, library.comm_remote_group)?,
    };
    let (local, members) = if inter == 0 {
        (remote, local)
    } else {
        (local, remote)
    };
    let mut comm = Comm {
        key: 0,
        members: members.into(),
        local: local.into(),
        rank,
        inter: inter != 0,
        slot: AtomicU32::new(0),
        collectives: AtomicU32::new(0),
        neighbours: OnceLock::new(),
    };
    let mut hash = mix(mix(parent, tag), u64::from(comm.inter));
    for member in comm.both() {
        hash = mix(hash, u64::from(member));
    }
    let mut twins = lock(&TWINS);
    let before = twins.get_or_insert_default().entry(hash).or_insert(0);
    // 0 stands for no communicator.
    comm.key = mix(hash, *before).max(1);
    *before += 1;
    let members = comm.both().len();
    let slot = state::new_communicator(comm.key, members, handle == library.comm_world);
    comm.slot.store(slot, Relaxed);
    Some(comm)
}

/// The members of a group as world ranks plus 1.
fn group(library: &Library, comm: usize, ask: usize) -> Option<Vec<u32>> {
    let (mut group, mut size) = (0_usize, 0_i32);
    // SAFETY: each call writes one int, or one handle of at most a word; the arrays have `size`
    // elements.
    unsafe {
        mpi(ask, [comm, (&raw mut group) as usize])?;
        let handle = library.handle_at((&raw const group) as usize);
        mpi(library.group_size, [handle, (&raw mut size) as usize])?;
        let ranks: Vec<i32> = (0..size).collect();
        let mut translated = vec![0_i32; ranks.len()];
        let (from, to) = (ranks.as_ptr() as usize, translated.as_mut_ptr() as usize);
        let world = world()?.group;
        mpi(
            library.group_translate_ranks,
            [handle, size as usize, from, world, to],
        )?;
        mpi(library.group_free, [(&raw mut group) as usize])?;
        let plus_one = |rank: &i32| u32::try_from(*rank).map_or(0, |rank| rank + 1);
        Some(translated.iter().map(plus_one).collect())
    }
}

/// One round of SplitMix64 over a running hash.
fn mix(hash: u64, value: u64) -> u64 {
    let mut x = (hash ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The part of a call's record that describes its communicator.
#[inline(always)]
pub fn details(comm: Option<&Comm>) -> Details {
    match comm {
        Some(comm) => Details {
            comm: comm.key,
            flags: comm.flags(),
            ..Details::default()
        },
        None => Details::default(),
    }
}

/// A new communicator made from members of the one in argument 0.
pub fn make(call: &mut Call, thread: &mut Thread, new: usize) {
    made(call, thread, new, 0, false);
}

/// MPI_Comm_create_group: only the members of the new communicator take part, and the tag
/// distinguishes concurrent calls.
pub fn make_group(call: &mut Call, thread: &mut Thread) {
    let tag = call.int(2) as u32;
    made(call, thread, 3, u64::from(tag) + 1, false);
}

/// MPI_Intercomm_create: the two sides have different parents.
pub fn make_inter(call: &mut Call, thread: &mut Thread) {
    let tag = call.int(4) as u32;
    made(call, thread, 5, u64::from(tag) + 1, true);
}

fn made(call: &mut Call, thread: &mut Thread, new: usize, tag: u64, orphan: bool) {
    let parent = of(thread, call.library, call.handle(0, Kind::Comm));
    if let (Some(page), Some(parent)) = (call.page, parent.as_deref()) {
        let writing = state::write(page);
        // Only the members of the new communicator take part in MPI_Comm_create_group.
        if !matches!(call.entry.how, How::MakeGroup) {
            let want = enter(call, &writing, parent);
            state::waits_for(call, &writing, &want);
        }
    }
    call.run();
    let _ended = state::ended(call);
    if !call.failed() {
        let handle = call.handle_of(new, 0, Kind::Comm);
        let key = parent
            .as_ref()
            .filter(|_| !orphan)
            .map_or(0, |parent| parent.key);
        if handle != call.library.comm_null && world().is_some() {
            register(call.library, handle, key, tag);
        }
    }
    write_call(call, thread, details(parent.as_deref()));
}

/// Enters the creation of a communicator from a parent. All members of the parent enter it, and
/// wait for each other if everyone needs something from everyone. This is not so for
/// MPI_Comm_create and topologies: processes outside the new communicator may leave early.
fn enter(call: &Call, writing: &state::Writing, parent: &Comm) -> state::Want {
    let waits = !parent.inter && waits_for_all(call);
    let class = if parent.inter {
        class::OTHER
    } else {
        class::ALL_TO_ALL
    };
    let last = u64::from(class) | u64::from(call.entry.number) << 16;
    writing.entered(parent, last, waits)
}

/// Whether it is MPI_Comm_dup, MPI_Comm_split or a similar function.
fn waits_for_all(call: &Call) -> bool {
    let name = call.entry.name().to_bytes().to_ascii_lowercase();
    ["dup", "split", "idup"].iter().any(|what| {
        let what = format!("pmpi_comm_{what}");
        name.starts_with(what.as_bytes())
    })
}

/// MPI_Comm_idup: the new communicator can be inspected only when the request is complete.
pub fn start_make(call: &mut Call, thread: &mut Thread, new: usize) {
    let parent = of(thread, call.library, call.handle(0, Kind::Comm));
    if let (Some(page), Some(parent)) = (call.page, parent.as_deref()) {
        let writing = state::write(page);
        call.want = enter(call, &writing, parent);
    }
    call.run();
    let mut details = details(parent.as_deref());
    if !call.failed() {
        let what = What::Communicator {
            parent: parent.as_ref().map_or(0, |parent| parent.key),
            at: call.arguments[new],
            fortran: call.fortran(),
        };
        details.request = requests::started(call, new + 1, what) + 1;
    }
    write_call(call, thread, details);
}

/// Called when the request of MPI_Comm_idup is complete.
pub fn idup_done(library: &Library, parent: u64, at: usize, fortran: bool) {
    // SAFETY: MPI keeps the address of the new handle valid until the request is complete, as it
    // now is.
    let handle = unsafe {
        match fortran {
            true => library.from_fortran(Kind::Comm, *(at as *const i32)),
            false => library.handle_at(at),
        }
    };
    if handle != library.comm_null {
        register(library, handle, parent, 0);
    }
}

/// MPI_Comm_free and MPI_Comm_disconnect.
pub fn free(call: &mut Call, thread: &mut Thread) {
    let handle = call.handle_of(0, 0, Kind::Comm);
    let comm = of(thread, call.library, handle);
    // Do this before the call: afterwards another thread may have a new communicator with the same
    // handle.
    if let Some(comm) = &comm {
        lock(&KNOWN).get_or_insert_default().remove(&handle);
        GENERATION.fetch_add(1, Relaxed);
        thread.extra().announced.remove(&comm.key);
        if let Some(page) = call.page {
            state::free_communicator(page, comm);
        }
    }
    call.run();
    write_call(call, thread, details(comm.as_deref()));
}
