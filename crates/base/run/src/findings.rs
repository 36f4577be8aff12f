//! `findings.json`: what the analysis found, ready for display. It is computed from the bundle
//! alone, so a second analysis gives the same bytes.

use crate::contamination::told;
use crate::{
    BenchmarkSheet, Conditions, Contamination, Header, Ledger, Manifest, NoiseProfile, ReservedBy,
    SourceKind, TraceMode, TraceSheet, WorkKernel,
};
use idlewave_units::{Bytes, Cpu, CpuSet, Nanos, NodeId, Rank};
use serde::{Deserialize, Serialize};

mod fixed_time;
mod jitter;
mod load_sweep;
mod nodes;
mod program;
mod ways;

// Results of estimators are stored as they are: these types are part of the schema.
pub use fixed_time::*;
pub use idlewave_stats::estimate::{CombPhase, Estimate, Periodicity, Spectrum};
pub use idlewave_stats::relation::{Pattern, Relation};
pub use idlewave_stats::warm_up::{Repeated, WarmUp};
pub use jitter::*;
pub use load_sweep::*;
pub use nodes::*;
pub use program::*;
pub use ways::*;

/// Everything found in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// What wrote them, and which run they describe; `None` in findings of an older idlewave.
    #[serde(default)]
    pub header: Option<Header>,
    /// How the kernel's view was recorded, what it cost, what is missing.
    pub trace: TraceSheet,
    /// Load by other processes.
    pub contamination: Contamination,
    /// Conditions under which CPUs were measured by themselves.
    #[serde(default)]
    pub conditions: Conditions,
    /// Noise of every CPU measured, in order of node and CPU. Of very many CPUs, only those of the
    /// nodes that rank worst.
    pub cpus: Vec<CpuNoise>,
    /// The nodes compared with each other; `None` unless the CPUs of several were measured.
    #[serde(default)]
    pub nodes: Option<NodesFindings>,
    /// The same with more and more CPUs busy; `None` if that was not measured.
    #[serde(default)]
    pub load_sweep: Option<LoadSweep>,
    /// Ways that took turns, compared; `None` if none did.
    #[serde(default)]
    pub ways: Option<Ways>,
    /// The lockstep runs.
    pub lockstep: Vec<LockstepFindings>,
    /// The table of sources, most time lost by all ranks first; `Unexplained` is always in it.
    pub sources: Vec<SourceFinding>,
    /// The most delayed steps of all lockstep runs, most delayed first, at most 100. All are in
    /// table `late_steps`.
    pub latest: Vec<LateFinding>,
    /// Lateness of all late steps together.
    pub lateness: Nanos,
    /// Part of it with a named source or class (everything but `Unexplained`).
    pub named: Nanos,
    /// Input of the simulation.
    pub profile: NoiseProfile,
    /// What this noise costs at scale; `None` if nothing was measured to predict from, or if it
    /// could not be predicted.
    pub prediction: Option<Prediction>,
    /// Why it could not be predicted.
    #[serde(default)]
    pub not_predicted: Option<String>,
    /// What to do: first what saves most, then what lets the next run record more.
    pub advice: Vec<Advice>,
    /// What is missing or uncertain, from recording and analysis.
    pub losses: Ledger,
    /// The recorded MPI program; `None` if the run recorded none.
    #[serde(default)]
    pub program: Option<ProgramFindings>,
    /// How much the computations that every rank repeats in every step vary; one entry per phase or
    /// marked region that has such computations.
    #[serde(default)]
    pub jitter: Vec<JitterFindings>,
    /// The benchmarks, in order of phases.
    #[serde(default)]
    pub benchmarks: Vec<BenchmarkFindings>,
}

/// A benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkFindings {
    /// Index of the phase in the manifest.
    pub phase: u32,
    /// What it reported.
    pub sheet: BenchmarkSheet,
}

impl Findings {
    /// A sentence for every node of the run with this manifest that other programs kept busy. Those
    /// who used the first node are named by its kernel trace, if there is one.
    pub fn busy_nodes(&self, manifest: &Manifest) -> Vec<String> {
        let traced = self.trace.mode == TraceMode::Tracefs;
        let nodes = manifest.nodes.iter().enumerate();
        let nodes = nodes.map(|(place, node)| match place {
            0 => (node.host.name.as_str(), &self.contamination, traced),
            _ => (node.host.name.as_str(), &node.contamination, false),
        });
        told(nodes.collect())
    }
}

