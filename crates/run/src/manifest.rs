//! `run.json`: what a run is, where it was made, what it holds and what is missing.

use crate::{
    Contamination, Coupling, ExchangeVariant, HostSheet, Ledger, Neighbourhood, Simulated,
};
use idlewave_units::{Cpu, Nanos, NodeId, Pid, Rank};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the bundle's schema. A higher `major` cannot be read by older programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SchemaVersion {
    /// Raised when tables or fields change their meaning.
    pub major: u32,
    /// Raised when tables or fields are added.
    pub minor: u32,
}

impl SchemaVersion {
    /// What this build writes.
    pub const CURRENT: SchemaVersion = SchemaVersion { major: 1, minor: 2 };
}

impl fmt::Display for SchemaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The manifest of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Schema of the whole bundle. Read before anything else.
    pub schema: SchemaVersion,
    /// Version of idlewave that wrote it.
    pub idlewave: String,
    /// Whether the run came to its end.
    pub state: RunState,
    /// Why it did not, if so.
    pub incomplete: Option<Incomplete>,
    /// The command line.
    pub command: Vec<String>,
    /// Wall-clock start, RFC 3339 in UTC, for people only.
    pub started: String,
    /// Seed of everything random in this run.
    pub seed: u64,
    /// What the run was made from, if it was simulated; `None` if it was measured.
    #[serde(default)]
    pub simulated: Option<Simulated>,
    /// The nodes; `NodeId` is the index.
    pub nodes: Vec<NodeSheet>,
    /// What was done, in order; tables refer to a phase by its index.
    pub phases: Vec<Phase>,
    /// The ranks of the lockstep phases; `Rank` is the index.
    pub ranks: Vec<RankSheet>,
    /// What was missing or uncertain when the run was recorded.
    pub losses: Ledger,
    /// The tables, with what is needed to see damage.
    pub tables: Vec<TableEntry>,
}

impl Manifest {
    /// Whether nothing of this node's kernel was recorded, though something of another node's was: what its ranks met
    /// there is not known, which is not to say that there was nothing.
    pub fn is_not_traced(&self, node: NodeId) -> bool {
        let off = |n: &NodeSheet| n.trace.mode == TraceMode::Off;
        self.nodes.iter().any(|n| n.node == node && off(n)) && !self.nodes.iter().all(off)
    }
}

/// Bound of the error between the times of any two nodes: those of each against node 0, the two largest added.
pub fn clock_error_between<'a>(
    alignments: impl IntoIterator<Item = Option<&'a Alignment>>,
) -> Nanos {
    let mut most = [0_u64; 2];
    for error in alignments.into_iter().flatten().map(|a| a.error.get()) {
        if error > most[1] {
            most[1] = error;
        }
        most.sort_unstable_by(|a, b| b.cmp(a));
    }
    Nanos::from_nanos(most[0].saturating_add(most[1]))
}

/// How far a run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Being written, or its writer was killed: tables may lack their end.
    Recording,
    /// All there.
    Complete,
    /// Ended early but in order: what is there is whole.
    Incomplete,
}

/// Why a run ended early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Incomplete {
    /// SIGINT or SIGTERM, by number.
    Signal(i32),
    /// An error, in words.
    Error(String),
    /// Found in state [`RunState::Recording`] without a living writer.
    Killed,
}

/// One node of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSheet {
    /// Its index.
    pub node: NodeId,
    /// The machine and its settings.
    pub host: HostSheet,
    /// Its clock.
    pub clock: ClockSheet,
    /// How the kernel's view was recorded.
    pub trace: TraceSheet,
    /// How busy it was with others, over the whole recording.
    pub contamination: Contamination,
    /// How its times were turned into those of node 0; `None` on node 0 itself, and where all nodes share a clock.
    #[serde(default)]
    pub alignment: Option<Alignment>,
}

/// Clock of a node against that of node 0, measured by messages through the fabric. All times in the bundle are
/// already corrected by it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alignment {
    /// The measurements, in order of time: mostly one at the begin and one at the end, or around each phase.
    pub points: Vec<AlignmentPoint>,
    /// Bound of the error of a corrected time, from the round trips and what drift the points cannot show.
    pub error: Nanos,
    /// How it was measured and what lies between the points, in words.
    pub method: String,
}

