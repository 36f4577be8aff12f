//! Detours and fixed work of the CPUs of two runs.

use super::blocks;
use super::comparison::{Comparison, Explained};
use super::row::{Quantity, Subject};
use crate::ExplainError;
use idlewave_run::tables::{self, Detours};
use idlewave_run::{DetourLoop, PhaseKind, RunReader};
use idlewave_units::{Cpu, CpuSet, Nanos, NodeId};
use std::collections::BTreeMap;

/// A CPU of a node.
type Place = (NodeId, Cpu);
/// Per CPU: the values of a quantity, one per block.
type Values = BTreeMap<Place, Vec<f64>>;

pub fn compare(runs: [Explained<'_>; 2], found: &mut Comparison) -> Result<(), ExplainError> {
    let several = |(run, _): &Explained<'_>| run.manifest().measures_several_nodes();
    if runs.iter().any(several) {
        found.not_compared.push(
            "CPUs of several nodes one by one: only all together are compared (idlewave explain \
             compares the nodes of a run with each other)"
                .to_owned(),
        );
    }
    detours(runs.map(|(run, _)| run), found)?;
    work(runs, found)
}

/// Compares a quantity of all CPUs together and of every CPU that both runs have, unless they are
/// those of several nodes.
fn add(found: &mut Comparison, quantity: Quantity, [a, b]: &[Values; 2]) {
    if a.len().max(b.len()) > 1 {
        found.add(&Subject::AllCpus, quantity, [a, b].map(mean));
    }
    let mut places = a.keys().chain(b.keys());
    let first = places.next().map(|place| place.0);
    if places.any(|place| Some(place.0) != first) {
        return;
    }
    for (place @ &(_, cpu), of_a) in a {
        if let Some(of_b) = b.get(place) {
            let both = [of_a.clone(), of_b.clone()];
            found.add(&Subject::Cpu { cpu }, quantity, both);
        }
    }
}

/// The mean of all CPUs, block by block.
fn mean(values: &Values) -> Vec<f64> {
    let blocks = values.values().map(Vec::len).min().unwrap_or(0);
    let of = |block: usize| values.values().map(|v| v[block]).sum::<f64>() / values.len() as f64;
    (0..blocks).map(of).collect()
}

/// Says which CPUs only one of the runs measured.
fn only_one<T>(found: &mut Comparison, what: &str, both: &[BTreeMap<Place, T>; 2]) {
    for (letter, here, there) in [("A", &both[0], &both[1]), ("B", &both[1], &both[0])] {
        let alone: CpuSet = here
            .keys()
            .filter(|place| !there.contains_key(place))
            .map(|place| place.1)
            .collect();
        if !alone.is_empty() {
            found
                .only_one
                .push(format!("{what} of CPUs {alone} ({letter})"));
        }
    }
}

/// The loops of the last phase of every CPU, and its threshold.
fn loops(run: &RunReader) -> BTreeMap<Place, (u32, &DetourLoop, Nanos)> {
    let mut all = BTreeMap::new();
    for (index, phase) in run.manifest().phases.iter().enumerate() {
        if let PhaseKind::Detour {
            node,
            threshold,
            loops,
            ..
        } = &phase.kind
        {
            for of_cpu in loops {
                all.insert((*node, of_cpu.cpu), (index as u32, of_cpu, *threshold));
            }
        }
    }
    all
}

fn detours(runs: [&RunReader; 2], found: &mut Comparison) -> Result<(), ExplainError> {
    let mut both = runs.map(loops);
    only_one(found, "detours", &both);
    let dropped: CpuSet = both
        .iter()
        .flat_map(BTreeMap::values)
        .filter(|l| l.1.not_kept > 0)
        .map(|l| l.1.cpu)
        .collect();
    if !dropped.is_empty() {
        found.not_compared.push(format!(
            "detours of CPUs {dropped}: one of the runs did not keep all of them, for lack of memory"
        ));
    }
    for loops in &mut both {
        loops.retain(|place, _| !dropped.contains(place.1));
    }
    if both.iter().any(BTreeMap::is_empty) {
        return Ok(());
    }
    let all = || both.iter().flat_map(|loops| loops.values());
    // Shorter ones would be detours in one of the runs only.
    let threshold = all().map(|l| l.2).max().unwrap_or(Nanos::ZERO);
    let size = blocks::size(all().map(|l| l.1.end_ns.saturating_sub(l.1.begin_ns)));
    let [a, b] = [0, 1].map(|i| block_sums(runs[i], &both[i], threshold, size));
    let (a, b) = (a?, b?);
    let of = |values: &BTreeMap<Place, Vec<(f64, f64)>>,
              part: fn(&(f64, f64)) -> f64,
              over: f64| {
        let values = values.iter();
        let scaled = values.map(|(&place, v)| (place, v.iter().map(|x| part(x) / over).collect()));
        scaled.collect::<Values>()
    };
    let lengths = [&a, &b].map(|v| of(v, |x| x.0, size as f64));
    add(found, Quantity::Stolen, &lengths);
    let counts = [&a, &b].map(|v| of(v, |x| x.1, size as f64 / 1e9));
    add(found, Quantity::DetourRate, &counts);
    Ok(())
}

/// Sum of the lengths and number of the detours in every block of every CPU.
fn block_sums(
    run: &RunReader,
    loops: &BTreeMap<Place, (u32, &DetourLoop, Nanos)>,
    threshold: Nanos,
    size: u64,
) -> Result<BTreeMap<Place, Vec<(f64, f64)>>, ExplainError> {
    let span = |l: &DetourLoop| l.end_ns.saturating_sub(l.begin_ns);
    let mut sums: BTreeMap<Place, Vec<(f64, f64)>> = loops
        .iter()
        .map(|(&place, l)| (place, vec![(0.0, 0.0); (span(l.1) / size) as usize]))
        .collect();
    run.for_each::<Detours>(|d| {
        let Some(node) = run.manifest().measured_node(d.phase) else {
            return;
        };
        let place = (node, d.cpu);
        let of_loop = loops.get(&place).filter(|l| l.0 == d.phase);
        let Some((_, sheet, _)) = of_loop.filter(|_| d.length >= threshold) else {
            return;
        };
        let block = d.begin_ns.saturating_sub(sheet.begin_ns) / size;
        if let Some(sum) = sums.get_mut(&place).and_then(|s| s.get_mut(block as usize)) {
            sum.0 += d.length.as_f64();
            sum.1 += 1.0;
        }
    })?;
    for (place, sums) in &mut sums {
        let chosen = blocks::of(span(loops[place].1), size);
        *sums = chosen
            .filter_map(|b| sums.get((b.start / size) as usize).copied())
            .collect();
    }
    Ok(sums)
}

/// Quanta of one CPU: their work, undisturbed duration in nanoseconds, and series.
struct Quanta {
    /// The options with which the same work is done again.
    work: String,
    reference: f64,
    series: Series,
}

impl Quanta {
    fn begin(&self) -> u64 {
        let first = self.series.ends.first().zip(self.series.durations.first());
        first.map_or(0, |(end, duration)| end.saturating_sub(*duration))
    }

    fn span(&self) -> u64 {
        let last = self.series.ends.last().copied().unwrap_or(0);
        last.saturating_sub(self.begin())
    }

    /// Mean duration of the quanta that end in each block; blocks without any are left out.
    fn means(&self, size: u64) -> Vec<f64> {
        let (begin, ends) = (self.begin(), &self.series.ends);
        let place = |at: u64| ends.partition_point(|&end| end - begin < at);
        let mean = |block: std::ops::Range<u64>| {
            let of_block = &self.series.durations[place(block.start)..place(block.end)];
            let sum: u64 = of_block.iter().sum();
            (!of_block.is_empty()).then(|| sum as f64 / of_block.len() as f64)
        };
        blocks::of(self.span(), size).filter_map(mean).collect()
    }
}

/// Quanta of one phase on one CPU, in order of time.
#[derive(Default)]
struct Series {
    /// When each ended.
    ends: Vec<u64>,
    /// Nanoseconds.
    durations: Vec<u64>,
}

/// The quanta of every phase and CPU.
fn series(run: &RunReader) -> Result<BTreeMap<u32, BTreeMap<Cpu, Series>>, ExplainError> {
    let mut found: BTreeMap<u32, BTreeMap<Cpu, Series>> = BTreeMap::new();
    run.for_each::<tables::Quanta>(|q| {
        let series = found.entry(q.phase).or_default().entry(q.cpu).or_default();
        let end = q.begin_ns.saturating_add(q.duration.get());
        series.ends.push(end);
        series.durations.push(q.duration.get());
    })?;
    Ok(found)
}

/// The quanta of every CPU, of its last phase.
fn quanta((run, findings): Explained<'_>) -> Result<BTreeMap<Place, Quanta>, ExplainError> {
    let mut of_phases = series(run)?;
    let mut all = BTreeMap::new();
    for (index, phase) in run.manifest().phases.iter().enumerate() {
        let PhaseKind::FixedWork {
            node,
            work_steps,
            kernel,
            array,
        } = phase.kind
        else {
            continue;
        };
        let same = format!("--work {work_steps}{}", kernel.options(array));
        for (cpu, series) in of_phases.remove(&(index as u32)).unwrap_or_default() {
            let mut cpus = findings.cpus.iter();
            let noise = cpus.find(|noise| (noise.node, noise.cpu) == (node, cpu));
            let found = noise.and_then(|noise| noise.fixed_work.as_ref());
            if let Some(found) = found {
                let quanta = Quanta {
                    work: same.clone(),
                    reference: found.reference.as_f64().max(1.0),
                    series,
                };
                all.insert((node, cpu), quanta);
            }
        }
    }
    Ok(all)
}

fn work(runs: [Explained<'_>; 2], found: &mut Comparison) -> Result<(), ExplainError> {
    let [a, b] = runs.map(quanta);
    let both = [a?, b?];
    only_one(found, "fixed work", &both);
    if both.iter().any(BTreeMap::is_empty) {
        return Ok(());
    }
    let all = || both.iter().flat_map(|quanta| quanta.values());
    let size = blocks::size(all().map(Quanta::span));
    let means = both.each_ref().map(|quanta| -> Values {
        quanta
            .iter()
            .map(|(&place, q)| (place, q.means(size)))
            .collect()
    });
    let mut works = all().map(|q| q.work.as_str());
    let first = works.next().unwrap_or_default();
    match works.find(|&work| work != first) {
        None => add(found, Quantity::QuantumTime, &means),
        Some(other) => found.not_compared.push(format!(
            "times of a quantum: one is {first}, another {other}, so only their slow-down is \
             compared (for times, measure both with the same options)"
        )),
    }
    let slowdowns = [0, 1].map(|i| -> Values {
        let relative = |place: &Place, mean: f64| mean / both[i][place].reference - 1.0;
        let of = |(place, means): (&Place, &Vec<f64>)| {
            let relative = means.iter().map(|&mean| relative(place, mean));
            (*place, relative.collect())
        };
        means[i].iter().map(of).collect()
    });
    add(found, Quantity::QuantumSlowdown, &slowdowns);
    Ok(())
}
