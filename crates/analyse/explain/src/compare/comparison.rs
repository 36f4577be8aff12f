//! What a comparison found.

use super::row::{Quantity, Row, Subject};
use super::sources::SourceChange;
use idlewave_run::RunReader;
use idlewave_run::findings::Findings;
use serde::Serialize;

/// B compared with A.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// What came out, in a sentence.
    pub conclusion: String,
    /// Why the comparison may be unfair.
    pub warnings: Vec<String>,
    /// What was compared by ranks.
    pub rows: Vec<Row>,
    /// The sources, significant changes first, most time gained or lost first.
    pub sources: Vec<SourceChange>,
    /// Why the sources cannot be compared; `None` if they can.
    pub sources_not_compared: Option<String>,
    /// What both runs have and cannot be compared, and why.
    pub not_compared: Vec<String>,
    /// What only one of the runs has.
    pub only_one: Vec<String>,
}

/// A run with its findings.
pub type Explained<'a> = (&'a RunReader, &'a Findings);

impl Comparison {
    /// Adds a row, if both sides have enough values.
    pub(super) fn add(&mut self, subject: &Subject, quantity: Quantity, values: [Vec<f64>; 2]) {
        self.rows.extend(Row::of(subject, quantity, values));
    }

    /// How many comparisons differ significantly, and how many there are.
    pub fn differing(&self) -> (usize, usize) {
        let rows = self.rows.iter().filter(|row| row.verdict.differs()).count();
        let sources = self.sources.iter().filter(|s| s.verdict.differs()).count();
        (rows + sources, self.rows.len() + self.sources.len())
    }
}
