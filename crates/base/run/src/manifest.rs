//! `run.json`: what a run is, where it was recorded, what it holds and what is missing.

use crate::{
    BenchmarkSheet, Conditions, Contamination, Coupling, ExchangeVariant, HostSheet, Ledger,
    Neighbourhood, ScalingSheet, Simulated, Turn, WorkKernel, busy_nodes,
};
use idlewave_stats::estimate::Estimate;
use idlewave_units::{Bytes, Cpu, Nanos, NodeId, Pid, Rank};
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
    pub const CURRENT: SchemaVersion = SchemaVersion { major: 2, minor: 0 };
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
    /// Whether the run finished.
    pub state: RunState,
    /// Why it ended early, if it did. Set in state [`RunState::Recording`] where the recorder could
    /// not continue.
    pub incomplete: Option<Incomplete>,
    /// The command line.
    pub command: Vec<String>,
    /// Wall-clock start, RFC 3339 in UTC; for display only.
    pub started: String,
    /// Seed of all random numbers in this run.
    pub seed: u64,
    /// What the run was simulated from; `None` if it was measured.
    #[serde(default)]
    pub simulated: Option<Simulated>,
    /// The nodes; `NodeId` is the index.
    pub nodes: Vec<NodeSheet>,
    /// Conditions of a measurement of CPUs by themselves.
    #[serde(default)]
    pub conditions: Conditions,
    /// The phases, in order; tables refer to a phase by its index.
    pub phases: Vec<Phase>,
    /// The ranks of the lockstep phases; `Rank` is the index.
    pub ranks: Vec<RankSheet>,
    /// What was missing or uncertain in the recording.
    pub losses: Ledger,
    /// The tables, with size and checksum.
    pub tables: Vec<TableEntry>,
}

impl Manifest {
    /// Whether CPUs were measured by themselves only: no ranks ran, and nothing was recorded.
    pub fn is_of_cpus(&self) -> bool {
        let of_cpu = |p: &Phase| {
            matches!(
                p.kind,
                PhaseKind::Detour { .. }
                    | PhaseKind::FixedWork { .. }
                    | PhaseKind::FixedTime { .. }
            )
        };
        !self.phases.is_empty() && self.phases.iter().all(of_cpu)
    }

    /// Whether it measured only programs with a result of their own: benchmarks and ping-pongs.
    pub fn is_of_benchmarks(&self) -> bool {
        let own = |p: &Phase| {
            matches!(
                p.kind,
                PhaseKind::Benchmark(_) | PhaseKind::PingPong { .. } | PhaseKind::Scaling(_)
            )
        };
        !self.phases.is_empty() && self.phases.iter().all(own)
    }

    /// The node whose CPUs phase number `phase` measured by themselves; `None` if it did something
    /// else.
    pub fn measured_node(&self, phase: u32) -> Option<NodeId> {
        self.phases.get(phase as usize)?.kind.measured_node()
    }

    /// Whether the CPUs of more than one node were measured by themselves.
    pub fn measures_several_nodes(&self) -> bool {
        let mut nodes = self.phases.iter().filter_map(|p| p.kind.measured_node());
        let first = nodes.next();
        nodes.any(|node| Some(node) != first)
    }

    /// Whether phase number `phase` repeats, in a later round, a way that took turns with others.
    pub fn is_later_turn(&self, phase: u32) -> bool {
        let phase = self.phases.get(phase as usize);
        phase.is_some_and(|p| match &p.kind {
            PhaseKind::Lockstep { turn, .. } => turn.is_some_and(|t| t.round > 0),
            _ => false,
        })
    }

    /// A sentence for every node that other programs kept busy; see [`busy_nodes`].
    pub fn busy_nodes(&self) -> Vec<String> {
        let nodes = self.nodes.iter();
        busy_nodes(nodes.map(|n| (n.host.name.as_str(), &n.contamination)))
    }

    /// Whether nothing of this node's kernel was recorded although another node's kernel was. Noise
    /// on its ranks is then unknown, not absent.
    pub fn is_not_traced(&self, node: NodeId) -> bool {
        let off = |n: &NodeSheet| n.trace.mode == TraceMode::Off;
        self.nodes.iter().any(|n| n.node == node && off(n)) && !self.nodes.iter().all(off)
    }
}

/// Bound of the error between the times of any two nodes: the two largest bounds against node 0,
/// added.
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

