//! The ranks of a recorded program, and its losses.

use super::rows::{SeenInRecords, name_of};
use super::state::{ProgramRing, Viewed};
use idlewave_interpose::ring::{CAPACITY, CAPACITY_VARIABLE, DIRECTORY_VARIABLE, life};
use idlewave_run::{Ledger, Manifest, RankSheet};
use idlewave_units::{NodeId, Pid, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// More ranks than this count as damage.
const MOST_RANKS: u32 = 1 << 24;

/// The processes of the command's first MPI program.
#[derive(Debug, Default)]
pub(super) struct Job {
    size: Option<u32>,
    ranks: BTreeMap<Pid, Rank>,
    /// Processes of further MPI programs.
    others: BTreeSet<Pid>,
}

impl Job {
    /// Built from all rings, in order of appearance.
    pub fn of<'r>(rings: impl Iterator<Item = &'r ProgramRing>) -> Self {
        let mut job = Self::default();
        let mut taken = BTreeSet::new();
        for ring in rings {
            let (Some(rank), Some(size)) = (ring.rank, ring.size) else {
                continue;
            };
            if job.ranks.contains_key(&ring.process) {
                continue;
            }
            if *job.size.get_or_insert(size) == size && taken.insert(rank) {
                job.ranks.insert(ring.process, rank);
            } else {
                job.others.insert(ring.process);
            }
        }
        job
    }

    /// Size of MPI_COMM_WORLD.
    pub fn size(&self) -> Option<u32> {
        self.size
    }

    /// Ranks of this node.
    pub fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Rank of a process.
    pub fn rank(&self, process: Pid) -> Option<Rank> {
        self.ranks.get(&process).copied()
    }

    /// Whether a process belongs to another MPI program.
    pub fn is_other(&self, process: Pid) -> bool {
        self.others.contains(&process)
    }

    /// Ranks that called MPI_Finalize.
    pub fn finalised(&self, rings: &[&ProgramRing]) -> u32 {
        let done: BTreeSet<Pid> = rings
            .iter()
            .filter(|r| r.has_finalised())
            .map(|r| r.process)
            .collect();
        self.ranks.keys().filter(|p| done.contains(p)).count() as u32
    }

    /// The ranks of this node, by rank.
    pub fn sheets(&self, rings: &[&ProgramRing]) -> Vec<RankSheet> {
        let mut sheets: Vec<RankSheet> = Vec::new();
        for (&process, &rank) in &self.ranks {
            let own = || rings.iter().filter(|r| r.process == process);
            // A number that is not from the kernel's view would be mistaken there for another
            // process's.
            let seen = |ring: &&&&ProgramRing| ring.viewed != Viewed::Unknown;
            // The thread of MPI_Init is the first of its process with a ring, usually the main
            // thread.
            let main = own().find(|r| r.thread == process).or(own().next());
            let mut threads: Vec<Pid> = main.iter().filter(seen).map(|r| r.thread).collect();
            for ring in own().filter(|ring| seen(&ring)) {
                if !threads.contains(&ring.thread) {
                    threads.push(ring.thread);
                }
            }
            sheets.push(RankSheet {
                rank,
                node: NodeId::new(0),
                cpu: main.and_then(|r| r.cpu),
                threads,
                process: Some(process),
                priority: None,
            });
        }
        sheets.sort_by_key(|sheet| sheet.rank);
        sheets
    }
}

/// Adds sheets without a process for the ranks of MPI_COMM_WORLD that no node recorded, so that a
/// rank is the index of its sheet, and enters them in the ledger. For a bundle that holds all nodes
/// of the program.
pub fn complete_ranks(manifest: &mut Manifest, size: u32) {
    let known: BTreeSet<Rank> = manifest.ranks.iter().map(|r| r.rank).collect();
    // The size is untrusted, so limit it to what MPI programs have.
    let all = (0..size.min(MOST_RANKS)).map(Rank::new);
    let missing: Vec<Rank> = all.filter(|rank| !known.contains(rank)).collect();
    let sheets = missing.iter().copied().map(RankSheet::unrecorded);
    manifest.ranks.extend(sheets);
    manifest.ranks.sort_by_key(|sheet| sheet.rank);
    let missing: Vec<String> = missing.iter().map(Rank::to_string).collect();
    let mut names = missing
        .iter()
        .take(8)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if missing.len() > 8 {
        names.push_str(", ...");
    }
    manifest.losses.enter(
        format!("ranks that were not recorded: {names}"),
        missing.len() as u64,
        "what they did is unknown: waits for them are charged to them without a cause",
        "see docs/recording-mpi.md, \"What is missed\"",
    );
}

const WITHOUT_RINGS: &str = "processes that call MPI or set marks, but could not create a ring";

