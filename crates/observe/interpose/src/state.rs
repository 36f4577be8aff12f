//! The state page: what a rank is waiting for, visible to others at any time.
//!
//! A page is a file `PID.state` in the directory that `IDLEWAVE_STATE` names, made by the preloaded
//! library when the process calls MPI for the first time. The process writes it, and anybody with
//! permission may read it. It needs neither a recording nor rings; if there are rings too, each
//! call updates both.
//!
//! Fields that belong together are written under [`Page::epoch`], which is odd during the write (a
//! seqlock): a reader that sees the same even number before and after has seen a consistent state.
//! A message is counted as sent, and a receive as posted, before the library is called; it is
//! counted as received in the write that ends the wait. Repeated tests and probes that find nothing
//! leave the epoch as it is and only raise [`Page::polls`].
//!
//! The page says what is unknown, so that nobody draws conclusions from it: [`Page::unknown`] for
//! the rest of the run, [`mode`] 0 for the current call. Unknown for the rest of the run:
//!
//! - several threads may call MPI at a time (MPI_THREAD_MULTIPLE), or a thread calls it without
//!   being allowed to;
//! - a call returned an error; a send was cancelled;
//! - processes outside MPI_COMM_WORLD (spawned, connected); MPI_Isendrecv; a table is full.
//!
//! Unknown for the current call: one-sided, file and window functions, partitioned and generalised
//! requests, persistent collectives, requests that are cancelled, collectives on
//! intercommunicators, scans, neighbourhood collectives, MPI_Comm_create and topologies, and
//! collectives in which a member moves nothing and may leave early.
//!
//! This file uses only the standard library: the preloaded library is compiled from it as well.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// The directory in which the preloaded library makes its state page; there is none if this is not
/// set.
pub const DIRECTORY_VARIABLE: &str = "IDLEWAVE_STATE";
/// Extension of the names of pages.
pub const EXTENSION: &str = "state";
/// First word of a page, stored last (release): once it can be read, the fields that do not change
/// are complete.
pub const MAGIC: u64 = u64::from_le_bytes(*b"IWSTAT01");
/// Most requests of one wait.
pub const WAITS: usize = 512;
/// Most receives posted at one time.
pub const POSTED: usize = 1024;
/// Most communicators at one time.
pub const COMMUNICATORS: usize = 256;
/// Most pairs of a communicator and a peer.
pub const PAIRS: usize = 2048;
/// Tags of a pair that are counted separately in each direction; with more tags, only the sum is
/// known.
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
    /// Inode of the PID namespace to which `pid` belongs.
    pub pid_namespace: AtomicU64,
    /// Rank in MPI_COMM_WORLD plus 1; 0 until MPI_Init has returned.
    pub rank_plus_one: AtomicU32,
    /// Size of MPI_COMM_WORLD; 0 until MPI_Init has returned.
    pub size: AtomicU32,
    /// Bits of [`unknown`], for the rest of the run.
    pub unknown: AtomicU32,
    /// Slots of communicators that were ever used, the first ones.
    pub communicators_used: AtomicU32,
    /// Name of the host, truncated and zero-terminated.
    pub host: [AtomicU64; 8],
    /// Raised before and after each write of the fields below: odd during the write.
    pub epoch: AtomicU64,
    /// [`mode`] in the low byte, 1 << 8 for [`PARTIAL`], function << 16, number of waits << 32; 0
    /// outside calls that wait.
    pub doing: AtomicU64,
    /// Tests and probes in a row that found nothing; not covered by the epoch.
    pub polls: AtomicU64,
    /// Pairs in use, the first ones.
    pub pairs_used: AtomicU32,
    /// Slots of posted receives that were ever used, the first ones.
    pub posted_used: AtomicU32,
    /// What is waited for.
    pub waits: [Want; WAITS],
    /// Receives that were started and are not complete, including those of the current wait; 0 if a
    /// slot is free.
    pub posted: [Want; POSTED],
    /// Communicators; key 0 if a slot is free.
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
    /// MPI_Finalize was entered: the rank sends nothing more.
    pub const FINALISING: u32 = 2;
    /// MPI_Finalize has returned.
    pub const FINALISED: u32 = 3;
    /// MPI_Abort was called.
    pub const ABORTED: u32 = 4;
}

/// Bits of [`Page::unknown`].
pub mod unknown {
    /// Threads may call MPI at the same time, or a thread called it without being allowed to.
    pub const THREADS: u32 = 1;
    /// A table was full.
    pub const FULL: u32 = 2;
    /// A call returned an error.
    pub const FAILED: u32 = 4;
    /// Processes outside MPI_COMM_WORLD.
    pub const OUTSIDE: u32 = 8;
    /// Messages that were not counted: MPI_Isendrecv, a cancelled send.
    pub const UNCOUNTED: u32 = 16;
    /// The program truncated the page. Readers set this bit; no page contains it.
    pub const TORN: u32 = 32;
}

/// What the process is doing, in the low byte of [`Page::doing`].
pub mod mode {
    /// Nothing that is known to wait.
    pub const NONE: u8 = 0;
    /// A call that returns when all of the waits are over.
    pub const ALL: u8 = 1;
    /// A call that returns when any of the waits is over.
    pub const ANY: u8 = 2;
    /// Tests for all of the waits.
    pub const POLL_ALL: u8 = 3;
    /// Tests for any of the waits.
    pub const POLL_ANY: u8 = 4;
    /// Tests for something that is not known.
    pub const POLL: u8 = 5;
}

/// Bit of [`Page::doing`]: some of the waits are not known and left out. It is never set where one
/// of several waits is enough.
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
    /// The send ends only when the message is received, whatever its size.
    pub const SYNCHRONOUS: u8 = 1;
    /// The send has at least [`super::LARGE`] bytes.
    pub const LARGE: u8 = 2;
    /// The tag is known.
    pub const TAG: u8 = 4;
}

/// From this size on, a send is assumed to need its receive. Libraries copy smaller messages: the
/// largest default limit is 256 KiB (Open MPI over TCP and over shared memory, MPICH over shared
/// memory: 4 to 128 KiB).
pub const LARGE: u64 = 1 << 20;

/// One thing that the process waits for.
#[repr(C)]
#[derive(Debug)]
pub struct Want {
    /// [`kind`], bits << 8, world rank of the peer plus 1 << 32 (0: any).
    pub what: AtomicU64,
    /// For a message, its tag; for a collective, its [`class`], which << 16, root << 32.
    pub which: AtomicU64,
    /// For a send, its number among those to the peer with this communicator and tag (without a
    /// tag: with this communicator). For a collective, its number. For a receive that was started,
    /// its slot in [`Page::posted`]. All count from 1.
    pub number: AtomicU64,
    /// Key of the communicator.
    pub communicator: AtomicU64,
}

/// Classes of collectives: see `idlewave_gang::state::Collective`.
pub mod class {
    /// A barrier.
    pub const BARRIER: u8 = 1;
    /// Everyone needs something from everyone.
    pub const ALL_TO_ALL: u8 = 2;
    /// Everyone needs something from the root.
    pub const FROM_ROOT: u8 = 3;
    /// The root needs something from everyone.
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
    /// The last one, encoded as in [`Want::which`].
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
    /// Tags sent; in use if the counter is not 0.
    pub sent_tags: [AtomicI32; TAGS],
    /// Tags received.
    pub received_tags: [AtomicI32; TAGS],
    /// Sent, by tag.
    pub sent_by_tag: [AtomicU64; TAGS],
    /// Received, by tag.
    pub received_by_tag: [AtomicU64; TAGS],
}
