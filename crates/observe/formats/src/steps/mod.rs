//! Times of a computation that every rank of a program repeats in every step, as any program can
//! write them: text or Arrow.
//!
//! A *list* has a row per rank and step, with columns named `rank`, `step`, `duration` and, if known,
//! `begin`, in any order; other columns are ignored. A *matrix* is text with a row per step and a
//! column per rank. A time has the unit that its column names, as in `duration_us`, or the one that
//! is given. docs/jitter.md describes both.
//!
//! Steps that a rank lacks are left out and counted. Without begins, a step is taken to begin when
//! the slowest rank has ended the one before, as if all waited for each other.

mod arrow;
mod csv;

pub use arrow::{is_arrow, read_arrow};
pub use csv::read_csv;

use idlewave_run::RunError;
use std::str::FromStr;

/// Longest duration, 27.8 hours: the sum over all ranks of a step must fit into 64 bits.
const LONGEST_NS: u64 = 100_000_000_000_000;
/// Latest begin, 292 years.
const LATEST_NS: u64 = i64::MAX as u64;
/// Most ranks.
const MOST_RANKS: u32 = 100_000;

/// Times of all ranks in all steps that all of them have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFile {
    /// Number of ranks, at least 1.
    pub ranks: usize,
    /// Nanoseconds, step by step, in the order of the ranks; at least two steps.
    pub durations: Vec<u64>,
    /// When each began, in nanoseconds.
    pub begins: Vec<u64>,
    /// Steps that not all ranks have, which are left out.
    pub left_out: u64,
}

/// Why a file has no times.
#[derive(Debug, thiserror::Error)]
pub enum StepsError {
    /// A line of a text.
    #[error("line {line}: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The file as a whole.
    #[error("{0}")]
    File(String),
    /// An Arrow file cannot be read, or its columns do not fit.
    #[error(transparent)]
    Arrow(#[from] RunError),
}

/// Unit of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

impl Unit {
    const fn ns(self) -> u64 {
        match self {
            Unit::Nanoseconds => 1,
            Unit::Microseconds => 1_000,
            Unit::Milliseconds => 1_000_000,
            Unit::Seconds => 1_000_000_000,
        }
    }
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "ns" => Ok(Unit::Nanoseconds),
            "us" => Ok(Unit::Microseconds),
            "ms" => Ok(Unit::Milliseconds),
            "s" => Ok(Unit::Seconds),
            _ => Err("not one of ns, us, ms and s".to_owned()),
        }
    }
}

/// A number of a file.
#[derive(Clone, Copy, Debug)]
enum Number {
    Whole(u64),
    Real(f64),
}

impl Number {
    fn of(text: &str) -> Option<Self> {
        let whole = text.parse().ok().map(Number::Whole);
        whole.or_else(|| text.parse().ok().map(Number::Real))
    }

    /// As a number that counts something.
    fn count(self) -> Option<u64> {
        match self {
            Number::Whole(whole) => Some(whole),
            Number::Real(real) if real >= 0.0 && real.fract() == 0.0 && real < 1e15 => {
                Some(real as u64)
            }
            Number::Real(_) => None,
        }
    }

    /// As nanoseconds, at most `most`.
    fn nanoseconds(self, unit: Unit, most: u64) -> Option<u64> {
        let ns = match self {
            Number::Whole(whole) => whole.checked_mul(unit.ns())?,
            Number::Real(real) => {
                let ns = (real * unit.ns() as f64).round();
                (0.0..=most as f64).contains(&ns).then_some(ns as u64)?
            }
        };
        (ns <= most).then_some(ns)
    }
}

/// What a column of a list holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Rank,
    Step,
    Begin(Option<Unit>),
    Duration(Option<Unit>),
}

impl Column {
    /// The column of this name, as in `duration_us` or `duration [us]`.
    fn named(name: &str) -> Option<Self> {
        let name = name.trim().trim_matches('"').to_ascii_lowercase();
        let at = name.find(['_', ' ', '[', '(']).unwrap_or(name.len());
        let (stem, rest) = name.split_at(at);
        let unit = rest.trim_matches(['_', ' ', '[', ']', '(', ')']);
        let unit = match unit {
            "" => None,
            unit => Some(unit.parse().ok()?),
        };
        match (stem, unit) {
            ("rank", None) => Some(Column::Rank),
            ("step", None) => Some(Column::Step),
            ("begin", unit) => Some(Column::Begin(unit)),
            ("duration", unit) => Some(Column::Duration(unit)),
            _ => None,
        }
    }
}

/// Where the columns of a list are, and in which units.
struct Columns {
    rank: usize,
    step: usize,
    begin: Option<(usize, Unit)>,
    duration: (usize, Unit),
}

