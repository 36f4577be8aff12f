//! Turns a recorded bundle into findings.

use crate::{Effort, PipelineError};
use idlewave_explain::advice::advise;
use idlewave_explain::{ExplainError, Explanation, explain};
use idlewave_fit::{FitError, NoiseOf, fit_run};
use idlewave_replay::LikeLockstep;
use idlewave_run::findings::{Findings, Prediction, SourceFinding};
use idlewave_run::tables::LateSteps;
use idlewave_run::{RunError, RunReader, SourceKind};
use idlewave_session::{Lock, Progress, SessionError, open_run};
use idlewave_simulate::{
    MOST_REMOVED, MeasuredRun, PredictConfig, QuietStep, SimulateError, predict,
};
use idlewave_units::Nanos;
use idlewave_units::show::percent;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// A bundle with its findings.
#[derive(Debug)]
pub struct Analysis {
    /// The bundle.
    pub run: RunReader,
    /// Its findings; they are in the bundle too, unless it cannot be written.
    pub findings: Findings,
    /// Its late steps, if they could not be written into the bundle.
    pub unwritten: Option<LateSteps>,
}

/// A bundle with the findings in it; explains the bundle first if that has not been done.
///
/// # Errors
/// As for [`analyse`].
pub fn explained(
    path: &Path,
    effort: Effort,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Analysis, PipelineError> {
    let run = RunReader::open(path)?;
    match run.findings()? {
        Some(findings) => Ok(Analysis {
            run,
            findings,
            unwritten: None,
        }),
        None => analyse(path, effort, stop, progress),
    }
}

/// Explains a bundle from its own data alone, and writes findings and late steps into it. The same
/// bundle gives the same bytes. A bundle whose writer was killed is completed first. Findings made
/// with less than the usual `effort` say so.
///
/// # Errors
/// No bundle, damage, a newer schema, another process at work on it, or `stop` became true.
pub fn analyse(
    path: &Path,
    effort: Effort,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Analysis, PipelineError> {
    // A path that is not a bundle is reported as such, not as one that cannot be locked.
    RunReader::open(path)?;
    let lock = Lock::take(path)?;
    analyse_locked(path, &lock, effort, stop, progress)
}

/// The same for a caller that holds the lock.
pub fn analyse_locked(
    path: &Path,
    _lock: &Lock,
    effort: Effort,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Analysis, PipelineError> {
    let run = open_run(path, stop, progress)?;
    progress.part("explaining every late step");
    let Explanation {
        mut findings,
        late_steps,
        late_parts,
        program,
        evidence,
    } = explain(&run, stop)?;
    // A simulated run is itself a prediction, and there is no machine to give advice on.
    if run.manifest().simulated.is_none() {
        progress.part("predicting a million ranks");
        add_prediction(&run, &mut findings, effort, stop, progress)?;
        findings.advice = advise(&findings, &evidence, run.manifest());
    }
    let write = |run: RunReader| -> Result<RunReader, RunError> {
        let mut out = run.into_writer();
        out.write_table(&late_steps)?;
        out.write_table(&late_parts)?;
        if let Some(tables) = &program {
            out.write_table(&tables.messages)?;
            out.write_table(&tables.waits)?;
            out.write_table(&tables.wait_parts)?;
        }
        out.save()?;
        let run = RunReader::open(path)?;
        run.write_findings(&findings)?;
        Ok(run)
    };
    match write(run) {
        Ok(run) => Ok(Analysis {
            run,
            findings,
            unwritten: None,
        }),
        Err(error) if may_not_write(&error) => {
            progress
                .note("note: the bundle cannot be written, so the findings are shown and not kept");
            Ok(Analysis {
                run: RunReader::open(path)?,
                findings,
                unwritten: Some(late_steps),
            })
        }
        Err(error) => Err(error.into()),
    }
}

fn may_not_write(error: &RunError) -> bool {
    matches!(error, RunError::Io { source, .. }
        if matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem))
}

/// Sources that somebody could remove. The others are not events of the machine.
fn is_removable(kind: SourceKind) -> bool {
    !matches!(
        kind,
        SourceKind::SlowLevel | SourceKind::Unexplained | SourceKind::Rank | SourceKind::Blocked
    )
}

fn add_prediction(
    run: &RunReader,
    findings: &mut Findings,
    effort: Effort,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<(), PipelineError> {
    if findings.lockstep.is_empty() {
        return Ok(());
    }
    findings.losses.enter(
        format!(
            "simulated steps of the prediction ({} of the usual effort)",
            percent(effort.share())
        ),
        u64::from(effort.is_reduced()),
        "the prediction is less precise than usual, or lacks points",
        "ask for the usual effort, then: idlewave explain RUN",
    );
    match prediction(run, findings, effort, stop, progress) {
        Ok(prediction) => findings.prediction = Some(prediction),
        Err(error) if error.is_stop() => {
            return Err(SessionError::Interrupted {
                kept: "the bundle is as it was recorded".to_owned(),
            }
            .into());
        }
        Err(error) => {
            findings.losses.enter(
                format!("the prediction: {error}"),
                1,
                "what the noise costs at scale is not known",
                error.next_step(),
            );
            findings.not_predicted = Some(error.to_string());
        }
    }
    Ok(())
}

/// Why there is no prediction.
#[derive(Debug, thiserror::Error)]
enum NoPrediction {
    #[error(transparent)]
    Fit(#[from] FitError),
    #[error(transparent)]
    Simulate(#[from] SimulateError),
}

impl NoPrediction {
    /// What may make a prediction possible.
    fn next_step(&self) -> &'static str {
        match self {
            NoPrediction::Simulate(SimulateError::TooManyEvents) => {
                "measure where other programs leave the CPUs alone"
            }
            _ => "measure longer, or on fewer CPUs",
        }
    }

    /// Whether the user asked for an end.
    fn is_stop(&self) -> bool {
        matches!(
            self,
            NoPrediction::Simulate(SimulateError::Stopped)
                | NoPrediction::Fit(FitError::Explain(ExplainError::Interrupted))
        )
    }
}

/// What the noise of a run costs at scale, under the model that is fitted to it.
fn prediction(
    run: &RunReader,
    findings: &Findings,
    effort: Effort,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Prediction, NoPrediction> {
    let seed = run.manifest().seed;
    let fitted = fit_run(run, NoiseOf::Machine, String::new(), seed, stop)?;
    let model = fitted.model;
    let of_model = |s: &&SourceFinding| {
        let mut sources = model.sources.iter();
        sources.any(|m| m.kind == s.kind && m.name == s.name)
    };
    let worst = findings.sources.iter();
    let worst = worst.filter(|s| is_removable(s.kind)).filter(of_model);
    let likes = LikeLockstep::all(run.manifest(), findings);
    // Of ways that took turns, one turn of each way is enough.
    let once = likes
        .iter()
        .filter(|like| !run.manifest().is_later_turn(like.phase));
    let measured = once.filter_map(|like| {
        let found = findings.lockstep.iter().find(|l| l.phase == like.phase)?;
        Some(MeasuredRun {
            name: like.name.clone(),
            program: like.program(like.ranks),
            step: Nanos::from_nanos(like.quiet_ns),
            slowdown: found.slowdown.clone(),
        })
    });
    let config = PredictConfig {
        seed,
        remove: worst
            .take(MOST_REMOVED)
            .map(|s| (s.kind, s.name.clone()))
            .collect(),
        measured: measured.collect(),
    };
    let step = QuietStep {
        work: findings.profile.work,
        exchange: findings.profile.exchange,
        barrier: findings.profile.barrier,
    };
    let at = |share| progress.at(share);
    let mut prediction = predict(&model, &step, &config, effort.share(), stop, &at)?;
    prediction.caveats.extend(fitted.report.warnings);
    let own = |s: &SourceFinding| s.kind == SourceKind::Recorder && s.stolen > Nanos::ZERO;
    if findings.sources.iter().any(own) {
        let left_out = "what idlewave itself took while it recorded is left out";
        prediction.caveats.push(left_out.to_owned());
    }
    Ok(prediction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_noise::{Arrivals, Lengths, NoiseModel, Source};
    use idlewave_session::Quiet;
    use idlewave_simulate::bulk::{Phase, Program, Wait};
    use idlewave_simulate::bundle::{Run, write_run};
    use idlewave_simulate::{Shape, Stencil, Work};

    /// A simulated run gets neither a prediction nor advice, though there is a source to blame.
    #[test]
    fn a_simulated_run_is_explained_and_neither_predicts_nor_advises() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let stencil = Stencil::nearest(Shape { x: 4, y: 1, z: 1 });
        let program = Program {
            ranks: 4,
            phases: vec![
                Phase::Compute(Work::Same(1_000_000)),
                Phase::Exchange {
                    stencil,
                    bytes: 8,
                    wait: Wait::All,
                },
            ],
            costs: Default::default(),
        };
        let daemon = Source {
            kind: SourceKind::Task,
            name: "daemon".to_owned(),
            strikes: Default::default(),
            together: Default::default(),
            cpus: None,
            keeps: 0.0,
            arrivals: Arrivals::Poisson { rate_per_s: 20.0 },
            length: Some(Lengths::Fixed { ns: 500_000 }),
            fit: None,
        };
        let model = NoiseModel {
            cpus_per_node: 4,
            sources: vec![daemon],
            ..NoiseModel::default()
        };
        let run = Run {
            program: &program,
            model: &model,
            seed: 1,
            replication: 0,
            without: &[],
            delays: &[],
            steps: 300,
            command: &[],
            started: "",
        };
        let stop = AtomicBool::new(false);
        write_run(&path, &run, &stop).unwrap();
        let findings = analyse(&path, Effort::USUAL, &stop, &Quiet)
            .unwrap()
            .findings;
        assert_eq!(findings.sources[0].name, "daemon");
        assert!(findings.sources[0].lateness > Nanos::ZERO);
        assert_eq!(findings.prediction, None);
        assert!(findings.advice.is_empty());
        let first = std::fs::read(path.join("findings.json")).unwrap();
        analyse(&path, Effort::USUAL, &stop, &Quiet).unwrap();
        assert_eq!(std::fs::read(path.join("findings.json")).unwrap(), first);
    }
}
