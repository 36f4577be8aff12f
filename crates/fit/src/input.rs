//! What is fitted, and where it comes from: a run, or the detours of another tool.

use crate::levels::levels;
use crate::line::Line;
use crate::report::Report;
use crate::selfish::Selfish;
use crate::source::{Setting, fit_source};
use crate::{FitError, Fitted};
use idlewave_explain::{ExplainError, Lane, NoiseEvents, NoiseOf, noise_events};
use idlewave_noise::NoiseModel;
use idlewave_run::{RunReader, SourceKind};
use idlewave_units::{Cpu, NodeId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Events of all sources with the time in which they were looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Where they come from, for people.
    pub about: String,
    /// CPUs of a node, from 1 on.
    pub cpus_per_node: u32,
    /// Whether times of different CPUs of a node are of one clock.
    pub common_clock: bool,
    /// The sources.
    pub sources: Vec<SourceEvents>,
    /// CPU time watched, nanoseconds.
    pub watched_ns: u64,
    /// What is to be said with the result, as sentences.
    pub notes: Vec<String>,
}

/// Events of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceEvents {
    /// Class.
    pub kind: SourceKind,
    /// Name.
    pub name: String,
    /// Share of its speed that a CPU keeps during an event, 0 to below 1.
    pub keeps: f64,
    /// A line per watched CPU, also for CPUs without events.
    pub lines: Vec<Line>,
}

/// Fits a model to events. The same input and seed give the same model.
///
/// # Errors
/// Nothing was watched, or an event or the number of sources is beyond what a model can hold.
pub fn fit(input: Input, seed: u64) -> Result<Fitted, FitError> {
    if input.watched_ns == 0 {
        return Err(FitError::NothingWatched);
    }
    let setting = Setting {
        cpus_per_node: input.cpus_per_node,
        common_clock: input.common_clock,
        seed,
    };
    let mut fitted: Vec<_> = input
        .sources
        .into_iter()
        .flat_map(|source| fit_source(source, &setting))
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
    model.check()?;
    let report = Report {
        about: input.about,
        cpus_per_node: input.cpus_per_node,
        watched_ns: input.watched_ns,
        sources: reports,
        notes: input.notes,
    };
    Ok(Fitted { model, report })
}

/// Fits a model to this noise of a run: every source of its table of sources, and its speed levels.
///
/// # Errors
/// The bundle cannot be read, holds nothing to be fitted, or `stop` became true.
pub fn fit_run(
    run: &RunReader,
    of: NoiseOf,
    about: String,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Fitted, FitError> {
    let events = noise_events(run, of, stop)?;
    let places = Places::new(&events.lanes);
    let mut notes = Vec::new();
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
            // A source is one process on what was named, another one on what was not.
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

/// Numbers of the lanes: nodes and the CPUs within them from 0.
struct Places {
    of_lane: Vec<(u32, u32)>,
    of_cpu: BTreeMap<(NodeId, Cpu), (u32, u32)>,
    cpus_per_node: u32,
}

impl Places {
    fn new(lanes: &[Lane]) -> Self {
        let mut cpus: BTreeMap<NodeId, u32> = BTreeMap::new();
        let mut number: BTreeMap<NodeId, u32> = BTreeMap::new();
        let mut places = Places {
            of_lane: Vec::new(),
            of_cpu: BTreeMap::new(),
            cpus_per_node: 1,
        };
        for lane in lanes {
            let next = number.len() as u32;
            let node = *number.entry(lane.node).or_insert(next);
            let count = cpus.entry(lane.node).or_default();
            let place = (node, *count);
            *count += 1;
            places.cpus_per_node = places.cpus_per_node.max(*count);
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

/// Fits a model to detours that another tool measured, one measurement per CPU of a node.
///
/// # Errors
/// As [`fit`].
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
        notes,
    };
    fit(input, seed)
}
