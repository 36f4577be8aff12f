//! The recording, from the options to a bundle that is complete but not yet explained.

mod phases;

use crate::plan::Plan;
use crate::size::Size;
use crate::{CpuMeasurement, CpuOptions, Quantum, StudyOptions};
use idlewave_capture::host::{allowed_cpus, available_memory, read_host, realtime_reserve};
use idlewave_capture::proc::ContaminationMeter;
use idlewave_clock::{Calibration, Counter, Readings};
use idlewave_pipeline::{Analysis, Effort, PipelineError, analyse_locked, write_report};
use idlewave_run::{
    Conditions, Contamination, Incomplete, Ledger, Manifest, Neighbour, NodeSheet, RankSheet,
    Realtime, RunState, RunWriter, SchemaVersion, TraceCost, TraceMode, TraceSheet, WorkKernel,
};
use idlewave_session::{
    KernelView, Lock, Progress, Recording, SessionError, Stop, Utc, check_machine, ended_after,
    failed,
};
use idlewave_sys::files;
use idlewave_units::{Bytes, CpuSet, NodeId};
use idlewave_workloads::speed::Speed;
use idlewave_workloads::{Kernel, enter_realtime};
use phases::Phases;
pub(crate) use phases::sleep_unless;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tempfile::TempDir;

/// The least size of arrays that count as memory where the caches are not known.
const LEAST_MEMORY: Bytes = Bytes::from_kib(64 << 10);

/// What is common to all measurements of this machine.
pub(crate) struct Request<'a> {
    /// The command, as users know it.
    pub name: &'static str,
    pub path: PathBuf,
    /// Whether the run stays.
    pub kept: bool,
    pub plan: Plan,
    pub trace: bool,
    pub seed: u64,
    pub command: &'a [String],
}

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
    check_machine()?;
    let plan = Plan::of(options, &allowed()?)?;
    let path = options
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("idlewave-study-{}", Utc::now().for_file())));
    let request = Request {
        name: "idlewave study",
        path,
        kept: true,
        plan,
        trace: options.trace,
        seed: options.seed,
        command: &options.command,
    };
    let lock = measured(&request, stop, progress)?;
    let path = &request.path;
    if stop.is_requested() {
        return Err(SessionError::Interrupted {
            kept: format!(
                "what was recorded is in {0}; to see it: idlewave explain {0}",
                path.display()
            ),
        }
        .into());
    }
    let analysis = analyse_locked(path, &lock, options.effort, &stop.flag, progress)?;
    progress.part("writing the report");
    write_report(&analysis, path)?;
    Ok(analysis)
}

/// A measurement of every CPU by itself.
pub struct CpuAnalysis {
    /// What was found.
    pub analysis: Analysis,
    /// Holds the bundle, and is removed, if nobody wants it.
    _scratch: Option<TempDir>,
}

