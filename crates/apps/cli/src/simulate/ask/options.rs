//! Options of `idlewave simulate stencil` and `collective`.

use super::lists::{Grains, RankNumbers};
use crate::simulate::nanos::nanos;
use clap::{Args, ValueEnum};
use idlewave_noise::Pattern;
use idlewave_simulate::bulk::{Algorithm, Collective, OneOff};
use idlewave_simulate::goal::{Parameters, PerByte};
use idlewave_units::{Bytes, Nanos};
use std::path::PathBuf;
use std::str::FromStr;

const STENCIL_EXAMPLES: &str = "\
Examples:
  idlewave simulate stencil --noise noise.toml --ranks 1e2..1e4 --dims 1,3
  idlewave simulate stencil --noise poisson:10ms:50us --granularity 10us..1ms
  idlewave simulate stencil --noise noise.toml --without 'timer*' --quiet-cpu 1
  idlewave simulate stencil --ranks 200 --delay 100,10,1ms";

const COLLECTIVE_EXAMPLES: &str = "\
Examples:
  idlewave simulate collective barrier --noise noise.toml --ranks 1e2..1e4
  idlewave simulate collective allreduce --algorithm ring --ranks 64";

const LIKE_EXAMPLES: &str = "\
Examples:
  idlewave simulate like before
  idlewave simulate like before --without 'timer*' --ranks 100
  idlewave simulate like two four
  idlewave simulate like two --latency 500 --algorithm allreduce=ring";

#[derive(Debug, Args)]
#[command(after_help = STENCIL_EXAMPLES)]
pub struct StencilArgs {
    /// Dimensions of the grid of ranks: a list of 1, 2 and 3
    #[arg(long, default_value = "1", value_delimiter = ',', value_name = "LIST",
          value_parser = clap::value_parser!(u8).range(1..=3))]
    pub dims: Vec<u8>,
    /// Neighbours on each side along each dimension
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub reach: u32,
    /// Do not wrap around at the ends of a dimension
    #[arg(long)]
    pub open: bool,
    /// Send to higher ranks only
    #[arg(long)]
    pub one_sided: bool,
    /// How a rank waits for the messages of its neighbours
    #[arg(long, value_enum, default_value_t = Waiting::All)]
    pub wait: Waiting,
    /// Duration of the communication itself, without waiting; instead of the message costs below
    #[arg(long, value_name = "TIME", conflicts_with_all = ["latency", "overhead", "gap", "gap_per_byte", "overhead_per_byte", "rendezvous"])]
    pub comm: Option<Nanos>,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = COLLECTIVE_EXAMPLES)]
pub struct CollectiveArgs {
    /// barrier, allreduce, bcast, reduce or alltoall
    #[arg(value_name = "OPERATION")]
    pub operation: Collective,
    /// binomial, dissemination, recursive-doubling, ring, rabenseifner, scatter-ring, pairwise or
    /// bruck [default: the usual one for short messages]
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<Algorithm>,
    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Args)]
#[command(after_help = LIKE_EXAMPLES)]
pub struct LikeArgs {
    /// Runs made by study, measure or record; given several, the one with the fewest ranks also
    /// predicts the others
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Numbers of ranks to predict besides the measured one: 1e3, a list, or 1e2..1e6 by factors of
    /// 10
    #[arg(long, value_name = "LIST")]
    pub ranks: Option<RankNumbers>,
    #[command(flatten)]
    pub noise: NoiseArgs,
    #[command(flatten)]
    pub effort: EffortArgs,
    #[command(flatten, next_help_heading = "For recorded programs only")]
    pub program: ProgramArgs,
    #[command(
        flatten,
        next_help_heading = "Message costs (as estimated from the run unless given)"
    )]
    pub costs: CostArgs,
}

/// Options for recorded programs only.
#[derive(Debug, Args)]
pub struct ProgramArgs {
    /// Keep the total work constant as the number of ranks changes [default: the work per rank]
    #[arg(long)]
    pub strong: bool,
    /// Algorithm for a collective [default: the usual one for its size]
    #[arg(long, value_name = "OPERATION=NAME")]
    pub algorithm: Vec<AlgorithmChoice>,
    /// Write the undisturbed schedule of the program as GOAL text; must not exist
    #[arg(long, value_name = "FILE")]
    pub write_goal: Option<PathBuf>,
}

