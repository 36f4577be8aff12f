//! The whole analysis of a run, in order.

use crate::ExplainError;
use crate::catalog::{Catalog, SourceId};
use crate::cpu_noise::cpu_noise;
use crate::edges::{Extra, Gap, GapMatcher};
use crate::holes;
use crate::jitter;
use crate::kernel::{Kernels, for_each};
use crate::lockstep::{Late, LockstepAnalysis, LockstepPhase, analyse};
use crate::profile::profile;
use crate::program::{self, Recorded};
use crate::source_table::SourceTable;
use crate::strikes::{Strike, is_thread, strikes};
use crate::watch::{Charge, Charger, Watch};
use idlewave_run::findings::{Findings, LateFinding, LatePartFinding};
use idlewave_run::tables::{
    Detours, LatePart, LateParts, LateStep, LateSteps, Marks, Messages, Sources, Table, Tasks,
    WaitParts, Waits,
};
use idlewave_run::{
    Contamination, Coupling, Manifest, PhaseKind, RankSheet, RunReader, RunState, SourceKind,
    TraceCost, TraceMode, TraceSheet, WaitsFor,
};
use idlewave_units::{Cpu, Nanos, NodeId, Pid, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// Late steps written out in the findings; all are in the tables.
const LATEST_KEPT: usize = 100;

/// What the analysis of a run gives.
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
}

