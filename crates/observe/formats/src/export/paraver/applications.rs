//! Sorts the threads of a run into applications and tasks.

use crate::export::paraver::objects::{Application, Node, Objects, Task, Thread};
use crate::export::paraver::text::label;
use crate::export::{ExportError, Job};
use crate::prv;
use idlewave_run::RankSheet;
use idlewave_run::tables::{TaskKind, Tasks};
use idlewave_units::{Cpu, NodeId, Pid, Rank};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What is known of a thread.
struct Known {
    process: Option<Pid>,
    name: String,
    kind: TaskKind,
}

/// Nodes, CPUs and threads that a run mentions.
pub(super) struct Seen {
    nodes: BTreeMap<NodeId, (String, BTreeSet<Cpu>)>,
    threads: BTreeMap<(NodeId, Pid), Option<Known>>,
    ranks: BTreeMap<Rank, RankSheet>,
    /// Threads of the ranks, for a look-up at every row.
    of_rank: HashSet<(Rank, Pid)>,
    /// The last thread of each CPU, so that most rows need no look-up in a tree.
    last: HashMap<(NodeId, Cpu), Pid>,
}

impl Seen {
    /// What the manifest and table `tasks` list.
    pub(super) fn of(job: &Job<'_>) -> Result<Self, ExportError> {
        let manifest = job.run.manifest();
        let node = |n: &idlewave_run::NodeSheet| {
            let cpus = n.host.online.iter().collect();
            (n.node, (label(&n.host.name), cpus))
        };
        let mut seen = Self {
            nodes: manifest.nodes.iter().map(node).collect(),
            threads: BTreeMap::new(),
            ranks: manifest.ranks.iter().map(|r| (r.rank, r.clone())).collect(),
            of_rank: HashSet::new(),
            last: HashMap::new(),
        };
        for rank in &manifest.ranks {
            seen.node(rank.node);
            for &pid in &rank.threads {
                seen.of_rank.insert((rank.rank, pid));
                seen.was_at(rank.node, pid);
            }
            if let Some(cpu) = rank.cpu {
                seen.node(rank.node).insert(cpu);
            }
        }
        job.run.for_each::<Tasks>(|row| {
            if row.pid != Pid::IDLE {
                let known = Known {
                    process: row.process,
                    name: row.name,
                    kind: row.kind,
                };
                seen.node(row.node);
                seen.threads.insert((row.node, row.pid), Some(known));
            }
        })?;
        Ok(seen)
    }

    fn node(&mut self, node: NodeId) -> &mut BTreeSet<Cpu> {
        let new = || (format!("node {node}"), BTreeSet::new());
        &mut self.nodes.entry(node).or_insert_with(new).1
    }

    /// Notes that a thread had a CPU.
    pub(super) fn ran(&mut self, node: NodeId, cpu: Cpu, pid: Pid) {
        if self.last.insert((node, cpu), pid) == Some(pid) {
            return;
        }
        self.node(node).insert(cpu);
        if pid != Pid::IDLE {
            self.was_at(node, pid);
        }
    }

    /// Notes that a thread was on a node.
    pub(super) fn was_at(&mut self, node: NodeId, pid: Pid) {
        self.node(node);
        self.threads.entry((node, pid)).or_insert(None);
    }

    /// Notes that a thread of a rank called MPI.
    pub(super) fn called(&mut self, rank: Rank, thread: Pid) {
        if self.of_rank.contains(&(rank, thread)) {
            return;
        }
        if let Some(sheet) = self.ranks.get_mut(&rank) {
            self.of_rank.insert((rank, thread));
            sheet.threads.push(thread);
            let node = sheet.node;
            self.was_at(node, thread);
        }
    }

    /// Everything seen, as objects of a trace.
    pub(super) fn objects(mut self) -> Objects {
        let mut objects = Objects::default();
        let mut index = HashMap::new();
        let mut number = 0;
        for (&node, (name, cpus)) in &mut self.nodes {
            if cpus.is_empty() {
                cpus.insert(Cpu::new(0));
            }
            index.insert(node, objects.nodes.len());
            for &cpu in cpus.iter() {
                number += 1;
                objects.cpus.insert((node, cpu), number);
            }
            objects.nodes.push(Node {
                cpus: cpus.iter().copied().collect(),
                label: name.clone(),
            });
        }
        let place = |node: &NodeId| index.get(node).copied().unwrap_or(0);
        if !self.ranks.is_empty() {
            objects.open(&format!("{}{}", prv::RANKS_OF, self.first_rank()));
            self.add_ranks(&mut objects, place);
        }
        let program: Vec<(NodeId, Pid)> = self.processes(|known| known.kind == TaskKind::Program);
        if self.ranks.is_empty() && !program.is_empty() {
            let first = program
                .first()
                .map(|&(node, process)| self.plain(node, process));
            let first = first.unwrap_or_default();
            objects.open(&format!("{}{first}", prv::PROCESSES_OF));
            for (node, process) in program {
                self.add_process(&mut objects, node, process, place(&node));
            }
        }
        let all = self.processes(|_| true);
        for (node, (name, cpus)) in &self.nodes {
            objects.open(&format!("{}{name}", prv::ELSE_ON));
            objects.task(place(node), "idle");
            for &cpu in cpus {
                let object = objects.add(format!("idle CPU {cpu}"));
                objects.idle.insert((*node, cpu), object);
            }
            for &(of, process) in all.iter().filter(|(of, _)| of == node) {
                self.add_process(&mut objects, of, process, place(node));
            }
        }
        objects
    }