/// One measurement of a clock against that of node 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlignmentPoint {
    /// When, CLOCK_MONOTONIC nanoseconds of the node itself.
    pub time_ns: u64,
    /// What must be added to this node's clock to get node 0's, in nanoseconds.
    pub offset_ns: i64,
    /// The shortest round trip, half of which bounds the error.
    pub round_trip: Nanos,
}

/// The clock that stamped the measurements of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockSheet {
    /// `tsc`, `cntvct` or `clock_gettime`.
    pub counter: String,
    /// Counts per second, from calibration against CLOCK_MONOTONIC.
    pub counts_per_second: f64,
    /// The smallest step really seen, in counts.
    pub quantum_counts: u64,
    /// The smallest step really seen.
    pub quantum_ns: f64,
    /// Median time of one reading.
    pub read_ns: f64,
    /// Largest difference between CLOCK_MONOTONIC and the calibrated counter at the check points.
    pub error: Nanos,
    /// Relative change of the rate between the first and the last calibration (NTP slewing, drift).
    pub rate_change: f64,
    /// Whether the counter is said to run at a constant rate in all power states.
    pub invariant: Option<bool>,
    /// How the counter was turned into CLOCK_MONOTONIC, in words.
    pub method: String,
}

/// One part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// What was done.
    pub kind: PhaseKind,
    /// Begin, CLOCK_MONOTONIC nanoseconds of node 0.
    pub begin_ns: u64,
    /// End, likewise.
    pub end_ns: u64,
}

/// What a phase did, with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PhaseKind {
    /// Detour loop on all CPUs at once; table `detours`.
    Detour {
        /// Gaps longer than this above the loop's own time are recorded.
        threshold: Nanos,
        /// The least threshold the clock allows here.
        floor: Nanos,
        /// Per CPU: what the loop saw.
        loops: Vec<DetourLoop>,
    },
    /// Fixed work quantum on all CPUs at once; table `quanta`.
    FixedWork {
        /// Work of one quantum in Fibonacci steps.
        work_steps: u64,
    },
    /// Lockstep run; tables `regions` and `detours`.
    Lockstep {
        /// How ranks wait for each other.
        coupling: Coupling,
        /// Work of one iteration in Fibonacci steps.
        work_steps: u64,
        /// The computation the user asked for.
        work_target: Nanos,
        /// Bytes of each message, or of the values that each rank gives to a collective.
        message_bytes: u64,
        /// Ranks along each dimension of the decomposition, for neighbour exchange; empty for a ring of all.
        #[serde(default)]
        sides: Vec<u32>,
        /// From whom a rank takes messages in a neighbour exchange.
        #[serde(default)]
        neighbourhood: Neighbourhood,
        /// How the neighbour exchange was programmed.
        #[serde(default)]
        variant: ExchangeVariant,
        /// How many took part, the first ones; `None` for all.
        #[serde(default)]
        ranks: Option<u32>,
        /// Iterations that every rank completed.
        iterations: u64,
        /// Gaps longer than this inside computation or wait are recorded as detours.
        threshold: Nanos,
    },
    /// Molecular dynamics of a Lennard-Jones fluid; table `regions`.
    MolecularDynamics {
        /// Particles of each rank at the begin.
        particles_per_rank: u64,
        /// Steps that every rank completed.
        steps: u64,
        /// Steps in which the lists of close pairs were made anew.
        rebuilds: u64,
        /// Close pairs in the lists of all ranks at the end.
        pairs: u64,
        /// Largest deviation of the total energy from its first value, over the kinetic energy at the begin; `None`
        /// if it was not computed.
        energy_drift: Option<f64>,
    },
    /// A program was recorded; tables `calls`, `transfers`, `communicators`, `operations` and `marks` if it is an
    /// MPI program, the kernel's view in any case.
    Recorded {
        /// The MPI library, as it names itself; `None` if the program never called MPI_Init.
        library: Option<String>,
        /// Exit code of the command, or 128 plus the signal that ended it; `None` where the recorder was killed
        /// before it ended.
        exit_code: Option<i32>,
    },
}

