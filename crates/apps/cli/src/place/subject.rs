//! The program to place: recorded, a schedule, a workload, or a synthetic pattern.

use crate::exit::{Exit, Failure};
use crate::files::open_complete;
use clap::{Args, ValueEnum};
use idlewave_fabric::{Waiting, world};
use idlewave_network::{NetworkError, Part, Program};
use idlewave_pipeline::PipelineError;
use idlewave_place::{Loop, refuse_many};
use idlewave_replay::{ReplayError, ReplayOptions, schedule_of};
use idlewave_run::RunReader;
use idlewave_session::Stop;
use idlewave_simulate::collectives::{Algorithms, Kind, Library};
use idlewave_simulate::goal::{ReadError, Schedule};
use idlewave_simulate::{Shape, Stencil};
use idlewave_units::{Bytes, Nanos, ParseBytesError, counted};
use idlewave_workloads::npb::{self, Npb};
use idlewave_workloads::{Benchmark, is};
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Options that conflict with those of a pattern.
const NO_PATTERN: [&str; 3] = ["run", "goal", "workload"];

/// The program to place.
#[derive(Debug, Args)]
pub struct SubjectArgs {
    /// Recorded MPI program: a run made by `idlewave record`
    #[arg(long, value_name = "RUN", group = "program")]
    pub run: Option<PathBuf>,
    /// GOAL schedule, text or binary
    #[arg(long, value_name = "FILE", group = "program")]
    pub goal: Option<PathBuf>,
    /// Workload: is:CLASS (S to C); ep, cg, mg, ft, lu, sp or bt:CLASS (S to D); or halo:CELLS as in
    /// halo:64
    #[arg(long, value_name = "NAME", group = "program")]
    pub workload: Option<Benchmark>,
    /// Synthetic program: steps of computation and this communication
    #[arg(long, value_enum, value_name = "PATTERN", group = "program")]
    pub pattern: Option<PatternChoice>,
    /// Number of ranks of a workload or pattern
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub ranks: Option<u32>,
    /// Dimensions of a halo pattern, 1 to 3 [default: 3]
    #[arg(long, conflicts_with_all = NO_PATTERN, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=3))]
    pub dims: Option<u8>,
    /// Size of each message of a pattern, as in 64KiB
    #[arg(long, default_value = "64KiB", conflicts_with_all = NO_PATTERN, value_name = "SIZE")]
    pub bytes: Bytes,
    /// Computation per rank and step of a pattern [default: 1ms], or per iteration of a workload
    /// [default: measured now on one core of this machine]
    #[arg(long, value_name = "TIME", conflicts_with_all = ["run", "goal"])]
    pub work: Option<Nanos>,
    /// Number of steps of a pattern
    #[arg(long, default_value_t = 1_000, conflicts_with_all = NO_PATTERN, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: u32,
    /// Ranks per node when the computation was measured [default: as recorded, or 1]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub measured_with: Option<u32>,
    /// Memory per rank, as in 2GiB [default: that of the workload, otherwise unknown]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub memory_per_rank: Option<Bytes>,
    /// MPI library whose rules choose the algorithms of collectives: openmpi or mpich
    #[arg(
        long,
        default_value = "openmpi",
        conflicts_with = "goal",
        value_name = "LIBRARY"
    )]
    pub collectives: Library,
}

/// What the ranks of a synthetic program do in each step, besides computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PatternChoice {
    /// Exchange with the nearest neighbours on a periodic grid
    Halo,
    /// Send a message from every rank to every rank
    Alltoall,
    /// Combine values for all ranks
    Allreduce,
    /// Send values from rank 0 to all ranks
    Bcast,
    /// Send the values of each rank to all ranks
    Allgather,
    /// Send a message from each rank to the next one
    Pipeline,
}

