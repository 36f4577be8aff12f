//! The whole analysis of a run, in order.

use crate::ExplainError;
use crate::advice::{Evidence, Gaps};
use crate::by_rate::Strikes;
use crate::catalog::{Catalog, SourceId};
use crate::cpu_noise::cpu_noise;
use crate::edges::Extra;
use crate::jitter;
use crate::kernel::{Kernels, for_each_activation};
use crate::load_sweep::load_sweep;
use crate::lockstep::{LATEST_KEPT, Late, LockstepAnalysis, LockstepPhase, analyse};
use crate::node_ranks::{Taken, kept, node_ranks};
use crate::observe::{Observed, observe, watch_strikes};
use crate::others::top_others;
use crate::profile::{is_of_the_machine, profile};
use crate::program::{self, Delay, ProgramAnalysis};
use crate::ran::Ran;
use crate::source_table::SourceTable;
use crate::strikes::Strike;
use crate::turns;
use crate::watch::{Charge, Charger, Watch};
use crate::watched::{clock_error, is_recorded, taking_part, throttled_nodes};
use idlewave_run::findings::{
    BenchmarkFindings, ChargedFinding, Findings, LateFinding, LatePartFinding, SourceFinding,
};
use idlewave_run::tables::{
    LatePart, LateParts, LateStep, LateSteps, Marks, Messages, Table, Tasks, WaitParts, Waits,
};
use idlewave_run::{
    Contamination, Coupling, Ledger, Manifest, NodeSheet, NoiseProfile, Phase, PhaseKind,
    RunReader, SourceKind, TraceCost, TraceMode, TraceSheet, WaitsFor,
};
use idlewave_units::{Cpu, Nanos, NodeId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of an analysis.
#[derive(Debug)]
pub struct Explanation {
    /// The document, without prediction and advice.
    pub findings: Findings,
    /// All late steps.
    pub late_steps: LateSteps,
    /// Their parts.
    pub late_parts: LateParts,
    /// Tables of a recorded MPI program; `None` if the run recorded none.
    pub program: Option<ProgramTables>,
    /// What advice is based on besides the findings.
    pub evidence: Evidence,
}

/// Results for a recorded MPI program besides its findings.
#[derive(Debug)]
pub struct ProgramTables {
    /// All messages, in order of sending.
    pub messages: Messages,
    /// All waits long enough to be explained, in order of their ends.
    pub waits: Waits,
    /// Their parts.
    pub wait_parts: WaitParts,
}

/// Explains a run from its bundle alone. Returns early, with an error, when `stop` becomes true.
pub fn explain(run: &RunReader, stop: &AtomicBool) -> Result<Explanation, ExplainError> {
    let manifest = run.manifest();
    let Charged {
        tasks,
        ran,
        mut kernels,
        mut catalog,
        losses,
        watches,
        mut by_source,
        table,
        taken,
        delays,
        lockstep,
        program,
        jitter,
    } = charged(run, stop)?;
    // The rest needs only the strikes, and the records of a long trace are large.
    kernels.forget_records();
    let effective = table.effective();
    let mut woken = activations(run, &tasks, &table, &mut catalog)?;
    let mut rows = table.finish(&mut catalog, &by_source, &watches, &mut woken);
    if manifest.is_of_cpus() || manifest.is_of_benchmarks() {
        // Nobody waited, or it is not known for whom, so nothing is known of what the noise delayed.
        for (_, row) in &mut rows {
            (row.amplification, row.absorbed) = (None, None);
        }
    }
    drop(woken);
    let place: BTreeMap<SourceId, u32> = rows.iter().map(|(id, _)| *id).zip(0..).collect();
    let (late_steps, late_parts) = late_tables(&lockstep, &place);
    let latest = latest(
        &lockstep,
        &place,
        manifest.ranks.iter().map(|r| r.cpu).collect(),
    );
    // A node that was not recorded, although others were, counts neither in the strikes nor in the
    // time watched.
    for strikes in by_source.values_mut() {
        strikes.retain(|s| !kernels.are_blind(s.node));
    }
    let watched = time_of(watches.iter().filter(|w| !kernels.are_blind(w.node)));
    let delays_of = |(id, _): &(SourceId, _)| effective.get(id).copied().unwrap_or(0.0);
    let evidence = Evidence {
        delays: rows.iter().map(delays_of).collect(),
        gaps: gaps(&catalog, &by_source, watched),
        threads: time_of(watches.iter().filter(|w| is_recorded(manifest, w))),
    };
    let is_tick = |(id, _): &(&SourceId, _)| catalog.kind(**id) == SourceKind::TimerTick;
    let ticks: Vec<Strike> = by_source
        .iter()
        .filter(is_tick)
        .flat_map(|(_, strikes)| strikes.iter().copied())
        .collect();
    let profile = profiled(run, &lockstep, &catalog, &by_source, &rows, watched);
    let (lateness, named) = lateness(&lockstep, &delays, &catalog);
    let cpus = cpu_noise(run)?;
    let nodes = node_ranks(manifest, &cpus, &taken, &catalog);
    let mut findings = Findings {
        header: Some(manifest.header()),
        trace: trace(&manifest.nodes),
        contamination: contamination(run, &kernels, &ran, &tasks, &mut catalog),
        conditions: manifest.conditions.clone(),
        cpus: kept(cpus, nodes.as_ref()),
        nodes,
        load_sweep: load_sweep(run, &ticks)?,
        ways: turns::compared(run)?,
        sources: rows.into_iter().map(|(_, f)| f).collect(),
        latest,
        lateness,
        named,
        profile,
        prediction: None,
        not_predicted: None,
        advice: Vec::new(),
        losses,
        program: None,
        jitter: jitter.into_iter().map(|j| j.finish(&place)).collect(),
        lockstep: lockstep.iter().map(|(_, a)| a.findings.clone()).collect(),
        benchmarks: benchmarks(manifest),
    };
    let program = program.map(|analysis| {
        let (found, messages, waits, wait_parts) = analysis.finish(&place);
        findings.program = Some(found);
        ProgramTables {
            messages,
            waits,
            wait_parts,
        }
    });
    Ok(Explanation {
        findings,
        late_steps,
        late_parts,
        program,
        evidence,
    })
}

/// The benchmarks of a run.
fn benchmarks(manifest: &Manifest) -> Vec<BenchmarkFindings> {
    let numbered = manifest.phases.iter().zip(0..);
    let benchmark = |(phase, number): (&Phase, u32)| match &phase.kind {
        PhaseKind::Benchmark(sheet) => Some(BenchmarkFindings {
            phase: number,
            sheet: sheet.clone(),
        }),
        _ => None,
    };
    numbered.filter_map(benchmark).collect()
}

/// What was taken from whom, and what it delayed.
struct Charged {
    tasks: Tasks,
    ran: Ran,
    kernels: Kernels,
    catalog: Catalog,
    losses: Ledger,
    watches: Vec<Watch>,
    /// Every strike, by its source.
    by_source: BTreeMap<SourceId, Vec<Strike>>,
    table: SourceTable,
    /// What took time from the detour loops of several nodes.
    taken: Taken,
    /// Delays of a recorded program.
    delays: BTreeMap<SourceId, Delay>,
    /// Lockstep runs, by phase.
    lockstep: Vec<(u32, LockstepAnalysis)>,
    program: Option<ProgramAnalysis>,
    jitter: Vec<jitter::Found>,
}

/// Charges everything in a run: strikes on watched threads, late steps, waits of a recorded
/// program, and outliers of equal computations.
fn charged(run: &RunReader, stop: &AtomicBool) -> Result<Charged, ExplainError> {
    let Observed {
        tasks,
        ran,
        kernels,
        mut catalog,
        mut losses,
        watches,
        recorded,
        lane_charges,
        charges,
        extras,
    } = observe(run, stop)?;

    let Struck {
        by_source,
        mut table,
        taken,
        mut delays,
        of_watches,
    } = struck(
        run.manifest(),
        &kernels,
        &catalog,
        &watches,
        charges,
        &extras,
        recorded.is_some(),
    );

    let lockstep = lockstep_runs(
        run,
        &kernels,
        &mut catalog,
        &watches,
        (&extras, &of_watches),
        &mut losses,
        stop,
    )?;
    drop(of_watches);
    for (_, found) in &lockstep {
        table.add_late(&found.late, found.findings.ranks as usize);
    }

    let program = recorded.map(|recorded| -> Result<_, ExplainError> {
        let marks = run.read::<Marks>()?;
        let taken = &lane_charges;
        let found = program::analyse(recorded, &kernels, taken, &marks, &mut catalog, &mut losses);
        // Also the sources that lengthened the run while nobody waited.
        found.on_path().for_each(|source| table.name(source));
        Ok(found)
    });
    let program = program.transpose()?;
    if let Some(program) = &program {
        delays.clone_from(&program.delays);
    }
    table.add_delays(&delays);
    drop(lane_charges);
    go_on(stop)?;

    let jitter = jittered(run, &kernels, &mut catalog, &watches, &mut table)?;
    go_on(stop)?;
    Ok(Charged {
        tasks,
        ran,
        kernels,
        catalog,
        losses,
        watches,
        by_source,
        table,
        taken,
        delays,
        lockstep,
        program,
        jitter,
    })
}

/// What took time from the watched threads.
struct Struck {
    /// Every strike, by its source.
    by_source: BTreeMap<SourceId, Vec<Strike>>,
    /// What each source took from ranks and recorded programs, or, if only CPUs were measured, from
    /// the measuring loops.
    table: SourceTable,
    /// What took time from the detour loops of several nodes.
    taken: Taken,
    /// Delays of a recorded program whose processes do not wait for each other.
    delays: BTreeMap<SourceId, Delay>,
    /// Start and length of the strikes of the machine's noise on every watch of a lockstep run; no
    /// strikes of other watches.
    of_watches: Vec<Strikes>,
}

/// Collects the strikes of all watches. `coupled` is whether the recorded program's waits are known:
/// its delays then come from these.
fn struck(
    manifest: &Manifest,
    kernels: &Kernels,
    catalog: &Catalog,
    watches: &[Watch],
    charges: Vec<Vec<Charge>>,
    extras: &[Vec<Extra>],
    coupled: bool,
) -> Struck {
    let mut by_source: BTreeMap<SourceId, Vec<Strike>> = BTreeMap::new();
    let mut table = SourceTable::default();
    let mut taken = Taken::default();
    let of_nodes = manifest.measures_several_nodes();
    let mut delays = BTreeMap::new();
    let mut of_watches = Vec::with_capacity(watches.len());
    for ((watch, charges), extras) in watches.iter().zip(charges).zip(extras) {
        let found = watch_strikes(watch, &charges, extras, catalog, kernels);
        drop(charges);
        if watch.rank.is_some() || is_recorded(manifest, watch) || manifest.is_of_cpus() {
            table.add_strikes(&found);
        }
        let phase = manifest.phases.get(watch.phase as usize);
        if of_nodes && phase.is_some_and(|p| matches!(p.kind, PhaseKind::Detour { .. })) {
            taken.add(&found);
        }
        let in_step = phase.is_some_and(|p| matches!(p.kind, PhaseKind::Lockstep { .. }));
        let noise = found.iter().filter(|strike| {
            let kind = catalog.kind(strike.source);
            in_step && is_of_the_machine(kind) && !strike.continues
        });
        of_watches.push(noise.map(|s| (s.begin, s.length)).collect());
        if !coupled && is_recorded(manifest, watch) {
            program::add_uncoupled(&found, &mut delays);
        }
        for strike in found {
            by_source.entry(strike.source).or_default().push(strike);
        }
    }
    Struck {
        by_source,
        table,
        taken,
        delays,
        of_watches,
    }
}

/// Analyses how much equal computations vary. What took time from outliers while the kernel was not
/// recorded has a row in the table of sources too.
fn jittered(
    run: &RunReader,
    kernels: &Kernels,
    catalog: &mut Catalog,
    watches: &[Watch],
    table: &mut SourceTable,
) -> Result<Vec<jitter::Found>, ExplainError> {
    let mut charger = Charger {
        kernels,
        catalog,
        throttled: throttled_nodes(run.manifest()),
    };
    let found = jitter::analyse(run, watches, &mut charger)?;
    if let Some(watch) = watches.iter().find(|w| kernels.are_blind(w.node)) {
        let source = charger.unexplained(Some(watch));
        if found.iter().any(|found| found.names(source)) {
            table.name(source);
        }
    }
    Ok(found)
}

/// Time for which threads were watched, all together.
fn time_of<'a>(watches: impl Iterator<Item = &'a Watch>) -> Nanos {
    watches.map(|w| Nanos::from_nanos(w.end - w.begin)).sum()
}