/// How far a run got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Being written, or its writer was killed; tables may be truncated.
    Recording,
    /// Everything requested is there.
    Complete,
    /// Ended early but properly: everything that is there is intact.
    Incomplete,
}

/// Why the run ended early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Incomplete {
    /// SIGINT or SIGTERM, by number.
    Signal(i32),
    /// An error, in words.
    Error(String),
    /// Found in state [`RunState::Recording`] without a living writer and without a reason.
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
    /// Load by other processes over the whole recording.
    pub contamination: Contamination,
    /// How its times were converted to those of node 0; `None` on node 0 itself, and if all nodes
    /// share a clock.
    #[serde(default)]
    pub alignment: Option<Alignment>,
}

/// Clock of a node against that of node 0, measured by messages through the fabric. All times in
/// the bundle are already corrected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alignment {
    /// The measurements, in order of time: usually one at the start and one at the end, or around
    /// each phase.
    pub points: Vec<AlignmentPoint>,
    /// Bound of the error of a corrected time, from the round trips and the drift that the points
    /// cannot show.
    pub error: Nanos,
    /// How it was measured, and how times between the points are corrected, in words.
    pub method: String,
}

/// One measurement of a clock against that of node 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlignmentPoint {
    /// When, CLOCK_MONOTONIC nanoseconds of the node itself.
    pub time_ns: u64,
    /// What must be added to this node's clock to get node 0's, in nanoseconds.
    pub offset_ns: i64,
    /// The shortest round trip; half of it bounds the error.
    pub round_trip: Nanos,
}

/// The clock that stamped the measurements of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockSheet {
    /// `tsc`, `cntvct` or `clock_gettime`; of an imported kernel trace its trace clock, of traces of
    /// programs [`ClockSheet::PARAVER`], [`ClockSheet::OTF2`] or [`ClockSheet::KINETO`].
    pub counter: String,
    /// Counts per second, from calibration against CLOCK_MONOTONIC.
    pub counts_per_second: f64,
    /// The smallest step observed, in counts.
    pub quantum_counts: u64,
    /// The smallest step observed.
    pub quantum_ns: f64,
    /// Median time of one reading.
    pub read_ns: f64,
    /// Largest difference between CLOCK_MONOTONIC and the calibrated counter at the check points.
    pub error: Nanos,
    /// Relative change of the rate between the first and the last calibration (NTP slewing, drift).
    pub rate_change: f64,
    /// Whether the CPU reports that the counter runs at a constant rate in all power states.
    pub invariant: Option<bool>,
    /// How the counter was turned into CLOCK_MONOTONIC, in words.
    pub method: String,
}

impl ClockSheet {
    /// The `counter` of a run that was imported from a Paraver trace.
    pub const PARAVER: &str = "Paraver trace";
    /// The same for an OTF2 archive.
    pub const OTF2: &str = "OTF2 archive";
    /// The `counter` of a run that was imported from traces of PyTorch's profiler.
    pub const KINETO: &str = "Kineto trace";
}

/// One part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// What was done.
    pub kind: PhaseKind,
    /// Start, CLOCK_MONOTONIC nanoseconds of node 0.
    pub begin_ns: u64,
    /// End, likewise.
    pub end_ns: u64,
}

