//! Compares the clocks of nodes at the end of MPI_Init and at the start of MPI_Finalize.
//!
//! The first rank of each node exchanges short messages with the first rank of another node, which
//! answers with its clock. Ranks without a ring only take part in finding these. Of [`EXCHANGES`] round trips the shortest is recorded: it gives the
//! clocks' difference to within half its duration. Every node compares with the first one or, with
//! more than [`STAR`] nodes, with its parent in a binomial tree.

use crate::library::{Library, call as mpi};
use crate::ring::{CLOCKS_VARIABLE, kind};
use crate::sys::monotonic;
use crate::thread::Thread;
use crate::{clock, world};
use std::sync::{Mutex, PoisonError};

/// Number of round trips.
const EXCHANGES: usize = 60;
/// Up to this many nodes, each compares with the first one directly.
const STAR: usize = 64;

/// What MPI_Finalize needs to know from MPI_Init.
struct Leaders {
    /// Our own communicator of all ranks.
    comm: usize,
    /// World ranks of the first ranks of all nodes.
    ranks: Vec<u32>,
}

static LEADERS: Mutex<Option<Leaders>> = Mutex::new(None);

/// Which ranks count as alone on their node.
#[derive(Clone, Copy, PartialEq)]
enum Alone {
    /// Those that are.
    OnNode,
    /// All.
    Every,
}

fn compared() -> Option<Alone> {
    match std::env::var(CLOCKS_VARIABLE).as_deref() {
        Ok("nodes") => Some(Alone::OnNode),
        Ok("ranks") => Some(Alone::Every),
        _ => None,
    }
}

/// Whether the ranks compare clocks.
pub fn wanted() -> bool {
    compared().is_some()
}

/// After MPI_Init: finds the nodes, and compares their clocks if there are several.
pub fn begin(thread: &mut Thread, library: &'static Library) {
    let leaders = compared().and_then(|alone| find(library, alone, thread.has_ring()));
    if let Some(leaders) = &leaders {
        compare(thread, library, leaders);
    }
    *LEADERS.lock().unwrap_or_else(PoisonError::into_inner) = leaders;
}

/// Before MPI_Finalize.
pub fn end(thread: &mut Thread, library: &'static Library) {
    let leaders = LEADERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(mut leaders) = leaders {
        compare(thread, library, &leaders);
        // SAFETY: the communicator is our own.
        let _ = unsafe { mpi(library.comm_free, [(&raw mut leaders.comm) as usize]) };
    }
}

/// Finds the first ranks with a ring of all nodes; `None` if there are none on other nodes.
fn find(library: &Library, alone: Alone, ring: bool) -> Option<Leaders> {
    let world = world::world()?;
    let (mut comm, mut node) = (0_usize, 0_usize);
    let mut rank = 0_i32;
    let info = library.abi.info_null.resolve(crate::library::object)?;
    // SAFETY: collective calls that all ranks make at the same point; each writes one handle, of
    // at most a word, or one int per rank.
    unsafe {
        mpi(
            library.comm_dup,
            [library.comm_world, (&raw mut comm) as usize],
        )?;
        let handle = library.handle_at((&raw const comm) as usize);
        if alone == Alone::OnNode {
            let shared = library.abi.comm_type_shared as usize;
            let place = (&raw mut node) as usize;
            // Ranks with a ring come first.
            let key = if ring { 0 } else { 1 };
            mpi(
                library.comm_split_type,
                [handle, shared, key, info, place],
            )?;
            let node_handle = library.handle_at(place);
            mpi(library.comm_rank, [node_handle, (&raw mut rank) as usize])?;
            mpi(library.comm_free, [place])?;
        }
        let mut all = vec![0_u8; world.size as usize];
        let mine = u8::from(ring && rank == 0);
        let (from, to) = ((&raw const mine) as usize, all.as_mut_ptr() as usize);
        mpi(
            library.allgather,
            [from, 1, library.byte(), to, 1, library.byte(), handle],
        )?;
        let ranks: Vec<u32> = (0..world.size)
            .filter(|&rank| all[rank as usize] != 0)
            .collect();
        if ranks.len() < 2 {
            let _ = mpi(library.comm_free, [(&raw mut comm) as usize]);
            return None;
        }
        Some(Leaders {
            comm: handle,
            ranks,
        })
    }
}

/// The node that node `n` compares with.
fn parent(n: usize, nodes: usize) -> Option<usize> {
    match n {
        0 => None,
        _ if nodes <= STAR => Some(0),
        _ => Some(n & (n - 1)),
    }
}

fn compare(thread: &mut Thread, library: &Library, leaders: &Leaders) {
    let Some(world) = world::world() else { return };
    let Some(me) = leaders.ranks.iter().position(|&rank| rank == world.rank) else {
        return;
    };
    let nodes = leaders.ranks.len();
    if let Some(parent) = parent(me, nodes) {
        ask(thread, library, leaders.comm, leaders.ranks[parent]);
    }
    for child in me + 1..nodes {
        if parent(child, nodes) == Some(me) {
            answer(library, leaders.comm, leaders.ranks[child]);
        }
    }
}

fn ask(thread: &mut Thread, library: &Library, comm: usize, peer: u32) {
    let mut best: Option<[u64; 4]> = None;
    for _ in 0..EXCHANGES {
        let mut theirs = 0_u64;
        let place = (&raw mut theirs) as usize;
        let sent = clock::now();
        if exchange(library, comm, peer, place, true).is_none() {
            return;
        }
        let (received, own) = (clock::now(), monotonic());
        if best.is_none_or(|[from, to, ..]| received.wrapping_sub(sent) < to.wrapping_sub(from)) {
            best = Some([sent, received, theirs, own]);
        }
    }
    if let Some([sent, received, theirs, own]) = best {
        let peer = u64::from(peer) + 1;
        thread.write(&[
            sent,
            received,
            u64::from(kind::CLOCK),
            0,
            peer,
            theirs,
            own,
            0,
        ]);
    }
}

fn answer(library: &Library, comm: usize, peer: u32) {
    for _ in 0..EXCHANGES {
        let mut word = 0_u64;
        if exchange(library, comm, peer, (&raw mut word) as usize, false).is_none() {
            return;
        }
    }
}

/// One message to the peer and one back; or, on the answering side, one from the peer and one back
/// with this node's clock.
fn exchange(library: &Library, comm: usize, peer: u32, at: usize, first: bool) -> Option<()> {
    let (peer, byte) = (peer as usize, library.byte());
    let ignore = library.abi.status_ignore as usize;
    // SAFETY: 8 bytes at `at`, in a communicator of our own.
    unsafe {
        if first {
            mpi(library.send, [at, 8, byte, peer, 0, comm])?;
            mpi(library.recv, [at, 8, byte, peer, 0, comm, ignore])
        } else {
            mpi(library.recv, [at, 8, byte, peer, 0, comm, ignore])?;
            *(at as *mut u64) = monotonic();
            mpi(library.send, [at, 8, byte, peer, 0, comm])
        }
    }
}