fn go_on(stop: &AtomicBool) -> Result<(), ExplainError> {
    // Relaxed: the flag only has to be seen eventually.
    match stop.load(Ordering::Relaxed) {
        true => Err(ExplainError::Interrupted),
        false => Ok(()),
    }
}

/// Analyses the lockstep runs, by phase; `extras` and strikes are those of the watches. A run without two complete steps, or one that the clock
/// error blurs, is entered as a loss.
fn lockstep_runs(
    run: &RunReader,
    kernels: &Kernels,
    catalog: &mut Catalog,
    watches: &[Watch],
    (extras, strikes): (&[Vec<Extra>], &[Strikes]),
    losses: &mut Ledger,
    stop: &AtomicBool,
) -> Result<Vec<(u32, LockstepAnalysis)>, ExplainError> {
    let manifest = run.manifest();
    let mut runs: Vec<(u32, LockstepAnalysis)> = Vec::new();
    for (index, phase) in manifest.phases.iter().enumerate() {
        let PhaseKind::Lockstep {
            coupling,
            sides,
            neighbourhood,
            ranks,
            ..
        } = &phase.kind
        else {
            continue;
        };
        let ranks = taking_part(manifest, *ranks);
        let index = index as u32;
        let mine: Vec<usize> = (0..watches.len())
            .filter(|&i| watches[i].phase == index && watches[i].rank.is_some())
            .collect();
        let own_watches: Vec<Watch> = mine.iter().map(|&i| watches[i]).collect();
        let own_extras: Vec<&[Extra]> = mine.iter().map(|&i| extras[i].as_slice()).collect();
        let own_strikes: Vec<&Strikes> = mine.iter().map(|&i| &strikes[i]).collect();
        let mut charger = Charger {
            kernels,
            catalog,
            throttled: throttled_nodes(manifest),
        };
        let phase = LockstepPhase {
            phase: index,
            coupling: *coupling,
            waits: WaitsFor::within(*coupling, sides, *neighbourhood, ranks),
            ranks,
            watches: &own_watches,
            extras: &own_extras,
            strikes: &own_strikes,
            clock_error: clock_error(manifest, ranks),
        };
        if let Some(analysis) = analyse(run, &phase, &mut charger)? {
            let step = analysis.findings.step.get();
            losses.enter(
                "lockstep runs whose clocks may be off by more than a tenth of a step",
                u64::from(phase.clock_error.get() > step / 10),
                format!(
                    "which rank was late, and by how much, is known only to {}",
                    phase.clock_error
                ),
                "measure while the nodes are idle, or with more work per iteration",
            );
            runs.push((index, analysis));
        } else {
            losses.enter(
                "lockstep runs without two complete iterations",
                1,
                "their steps cannot be analysed",
                "run longer, or with less work per iteration",
            );
        }
        go_on(stop)?;
    }
    Ok(runs)
}