/// What a phase did, with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PhaseKind {
    /// Detour loop on all CPUs of a node at once; table `detours`.
    Detour {
        /// The node.
        #[serde(default = "first_node")]
        node: NodeId,
        /// Gaps longer than this above the loop's own time are recorded.
        threshold: Nanos,
        /// The least threshold the clock allows here.
        floor: Nanos,
        /// Per CPU: what the loop saw.
        loops: Vec<DetourLoop>,
    },
    /// Fixed work quantum on all CPUs of a node at once; table `quanta`.
    FixedWork {
        /// The node.
        #[serde(default = "first_node")]
        node: NodeId,
        /// Work of one quantum in steps of the kernel.
        work_steps: u64,
        /// What a step does.
        #[serde(default)]
        kernel: WorkKernel,
        /// Size of the arrays of each CPU; `None` if the kernel has none.
        #[serde(default)]
        array: Option<Bytes>,
    },
    /// Fixed time quantum on all CPUs at once; table `quanta`.
    FixedTime {
        /// The node.
        node: NodeId,
        /// Distance of the points of the clock at which a quantum ends and the next begins.
        interval: Nanos,
        /// Work of one unit in steps of the kernel.
        work_steps: u64,
        /// What a step does.
        kernel: WorkKernel,
        /// Size of the arrays of each CPU; `None` if the kernel has none.
        array: Option<Bytes>,
    },
    /// Lockstep run; tables `regions` and `detours`.
    Lockstep {
        /// How ranks wait for each other.
        coupling: Coupling,
        /// Work of one iteration in Fibonacci steps.
        work_steps: u64,
        /// The requested length of the computation.
        work_target: Nanos,
        /// Bytes of each message, or of the values that each rank gives to a collective.
        message_bytes: u64,
        /// Ranks along each dimension of the decomposition, for neighbour exchange; empty for a
        /// ring of all.
        #[serde(default)]
        sides: Vec<u32>,
        /// The ranks from which a rank receives in a neighbour exchange.
        #[serde(default)]
        neighbourhood: Neighbourhood,
        /// How the neighbour exchange was programmed.
        #[serde(default)]
        variant: ExchangeVariant,
        /// Number of ranks that took part, counted from rank 0; `None` for all.
        #[serde(default)]
        ranks: Option<u32>,
        /// Iterations that every rank completed.
        iterations: u64,
        /// Gaps longer than this inside computation or wait are recorded as detours.
        threshold: Nanos,
        /// Its place among ways that took turns; `None` if it is not one of these.
        #[serde(default)]
        turn: Option<Turn>,
    },
    /// Molecular dynamics of a Lennard-Jones fluid; table `regions`.
    MolecularDynamics {
        /// Particles of each rank at the start.
        particles_per_rank: u64,
        /// Steps that every rank completed.
        steps: u64,
        /// Steps in which the lists of close pairs were rebuilt.
        rebuilds: u64,
        /// Close pairs in the lists of all ranks at the end.
        pairs: u64,
        /// Largest deviation of the total energy from its first value, over the kinetic energy at
        /// the start; `None` if it was not computed.
        energy_drift: Option<f64>,
    },
    /// A benchmark that verifies its result; table `regions`.
    Benchmark(BenchmarkSheet),
    /// Messages of one size back and forth between pairs; table `regions`.
    PingPong {
        /// Bytes of a message.
        bytes: u64,
        /// Simultaneous pairs: rank i with rank i + half of the ranks.
        pairs: u32,
        /// Round trips of each pair.
        rounds: u64,
        /// Median of half a round trip over all pairs, nanoseconds.
        latency: Estimate,
    },
    /// A program at several numbers of ranks; no table.
    Scaling(ScalingSheet),
    /// A program was recorded; tables `calls`, `transfers`, `communicators`, `operations` and
    /// `marks` if it is an MPI program, the kernel's view in any case.
    Recorded {
        /// The MPI library, as it names itself; `None` if the program never called MPI_Init.
        library: Option<String>,
        /// Exit code of the command, or 128 plus the signal that ended it; `None` where the
        /// recorder was killed before it ended.
        exit_code: Option<i32>,
    },
}

/// Where CPUs were measured in runs older than several nodes.
fn first_node() -> NodeId {
    NodeId::new(0)
}

impl PhaseKind {
    /// The node whose CPUs were measured by themselves; `None` for other phases.
    pub const fn measured_node(&self) -> Option<NodeId> {
        match self {
            Self::Detour { node, .. }
            | Self::FixedWork { node, .. }
            | Self::FixedTime { node, .. } => Some(*node),
            Self::Lockstep { .. }
            | Self::MolecularDynamics { .. }
            | Self::Benchmark(_)
            | Self::PingPong { .. }
            | Self::Scaling(_)
            | Self::Recorded { .. } => None,
        }
    }
}

/// What one CPU's detour loop saw besides the detours.
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
    /// Detours dropped for lack of memory; `stolen` includes them.
    pub not_kept: u64,
    /// All time above the loop's own, in detours longer than the threshold.
    pub stolen: Nanos,
    /// Involuntary context switches of the measuring thread (`getrusage`).
    pub involuntary_switches: Option<u64>,
    /// Whether the thread was seen on a CPU other than its own.
    pub moved: bool,
}

