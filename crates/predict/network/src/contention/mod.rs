//! Tables of measured times by ranks, nodes and ranks per node, compared with the model: fit,
//! prediction, and the error of each row.
//!
//! The model is for a program that exchanges everything with everyone, like the integer sort. Time
//! in collectives is time that ranks wait for each other plus the time of the messages on adapters
//! shared by the ranks of a node; computation is a rank's work, extended by interference among the
//! ranks of a node. docs/network.md has the results for published tables.

mod study;
mod table;
mod terms;

pub use study::{Above, ContentionStudy, Family, Foretold, PredictedRow, study_contention};
pub use table::{ContentionRow, ContentionTable, Exchange, TableError, read_contention};
