//! Threads of a run as locations.

use crate::export::names::{Names, rank as rank_name};
use crate::export::{ExportError, Job};
use idlewave_run::tables::{Calls, Marks, TaskKind, Transfers};
use idlewave_units::{NodeId, Pid, Rank};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A thread.
pub(super) struct Location {
    /// Its number in the archive, formed as in Score-P: the number of its group, and in the upper
    /// half that of the thread in the group.
    pub number: u64,
    pub name: String,
    /// Index of its group.
    pub group: u32,
    pub thread: Option<Pid>,
}

/// A rank or a process.
pub(super) struct Group {
    pub name: String,
    pub node: NodeId,
    threads: u64,
}

/// What is in a run, before anything is written.
#[derive(Default)]
pub(super) struct Survey {
    pub locations: Vec<Location>,
    pub groups: Vec<Group>,
    /// Node and first location of each rank, in order.
    pub ranks: BTreeMap<Rank, (NodeId, u32)>,
    by_pid: HashMap<(NodeId, Pid), u32>,
}

impl Survey {
    pub(super) fn of(job: &Job<'_>, names: &Names) -> Result<Self, ExportError> {
        let manifest = job.run.manifest();
        let mut survey = Self::default();
        let mut processes: HashMap<(NodeId, Pid), u32> = HashMap::new();
        for sheet in &manifest.ranks {
            let group = survey.group(rank_name(manifest, sheet.rank), sheet.node);
            if let Some(process) = sheet.process {
                processes.insert((sheet.node, process), group);
            }
            let first = survey.locations.len() as u32;
            survey.ranks.insert(sheet.rank, (sheet.node, first));
            let first_thread = sheet.threads.first().copied();
            survey.add(group, first_thread, names);
            for &thread in sheet.threads.iter().skip(1) {
                survey.add(group, Some(thread), names);
            }
        }
        survey.called(job, names)?;
        // Threads of the program that called nothing.
        for task in names.tasks.values() {
            if !matches!(task.kind, TaskKind::Program | TaskKind::Rank) {
                continue;
            }
            let process = (task.node, task.process.unwrap_or(task.pid));
            survey.other(process, task.pid, names, &mut processes);
        }
        let mut marked = BTreeSet::new();
        job.run.for_each::<Marks>(|row| {
            if row.rank.is_none() && survey.object(row.node, row.thread).is_none() {
                marked.insert((row.node, row.thread));
            }
        })?;
        for (node, thread) in marked {
            survey.other((node, thread), thread, names, &mut processes);
        }
        Ok(survey)
    }

    /// Adds threads that called MPI but that the manifest does not list for their ranks.
    fn called(&mut self, job: &Job<'_>, names: &Names) -> Result<(), ExportError> {
        let add = |survey: &mut Self, rank: Rank, thread: Pid| {
            if let Some(&(node, first)) = survey.ranks.get(&rank) {
                if !survey.by_pid.contains_key(&(node, thread)) {
                    let group = survey.locations[first as usize].group;
                    survey.add(group, Some(thread), names);
                }
            }
        };
        job.run
            .for_each::<Calls>(|row| add(self, row.rank, row.thread))?;
        job.run
            .for_each::<Transfers>(|row| add(self, row.rank, row.thread))?;
        Ok(())
    }

    fn other(
        &mut self,
        process: (NodeId, Pid),
        thread: Pid,
        names: &Names,
        processes: &mut HashMap<(NodeId, Pid), u32>,
    ) {
        if self.by_pid.contains_key(&(process.0, thread)) {
            return;
        }
        let name = || named(names, process.0, process.1);
        let known = processes.get(&process).copied();
        let group = known.unwrap_or_else(|| self.group(name(), process.0));
        processes.insert(process, group);
        self.add(group, Some(thread), names);
    }

    fn group(&mut self, name: String, node: NodeId) -> u32 {
        self.groups.push(Group {
            name,
            node,
            threads: 0,
        });
        self.groups.len() as u32 - 1
    }

    fn add(&mut self, group: u32, thread: Option<Pid>, names: &Names) {
        let sheet = &mut self.groups[group as usize];
        let number = sheet.threads << 32 | u64::from(group);
        sheet.threads += 1;
        let node = sheet.node;
        let name = match thread {
            Some(thread) => named(names, node, thread),
            None => sheet.name.clone(),
        };
        let object = self.locations.len() as u32;
        if let Some(thread) = thread {
            self.by_pid.entry((node, thread)).or_insert(object);
        }
        self.locations.push(Location {
            number,
            name,
            group,
            thread,
        });
    }

    /// The location of a thread.
    pub(super) fn object(&self, node: NodeId, thread: Pid) -> Option<u32> {
        self.by_pid.get(&(node, thread)).copied()
    }

    /// The location of a thread of a rank.
    pub(super) fn of_rank(&self, rank: Rank, thread: Pid) -> Option<u32> {
        let &(node, first) = self.ranks.get(&rank)?;
        Some(self.object(node, thread).unwrap_or(first))
    }

    /// Number of ranks that are missing below the highest.
    pub(super) fn gaps(&self) -> u64 {
        let last = self.ranks.keys().next_back();
        last.map_or(0, |last| {
            u64::from(last.get()) + 1 - self.ranks.len() as u64
        })
    }

    /// The first location of a rank.
    pub(super) fn first(&self, rank: Rank) -> Option<u32> {
        self.ranks.get(&rank).map(|&(_, first)| first)
    }
}

/// A thread with its number.
fn named(names: &Names, node: NodeId, thread: Pid) -> String {
    match names.task(node, thread) {
        "" => format!("thread {thread}"),
        name => format!("{name} ({thread})"),
    }
}
