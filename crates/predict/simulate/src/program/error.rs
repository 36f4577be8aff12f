//! Errors in a program, and where they are.

use super::tree::{Binary, Unary};
use std::{fmt, io};

/// Why a file is not a program.
#[derive(Debug, thiserror::Error)]
pub enum ReadProgramError {
    /// The system could not read it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// An error in the text.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// An error in a program and its location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}{problem}")]
pub struct ProgramError {
    /// Where it is.
    pub place: Place,
    /// What is wrong.
    pub problem: Problem,
}

/// Location of an error, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The rank that encountered it.
    pub rank: Option<u32>,
    /// Line of the text, from 1.
    pub line: Option<u32>,
    /// Variables of the loops around it, outermost first.
    pub iterations: Vec<(String, i64)>,
}

impl Place {
    /// In a line, for any rank.
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
    /// Followed by a colon, if anything is known.
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
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
    /// An unknown version of the text form.
    #[error("version {0} of programs is not supported: only 1 is")]
    Version(i64),
    /// A number in the text that does not fit.
    #[error("a number of more than 63 bits")]
    HugeNumber,
    /// A declaration that is allowed only once.
    #[error("`{0}` is declared twice")]
    SaidTwice(&'static str),
    /// A name that is not defined there.
    #[error("`{0}` is not defined here")]
    UnknownName(String),
    /// A second definition of a name in the same scope.
    #[error("`{name}` is already defined here{}", first_line(.first))]
    Redefined {
        /// The name.
        name: String,
        /// Line of its first definition.
        first: Option<u32>,
    },
    /// A reserved word, or not a valid name.
    #[error(
        "`{0}` cannot be a name: names have letters, digits and `_`, and are not words of the language"
    )]
    NoName(String),
    /// A parameter that depends on the rank.
    #[error("a parameter is the same for all ranks")]
    RankInParameter,
    /// A `together` block inside another one.
    #[error("`together` within `together`")]
    Nested,
    /// Too deeply nested, or too long an expression.
    #[error("{what} of more than {most}")]
    TooDeep {
        /// What exceeds the limit.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// A number that is out of range.
    #[error("{what} {found} is out of range: from {least} to {most} is possible")]
    OutOfRange {
        /// What it stands for.
        what: &'static str,
        /// The number.
        found: i64,
        /// The smallest allowed value.
        least: i64,
        /// The largest allowed value.
        most: i64,
    },
    /// Neither the program nor the caller gives the number of ranks.
    #[error(
        "the number of ranks is not given: neither by `ranks` in the program nor by the caller"
    )]
    NoRanks,
    /// A value for a parameter that does not exist.
    #[error("there is no parameter `{name}`: {}", names_of(.known))]
    UnknownParameter {
        /// The name given.
        name: String,
        /// The parameters that exist.
        known: Vec<String>,
    },
    /// A division by 0.
    #[error("{0} / 0 or {0} % 0: no division by 0")]
    Division(i64),
    /// A shift by less than 0 or more than 63 places.
    #[error("a shift by {0} places: from 0 to 63 is possible")]
    Shift(i64),
    /// The logarithm of a number below 1.
    #[error("the logarithm of {0}: only numbers of at least 1 have one")]
    Logarithm(i64),
    /// A result that does not fit.
    #[error("{0} does not fit 64 bits")]
    Overflow(String),
    /// A rank that runs in circles without an operation.
    #[error("more than {0} steps without an operation")]
    Idle(u64),
    /// More operations than can be held at a time.
    #[error("more than {0} operations")]
    TooManyOperations(u64),
    /// The operations do not form a schedule.
    #[error("{0}")]
    Schedule(String),
    /// Not enough memory for this many ranks.
    #[error("cannot allocate the memory for {ranks} ranks: {bytes} bytes")]
    Memory {
        /// Number of ranks.
        ranks: u32,
        /// Bytes needed.
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