impl LikeArgs {
    /// A given option that is for recorded programs only, if any.
    pub fn of_programs(&self) -> Option<&'static str> {
        let given = [
            ("--strong", self.program.strong),
            ("--algorithm", !self.program.algorithm.is_empty()),
            ("--write-goal", self.program.write_goal.is_some()),
            ("the costs of messages", self.costs.given()),
        ];
        given
            .iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| *name)
    }
}

/// How a rank waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Waiting {
    /// Send all, then receive in order of arrival
    All,
    /// Exchange with one neighbour after the other
    Blocking,
    /// Send all, compute, then wait
    Overlapped,
}

/// Options of the noise.
#[derive(Debug, Args)]
pub struct NoiseArgs {
    /// Noise: a run, a model file, periodic:PERIOD:LENGTH or poisson:MEAN-GAP:LENGTH; several add
    /// up
    #[arg(long, value_name = "NOISE")]
    pub noise: Vec<NoiseChoice>,
    /// Let every event strike all CPUs of all nodes at the same time
    #[arg(long)]
    pub cosched: bool,
    /// Stop the noise of a rank while it waits, so that waiting absorbs none of it
    #[arg(long)]
    pub exposure: bool,
    /// Keep N CPUs of every node free of ranks, and move all movable noise there
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub quiet_cpu: Option<u32>,
    /// CPUs per node [default: as the model says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub cpus_per_node: Option<u32>,
}

/// Options of the effort, and of what to compute.
#[derive(Debug, Args)]
pub struct EffortArgs {
    /// Number of steps to average [default: as many as the long-run mean needs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub steps: Option<u64>,
    /// Number of steps to discard first; the result is then the plain mean of the steps after them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    pub warm_up: Option<u64>,
    /// Simulate again without these sources, to see what removing them saves: a name or kind:name,
    /// with * for any characters
    #[arg(long, value_name = "SOURCES")]
    pub without: Vec<Pattern>,
    /// Number of sources to leave out one by one: those with the largest parts of the critical path
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=32))]
    pub sources: u8,
    /// Maximum number of replications
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub replications: u32,
    /// Stop when the interval is within this percentage of the slow-down on each side
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT", value_parser = percent)]
    pub precision: f64,
    /// Seed of all random numbers; the same seed gives the same numbers
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of the output files.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// Save the last point as a run, for explain and report; must not exist, or be empty
    #[arg(short, long, value_name = "RUN")]
    pub output: Option<PathBuf>,
    /// Write an HTML page with the curves, the map and the share of each source
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Options that both commands share.
#[derive(Debug, Args)]
pub struct CommonArgs {
    #[command(flatten)]
    pub noise: NoiseArgs,
    #[command(flatten)]
    pub effort: EffortArgs,
    #[command(flatten)]
    pub files: FileArgs,
    /// Numbers of ranks: 1e3, a list, or 1e2..1e6 by factors of 10
    #[arg(long, default_value = "1e3", value_name = "LIST")]
    pub ranks: RankNumbers,
    /// Computation per step: 100us, a list, or 10us..100ms by factors of 10
    #[arg(long, default_value = "100us", value_name = "LIST")]
    pub granularity: Grains,
    /// Vary the computation among ranks by up to this percentage, drawn once per rank
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT", value_parser = percent)]
    pub spread: f64,
    /// Multiply the computation of one rank by this factor
    #[arg(long, value_name = "RANK=FACTOR")]
    pub slow: Vec<SlowRank>,
    /// Delay one rank once, and follow the idle wave
    #[arg(long, value_name = "RANK,STEP,LENGTH")]
    pub delay: Option<DelayChoice>,
    /// Bytes per message
    #[arg(long, default_value_t = 8, value_name = "BYTES")]
    pub bytes: u64,
    #[command(flatten, next_help_heading = "Message costs (0 unless given)")]
    pub costs: CostArgs,
}

