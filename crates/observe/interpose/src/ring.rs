//! The rings between a recorded program and the recorder of its node.
//!
//! A ring is a file `PID.TID.ring` in the directory that `IDLEWAVE_RINGS` names, made by the
//! preloaded library at the first MPI call, or mark, of a thread (`PID.TID.2.ring` and so on if the
//! number of an ended thread is reused). It consists of one [`Header`] page and
//! [`Header::capacity`] records of [`WORDS`] words. One thread writes, one process reads: the
//! record number `n` (from 0) is at `n % capacity`; the writer stores it, then `written = n + 1`
//! (release); the reader loads `written` (acquire), copies, then stores `read` (release). If
//! `written - read == capacity`, a new record is dropped and counted in `lost`: what the recorder
//! has not seen yet is never overwritten.
//!
//! Beside the rings is the *bell* ([`BELL_FILE`]). A writer rings it when its ring is half full,
//! when it has made a ring, and when it has learned its rank. Unless called, the recorder looks
//! only a few times a second.
//!
//! This file uses only the standard library: the preloaded library is compiled from it as well.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// The directory in which the preloaded library makes its rings; it does nothing if this is not
/// set.
pub const DIRECTORY_VARIABLE: &str = "IDLEWAVE_RINGS";
/// Records that a ring holds; a power of two. `IDLEWAVE_RING_RECORDS` sets another number.
pub const CAPACITY: u64 = 1 << 16;
/// See [`CAPACITY`].
pub const CAPACITY_VARIABLE: &str = "IDLEWAVE_RING_RECORDS";
/// 64-bit words of a record: one cache line.
pub const WORDS: usize = 8;
/// Bytes before the first record.
pub const HEADER_BYTES: usize = 4_096;
/// First word of the header, stored last by the writer (release): once it can be read, the header
/// is complete.
pub const MAGIC: u64 = u64::from_le_bytes(*b"IWRING01");

/// Extension of the empty file `PID.refused`, by which a process says that it could not create a
/// ring: there was no room, or the limit on the size of files (RLIMIT_FSIZE) forbade it. To stay
/// within that limit, a smaller ring is tried first.
pub const REFUSED_EXTENSION: &str = "refused";

/// Name of the bell, which the recorder makes in the directory of the rings. It is a page whose
/// first 32-bit word counts how often it was rung, and is a futex (futex(2), shared between
/// processes) on which the recorder waits. If there is no bell, nothing is rung.
pub const BELL_FILE: &str = "bell";

/// First page of a ring.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// Records that fit; a power of two.
    pub capacity: u64,
    /// Process and thread that write.
    pub pid: u32,
    /// See `pid`.
    pub tid: u32,
    /// Rank in MPI_COMM_WORLD plus 1; 0 until MPI_Init has returned.
    pub rank_plus_one: AtomicU32,
    /// Size of MPI_COMM_WORLD; 0 until MPI_Init has returned.
    pub size: AtomicU32,
    /// Bits of [`life`].
    pub life: AtomicU32,
    /// What the times are: see [`clock`].
    pub clock: u32,
    /// Thread level that MPI_Init_thread provided, from 0 (single) to 3 (multiple), plus 1; 0 if
    /// not known.
    pub thread_level_plus_one: AtomicU32,
    /// Threads of the process that called MPI, or made a mark, and that could not create a ring.
    pub refused: AtomicU32,
    /// Inode of the PID namespace to which `pid` and `tid` belong; 0 if not known.
    pub pid_namespace: u64,
    /// Records written since the ring was made; on a cache line of its own.
    pub written: Line,
    /// Records that the reader has taken.
    pub read: Line,
    /// Records dropped because the ring was full.
    pub lost: Line,
    /// What MPI_Get_library_version says, truncated and zero-terminated; valid with
    /// [`life::INITIALISED`].
    pub library: [u8; 256],
}

/// A counter on a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Line(pub AtomicU64);

/// Values of [`Header::clock`].
pub mod clock {
    /// Time-stamp counter, or the counter of the architecture: calibrated by the reader.
    pub const COUNTER: u32 = 1;
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub const MONOTONIC: u32 = 2;
}

/// Bits of [`Header::life`].
pub mod life {
    /// MPI_Init has returned.
    pub const INITIALISED: u32 = 1;
    /// MPI_Finalize was entered.
    pub const FINALISING: u32 = 2;
    /// MPI_Finalize has returned.
    pub const FINALISED: u32 = 4;
    /// MPI_Abort was called.
    pub const ABORTED: u32 = 8;
    /// The program returned from main or called exit: its exit handlers ran.
    pub const EXITED: u32 = 16;
}

