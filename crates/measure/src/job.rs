//! A measurement from its begin to its end: the same on every rank, gathered on rank 0.

use crate::outcome::{Outcome, Results, Where};
use crate::place::{cpu_of, cpus_of, fabric_of};
use crate::threads::{OfRank, on_threads};
use crate::{FabricChoice, MeasureError, MeasureOptions, What};
use crate::{benchmark, gather, local, lockstep, md, ping_pong};
use idlewave_clock::{Calibration, Counter};
use idlewave_fabric::mpi::MpiFabric;
use idlewave_fabric::netctx::device::Attachment;
use idlewave_fabric::netctx::{DeviceError, NetctxFabric};
use idlewave_fabric::{Fabric, Nodes, Waiting};
use idlewave_recording::{Progress, RecordingError, Stop};
use idlewave_units::{Cpu, Pid};
use idlewave_workloads::pin;
use std::path::Path;

/// Ranks that are threads: each pair of them has a mailbox of 16 KiB, which is 1 GiB together.
pub(crate) const MOST_THREADS: u32 = 256;

/// What a rank knows of itself and of the others.
pub struct Ranks {
    /// Nodes of all ranks.
    pub nodes: Nodes,
    /// CPU, thread and process of every rank.
    pub members: Vec<(Cpu, Pid, Pid)>,
    /// The fabric, for people.
    pub carrier: String,
}

/// Measures; every process of an MPI job calls it. The outcome is that of rank 0, `None` elsewhere.
///
/// # Errors
/// See [`MeasureError`]. All ranks fail if one does.
pub fn measure(
    options: &MeasureOptions,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Outcome>, MeasureError> {
    options.check()?;
    let cpus = cpus_of(options)?;
    if matches!(options.what, What::Detour | What::FixedWork) {
        return local::measure(options, &cpus, stop, progress).map(Some);
    }
    match fabric_of(options.fabric, "--fabric threads", &options.mpi)? {
        FabricChoice::Threads => over_threads(options, &cpus, stop, progress),
        FabricChoice::Mpi => {
            let fabric = MpiFabric::begin(&options.mpi)?;
            let carrier = fabric.job().library().describe();
            between_processes(fabric, &carrier, options, &cpus, stop, progress)
        }
        FabricChoice::Netctx => {
            let fabric = attached()?;
            between_processes(fabric, CONTEXTS, options, &cpus, stop, progress)
        }
    }
}

/// Network contexts, for people.
pub(crate) const CONTEXTS: &str = "network contexts";

/// The rank that this process is on the network device that its environment names.
///
/// # Errors
/// It names none, or one that cannot be used.
pub(crate) fn attached() -> Result<NetctxFabric, MeasureError> {
    let attachment = Attachment::of_this_process()?;
    let none = || DeviceError::Environment(String::new());
    Ok(attachment.ok_or_else(none)?.attach()?)
}

/// The part of one process of a job.
fn between_processes<F: Fabric>(
    mut fabric: F,
    carrier: &str,
    options: &MeasureOptions,
    cpus: &[Cpu],
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Outcome>, MeasureError> {
    let nodes = fabric.nodes()?;
    let local = nodes.local_rank(fabric.rank()).unwrap_or(0);
    let shown = OfRank {
        rank: fabric.rank(),
        all: progress,
        notes: true,
    };
    let done = with_cpu(cpu_of(cpus, local), |cpu| {
        rank(&mut fabric, options, cpu, carrier, stop, &shown)
    });
    // What is refused or cannot be recorded is agreed upon, and all end in order. Of this the others know nothing.
    if let Err(error @ (MeasureError::Workload(_) | MeasureError::Fabric(_))) = &done {
        shown.note(&error.to_string());
        fabric.fail();
    }
    done
}

fn over_threads(
    options: &MeasureOptions,
    cpus: &[Cpu],
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Outcome>, MeasureError> {
    let most = options.ranks.iter().max().copied();
    let size = most.unwrap_or(MOST_THREADS.min(cpus.len() as u32));
    if size > MOST_THREADS {
        return Err(MeasureError::option(
            format!("--ranks {size}"),
            format!("as threads of one process there are at most {MOST_THREADS}"),
            format!("start more with a launcher: mpirun -n {size} idlewave measure ..."),
        ));
    }
    let waiting = if size as usize > cpus.len() {
        Waiting::Yield
    } else {
        Waiting::Spin
    };
    on_threads(size, waiting, progress, |fabric, progress| {
        let cpu = cpu_of(cpus, fabric.rank().get());
        with_cpu(cpu, |cpu| {
            rank(
                fabric,
                options,
                cpu,
                "threads of one process",
                stop,
                progress,
            )
        })
    })
}

/// Binds the calling thread for the time of `work`.
fn with_cpu<T>(
    cpu: Option<Cpu>,
    work: impl FnOnce(Cpu) -> Result<T, MeasureError>,
) -> Result<T, MeasureError> {
    let cpu = cpu.ok_or_else(|| RecordingError::NotPossible {
        reason: "this process may use no CPU".to_owned(),
        next: "start it where it may use one".to_owned(),
    })?;
    let before = affinity();
    pin(cpu)?;
    let done = work(cpu);
    if let Some(before) = before {
        restore(&before);
    }
    done
}

fn affinity() -> Option<libc::cpu_set_t> {
    // SAFETY: all-zero bytes are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid place of that size; thread 0 is the caller.
    let done = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    (done == 0).then_some(set)
}

fn restore(set: &libc::cpu_set_t) {
    // SAFETY: `set` is what the call above gave for this thread. A failure leaves the thread bound, which only
    // makes what follows slower.
    unsafe { libc::sched_setaffinity(0, size_of_val(set), set) };
}

/// What every rank does.
fn rank<F: Fabric>(
    fabric: &mut F,
    options: &MeasureOptions,
    cpu: Cpu,
    carrier: &str,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Outcome>, MeasureError> {
    let nodes = fabric.nodes()?;
    // SAFETY: neither call takes anything or can fail (gettid(2), getpid(2)).
    let (thread, process) = unsafe { (libc::gettid(), libc::getpid()) };
    let own = [u64::from(cpu.get()), thread as u64, process as u64];
    let members = gather::of_all(fabric, own)?
        .into_iter()
        .map(|[cpu, thread, process]| {
            let pid = |id: u64| Pid::new(id as u32);
            (Cpu::new(cpu as u32), pid(thread), pid(process))
        })
        .collect();
    let ranks = Ranks {
        nodes,
        members,
        carrier: carrier.to_owned(),
    };
    let counter = Counter::choose(Path::new("/"));
    let calibration = Calibration::begin(counter);
    let place = Where::of(&ranks);
    let results = match &options.what {
        What::PingPong { pairs, most_bytes } => {
            let plan = (*pairs, *most_bytes);
            let found = ping_pong::measure(fabric, options, plan, calibration, stop, progress)?;
            found.map(Results::PingPong)
        }
        What::MolecularDynamics { .. } => {
            md::measure(fabric, options, &ranks, calibration, stop, progress)?
                .map(|found| Results::MolecularDynamics(Box::new(found)))
        }
        What::Benchmark(_) => {
            let found = benchmark::measure(fabric, options, &ranks, stop, progress)?;
            found.map(Results::Benchmark)
        }
        _ => lockstep::measure(fabric, options, &ranks, calibration, stop, progress)?
            .map(Results::Lockstep),
    };
    Ok(results.map(|results| Outcome {
        place,
        results,
        interrupted: stop.is_requested(),
        bundle: options.output.clone(),
    }))
}
