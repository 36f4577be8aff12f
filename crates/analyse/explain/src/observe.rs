//! From a run to what was taken from every watched thread: the first half of every analysis.

use crate::ExplainError;
use crate::catalog::Catalog;
use crate::edges::{Extra, Gap, GapMatcher};
use crate::holes;
use crate::kernel::Kernels;
use crate::program::Recorded;
use crate::ran::Ran;
use crate::strikes::{Strike, is_thread, strikes};
use crate::watch::{Charge, Charger, Watch};
use crate::watched::{gaps, is_benchmark, is_recorded, throttled_nodes, watches};
use idlewave_run::tables::{Sources, Tasks};
use idlewave_run::{Ledger, Manifest, PhaseKind, RunReader, RunState, SourceKind, TraceMode};
use std::sync::atomic::{AtomicBool, Ordering};

/// What was taken from each watched thread.
pub struct Observed {
    /// The run's threads.
    pub tasks: Tasks,
    /// Who ran.
    pub ran: Ran,
    /// The kernel records.
    pub kernels: Kernels,
    /// Names.
    pub catalog: Catalog,
    /// Losses of the recording, and inferences made here.
    pub losses: Ledger,
    /// Watched threads of all phases.
    pub watches: Vec<Watch>,
    /// The recorded program, if the run has one.
    pub recorded: Option<Recorded>,
    /// Per lane of the recorded program: what was taken from it.
    pub lane_charges: Vec<Vec<Charge>>,
    /// Per watch: what was taken from it, according to the records.
    pub charges: Vec<Vec<Charge>>,
    /// Per watch: what its own gaps add to that.
    pub extras: Vec<Vec<Extra>>,
}

/// Reads a run and combines the kernel's records with its watched threads.
///
/// # Errors
/// The bundle cannot be read, contradicts itself, or `stop` became true.
pub fn observe(run: &RunReader, stop: &AtomicBool) -> Result<Observed, ExplainError> {
    let checked = || match stop.load(Ordering::Relaxed) {
        true => Err(ExplainError::Interrupted),
        false => Ok(()),
    };
    let manifest = run.manifest();
    let tasks = run.read::<Tasks>()?;
    let ran = Ran::read(run)?;
    checked()?;
    let watches = watches(manifest, &tasks, &ran);
    let mut kernels = Kernels::read(run, &tasks, watches.iter().map(Watch::thread), &ran)?;
    checked()?;
    let mut catalog = Catalog::new(&tasks, &run.read::<Sources>()?);
    let mut losses = manifest.losses.clone();
    if manifest.state != RunState::Complete {
        losses.enter(
            "the run ended early",
            1,
            "everything below is based on what was recorded until then",
            "let the run finish",
        );
    }

    let gaps = gaps(run, &watches)?;
    let recorded = Recorded::read(run, &mut losses)?;
    // Those of the first recorded phase, like the program itself.
    let lanes: Vec<usize> = (0..watches.len())
        .filter(|&i| is_recorded(manifest, &watches[i]))
        .take(recorded.as_ref().map_or(0, |r| r.program.lanes.len()))
        .collect();
    let filled = fill_holes(
        manifest,
        &mut kernels,
        &watches,
        &gaps,
        recorded.as_ref(),
        &lanes,
    );
    losses.enter(
        "holes in the kernel trace, filled up to where a measuring thread is known to have run",
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
    let lane_charges = match &recorded {
        Some(recorded) => {
            let take = |&i: &usize| std::mem::take(&mut charges[i]);
            let mut taken: Vec<Vec<Charge>> = lanes.iter().map(take).collect();
            recorded.drop_sleep_in_calls(&catalog, &mut taken);
            for (&i, list) in lanes.iter().zip(&taken) {
                charges[i].clone_from(list);
            }
            taken
        }
        None => {
            drop_sleep(manifest, &catalog, &watches, &mut charges);
            Vec::new()
        }
    };
    checked()?;
    let first = manifest.nodes.first();
    let event_ns = first.and_then(|n| n.trace.cost.event_ns);
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
    Ok(Observed {
        tasks,
        ran,
        kernels,
        catalog,
        losses,
        watches,
        recorded,
        lane_charges,
        charges,
        extras,
    })
}

/// Fills holes in the kernel's records with the threads that are known to have run; returns how
/// many. `lanes` are the watches of the recorded program's lanes.
fn fill_holes(
    manifest: &Manifest,
    kernels: &mut Kernels,
    watches: &[Watch],
    gaps: &[Vec<Gap>],
    recorded: Option<&Recorded>,
    lanes: &[usize],
) -> u64 {
    let mut filled = 0;
    for (i, (watch, gaps)) in watches.iter().zip(gaps).enumerate() {
        let Some(kernel) = kernels.of_mut(watch.node) else {
            continue;
        };
        let lane = lanes.iter().position(|&l| l == i);
        filled += match (recorded, lane) {
            (Some(recorded), Some(lane)) => {
                holes::fill(kernel, watch, |time| recorded.back_after(lane, time))
            }
            // A program without calls has no times at which it is known to have run.
            _ if is_recorded(manifest, watch) => 0,
            _ => holes::fill(kernel, watch, |time| holes::back_after(gaps, time)),
        };
    }
    filled
}

/// If a program's calls are not known, its sleep counts as voluntary: nobody took that time. The
/// ranks of a benchmark sleep only in calls.
fn drop_sleep(
    manifest: &Manifest,
    catalog: &Catalog,
    watches: &[Watch],
    charges: &mut [Vec<Charge>],
) {
    let slept = |c: &Charge| catalog.kind(c.source) == SourceKind::Blocked;
    for (watch, list) in watches.iter().zip(charges) {
        if is_recorded(manifest, watch) || is_benchmark(manifest, watch) {
            list.retain(|c| !slept(c));
        }
    }
}

/// The strikes of one watch, in order of time; those that continue a thread's burst on another CPU
/// are marked.
pub fn watch_strikes(
    watch: &Watch,
    charges: &[Charge],
    extras: &[Extra],
    catalog: &Catalog,
    kernels: &Kernels,
) -> Vec<Strike> {
    let mut found = strikes(watch, charges, extras, catalog);
    for strike in &mut found {
        strike.continues = is_thread(catalog.kind(strike.source))
            && kernels
                .of(strike.node)
                .is_some_and(|k| k.continues(strike.cpu, strike.begin));
    }
    found
}
