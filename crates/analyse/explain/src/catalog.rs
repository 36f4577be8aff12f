//! The names to which delay is charged: one entry per source, numbered in order of first use.

use idlewave_run::SourceKind;
use idlewave_run::tables::{Sources, Table, TaskKind, Tasks};
use idlewave_units::{NodeId, Pid};
use std::collections::{BTreeMap, BTreeSet};

/// Number of a source in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(u32);

impl SourceId {
    /// As an index into per-source tables.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known about a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Thread {
    source: SourceId,
}

/// All sources of a run.
#[derive(Debug, Default)]
pub struct Catalog {
    entries: Vec<(SourceKind, String)>,
    by_name: BTreeMap<(SourceKind, String), SourceId>,
    threads: BTreeMap<(NodeId, Pid), Thread>,
    interrupts: BTreeMap<u32, SourceId>,
    members: BTreeMap<SourceId, BTreeSet<String>>,
}

/// The source of calls that took longer than usual where no kernel was recorded: the network, the
/// memory that ranks share and the lack of a CPU then look alike.
pub const LONG_CALLS: &str = "long calls";
/// Delays on a node whose kernel was not traced, while that of other nodes was.
pub(crate) const NOT_TRACED: &str = "not traced (a node without kernel's view)";
/// Name of this program's processes.
const OWN_NAME: &str = "idlewave";

impl Catalog {
    /// From the run's tables of threads and interrupt sources.
    pub fn new(tasks: &Tasks, sources: &Sources) -> Self {
        let mut catalog = Catalog::default();
        for source in sources.rows() {
            let id = catalog.intern(source.kind, &source.name);
            catalog.interrupts.insert(source.id, id);
        }
        let processes: BTreeMap<(NodeId, Pid), String> = tasks
            .rows()
            .filter(|t| t.process == Some(t.pid))
            .map(|t| ((t.node, t.pid), t.name))
            .collect();
        // Unless idlewave itself was recorded.
        let recorded = tasks
            .rows()
            .any(|t| t.kind == TaskKind::Rank && t.name.starts_with(OWN_NAME));
        let several = tasks.node.windows(2).any(|pair| pair[0] != pair[1]);
        for task in tasks.rows() {
            // A program is known by its own name, not by the names of its threads.
            let process = task.process.and_then(|p| processes.get(&(task.node, p)));
            let (kind, name) = match task.kind {
                TaskKind::Kernel => (SourceKind::KernelThread, group_name(&task.name)),
                TaskKind::Rank => (SourceKind::Rank, "other rank on the same CPU".to_owned()),
                TaskKind::Own => (SourceKind::Recorder, task.name.clone()),
                TaskKind::Program if !recorded && is_own_name(&task.name) => {
                    (SourceKind::Recorder, OWN_NAME.to_owned())
                }
                _ => (SourceKind::Task, process.unwrap_or(&task.name).clone()),
            };
            let source = catalog.intern(kind, &name);
            let mut member = if name == task.name {
                format!("pid {}", task.pid)
            } else {
                task.name.clone()
            };
            // The same daemon on two nodes is one source; the detail says on which nodes.
            if several {
                member.push_str(&format!(" on node {}", task.node));
            }
            catalog.members.entry(source).or_default().insert(member);
            catalog
                .threads
                .insert((task.node, task.pid), Thread { source });
        }
        catalog
    }

    /// The number of a source, assigned on first use.
    pub fn intern(&mut self, kind: SourceKind, name: &str) -> SourceId {
        if let Some(&id) = self.by_name.get(&(kind, name.to_owned())) {
            return id;
        }
        let id = SourceId(self.entries.len() as u32);
        self.entries.push((kind, name.to_owned()));
        self.by_name.insert((kind, name.to_owned()), id);
        id
    }

    /// The number of the only source of a class.
    pub fn class(&mut self, kind: SourceKind) -> SourceId {
        self.intern(kind, kind.label())
    }

    /// The source of messages that take longer than usual between ranks on `nodes`: there is no
    /// network between ranks of one node.
    pub fn transfer(&mut self, nodes: impl IntoIterator<Item = NodeId>) -> SourceId {
        let mut nodes = nodes.into_iter();
        let first = nodes.next();
        self.class(match nodes.all(|node| Some(node) == first) {
            true => SourceKind::SharedMemory,
            false => SourceKind::Network,
        })
    }

    /// The source for a thread; a new one if the run does not name the thread.
    pub fn thread(&mut self, node: NodeId, pid: Pid) -> SourceId {
        match self.threads.get(&(node, pid)) {
            Some(thread) => thread.source,
            None => {
                let source = self.intern(SourceKind::Task, &format!("pid {pid}"));
                self.threads.insert((node, pid), Thread { source });
                source
            }
        }
    }

    /// The source for a row of the run's `sources`.
    pub fn interrupt(&mut self, row: u32) -> SourceId {
        match self.interrupts.get(&row) {
            Some(&id) => id,
            None => {
                let id = self.intern(
                    SourceKind::Unexplained,
                    &format!("source {row} of the trace"),
                );
                self.interrupts.insert(row, id);
                id
            }
        }
    }

