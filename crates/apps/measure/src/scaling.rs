//! A benchmark or molecular dynamics at several numbers of ranks, which take turns.
//!
//! The numbers take turns in rounds, upwards and downwards, so that whatever else changes on the
//! machine concerns all of them. In each round, the operations per second and rank of every number
//! are divided by those of the first; the efficiency is the median ratio over the rounds, with the
//! interval of order statistics.

use crate::benchmark::{self, Refusal};
use crate::first::on_first;
use crate::iterations::Iterations;
use crate::keeping::Keeping;
use crate::md::{self, Record};
use crate::ranks::Ranks;
use crate::{MeasureError, MeasureOptions, What, gather};
use idlewave_clock::Calibration;
use idlewave_fabric::Fabric;
use idlewave_run::{Phase, PhaseKind, Scaling, ScalingPoint, ScalingSheet};
use idlewave_session::{Progress, SessionError, Stop};
use idlewave_stats::quantiles;
use idlewave_stats::step_times::StepTimes;
use idlewave_units::{Nanos, counted};
use idlewave_workloads::Benchmark;
use idlewave_workloads::halo::Halo;
use idlewave_workloads::md::{cells_for, particles_in};

/// The program at one number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Benchmark(Benchmark),
    /// A fluid with a box of so many lattice cells along each edge per rank.
    Fluid(u32),
}

impl Program {
    /// At `number` ranks, if the options describe it at `first` ranks; or why there is none.
    fn at(what: &What, scaling: Scaling, first: u32, number: u32) -> Result<Self, String> {
        match what {
            What::Benchmark(Benchmark::Halo(halo)) if scaling == Scaling::Strong => {
                divided(halo, first, number).map(|halo| Self::Benchmark(Benchmark::Halo(halo)))
            }
            What::Benchmark(benchmark) => match benchmark.refusal(number) {
                Some(reason) => Err(reason),
                None => Ok(Self::Benchmark(*benchmark)),
            },
            What::MolecularDynamics { particles, .. } => {
                let wanted = match scaling {
                    Scaling::Weak => *particles,
                    Scaling::Strong => particles * u64::from(first) / u64::from(number),
                };
                let cells = cells_for(wanted);
                match scaling == Scaling::Strong && particles_in(cells) > 2 * wanted {
                    true => Err(format!(
                        "a rank cannot have fewer than {} particles",
                        particles_in(cells)
                    )),
                    false => Ok(Self::Fluid(cells)),
                }
            }
            _ => Err("it has no scaling of its own".to_owned()),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Benchmark(benchmark) => benchmark.to_string(),
            Self::Fluid(cells) => format!("md:{}", particles_in(cells)),
        }
    }
}

/// The cells of the whole grid at `first` ranks, divided among `number`.
fn divided(halo: &Halo, first: u32, number: u32) -> Result<Halo, String> {
    let (from, to) = (halo.sides(first), halo.sides(number));
    let mut cells = halo.cells;
    for (d, cells) in cells.iter_mut().enumerate() {
        let all = *cells * from[d];
        if all % to[d] != 0 {
            let sides = to.map(|side| side.to_string()).join(" x ");
            return Err(format!("{all} cells cannot be divided among {sides} ranks"));
        }
        *cells = all / to[d];
    }
    let halo = Halo { cells, ..*halo };
    halo.check().map(|()| halo)
}

/// A run at one number of ranks, on rank 0.
struct Run {
    operations: f64,
    time: Nanos,
    /// Mean time of a step.
    step: f64,
    /// Of all ranks, as far as the prediction needs them.
    computations: Vec<u64>,
}

/// Enters the run at a number of ranks into its round. The prediction of weak scaling needs the
/// computations of the first number, and all others would fill the memory.
fn enter(round: &mut [Option<Run>], place: usize, scaling: Scaling, mut run: Run) {
    if place > 0 || scaling == Scaling::Strong {
        run.computations = Vec::new();
    }
    round[place] = Some(run);
}

/// The time of molecular dynamics in one round, which is that of the options in all rounds together.
fn of_one_round(options: &MeasureOptions) -> Nanos {
    Nanos::from_nanos(options.duration.get() / u64::from(options.repeats.max(1)))
}

