//! Views of a run, and two runs compared.

use crate::{Analysis, PipelineError};
use idlewave_explain::compare::Comparison;
use idlewave_explain::views::{Filter, View, ViewKind};
use idlewave_explain::{ExplainError, views};
use idlewave_report::render_view;
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

/// Compares run B with run A.
///
/// # Errors
/// A table cannot be read, or the runs have nothing in common.
pub fn compare(a: &Analysis, b: &Analysis) -> Result<Comparison, PipelineError> {
    let runs = [a, b].map(|of| (&of.run, &of.findings));
    idlewave_explain::compare::compare(runs).map_err(|error: ExplainError| error.into())
}