impl DetourLoop {
    /// Time watched: from the first reading to the last, without the writing of records.
    pub fn watched(&self) -> Nanos {
        let wall = Nanos::from_nanos(self.end_ns.saturating_sub(self.begin_ns));
        wall.saturating_sub(self.recording)
    }
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSheet {
    /// Its index.
    pub rank: Rank,
    /// Its node.
    pub node: NodeId,
    /// The CPU it was bound to; `None` if it was free to move, or if that is not known.
    pub cpu: Option<Cpu>,
    /// Its thread, per lockstep phase in order (a phase may start new threads). Of a recorded
    /// program: all threads that called MPI, the one of MPI_Init first.
    pub threads: Vec<Pid>,
    /// Its process, in a recorded program.
    #[serde(default)]
    pub process: Option<Pid>,
    /// Kernel priority of the thread that called MPI_Init, when it was first seen, in a recorded
    /// program.
    #[serde(default)]
    pub priority: Option<Priority>,
}

impl RankSheet {
    /// The sheet of a rank that was not recorded.
    pub fn unrecorded(rank: Rank) -> Self {
        Self {
            rank,
            node: NodeId::new(0),
            cpu: None,
            threads: Vec::new(),
            process: None,
            priority: None,
        }
    }
}

/// Kernel priority of a thread (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// SCHED_OTHER, from -20 (first) to 19.
    Nice(i8),
    /// SCHED_BATCH.
    Batch(i8),
    /// SCHED_IDLE: after all others.
    Idle,
    /// SCHED_FIFO or SCHED_RR, from 1 to 99 (first): before all of the above.
    Realtime(u8),
    /// SCHED_DEADLINE: before all others.
    Deadline,
}

impl Priority {
    /// Parses the content of /proc/PID/task/TID/stat (proc(5)): fields 19, 40 and 41.
    pub fn of_stat(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // The first field after the name is number 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<i64>().ok();
        let nice = i8::try_from(field(19)?).ok()?;
        Some(match field(41)? {
            0 => Self::Nice(nice),
            1 | 2 => Self::Realtime(u8::try_from(field(40)?).ok()?),
            3 => Self::Batch(nice),
            5 => Self::Idle,
            6 => Self::Deadline,
            _ => return None,
        })
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nice(nice) => write!(f, "nice {nice}"),
            Self::Batch(nice) => write!(f, "nice {nice} of the batch class"),
            Self::Idle => write!(f, "the idle class"),
            Self::Realtime(priority) => write!(f, "real-time priority {priority}"),
            Self::Deadline => write!(f, "the deadline class"),
        }
    }
}

#[cfg(test)]
mod priority_tests {
    use super::Priority;

    #[test]
    fn priorities_are_read_behind_a_name_with_parentheses() {
        let stat = |nice: &str, realtime: &str, policy: &str| {
            let mut fields = vec!["0"; 50];
            (fields[16], fields[37], fields[38]) = (nice, realtime, policy);
            Priority::of_stat(&format!("7 (a) b) {}", fields.join(" ")))
        };
        assert_eq!(stat("10", "0", "0"), Some(Priority::Nice(10)));
        assert_eq!(stat("-20", "0", "3"), Some(Priority::Batch(-20)));
        assert_eq!(stat("0", "50", "1"), Some(Priority::Realtime(50)));
        assert_eq!(stat("0", "0", "5"), Some(Priority::Idle));
        assert_eq!(stat("0", "0", "9"), None);
        assert_eq!(Priority::of_stat("7 (a"), None);
    }
}

/// How the kernel's view of a node was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceSheet {
    /// What was used.
    pub mode: TraceMode,
    /// What could not be recorded, and which command would allow it.
    pub unavailable: Vec<Unavailable>,
    /// What recording cost.
    pub cost: TraceCost,
}

/// Where the kernel's view came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceMode {
    /// idlewave's own tracefs instance: every switch, interrupt and wake-up of every traced CPU.
    Tracefs,
    /// `PERF_RECORD_SWITCH` of idlewave's own threads: when they were off their CPU, but not which
    /// thread ran.
    PerfSwitch,
    /// Counters of /proc only: which threads ran and for how long, but not when.
    Counters,
    /// Nothing: switched off by the user, or this node had no recorder; `unavailable` gives the
    /// reason.
    Off,
}

impl TraceMode {
    /// Whether it tells when a watched thread was off its CPU.
    pub const fn sees_switches(self) -> bool {
        matches!(self, Self::Tracefs | Self::PerfSwitch)
    }
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
    /// Share of the traced CPUs' time spent on recording, 0..=1; `None` if no event cost was
    /// measured.
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
        // Node 0 has no alignment.
        assert_eq!(between(&[None, Some(&all[0])]), 5);
        let [a, b, c, d] = all.each_ref().map(Some);
        assert_eq!(between(&[None, a, b, c, d]), 16);
    }
}