/// The noise profile, with the undisturbed times of computation and communication.
fn profiled(
    run: &RunReader,
    runs: &[(u32, LockstepAnalysis)],
    catalog: &Catalog,
    by_source: &BTreeMap<SourceId, Vec<Strike>>,
    rows: &[(SourceId, SourceFinding)],
    watched: Nanos,
) -> NoiseProfile {
    let computations = runs.first().map(|(_, a)| a.findings.compute.iter());
    let work = computations.and_then(|each| each.max().copied());
    profile(
        catalog,
        by_source,
        rows,
        watched,
        work.unwrap_or(Nanos::ZERO),
        communication(run, runs, Coupling::Neighbours),
        communication(run, runs, Coupling::Barrier),
    )
}

/// When the threads of the table's sources became active, by source and node.
fn activations(
    run: &RunReader,
    tasks: &Tasks,
    table: &SourceTable,
    catalog: &mut Catalog,
) -> Result<BTreeMap<(SourceId, NodeId), Vec<u64>>, ExplainError> {
    let mut woken: BTreeMap<(SourceId, NodeId), Vec<u64>> = BTreeMap::new();
    for_each_activation(run, tasks, |node, pid, time| {
        let source = catalog.thread(node, pid);
        if table.wants_activations(source, catalog) {
            woken.entry((source, node)).or_default().push(time);
        }
    })?;
    Ok(woken)
}

