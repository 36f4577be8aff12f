//! `idlewave measure`: turns options into a measurement and prints its outcome.

mod benchmarks;
mod cpus;
mod list;
mod shared;
mod smt;
mod step;

use crate::exit::{Exit, Failure};
use crate::json::Begun;
use crate::output::print;
use crate::progress::Bars;
use benchmarks::{HaloArgs, IsArgs, NpbArgs};
use clap::{Args, Subcommand, ValueEnum};
use cpus::{DetourArgs, FtqArgs, FwqArgs, LoadSweepArgs, WarmUpArgs};
use idlewave_fabric::netctx::device::Attachment;
use idlewave_measure::{
    Ended, MeasureError, MeasureOptions, Outcome, Results, Scaling, What, measure, render,
};
use idlewave_mpi::{Launch, MpiError};
use idlewave_run::{Coupling, ExchangeVariant};
use idlewave_session::Stop;
use idlewave_units::Nanos;
use shared::{KeepArgs, OutputArgs, RanksArgs, ScaleArgs, ScalingArg, command, failure};
use smt::SmtArgs;
use step::StepsArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave measure exchange
  idlewave measure exchange --dims 2 --wait overlapped --ranks 4
  idlewave measure exchange --wait blocking,nonblocking,overlapped
  mpirun -n 4 idlewave measure allreduce --work 100us -o run
  mpirun -n 4 idlewave measure exchange --scaling weak --ranks 1,2,4
  mpirun -n 4 idlewave measure barrier --mpi-of ./app
  mpirun -n 4 idlewave measure md --particles 32000 --duration 10s -o fluid
  mpirun -n 4 idlewave measure npb cg --class A -o run
  idlewave measure npb all
  mpirun -n 4 idlewave measure npb ep --class A --scaling strong
  mpirun -n 4 idlewave measure is --class A
  idlewave measure halo --cells 64 --steps 100 --dims 3
  mpirun -n 4 idlewave measure halo --scaling weak
  idlewave measure pingpong --ranks 2 --json
  idlewave measure detour --duration 1min -o detours
  idlewave measure fwq --work 100000 --runs 100000
  idlewave measure fwq --kernel stream
  idlewave measure ftq --every 100us
  idlewave measure warmup
  idlewave measure load-sweep -o sweep
  idlewave measure step docs/examples/smt-off.csv docs/examples/smt-on.csv")]
pub struct MeasureArgs {
    #[command(subcommand)]
    what: Measurement,
}

#[derive(Debug, Subcommand)]
enum Measurement {
    #[command(flatten)]
    OfRanks(OfRanks),
    /// When, for how long and by whom every CPU of this node is taken from a loop that only reads
    /// the clock
    Detour(DetourArgs),
    /// How long the same work takes on every CPU of this node, again and again
    Fwq(FwqArgs),
    /// How much work fits into equal times on every CPU of this node
    Ftq(FtqArgs),
    /// Whether the same work takes longer after the CPUs were idle, and for how long
    #[command(name = "warmup")]
    WarmUp(WarmUpArgs),
    /// Detours, and how long the same work takes, with one busy CPU, two, and so on to all
    LoadSweep(LoadSweepArgs),
    /// How much equal computations vary, and what the slowest cost, while the other hardware threads
    /// of the cores are idle, free for the kernel, or busy
    Smt(SmtArgs),
    /// How much a computation that every rank of a program repeats varies, and what waiting for the
    /// slowest costs: from its times in a file, or from a run; two are compared
    Step(StepsArgs),
    /// All measurements, with their options and an example
    List,
}