/// Noise of one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuNoise {
    /// Its node.
    #[serde(default = "first_node")]
    pub node: NodeId,
    /// The CPU.
    pub cpu: Cpu,
    /// What the detour loop saw; `None` if it did not run.
    pub detours: Option<DetourFindings>,
    /// What the fixed work quantum showed; `None` if it did not run. Of several starts, the last.
    pub fixed_work: Option<FixedWorkFindings>,
    /// What the fixed time quantum showed; `None` if it did not run.
    #[serde(default)]
    pub fixed_time: Option<FixedTimeFindings>,
    /// Gaps that the kernel made to keep time for ordinary threads; `None` without a real-time policy
    /// or without such gaps.
    #[serde(default)]
    pub reserved: Option<ReservedGaps>,
    /// What several starts of it after idleness have in common; `None` if there were not several.
    #[serde(default)]
    pub starts: Option<Repeated>,
}

/// The node of CPUs in findings older than several nodes.
fn first_node() -> NodeId {
    NodeId::new(0)
}

/// Gaps in real-time threads that the kernel makes on purpose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservedGaps {
    /// How the kernel made them.
    pub by: ReservedBy,
    /// How many.
    pub count: u64,
    /// Median length, nanoseconds.
    pub length: Estimate,
    /// Median distance of their starts; `None` of a single one.
    pub distance: Option<Nanos>,
    /// Share of the time that they took, 0..=1.
    pub share: f64,
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
    /// Periodogram of their starts; `None` of fewer than 8, beyond the 16 CPUs that lose most,
    /// and in findings older than this field.
    #[serde(default)]
    pub spectrum: Option<Spectrum>,
    /// Histogram of their lengths on log bins: lower edge in ns, count. Empty bins are left out.
    #[serde(default)]
    pub histogram: Vec<(u64, u64)>,
}

/// Detours of similar length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthClass {
    /// At least this length.
    pub from: Nanos,
    /// Below this length; `None` in the last class.
    pub below: Option<Nanos>,
    /// How many.
    pub count: u64,
    /// Per second of watched time.
    pub per_second: f64,
    /// Share of all stolen time, 0..=1; 0 if nothing was stolen.
    pub share: f64,
    /// Median length, nanoseconds; `None` without any.
    #[serde(default)]
    pub median: Option<Estimate>,
    /// The strongest period of these detours; `None` if none is significant.
    #[serde(default)]
    pub period: Option<Periodicity>,
}

/// What the fixed work quantum showed on one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FixedWorkFindings {
    /// Work of one quantum in steps of the kernel.
    pub work_steps: u64,
    /// What a step does.
    #[serde(default)]
    pub kernel: WorkKernel,
    /// Size of the arrays of each CPU; `None` if the kernel has none.
    #[serde(default)]
    pub array: Option<Bytes>,
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
    /// Durations over time, in at most 400 stretches; empty beyond the 16 CPUs that are slowed down
    /// most.
    #[serde(default)]
    pub times: Vec<TimeStretch>,
}

/// Durations of some successive quanta of the same work: of one window of 5 ms or more, or of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeStretch {
    /// Start, from that of the first quantum.
    pub begin: Nanos,
    /// Lower quartile; of several windows, the least.
    pub lower: Nanos,
    /// Median; of several windows, the median of theirs.
    pub median: Nanos,
    /// Upper quartile; of several windows, the largest.
    pub upper: Nanos,
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
    /// From the first start to the last arrival.
    pub total: Nanos,
    /// `total` / (`iterations` * `step`) - 1: the cost of all disturbances together. Its interval
    /// does not reach below 0 unless the estimate does.
    pub slowdown: Estimate,
    /// Why the slow-down is not known: its interval reaches from none to more than double. `None`
    /// if it is known.
    #[serde(default)]
    pub slowdown_not_known: Option<String>,
    /// Steps that were late.
    pub late_steps: u64,
    /// Lateness of the late steps.
    pub lateness: Nanos,
    /// Excess of the steps too little late to be explained one by one; may be negative.
    pub small_variation_ns: i64,
    /// Least excess of a late step.
    pub late_from: Nanos,
    /// Time by which messages were slower than at their fastest level, summed over all steps of the
    /// last ranks, late or not: on one node, CPUs farther apart or memory in use.
    /// `None` where it was not determined.
    #[serde(default)]
    pub slow_messages: Option<Nanos>,
    /// How often each rank was last.
    pub last_counts: Vec<u64>,
    /// Ranks that were last significantly more often than chance allows.
    pub slow_ranks: Vec<Rank>,
    /// Median number of successive steps with the same last rank.
    pub last_run_length: f64,
    /// Histogram of step times on log bins: lower edge in ns, count.
    pub histogram: Vec<(u64, u64)>,
    /// What a step costs where noise struck more rarely or more often; `None` without a strike, and
    /// in findings older than this field.
    #[serde(default)]
    pub by_rate: Option<MeasuredRates>,
}

