//! Measurements of every CPU of this node by itself: a study with a single part.

use super::shared::{OutputArgs, command, failure};
use crate::exit::Failure;
use crate::limits::LimitArgs;
use crate::output::print_of_bundle;
use crate::progress::Bars;
use clap::{Args, ValueEnum};
use idlewave_measure::MeasureError;
use idlewave_run::{Neighbour, WorkKernel};
use idlewave_session::Stop;
use idlewave_study::{CpuMeasurement, CpuOptions, Quantum, Work, measure_cpus};
use idlewave_units::{Bytes, Nanos};
use std::path::PathBuf;

/// The time to measure if none is given.
const USUAL: Nanos = Nanos::from_secs(3);

// The options of all come last: their last heading is for limits.

#[derive(Debug, Args)]
pub struct DetourArgs {
    /// Not an option of this measurement: refused, with a hint at the one that has it
    #[arg(long, hide = true, value_name = "TIME")]
    work: Option<String>,
    #[command(flatten)]
    conditions: ConditionArgs,
    #[command(flatten)]
    cpus: CpusArgs,
}

#[derive(Debug, Args)]
pub struct FwqArgs {
    #[command(flatten)]
    quantum: QuantumArgs,
    /// Quanta per CPU [default: as many as fit into the duration]
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    #[command(flatten)]
    conditions: ConditionArgs,
    #[command(flatten)]
    cpus: CpusArgs,
}

#[derive(Debug, Args)]
pub struct FtqArgs {
    /// Time of a quantum, from 20us to 1s; quanta begin on a grid of the clock
    #[arg(long, default_value = "100us", value_name = "TIME")]
    every: Nanos,
    /// Work of a unit: a time, or a number of steps, which is the same work on every machine
    /// [default: a 200th of --every]
    #[arg(long, value_name = "TIME|STEPS")]
    work: Option<Work>,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    conditions: ConditionArgs,
    #[command(flatten)]
    cpus: CpusArgs,
}

#[derive(Debug, Args)]
pub struct WarmUpArgs {
    #[command(flatten)]
    quantum: QuantumArgs,
    /// Number of starts, from 6 to 1000
    #[arg(long, default_value_t = 10, value_name = "N")]
    starts: u32,
    /// Idleness before each start, from 10ms to 10min
    #[arg(long, default_value = "2s", value_name = "TIME")]
    idle: Nanos,
    #[command(flatten)]
    cpus: CpusArgs,
}

#[derive(Debug, Args)]
pub struct LoadSweepArgs {
    #[command(flatten)]
    quantum: QuantumArgs,
    #[command(flatten)]
    cpus: CpusArgs,
}

#[derive(Debug, Args)]
struct QuantumArgs {
    /// Work of a quantum: a time, or a number of steps, which is the same work on every machine
    #[arg(long, default_value = "20us", value_name = "TIME|STEPS")]
    work: Work,
    #[command(flatten)]
    kernel: KernelArgs,
}

#[derive(Debug, Args)]
struct KernelArgs {
    /// What a step of the work does
    #[arg(long, value_enum, default_value = "fibonacci")]
    kernel: KernelArg,
    /// With --kernel stream: size of the arrays of each CPU [default: four times the last-level cache]
    #[arg(long, value_name = "BYTES")]
    array: Option<Bytes>,
}

/// What a step of work does.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum KernelArg {
    /// An addition that needs the one before: the clock rate
    Fibonacci,
    /// A chain of multiplications, shifts and exclusive ors
    Integer,
    /// 32 independent chains of fused multiply-adds
    Fma,
    /// A triad through arrays larger than the caches: the memory
    Stream,
}

impl QuantumArgs {
    fn quantum(&self) -> Quantum {
        self.kernel.quantum(self.work)
    }
}

impl KernelArgs {
    fn quantum(&self, work: Work) -> Quantum {
        Quantum {
            work,
            kernel: match self.kernel {
                KernelArg::Fibonacci => WorkKernel::Fibonacci,
                KernelArg::Integer => WorkKernel::Integer,
                KernelArg::Fma => WorkKernel::Fma,
                KernelArg::Stream => WorkKernel::Stream,
            },
            array: self.array,
        }
    }
}

/// Under which conditions CPUs are measured.
#[derive(Debug, Default, Args)]
struct ConditionArgs {
    /// Measure one CPU after the other, each for the whole time, instead of all at once
    #[arg(long)]
    one_at_a_time: bool,
    /// Load the CPUs that do not measure meanwhile
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    load: Vec<LoadArg>,
    /// Measure with a real-time priority (SCHED_FIFO), 1 to 99; one CPU must be left to others
    #[arg(long, value_name = "N")]
    realtime: Option<u8>,
}

