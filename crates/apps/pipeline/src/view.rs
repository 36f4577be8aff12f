//! Views of a run, and two runs compared.

use crate::{Analysis, PipelineError};
use idlewave_explain::views::{Filter, Versus, View, ViewKind};
use idlewave_explain::{ExplainError, views};
use idlewave_report::{render_versus, render_view};
use std::sync::atomic::AtomicBool;

/// Computes a view of an explained run.
///
/// # Errors
/// A table cannot be read, the filter asks for what the run does not have, or `stop` became true.
pub fn view(
    analysis: &Analysis,
    kind: ViewKind,
    filter: &Filter,
    stop: &AtomicBool,
) -> Result<View, PipelineError> {
    let view = views::view(&analysis.run, &analysis.findings, kind, filter, stop);
    view.map_err(|error: ExplainError| error.into())
}

/// The text of a view, no line wider than `width` columns.
pub fn view_text(
    analysis: &Analysis,
    filter: &Filter,
    view: &View,
    width: usize,
    color: bool,
) -> String {
    render_view(analysis.run.manifest(), filter, view, width, color)
}

/// Compares two explained runs.
pub fn versus(a: &Analysis, b: &Analysis) -> Versus {
    views::versus([
        (a.run.manifest(), &a.findings),
        (b.run.manifest(), &b.findings),
    ])
}

/// The text of a comparison of these runs, given with their names; no line is wider than `width`
/// columns.
pub fn versus_text(
    runs: [(&str, &Analysis); 2],
    found: &Versus,
    width: usize,
    color: bool,
) -> String {
    let runs = runs.map(|(name, analysis)| (name, analysis.run.manifest()));
    render_versus(runs, found, width, color)
}