/// What a step costs beyond one that nothing strikes, against the rate of the noise in the same
/// stretch of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRates {
    /// Windows of successive steps.
    pub windows: u64,
    /// Steps of a window.
    pub steps: u64,
    /// Mean excess of a step that no rank was struck in, nanoseconds: it is subtracted from all;
    /// `None`, and nothing is subtracted, if there are too few such steps.
    pub background: Option<f64>,
    /// Windows of similar rates, in rising order of the rate.
    pub groups: Vec<MeasuredRate>,
    /// Exponent of the cost as a power of the rate, over all windows; `None` if their rates differ
    /// too little, or if there are too few.
    pub exponent: Option<Estimate>,
    /// Why there is no exponent.
    pub unknown: Option<String>,
}

/// Windows of similar rates, and what their steps cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRate {
    /// Strikes per rank in the time of an undisturbed computation.
    pub strikes: f64,
    /// Mean length of these strikes, nanoseconds; `None` without any.
    pub length: Option<f64>,
    /// Mean step beyond one that nothing strikes, nanoseconds, over the windows.
    pub extra: Estimate,
}

/// One source of delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceFinding {
    /// Class.
    pub kind: SourceKind,
    /// Name within the class: task, interrupt, softirq vector; the class's label where a class has
    /// one source only.
    pub name: String,
    /// Times it struck a rank's CPU during the lockstep runs; `None` where it has no events (slow
    /// level, unexplained).
    pub events: Option<u64>,
    /// Time it took from ranks' CPUs during the lockstep runs.
    pub stolen: Nanos,
    /// Late steps to which it contributed most.
    pub late_steps: u64,
    /// Lateness charged to it.
    pub lateness: Nanos,
    /// Time lost by all ranks together: lateness times ranks, summed over the runs.
    pub lost: Nanos,
    /// Lost over stolen; `None` if nothing was stolen, and for what is unexplained.
    pub amplification: Option<f64>,
    /// Part of what it stole that delayed no step, 0..=1; `None` where there is no amplification.
    pub absorbed: Option<f64>,
    /// Length of one event.
    pub length: Option<Estimate>,
    /// Period, if it is periodic.
    pub period: Option<Periodicity>,
    /// How its strikes on the CPUs of a node are related in time; `None` unless a node has two CPUs
    /// with at least 8 strikes each.
    #[serde(default)]
    pub relation: Option<Relation>,
    /// CPUs on which it struck.
    pub cpus: CpuSet,
    /// Details: thread number, function, why it is inferred.
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
    /// Start of the step.
    pub begin_ns: u64,
    /// Arrival of the last rank.
    pub end_ns: u64,
    /// Time beyond the undisturbed step.
    pub lateness: Nanos,
    /// Its parts, largest first; they add up to `lateness` exactly.
    pub parts: Vec<LatePartFinding>,
    /// The longest charged stretches, at most 12, in order of time. Parts without a position (slow
    /// level, unexplained) are not listed.
    #[serde(default)]
    pub charged: Vec<ChargedFinding>,
}

/// A stretch of a late step that is charged to a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChargedFinding {
    /// Index into `sources` of the findings.
    pub source: u32,
    /// The rank from which it was taken.
    pub rank: Rank,
    /// Start.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
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
    /// Limitations of the prediction, shown beside it.
    pub caveats: Vec<String>,
    /// Slow-down against ranks, per topology, with all sources.
    pub curves: Vec<Curve>,
    /// The same curves without one source, for each of the three worst sources.
    pub without: Vec<WhatIf>,
    /// Slow-down against granularity at the largest number of ranks, per topology.
    pub by_granularity: Vec<GranularityCurve>,
    /// What a step costs if noise strikes more rarely or more often; `None` in findings older than
    /// this field, or if nothing strikes.
    #[serde(default)]
    pub by_rate: Option<RateLaw>,
    /// The lockstep runs, predicted and measured.
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