/// A load beside a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoadArg {
    /// Computes
    Cpu,
    /// Streams through arrays that are larger than the caches
    Memory,
    /// Writes a file of up to 64 MiB and waits for the disk, in the directory of the run
    Io,
}

impl LoadArg {
    fn neighbour(self) -> Neighbour {
        match self {
            Self::Cpu => Neighbour::Cpu,
            Self::Memory => Neighbour::Memory,
            Self::Io => Neighbour::Io,
        }
    }
}

/// What measurements of the CPUs of this node have in common.
#[derive(Debug, Args)]
struct CpusArgs {
    /// Time to measure, from 100ms to 60min; of warmup each start, of load-sweep each part [default:
    /// 3s, of warmup 500ms, with --runs as long as they take]
    #[arg(long, value_name = "TIME")]
    duration: Option<Nanos>,
    #[command(flatten)]
    shown: OutputArgs,
    /// Directory for a run with all samples, for explain and report; must not exist, or be empty
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Do not trace the kernel (causes will have no names)
    #[arg(long)]
    no_trace: bool,
    /// Limit of the size of the run on disk; the measurement ends early when it is reached
    #[arg(long, default_value = "1GiB", value_name = "BYTES")]
    max_size: Bytes,
    #[command(flatten)]
    limits: LimitArgs,
}

impl DetourArgs {
    /// Runs the command.
    pub fn run(self, stop: &Stop) -> Result<(), Failure> {
        if self.work.is_some() {
            return Err(failure(MeasureError::option(
                "--work",
                "the detour loop only reads the clock, and does no work",
                "omit it, or measure a fixed work quantum: idlewave measure fwq --work TIME",
            )));
        }
        let what = CpuMeasurement::Detours;
        self.cpus.run(what, self.conditions, USUAL, stop)
    }
}

impl FwqArgs {
    /// Runs the command.
    pub fn run(self, stop: &Stop) -> Result<(), Failure> {
        let (quantum, runs) = (self.quantum.quantum(), self.runs);
        let usual = runs.map_or(USUAL, |_| CpuOptions::LONGEST);
        let what = CpuMeasurement::FixedWork { quantum, runs };
        self.cpus.run(what, self.conditions, usual, stop)
    }
}

impl FtqArgs {
    /// Runs the command.
    pub fn run(self, stop: &Stop) -> Result<(), Failure> {
        let work = self.work.unwrap_or(Work::unit_of(self.every));
        let what = CpuMeasurement::FixedTime {
            quantum: self.kernel.quantum(work),
            every: self.every,
        };
        self.cpus.run(what, self.conditions, USUAL, stop)
    }
}

impl WarmUpArgs {
    /// Runs the command.
    pub fn run(self, stop: &Stop) -> Result<(), Failure> {
        let what = CpuMeasurement::WarmUp {
            quantum: self.quantum.quantum(),
            starts: self.starts,
            rest: self.idle,
        };
        let usual = Nanos::from_millis(500);
        self.cpus.run(what, ConditionArgs::default(), usual, stop)
    }
}

impl LoadSweepArgs {
    /// Runs the command.
    pub fn run(self, stop: &Stop) -> Result<(), Failure> {
        let what = CpuMeasurement::LoadSweep {
            quantum: self.quantum.quantum(),
        };
        self.cpus.run(what, ConditionArgs::default(), USUAL, stop)
    }
}

impl CpusArgs {
    fn run(
        self,
        what: CpuMeasurement,
        conditions: ConditionArgs,
        usual: Nanos,
        stop: &Stop,
    ) -> Result<(), Failure> {
        self.limits.check()?;
        let OutputArgs { cpus, json } = self.shown;
        let options = CpuOptions {
            what,
            output: self.output.clone(),
            duration: self.duration.unwrap_or(usual),
            cpus,
            one_at_a_time: conditions.one_at_a_time,
            neighbours: conditions.load.iter().map(|l| l.neighbour()).collect(),
            realtime: conditions.realtime,
            trace: !self.no_trace,
            max_size: self.max_size,
            command: command(),
        };
        let bars = Bars::new(!json);
        let measured = measure_cpus(&options, stop, &bars);
        bars.finish();
        let advice = "see who takes time, above and with -o RUN in idlewave report RUN";
        let kept = self.limits.print(&measured?.analysis, json, advice);
        if let Some(run) = self.output.filter(|_| !json) {
            let next = format!("to see it as a page: idlewave report {}\n", run.display());
            print_of_bundle(&next)?;
        }
        kept
    }
}
