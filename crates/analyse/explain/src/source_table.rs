//! The table of sources: what each took, delayed and cost.

use crate::activations::activations;
use crate::catalog::{Catalog, LONG_CALLS, NOT_TRACED, SourceId};
use crate::lockstep::Late;
use crate::program::Delay;
use crate::strikes::Strike;
use crate::watch::Watch;
use idlewave_run::SourceKind;
use idlewave_run::findings::{Estimate, Periodicity, SourceFinding};
use idlewave_stats::line::Line;
use idlewave_stats::{periodicity, quantiles, relation};
use idlewave_units::{Cpu, CpuSet, Nanos, NodeId};
use std::collections::BTreeMap;

/// Sums for one source over all lockstep runs.
#[derive(Clone, Debug, Default)]
struct Sums {
    stolen: u64,
    events: u64,
    lateness: u64,
    late_steps: u64,
    lost: u64,
    /// Sum of the squares of what single delays cost all ranks, in square nanoseconds.
    squares: f64,
    cpus: CpuSet,
}

/// Collects the effect of every source on the lockstep runs.
#[derive(Default)]
pub struct SourceTable {
    sums: BTreeMap<SourceId, Sums>,
}

impl SourceTable {
    /// Adds the strikes on one watched thread.
    pub fn add_strikes(&mut self, strikes: &[Strike]) {
        for strike in strikes {
            let sums = self.sums.entry(strike.source).or_default();
            sums.stolen += strike.length;
            sums.events += 1;
            sums.cpus.insert(strike.cpu);
        }
    }

    /// Adds the late steps of a run with this many ranks.
    pub fn add_late(&mut self, late: &[Late], ranks: usize) {
        for step in late {
            for (i, part) in step.parts.iter().enumerate() {
                let sums = self.sums.entry(part.source).or_default();
                sums.lateness += part.ns;
                sums.lost += part.ns * ranks as u64;
                sums.squares += (part.ns as f64 * ranks as f64).powi(2);
                // Parts come largest first.
                sums.late_steps += u64::from(i == 0);
            }
        }
    }

    /// Adds the effect of sources on a recorded program.
    pub fn add_delays(&mut self, delays: &BTreeMap<SourceId, Delay>) {
        for (&source, delay) in delays {
            let sums = self.sums.entry(source).or_default();
            sums.lateness += delay.lateness;
            sums.late_steps += delay.late;
            sums.lost += delay.lost;
            sums.squares += delay.squares;
        }
    }

    /// Effective number of delays per source: (sum)^2 / sum of squares. Equal delays count fully; a
    /// delay that outweighs all others counts as the only one.
    pub fn effective(&self) -> BTreeMap<SourceId, f64> {
        let effective = |s: &Sums| (s.lost as f64).powi(2) / s.squares;
        let known = self.sums.iter().filter(|(_, s)| s.squares > 0.0);
        known.map(|(&id, s)| (id, effective(s))).collect()
    }

    /// Gives this source a row, whatever it did.
    pub fn name(&mut self, source: SourceId) {
        self.sums.entry(source).or_default();
    }

    /// Whether the times at which a source's threads were woken tell something about its row.
    pub fn wants_activations(&self, source: SourceId, catalog: &Catalog) -> bool {
        recurs_as_woken(catalog.kind(source)) && self.sums.contains_key(&source)
    }

    /// The rows, most time lost by all ranks first; unexplained always has one. `strikes` are those
    /// of the whole recording, for lengths and periods, and `watches` when they were looked for;
    /// `woken` has the times at which threads were woken, in any order.
    pub fn finish(
        mut self,
        catalog: &mut Catalog,
        strikes: &BTreeMap<SourceId, Vec<Strike>>,
        watches: &[Watch],
        woken: &mut BTreeMap<(SourceId, NodeId), Vec<u64>>,
    ) -> Vec<(SourceId, SourceFinding)> {
        let unexplained = catalog.class(SourceKind::Unexplained);
        self.sums.entry(unexplained).or_default();
        let mut by_node: BTreeMap<SourceId, Vec<&[u64]>> = BTreeMap::new();
        for (&(id, _), times) in woken.iter_mut() {
            times.sort_unstable();
            by_node.entry(id).or_default().push(times);
        }
        let watched = watched(watches);
        let mut rows: Vec<(SourceId, SourceFinding)> = self
            .sums
            .into_iter()
            .map(|(id, sums)| {
                let events = activations(strikes.get(&id).map_or(&[][..], Vec::as_slice));
                let woken = by_node.get(&id).map_or(&[][..], Vec::as_slice);
                let lines = lines(&events, &watched);
                (id, finding(catalog, id, sums, &events, &lines, woken))
            })
            .collect();
        rows.sort_by(|(_, a), (_, b)| {
            let key = |f: &SourceFinding| (f.lost, f.stolen);
            key(b)
                .cmp(&key(a))
                .then_with(|| (a.kind, &a.name).cmp(&(b.kind, &b.name)))
        });
        rows
    }
}

