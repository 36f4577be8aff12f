//! Which thread of the kernel trace is which thread of a rank.

use crate::import::error::ImportError;
use idlewave_run::tables::{Bursts, Table, Task, TaskKind, Tasks};
use idlewave_run::{Ledger, Manifest, RankSheet, RunReader};
use idlewave_units::{NodeId, Pid, counted};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The node of a kernel trace.
pub(super) const NODE: NodeId = NodeId::new(0);

/// Length of a thread's name in the kernel (`TASK_COMM_LEN` without the terminating zero).
const KERNEL_NAME: usize = 15;

/// The threads of the ranks.
#[derive(Debug)]
pub(super) struct People {
    /// Threads of the program's trace: their numbers there, and in the kernel trace.
    threads: BTreeMap<Pid, Pid>,
    /// The numbers in the kernel trace, each with its process.
    bound: BTreeMap<Pid, Option<Pid>>,
    /// Threads that are not in the kernel trace.
    unseen: u64,
    /// Both traces use the same thread numbers.
    pub by_number: bool,
    kernel: Vec<Task>,
    app: Vec<Task>,
}

impl People {
    /// Finds the threads: by number if the kernel trace has every rank's, else by name and order.
    ///
    /// # Errors The kernel trace has neither the numbers nor as many processes of that name as
    /// there are ranks.
    pub(super) fn find(
        run: &RunReader,
        app: &RunReader,
        name: &str,
        path: &Path,
    ) -> Result<Self, ImportError> {
        let kernel: Vec<Task> = run.read::<Tasks>()?.rows().collect();
        let theirs: Vec<Task> = app.read::<Tasks>()?.rows().collect();
        let known: BTreeSet<Pid> = kernel.iter().map(|task| task.pid).collect();
        let sheets = app
            .manifest()
            .ranks
            .iter()
            .filter(|sheet| sheet.process.is_some());
        let firsts: Vec<Pid> = sheets
            .filter_map(|sheet| sheet.threads.first().copied())
            .collect();
        let by_number = firsts.iter().all(|pid| known.contains(pid));
        let mut people = Self {
            threads: BTreeMap::new(),
            bound: BTreeMap::new(),
            unseen: 0,
            by_number,
            kernel,
            app: theirs,
        };
        match by_number {
            true => people.bind_by_number(&known),
            false => {
                let mut ran: BTreeMap<Pid, u64> = BTreeMap::new();
                run.for_each::<Bursts>(|burst| {
                    let length = burst.end_ns.saturating_sub(burst.begin_ns);
                    *ran.entry(burst.pid).or_default() += length;
                })?;
                people.bind_by_order(&ran, &firsts, name, path)?;
            }
        }
        let bound: BTreeSet<Pid> = people.threads.values().copied().collect();
        let tasks = people.kernel.iter().filter(|t| bound.contains(&t.pid));
        people.bound = tasks.map(|task| (task.pid, task.process)).collect();
        Ok(people)
    }

    fn bind_by_number(&mut self, known: &BTreeSet<Pid>) {
        for task in self.app.iter().filter(|task| task.kind == TaskKind::Rank) {
            match known.contains(&task.pid) {
                true => _ = self.threads.insert(task.pid, task.pid),
                false => self.unseen += 1,
            }
        }
    }

    /// Binds the first threads of the ranks, in order, to the processes of their name. If there are
    /// more processes than ranks, those that `ran` longest count.
    fn bind_by_order(
        &mut self,
        ran: &BTreeMap<Pid, u64>,
        firsts: &[Pid],
        name: &str,
        path: &Path,
    ) -> Result<(), ImportError> {
        let of_thread = |pid: &Pid| {
            let task = self.app.iter().find(|task| task.pid == *pid)?;
            Some(task.name.as_str())
        };
        let mut names: Vec<&str> = vec![name];
        names.extend(firsts.first().and_then(of_thread));
        let leads = |task: &&Task| task.process.is_none_or(|process| process == task.pid);
        let users = self
            .kernel
            .iter()
            .filter(|task| !matches!(task.kind, TaskKind::Idle | TaskKind::Kernel));
        let leaders: Vec<&Task> = users.filter(leads).collect();
        let of_name = |name: &str| {
            let name = short(name);
            let found = leaders.iter().filter(|task| task.name == name);
            found.map(|task| task.pid).collect::<Vec<Pid>>()
        };
        let found = names.iter().map(|name| of_name(name));
        let Some(mut found) = found.into_iter().find(|all| all.len() >= firsts.len()) else {
            let count = of_name(name).len();
            return Err(ImportError::Lacks {
                path: path.to_owned(),
                what: format!(
                    "it has {} named {name}, the program's trace has {}, and the numbers of their \
                     threads differ",
                    counted(count, "process"),
                    counted(firsts.len(), "rank")
                ),
                next: "record both traces of the same run, the kernel's from before its start"
                    .to_owned(),
            });
        };
        // Where a trace has no processes, each thread counts as one. The library's helpers run
        // less.
        found.sort_by_key(|pid| (std::cmp::Reverse(ran.get(pid).copied()), *pid));
        found.truncate(firsts.len());
        found.sort_unstable();
        self.threads = firsts.iter().copied().zip(found).collect();
        let ranks = self
            .app
            .iter()
            .filter(|task| task.kind == TaskKind::Rank)
            .count();
        self.unseen = (ranks - firsts.len()) as u64;
        Ok(())
    }