/// The numbers of ranks that fit, with the program at each.
fn numbers(
    options: &MeasureOptions,
    scaling: Scaling,
    size: u32,
) -> Result<Vec<(u32, Program)>, MeasureError> {
    let all = options.numbers(size)?;
    let told = !options.ranks.is_empty();
    let mut fit: Vec<(u32, Program)> = Vec::new();
    for number in all {
        let first = fit.first().map_or(number, |(first, _)| *first);
        match Program::at(&options.what, scaling, first, number) {
            Ok(program) => fit.push((number, program)),
            Err(reason) if told => {
                let option = format!("--ranks {number}");
                if let What::Benchmark(benchmark) = &options.what {
                    if let Some(refusal) = Refusal::of(benchmark, number) {
                        return Err(refusal.error(benchmark));
                    }
                }
                let next = "leave this number out, or change the size";
                return Err(MeasureError::option(option, reason, next));
            }
            Err(_) => {}
        }
    }
    match fit.len() {
        0 | 1 => Err(MeasureError::option(
            "--scaling",
            format!(
                "there are {}, and a series needs two numbers that fit",
                counted(size, "rank")
            ),
            "start more ranks, with the launcher or with --ranks 1,2,4",
        )),
        _ => Ok(fit),
    }
}

/// Measures; the sheet is on rank 0.
pub fn measure<F: Fabric>(
    fabric: &mut F,
    options: &MeasureOptions,
    ranks: &Ranks,
    mut calibration: Calibration,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<ScalingSheet>, MeasureError> {
    let Some(scaling) = options.scaling else {
        return Ok(None);
    };
    let all = numbers(options, scaling, fabric.size())?;
    // Everything is refused before anything is measured.
    let duration = of_one_round(options);
    for &(number, program) in &all {
        match program {
            Program::Benchmark(benchmark) => {
                if let Some(refusal) = benchmark::check(fabric, ranks, &benchmark, number)? {
                    return Err(refusal.error(&benchmark));
                }
            }
            Program::Fluid(cells) => {
                let target = (cells, number);
                md::plan(&options.what, target, duration, &calibration, stop)?;
            }
        }
    }
    let Some(mut keeping) = Keeping::begin(fabric, options, ranks, &calibration)? else {
        return Ok(None);
    };
    let leads = fabric.rank().get() == 0;
    // Per round, the run at each number.
    let mut rounds: Vec<Vec<Option<Run>>> = Vec::new();
    'rounds: for round in 0..options.repeats {
        rounds.push(all.iter().map(|_| None).collect());
        let mut order: Vec<usize> = (0..all.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for place in order {
            if !gather::agree(fabric, !stop.is_requested())? {
                break 'rounds;
            }
            let (number, program) = all[place];
            progress.part(&format!(
                "{} on {}, round {} of {}",
                program.name(),
                counted(number, "rank"),
                round + 1,
                options.repeats
            ));
            let run = match program {
                Program::Benchmark(benchmark) => {
                    let target = (&benchmark, number);
                    benchmark::run(fabric, target, ranks, false, &mut keeping, stop, progress)
                        .map(|run| run.as_ref().map(of_benchmark))
                }
                Program::Fluid(cells) => {
                    let target = (cells, number);
                    fluid(fabric, options, target, &mut calibration, stop, progress)
                }
            };
            if let Err(error @ MeasureError::Benchmark(_)) = run {
                // The run is kept, and says why it has no result.
                keeping.note(&error.to_string());
                // The wrong result counts more than a bundle that cannot be completed.
                let _ = keeping.finish(fabric, options, ranks, &mut calibration, stop);
                return Err(error);
            }
            let run = run?;
            // A halted run is shorter than the others.
            let whole = gather::agree(fabric, !stop.is_requested())?;
            if let Some(run) = run.filter(|_| whole) {
                enter(&mut rounds[round as usize], place, scaling, run);
            }
        }
    }
    let sheet = leads.then(|| sheet(scaling, &all, &rounds));
    if let Some(sheet) = &sheet {
        keeping.add(|bundle| {
            let phase = Phase {
                kind: PhaseKind::Scaling(sheet.clone()),
                begin_ns: 0,
                end_ns: 0,
            };
            bundle.add_regions(phase, |_, _| Ok(()))
        });
    }
    keeping.finish(fabric, options, ranks, &mut calibration, stop)?;
    match sheet {
        Some(sheet) if sheet.points.iter().all(|point| point.efficiency.is_none()) => {
            let kept = "no round was complete".to_owned();
            Err(SessionError::Interrupted { kept }.into())
        }
        sheet => Ok(sheet),
    }
}

fn of_benchmark(run: &benchmark::BenchmarkRun) -> Run {
    let steps: Vec<u64> = run.iterations.iter().flat_map(Iterations::times).collect();
    Run {
        operations: run.sheet.operations as f64,
        time: run.sheet.total(),
        step: steps.iter().sum::<u64>() as f64 / steps.len().max(1) as f64,
        computations: run
            .iterations
            .iter()
            .flat_map(Iterations::computations)
            .collect(),
    }
}

/// Molecular dynamics on the first ranks.
fn fluid<F: Fabric>(
    fabric: &mut F,
    options: &MeasureOptions,
    (cells, number): (u32, u32),
    calibration: &mut Calibration,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Run>, MeasureError> {
    let (what, target) = (&options.what, (cells, number));
    let Some(plan) = md::plan(what, target, of_one_round(options), calibration, stop)? else {
        return Ok(None);
    };
    let done = on_first(fabric, ("md", number), progress, |fabric| {
        md::run(fabric, &plan, calibration)
    })?;
    let words = done.map_or_else(Vec::new, |(_, record)| record.to_words());
    let Some(all) = gather::to_root(fabric, &words, number)? else {
        return Ok(None);
    };
    let records: Vec<Record> = all.iter().map(|words| Record::of_words(words)).collect();
    let steps = records.iter().map(Record::steps).min().unwrap_or(0);
    if steps == 0 {
        return Ok(None);
    }
    let times: Vec<(u64, u64)> = records.iter().flat_map(|r| r.times().take(steps)).collect();
    let of_rank = |record: &Record| record.times().take(steps).map(|t| t.0).sum::<u64>();
    let longest = records.iter().map(of_rank).max().unwrap_or(0);
    Ok(Some(Run {
        operations: (particles_in(cells) * u64::from(number)) as f64 * steps as f64,
        time: Nanos::from_nanos(longest),
        step: times.iter().map(|t| t.0).sum::<u64>() as f64 / times.len() as f64,
        computations: times.iter().map(|t| t.1).collect(),
    }))
}

fn sheet(scaling: Scaling, all: &[(u32, Program)], rounds: &[Vec<Option<Run>>]) -> ScalingSheet {
    let (operation, first) = match all.first() {
        Some((_, program @ Program::Benchmark(benchmark))) => {
            (benchmark.operation(), program.name())
        }
        Some((_, program)) => ("particle steps", program.name()),
        None => ("", String::new()),
    };
    let of = |place: usize| rounds.iter().filter_map(move |round| round[place].as_ref());
    let whole: Vec<Vec<&Run>> = rounds
        .iter()
        .filter_map(|round| round.iter().map(Option::as_ref).collect())
        .collect();
    let predicted = match scaling {
        Scaling::Weak => predictions(of(0), all),
        Scaling::Strong => Err(
            "the work of a rank changes with their number, and its noise was measured at one size"
                .to_owned(),
        ),
    };
    let points = all.iter().enumerate().map(|(place, &(ranks, program))| {
        let rate =
            |run: &Run, ranks: u32| run.operations / run.time.as_f64().max(1.0) / f64::from(ranks);
        let ratios: Vec<f64> = whole
            .iter()
            .map(|round| rate(round[place], ranks) / rate(round[0], all[0].0))
            .collect();
        ScalingPoint {
            ranks,
            program: program.name(),
            operations: of(place).map(|run| run.operations).collect(),
            times: of(place).map(|run| run.time).collect(),
            efficiency: (!ratios.is_empty()).then(|| quantiles::median_of_floats(&ratios)),
            predicted: predicted.as_ref().ok().and_then(|all| all[place]),
        }
    });
    ScalingSheet {
        program: first,
        scaling,
        operation: operation.to_owned(),
        points: points.collect(),
        not_predicted: predicted.err(),
    }
}

/// What noise alone leaves at each number of ranks: a step at the first number, longer by as much as
/// the expected maximum of the ranks' computations grows. Draws are independent, and communication
/// takes as long as at the first number.
fn predictions<'a>(
    first: impl Iterator<Item = &'a Run>,
    all: &[(u32, Program)],
) -> Result<Vec<Option<f64>>, String> {
    let (mut steps, mut sorted) = (Vec::new(), Vec::new());
    for run in first {
        steps.push(run.step);
        sorted.extend_from_slice(&run.computations);
    }
    sorted.sort_unstable();
    let step = steps.iter().sum::<f64>() / steps.len().max(1) as f64;
    let mean = sorted.iter().sum::<u64>() as f64 / sorted.len().max(1) as f64;
    let maximum = |ranks: u32| {
        let efficiency = StepTimes::efficiency_at(&sorted, ranks.into())?;
        Some(mean / efficiency)
    };
    let base = all.first().and_then(|(ranks, _)| maximum(*ranks));
    let at = |&(ranks, _): &(u32, Program)| Some(step / (step + maximum(ranks)? - base?));
    let found: Vec<Option<f64>> = all.iter().map(at).collect();
    match found.iter().skip(1).any(Option::is_some) {
        true => Ok(found),
        false => Err(format!(
            "{} of the first number of ranks are too few",
            counted(sorted.len() as u64, "computation")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn benchmark(name: &str) -> What {
        What::Benchmark(name.parse().expect("a name"))
    }

    fn fluid(particles: u64) -> What {
        What::MolecularDynamics {
            particles,
            steps: None,
            energy_every: 0,
            seed: 1,
        }
    }

    #[test]
    fn weak_scaling_keeps_the_size_of_a_rank_and_strong_that_of_all() {
        let name =
            |what: &What, scaling, number| Program::at(what, scaling, 1, number).map(Program::name);
        let halo = benchmark("halo:64");
        assert_eq!(name(&halo, Scaling::Weak, 6).as_deref(), Ok("halo:64"));
        // 2 x 2 x 1 ranks.
        assert_eq!(
            name(&halo, Scaling::Strong, 4).as_deref(),
            Ok("halo:32x32x64")
        );
        let none = name(&halo, Scaling::Strong, 3).expect_err("3 does not divide 64");
        assert!(
            none.contains("64 cells cannot be divided among 3 x 1 x 1"),
            "{none}"
        );
        let small = name(&benchmark("halo:8"), Scaling::Strong, 64).expect_err("2 cells");
        assert!(small.contains("from 4"), "{small}");
        assert_eq!(
            name(&benchmark("is:S"), Scaling::Strong, 4).as_deref(),
            Ok("is:S")
        );
        assert!(name(&benchmark("is:S"), Scaling::Strong, 1_024).is_err());
        assert_eq!(
            name(&fluid(4_000), Scaling::Weak, 8).as_deref(),
            Ok("md:4000")
        );
        assert_eq!(
            name(&fluid(32_000), Scaling::Strong, 8).as_deref(),
            Ok("md:4000")
        );
        assert!(name(&fluid(100), Scaling::Strong, 8).is_err());
    }

    #[test]
    fn the_numbers_that_fit_are_chosen_and_others_refused() {
        let mut options = MeasureOptions::new(benchmark("halo:64"));
        let fit = |options: &MeasureOptions, size| {
            let fit = numbers(options, Scaling::Strong, size)?;
            Ok::<_, MeasureError>(fit.into_iter().map(|(n, _)| n).collect::<Vec<u32>>())
        };
        options.scaling = Some(Scaling::Strong);
        // 6 is 3 x 2 x 1.
        assert_eq!(fit(&options, 6).ok(), Some(vec![1, 2, 4]));
        assert!(fit(&options, 1).is_err());
        options.ranks = vec![1, 3];
        let refused = fit(&options, 4).expect_err("3").to_string();
        assert!(refused.contains("--ranks 3"), "{refused}");
    }

    fn run(operations: f64, time: u64, computations: Vec<u64>) -> Run {
        Run {
            operations,
            time: Nanos::from_nanos(time),
            step: 20.0,
            computations,
        }
    }

    #[test]
    fn efficiency_is_the_rate_of_a_rank_over_that_of_the_first_number() {
        let program = Program::Benchmark("is:S".parse().expect("a name"));
        let all = [(1, program), (4, program)];
        let round = |one, four| {
            vec![
                Some(run(100.0, one, Vec::new())),
                Some(run(100.0, four, Vec::new())),
            ]
        };
        // Twice as fast on four ranks is half as efficient; the incomplete round does not count.
        let mut rounds: Vec<_> = [(80, 40), (100, 50), (60, 25)]
            .into_iter()
            .map(|(one, four)| round(one, four))
            .collect();
        rounds.push(vec![Some(run(100.0, 1, Vec::new())), None]);
        let found = sheet(Scaling::Strong, &all, &rounds);
        let value = |i: usize| found.points[i].efficiency.as_ref().map(|e| (e.value, e.n));
        assert_eq!((value(0), value(1)), (Some((1.0, 3)), Some((0.5, 3))));
        assert_eq!(found.points[0].times.len(), 4);
        assert!(
            found
                .not_predicted
                .is_some_and(|why| why.contains("one size"))
        );
    }

    #[test]
    fn only_the_computations_that_the_prediction_needs_are_kept() {
        let kept = |scaling| {
            let mut round = [None, None];
            for place in 0..2 {
                enter(&mut round, place, scaling, run(1.0, 1, vec![7; 3]));
            }
            round.map(|run| run.expect("entered").computations.len())
        };
        assert_eq!(kept(Scaling::Weak), [3, 0]);
        assert_eq!(kept(Scaling::Strong), [0, 0]);
    }

    /// The parts of the work.
    #[derive(Default)]
    struct Parts(std::sync::Mutex<Vec<String>>);

    impl Progress for Parts {
        fn part(&self, what: &str) {
            self.0.lock().expect("no panic").push(what.to_owned());
        }
        fn at(&self, _: f64) {}
        fn note(&self, _: &str) {}
    }

    fn series(what: What) -> MeasureOptions {
        let mut options = MeasureOptions::new(what);
        options.scaling = Some(Scaling::Weak);
        options.fabric = Some(crate::FabricChoice::Threads);
        options.ranks = vec![1, 2];
        options.repeats = 2;
        options.duration = Nanos::from_millis(100);
        options.trace = false;
        options
    }

    #[test]
    fn the_progress_says_program_ranks_and_round() {
        for (what, name) in [
            (benchmark("halo:8,steps=2"), "halo:8,steps=2"),
            (fluid(4_000), "md:4000"),
        ] {
            let progress = Parts::default();
            let found = crate::measure(&series(what), &Stop::default(), &progress);
            assert!(found.is_ok_and(|found| found.is_some()));
            let parts = progress.0.into_inner().expect("no panic");
            let of = |ranks: &str, round| format!("{name} on {ranks}, round {round} of 2");
            let [one, two] = ["1 rank", "2 ranks"];
            assert_eq!(parts, [of(one, 1), of(two, 1), of(two, 2), of(one, 2)]);
        }
    }

    #[test]
    fn more_steps_than_the_most_ranks_can_keep_are_refused_before_anything_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut what = fluid(4_000);
        if let What::MolecularDynamics { steps, .. } = &mut what {
            *steps = Some(crate::options::MOST_STEPS);
        }
        let mut options = series(what);
        let path = directory.path().join("run");
        options.output = Some(path.clone());
        let progress = Parts::default();
        let refused = crate::measure(&options, &Stop::default(), &progress);
        let refused = refused.expect_err("room for half of them").to_string();
        assert!(refused.contains("more than 2 ranks can keep"), "{refused}");
        let parts = progress.0.into_inner().expect("no panic");
        assert_eq!((parts, path.exists()), (Vec::new(), false));
    }

    #[test]
    fn the_prediction_adds_what_the_maximum_of_the_computations_grows_by() {
        let fluid = Program::Fluid(10);
        let all = [(1, fluid), (2, fluid), (64, fluid)];
        // 1 or 2, equally often: a maximum of 1.75 on two ranks, 1.5 on one.
        let coins: Vec<u64> = (0..100).map(|i| 1 + i % 2).collect();
        let first = [run(1.0, 1, coins)];
        let found = predictions(first.iter(), &all).expect("a prediction");
        assert_eq!(found[0], Some(1.0));
        assert!((found[1].expect("two of a hundred") - 20.0 / 20.25).abs() < 1e-9);
        // More than a tenth of the computations.
        assert_eq!(found[2], None);
        assert!(predictions([run(1.0, 1, vec![1; 9])].iter(), &all).is_err());
    }
}
