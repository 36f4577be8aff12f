//! Two runs compared: noise of CPUs, fixed work, lockstep steps, computations that all ranks
//! repeat, and sources by name.
//!
//! Definition: both runs are cut into blocks of equal length, at least 20 of the shorter run. A
//! block has one value of each quantity, and the values of the two runs are compared by ranks
//! ([`idlewave_stats::two_samples`]): probability of superiority and shift, with intervals. Sources
//! are compared by rate and share ([`sources`]). All tests together are wrong in 5 % of comparisons
//! of runs that do not differ (Holm).
//!
//! Assumptions: blocks are independent, that is, longer than whatever makes times that follow each
//! other alike. Bias: if they are not, runs look more different than they are. A comparison cannot
//! tell why two runs differ: two runs of one machine in one state may differ, because the machine
//! changes from run to run.

mod blocks;
mod comparison;
mod cpus;
mod fairness;
mod ranks;
mod row;
mod sources;
mod words;

pub use comparison::{Comparison, Explained};
pub use row::{Quantity, Row, Side, Subject, Verdict};
pub use sources::{Measured, SourceChange, SourceVerdict};

use crate::ExplainError;
use crate::step_series::StepSeries;
use idlewave_run::Manifest;
use idlewave_stats::hypotheses::holm;

/// Chance of at least one wrong verdict in a comparison of what does not differ.
const ERROR: f64 = 0.05;

/// Compares run B with run A.
///
/// # Errors
/// A table cannot be read, or the runs have nothing in common.
pub fn compare(runs: [Explained<'_>; 2]) -> Result<Comparison, ExplainError> {
    let mut found = Comparison::default();
    cpus::compare(runs, &mut found)?;
    ranks::compare(runs, &mut found)?;
    let both = runs.map(|(run, findings)| (run.manifest(), findings));
    match sources::compare(both) {
        Ok(changes) => found.sources = changes,
        Err(why) => found.sources_not_compared = Some(why),
    }
    found.warnings = fairness::warnings(both);
    if found.rows.is_empty() && found.sources.is_empty() {
        let reason = nothing_in_common(both.map(|(manifest, _)| manifest), &found);
        return Err(ExplainError::NotComparable(reason));
    }
    judge(&mut found);
    Ok(found)
}

/// Compares times of computations that every rank repeats in every step, of B with those of A: those
/// of the same name and number of ranks, or the only one of A with the only one of B. `None` if there
/// is no such pair, or if all of them have too few steps.
pub fn compare_steps([a, b]: [&[StepSeries]; 2]) -> Option<Comparison> {
    let mut found = Comparison::default();
    match (a, b) {
        ([a], [b]) if a.ranks == b.ranks => ranks::series([a, b], true, &mut found),
        _ => {
            for (a, b) in ranks::pairs([a, b], ranks::key, &mut found, "") {
                ranks::series([a, b], true, &mut found);
            }
        }
    }
    judge(&mut found);
    (!found.rows.is_empty()).then_some(found)
}

/// Gives all verdicts, now that the number of tests is known.
fn judge(found: &mut Comparison) {
    let rows = found.rows.iter().map(|row| row.p);
    let sources = found.sources.iter().map(SourceChange::p);
    let all: Vec<f64> = rows.chain(sources).collect();
    let adjusted = holm(&all);
    let (rows, sources) = adjusted.split_at(found.rows.len());
    for (row, &p) in found.rows.iter_mut().zip(rows) {
        row.judge(p, ERROR);
    }
    for (source, &p) in found.sources.iter_mut().zip(sources) {
        source.judge(p, ERROR);
    }
    found.sources.sort_by(self::sources::order);
    found.conclusion = words::conclusion(found);
}

fn nothing_in_common(manifests: [&Manifest; 2], found: &Comparison) -> String {
    let [a, b] = manifests.map(words::parts);
    let mut reason = format!("they have nothing in common that can be compared (A: {a}; B: {b})");
    let why = found.not_compared.iter().chain(&found.sources_not_compared);
    for why in why {
        reason.push_str(&format!("; {why}"));
    }
    reason
}
