//! From a recorded bundle to its findings.

use crate::lock::Lock;
use crate::{Progress, RecordingError, salvage};
use idlewave_explain::advice::advise;
use idlewave_explain::{Explanation, explain};
use idlewave_run::findings::{Findings, SourceFinding};
use idlewave_run::{Coupling, PhaseKind, RunError, RunReader, SourceKind};
use idlewave_simulate::{
    MOST_REMOVED, MeasuredRun, PredictConfig, SimulateError, predict_with_effort,
};
use idlewave_units::Nanos;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Environment variable with the share of the usual effort to spend on the prediction, 0..=1: for tests of
/// everything else. Findings made with it say so.
const EFFORT: &str = "IDLEWAVE_EFFORT";

/// A bundle with its findings.
#[derive(Debug)]
pub struct Analysis {
    /// The bundle.
    pub run: RunReader,
    /// Its findings; they are in the bundle too, unless it cannot be written.
    pub findings: Findings,
}

/// Explains a bundle from its own data alone, and writes findings and late steps into it. The same bundle
/// gives the same bytes. One whose writer was killed is made whole first.
///
/// # Errors
/// No bundle, damage, a newer schema, another process at work on it, or `stop` became true.
pub fn analyse(
    path: &Path,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Analysis, RecordingError> {
    // A path that is no bundle is said to be none rather than one that cannot be locked.
    RunReader::open(path)?;
    let lock = Lock::take(path)?;
    analyse_locked(path, &lock, stop, progress)
}

/// The same for a caller that holds the lock.
pub fn analyse_locked(
    path: &Path,
    _lock: &Lock,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Analysis, RecordingError> {
    let run = salvage::open(path, stop, progress)?;
    progress.part("explaining every late step");
    let Explanation {
        mut findings,
        late_steps,
        late_parts,
        program,
    } = explain(&run, stop)?;
    // A simulated run is an answer of the simulation itself, and no machine that could be advised.
    if run.manifest().simulated.is_none() {
        progress.part("predicting a million ranks");
        add_prediction(&run, &mut findings, stop, progress)?;
        if let Some(node) = run.manifest().nodes.first() {
            findings.advice = advise(&findings, &node.host);
        }
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
        Ok(run) => Ok(Analysis { run, findings }),
        Err(error) if may_not_write(&error) => {
            progress
                .note("note: the bundle cannot be written, so the findings are shown and not kept");
            Ok(Analysis {
                run: RunReader::open(path)?,
                findings,
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

/// The effort asked for; the usual one if none is, or nonsense.
fn effort() -> f64 {
    let asked = std::env::var(EFFORT)
        .ok()
        .and_then(|text| text.parse().ok());
    asked.filter(|e| *e > 0.0 && *e < 1.0).unwrap_or(1.0)
}

fn add_prediction(
    run: &RunReader,
    findings: &mut Findings,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<(), RecordingError> {
    if findings.lockstep.is_empty() {
        return Ok(());
    }
    let couplings = run.manifest().phases.iter().map(|phase| match phase.kind {
        PhaseKind::Lockstep { coupling, .. } => coupling,
        _ => Coupling::Neighbours,
    });
    let couplings: Vec<Coupling> = couplings.collect();
    let in_profile = |kind: SourceKind, name: &str| {
        findings
            .profile
            .sources
            .iter()
            .any(|s| s.kind == kind && s.name == name)
    };
    let worst = findings
        .sources
        .iter()
        .filter(|s| is_removable(s.kind) && in_profile(s.kind, &s.name));
    let config = PredictConfig {
        seed: run.manifest().seed,
        remove: worst
            .take(MOST_REMOVED)
            .map(|s| (s.kind, s.name.clone()))
            .collect(),
        measured: findings
            .lockstep
            .iter()
            .map(|l| MeasuredRun {
                name: l.name.clone(),
                coupling: couplings
                    .get(l.phase as usize)
                    .copied()
                    .unwrap_or(Coupling::Neighbours),
                ranks: l.ranks,
                work: findings.profile.work,
                slowdown: l.slowdown.clone(),
            })
            .collect(),
    };
    let effort = effort();
    findings.losses.enter(
        format!("simulated steps of the prediction ({EFFORT}={effort})"),
        u64::from(effort < 1.0),
        "the prediction is less precise than usual, or lacks points",
        format!("unset {EFFORT}, then: idlewave explain RUN"),
    );
    let at = |share| progress.at(share);
    match predict_with_effort(&findings.profile, &config, effort, stop, &at) {
        Ok(mut prediction) => {
            let own = |s: &SourceFinding| s.kind == SourceKind::Recorder && s.stolen > Nanos::ZERO;
            if findings.sources.iter().any(own) {
                prediction
                    .caveats
                    .push("what idlewave itself took while it recorded is left out".to_owned());
            }
            findings.prediction = Some(prediction);
        }
        Err(SimulateError::Stopped) => {
            return Err(RecordingError::Interrupted {
                kept: "the bundle is as it was recorded".to_owned(),
            });
        }
        Err(error) => findings.losses.enter(
            format!("the prediction: {error}"),
            1,
            "what the noise costs at scale is not known",
            "measure longer, or on fewer CPUs",
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quiet;
    use idlewave_noise::{Arrivals, Lengths, NoiseModel, Source};
    use idlewave_simulate::bulk::{Phase, Program, Wait};
    use idlewave_simulate::{Shape, Stencil, Work};
    use idlewave_simulated::{Run, write_run};

    /// Nothing is predicted from a simulated run and nobody is advised, though there is somebody to blame.
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
        let findings = analyse(&path, &stop, &Quiet).unwrap().findings;
        assert_eq!(findings.sources[0].name, "daemon");
        assert!(findings.sources[0].lateness > Nanos::ZERO);
        assert_eq!(findings.prediction, None);
        assert!(findings.advice.is_empty());
        let first = std::fs::read(path.join("findings.json")).unwrap();
        analyse(&path, &stop, &Quiet).unwrap();
        assert_eq!(std::fs::read(path.join("findings.json")).unwrap(), first);
    }
}