/// Enters processes that could not create a ring. Call this before
/// [`gather_program`](super::gather_program), which would otherwise report that no process called
/// MPI_Init.
pub fn enter_without_rings(losses: &mut Ledger, processes: u64) {
    losses.enter(
        WITHOUT_RINGS,
        processes,
        "only their kernel trace was recorded",
        format!(
            "free space in /dev/shm, raise the limit on the size of files (ulimit -f unlimited), or set {CAPACITY_VARIABLE}={} for smaller rings",
            CAPACITY / 16
        ),
    );
}

/// Enters what is missing from the program. `early`: the recording ended early.
pub(super) fn enter_losses(
    losses: &mut Ledger,
    rings: &[&ProgramRing],
    job: &Job,
    seen: &SeenInRecords,
    early: bool,
) {
    const REPORT: &str = "if it happens again, report it as a defect of idlewave";
    let without = losses.entries().iter().any(|l| l.what == WITHOUT_RINGS);
    if job.ranks() == 0 && early {
        losses.enter(
            "an MPI program: no process of the command had called MPI_Init when the recording ended early",
            1,
            "only the kernel's view until then is recorded",
            "see why it ended early, and record again",
        );
    } else if job.ranks() == 0 && !without {
        losses.enter(
            "an MPI program: no process of the command called MPI_Init",
            1,
            "only the kernel's view of the command is recorded",
            "record a program that is linked with an MPI library dynamically, see docs/recording-mpi.md",
        );
    }
    let who = |process: Pid| match job.rank(process) {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {process}"),
    };
    let mut refused: BTreeMap<Pid, u32> = BTreeMap::new();
    for ring in rings {
        let most = refused.entry(ring.process).or_default();
        *most = (*most).max(ring.refused);
        let who = who(ring.process);
        losses.enter(
            format!("records of {who} dropped because its ring was full"),
            ring.lost,
            "its calls and messages are incomplete",
            format!(
                "enlarge its rings, as in {CAPACITY_VARIABLE}={}, and allow files of 64 bytes per record (ulimit -f)",
                16 * CAPACITY
            ),
        );
    }
    for ring in rings.iter().filter(|ring| ring.is_torn()) {
        losses.enter(
            format!(
                "the ring of {}, which its program truncated",
                who(ring.process)
            ),
            1,
            "calls and messages of that thread since the ring was last drained are missing",
            format!("record a program that does not change the files in {DIRECTORY_VARIABLE}"),
        );
    }
    for (process, threads) in refused {
        losses.enter(
            format!(
                "threads of {} that could not create a ring",
                who(process)
            ),
            u64::from(threads),
            "their calls, messages and marks are missing",
            format!(
                "free space in /dev/shm, raise the limit on the size of files (ulimit -f unlimited), or set {CAPACITY_VARIABLE}={} for smaller rings",
                CAPACITY / 16
            ),
        );
    }
    losses.enter(
        "processes of further MPI programs of the same command",
        job.others.len() as u64,
        "only the first MPI program of the command is recorded",
        "record each of them with its own command",
    );
    let finalised = job.finalised(rings);
    losses.enter(
        "ranks that did not complete MPI_Finalize",
        u64::from(job.ranks() - finalised),
        "after its last recorded call such a rank may have computed or hung in a call",
        "see the program's own output for the reason",
    );
    let aborted: BTreeSet<Pid> = rings
        .iter()
        .filter(|r| r.life & life::ABORTED != 0 && job.rank(r.process).is_some())
        .map(|r| r.process)
        .collect();
    losses.enter(
        "ranks that called MPI_Abort",
        aborted.len() as u64,
        "the program ended early",
        "see the program's own output for the reason",
    );
    for (&function, &count) in &seen.failed {
        losses.enter(
            format!("calls of {} that returned an error", name_of(function)),
            count,
            "they are still in the table",
            "see the program's own output for the reason",
        );
    }
    for ([what, consequence, advice], &count) in &seen.losses {
        losses.enter(what, count, consequence, advice);
    }
    losses.enter(
        "completions of requests whose start was not recorded",
        seen.early,
        "these messages are missing",
        "see the lost records; if there are none, report it as a defect of idlewave",
    );
    losses.enter(
        "operations that were cancelled",
        seen.cancelled,
        "they are not messages and are left out",
        "nothing: the program requested it",
    );
    losses.enter(
        "sends and receives whose request was freed before they were complete",
        seen.freed,
        "their completion time is unknown; such receives belong to no message",
        "nothing: the program requested it",
    );
    losses.enter(
        "calls and messages of unknown size",
        seen.bytes_unknown,
        "sums of bytes are too small",
        REPORT,
    );
    losses.enter(
        "ends of marked regions without a start, or starts nested too deeply",
        seen.unpaired_marks,
        "they are left out",
        "leave every marked region in the thread that entered it",
    );
    losses.enter(
        "records of processes that never became ranks",
        seen.no_rank,
        "they are left out",
        "see whether MPI_Init failed",
    );
    losses.enter(
        "records that could not be decoded",
        seen.unknown,
        "they are left out",
        REPORT,
    );
}