/// What ranks measure together.
#[derive(Debug, Subcommand)]
enum OfRanks {
    /// Compute, then exchange messages with the neighbours on a periodic grid
    Exchange(ExchangeArgs),
    /// Compute, then meet in a barrier
    Barrier(StepArgs),
    /// Compute, then combine values for all ranks
    Allreduce(StepArgs),
    /// Compute, then combine values for rank 0
    Reduce(StepArgs),
    /// Compute, then send a message from every rank to every rank
    Alltoall(StepArgs),
    /// Send messages back and forth between pairs of ranks
    Pingpong(PingPongArgs),
    /// Molecular dynamics (Lennard-Jones fluid): how much equal computations vary, and what the
    /// slowest cost
    Md(MdArgs),
    /// The NAS Parallel Benchmarks, one or all: where each rank's time goes
    Npb(NpbArgs),
    /// Integer sort of the NAS Parallel Benchmarks: where each rank's time goes
    Is(IsArgs),
    /// Stencil with halo exchange: where each rank's time goes
    Halo(HaloArgs),
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// Time per series, from 100ms to 60min
    #[arg(long, default_value = "3s", value_name = "TIME")]
    duration: Nanos,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct StepArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    ranks: RanksArgs,
    /// Computation per iteration, from 1us to 1s
    #[arg(long, default_value = "20us", value_name = "TIME")]
    work: Nanos,
    /// Bytes per message [default: 1024], or per rank in a collective [default: 8]
    #[arg(long, value_name = "N")]
    bytes: Option<u64>,
    /// Run once with each number of ranks given; strong divides the work among them
    #[arg(long, value_enum)]
    scaling: Option<ScalingArg>,
    #[command(flatten)]
    keep: KeepArgs,
}

#[derive(Debug, Args)]
struct ExchangeArgs {
    #[command(flatten)]
    step: StepArgs,
    /// Dimensions of the grid of ranks, 1 to 3
    #[arg(long, default_value_t = 1, value_name = "N")]
    dims: u32,
    /// How the exchange is programmed; of several ways, each is compared with the first
    #[arg(long, value_enum, value_delimiter = ',', default_value = "nonblocking")]
    wait: Vec<WaitArg>,
}

#[derive(Debug, Args)]
struct PingPongArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    ranks: RanksArgs,
    /// Simultaneous pairs: rank i with rank i + half of the ranks
    #[arg(long, default_value_t = 1, value_name = "N")]
    pairs: u32,
    /// Size of the largest message
    #[arg(long, default_value_t = 4 << 20, value_name = "N")]
    bytes: u64,
    #[command(flatten)]
    keep: KeepArgs,
}

#[derive(Debug, Args)]
struct MdArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    ranks: RanksArgs,
    /// Particles per rank, rounded to a cube of lattice cells
    #[arg(long, default_value_t = 4_000, value_name = "N")]
    particles: u64,
    /// Number of steps, instead of a time
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    steps: Option<u64>,
    /// Seed of the velocities
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Sum the energy every N steps; 0 for never
    #[arg(long, default_value_t = 100, value_name = "N")]
    energy_every: u64,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    scale: ScaleArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WaitArg {
    Blocking,
    Nonblocking,
    Overlapped,
}

impl CommonArgs {
    fn options(self, what: What) -> (MeasureOptions, bool) {
        let (mut options, json) = self.output.options(what);
        options.duration = self.duration;
        (options, json)
    }
}

impl OutputArgs {
    fn options(self, what: What) -> (MeasureOptions, bool) {
        let mut options = MeasureOptions::new(what);
        options.cpus = self.cpus;
        options.command = command();
        (options, self.json)
    }
}

impl StepArgs {
    fn options(
        self,
        coupling: Coupling,
        dims: u32,
        variants: Vec<ExchangeVariant>,
    ) -> (MeasureOptions, bool) {
        let what = What::Lockstep {
            coupling,
            dims,
            variants,
            bytes: self.bytes,
        };
        let (mut options, json) = self.common.options(what);
        self.ranks.fill(&mut options);
        options.work = self.work;
        options.scaling = self.scaling.map(Scaling::from);
        self.keep.fill(&mut options);
        (options, json)
    }
}

impl OfRanks {
    fn options(self) -> (MeasureOptions, bool) {
        let plain = |step: StepArgs, coupling| {
            step.options(coupling, 1, vec![ExchangeVariant::NonBlocking])
        };
        match self {
            Self::Exchange(args) => {
                let variant = |wait| match wait {
                    WaitArg::Blocking => ExchangeVariant::Blocking,
                    WaitArg::Nonblocking => ExchangeVariant::NonBlocking,
                    WaitArg::Overlapped => ExchangeVariant::Overlapped,
                };
                let variants = args.wait.into_iter().map(variant).collect();
                args.step.options(Coupling::Neighbours, args.dims, variants)
            }
            Self::Barrier(step) => plain(step, Coupling::Barrier),
            Self::Allreduce(step) => plain(step, Coupling::Allreduce),
            Self::Reduce(step) => plain(step, Coupling::Reduce),
            Self::Alltoall(step) => plain(step, Coupling::Alltoall),
            Self::Pingpong(args) => {
                let what = What::PingPong {
                    pairs: Some(args.pairs),
                    most_bytes: args.bytes,
                };
                let (mut options, json) = args.common.options(what);
                args.ranks.fill(&mut options);
                args.keep.fill(&mut options);
                (options, json)
            }
            Self::Md(args) => {
                let what = What::MolecularDynamics {
                    particles: args.particles,
                    steps: args.steps,
                    energy_every: args.energy_every,
                    seed: args.seed,
                };
                let (mut options, json) = args.common.options(what);
                args.ranks.fill(&mut options);
                args.keep.fill(&mut options);
                args.scale.fill(&mut options);
                (options, json)
            }
            Self::Npb(args) => args.options(),
            Self::Is(args) => args.options(),
            Self::Halo(args) => args.options(),
        }
    }
}

