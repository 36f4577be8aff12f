//! `findings.json`: what the analysis found, ready to be shown. Everything here is computed from the
//! bundle alone, so that explaining it again gives the same bytes.

use crate::{Contamination, Ledger, NoiseProfile, SourceKind, TraceSheet};
use idlewave_units::{Cpu, CpuSet, Nanos, Rank};
use serde::{Deserialize, Serialize};

mod jitter;
mod program;

pub use jitter::*;
pub use program::*;

/// An estimated number with what is needed to judge it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Samples it rests on.
    pub n: u64,
    /// How estimate and interval were made, with the confidence level: "median, order statistics, 95 %".
    pub method: String,
}

/// Everything found in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// How the kernel's view was recorded, what it cost, what is missing.
    pub trace: TraceSheet,
    /// How busy the machine was with others.
    pub contamination: Contamination,
    /// Noise of every CPU measured.
    pub cpus: Vec<CpuNoise>,
    /// The lockstep runs.
    pub lockstep: Vec<LockstepFindings>,
    /// The table of sources, most time lost by all ranks first; `Unexplained` is always in it.
    pub sources: Vec<SourceFinding>,
    /// The latest steps of all lockstep runs, latest first, at most 100. All are in table `late_steps`.
    pub latest: Vec<LateFinding>,
    /// Lateness of all late steps together.
    pub lateness: Nanos,
    /// Part of it that has a named source or a named class (everything but `Unexplained`).
    pub named: Nanos,
    /// What the simulation is fed with.
    pub profile: NoiseProfile,
    /// What this noise costs at scale; `None` if nothing was measured to predict from.
    pub prediction: Option<Prediction>,
    /// What to do, most useful first.
    pub advice: Vec<Advice>,
    /// What was lost or uncertain, from recording and analysis.
    pub losses: Ledger,
    /// The recorded MPI program; `None` if the run recorded none.
    #[serde(default)]
    pub program: Option<ProgramFindings>,
    /// How much computations vary that every rank repeats in every step; one per phase or marked region that has them.
    #[serde(default)]
    pub jitter: Vec<JitterFindings>,
}

/// Noise of one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuNoise {
    /// The CPU.
    pub cpu: Cpu,
    /// What the detour loop saw; `None` if it did not run.
    pub detours: Option<DetourFindings>,
    /// What the fixed work quantum showed; `None` if it did not run.
    pub fixed_work: Option<FixedWorkFindings>,
}

/// What the detour loop saw on one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DetourFindings {
    /// Time watched.
    pub watched: Nanos,
    /// Threshold above an undisturbed turn.
    pub threshold: Nanos,
    /// Mean undisturbed turn, in clock quanta.
    pub turn_quanta: f64,
    /// Detours.
    pub count: u64,
    /// Detours per second, with exact Poisson interval.
    pub rate: Estimate,
    /// Stolen fraction f = time in detours / time watched, 0..=1.
    pub stolen: Estimate,
    /// The largest one; `None` if there was none.
    pub largest: Option<Nanos>,
    /// By length, in rising order; empty classes are kept so that all CPUs have the same.
    pub classes: Vec<LengthClass>,
    /// Period of regular detours, strongest first.
    pub periods: Vec<Periodicity>,
}

/// Detours of similar length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthClass {
    /// From this length on.
    pub from: Nanos,
    /// Below this length; `None` in the last class.
    pub below: Option<Nanos>,
    /// How many.
    pub count: u64,
    /// Per second of watched time.
    pub per_second: f64,
    /// Share of all stolen time, 0..=1; 0 if nothing was stolen.
    pub share: f64,
}

/// Something that comes back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Periodicity {
    /// Distance between events.
    pub period: Estimate,
    /// Share of the events that lie on the comb, 0..=1.
    pub share: f64,
    /// Power of the event periodogram over its significance threshold; above 1 is significant.
    pub power: f64,
}

/// What the fixed work quantum showed on one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FixedWorkFindings {
    /// Work of one quantum in Fibonacci steps.
    pub work_steps: u64,
    /// Repetitions.
    pub count: u64,
    /// Undisturbed duration: median on the fastest speed level.
    pub reference: Nanos,
    /// Shortest.
    pub min: Nanos,
    /// Median.
    pub median: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// Longest.
    pub max: Nanos,
    /// Slow-down s = mean / reference - 1.
    pub slowdown: Estimate,
    /// Part of `slowdown` that is due to slow speed levels, not detours.
    pub slowdown_by_level: f64,
    /// Speed levels, fastest first.
    pub levels: Vec<SpeedLevel>,
    /// Whether the beginning is slower.
    pub warm_up: WarmUp,
    /// Histogram of durations on log bins: lower edge in ns, count. Empty bins are left out.
    pub histogram: Vec<(u64, u64)>,
}

/// A speed at which the CPU did the same work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedLevel {
    /// Duration of the quantum on this level.
    pub duration: Nanos,
    /// Share of the time spent on it, 0..=1.
    pub share: f64,
    /// Median length of an uninterrupted stay.
    pub dwell: Nanos,
    /// Number of stays.
    pub stays: u64,
}

/// Verdict on the first moments of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Time until the quantum stayed within its later spread; 0 if it was steady from the start; `None` if it never settled.
    pub settled_after: Option<Nanos>,
    /// Mean duration before that over the median after it; 1 if there was no warm-up.
    pub ratio: f64,
}