    fn add_ranks(&self, objects: &mut Objects, place: impl Fn(&NodeId) -> usize) {
        // A process may have threads that never called MPI.
        let mut others: BTreeMap<(NodeId, Pid), Vec<Pid>> = BTreeMap::new();
        for (&(node, pid), known) in &self.threads {
            if let Some(process) = known.as_ref().and_then(|known| known.process) {
                others.entry((node, process)).or_default().push(pid);
            }
        }
        for (rank, sheet) in &self.ranks {
            objects.task(place(&sheet.node), &format!("rank {rank}"));
            let mut listed = Vec::new();
            for &pid in &sheet.threads {
                let known = objects.by_pid(sheet.node, pid);
                listed.push(known.unwrap_or_else(|| {
                    let name = format!("rank {rank} ({pid})");
                    objects.add_known(sheet.node, pid, name)
                }));
            }
            if listed.is_empty() {
                listed.push(objects.add(format!("rank {rank}")));
            }
            // A rank that shares all its threads with another rank still needs a thread of its own.
            if objects.is_task_empty() {
                objects.add(format!("rank {rank}"));
            }
            objects.ranks.insert(*rank, listed);
            let process = sheet.process.map(|process| (sheet.node, process));
            let more = process.and_then(|process| others.get(&process));
            for &pid in more.into_iter().flatten() {
                if objects.by_pid(sheet.node, pid).is_none() {
                    let name = self.name(sheet.node, pid);
                    objects.add_known(sheet.node, pid, name);
                }
            }
        }
    }

    /// Processes with a thread that `wanted` accepts: node and number.
    fn processes(&self, wanted: impl Fn(&Known) -> bool) -> Vec<(NodeId, Pid)> {
        let mut found = BTreeSet::new();
        for (&(node, pid), known) in &self.threads {
            match known {
                Some(known) if wanted(known) => found.insert((node, known.process.unwrap_or(pid))),
                Some(_) => false,
                None => wanted(&UNKNOWN) && found.insert((node, pid)),
            };
        }
        found.into_iter().collect()
    }

    /// Adds the threads of a process that no task has yet.
    fn add_process(&self, objects: &mut Objects, node: NodeId, process: Pid, place: usize) {
        let of = |(&(_, pid), known): (&(NodeId, Pid), &Option<Known>)| {
            let theirs = known.as_ref().and_then(|k| k.process).unwrap_or(pid);
            (theirs == process).then_some(pid)
        };
        // Threads usually have higher numbers than their process, but numbers wrap around.
        let on_node = (node, Pid::new(0))..=(node, Pid::new(u32::MAX));
        let threads = self.threads.range(on_node).filter_map(of);
        let mut begun = false;
        for pid in threads {
            if objects.by_pid(node, pid).is_some() {
                continue;
            }
            if !begun {
                begun = true;
                objects.task(place, &self.name(node, process));
            }
            objects.add_known(node, pid, self.name(node, pid));
        }
    }

    /// The name of the program whose ranks are in the run: that of the first rank's process.
    fn first_rank(&self) -> String {
        let first = self.ranks.values().next();
        let pid = first.and_then(|r| Some((r.node, r.process.or(r.threads.first().copied())?)));
        pid.map_or_else(unknown, |(node, pid)| self.plain(node, pid))
    }

    fn plain(&self, node: NodeId, pid: Pid) -> String {
        let known = self.threads.get(&(node, pid)).and_then(Option::as_ref);
        known.map_or_else(unknown, |known| label(&known.name))
    }

    fn name(&self, node: NodeId, pid: Pid) -> String {
        format!("{} ({pid})", self.plain(node, pid))
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

const UNKNOWN: Known = Known {
    process: None,
    name: String::new(),
    kind: TaskKind::Unknown,
};

impl Objects {
    fn open(&mut self, name: &str) {
        self.applications.push(Application {
            tasks: Vec::new(),
            label: name.to_owned(),
        });
    }

    /// Starts a task in the last application.
    fn task(&mut self, node: usize, name: &str) {
        if let Some(application) = self.applications.last_mut() {
            application.tasks.push(Task {
                node,
                threads: 0,
                label: name.to_owned(),
            });
        }
    }

    fn is_task_empty(&self) -> bool {
        let task = self.applications.last().and_then(|a| a.tasks.last());
        task.is_none_or(|task| task.threads == 0)
    }

    /// Adds a thread to the last task.
    fn add(&mut self, name: String) -> u32 {
        let appl = self.applications.len() as u32;
        let (mut task, mut thread) = (0, 0);
        if let Some(application) = self.applications.last_mut() {
            task = application.tasks.len() as u32;
            if let Some(last) = application.tasks.last_mut() {
                last.threads += 1;
                thread = last.threads;
            }
        }
        self.threads.push(Thread {
            appl,
            task,
            thread,
            label: name,
        });
        self.threads.len() as u32 - 1
    }

    fn add_known(&mut self, node: NodeId, pid: Pid, name: String) -> u32 {
        let object = self.add(name);
        self.by_pid.insert((node, pid), object);
        object
    }
}
