//! The recording, from the options to a bundle that is complete but not yet explained.

mod phases;

use crate::StudyOptions;
use crate::plan::Plan;
use crate::size::Size;
use idlewave_capture::host::{allowed_cpus, read_host};
use idlewave_capture::proc::ContaminationMeter;
use idlewave_clock::{Calibration, Counter, Readings, with_source};
use idlewave_pipeline::{Analysis, PipelineError, analyse_locked, write_report};
use idlewave_run::{
    Contamination, Incomplete, Ledger, Manifest, NodeSheet, RankSheet, RunState, RunWriter,
    SchemaVersion, TraceCost, TraceMode, TraceSheet,
};
use idlewave_session::{
    KernelView, Lock, Progress, Recording, SessionError, Stop, Utc, check_machine, ended_after,
    failed,
};
use idlewave_sys::files;
use idlewave_units::{Bytes, Nanos, NodeId};
use idlewave_workloads::fibonacci;
use phases::Phases;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The number of rounds that measure the speed of the CPU, and the pause between them: a CPU stays
/// at a slow level for up to half a second.
const SPEED_ROUNDS: u32 = 8;
const SPEED_PAUSE: Duration = Duration::from_millis(60);

/// Measures this machine and explains the results.
///
/// # Errors
/// See [`PipelineError`]. In any case the bundle holds what was recorded until then, and nothing
/// outside it stays changed.
pub fn study(
    options: &StudyOptions,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Analysis, PipelineError> {
    let (path, lock) = measured(options, stop, progress)?;
    let analysis = analyse_locked(&path, &lock, options.effort, &stop.flag, progress)?;
    progress.part("writing the report");
    write_report(&analysis, &path)?;
    Ok(analysis)
}

/// Records into a new bundle; returns its path and its lock.
fn measured(
    options: &StudyOptions,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<(PathBuf, Lock), SessionError> {
    check_machine()?;
    let root = Path::new("/");
    let plan = Plan::of(options, &allowed_cpus()?)?;
    let path = match &options.output {
        Some(path) => path.clone(),
        None => PathBuf::from(format!("idlewave-study-{}", Utc::now().for_file())),
    };
    let size = Size::of(&plan, options.work, options.trace);
    progress.part("looking at the machine");
    let counter = Counter::choose(root);
    let readings = counter.measure()?;
    let calibration = Calibration::begin(counter);
    let manifest = manifest(options, &plan, root, &calibration, readings);
    let out = RunWriter::record(&path, manifest)?;
    let lock = Lock::take(&path)?;
    tell_size(&path, size, options, progress);
    let recorded = record(
        options,
        &plan,
        root,
        calibration,
        readings,
        out,
        stop,
        progress,
    );
    if let Err(error) = recorded {
        return Err(failed(&path, error));
    }
    if stop.is_requested() {
        return Err(SessionError::Interrupted {
            kept: format!(
                "what was recorded is in {0}; to see it: idlewave explain {0}",
                path.display()
            ),
        });
    }
    Ok((path, lock))
}

/// Announces the size of the run before the measurement, with a warning if there is not enough
/// space.
fn tell_size(path: &Path, size: Size, options: &StudyOptions, progress: &dyn Progress) {
    let all = size.all.min(options.max_size);
    let room = files::room(path).map(Bytes::new).filter(|room| *room < all);
    let free = room.map_or(String::new(), |room| {
        format!(
            "; only {room} is free there: choose another place with -o, or a shorter --duration"
        )
    });
    progress.note(&format!(
        "the run takes up to {all} in {} ({} per CPU and minute){free}",
        path.display(),
        size.cpu_minute
    ));
}

fn manifest(
    options: &StudyOptions,
    plan: &Plan,
    root: &Path,
    calibration: &Calibration,
    readings: Readings,
) -> Manifest {
    let node = NodeId::new(0);
    Manifest {
        schema: SchemaVersion::CURRENT,
        idlewave: env!("CARGO_PKG_VERSION").to_owned(),
        state: RunState::Recording,
        incomplete: None,
        command: options.command.clone(),
        started: Utc::now().rfc3339(),
        seed: options.seed,
        simulated: None,
        nodes: vec![NodeSheet {
            node,
            host: read_host(root),
            clock: calibration.sheet(readings),
            trace: TraceSheet {
                mode: TraceMode::Off,
                unavailable: Vec::new(),
                cost: TraceCost::default(),
            },
            contamination: Contamination::default(),
            alignment: None,
        }],
        phases: Vec::new(),
        ranks: plan
            .ranks()
            .map(|(rank, cpu)| RankSheet {
                process: None,
                rank,
                node,
                cpu: Some(cpu),
                threads: Vec::new(),
                priority: None,
            })
            .collect(),
        losses: Ledger::default(),
        tables: Vec::new(),
    }
}

/// The number of steps of work that take `time` at the CPU's highest speed, at least one.
fn work_steps(counter: Counter, calibration: &Calibration, time: Nanos) -> u64 {
    let counts = (0..SPEED_ROUNDS)
        .map(|round| {
            if round > 0 {
                std::thread::sleep(SPEED_PAUSE);
            }
            with_source!(counter, s => fibonacci::counts_per_thousand_steps(s))
        })
        .fold(f64::INFINITY, f64::min);
    let ns = counts * 1e9 / calibration.counts_per_second();
    ((time.as_f64() * 1_000.0 / ns).round() as u64).max(1)
}

#[allow(clippy::too_many_arguments)]
fn record(
    options: &StudyOptions,
    plan: &Plan,
    root: &Path,
    calibration: Calibration,
    readings: Readings,
    out: RunWriter,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<(), SessionError> {
    let view = match options.trace {
        true => KernelView::start(root, out.path(), &plan.cpus, false)?,
        false => KernelView::off("idlewave study"),
    };
    let meter = ContaminationMeter::start(root);
    let begun = Instant::now();
    let mut recording = Recording::new(out, view, stop, progress)?;
    let noted = recording.note_mode();
    let counter = calibration.counter();
    let mut phases = Phases {
        plan,
        readings,
        work: options.work,
        work_steps: work_steps(counter, &calibration, options.work),
        quantum_steps: 0,
        calibration,
    };
    phases.quantum_steps = scaled(phases.work_steps, options.work, plan.quantum);
    // On a full disk, the run says why it holds little.
    let measured = noted.and_then(|()| phases.run(&mut recording));
    let calibration = phases.calibration;
    let node = &mut recording.out.manifest.nodes[0];
    node.contamination = meter.finish();
    node.clock = calibration.sheet(readings);
    let incomplete = match (&measured, stop.signal()) {
        (Err(error), _) => Some(ended_after(begun.elapsed(), error)),
        (Ok(()), Some(signal)) => Some(Incomplete::Signal(signal)),
        (Ok(()), None) if stop.is_requested() => {
            Some(Incomplete::Error("ended on request".to_owned()))
        }
        (Ok(()), None) => None,
    };
    let closed = recording.close(root, &calibration, incomplete);
    measured.and(closed)
}

fn scaled(steps: u64, time: Nanos, wanted: Nanos) -> u64 {
    let scaled = u128::from(steps) * u128::from(wanted.get()) / u128::from(time.get().max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
}
