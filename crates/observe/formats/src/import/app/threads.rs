//! Threads of a trace.

use idlewave_run::RankSheet;
use idlewave_run::tables::{Table, Task, TaskKind, Tasks};
use idlewave_units::{NodeId, Pid, Rank};
use std::collections::{BTreeMap, HashSet};

/// A thread's number, in the order in which threads were added.
pub(in crate::import) type ThreadId = usize;

/// A thread of the trace.
#[derive(Clone, Debug)]
pub(in crate::import) struct Thread {
    /// Its place among the rows of `tasks`.
    pub place: [u32; 3],
    pub node: NodeId,
    pub pid: Pid,
    pub process: Pid,
    pub name: String,
    pub rank: Option<Rank>,
    pub kind: TaskKind,
}

/// All threads.
#[derive(Default)]
pub(super) struct Threads {
    pub all: Vec<Thread>,
    pids: HashSet<(NodeId, Pid)>,
    next_pid: u32,
}

impl Threads {
    /// The number that the trace gives a thread, or a new one if it gives none or gives the same
    /// one to several threads of a node.
    pub(super) fn pid(&mut self, node: NodeId, given: Option<Pid>) -> Pid {
        // Above the largest PID of Linux (PID_MAX_LIMIT, 2^22).
        const FIRST: u32 = 1 << 22;
        if let Some(pid) = given.filter(|pid| self.pids.insert((node, *pid))) {
            return pid;
        }
        loop {
            self.next_pid += 1;
            let pid = Pid::new(FIRST + self.next_pid);
            if self.pids.insert((node, pid)) {
                return pid;
            }
        }
    }

    /// The rows of `tasks`, with one idle thread per node, and the sheets of the ranks, of which
    /// there are at least `expected`.
    pub(super) fn finish(mut self, expected: u32) -> (Tasks, Vec<RankSheet>) {
        self.all.sort_by_key(|thread| thread.place);
        let mut ranks: BTreeMap<Rank, RankSheet> = BTreeMap::new();
        let mut tasks = Tasks::default();
        let mut idle = HashSet::new();
        for thread in self.all {
            if thread.kind == TaskKind::Idle && !idle.insert(thread.node) {
                continue;
            }
            if let Some(rank) = thread.rank {
                let sheet = ranks.entry(rank).or_insert(RankSheet {
                    node: thread.node,
                    process: Some(thread.process),
                    ..RankSheet::unrecorded(rank)
                });
                sheet.threads.push(thread.pid);
            }
            tasks.push(Task {
                node: thread.node,
                pid: thread.pid,
                process: Some(thread.process),
                name: thread.name,
                kind: thread.kind,
            });
        }
        for rank in (0..expected).map(Rank::new) {
            ranks.entry(rank).or_insert(RankSheet::unrecorded(rank));
        }
        (tasks, ranks.into_values().collect())
    }
}