impl Curve {
    /// The point of exactly that many ranks: curves may end at different numbers.
    pub fn at(&self, ranks: u64) -> Option<&CurvePoint> {
        self.points.iter().find(|p| p.ranks == ranks)
    }
}

/// One predicted point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Number of ranks.
    pub ranks: u64,
    /// Mean step over undisturbed step, minus 1.
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
    /// What its removal saves at the largest number of ranks: slow-down with all sources minus
    /// slow-down without it. Both are simulated with the same random numbers, so the interval is
    /// that of the difference. Empty in findings older than this field.
    #[serde(default)]
    pub saved: Vec<Curve>,
}

/// Slow-down against granularity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GranularityCurve {
    /// How ranks wait for each other.
    pub topology: Topology,
    /// Number of ranks.
    pub ranks: u64,
    /// Granularity and slow-down, in rising order.
    pub points: Vec<(Nanos, Estimate)>,
}

/// What a step costs beyond an undisturbed one, against the rate of the same noise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLaw {
    /// How ranks wait for each other.
    pub topology: Topology,
    /// Number of ranks.
    pub ranks: u64,
    /// In rising order of the rate.
    pub points: Vec<RatePoint>,
    /// Exponent of the cost as a power of the rate, over all points that are precise enough; `None`
    /// if there are too few.
    pub exponent: Option<Estimate>,
    /// Why there is no exponent.
    #[serde(default)]
    pub unknown: Option<String>,
    /// Least and largest number of strikes per rank and step between which the exponent certainly
    /// lies between 0.4 and 0.6: the square-root law. `None` if it does not hold.
    pub square_root: Option<(f64, f64)>,
}

/// A rate of the noise and its cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatePoint {
    /// Rate as a multiple of the measured one.
    pub factor: f64,
    /// Strikes per rank and undisturbed step.
    pub strikes: f64,
    /// Time that they take from a rank, in nanoseconds; `None` if their lengths have no mean.
    pub taken: Option<f64>,
    /// Mean step beyond an undisturbed one, in nanoseconds.
    pub extra: Estimate,
}

/// A prediction beside the measurement that it should reproduce.
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

/// Largest tolerable distance of a prediction from the measurement, as a share of the step.
const TOLERABLE_MISS: f64 = 0.05;

impl PredictionCheck {
    /// Distance of the measured step from the interval of the predicted one, as a share of the
    /// latter; `None` if it is tolerable.
    pub fn misses_by(&self) -> Option<f64> {
        let predicted = &self.predicted;
        let nearest = self.measured.clamp(
            predicted.low.min(predicted.high),
            predicted.high.max(predicted.low),
        );
        let off = ((1.0 + self.measured) / (1.0 + nearest) - 1.0).abs();
        (off > TOLERABLE_MISS).then_some(off)
    }
}

impl Prediction {
    /// The run of this machine with the largest intolerable misprediction; `None` if there is none.
    pub fn worst_miss(&self) -> Option<&PredictionCheck> {
        let misses = self.checks.iter().filter_map(|c| Some((c, c.misses_by()?)));
        misses.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(c, _)| c)
    }
}

/// One thing to do, with this machine's own numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// What to do, one line.
    pub action: String,
    /// Why, with the numbers measured here.
    pub reason: String,
    /// A command that does or shows it.
    pub command: Option<String>,
    /// What it saves; `None` if it saves nothing itself but lets the next run record more, or more
    /// reliably.
    #[serde(default)]
    pub gain: Option<Gain>,
    /// Whether the cause is inferred, not recorded; the gain then holds only if the inference is
    /// right.
    #[serde(default)]
    pub inferred: bool,
}

/// What following the advice saves. The interval never contains 0: such advice is not given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// The whole that `saved` is a share of.
    pub of: GainOf,
    /// How ranks wait for each other; `None` unless the gain is predicted.
    pub topology: Option<Topology>,
    /// Number of ranks it is predicted for; `None` if it was measured.
    pub ranks: Option<u64>,
    /// Share saved: 0.25 is 25 points of slow-down, or a quarter of the time.
    pub saved: Estimate,
    /// The present share: the slow-down now, or 1 for a share of time.
    pub now: f64,
}

/// Of what a gain is a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GainOf {
    /// The slow-down predicted at a number of ranks.
    PredictedSlowdown,
    /// The time of all ranks of this run.
    RankTime,
    /// The time of one CPU.
    CpuTime,
}

impl Advice {
    /// Whether following it saves time.
    pub fn saves(&self) -> bool {
        self.gain.is_some()
    }
}