impl Columns {
    /// `None` if none is called `rank`; `unit` is that of columns which do not name theirs.
    fn of<'a>(
        names: impl Iterator<Item = &'a str>,
        unit: Option<Unit>,
    ) -> Result<Option<Self>, String> {
        let columns: Vec<Option<Column>> = names.map(Column::named).collect();
        let place = |is: fn(&Column) -> bool| {
            columns
                .iter()
                .position(|column| column.as_ref().is_some_and(is))
        };
        let Some(rank) = place(|c| *c == Column::Rank) else {
            return Ok(None);
        };
        let of = |place: usize, name: &str| match columns[place] {
            Some(Column::Begin(Some(unit)) | Column::Duration(Some(unit))) => Ok((place, unit)),
            _ => unit
                .map(|unit| (place, unit))
                .ok_or_else(|| no_unit(&format!("column `{name}`"))),
        };
        let missing = |name: &str| format!("column `{name}` is missing");
        let begin = place(|c| matches!(c, Column::Begin(_)));
        let duration = place(|c| matches!(c, Column::Duration(_)));
        Ok(Some(Self {
            rank,
            step: place(|c| *c == Column::Step).ok_or_else(|| missing("step"))?,
            begin: begin.map(|place| of(place, "begin")).transpose()?,
            duration: of(duration.ok_or_else(|| missing("duration"))?, "duration")?,
        }))
    }

    /// The cell in a row whose numbers `at` gives.
    fn cell(&self, at: impl Fn(usize) -> Option<Number>) -> Result<Cell, String> {
        let wrong = |name: &str, most: &str| format!("`{name}` is not a number from 0 to {most}");
        let rank = at(self.rank)
            .and_then(Number::count)
            .filter(|r| *r < MOST_RANKS.into());
        let begin = self.begin.map(|(place, unit)| {
            let begin = at(place).and_then(|number| number.nanoseconds(unit, LATEST_NS));
            begin.ok_or_else(|| wrong("begin", "292 years"))
        });
        Ok(Cell {
            rank: rank.ok_or_else(|| wrong("rank", "99999"))? as u32,
            step: at(self.step)
                .and_then(Number::count)
                .ok_or_else(|| wrong("step", "10^15"))?,
            begin: begin.transpose()?,
            duration: duration(at(self.duration.0), self.duration.1)?,
        })
    }
}

fn no_unit(what: &str) -> String {
    format!("{what} has no unit: call it duration_us, say, or give --unit")
}

fn duration(number: Option<Number>, unit: Unit) -> Result<u64, String> {
    let duration = number.and_then(|number| number.nanoseconds(unit, LONGEST_NS));
    duration.ok_or_else(|| "a duration is not a number from 0 to 27 hours".to_owned())
}

/// A time of a rank in a step.
#[derive(Clone, Copy, Debug)]
struct Cell {
    step: u64,
    rank: u32,
    begin: Option<u64>,
    duration: u64,
}

/// Brings cells into order.
fn assembled(mut cells: Vec<Cell>) -> Result<StepFile, StepsError> {
    cells.sort_by_key(|cell| (cell.step, cell.rank));
    let twice = cells
        .windows(2)
        .find(|w| (w[0].step, w[0].rank) == (w[1].step, w[1].rank));
    if let Some([cell, _]) = twice {
        let text = format!("rank {} has step {} twice", cell.rank, cell.step);
        return Err(StepsError::File(text));
    }
    let mut seen: Vec<u32> = cells.iter().map(|cell| cell.rank).collect();
    seen.sort_unstable();
    seen.dedup();
    let gap = seen
        .iter()
        .enumerate()
        .find(|(place, rank)| **rank as usize != *place);
    if let Some((place, rank)) = gap {
        let text = format!("rank {rank} is there, but rank {place} is not: count ranks from 0");
        return Err(StepsError::File(text));
    }
    let ranks = seen.len();
    let mut file = StepFile {
        ranks,
        durations: Vec::with_capacity(cells.len()),
        begins: Vec::with_capacity(cells.len()),
        left_out: 0,
    };
    let mut next = 0_u64;
    for step in cells.chunk_by(|a, b| a.step == b.step) {
        if step.len() < ranks {
            file.left_out += 1;
            continue;
        }
        file.durations.extend(step.iter().map(|cell| cell.duration));
        file.begins
            .extend(step.iter().map(|cell| cell.begin.unwrap_or(next)));
        let longest = step.iter().map(|cell| cell.duration).max();
        next = next.saturating_add(longest.unwrap_or(0));
    }
    let steps = file.durations.len() / ranks.max(1);
    match steps {
        0 | 1 => Err(StepsError::File(format!(
            "it has {steps} steps that all of {ranks} ranks have, and two are needed"
        ))),
        _ => Ok(file),
    }
}

#[cfg(test)]
mod tests;
