//! Lockstep runs of two runs, and computations that all ranks repeat.

use super::blocks;
use super::comparison::{Comparison, Explained};
use super::row::{Quantity, Subject};
use crate::ExplainError;
use crate::jitter::step_series;
use crate::lockstep::{last_arrivals, read_series};
use crate::step_series::StepSeries;
use idlewave_run::findings::LockstepFindings;
use idlewave_run::{Manifest, PhaseKind, RunReader};
use idlewave_stats::step_times::StepTimes;

pub fn compare(runs: [Explained<'_>; 2], found: &mut Comparison) -> Result<(), ExplainError> {
    let steps = runs.map(|(_, findings)| &findings.lockstep[..]);
    for (a, b) in pairs(
        steps,
        |l| (l.name.clone(), l.ranks as usize),
        found,
        "steps",
    ) {
        lockstep(runs.map(|(run, _)| run), [a, b], found)?;
    }
    let [a, b] = runs.map(|(run, _)| step_series(run));
    let (a, b) = (a?, b?);
    for (a, b) in pairs([&a, &b], key, found, "") {
        let manifests = runs.map(|(run, _)| run.manifest());
        series([a, b], is_same_work(manifests, [a.phase, b.phase]), found);
    }
    Ok(())
}

pub fn key(series: &StepSeries) -> (String, usize) {
    (series.name.clone(), series.ranks)
}

pub fn series([a, b]: [&StepSeries; 2], is_same_work: bool, found: &mut Comparison) {
    let subject = Subject::Computation {
        name: a.name.clone(),
        ranks: a.ranks as u32,
    };
    let times = [a, b].map(|s| StepTimes::new(&s.durations, s.ranks));
    computation(&subject, times, is_same_work, found);
}

/// What both runs have, by name and number of ranks: the first of a name with the first, the second
/// with the second. Notes what is left over.
pub fn pairs<'a, T>(
    [a, b]: [&'a [T]; 2],
    key: impl Fn(&T) -> (String, usize),
    found: &mut Comparison,
    what: &str,
) -> Vec<(&'a T, &'a T)> {
    let mut left: Vec<&T> = b.iter().collect();
    let mut both = Vec::new();
    let mut alone = Vec::new();
    for mine in a {
        match left.iter().position(|other| key(other) == key(mine)) {
            Some(place) => both.push((mine, left.remove(place))),
            None => alone.push((mine, "A")),
        }
    }
    alone.extend(left.into_iter().map(|other| (other, "B")));
    for (one, letter) in alone {
        let (name, ranks) = key(one);
        let what = format!("{what} of {name}, {ranks} ranks ({letter})");
        let what = what.trim_start_matches(" of ");
        found.only_one.push(what.to_owned());
    }
    both
}

/// Whether ranks do the same work in these phases, with messages of the same size.
fn is_same_work(manifests: [&Manifest; 2], phases: [u32; 2]) -> bool {
    let [a, b] = [0, 1].map(|i| manifests[i].phases.get(phases[i] as usize).map(|p| &p.kind));
    match (a, b) {
        (
            Some(PhaseKind::Lockstep {
                work_steps,
                message_bytes,
                sides,
                variant,
                ..
            }),
            Some(PhaseKind::Lockstep {
                work_steps: other_steps,
                message_bytes: other_bytes,
                sides: other_sides,
                variant: other_variant,
                ..
            }),
        ) => {
            (work_steps, message_bytes, sides, variant)
                == (other_steps, other_bytes, other_sides, other_variant)
        }
        (
            Some(PhaseKind::MolecularDynamics {
                particles_per_rank, ..
            }),
            Some(PhaseKind::MolecularDynamics {
                particles_per_rank: other,
                ..
            }),
        ) => particles_per_rank == other,
        (Some(PhaseKind::Benchmark(sheet)), Some(PhaseKind::Benchmark(other))) => {
            sheet.benchmark == other.benchmark
        }
        _ => true,
    }
}

/// Step times, if the work is the same, and slow-down.
fn lockstep(
    runs: [&RunReader; 2],
    findings: [&LockstepFindings; 2],
    found: &mut Comparison,
) -> Result<(), ExplainError> {
    let [a, b] = [0, 1].map(|i| arrivals(runs[i], findings[i]));
    let both = [a?, b?];
    let subject = Subject::Lockstep {
        name: findings[0].name.clone(),
        ranks: findings[0].ranks,
    };
    let steps = both
        .each_ref()
        .map(|times| times.len().saturating_sub(1) as u64);
    let size = blocks::size(steps);
    let means = [0, 1].map(|i| -> Vec<f64> {
        let at = |step: u64| both[i][step as usize];
        let mean = |b: std::ops::Range<u64>| (at(b.end) - at(b.start)) as f64 / size as f64;
        blocks::of(steps[i], size).map(mean).collect()
    });
    let manifests = runs.map(RunReader::manifest);
    if is_same_work(manifests, findings.map(|f| f.phase)) {
        found.add(&subject, Quantity::StepTime, means.clone());
    } else {
        found.not_compared.push(format!(
            "times of {subject}: work or messages of a step differ, so only slow-down and efficiency \
             are compared"
        ));
    }
    let slowdowns = [0, 1].map(|i| {
        let undisturbed = findings[i].step.as_f64().max(1.0);
        means[i]
            .iter()
            .map(|mean| mean / undisturbed - 1.0)
            .collect()
    });
    found.add(&subject, Quantity::StepSlowdown, slowdowns);
    Ok(())
}

/// The start of a lockstep run, and the last arrival of every step, in rising order.
fn arrivals(run: &RunReader, findings: &LockstepFindings) -> Result<Vec<u64>, ExplainError> {
    let series = read_series(run, findings.phase, findings.ranks as usize)?;
    let start = series.iter().filter_map(|s| s.begin.first().copied()).min();
    let mut times: Vec<u64> = start.into_iter().collect();
    times.extend(last_arrivals(&series));
    // Clocks of several nodes may disagree by a little.
    let mut latest = 0;
    for time in &mut times {
        latest = latest.max(*time);
        *time = latest;
    }
    Ok(times)
}

/// Mean, deviation and slowest, if the work is the same, and efficiency.
fn computation(
    subject: &Subject,
    both: [StepTimes<'_>; 2],
    is_same_work: bool,
    found: &mut Comparison,
) {
    let size = blocks::size(both.iter().map(|times| times.steps() as u64));
    let values = both.map(|times| -> Vec<Block> {
        let of = |steps: std::ops::Range<u64>| Block::of(&times, steps);
        blocks::of(times.steps() as u64, size)
            .filter_map(of)
            .collect()
    });
    let mut add = |quantity, part: fn(&Block) -> f64| {
        let values = values.each_ref().map(|v| v.iter().map(part).collect());
        found.add(subject, quantity, values);
    };
    if is_same_work {
        add(Quantity::Mean, |block| block.mean);
        add(Quantity::Deviation, |block| block.deviation);
        add(Quantity::Slowest, |block| block.slowest);
    }
    // A single rank waits for nobody.
    if both[0].ranks() > 1 {
        add(Quantity::Efficiency, |block| block.efficiency);
    }
}

/// Some successive steps of all ranks.
struct Block {
    mean: f64,
    deviation: f64,
    slowest: f64,
    efficiency: f64,
}

impl Block {
    /// `None` if all durations are 0.
    fn of(times: &StepTimes<'_>, steps: std::ops::Range<u64>) -> Option<Self> {
        let (mut sum, mut slowest, mut maxima) = (0.0, 0_u64, 0.0);
        let all = || steps.clone().map(|step| times.step(step as usize));
        for step in all() {
            let most = step.iter().copied().max().unwrap_or(0);
            sum += step.iter().map(|&d| d as f64).sum::<f64>();
            maxima += most as f64;
            slowest = slowest.max(most);
        }
        let n = (steps.end - steps.start) as f64 * times.ranks() as f64;
        let mean = sum / n;
        let squares = all()
            .flatten()
            .map(|&d| (d as f64 - mean).powi(2))
            .sum::<f64>();
        (slowest > 0).then(|| Self {
            mean,
            deviation: (squares / (n - 1.0).max(1.0)).sqrt(),
            slowest: slowest as f64,
            efficiency: sum / times.ranks() as f64 / maxima,
        })
    }
}