/// What the analysis of a recorded MPI program gives besides its findings.
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
    let checked = || match stop.load(Ordering::Relaxed) {
        true => Err(ExplainError::Interrupted),
        false => Ok(()),
    };
    let manifest = run.manifest();
    let node = manifest.nodes.first();
    let mut kernels = Kernels::read(run)?;
    checked()?;
    let tasks = run.read::<Tasks>()?;
    let mut catalog = Catalog::new(&tasks, &run.read::<Sources>()?);
    let mut losses = manifest.losses.clone();
    if manifest.state != RunState::Complete {
        losses.enter(
            "the run ended before its time",
            1,
            "everything below rests on what was recorded until then",
            "let the run come to its end",
        );
    }

    let watches = watches(run, &kernels)?;
    let gaps = gaps(run, &watches)?;
    let filled = watches
        .iter()
        .zip(&gaps)
        // A recorded program did not watch itself run.
        .filter(|(watch, _)| !is_recorded(manifest, watch))
        .filter_map(|(watch, gaps)| {
            let kernel = kernels.of_mut(watch.node)?;
            Some(holes::fill(kernel, watch, gaps))
        })
        .sum();
    losses.enter(
        "holes of the kernel trace, filled up to where a measuring thread saw itself run",
        filled,
        "their time is charged to the thread seen last, by inference",
        "see Missing switches in docs/method.md before you blame that thread",
    );
    checked()?;
    let mut charger = Charger {
        kernels: &kernels,
        catalog: &mut catalog,
        throttled: throttled_nodes(manifest),
    };
    let mut charges: Vec<Vec<Charge>> = Vec::with_capacity(watches.len());
    for watch in &watches {
        let mut list = Vec::new();
        charger.charges(watch, watch.begin, watch.end, &mut list);
        charges.push(list);
        checked()?;
    }
    let recorded = Recorded::read(run, &mut losses)?;
    let lanes: Vec<usize> = (0..watches.len())
        .filter(|&i| recorded.is_some() && is_recorded(manifest, &watches[i]))
        .collect();
    let mut lane_charges: Vec<Vec<Charge>> = Vec::new();
    if let Some(recorded) = &recorded {
        lane_charges = lanes
            .iter()
            .map(|&i| std::mem::take(&mut charges[i]))
            .collect();
        recorded.drop_sleep_in_calls(&catalog, &mut lane_charges);
        for (&i, list) in lanes.iter().zip(&lane_charges) {
            charges[i].clone_from(list);
        }
        checked()?;
    }
    let event_ns = node.and_then(|n| n.trace.cost.event_ns);
    let mut matcher = GapMatcher::default();
    for ((watch, gaps), charges) in watches.iter().zip(&gaps).zip(&charges) {
        let iterations = match manifest.phases[watch.phase as usize].kind {
            PhaseKind::Lockstep { iterations, .. } => Some(iterations),
            _ => None,
        };
        matcher.add(gaps, charges, &catalog, iterations);
    }
    drop(gaps);
    let modes: Vec<TraceMode> = watches
        .iter()
        .map(|w| kernels.of(w.node).map_or(TraceMode::Off, |k| k.mode))
        .collect();
    let extras = matcher.extras(&modes, &mut catalog, event_ns);
    checked()?;

    let mut by_source: BTreeMap<SourceId, Vec<Strike>> = BTreeMap::new();
    let mut table = SourceTable::default();
    for ((watch, charges), extras) in watches.iter().zip(&charges).zip(&extras) {
        let found = strikes(watch, charges, extras, &catalog);
        if watch.rank.is_some() {
            table.add_strikes(&found);
        }
        for mut strike in found {
            strike.continues = is_thread(catalog.kind(strike.source))
                && kernels
                    .of(strike.node)
                    .is_some_and(|k| k.continues(strike.cpu, strike.begin));
            by_source.entry(strike.source).or_default().push(strike);
        }
    }
    drop(charges);

    let mut runs: Vec<(u32, LockstepAnalysis)> = Vec::new();
    for (index, phase) in manifest.phases.iter().enumerate() {
        let PhaseKind::Lockstep {
            coupling,
            sides,
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
        let mut charger = Charger {
            kernels: &kernels,
            catalog: &mut catalog,
            throttled: throttled_nodes(manifest),
        };
        let phase = LockstepPhase {
            phase: index,
            coupling: *coupling,
            waits: WaitsFor::new(*coupling, sides, ranks),
            ranks,
            watches: &own_watches,
            extras: &own_extras,
        };
        if let Some(analysis) = analyse(run, &phase, &mut charger)? {
            table.add_late(&analysis.late, phase.ranks);
            runs.push((index, analysis));
        } else {
            losses.enter(
                "lockstep runs without two complete iterations",
                1,
                "nothing can be said of their steps",
                "run longer, or with less work per iteration",
            );
        }
        checked()?;
    }

    let program = recorded.map(|recorded| -> Result<_, ExplainError> {
        let marks = run.read::<Marks>()?;
        let analysis = program::analyse(recorded, &lane_charges, &marks, &mut catalog, &mut losses);
        table.add_delays(&analysis.delays);
        Ok(analysis)
    });
    let program = program.transpose()?;
    drop(lane_charges);
    checked()?;

    let mut charger = Charger {
        kernels: &kernels,
        catalog: &mut catalog,
        throttled: throttled_nodes(manifest),
    };
    let jitter = jitter::analyse(run, &watches, &mut charger)?;
    checked()?;

    let mut woken: BTreeMap<(SourceId, NodeId), Vec<u64>> = BTreeMap::new();
    for kernel in kernels.iter() {
        for (&pid, times) in &kernel.activations {
            let source = catalog.thread(kernel.node, pid);
            woken
                .entry((source, kernel.node))
                .or_default()
                .extend(times);
        }
    }
    let rows = table.finish(&mut catalog, &by_source, &mut woken);
    let place: BTreeMap<SourceId, u32> = rows
        .iter()
        .enumerate()
        .map(|(i, (id, _))| (*id, i as u32))
        .collect();
    let (late_steps, late_parts) = late_tables(&runs, &place);
    let latest = latest(
        &runs,
        &place,
        manifest.ranks.iter().map(|r| r.cpu).collect(),
    );
    let watched = watches
        .iter()
        .map(|w| Nanos::from_nanos(w.end - w.begin))
        .sum();
    let communication = |wanted: Coupling| {
        runs.iter()
            .find(|(i, _)| {
                matches!(manifest.phases[*i as usize].kind, PhaseKind::Lockstep { coupling, .. } if coupling == wanted)
            })
            .and_then(|(_, a)| a.communication)
    };
    let work = runs
        .first()
        .and_then(|(_, a)| a.findings.compute.iter().max().copied())
        .unwrap_or(Nanos::ZERO);
    let profile = profile(
        &catalog,
        &by_source,
        &rows,
        watched,
        work,
        communication(Coupling::Neighbours),
        communication(Coupling::Barrier),
    );
    let late = || runs.iter().flat_map(|(_, a)| &a.late);
    let unexplained = |id: SourceId| catalog.kind(id) == SourceKind::Unexplained;
    let named: u64 = late()
        .flat_map(|l| &l.parts)
        .filter(|p| !unexplained(p.source))
        .map(|p| p.ns)
        .sum();
    let delays = || program.iter().flat_map(|p| &p.delays);
    let delayed: u64 = delays().map(|(_, d)| d.lateness).sum();
    let delayed_named: u64 = delays()
        .filter(|(id, _)| !unexplained(**id))
        .map(|(_, d)| d.lateness)
        .sum();
    let mut findings = Findings {
        trace: node.map_or_else(no_trace, |n| n.trace.clone()),
        contamination: node.map_or_else(Contamination::default, |n| n.contamination.clone()),
        cpus: cpu_noise(run)?,
        sources: rows.into_iter().map(|(_, f)| f).collect(),
        latest,
        lateness: Nanos::from_nanos(late().map(|l| l.lateness).sum::<u64>() + delayed),
        named: Nanos::from_nanos(named + delayed_named),
        profile,
        prediction: None,
        advice: Vec::new(),
        losses,
        program: None,
        jitter: jitter.into_iter().map(|j| j.finish(&place)).collect(),
        lockstep: runs.iter().map(|(_, a)| a.findings.clone()).collect(),
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
    })
}