fn finding(
    catalog: &Catalog,
    id: SourceId,
    sums: Sums,
    strikes: &[Strike],
    lines: &[Line],
    woken: &[&[u64]],
) -> SourceFinding {
    let kind = catalog.kind(id);
    let on_cpu = on_cpus(kind, lines);
    // Most of what is unexplained was stolen by nobody that any record shows.
    let compares = sums.stolen > 0 && kind != SourceKind::Unexplained;
    let over = |part: u64| compares.then(|| part as f64 / sums.stolen as f64);
    let has_events = !matches!(
        kind,
        SourceKind::SlowLevel
            | SourceKind::Network
            | SourceKind::SharedMemory
            | SourceKind::Unexplained
            | SourceKind::Tracing
    ) || sums.events > 0;
    SourceFinding {
        kind,
        name: catalog.name(id).to_owned(),
        events: has_events.then_some(sums.events),
        stolen: Nanos::from_nanos(sums.stolen),
        late_steps: sums.late_steps,
        lateness: Nanos::from_nanos(sums.lateness),
        lost: Nanos::from_nanos(sums.lost),
        amplification: over(sums.lost),
        absorbed: over(sums.lateness).map(|share| (1.0 - share).max(0.0)),
        length: length(strikes),
        period: period(kind, strikes, &on_cpu, woken),
        relation: relation::relation(lines, &on_cpu),
        cpus: sums.cpus,
        detail: detail(catalog, id),
    }
}

/// Fewer strikes do not determine a usual length.
const LENGTH_NEEDS: usize = 5;

fn length(strikes: &[Strike]) -> Option<Estimate> {
    if strikes.len() < LENGTH_NEEDS {
        return None;
    }
    let lengths: Vec<u64> = strikes.iter().map(|s| s.length).collect();
    Some(quantiles::median(&lengths))
}

/// When each CPU was watched, in order and without overlap.
fn watched(watches: &[Watch]) -> BTreeMap<(NodeId, Cpu), Vec<(u64, u64)>> {
    let mut order: Vec<&Watch> = watches.iter().collect();
    order.sort_by_key(|w| (w.begin, w.end));
    let mut all: BTreeMap<(NodeId, Cpu), Vec<(u64, u64)>> = BTreeMap::new();
    for w in order {
        let spans = all.entry((w.node, w.cpu)).or_default();
        match spans.last_mut() {
            // Threads that share a CPU are watched at the same time.
            Some(last) if w.begin <= last.1 => last.1 = last.1.max(w.end),
            _ => spans.push((w.begin, w.end)),
        }
    }
    all
}

/// Strikes, in order of time, by node and CPU.
fn lines(strikes: &[Strike], watched: &BTreeMap<(NodeId, Cpu), Vec<(u64, u64)>>) -> Vec<Line> {
    let mut by_cpu: BTreeMap<(NodeId, Cpu), Vec<(u64, u64)>> = BTreeMap::new();
    for s in strikes {
        let events = by_cpu.entry((s.node, s.cpu)).or_default();
        events.push((s.begin, s.length));
    }
    let lines = by_cpu.into_iter();
    lines
        .map(|((node, cpu), events)| Line {
            node: node.get(),
            cpu: cpu.get(),
            watched: watched.get(&(node, cpu)).cloned().unwrap_or_default(),
            events,
        })
        .collect()
}

/// The strongest period on each CPU; none for classes whose strikes have no time of their own.
fn on_cpus(kind: SourceKind, lines: &[Line]) -> Vec<Option<Periodicity>> {
    let strongest = |line: &Line| periodicity::periods(&line.begins()).into_iter().next();
    match has_times(kind) {
        true => lines.iter().map(strongest).collect(),
        false => Vec::new(),
    }
}

fn has_times(kind: SourceKind) -> bool {
    !matches!(
        kind,
        SourceKind::RunQueueWait
            | SourceKind::Unexplained
            | SourceKind::Tracing
            | SourceKind::SlowLevel
    )
}

/// A thread recurs as one, wherever it runs, and at its wake-ups, whether or not it then strikes a
/// rank. Interrupts and the per-CPU copies of kernel threads have a period on each CPU; the CPU
/// with the clearest one represents all.
fn period(
    kind: SourceKind,
    strikes: &[Strike],
    on_cpu: &[Option<Periodicity>],
    woken: &[&[u64]],
) -> Option<Periodicity> {
    if !has_times(kind) {
        return None;
    }
    // Periods on one node or CPU are independent of those on another.
    let clearest =
        |all: &mut dyn Iterator<Item = Periodicity>| all.max_by(|a, b| a.power.total_cmp(&b.power));
    let strongest = |all: &mut dyn Iterator<Item = &[u64]>| {
        clearest(&mut all.filter_map(|times| periodicity::periods(times).into_iter().next()))
    };
    let thread = recurs_as_woken(kind);
    if let Some(found) = strongest(&mut woken.iter().copied()).filter(|_| thread) {
        return Some(found);
    }
    if thread {
        let mut by_node: BTreeMap<NodeId, Vec<u64>> = BTreeMap::new();
        for s in strikes {
            by_node.entry(s.node).or_default().push(s.begin);
        }
        if let Some(found) = strongest(&mut by_node.values().map(Vec::as_slice)) {
            return Some(found);
        }
    }
    clearest(&mut on_cpu.iter().flatten().cloned())
}

