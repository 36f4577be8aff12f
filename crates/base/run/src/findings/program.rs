//! What the analysis found of a recorded program.

use super::{Estimate, LatePartFinding};
use idlewave_units::{Cpu, Nanos, Rank};
use serde::{Deserialize, Serialize};

/// A recorded MPI program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramFindings {
    /// The MPI library, as it names itself.
    pub library: Option<String>,
    /// Ranks.
    pub ranks: u32,
    /// From the return of the last MPI_Init to the entry of the last MPI_Finalize, or to the last
    /// call if a rank never finalized.
    pub total: Nanos,
    /// Per rank: where its time went.
    pub ranks_time: Vec<RankTime>,
    /// Per function, most time first.
    pub operations: Vec<OperationFinding>,
    /// Bytes of all point-to-point messages.
    pub message_bytes: u64,
    /// Point-to-point messages matched.
    pub messages: u64,
    /// Traffic between ranks as (from, to, messages, bytes), in order; messages to self included.
    pub matrix: Vec<(Rank, Rank, u64, u64)>,
    /// Waits by kind, most time first.
    pub waits: Vec<WaitClass>,
    /// Time in waits, all ranks together.
    pub waited: Nanos,
    /// Part of it charged to a named source or class (everything but `Unexplained`).
    pub named: Nanos,
    /// Part of it that reached the waiting rank through at least one other rank: idle waves.
    pub propagated: Nanos,
    /// The longest waits explained, longest first, at most 100. All are in table `waits`.
    pub latest: Vec<WaitFinding>,
    /// Delays that travelled at least two hops, most time lost first, at most 20.
    pub waves: Vec<WaveFinding>,
    /// What the time of the whole program was made of.
    pub path: PathFinding,
    /// Regions that the program marked, most time first.
    pub marks: Vec<MarkFinding>,
}

/// Where the time of a rank of a recorded program went. The parts add up to the time from the
/// return of the last MPI_Init to the rank's entry into MPI_Finalize, or to the end of its last
/// call if it never finalized.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankTime {
    /// The rank.
    pub rank: Rank,
    /// Outside MPI, on a CPU.
    pub computing: Nanos,
    /// Taken by others (preempted, interrupted, waiting for a CPU), or asleep outside MPI; not
    /// counted while the rank waited for another rank.
    pub taken: Nanos,
    /// Inside MPI, waiting for another rank.
    pub waiting: Nanos,
    /// Inside MPI, on a CPU and not waiting.
    pub communicating: Nanos,
}

/// One function of MPI over all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationFinding {
    /// Name in C.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Time in it, all ranks together.
    pub time: Nanos,
    /// Part of it waiting for other ranks.
    pub waiting: Nanos,
    /// Median time of a call.
    pub median: Nanos,
    /// Longest call.
    pub max: Nanos,
    /// Bytes sent in it (point-to-point: transferred), all ranks together.
    pub bytes: u64,
}

/// Waits of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitClass {
    /// "late sender", "late receiver", "wait at MPI_Allreduce".
    pub name: String,
    /// How many.
    pub count: u64,
    /// Time in them, all ranks together.
    pub time: Nanos,
}

/// One wait with its explanation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitFinding {
    /// Row of table `waits`.
    pub wait: u32,
    /// Function in which it waited, in C: MPI_Barrier.
    pub operation: String,
    /// "late sender", "late receiver", "wait at a collective".
    pub kind: String,
    /// The rank that waited.
    pub rank: Rank,
    /// The awaited rank.
    pub culprit: Rank,
    /// CPU on which the delay began.
    pub cpu: Option<Cpu>,
    /// The rank on which most of the delay began.
    pub origin: Rank,
    /// Hops from there.
    pub hops: u32,
    /// Start.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Its parts, largest first; they add up to its length exactly.
    pub parts: Vec<LatePartFinding>,
}

/// A delay that travelled through ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaveFinding {
    /// Where it began.
    pub origin: Rank,
    /// When the first rank began to wait.
    pub begin_ns: u64,
    /// Index into the `sources` of the findings: the source charged with most of it.
    pub source: u32,
    /// Number of ranks that it delayed.
    pub ranks: u32,
    /// Hops to the farthest of them.
    pub hops: u32,
    /// Time lost in it, all ranks together.
    pub lost: Nanos,
    /// Hops per second, from the ends of the waits; `None` if all were hit at once.
    pub speed: Option<Estimate>,
    /// Length of the waits one hop from the origin.
    pub first: Nanos,
    /// Share of its length that the wave loses per hop; negative if it grows. `None` with fewer
    /// than three hops.
    pub decay: Option<f64>,
    /// Its waits: rank, hops, start, length; in order of hops.
    pub points: Vec<(Rank, u32, u64, Nanos)>,
}

/// The critical path: the way back from the end of the last rank, which goes on at the awaited rank
/// wherever a rank waited. It holds no waits, so a delay that lies off it was waited out. Computing,
/// communicating and the sources add up to `total` of the program, and so do the ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathFinding {
    /// Outside MPI, on a CPU, at the usual speed.
    pub computing: Nanos,
    /// Inside MPI, on a CPU and not waiting, for as long as usual.
    pub communicating: Nanos,
    /// What took time on it, most first: index into the `sources` of the findings, and time.
    pub sources: Vec<(u32, Nanos)>,
    /// Time that it spends on each rank, most first; ranks that it never touches are left out.
    pub ranks: Vec<(Rank, Nanos)>,
    /// How often it goes from one rank to another.
    pub hops: u64,
}

/// A region that the program marked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MarkFinding {
    /// Its name.
    pub name: String,
    /// How often it was entered, over all ranks.
    pub count: u64,
    /// Time in it, all ranks together.
    pub time: Nanos,
    /// Median.
    pub median: Nanos,
    /// Longest.
    pub max: Nanos,
    /// Part of it spent waiting for other ranks.
    pub waiting: Nanos,
}
