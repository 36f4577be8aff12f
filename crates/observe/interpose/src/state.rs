//! What a rank waits for, as others may see it at any time: the state page.
//!
//! A page is a file `PID.state` in the directory that `IDLEWAVE_STATE` names, made by the preloaded
//! library when the process calls MPI for the first time. The process writes it, anybody who may
//! read the file reads it. It needs no recording and no rings; with both, a call does both.
//!
//! What belongs together is written under [`Page::epoch`], which is odd meanwhile (a seqlock): a
//! reader that sees the same even number before and after has seen one state. A message is counted
//! as sent, and a receive as posted, before the library is called; it is counted as received in the
//! write that ends the wait. Tests and probes that find nothing again and again leave the epoch as
//! it is and only raise [`Page::polls`].
//!
//! What cannot be told is said, so that nobody concludes anything from it: [`Page::unknown`] for
//! the rest of the run, [`mode`] 0 for the present call. For the rest of the run:
//!
//! - more than one thread may call MPI at a time (MPI_THREAD_MULTIPLE), or another one than before
//!   calls it though it may not;
//! - a call returned an error; a send was cancelled;
//! - processes outside MPI_COMM_WORLD (spawned, connected); MPI_Isendrecv; a table is full.
//!
//! For the present call: one-sided, file and window functions, partitioned and generalised
//! requests, persistent collectives, requests that are cancelled, collectives on
//! intercommunicators, scans, neighbourhoods, MPI_Comm_create and topologies, and collectives in
//! which a member moves nothing and may leave early.
//!
//! This file uses the standard library only: the preloaded library is compiled from it as well.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// Where the preloaded library makes its state page; there is none where this is not set.
pub const DIRECTORY_VARIABLE: &str = "IDLEWAVE_STATE";
/// What the names of pages end with.
pub const EXTENSION: &str = "state";
/// First word of a page, stored last (release): what does not change is whole when it can be read.
pub const MAGIC: u64 = u64::from_le_bytes(*b"IWSTAT01");
/// Requests of one wait.
pub const WAITS: usize = 512;
/// Receives that are posted.
pub const POSTED: usize = 1024;
/// Communicators at one time.
pub const COMMUNICATORS: usize = 256;
/// Pairs of a communicator and a peer.
pub const PAIRS: usize = 2048;
/// Tags of a pair in each direction, which are counted by themselves; with more of them only the
/// sum is known.
pub const TAGS: usize = 4;

/// A page.
#[repr(C)]
#[derive(Debug)]
pub struct Page {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// The process.
    pub pid: AtomicU32,
    /// See [`phase`].
    pub phase: AtomicU32,
    /// When the process started, in ticks since boot: field 22 of /proc/PID/stat.
    pub start: AtomicU64,
    /// Inode of the pid namespace in which `pid` is its number.
    pub pid_namespace: AtomicU64,
    /// Rank in MPI_COMM_WORLD plus 1; 0 until MPI_Init has returned.
    pub rank_plus_one: AtomicU32,
    /// Size of MPI_COMM_WORLD; 0 until MPI_Init has returned.
    pub size: AtomicU32,
    /// Bits of [`unknown`], for the rest of the run.
    pub unknown: AtomicU32,
    /// Communicators of which the slots below were used so far.
    pub communicators_used: AtomicU32,
    /// Name of the host, cut, ended by a zero byte.
    pub host: [AtomicU64; 8],
    /// Raised before and after each write of what follows: odd during it.
    pub epoch: AtomicU64,
    /// [`mode`] in the low byte, 1 << 8 for [`PARTIAL`], function << 16, number of waits << 32; 0:
    /// none of the calls that wait.
    pub doing: AtomicU64,
    /// Tests and probes in a row that found nothing; not under the epoch.
    pub polls: AtomicU64,
    /// Pairs in use, the first ones.
    pub pairs_used: AtomicU32,
    /// Slots of posted receives that were ever used, the first ones.
    pub posted_used: AtomicU32,
    /// What is waited for.
    pub waits: [Want; WAITS],
    /// Receives that were started and are not complete, those of the present wait among them; 0
    /// where a slot is free.
    pub posted: [Want; POSTED],
    /// Communicators; key 0 where a slot is free.
    pub communicators: [Communicator; COMMUNICATORS],
    /// Counters of messages.
    pub pairs: [Pair; PAIRS],
}

/// Values of [`Page::phase`].
pub mod phase {
    /// In MPI_Init, or before it.
    pub const INITIALISING: u32 = 0;
    /// MPI_Init has returned.
    pub const RUNNING: u32 = 1;
    /// MPI_Finalize was entered: the rank sends nothing any more.
    pub const FINALISING: u32 = 2;
    /// MPI_Finalize has returned.
    pub const FINALISED: u32 = 3;
    /// MPI_Abort was called.
    pub const ABORTED: u32 = 4;
}