/// A lockstep run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockstepFindings {
    /// Index of the phase in the manifest.
    pub phase: u32,
    /// How its ranks wait: "neighbour exchange", "barrier", "allreduce", "reduce", "all-to-all".
    pub name: String,
    /// Number of ranks.
    pub ranks: u32,
    /// Iterations completed by all.
    pub iterations: u64,
    /// Undisturbed computation per rank.
    pub compute: Vec<Nanos>,
    /// Undisturbed step: computation and communication.
    pub step: Nanos,
    /// From the first begin to the last arrival.
    pub total: Nanos,
    /// `total` over iterations times `step`, less 1: what all disturbances together cost.
    pub slowdown: Estimate,
    /// Steps that were late.
    pub late_steps: u64,
    /// Lateness of the late steps.
    pub lateness: Nanos,
    /// Excess of the steps that were not late enough to be explained one by one (may be negative).
    pub small_variation_ns: i64,
    /// A step is late from this excess on.
    pub late_from: Nanos,
    /// How often each rank was the last.
    pub last_counts: Vec<u64>,
    /// Ranks that were last significantly more often than by chance.
    pub slow_ranks: Vec<Rank>,
    /// Median number of successive steps with the same last rank.
    pub last_run_length: f64,
    /// Histogram of step times on log bins: lower edge in ns, count.
    pub histogram: Vec<(u64, u64)>,
}

/// One source of delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceFinding {
    /// Class.
    pub kind: SourceKind,
    /// Name within the class: task, interrupt, softirq vector; equal to the class's label where there is one only.
    pub name: String,
    /// Times it struck a rank's CPU during the lockstep runs; `None` where it has no events (slow level, unexplained).
    pub events: Option<u64>,
    /// Time it took from ranks' CPUs during the lockstep runs.
    pub stolen: Nanos,
    /// Late steps to which it contributed most.
    pub late_steps: u64,
    /// Lateness charged to it.
    pub lateness: Nanos,
    /// Time lost by all ranks together: lateness times ranks, summed over the runs.
    pub lost: Nanos,
    /// Lost over stolen; `None` if nothing was stolen.
    pub amplification: Option<f64>,
    /// Part of what it stole that delayed no step, 0..=1; `None` if nothing was stolen.
    pub absorbed: Option<f64>,
    /// Length of one event.
    pub length: Option<Estimate>,
    /// Period, where it is regular.
    pub period: Option<Periodicity>,
    /// CPUs on which it struck.
    pub cpus: CpuSet,
    /// More about it: thread number, function, why it is inferred.
    pub detail: Option<String>,
}

/// One late step with its explanation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LateFinding {
    /// Index of the phase in the manifest.
    pub phase: u32,
    /// Iteration.
    pub iteration: u64,
    /// The rank that arrived last.
    pub last_rank: Rank,
    /// The CPU it was on.
    pub cpu: Option<Cpu>,
    /// Begin of the step.
    pub begin_ns: u64,
    /// Arrival of the last rank.
    pub end_ns: u64,
    /// What exceeds the undisturbed step.
    pub lateness: Nanos,
    /// Its parts, largest first; they add up to `lateness` exactly.
    pub parts: Vec<LatePartFinding>,
}

/// A part of a late step's lateness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatePartFinding {
    /// Index into `sources` of the findings.
    pub source: u32,
    /// Time charged.
    pub time: Nanos,
}

/// What the measured noise costs at scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Undisturbed computation per iteration.
    pub granularity: Nanos,
    /// How it was computed: engine, steps, replications, assumptions.
    pub method: String,
    /// What limits its truth: shown beside it.
    pub caveats: Vec<String>,
    /// Slow-down against ranks, per topology, with all sources.
    pub curves: Vec<Curve>,
    /// The same with one source removed; the three worst sources.
    pub without: Vec<WhatIf>,
    /// Slow-down against granularity at the largest number of ranks, per topology.
    pub by_granularity: Vec<GranularityCurve>,
    /// The lockstep runs themselves, predicted and measured.
    pub checks: Vec<PredictionCheck>,
}

/// How ranks wait for each other in a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// Two neighbours on a ring.
    Ring1d,
    /// Four neighbours on a torus.
    Torus2d,
    /// Six neighbours on a torus.
    Torus3d,
    /// All wait for all.
    Barrier,
}

impl Topology {
    /// All, in the order in which they are shown.
    pub const ALL: [Topology; 4] = [
        Topology::Ring1d,
        Topology::Torus2d,
        Topology::Torus3d,
        Topology::Barrier,
    ];

    /// "1D", "2D", "3D", "barrier".
    pub const fn label(self) -> &'static str {
        match self {
            Topology::Ring1d => "1D",
            Topology::Torus2d => "2D",
            Topology::Torus3d => "3D",
            Topology::Barrier => "barrier",
        }
    }
}

/// Slow-down against ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// How ranks wait for each other.
    pub topology: Topology,
    /// In rising order of ranks.
    pub points: Vec<CurvePoint>,
}

/// One predicted point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Number of ranks.
    pub ranks: u64,
    /// Mean step over undisturbed step, less 1.
    pub slowdown: Estimate,
}

/// Slow-down without one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// Class of the source removed.
    pub kind: SourceKind,
    /// Its name.
    pub name: String,
    /// The curves without it.
    pub curves: Vec<Curve>,
}

/// Slow-down against the length of the computation between two exchanges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GranularityCurve {
    /// How ranks wait for each other.
    pub topology: Topology,
    /// Number of ranks.
    pub ranks: u64,
    /// Granularity and slow-down, in rising order.
    pub points: Vec<(Nanos, Estimate)>,
}

/// A prediction beside the measurement it should meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictionCheck {
    /// The lockstep run.
    pub name: String,
    /// Ranks.
    pub ranks: u32,
    /// Measured slow-down.
    pub measured: f64,
    /// Predicted slow-down.
    pub predicted: Estimate,
}

/// One thing to do, with this machine's own numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// What to do, one line.
    pub action: String,
    /// Why, with the numbers measured here.
    pub reason: String,
    /// A command that does it, or shows it.
    pub command: Option<String>,
}