/// Parses an amount of memory. A number without a unit would mean bytes, which hardly anyone
/// intends.
fn memory(text: &str) -> Result<Bytes, String> {
    let amount: Bytes = text.parse().map_err(|e: ParseBytesError| e.to_string())?;
    match text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        true => Ok(amount),
        false => Err(format!(
            "a number without a unit: write {text}GiB or {text}MiB, for example"
        )),
    }
}

/// A program and what is known about it.
pub struct Subject {
    /// A description in one line.
    pub what: String,
    /// The program, ready to be simulated.
    pub program: Program,
    /// How many times it runs in a row.
    pub times: f64,
    /// Ranks per node when its computation was measured.
    pub measured_with: u32,
    /// Memory of each rank.
    pub memory_per_rank: Option<Bytes>,
    /// Assumptions, one per line.
    pub notes: Vec<String>,
    /// Warnings about the answer, one per line.
    pub warnings: Vec<String>,
}

impl SubjectArgs {
    /// Checks that a program was given.
    ///
    /// # Errors
    /// No program was given.
    pub fn refuse_none(&self) -> Result<(), Failure> {
        let given = [
            self.run.is_some(),
            self.goal.is_some(),
            self.workload.is_some(),
            self.pattern.is_some(),
        ];
        match given.contains(&true) {
            true => Ok(()),
            false => Err(no_program()),
        }
    }

    /// Reads, generates or measures the program.
    pub fn subject(&self, stop: &Stop) -> Result<Subject, Failure> {
        let mut subject = match (&self.run, &self.goal, &self.workload, self.pattern) {
            (Some(run), ..) => self.recorded(run, stop),
            (_, Some(goal), ..) => self.schedule(goal),
            (_, _, Some(workload), _) => self.workload(workload),
            (.., Some(pattern)) => self.pattern(pattern),
            _ => Err(no_program()),
        }?;
        subject.memory_per_rank = self.memory_per_rank.or(subject.memory_per_rank);
        subject.measured_with = self.measured_with.unwrap_or(subject.measured_with);
        Ok(subject)
    }

    fn recorded(&self, path: &Path, stop: &Stop) -> Result<Subject, Failure> {
        self.no_ranks("--run")?;
        let run = open_complete(path, stop)?;
        let options = ReplayOptions {
            algorithms: Algorithms::of_library(self.collectives),
            ..ReplayOptions::default()
        };
        let failed = |error: ReplayError| {
            let what = format!("place {}: {error}", path.display());
            let failure = match error {
                ReplayError::Run(error) => PipelineError::from(error).into(),
                ReplayError::Explain(error) => PipelineError::from(error).into(),
                ReplayError::NoProgram(_) => Failure::new(Exit::Bundle, "").with_next(
                    "record a program that is linked with its MPI library; those of `idlewave measure`, which loads it \
                     later, are placed with --workload or --pattern",
                ),
                _ => Failure::new(Exit::Bundle, "")
                    .with_next("give a run of an MPI program that `idlewave record` made"),
            };
            Failure { what, ..failure }
        };
        let replay = schedule_of(&run, &options).map_err(failed)?;
        let notes = vec![
            "computation is the time between calls, less what other processes took from it in the run"
                .to_owned(),
        ];
        let what = format!(
            "recorded program {}, {}",
            path.display(),
            counted(replay.schedule.ranks(), "rank")
        );
        let placed = self.of_schedule(what, &replay.schedule, 1.0, ranks_per_node(&run), notes);
        let mut subject = placed?;
        subject.warnings.extend(run.manifest().busy_nodes());
        if !replay.left_out.entries().is_empty() {
            let count = replay.left_out.entries().len();
            subject.warnings.push(format!(
                "not simulated: {} of calls, which `idlewave simulate like` lists",
                counted(count, "kind")
            ));
        }
        Ok(subject)
    }