/// Kinds of record: the low byte of word 2. Times are in the ring's clock. "World rank" is a rank
/// in MPI_COMM_WORLD plus 1, 0 where there is none (MPI_PROC_NULL, or a process outside it, which
/// the ledger names).
///
/// | kind | 0 | 1 | 2 (after the low byte) | 3 | 4 | 5 | 6 | 7 |
/// |---|---|---|---|---|---|---|---|---|
/// | CALL | begin | end | function << 16, flags << 8 | communicator | sequence low half, root world rank high half | bytes sent | bytes received | request + 1 |
/// | SEND | posted | | flags << 8, tag << 32 | communicator | world rank of the peer | bytes | | request + 1, 0: the call before completed it |
/// | RECEIVE | posted | | flags << 8, tag << 32 | communicator | world rank of the peer, 0: any | bytes, valid if the call before completed it | | request + 1, 0: the call before completed it |
/// | COMPLETION | begin of the call that completed it | its end | flags << 8, tag << 32 | | world rank of the peer | bytes | | request + 1 |
/// | MEMBERS | members in all, low half; index of the first one here, high half | 1st, 2nd | | communicator | 3rd, 4th | 5th, 6th | 7th, 8th | 9th, 10th |
/// | MARK_NAME | name, 8 bytes | 8 bytes | number << 32 | 8 bytes | 8 bytes | 8 bytes | 8 bytes | 8 bytes |
/// | MARK_BEGIN | time | | number << 32 | | | | | |
/// | MARK_END | time | | number << 32 | | | | | |
/// | MARK_POINT | time | | number << 32 | | | | | |
/// | CLOCK | own time at send | own time at receive | | | world rank of the peer | the peer's time, in its own clock, in ns of CLOCK_MONOTONIC | own CLOCK_MONOTONIC at receive | |
/// | LOSS | | | number << 32, of [`loss`] | function + 1, or 0 | | how many since the last record of its kind | | |
/// | POLLS | begin of the first | begin of the last | function of the last << 16 | | | how many | | |
///
/// A test or probe that finds nothing writes no record of its own: those between two records of
/// other kinds make one POLLS record, before the record that ends them.
///
/// The tag of a RECEIVE that is not complete may be [`ANY_TAG`]. The completion of a collective has
/// no peer, tag or bytes. MEMBERS of an intercommunicator cover both of its groups.
///
/// SEND, RECEIVE and COMPLETION follow the CALL that made them. A communicator is known by a number
/// that is the same on all its members; its MEMBERS precede its first use on every rank.
pub mod kind {
    /// An MPI call.
    pub const CALL: u8 = 1;
    /// A send was started.
    pub const SEND: u8 = 2;
    /// A receive was started.
    pub const RECEIVE: u8 = 3;
    /// A request was completed.
    pub const COMPLETION: u8 = 4;
    /// Members of a communicator, ten at a time, as world ranks.
    pub const MEMBERS: u8 = 5;
    /// Name of a mark, before its first use in this ring.
    pub const MARK_NAME: u8 = 6;
    /// A marked region was entered.
    pub const MARK_BEGIN: u8 = 7;
    /// A marked region was left.
    pub const MARK_END: u8 = 8;
    /// A marked point in time.
    pub const MARK_POINT: u8 = 9;
    /// One exchange with the first rank of another node, the quickest of several, to compare
    /// clocks.
    pub const CLOCK: u8 = 10;
    /// Something that could not be recorded: see [`super::loss`].
    pub const LOSS: u8 = 11;
    /// Tests and probes that found nothing.
    pub const POLLS: u8 = 12;
}

/// What LOSS records count.
pub mod loss {
    /// Calls of a function that is not followed.
    pub const NOT_FOLLOWED: u32 = 1;
    /// Calls that made or used a communicator with processes outside MPI_COMM_WORLD.
    pub const OUTSIDE_WORLD: u32 = 2;
    /// Requests that were started but are not known: the preloaded library did not see them being
    /// made.
    pub const UNKNOWN_REQUEST: u32 = 3;
    /// Marks whose name is null, or is beyond the first [`super::MARKS`] names.
    pub const MARK: u32 = 4;
    /// Calls while MPI was not initialised by MPI_Init or MPI_Init_thread.
    pub const NOT_INITIALISED: u32 = 5;
}

/// Tag of a receive that takes any tag: MPI_ANY_TAG, whatever its value in the library.
pub const ANY_TAG: i32 = -1;

/// Names of marks that a ring can have; further ones count as [`loss::MARK`].
pub const MARKS: usize = 4_096;

/// Bits of the flags.
pub mod flags {
    /// The other end is the rank itself.
    pub const SELF: u8 = 1;
    /// The request was cancelled.
    pub const CANCELLED: u8 = 2;
    /// The communicator is an intercommunicator.
    pub const INTER: u8 = 4;
    /// The bytes could not be determined.
    pub const BYTES_UNKNOWN: u8 = 8;
    /// The call returned an error.
    pub const FAILED: u8 = 16;
    /// The send waits for its receive: MPI_Ssend and its kin.
    pub const SYNCHRONOUS: u8 = 32;
    /// The request was freed while it was active: it continues, and its end is not seen.
    pub const FREED: u8 = 64;
}

/// Switches on the comparison of clocks, in which all ranks of MPI_COMM_WORLD must take part, those
/// without a ring too: `nodes` compares one rank of each node, `ranks` every rank as if it were
/// alone on its node.
pub const CLOCKS_VARIABLE: &str = "IDLEWAVE_CLOCKS";
