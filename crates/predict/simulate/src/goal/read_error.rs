//! What can be wrong with a file that should be a schedule.

use super::build::BuildError;
use std::io;

/// Why a file is no schedule.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system could not read it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What is wrong with a text.
    #[error("line {line}: {problem}")]
    Text {
        /// From 1.
        line: u64,
        /// What is wrong there.
        problem: TextProblem,
    },
    /// What is wrong with the binary form.
    #[error("byte {offset}: {problem}")]
    Binary {
        /// From 0, of the whole file.
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
        /// What should stand there.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// A number that is too large for what it counts.
    #[error("{what} {found} is out of range: at most {most} is possible")]
    OutOfRange {
        /// What it counts.
        what: &'static str,
        /// The number; one of more than 64 bits is not told.
        found: String,
        /// The largest one possible.
        most: u64,
    },
    /// A dependency on a label that was not defined further up in this rank.
    #[error("label {label} is not defined above in rank {rank}")]
    UnknownLabel {
        /// The label.
        label: String,
        /// The rank.
        rank: u32,
    },
    /// A label for two operations of a rank.
    #[error("label {label} is defined twice in rank {rank}, first in line {first}")]
    DuplicateLabel {
        /// The label.
        label: String,
        /// The rank.
        rank: u32,
        /// Line of the first definition.
        first: u32,
    },
    /// Ranks must follow each other, from 0 on.
    #[error("expected rank {expected}, found rank {found}: ranks follow each other from 0 on")]
    RankOrder {
        /// The rank whose turn it is.
        expected: u32,
        /// The rank that is there.
        found: u64,
    },
    /// A label or a word that is too long to be kept.
    #[error("a word of more than {0} characters")]
    LongWord(usize),
    /// A comment that began in this line and never ended.
    #[error("a comment begins here and has no end")]
    OpenComment,
    /// What makes no schedule.
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
    /// A simulator that works in the file itself has marked it.
    #[error("a simulator has used this schedule up (LogGOPSim --save-mem)")]
    UsedUp,
    /// Begin and end of a rank's schedule that are none.
    #[error("the schedule of rank {rank} goes from byte {begin} to byte {end} of {have}")]
    Span {
        /// The rank.
        rank: u32,
        /// Where it should begin, of the whole file.
        begin: u64,
        /// Where it should end.
        end: u64,
        /// Length of the file.
        have: u64,
    },
    /// Schedules, or lists of dependents, that lie over each other.
    #[error("{what} overlap")]
    Overlap {
        /// What.
        what: &'static str,
    },
    /// A kind of operation that is not known.
    #[error("an operation of type {0}: known are 1 (send), 2 (recv) and 3 (calc)")]
    Kind(u8),
    /// A CPU or NIC beyond the largest one of the header.
    #[error("{what} {found}, but the header has {most} as the largest one")]
    Resource {
        /// CPU or NIC.
        what: &'static str,
        /// Which one.
        found: u8,
        /// The largest of the header.
        most: u8,
    },
    /// Something that points at an operation that does not exist.
    #[error("{what} points at operation {found} of {have}")]
    Index {
        /// What points there.
        what: &'static str,
        /// Where it points.
        found: u32,
        /// Operations of the rank.
        have: u32,
    },
    /// A list of dependents that is not in the rank's list.
    #[error("{count} dependents from {first} on, but the rank has {have} in all")]
    Dependents {
        /// How many.
        count: u32,
        /// The first of them.
        first: u32,
        /// Length of the rank's list.
        have: u64,
    },
    /// The number of dependencies of an operation is another one than the lists of dependents have.
    #[error("an operation should wait for {said} others, but {listed} list it")]
    Count {
        /// What the operation says.
        said: u32,
        /// What the lists say.
        listed: u32,
    },
    /// The list of operations that wait for nothing is another one than the operations say.
    #[error("the list of operations that wait for nothing does not fit the operations")]
    Roots,
    /// What makes no schedule.
    #[error(transparent)]
    Build(#[from] BuildError),
}