fn no_trace() -> TraceSheet {
    TraceSheet {
        mode: TraceMode::Off,
        unavailable: Vec::new(),
        cost: TraceCost::default(),
    }
}

/// Nodes whose kernel counted stops of our group by its bandwidth limit.
fn throttled_nodes(manifest: &Manifest) -> BTreeSet<NodeId> {
    manifest
        .nodes
        .iter()
        .filter(|n| n.contamination.throttled.is_some_and(|t| t > 0))
        .map(|n| n.node)
        .collect()
}

/// All measuring threads of all phases. Where a phase does not name its threads, the one that had
/// the CPU longest is taken; without the kernel's view there is none, and pid 0 stands for it.
fn watches(run: &RunReader, kernels: &Kernels) -> Result<Vec<Watch>, ExplainError> {
    let manifest = run.manifest();
    let mut out = Vec::new();
    let mut lockstep = 0;
    let first = manifest.nodes.first().map_or(NodeId::new(0), |n| n.node);
    for (index, phase) in manifest.phases.iter().enumerate() {
        let watch =
            |node: NodeId, cpu: Cpu, rank: Option<Rank>, pid: Pid, begin: u64, end: u64| Watch {
                phase: index as u32,
                rank,
                node,
                cpu,
                pid,
                begin,
                end: end.max(begin),
            };
        match &phase.kind {
            PhaseKind::Detour { loops, .. } => {
                for l in loops {
                    // The loops are those of the node on which the command was given.
                    let pid = kernels
                        .of(first)
                        .and_then(|k| k.dominating(l.cpu, l.begin_ns, l.end_ns))
                        .unwrap_or(Pid::IDLE);
                    out.push(watch(first, l.cpu, None, pid, l.begin_ns, l.end_ns));
                }
            }
            // Its quanta are single readings: nothing is laid over them.
            PhaseKind::FixedWork { .. } => {}
            PhaseKind::Recorded { .. } => {
                for rank in &manifest.ranks {
                    for &pid in &rank.threads {
                        let cpu = bound_or_first_cpu(rank, pid, kernels);
                        let (begin, end) = (phase.begin_ns, phase.end_ns);
                        out.push(watch(rank.node, cpu, Some(rank.rank), pid, begin, end));
                    }
                }
            }
            PhaseKind::Lockstep { .. } | PhaseKind::MolecularDynamics { .. } => {
                let ranks = match phase.kind {
                    PhaseKind::Lockstep { ranks, .. } => ranks,
                    _ => None,
                };
                for rank in &manifest.ranks[..taking_part(manifest, ranks)] {
                    let pid = rank.threads.get(lockstep).copied().unwrap_or(Pid::IDLE);
                    let cpu = bound_or_first_cpu(rank, pid, kernels);
                    out.push(watch(
                        rank.node,
                        cpu,
                        Some(rank.rank),
                        pid,
                        phase.begin_ns,
                        phase.end_ns,
                    ));
                }
                lockstep += 1;
            }
        }
    }
    Ok(out)
}

/// Ranks of a lockstep run that had only the first `ranks`, or all.
fn taking_part(manifest: &Manifest, ranks: Option<u32>) -> usize {
    let all = manifest.ranks.len();
    ranks.map_or(all, |ranks| all.min(ranks as usize))
}

fn bound_or_first_cpu(rank: &RankSheet, pid: Pid, kernels: &Kernels) -> Cpu {
    let first = || {
        let bursts = kernels.of(rank.node)?.bursts_of(pid);
        bursts.first().map(|b| b.cpu)
    };
    rank.cpu.or_else(first).unwrap_or(Cpu::new(0))
}

fn is_recorded(manifest: &Manifest, watch: &Watch) -> bool {
    let phase = manifest.phases.get(watch.phase as usize);
    phase.is_some_and(|p| matches!(p.kind, PhaseKind::Recorded { .. }))
}

/// The gaps of every watch, in order of time.
fn gaps(run: &RunReader, watches: &[Watch]) -> Result<Vec<Vec<Gap>>, ExplainError> {
    let place: BTreeMap<(u32, Option<Rank>, Option<Cpu>), usize> = watches
        .iter()
        .enumerate()
        .map(|(i, w)| ((w.phase, w.rank, w.rank.is_none().then_some(w.cpu)), i))
        .collect();
    let mut out = vec![Vec::new(); watches.len()];
    for_each::<Detours>(run, |d| {
        let key = (d.phase, d.rank, d.rank.is_none().then_some(d.cpu));
        if let Some(&i) = place.get(&key) {
            // Foreign bytes: no gap ends beyond what the clock can hold.
            let begin = d.begin_ns.min(u64::MAX / 2);
            out[i].push(Gap {
                begin,
                length: d.length.get().min(u64::MAX / 4),
            });
        }
    })?;
    for list in &mut out {
        list.sort_by_key(|g| g.begin);
    }
    Ok(out)
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
        })
        .collect()
}
