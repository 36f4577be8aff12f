//! What can be wrong with a program, and where.

use super::tree::{Binary, Unary};
use std::{fmt, io};

/// Why a file is no program.
#[derive(Debug, thiserror::Error)]
pub enum ReadProgramError {
    /// The system could not read it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What is wrong with the text.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// What is wrong with a program, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}{problem}")]
pub struct ProgramError {
    /// Where.
    pub place: Place,
    /// What.
    pub problem: Problem,
}

/// Where something is wrong: as much of it as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The rank that has met it.
    pub rank: Option<u32>,
    /// Line of the text, from 1.
    pub line: Option<u32>,
    /// Variables of the loops around it, the outermost first.
    pub iterations: Vec<(String, i64)>,
}

impl Place {
    /// In a line, whoever comes there.
    pub(super) fn line(line: Option<u32>) -> Self {
        Place {
            line,
            ..Place::default()
        }
    }

    pub(super) fn error(self, problem: Problem) -> ProgramError {
        ProgramError {
            place: self,
            problem,
        }
    }
}

impl fmt::Display for Place {
    /// With a colon behind it, if anything is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = self.rank.map(|rank| format!("rank {rank}"));
        let line = self.line.map(|line| format!("line {line}"));
        let variables = self.iterations.iter();
        let counts = variables.map(|(name, value)| format!("{name} = {value}"));
        let parts: Vec<String> = rank.into_iter().chain(line).chain(counts).collect();
        match parts.is_empty() {
            true => Ok(()),
            false => write!(f, "{}: ", parts.join(", ")),
        }
    }
}

/// What is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Something else was expected.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What should stand there.
        expected: String,
        /// What does.
        found: String,
    },
    /// A form that is not known.
    #[error("version {0} of programs is not known: 1 is")]
    Version(i64),
    /// A number in the text that does not fit.
    #[error("a number of more than 63 bits")]
    HugeNumber,
    /// A declaration that may be there once.
    #[error("`{0}` is said twice")]
    SaidTwice(&'static str),
    /// A name that is not defined there.
    #[error("`{0}` is not defined here")]
    UnknownName(String),
    /// A second meaning for a name in the same place.
    #[error("`{name}` has a meaning here already{}", first_line(.first))]
    Redefined {
        /// The name.
        name: String,
        /// Line of its first meaning.
        first: Option<u32>,
    },
    /// A name that the language has taken, or no name at all.
    #[error("`{0}` cannot be a name: letters, digits and `_`, and no word of the language")]
    NoName(String),
    /// A parameter that depends on the rank.
    #[error("a parameter is the same for all ranks")]
    RankInParameter,
    /// Operations together within others.
    #[error("`together` within `together`")]
    Nested,
    /// Too deeply nested, or too long an expression.
    #[error("{what} of more than {most}")]
    TooDeep {
        /// What.
        what: &'static str,
        /// Most that is possible.
        most: usize,
    },
    /// A number that is out of range.
    #[error("{what} {found} is out of range: from {least} to {most} is possible")]
    OutOfRange {
        /// What it stands for.
        what: &'static str,
        /// The number.
        found: i64,
        /// The smallest one possible.
        least: i64,
        /// The largest one possible.
        most: i64,
    },
    /// Nobody has said how many ranks there are.
    #[error(
        "the number of ranks is not given: neither by `ranks` in the program nor by the caller"
    )]
    NoRanks,
    /// A value for a parameter that does not exist.
    #[error("there is no parameter `{name}`: {}", names_of(.known))]
    UnknownParameter {
        /// What was given.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
    /// A division by 0.
    #[error("{0} / 0 or {0} % 0: no division by 0")]
    Division(i64),
    /// A shift by less than 0 or more than 63 places.
    #[error("a shift by {0} places: from 0 to 63 is possible")]
    Shift(i64),
    /// The logarithm of what has none.
    #[error("the logarithm of {0}: only numbers from 1 have one")]
    Logarithm(i64),
    /// A result that does not fit.
    #[error("{0} does not fit 64 bits")]
    Overflow(String),
    /// A rank that goes round and round without an operation.
    #[error("more than {0} steps without an operation")]
    Idle(u64),
    /// More operations than can be held at a time.
    #[error("more than {0} operations")]
    TooManyOperations(u64),
    /// A schedule that cannot be.
    #[error("{0}")]
    Schedule(String),
    /// Memory for so many ranks cannot be had.
    #[error("the memory for {ranks} ranks cannot be had: {bytes} bytes")]
    Memory {
        /// How many.
        ranks: u32,
        /// How much.
        bytes: u64,
    },
}

fn first_line(line: &Option<u32>) -> String {
    line.map_or(String::new(), |line| format!(", from line {line}"))
}

fn names_of(names: &[String]) -> String {
    match names.is_empty() {
        true => "the program has none".to_owned(),
        false => format!("the program has {}", names.join(", ")),
    }
}

impl Problem {
    /// Why this operation on one number has no result.
    #[cold]
    pub(super) fn of_unary(operator: Unary, of: i64) -> Self {
        match operator {
            Unary::Log2Floor | Unary::Log2Ceil => Problem::Logarithm(of),
            Unary::Negative | Unary::Not => Problem::Overflow(format!("-({of})")),
        }
    }

    /// Why this operation on two numbers has no result.
    #[cold]
    pub(super) fn of_binary(operator: Binary, left: i64, right: i64) -> Self {
        match operator {
            Binary::Divide | Binary::Remainder if right == 0 => Problem::Division(left),
            Binary::ShiftLeft | Binary::ShiftRight if !(0..64).contains(&right) => {
                Problem::Shift(right)
            }
            _ => {
                let sign = super::write::sign(operator);
                Problem::Overflow(format!("{left} {sign} {right}"))
            }
        }
    }
}