    fn schedule(&self, path: &Path) -> Result<Subject, Failure> {
        self.no_ranks("--goal")?;
        let failed = |exit, error: &dyn Display, next: &str| {
            Failure::new(exit, format!("read {}: {error}", path.display())).with_next(next)
        };
        let io = |error: io::Error| failed(Exit::Io, &error, "give a file that you may read");
        let file = File::open(path).map_err(io)?;
        let schedule = Schedule::read(file).map_err(|error| match error {
            ReadError::Io(error) => io(error),
            error => failed(
                Exit::Bundle,
                &error,
                "correct it; docs/simulate.md describes the format",
            ),
        })?;
        let ranks = counted(schedule.ranks(), "rank");
        let what = format!("schedule {}, {ranks}", path.display());
        self.of_schedule(what, &schedule, 1.0, 1, Vec::new())
    }

    fn no_ranks(&self, option: &str) -> Result<(), Failure> {
        match self.ranks {
            None => Ok(()),
            Some(ranks) => {
                let what = format!(
                    "place {ranks} of {option}, which has a fixed number of ranks",
                    ranks = counted(ranks, "rank")
                );
                Err(Failure::new(Exit::Usage, what).with_next("omit --ranks"))
            }
        }
    }

    fn ranks(&self) -> Result<u32, Failure> {
        self.ranks.ok_or_else(|| {
            let next = "give their number with --ranks";
            Failure::new(Exit::Usage, "place an unknown number of ranks").with_next(next)
        })
    }

    fn pattern(&self, pattern: PatternChoice) -> Result<Subject, Failure> {
        if let (Some(dims), true) = (self.dims, pattern != PatternChoice::Halo) {
            let what = format!("place a pattern with --dims {dims}: only halo has dimensions");
            return Err(Failure::new(Exit::Usage, what).with_next("omit --dims"));
        }
        let ranks = self.ranks()?;
        let (count, each) = (ranks as usize, self.bytes.get());
        let (name, part) = match pattern {
            PatternChoice::Halo => {
                let shape = match self.dims {
                    Some(1) => Shape::line(count),
                    Some(2) => Shape::plane(count),
                    _ => Shape::cuboid(count),
                };
                let sides: Vec<String> = shape.sides().iter().map(u32::to_string).collect();
                let name = format!("halo exchange on {}", sides.join("x"));
                (name, Part::Exchange(Stencil::nearest(shape), each))
            }
            PatternChoice::Alltoall => {
                ("all-to-all".into(), Part::Collective(Kind::Alltoall, each))
            }
            PatternChoice::Allreduce => {
                ("allreduce".into(), Part::Collective(Kind::Allreduce, each))
            }
            PatternChoice::Bcast => ("broadcast".into(), Part::Collective(Kind::Broadcast, each)),
            PatternChoice::Allgather => {
                ("allgather".into(), Part::Collective(Kind::Allgather, each))
            }
            PatternChoice::Pipeline => ("pipeline".into(), Part::Next(each)),
        };
        let work = self.work.unwrap_or(Nanos::from_millis(1));
        let what = format!(
            "{name}, {}, {} per message, {work} of computation, {}",
            counted(ranks, "rank"),
            self.bytes,
            counted(self.steps, "step")
        );
        let looped = Loop {
            ranks,
            step: vec![Part::Compute(work.get()), part],
            after_round: Vec::new(),
            steps_per_round: 1,
            steps: self.steps,
        };
        self.of_loop(what, &looped, Vec::new())
    }

    fn workload(&self, workload: &Benchmark) -> Result<Subject, Failure> {
        let ranks = self.ranks()?;
        let refused = |reason: &str| {
            let ranks = counted(ranks, "rank");
            let what = format!("place {ranks} of {workload}: {reason}");
            let next = "give other --ranks, or a larger workload";
            Failure::new(Exit::Usage, what).with_next(next)
        };
        if let Some(reason) = workload.refusal(ranks) {
            return Err(refused(&reason));
        }
        let mut notes = Vec::new();
        let work = match self.work {
            Some(work) => work.get(),
            None => {
                let (work, note) = measured_work(workload, ranks)?;
                notes.push(note);
                work
            }
        };
        if matches!(workload, Benchmark::Is(_)) {
            notes.push("keys are assumed to be spread evenly over pairs of ranks".to_owned());
        }
        let Some(looped) = Loop::of_workload(workload, ranks, work)? else {
            return Err(refused("its messages are not known"));
        };
        let steps = counted(looped.steps, "iteration");
        let what = format!("{workload}, {}, {steps}", counted(ranks, "rank"));
        let mut subject = self.of_loop(what, &looped, notes)?;
        subject.memory_per_rank = Some(workload.memory_per_rank(ranks));
        Ok(subject)
    }