/// What others did on the first node, with the tasks that the kernel saw.
fn contamination(
    run: &RunReader,
    kernels: &Kernels,
    ran: &Ran,
    tasks: &Tasks,
    catalog: &mut Catalog,
) -> Contamination {
    let manifest = run.manifest();
    let Some(node) = manifest.nodes.first() else {
        return Contamination::default();
    };
    let mut found = node.contamination.clone();
    let kernel = kernels.of(node.node);
    if let Some(kernel) = kernel.filter(|_| manifest.simulated.is_none()) {
        if let Some(others) = top_others(kernel, ran, tasks, catalog) {
            found.top_tasks = others;
        }
    }
    found
}

/// What communication adds to the undisturbed step of the first run that is coupled like this.
fn communication(
    run: &RunReader,
    runs: &[(u32, LockstepAnalysis)],
    wanted: Coupling,
) -> Option<Nanos> {
    let coupled = |phase: u32| match run.manifest().phases[phase as usize].kind {
        PhaseKind::Lockstep { coupling, .. } => coupling == wanted,
        _ => false,
    };
    let (_, found) = runs.iter().find(|(phase, _)| coupled(*phase))?;
    found.communication
}

/// Lateness of all late steps and delayed ranks, and how much of it has a name or a class.
fn lateness(
    runs: &[(u32, LockstepAnalysis)],
    delays: &BTreeMap<SourceId, Delay>,
    catalog: &Catalog,
) -> (Nanos, Nanos) {
    let named = |source: SourceId| catalog.kind(source) != SourceKind::Unexplained;
    let steps = || runs.iter().flat_map(|(_, a)| &a.late);
    let parts = steps().flat_map(|l| &l.parts).filter(|p| named(p.source));
    let of_ranks = delays.iter().filter(|(id, _)| named(**id));
    let all =
        steps().map(|l| l.lateness).sum::<u64>() + delays.values().map(|d| d.lateness).sum::<u64>();
    let with_name =
        parts.map(|p| p.ns).sum::<u64>() + of_ranks.map(|(_, d)| d.lateness).sum::<u64>();
    (Nanos::from_nanos(all), Nanos::from_nanos(with_name))
}

