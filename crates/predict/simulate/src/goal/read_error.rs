//! Errors in a file that should be a schedule.

use super::build::BuildError;
use std::io;

/// Why a file is not a schedule.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system could not read it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What is wrong with a text.
    #[error("line {line}: {problem}")]
    Text {
        /// Line, from 1.
        line: u64,
        /// What is wrong there.
        problem: TextProblem,
    },
    /// What is wrong with the binary form.
    #[error("byte {offset}: {problem}")]
    Binary {
        /// Offset in the whole file, from 0.
        offset: u64,
        /// What is wrong there.
        problem: BinaryProblem,
    },
}

/// What is wrong in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextProblem {
    /// Something else was expected.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What was expected.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// A number that is too large for what it counts.
    #[error("{what} {found} is out of range: at most {most} is possible")]
    OutOfRange {
        /// What it counts.
        what: &'static str,
        /// The number, or only that it has more than 64 bits.
        found: String,
        /// The largest allowed value.
        most: u64,
    },
    /// A dependency on a label not defined above in this rank.
    #[error("label {label} is not defined above in rank {rank}")]
    UnknownLabel {
        /// The label.
        label: String,
        /// The rank.
        rank: u32,
    },
    /// A label on two operations of a rank.
    #[error("label {label} is defined twice in rank {rank}, first in line {first}")]
    DuplicateLabel {
        /// The label.
        label: String,
        /// The rank.
        rank: u32,
        /// Line of the first definition.
        first: u32,
    },
    /// Ranks must follow each other, starting at 0.
    #[error("expected rank {expected}, found rank {found}: ranks follow each other from 0 on")]
    RankOrder {
        /// The rank expected.
        expected: u32,
        /// The rank found.
        found: u64,
    },
    /// A label or word that is too long to keep.
    #[error("a word of more than {0} characters")]
    LongWord(usize),
    /// A comment that begins in this line and never ends.
    #[error("a comment begins here and has no end")]
    OpenComment,
    /// The operations do not form a schedule.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// What is wrong in the binary form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BinaryProblem {
    /// The file ends too early.
    #[error(
        "{what} ends at byte {end}, but the file, or the part of it that is this rank's, at byte {have}"
    )]
    Truncated {
        /// What does not fit.
        what: &'static str,
        /// Where it would end.
        end: u64,
        /// Where the file, or the rank's part of it, ends.
        have: u64,
    },
    /// The file does not begin with the magic number 4223.
    #[error("no binary schedule begins like this (magic number 4223)")]
    Magic,
    /// A simulator that works in the file itself has marked it as used.
    #[error("a simulator has used this schedule up (LogGOPSim --save-mem)")]
    UsedUp,
    /// Start and end of a rank's schedule that make no sense.
    #[error("the schedule of rank {rank} goes from byte {begin} to byte {end} of {have}")]
    Span {
        /// The rank.
        rank: u32,
        /// Its start in the whole file.
        begin: u64,
        /// Its end in the whole file.
        end: u64,
        /// Length of the file.
        have: u64,
    },
    /// Schedules, or lists of dependents, that overlap.
    #[error("{what} overlap")]
    Overlap {
        /// What overlaps.
        what: &'static str,
    },
    /// An unknown kind of operation.
    #[error("an operation of type {0}: the types are 1 (send), 2 (recv) and 3 (calc)")]
    Kind(u8),
    /// A CPU or NIC above the largest one in the header.
    #[error("{what} {found}, but the largest in the header is {most}")]
    Resource {
        /// CPU or NIC.
        what: &'static str,
        /// Its number.
        found: u8,
        /// The largest in the header.
        most: u8,
    },
    /// A reference to an operation that does not exist.
    #[error("{what} points at operation {found} of {have}")]
    Index {
        /// What refers to it.
        what: &'static str,
        /// The operation referred to.
        found: u32,
        /// Number of operations of the rank.
        have: u32,
    },
    /// Dependents outside the rank's list.
    #[error("{count} dependents from {first} on, but the rank has {have} in all")]
    Dependents {
        /// How many.
        count: u32,
        /// The first of them.
        first: u32,
        /// Length of the rank's list.
        have: u64,
    },
    /// An operation's number of dependencies differs from what the lists of dependents contain.
    #[error("an operation should wait for {said} others, but {listed} list it")]
    Count {
        /// The number that the operation gives.
        said: u32,
        /// The number in the lists.
        listed: u32,
    },
    /// The list of operations that wait for nothing contradicts the operations.
    #[error("the list of operations that wait for nothing contradicts the operations")]
    Roots,
    /// The operations do not form a schedule.
    #[error(transparent)]
    Build(#[from] BuildError),
}
