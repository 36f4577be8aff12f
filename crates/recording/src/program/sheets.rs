//! The ranks of a recorded program, and what is missing of it.

use super::rows::{SeenInRecords, name_of};
use super::state::ProgramRing;
use idlewave_interpose::ring::{CAPACITY, CAPACITY_VARIABLE, life};
use idlewave_run::{Ledger, Manifest, RankSheet};
use idlewave_units::{NodeId, Pid, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// More ranks than this are damage.
const MOST_RANKS: u32 = 1 << 24;

/// The processes that belong together: those of the first MPI program of the command.
#[derive(Debug, Default)]
pub(super) struct Job {
    size: Option<u32>,
    ranks: BTreeMap<Pid, Rank>,
    /// Processes of further MPI programs.
    others: BTreeSet<Pid>,
}

impl Job {
    /// From all rings, in the order in which they were met.
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
            // The thread of MPI_Init is the first of its process that wrote a ring, mostly the process itself.
            let main = own().find(|r| r.thread == process).or(own().next());
            let mut threads: Vec<Pid> = main.map(|r| r.thread).into_iter().collect();
            for ring in own() {
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
            });
        }
        sheets.sort_by_key(|sheet| sheet.rank);
        sheets
    }
}

/// Adds sheets without a process for the ranks of MPI_COMM_WORLD that no node has recorded, so that a rank is the index
/// of its sheet, and enters them in the ledger. For a bundle that holds all nodes of the program.
pub fn complete_ranks(manifest: &mut Manifest, size: u32) {
    let known: BTreeSet<Rank> = manifest.ranks.iter().map(|r| r.rank).collect();
    // A size comes from foreign bytes: no more than MPI programs have.
    let all = (0..size.min(MOST_RANKS)).map(Rank::new);
    let missing: Vec<Rank> = all.filter(|rank| !known.contains(rank)).collect();
    manifest.ranks.extend(missing.iter().map(|&rank| RankSheet {
        rank,
        node: NodeId::new(0),
        cpu: None,
        threads: Vec::new(),
        process: None,
    }));
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
        "what they did is not known: waits for them are charged to them without a cause",
        "see docs/recording-mpi.md, \"What is not seen\"",
    );
}

/// Enters what is missing of the program.
pub(super) fn enter_losses(
    losses: &mut Ledger,
    rings: &[&ProgramRing],
    job: &Job,
    seen: &SeenInRecords,
) {
    const REPORT: &str = "if it comes again, report it as a defect of idlewave";
    if job.ranks() == 0 {
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
            format!("records of {who} for which its ring had no room"),
            ring.lost,
            "calls, messages and their order are incomplete there",
            format!(
                "give its rings more room, as in {CAPACITY_VARIABLE}={}",
                16 * CAPACITY
            ),
        );
    }
    for (process, threads) in refused {
        losses.enter(
            format!(
                "threads of {} for which no ring could be made",
                who(process)
            ),
            u64::from(threads),
            "their calls, messages and marks are missing",
            format!(
                "make room in /dev/shm, or set {CAPACITY_VARIABLE}={} for smaller rings",
                CAPACITY / 16
            ),
        );
    }
    losses.enter(
        "processes of further MPI programs of the same command",
        job.others.len() as u64,
        "only the first MPI program of the command is recorded",
        "record each of them with a command of its own",
    );
    let finalised = job.finalised(rings);
    losses.enter(
        "ranks that did not come to the end of MPI_Finalize",
        u64::from(job.ranks() - finalised),
        "after its last call recorded it is not known whether such a rank computed, or was inside a call that it never left",
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
        "the program ended before its time",
        "see the program's own output for the reason",
    );
    for (&function, &count) in &seen.failed {
        losses.enter(
            format!("calls of {} that returned an error", name_of(function)),
            count,
            "they are in the table all the same",
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
        "see the records that were lost; else report it as a defect of idlewave",
    );
    losses.enter(
        "operations that were cancelled",
        seen.cancelled,
        "they are no messages and are left out",
        "nothing: the program wanted it so",
    );
    losses.enter(
        "sends and receives whose request was freed before they were complete",
        seen.freed,
        "when they were complete is not known; such receives are in no message",
        "nothing: the program wanted it so",
    );
    losses.enter(
        "calls and messages whose bytes could not be found out",
        seen.bytes_unknown,
        "sums of bytes are too small",
        REPORT,
    );
    losses.enter(
        "ends of marked regions without a begin, or begins nested too deeply",
        seen.unpaired_marks,
        "they are left out",
        "leave every marked region in the thread that entered it",
    );
    losses.enter(
        "records of processes that never came to be ranks",
        seen.no_rank,
        "they are left out",
        "see whether MPI_Init failed",
    );
    losses.enter(
        "records that could not be understood",
        seen.unknown,
        "they are left out",
        REPORT,
    );
}