/// Measures every CPU by itself and explains the results, also those until an interruption.
///
/// # Errors
/// As for [`study`].
pub fn measure_cpus(
    options: &CpuOptions,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<CpuAnalysis, PipelineError> {
    check_machine()?;
    let allowed = allowed()?;
    let root = Path::new("/");
    let what = sized(options, &allowed, root)?;
    let options = &CpuOptions {
        what,
        ..options.clone()
    };
    let plan = Plan::of_cpus(options, &allowed)?;
    may_be_realtime(options.realtime)?;
    let (path, scratch) = match &options.output {
        Some(path) => (path.clone(), None),
        None => {
            let made = tempfile::Builder::new()
                .prefix("idlewave-measure-")
                .tempdir();
            let scratch = made.map_err(SessionError::io("make", std::env::temp_dir()))?;
            (scratch.path().join("run"), Some(scratch))
        }
    };
    let request = Request {
        name: match options.what {
            CpuMeasurement::Detours => "idlewave measure detour",
            CpuMeasurement::FixedWork { .. } => "idlewave measure fwq",
            CpuMeasurement::FixedTime { .. } => "idlewave measure ftq",
            CpuMeasurement::WarmUp { .. } => "idlewave measure warmup",
            CpuMeasurement::LoadSweep { .. } => "idlewave measure load-sweep",
        },
        path,
        kept: scratch.is_none(),
        plan,
        trace: options.trace,
        seed: 1,
        command: &options.command,
    };
    let lock = measured(&request, stop, progress)?;
    // A request to stop ended the measurement; its results are explained nevertheless.
    let never = AtomicBool::new(false);
    let analysis = analyse_locked(&request.path, &lock, Effort::USUAL, &never, progress)?;
    Ok(CpuAnalysis {
        analysis,
        _scratch: scratch,
    })
}

/// Size of arrays that do not fit into the caches: four times the last level.
fn beyond_caches(root: &Path) -> Bytes {
    let caches = read_host(root).caches;
    let last = caches.iter().map(|cache| cache.size.get()).max();
    Bytes::new((4 * last.unwrap_or(0)).max(LEAST_MEMORY.get()))
}

/// The measurement with arrays of a known size, for which there is memory, as for those of memory
/// neighbours.
fn sized(
    options: &CpuOptions,
    allowed: &CpuSet,
    root: &Path,
) -> Result<CpuMeasurement, SessionError> {
    let streams = |q: &Quantum| q.kernel == WorkKernel::Stream;
    let quantum = options.what.quantum().filter(streams);
    let loads = options.neighbours.contains(&Neighbour::Memory);
    if quantum.is_none() && !loads {
        return Ok(options.what);
    }
    let usual = beyond_caches(root);
    let size = quantum.map(|q| q.array.unwrap_or(usual));
    let measuring = match options.one_at_a_time {
        true => 1,
        false => options.cpus.as_ref().unwrap_or(allowed).len() as u64,
    };
    let of_load = match loads {
        true => (allowed.len() as u64).saturating_sub(measuring).max(1),
        false => 0,
    };
    let all = size.map_or(0, |size| size.get().saturating_mul(measuring));
    let all = Bytes::new(all.saturating_add(usual.get().saturating_mul(of_load)));
    match available_memory(root).filter(|room| *room < all) {
        None => Ok(size.map_or(options.what, |size| options.what.with_array(size))),
        Some(room) => Err(SessionError::Option {
            option: match size {
                Some(_) => "--kernel stream".to_owned(),
                None => "--load memory".to_owned(),
            },
            reason: format!("the arrays of all CPUs, {all}, do not fit into {room} of memory"),
            next: match size {
                Some(_) => "give a smaller --array, or fewer --cpus".to_owned(),
                None => "omit memory from --load".to_owned(),
            },
        }),
    }
}

/// Whether this user may have the priority, before anything is recorded.
fn may_be_realtime(priority: Option<u8>) -> Result<(), SessionError> {
    let Some(priority) = priority else {
        return Ok(());
    };
    let tried = std::thread::spawn(move || enter_realtime(priority)).join();
    tried.map_or(Ok(()), |tried| Ok(tried?))
}

fn allowed() -> Result<CpuSet, SessionError> {
    Ok(allowed_cpus()?)
}

/// Records into a new bundle; returns its lock.
pub(crate) fn measured(
    request: &Request<'_>,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Lock, SessionError> {
    let root = Path::new("/");
    let (path, plan) = (&request.path, &request.plan);
    progress.part("looking at the machine");
    let counter = Counter::choose(root);
    let readings = counter.measure()?;
    let calibration = Calibration::begin(counter);
    let manifest = manifest(request, root, &calibration, readings);
    let out = RunWriter::record(path, manifest)?;
    let lock = Lock::take(path)?;
    let (kernel, array) = plan.kernel();
    let speed = Speed::of(&mut Kernel::new(kernel, array), &calibration);
    if request.kept {
        tell_size(request, Size::of(plan, speed, request.trace), progress);
    }
    let phases = Phases {
        plan,
        readings,
        speed,
        memory: beyond_caches(root),
        calibration,
    };
    record(request, root, phases, out, stop, progress).map_err(|error| failed(path, error))?;
    Ok(lock)
}

/// Announces the size of the run before the measurement, with a warning if there is not enough
/// space.
fn tell_size(request: &Request<'_>, size: Size, progress: &dyn Progress) {
    let path = &request.path;
    let all = size.all.min(request.plan.max_size);
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
    request: &Request<'_>,
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
        command: request.command.to_vec(),
        started: Utc::now().rfc3339(),
        seed: request.seed,
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
        conditions: Conditions {
            one_at_a_time: request.plan.one_at_a_time,
            neighbours: request.plan.neighbours.clone(),
            realtime: request.plan.realtime.map(|priority| Realtime {
                priority,
                reserve: realtime_reserve(root),
            }),
        },
        phases: Vec::new(),
        ranks: request
            .plan
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

fn record(
    request: &Request<'_>,
    root: &Path,
    mut phases: Phases<'_>,
    out: RunWriter,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<(), SessionError> {
    let view = match request.trace {
        true => KernelView::start(root, out.path(), &request.plan.cpus, false)?,
        false => KernelView::off(request.name),
    };
    let meter = ContaminationMeter::start(root);
    let begun = Instant::now();
    let mut recording = Recording::new(out, view, stop, progress)?;
    let noted = recording.note_mode();
    // On a full disk, the run says why it holds little.
    let measured = noted.and_then(|()| phases.run(&mut recording));
    let (calibration, readings) = (phases.calibration, phases.readings);
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
