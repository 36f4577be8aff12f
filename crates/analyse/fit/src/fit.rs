//! Fits a run or another tool's measurement.

use crate::input::{Input, SourceEvents};
use crate::levels::levels;
use crate::report::{Report, SourceReport};
use crate::selfish::Selfish;
use crate::source::{Setting, fit_source};
use crate::{FitError, Fitted};
use idlewave_explain::{Crowd, ExplainError, Lane, NoiseEvents, NoiseOf, noise_events};
use idlewave_noise::{ModelProblem, NoiseModel};
use idlewave_run::{RunReader, SourceKind};
use idlewave_stats::line::Line;
use idlewave_units::{Cpu, NodeId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Fits a model to events. The same input and seed give the same model.
///
/// # Errors
/// Nothing was watched, or an event or the number of sources exceeds what a model can hold.
pub fn fit(input: Input, seed: u64) -> Result<Fitted, FitError> {
    if input.watched_ns == 0 {
        return Err(FitError::NothingWatched);
    }
    let (mut model, mut reports) = fit_sources(&input, seed, false);
    let mut warnings = input.warnings.clone();
    if let Err(ModelProblem::Overload { .. }) = model.check() {
        (model, reports) = fit_sources(&input, seed, true);
        warnings.push(APART.to_owned());
    }
    model.check()?;
    warnings.extend(
        model
            .crawls()
            .map(|crawls| format!("{crawls}. Measure where other programs leave the CPUs alone.")),
    );
    let report = Report {
        about: input.about,
        cpus_per_node: input.cpus_per_node,
        watched_ns: input.watched_ns,
        sources: reports,
        warnings,
        notes: input.notes,
    };
    Ok(Fitted { model, report })
}

/// The warning for a model whose sources strike each CPU as measured there.
const APART: &str = "Sources that seem to strike all CPUs alike would leave no time on one of them, so each CPU has the events that struck it.";

/// The models of all sources, in descending order of the time they steal. With `apart`, each CPU is
/// struck as measured there; otherwise CPUs that a source seems to strike alike share its events.
fn fit_sources(input: &Input, seed: u64, apart: bool) -> (NoiseModel, Vec<SourceReport>) {
    let setting = Setting {
        cpus_per_node: input.cpus_per_node,
        common_clock: input.common_clock,
        apart,
        seed,
    };
    let sources = input.sources.iter();
    let mut fitted: Vec<_> = sources
        .flat_map(|source| fit_source(source.clone(), &setting))
        .collect();
    fitted.sort_by(|(a, x), (b, y)| {
        let by_name = || (a.kind, &a.name, &a.cpus).cmp(&(b.kind, &b.name, &b.cpus));
        y.stolen[0].total_cmp(&x.stolen[0]).then_with(by_name)
    });
    let (sources, reports) = fitted.into_iter().unzip();
    let model = NoiseModel {
        about: input.about.clone(),
        cpus_per_node: input.cpus_per_node,
        sources,
        ..NoiseModel::default()
    };
    (model, reports)
}

/// Fits a model to this noise of a run: every source of its table of sources, and its speed levels.
///
/// # Errors
/// The bundle cannot be read, has nothing to fit, or `stop` became true.
pub fn fit_run(
    run: &RunReader,
    of: NoiseOf,
    about: String,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Fitted, FitError> {
    let events = noise_events(run, of, stop)?;
    let places = Places::new(&events.lanes, &events.crowds);
    let mut notes = Vec::new();
    let shared = |crowd: &Crowd| {
        format!(
            "{crowd}. Turns are no noise and left out; what else kept ranks waiting while they shared CPUs is that of such a run: measure with a CPU for \
             every rank."
        )
    };
    let mut warnings = run.manifest().busy_nodes();
    warnings.extend(events.crowds.iter().map(shared));
    if !events.unnamed.is_empty() {
        notes.push(format!(
            "The kernel's view of {} was not recorded: its detours are one source, '{}', and nobody is named.",
            nodes(&events.unnamed),
            NoiseEvents::UNNAMED
        ));
    }
    if !events.losses.is_empty() {
        notes.push(format!(
            "The run's ledger has {} entries; `idlewave explain` shows them.",
            events.losses.entries().len()
        ));
    }
    let mut sources: Vec<SourceEvents> = events
        .sources
        .into_iter()
        .map(|source| {
            let mut lines = places.lines(&events.lanes);
            for strike in source.strikes {
                lines[strike.lane as usize]
                    .events
                    .push((strike.begin, strike.length));
            }
            // The unnamed source belongs to untraced nodes, all others to traced nodes.
            let unnamed =
                source.kind == SourceKind::Unexplained && source.name == NoiseEvents::UNNAMED;
            let mut seen = events.lanes.iter();
            lines.retain(|_| {
                seen.next()
                    .is_some_and(|l| events.unnamed.contains(&l.node) == unnamed)
            });
            SourceEvents {
                kind: source.kind,
                name: source.name,
                keeps: 0.0,
                lines,
            }
        })
        .collect();
    let levels = levels(run, of, |node, cpu| places.of(node, cpu)).map_err(ExplainError::from)?;
    if levels.is_none() {
        notes.push("The run has no fixed work, so speed levels are not known.".to_owned());
    }
    sources.extend(levels.into_iter().flatten());
    if stop.load(Ordering::Relaxed) {
        return Err(ExplainError::Interrupted.into());
    }
    let watched_ns = places.lines(&events.lanes).iter().map(Line::time).sum();
    let input = Input {
        about,
        cpus_per_node: places.cpus_per_node,
        common_clock: true,
        sources,
        watched_ns,
        warnings,
        notes,
    };
    fit(input, seed)
}

fn nodes(nodes: &[NodeId]) -> String {
    let names: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
    match names.as_slice() {
        [one] => format!("node {one}"),
        _ => format!("nodes {}", names.join(", ")),
    }
}

/// Positions of the lanes: nodes and the CPUs within them, from 0.
struct Places {
    of_lane: Vec<(u32, u32)>,
    of_cpu: BTreeMap<(NodeId, Cpu), (u32, u32)>,
    cpus_per_node: u32,
}

impl Places {
    /// Ranks that shared CPUs count as if they were spread over several such nodes, each on a CPU
    /// of its own.
    fn new(lanes: &[Lane], crowds: &[Crowd]) -> Self {
        let mut cpus: BTreeMap<NodeId, u32> = BTreeMap::new();
        let mut number: BTreeMap<(NodeId, u32), u32> = BTreeMap::new();
        let mut places = Places {
            of_lane: Vec::new(),
            of_cpu: BTreeMap::new(),
            cpus_per_node: 1,
        };
        for lane in lanes {
            let seen = cpus.entry(lane.node).or_default();
            let crowd = crowds.iter().find(|c| c.node == lane.node);
            let of_node = crowd.map_or(u32::MAX, |c| c.cpus);
            let (copy, cpu) = (*seen / of_node, *seen % of_node);
            *seen += 1;
            let next = number.len() as u32;
            let node = *number.entry((lane.node, copy)).or_insert(next);
            let place = (node, cpu);
            places.cpus_per_node = places.cpus_per_node.max(cpu + 1);
            places.of_lane.push(place);
            places.of_cpu.entry((lane.node, lane.cpu)).or_insert(place);
        }
        places
    }

    /// A line without events for each lane.
    fn lines(&self, lanes: &[Lane]) -> Vec<Line> {
        let places = self.of_lane.iter().zip(lanes);
        places
            .map(|(&(node, cpu), lane)| Line {
                node,
                cpu,
                watched: lane.watched.clone(),
                events: Vec::new(),
            })
            .collect()
    }

    fn of(&self, node: NodeId, cpu: Cpu) -> Option<(u32, u32)> {
        self.of_cpu.get(&(node, cpu)).copied()
    }
}

/// Fits a model to detours measured by another tool, one measurement per CPU of a node.
///
/// # Errors
/// As for [`fit`].
pub fn fit_selfish(measured: &[Selfish], about: String, seed: u64) -> Result<Fitted, FitError> {
    let lines: Vec<Line> = (0..)
        .zip(measured)
        .map(|(cpu, m)| Line {
            node: 0,
            cpu,
            watched: vec![(0, m.watched_ns())],
            events: m.events.clone(),
        })
        .collect();
    let mut notes = vec!["Detours measured from user space: nobody is named.".to_owned()];
    if measured.len() > 1 {
        notes.push(
            "Each file has a clock of its own, so what strikes CPUs at the same moments is not known.".to_owned(),
        );
    }
    if measured.iter().any(|m| m.period_ns.is_none()) {
        notes.push(
            "Where a file does not say how long was measured, it is taken to end a mean gap after its last detour."
                .to_owned(),
        );
    }
    let input = Input {
        about,
        cpus_per_node: (lines.len() as u32).max(1),
        common_clock: false,
        watched_ns: lines.iter().map(Line::time).sum(),
        sources: vec![SourceEvents {
            kind: SourceKind::Unexplained,
            name: NoiseEvents::UNNAMED.to_owned(),
            keeps: 0.0,
            lines,
        }],
        warnings: Vec::new(),
        notes,
    };
    fit(input, seed)
}