/// The gaps that no kernel record explains; `None` if there were none.
fn gaps(
    catalog: &Catalog,
    strikes: &BTreeMap<SourceId, Vec<Strike>>,
    watched: Nanos,
) -> Option<Gaps> {
    let mut gaps = Gaps {
        watched,
        ..Gaps::default()
    };
    let is_gap = |id: &SourceId| catalog.kind(*id) == SourceKind::Hypervisor;
    for strike in strikes
        .iter()
        .filter(|(id, _)| is_gap(id))
        .flat_map(|s| s.1)
    {
        let length = Nanos::from_nanos(strike.length);
        gaps.count += 1;
        gaps.time += length;
        if length < Gaps::SHORT {
            gaps.short += 1;
            gaps.short_time += length;
        }
    }
    (gaps.count > 0).then_some(gaps)
}

/// How the first node's kernel was recorded, and what could not be recorded on any node.
fn trace(nodes: &[NodeSheet]) -> TraceSheet {
    let Some((first, others)) = nodes.split_first() else {
        return TraceSheet {
            mode: TraceMode::Off,
            unavailable: Vec::new(),
            cost: TraceCost::default(),
        };
    };
    let mut trace = first.trace.clone();
    for missing in others.iter().flat_map(|n| &n.trace.unavailable) {
        if !trace.unavailable.contains(missing) {
            trace.unavailable.push(missing.clone());
        }
    }
    trace
}

fn late_tables(
    runs: &[(u32, LockstepAnalysis)],
    place: &BTreeMap<SourceId, u32>,
) -> (LateSteps, LateParts) {
    let (mut steps, mut parts) = (LateSteps::default(), LateParts::default());
    for (phase, analysis) in runs {
        for late in &analysis.late {
            for part in &late.parts {
                parts.push(LatePart {
                    step: steps.len() as u32,
                    finding: place[&part.source],
                    time: Nanos::from_nanos(part.ns),
                });
            }
            steps.push(LateStep {
                phase: *phase,
                iteration: late.step.iteration,
                rank: late.step.rank,
                begin_ns: late.step.begin,
                end_ns: late.step.end,
                lateness: Nanos::from_nanos(late.lateness),
            });
        }
    }
    (steps, parts)
}

fn latest(
    runs: &[(u32, LockstepAnalysis)],
    place: &BTreeMap<SourceId, u32>,
    cpus: Vec<Option<Cpu>>,
) -> Vec<LateFinding> {
    let mut all: Vec<(u32, &Late)> = runs
        .iter()
        .flat_map(|(phase, a)| a.late.iter().map(|l| (*phase, l)))
        .collect();
    all.sort_by_key(|(phase, l)| (std::cmp::Reverse(l.lateness), *phase, l.step.iteration));
    all.into_iter()
        .take(LATEST_KEPT)
        .map(|(phase, late)| LateFinding {
            phase,
            iteration: late.step.iteration,
            last_rank: late.step.rank,
            cpu: cpus.get(late.step.rank.index()).copied().flatten(),
            begin_ns: late.step.begin,
            end_ns: late.step.end,
            lateness: Nanos::from_nanos(late.lateness),
            parts: late
                .parts
                .iter()
                .map(|p| LatePartFinding {
                    source: place[&p.source],
                    time: Nanos::from_nanos(p.ns),
                })
                .collect(),
            charged: late
                .charged
                .iter()
                .map(|t| ChargedFinding {
                    source: place[&t.source],
                    rank: t.rank,
                    begin_ns: t.begin,
                    end_ns: t.end,
                })
                .collect(),
        })
        .collect()
}