/// Bits of [`Page::unknown`].
pub mod unknown {
    /// Threads may call MPI at the same time, or one called that may not.
    pub const THREADS: u32 = 1;
    /// A table was full.
    pub const FULL: u32 = 2;
    /// A call returned an error.
    pub const FAILED: u32 = 4;
    /// Processes outside MPI_COMM_WORLD.
    pub const OUTSIDE: u32 = 8;
    /// Messages that were not counted: MPI_Isendrecv, a cancelled send.
    pub const UNCOUNTED: u32 = 16;
    /// The program cut the page short. No page says so: whoever reads it does.
    pub const TORN: u32 = 32;
}

/// What is done, in the low byte of [`Page::doing`].
pub mod mode {
    /// Nothing that is known to wait.
    pub const NONE: u8 = 0;
    /// A call that returns when all of the waits are over.
    pub const ALL: u8 = 1;
    /// A call that returns when one of them is.
    pub const ANY: u8 = 2;
    /// Tests that ask for all of them.
    pub const POLL_ALL: u8 = 3;
    /// Tests that ask for any of them.
    pub const POLL_ANY: u8 = 4;
    /// Tests of which it is not known what they ask for.
    pub const POLL: u8 = 5;
}

/// Bit of [`Page::doing`]: some of the waits are not known and left out; there are no such where
/// one of several is enough.
pub const PARTIAL: u64 = 1 << 8;

/// Kinds of [`Want`].
pub mod kind {
    /// Nothing, or it is over.
    pub const NOTHING: u8 = 0;
    /// A message.
    pub const RECEIVE: u8 = 1;
    /// A receive at the other end.
    pub const SEND: u8 = 2;
    /// The other members of a collective.
    pub const COLLECTIVE: u8 = 3;
    /// Something, but it is not known what.
    pub const UNKNOWN: u8 = 4;
}

/// Bits of the second byte of [`Want::what`].
pub mod bit {
    /// The send ends only when it is received, whatever its size.
    pub const SYNCHRONOUS: u8 = 1;
    /// The send has at least [`super::LARGE`] bytes.
    pub const LARGE: u8 = 2;
    /// The tag is known.
    pub const TAG: u8 = 4;
}

/// Bytes from which a send is taken to need its receive. Libraries copy smaller ones: the largest
/// limit that one has by itself is 256 KiB (Open MPI over TCP and over shared memory, MPICH over
/// shared memory: 4 to 128 KiB).
pub const LARGE: u64 = 1 << 20;

/// One thing that is waited for.
#[repr(C)]
#[derive(Debug)]
pub struct Want {
    /// [`kind`], bits << 8, world rank of the peer plus 1 << 32 (0: any).
    pub what: AtomicU64,
    /// Of a message its tag; of a collective its [`class`], which << 16, root << 32.
    pub which: AtomicU64,
    /// Of a send which one it is, of those to the peer with this communicator and tag (without a
    /// tag: with this communicator); of a collective its number; of a receive that was started its
    /// slot in [`Page::posted`]. From 1.
    pub number: AtomicU64,
    /// Key of the communicator.
    pub communicator: AtomicU64,
}

/// Classes of collectives: see `idlewave_gang::state::Collective`.
pub mod class {
    /// A barrier.
    pub const BARRIER: u8 = 1;
    /// All need something of all.
    pub const ALL_TO_ALL: u8 = 2;
    /// All need something of the root.
    pub const FROM_ROOT: u8 = 3;
    /// The root needs something of all.
    pub const TO_ROOT: u8 = 4;
    /// Others.
    pub const OTHER: u8 = 5;
}

/// A communicator.
#[repr(C)]
#[derive(Debug)]
pub struct Communicator {
    /// Its number, the same on all members.
    pub key: AtomicU64,
    /// How many members it has, both groups together; bit 32: it is MPI_COMM_WORLD.
    pub members: AtomicU64,
    /// Collectives entered so far.
    pub entered: AtomicU64,
    /// What the last one was: as [`Want::which`].
    pub last: AtomicU64,
}

/// Messages between the rank and another one within a communicator.
#[repr(C)]
#[derive(Debug)]
pub struct Pair {
    /// Slot of the communicator << 32, world rank of the peer.
    pub key: AtomicU64,
    /// Sent.
    pub sent: AtomicU64,
    /// Received.
    pub received: AtomicU64,
    /// Bit 0: more tags were sent than fit, bit 1: received.
    pub more: AtomicU64,
    /// Tags sent; in use where the counter is not 0.
    pub sent_tags: [AtomicI32; TAGS],
    /// Tags received.
    pub received_tags: [AtomicI32; TAGS],
    /// Sent, by tag.
    pub sent_by_tag: [AtomicU64; TAGS],
    /// Received, by tag.
    pub received_by_tag: [AtomicU64; TAGS],
}