/// What one CPU's detour loop saw besides the detours themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DetourLoop {
    /// The CPU.
    pub cpu: Cpu,
    /// First reading, CLOCK_MONOTONIC nanoseconds.
    pub begin_ns: u64,
    /// Last reading.
    pub end_ns: u64,
    /// Turns of the loop.
    pub turns: u64,
    /// Mean time of an undisturbed turn, in clock quanta.
    pub turn_quanta: f64,
    /// Time spent writing records, excluded from the measured time.
    pub recording: Nanos,
    /// Detours not kept for lack of room; they are in `stolen` all the same.
    pub not_kept: u64,
    /// All time above the loop's own, in detours longer than the threshold.
    pub stolen: Nanos,
    /// Involuntary context switches of the measuring thread (`getrusage`).
    pub involuntary_switches: Option<u64>,
    /// Whether the thread was seen on another CPU than its own.
    pub moved: bool,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSheet {
    /// Its index.
    pub rank: Rank,
    /// Its node.
    pub node: NodeId,
    /// The CPU it was bound to; `None` if it was free to move.
    pub cpu: Option<Cpu>,
    /// Its thread, per lockstep phase in order (a phase may start new threads). Of a recorded program: all
    /// threads that called MPI, the one of MPI_Init first.
    pub threads: Vec<Pid>,
    /// Its process, in a recorded program.
    #[serde(default)]
    pub process: Option<Pid>,
}

/// How the kernel's view of a node was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceSheet {
    /// What was used.
    pub mode: TraceMode,
    /// What could not be had, and which command would allow it.
    pub unavailable: Vec<Unavailable>,
    /// What recording cost.
    pub cost: TraceCost,
}

/// Where the kernel's view came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceMode {
    /// An own tracefs instance: every switch, interrupt and wake-up of every traced CPU.
    Tracefs,
    /// `PERF_RECORD_SWITCH` of the own threads: when they were off their CPU, not who ran.
    PerfSwitch,
    /// Counters of /proc only: who ran and how much, not when.
    Counters,
    /// Nothing: switched off by the user, or on this node nobody recorded it; `unavailable` tells.
    Off,
}

/// Something that could not be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable {
    /// What is missing: "interrupts by name".
    pub what: String,
    /// Why: "tracefs: permission denied".
    pub why: String,
    /// A command that would allow it.
    pub allow: Option<String>,
}

/// What recording the kernel's view cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceCost {
    /// Events recorded, all CPUs.
    pub events: u64,
    /// Events lost, all CPUs, by the ring buffer's own count.
    pub lost: u64,
    /// CPU time of the reader thread.
    pub reader: Nanos,
    /// Cost of writing one event, measured here; `None` if it could not be measured.
    pub event_ns: Option<f64>,
    /// Wall time for which tracing was on.
    pub wall: Nanos,
    /// CPUs traced.
    pub cpus: u32,
}

impl TraceCost {
    /// Share of the traced CPUs' time spent on recording, 0..=1; `None` if no event cost was measured.
    pub fn share(&self) -> Option<f64> {
        let all = self.wall.as_f64() * f64::from(self.cpus);
        let event_ns = self.event_ns?;
        (all > 0.0).then(|| (self.reader.as_f64() + self.events as f64 * event_ns) / all)
    }
}

/// A table of the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Name, as in docs/run-bundle.md.
    pub name: String,
    /// File, relative to the bundle.
    pub file: String,
    /// Rows.
    pub rows: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE) of the file.
    pub crc32: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::empty_manifest;

    #[test]
    fn a_node_is_not_traced_only_where_another_one_was() {
        let mut manifest = empty_manifest();
        let mut other = manifest.nodes[0].clone();
        other.node = NodeId::new(1);
        other.trace.mode = TraceMode::Off;
        manifest.nodes.push(other);
        let of = |m: &Manifest| [0, 1, 2].map(|n| m.is_not_traced(NodeId::new(n)));
        assert_eq!(of(&manifest), [false, true, false]);
        manifest.nodes[0].trace.mode = TraceMode::Off;
        assert_eq!(of(&manifest), [false; 3]);
    }

    #[test]
    fn the_errors_of_two_clocks_against_a_third_add_up() {
        let alignment = |error| Alignment {
            points: Vec::new(),
            error: Nanos::from_nanos(error),
            method: String::new(),
        };
        let all = [5, 9, 7, 2].map(alignment);
        let between = |of: &[Option<&Alignment>]| clock_error_between(of.iter().copied()).get();
        assert_eq!(between(&[]), 0);
        // Node 0 has none.
        assert_eq!(between(&[None, Some(&all[0])]), 5);
        let [a, b, c, d] = all.each_ref().map(Some);
        assert_eq!(between(&[None, a, b, c, d]), 16);
    }
}
