//! A measurement from start to end: every rank does the same; the results are gathered on rank 0.

use crate::load::LoadMeter;
use crate::outcome::{Outcome, Results, Where};
use crate::place::{CONTEXTS, allowed_of, attached, bound, cpu_of, fabric_of};
use crate::ranks::Ranks;
use crate::threads::{MOST_THREADS, OfRank, on_threads};
use crate::{FabricChoice, MeasureError, MeasureOptions, What};
use crate::{benchmark, lockstep, md, ping_pong, scaling};
use idlewave_clock::{Calibration, Counter};
use idlewave_fabric::mpi::MpiFabric;
use idlewave_fabric::{Fabric, PointToPoint, Waiting};
use idlewave_session::{Progress, SessionError, Stop, check_machine};
use idlewave_units::Cpu;
use std::path::Path;

/// Measures; every process of an MPI job calls it. The outcome is on rank 0, `None` elsewhere.
///
/// # Errors
/// See [`MeasureError`]. All ranks fail if one does.
pub fn measure(
    options: &MeasureOptions,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Outcome>, MeasureError> {
    options.check()?;
    check_machine()?;
    let cpus: Vec<Cpu> = allowed_of(options)?.iter().collect();
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
    // All ranks agree on refusals and recording errors, and end cleanly. The other ranks do not
    // know about this error.
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

/// Binds the calling thread during `work`.
fn with_cpu<T>(
    cpu: Option<Cpu>,
    work: impl FnOnce(Cpu) -> Result<T, MeasureError>,
) -> Result<T, MeasureError> {
    let cpu = cpu.ok_or_else(|| SessionError::NotPossible {
        reason: "this process may use no CPU".to_owned(),
        next: "start it with at least one allowed CPU".to_owned(),
    })?;
    bound(&[cpu].into_iter().collect(), || work(cpu))
}

/// The work of every rank.
fn rank<F: Fabric>(
    fabric: &mut F,
    options: &MeasureOptions,
    cpu: Cpu,
    carrier: &str,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Outcome>, MeasureError> {
    let ranks = Ranks::gather(fabric, cpu, carrier)?;
    let counter = Counter::choose(Path::new("/"));
    let calibration = Calibration::begin(counter);
    let place = Where::of(&ranks);
    let load = LoadMeter::begin(fabric, &ranks.nodes)?;
    let results = match &options.what {
        What::PingPong { pairs, most_bytes } => {
            let plan = (*pairs, *most_bytes);
            let found =
                ping_pong::measure(fabric, options, &ranks, plan, calibration, stop, progress)?;
            found.map(Results::PingPong)
        }
        What::MolecularDynamics { .. } | What::Benchmark(_) if options.scaling.is_some() => {
            let found = scaling::measure(fabric, options, &ranks, calibration, stop, progress)?;
            found.map(Results::Scaling)
        }
        What::MolecularDynamics { .. } => {
            md::measure(fabric, options, &ranks, calibration, stop, progress)?
                .map(|found| Results::MolecularDynamics(Box::new(found)))
        }
        What::Benchmark(_) => {
            let found = benchmark::measure(fabric, options, &ranks, calibration, stop, progress)?;
            found.map(Results::Benchmark)
        }
        What::Benchmarks(_) => {
            let rows =
                benchmark::measure_all(fabric, options, &ranks, calibration, stop, progress)?;
            rows.map(|rows| Results::Benchmarks { rows })
        }
        _ => lockstep::measure(fabric, options, &ranks, calibration, stop, progress)?
            .map(Results::Lockstep),
    };
    let machine = load.finish(fabric)?;
    Ok(results.map(|results| Outcome {
        place,
        machine,
        results,
        interrupted: stop.is_requested(),
        bundle: options.output.clone(),
    }))
}