    /// Class of a source.
    pub fn kind(&self, id: SourceId) -> SourceKind {
        self.entries[id.index()].0
    }
    /// Name of a source.
    pub fn name(&self, id: SourceId) -> &str {
        &self.entries[id.index()].1
    }
    /// Threads behind a source: names if they differ from the source's, otherwise numbers.
    pub fn members(&self, id: SourceId) -> impl Iterator<Item = &str> {
        self.members
            .get(&id)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
    /// How many sources there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// All numbers, in order.
    pub fn ids(&self) -> impl Iterator<Item = SourceId> + use<> {
        (0..self.entries.len() as u32).map(SourceId)
    }
}

/// Whether the name of a thread started by the launcher is one of idlewave's. A recorder knows its
/// own threads, but not those of other nodes' recorders on the same kernel, nor what precedes the
/// program in the launcher's command.
fn is_own_name(name: &str) -> bool {
    let rest = name.strip_prefix(OWN_NAME);
    rest.is_some_and(|rest| matches!(rest, "" | "-reader" | "-wait" | "-perf"))
}

/// One name for the per-CPU copies of a kernel thread: `ksoftirqd/1` is `ksoftirqd`, and
/// `kworker/0:1H-kblockd` is `kworker`.
fn group_name(name: &str) -> String {
    match name.split_once('/') {
        Some((group, _)) if !group.is_empty() => group.to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::tables::Task;

    #[test]
    fn copies_of_a_kernel_thread_are_one_source_and_keep_their_names() {
        let mut tasks = Tasks::default();
        for (pid, name) in [(20, "ksoftirqd/0"), (21, "ksoftirqd/1"), (9, "kdamond.0")] {
            tasks.push(Task {
                node: NodeId::new(0),
                pid: Pid::new(pid),
                process: None,
                name: name.into(),
                kind: TaskKind::Kernel,
            });
        }
        let mut catalog = Catalog::new(&tasks, &Sources::default());
        let id = catalog.thread(NodeId::new(0), Pid::new(20));
        assert_eq!(id, catalog.thread(NodeId::new(0), Pid::new(21)));
        assert_eq!(catalog.name(id), "ksoftirqd");
        assert_eq!(
            catalog.members(id).collect::<Vec<_>>(),
            ["ksoftirqd/0", "ksoftirqd/1"]
        );
        assert_ne!(id, catalog.thread(NodeId::new(0), Pid::new(9)));
    }

    #[test]
    fn threads_of_a_program_are_one_source_under_its_name() {
        let mut tasks = Tasks::default();
        for (pid, process, name) in [
            (30, Some(30), "service"),
            (31, Some(30), "worker-1"),
            (32, Some(30), "worker-2"),
            (40, Some(4), "orphan"),
        ] {
            tasks.push(Task {
                node: NodeId::new(0),
                pid: Pid::new(pid),
                process: process.map(Pid::new),
                name: name.into(),
                kind: TaskKind::User,
            });
        }
        let mut catalog = Catalog::new(&tasks, &Sources::default());
        let id = catalog.thread(NodeId::new(0), Pid::new(31));
        assert_eq!(catalog.name(id), "service");
        assert_eq!(id, catalog.thread(NodeId::new(0), Pid::new(30)));
        assert_eq!(
            catalog.members(id).collect::<Vec<_>>(),
            ["pid 30", "worker-1", "worker-2"]
        );
        let orphan = catalog.thread(NodeId::new(0), Pid::new(40));
        assert_eq!(catalog.name(orphan), "orphan");
    }

    #[test]
    fn processes_of_idlewave_are_recorders_unless_they_are_what_was_recorded() {
        let table = |rank: &str| {
            let mut tasks = Tasks::default();
            for (pid, name, kind) in [
                (30, "idlewave", TaskKind::Program),
                (31, "idlewave-reader", TaskKind::Program),
                // Another user's.
                (32, "idlewave", TaskKind::User),
                (33, "idlewave-x", TaskKind::Program),
                (40, rank, TaskKind::Rank),
            ] {
                tasks.push(Task {
                    node: NodeId::new(0),
                    pid: Pid::new(pid),
                    process: None,
                    name: name.into(),
                    kind,
                });
            }
            tasks
        };
        let kinds = |rank: &str| {
            let mut catalog = Catalog::new(&table(rank), &Sources::default());
            [30, 31, 32, 33].map(|pid| {
                let source = catalog.thread(NodeId::new(0), Pid::new(pid));
                catalog.kind(source)
            })
        };
        let (own, task) = (SourceKind::Recorder, SourceKind::Task);
        assert_eq!(kinds("app"), [own, own, task, task]);
        assert_eq!(kinds("idlewave"), [task; 4]);
    }

    #[test]
    fn a_thread_that_the_run_does_not_name_is_a_source_of_its_own() {
        let mut catalog = Catalog::default();
        let id = catalog.thread(NodeId::new(0), Pid::new(77));
        assert_eq!(catalog.name(id), "pid 77");
        assert_eq!(catalog.kind(id), SourceKind::Task);
    }
}