/// Whether the source is one thread or several that recur as one, wherever they run.
fn recurs_as_woken(kind: SourceKind) -> bool {
    matches!(kind, SourceKind::Task | SourceKind::Recorder)
}

fn detail(catalog: &Catalog, id: SourceId) -> Option<String> {
    let why = match catalog.kind(id) {
        SourceKind::Hypervisor => {
            "inferred: the clock jumped while the kernel recorded nothing on that CPU, or an \
             interrupt stayed open over 50 times its median"
        }
        SourceKind::SlowLevel => {
            "the same work took longer for milliseconds at a time: frequency, a busy hardware thread \
             on the same core, memory, or the host"
        }
        SourceKind::Network if catalog.name(id) == LONG_CALLS => {
            "calls took longer than usual although the ranks had arrived; without a kernel trace nobody \
             knows whether the messages took long or the ranks had no CPU"
        }
        SourceKind::Network | SourceKind::SharedMemory => {
            "messages took longer than usual although the ranks had arrived"
        }
        SourceKind::Recorder => "idlewave's own recorder",
        SourceKind::Tracing => "writing of trace events, at the measured cost of one event",
        SourceKind::RunQueueWait => "runnable, while the CPU was idle or on its way to it",
        SourceKind::Unexplained if catalog.name(id) == NOT_TRACED => {
            "the kernel of the node was not traced, so no cause can be named"
        }
        SourceKind::Unexplained => "not explained by any record",
        SourceKind::Throttled => "the cgroup's CPU bandwidth limit was used up",
        _ => "",
    };
    if !why.is_empty() {
        return Some(why.to_owned());
    }
    let mut members: Vec<&str> = catalog.members(id).collect();
    let all = members.len();
    members.truncate(4);
    let mut text = members.join(", ");
    if all > 4 {
        text.push_str(&format!(" and {} more", all - 4));
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unexplained_is_not_compared_with_what_nobody_is_known_to_have_stolen() {
        let mut catalog = Catalog::default();
        let daemon = catalog.intern(SourceKind::Task, "daemon");
        let unexplained = catalog.class(SourceKind::Unexplained);
        let mut table = SourceTable::default();
        for source in [daemon, unexplained] {
            table.add_strikes(&[Strike {
                source,
                node: NodeId::new(0),
                cpu: Cpu::new(0),
                begin: 0,
                length: 100,
                continues: false,
            }]);
            let sums = table.sums.entry(source).or_default();
            (sums.lateness, sums.lost) = (50, 200);
        }
        let rows = table.finish(&mut catalog, &BTreeMap::new(), &[], &mut BTreeMap::new());
        let of = |id| &rows.iter().find(|(source, _)| *source == id).unwrap().1;
        let ratios = |f: &SourceFinding| (f.stolen.get(), f.amplification, f.absorbed);
        assert_eq!(ratios(of(daemon)), (100, Some(2.0), Some(0.5)));
        assert_eq!(ratios(of(unexplained)), (100, None, None));
    }

    #[test]
    fn a_thread_that_strikes_every_second_time_it_is_woken_has_the_period_of_its_waking() {
        let woken: Vec<u64> = (0..200).map(|i| i * 50_000_000).collect();
        let source = Catalog::default().intern(SourceKind::Task, "daemon");
        let strikes: Vec<Strike> = woken
            .iter()
            .step_by(2)
            .map(|&begin| Strike {
                source,
                node: NodeId::new(0),
                cpu: Cpu::new(0),
                begin,
                length: 500_000,
                continues: false,
            })
            .collect();
        let of = |kind, woken: &[&[u64]]| {
            let on_cpu = on_cpus(kind, &lines(&strikes, &BTreeMap::new()));
            period(kind, &strikes, &on_cpu, woken)
                .expect("a period")
                .period
                .value
        };
        assert!((of(SourceKind::Task, &[&woken]) / 50e6 - 1.0).abs() < 1e-3);
        // Never woken in the trace: its strikes are all there is. Interrupts are not woken.
        assert!((of(SourceKind::Task, &[]) / 100e6 - 1.0).abs() < 1e-3);
        assert!((of(SourceKind::Irq, &[&woken]) / 100e6 - 1.0).abs() < 1e-3);
    }
}