/// The parameters of LogGOPS.
#[derive(Debug, Args)]
pub struct CostArgs {
    /// L: time from the end of the sender's overhead to the first byte at the receiver
    #[arg(long, value_name = "TIME", value_parser = nanos)]
    pub latency: Option<Nanos>,
    /// o: CPU time per message, at the sender and at the receiver
    #[arg(long, value_name = "TIME", value_parser = nanos)]
    pub overhead: Option<Nanos>,
    /// g: minimum time between two messages
    #[arg(long, value_name = "TIME", value_parser = nanos)]
    pub gap: Option<Nanos>,
    /// G: ns per byte on the wire
    #[arg(long, value_name = "NS")]
    pub gap_per_byte: Option<PerByte>,
    /// O: ns per byte on the sender's CPU
    #[arg(long, value_name = "NS")]
    pub overhead_per_byte: Option<PerByte>,
    /// S: the sender of a message above this size waits for the receiver [default: none does]
    #[arg(long, value_name = "BYTES")]
    pub rendezvous: Option<u64>,
}

impl CostArgs {
    /// Whether any cost was given.
    pub fn given(&self) -> bool {
        let times = [self.latency, self.overhead, self.gap];
        let per_byte = [self.gap_per_byte, self.overhead_per_byte];
        times.iter().any(Option::is_some)
            || per_byte.iter().any(Option::is_some)
            || self.rendezvous.is_some()
    }

    /// These costs, with the given ones replaced.
    pub fn over(&self, costs: Parameters) -> Parameters {
        Parameters {
            latency: self.latency.unwrap_or(costs.latency),
            overhead: self.overhead.unwrap_or(costs.overhead),
            gap: self.gap.unwrap_or(costs.gap),
            gap_per_byte: self.gap_per_byte.unwrap_or(costs.gap_per_byte),
            overhead_per_byte: self.overhead_per_byte.unwrap_or(costs.overhead_per_byte),
            rendezvous: self.rendezvous.map_or(costs.rendezvous, Bytes::new),
        }
    }
}

/// How a collective of a recorded program is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlgorithmChoice(pub Collective, pub Algorithm);

impl FromStr for AlgorithmChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (operation, algorithm) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not OPERATION=ALGORITHM, as in allreduce=ring"))?;
        Ok(AlgorithmChoice(operation.parse()?, algorithm.parse()?))
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err(format!("`{text}` is not a number of percent from 0 to 100")),
    }
}

/// Where noise comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum NoiseChoice {
    /// A model, or a run to which one is fitted.
    Path(PathBuf),
    /// Regular events: period and length.
    Periodic(Nanos, Nanos),
    /// Random events: mean gap and length.
    Poisson(Nanos, Nanos),
}

impl FromStr for NoiseChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let times = |rest: &str| -> Result<(Nanos, Nanos), String> {
            let (gap, length) = rest
                .split_once(':')
                .ok_or_else(|| format!("`{text}` has no length, as in poisson:10ms:50us"))?;
            let gap: Nanos = gap.parse().map_err(|e| format!("{e}"))?;
            let length: Nanos = length.parse().map_err(|e| format!("{e}"))?;
            match gap == Nanos::ZERO {
                true => Err(format!("`{text}`: the gap between events must be above 0")),
                false => Ok((gap, length)),
            }
        };
        match text.split_once(':') {
            Some(("periodic", rest)) => times(rest).map(|(p, l)| NoiseChoice::Periodic(p, l)),
            Some(("poisson", rest)) => times(rest).map(|(g, l)| NoiseChoice::Poisson(g, l)),
            _ => Ok(NoiseChoice::Path(text.into())),
        }
    }
}

/// A rank that is slower than the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowRank {
    pub rank: u32,
    pub factor: f64,
}

impl FromStr for SlowRank {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (rank, factor) = text.split_once('=')?;
            let factor: f64 = factor.parse().ok()?;
            let rank = rank.parse().ok()?;
            (0.0..=1e6)
                .contains(&factor)
                .then_some(SlowRank { rank, factor })
        };
        read().ok_or_else(|| format!("`{text}` is not RANK=FACTOR, as in 3=1.5"))
    }
}

/// A one-off delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayChoice(pub OneOff);

impl FromStr for DelayChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(',').collect();
        let read = || {
            let [rank, step, length] = parts[..] else {
                return None;
            };
            let length: Nanos = length.trim().parse().ok()?;
            Some(OneOff {
                rank: rank.trim().parse().ok()?,
                step: step.trim().parse().ok()?,
                ns: length.get(),
            })
        };
        read()
            .filter(|d| d.ns > 0)
            .map(DelayChoice)
            .ok_or_else(|| format!("`{text}` is not RANK,STEP,LENGTH, as in 100,10,1ms"))
    }
}
