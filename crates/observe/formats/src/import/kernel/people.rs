//! What a recorder noted of threads: names, processes, parents and kinds.
//!
//! perf and LTTng list all threads when they begin, so this is known of threads too that no event names.

use idlewave_ftrace::SeenTask;
use idlewave_run::tables::TaskKind;
use idlewave_units::Pid;
use std::collections::HashMap;

/// Thread numbers from here on are damage (`PID_MAX_LIMIT`).
const MOST: u32 = 1 << 22;

/// Threads that are noted once only.
const RECENT: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Person {
    name: Option<Box<[u8]>>,
    process: Option<Pid>,
    parent: Option<Pid>,
    /// Whether it is the kernel's, if the recorder told.
    kernel: Option<bool>,
}

/// Threads by number.
#[derive(Debug, Default)]
pub(crate) struct People {
    known: HashMap<u32, Person>,
    /// Threads and processes noted lately, by the last digits of the thread: most events are of the
    /// same few threads.
    recent: [Option<(Pid, Pid)>; RECENT],
}

impl People {
    fn person(&mut self, pid: Pid) -> Option<&mut Person> {
        (pid.get() < MOST).then(|| self.known.entry(pid.get()).or_default())
    }

    /// A thread has this name.
    pub(crate) fn named(&mut self, pid: Pid, name: &[u8]) {
        if let Some(person) = self.person(pid).filter(|_| !name.is_empty()) {
            person.name = Some(name[..name.len().min(16)].into());
        }
    }

    /// A thread belongs to this process.
    #[inline]
    pub(crate) fn member(&mut self, pid: Pid, process: Pid) {
        let recent = &mut self.recent[pid.get() as usize % RECENT];
        if recent.replace((pid, process)) == Some((pid, process)) {
            return;
        }
        if let Some(person) = self.person(pid) {
            person.process = Some(process);
        }
    }

    /// A thread was started by this one.
    pub(crate) fn born(&mut self, pid: Pid, parent: Pid) {
        if let Some(person) = self.person(pid) {
            person.parent = Some(parent);
        }
    }

    /// The recorder told whether a thread is the kernel's.
    pub(crate) fn told(&mut self, pid: Pid, kernel: bool) {
        if let Some(person) = self.person(pid) {
            person.kernel = Some(kernel);
        }
    }

    /// Completes what the events said. Threads whose kind was not told stay unknown.
    pub(crate) fn complete(&self, seen: &mut [SeenTask]) {
        for task in seen {
            let Some(person) = self.known.get(&task.pid.get()) else {
                continue;
            };
            task.process = task.process.or(person.process);
            task.parent = task.parent.or(person.parent);
            if let (TaskKind::Unknown, Some(kernel)) = (task.kind, person.kernel) {
                task.kind = match kernel {
                    true => TaskKind::Kernel,
                    false => TaskKind::User,
                };
            }
            if let (true, Some(name)) = (task.name.is_empty(), &person.name) {
                task.name = String::from_utf8_lossy(name).into_owned();
            }
        }
    }
}