    fn of_loop(
        &self,
        what: String,
        looped: &Loop,
        mut notes: Vec<String>,
    ) -> Result<Subject, Failure> {
        let (played, steps) = (looped.steps_played(), looped.steps);
        if steps > played {
            notes.push(format!(
                "{played} of {steps} are simulated; the time is scaled up",
                steps = counted(steps, "step")
            ));
        }
        let schedule = looped.schedule(&what, self.collectives)?;
        self.of_schedule(what, &schedule, looped.times(), 1, notes)
    }

    fn of_schedule(
        &self,
        what: String,
        schedule: &Schedule,
        times: f64,
        measured_with: u32,
        notes: Vec<String>,
    ) -> Result<Subject, Failure> {
        refuse_many(&what, schedule.operations())?;
        let program = Program::new(schedule).map_err(|error: NetworkError| {
            Failure::new(Exit::Bundle, format!("place {what}: {error}"))
                .with_next("give a program whose messages are all received, each from a known rank")
        })?;
        Ok(Subject {
            what,
            program,
            times,
            measured_with,
            memory_per_rank: None,
            notes,
            warnings: Vec::new(),
        })
    }
}

fn no_program() -> Failure {
    let next =
        "give --pattern PATTERN or --workload NAME with --ranks N, --run RUN, or --goal FILE";
    Failure::new(Exit::Usage, "place nothing: no program was given").with_next(next)
}

/// The most ranks on any node of a run; 1 if the run does not tell.
fn ranks_per_node(run: &RunReader) -> u32 {
    let mut counts = std::collections::BTreeMap::new();
    for rank in &run.manifest().ranks {
        *counts.entry(rank.node).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(1)
}

/// Measures the computation of one rank in one iteration, with one rank of a small problem on this
/// machine.
fn measured_work(workload: &Benchmark, ranks: u32) -> Result<(u64, String), Failure> {
    let (small, scale) = match workload {
        Benchmark::Is(class) => {
            let small = is::Class::W;
            let scale = class.keys() as f64 / small.keys() as f64 / f64::from(ranks);
            (Benchmark::Is(small), scale)
        }
        Benchmark::Halo(halo) => {
            let mut few = *halo;
            few.steps = few.steps.min(10);
            (Benchmark::Halo(few), 1.0)
        }
        Benchmark::Npb(npb) => {
            let small = Npb {
                class: npb::Class::W,
                ..*npb
            };
            let each = |npb: Npb| npb.operations() as f64 / npb.iterations() as f64;
            (
                Benchmark::Npb(small),
                each(*npb) / each(small) / f64::from(ranks),
            )
        }
    };
    let failed = |what: String| {
        Failure::new(Exit::NotPossible, what).with_next("give the computation time with --work")
    };
    let mut ends = world(1, Waiting::Spin);
    let Some(fabric) = ends.first_mut() else {
        return Err(failed(format!("measure {small}: no ranks")));
    };
    let done = small
        .run(fabric, &AtomicBool::new(false), &mut |_| ())
        .map_err(|error| failed(format!("measure {small}: {error}")))?;
    let compute = done.timed.parts.computation().as_secs_f64() / done.iterations.max(1) as f64;
    let ns = (compute * scale * 1e9).round() as u64;
    let note = format!(
        "{} of computation per rank and iteration, from {small} on one core of this machine, now; \
         `--work {ns}ns` gives the same result again",
        Nanos::from_nanos(ns)
    );
    Ok((ns, note))
}