/// Runs the command.
pub fn run_measure(args: MeasureArgs, stop: &Stop) -> Result<(), Failure> {
    match args.what {
        Measurement::OfRanks(what) => run_ranks(what, stop),
        Measurement::Detour(args) => args.run(stop),
        Measurement::Fwq(args) => args.run(stop),
        Measurement::Ftq(args) => args.run(stop),
        Measurement::WarmUp(args) => args.run(stop),
        Measurement::LoadSweep(args) => args.run(stop),
        Measurement::Smt(args) => args.run(stop),
        Measurement::Step(args) => args.run(stop),
        Measurement::List => print(&list::text()),
    }
}

/// In a job, rank 0 prints; a failure that all ranks share is printed by one of them.
fn run_ranks(what: OfRanks, stop: &Stop) -> Result<(), Failure> {
    let (options, json) = what.options();
    let launched = rank_of_this_process();
    let begun = Begun::now();
    let bars = Bars::new(!json && launched == 0);
    let done = measure(&options, stop, &bars);
    bars.finish();
    match of_job(done, launched)? {
        None => Ok(()),
        Some(outcome) => {
            printed(begun, &outcome, json)?;
            verified(&outcome.results)
        }
    }
}

fn printed(begun: Begun, outcome: &Outcome, json: bool) -> Result<(), Failure> {
    match json {
        true => {
            let nodes = outcome.place.nodes.clone();
            let header = begun.header(nodes, outcome.interrupted, &outcome.machine);
            crate::json::print_below(header, outcome)
        }
        false => print(&render(outcome)),
    }
}

/// A failure if one of several benchmarks had a wrong result; of a single one it is an error.
fn verified(results: &Results) -> Result<(), Failure> {
    let Results::Benchmarks { rows } = results else {
        return Ok(());
    };
    let wrong = rows
        .iter()
        .filter(|r| matches!(r.ended, Ended::Wrong { .. }));
    let wrong: Vec<&str> = wrong.map(|row| row.benchmark.as_str()).collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => {
            let what = format!("verify {}", wrong.join(", "));
            let next = "run it again; if it is wrong again, on other nodes, with another MPI library, or between threads";
            Err(Failure::new(Exit::Other, what).with_next(next))
        }
    }
}

/// The rank of this process in its job; 0 if it is alone.
pub fn rank_of_this_process() -> u32 {
    // Errors in the environment are reported where it is used.
    let of_gang = Attachment::of_this_process().ok().flatten();
    let of_gang = of_gang.map(|attachment| attachment.rank);
    of_gang.unwrap_or_else(|| Launch::of_this_process().map_or(0, |launch| launch.rank))
}

/// The result on one rank of a job. A failure that all ranks share is printed by the first; the
/// others exit at once with its code.
pub fn of_job<T>(done: Result<T, MeasureError>, launched: u32) -> Result<T, Failure> {
    done.map_err(|error| {
        let silent = launched > 0 && is_shared(&error);
        let failure = failure(error);
        if silent {
            std::process::exit(i32::from(failure.exit.code()));
        }
        failure
    })
}

/// Whether every rank of the job meets the same failure.
fn is_shared(error: &MeasureError) -> bool {
    use idlewave_fabric::FabricError::Mpi;
    match error {
        MeasureError::Recording(_) | MeasureError::Benchmark(_) => true,
        MeasureError::Fabric(Mpi(error)) => !matches!(error, MpiError::Call { .. }),
        _ => false,
    }
}