    /// Threads in both traces.
    pub(super) fn mapped(&self) -> usize {
        self.threads.len()
    }

    /// Those threads: number in the program's trace, number in the kernel's.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (Pid, Pid)> + '_ {
        self.threads
            .iter()
            .map(|(theirs, kernel)| (*theirs, *kernel))
    }

    /// The number in the run of a thread of the program's trace. A thread that the kernel trace
    /// lacks gets a number above all of the kernel trace's.
    pub(super) fn pid(&self, theirs: Pid) -> Pid {
        // Above the largest PID of Linux (PID_MAX_LIMIT, 2^22).
        const FIRST: u32 = 1 << 23;
        match self.threads.get(&theirs) {
            Some(&kernel) => kernel,
            None => Pid::new(theirs.get() | FIRST),
        }
    }

    /// The rows of `tasks`.
    pub(super) fn tasks(&self) -> Tasks {
        let mut rows = Tasks::default();
        let chosen = |task: &Task| task.kind == TaskKind::Program;
        let is_bound = |task: &Task| self.bound.contains_key(&task.pid);
        let processes: BTreeSet<Pid> = self.bound.values().copied().flatten().collect();
        let has_rank = self.kernel.iter().any(|t| chosen(t) && is_bound(t));
        for task in &self.kernel {
            let of_rank = task
                .process
                .is_some_and(|process| processes.contains(&process));
            let kind = match task.kind {
                _ if is_bound(task) => TaskKind::Rank,
                TaskKind::Idle | TaskKind::Kernel => task.kind,
                _ if of_rank => TaskKind::Program,
                // It was chosen without knowledge of the ranks.
                TaskKind::Program if !has_rank => TaskKind::User,
                kind => kind,
            };
            rows.push(Task {
                kind,
                ..task.clone()
            });
        }
        let unseen = self.app.iter().filter(|task| task.kind == TaskKind::Rank);
        for task in unseen.filter(|task| !self.threads.contains_key(&task.pid)) {
            rows.push(Task {
                node: NODE,
                pid: self.pid(task.pid),
                process: task.process.map(|process| self.pid(process)),
                ..task.clone()
            });
        }
        rows
    }

    /// The sheets of the ranks.
    pub(super) fn sheets(&self, app: &Manifest) -> Vec<RankSheet> {
        let sheet = |sheet: &RankSheet| RankSheet {
            node: NODE,
            threads: sheet.threads.iter().map(|pid| self.pid(*pid)).collect(),
            process: sheet.process.map(|process| {
                let first = sheet.threads.first().map(|first| self.pid(*first));
                let bound = first.and_then(|first| *self.bound.get(&first)?);
                bound.unwrap_or_else(|| self.pid(process))
            }),
            ..sheet.clone()
        };
        app.ranks.iter().map(sheet).collect()
    }

    pub(super) fn enter(&self, losses: &mut Ledger) {
        losses.enter(
            "ranks bound to processes by name and order",
            if self.by_number {
                0
            } else {
                self.threads.len() as u64
            },
            "a rank may have the kernel's view of another one",
            "none: the program's trace does not say the numbers of its processes",
        );
        losses.enter(
            "threads of ranks that the kernel trace does not have",
            self.unseen,
            "what took their CPU is not known",
            "none for streams of a GPU; otherwise record the kernel from before the program starts",
        );
    }
}

/// A name as the kernel shortens it.
fn short(name: &str) -> &str {
    let mut end = name.len().min(KERNEL_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
