//! Times of computations that all ranks repeat, from a run or from a file of any program.

use crate::{Analysis, PipelineError};
use idlewave_explain::{ExplainError, StepSeries, jitter_of, step_series};
use idlewave_formats::steps::StepFile;
use idlewave_run::findings::{JitterFindings, SourceFinding};

/// Computations, and what was found of each.
#[derive(Debug, Default)]
pub struct Steps {
    /// Findings, in the order of the run.
    pub jitter: Vec<JitterFindings>,
    /// What the culprits of the findings refer to.
    pub sources: Vec<SourceFinding>,
    /// The durations of each.
    pub series: Vec<StepSeries>,
}

impl Steps {
    /// The computations of an explained run.
    ///
    /// # Errors
    /// A table cannot be read.
    pub fn of_run(analysis: &Analysis) -> Result<Self, PipelineError> {
        let series = step_series(&analysis.run);
        Ok(Self {
            jitter: analysis.findings.jitter.clone(),
            sources: analysis.findings.sources.clone(),
            series: series.map_err(|error: ExplainError| PipelineError::from(error))?,
        })
    }

    /// The only computation of a file, under this name; nothing if all its durations are 0.
    pub fn of_file(name: &str, file: StepFile) -> Self {
        let found = jitter_of(name, file.ranks, file.begins, file.durations.clone());
        let series = found.iter().map(|_| StepSeries {
            phase: 0,
            name: name.to_owned(),
            ranks: file.ranks,
            durations: file.durations.clone(),
            begins: Vec::new(),
        });
        Self {
            series: series.collect(),
            jitter: found.into_iter().collect(),
            sources: Vec::new(),
        }
    }

    /// Leaves only computations of this name.
    pub fn keep(&mut self, name: &str) {
        self.jitter.retain(|found| found.name == name);
        self.series.retain(|series| series.name == name);
    }
}
