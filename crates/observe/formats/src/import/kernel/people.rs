//! What a recorder noted about threads: names, processes, parents and kinds.
//!
//! perf and LTTng list all threads when they start, so this is known even of threads that no event
//! names.

use idlewave_ftrace::SeenTask;
use idlewave_run::tables::TaskKind;
use idlewave_units::Pid;
use std::collections::HashMap;

/// Thread numbers from here up are damage (`PID_MAX_LIMIT`).
const MOST: u32 = 1 << 22;

/// Slots for recent notes, so that they are not noted again.
const RECENT: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Person {
    name: Option<Box<[u8]>>,
    process: Option<Pid>,
    parent: Option<Pid>,
    /// Whether it belongs to the kernel, if the recorder said so.
    kernel: Option<bool>,
}

/// Threads by number.
#[derive(Debug, Default)]
pub(crate) struct People {
    known: HashMap<u32, Person>,
    /// Recently noted threads and their processes, by the low bits of the thread number: most
    /// events are from the same few threads.
    recent: [Option<(Pid, Pid)>; RECENT],
}

impl People {
    fn person(&mut self, pid: Pid) -> Option<&mut Person> {
        (pid.get() < MOST).then(|| self.known.entry(pid.get()).or_default())
    }

    /// Notes the name of a thread.
    pub(crate) fn named(&mut self, pid: Pid, name: &[u8]) {
        if let Some(person) = self.person(pid).filter(|_| !name.is_empty()) {
            person.name = Some(name[..name.len().min(16)].into());
        }
    }

    /// Notes the process of a thread.
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

    /// Notes the parent of a thread. Recorders give 0, which is no thread, as the parent of the
    /// first process and of kthreadd.
    pub(crate) fn born(&mut self, pid: Pid, parent: Pid) {
        if let Some(person) = self.person(pid).filter(|_| parent != Pid::IDLE) {
            person.parent = Some(parent);
        }
    }

    /// Notes whether a thread belongs to the kernel, as the recorder said.
    pub(crate) fn told(&mut self, pid: Pid, kernel: bool) {
        if let Some(person) = self.person(pid) {
            person.kernel = Some(kernel);
        }
    }

    /// Completes what the events said. Threads of unknown kind stay unknown.
    pub(crate) fn complete(&self, seen: &mut [SeenTask]) {
        for task in seen {
            let Some(person) = self.known.get(&task.pid.get()) else {
                continue;
            };
            task.process = task.process.or(person.process);
            task.parent = task.parent.or(person.parent);
            // A thread has the kind of its process.
            let process = task.process.and_then(|of| self.known.get(&of.get()));
            let kernel = person.kernel.or(process.and_then(|of| of.kernel));
            if let (TaskKind::Unknown, Some(kernel)) = (task.kind, kernel) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::kernel::kinds::infer_rest;

    #[test]
    fn what_was_noted_completes_what_events_told() {
        let mut people = People::default();
        let pid = Pid::new;
        people.born(pid(2), Pid::IDLE);
        people.born(pid(30), pid(2));
        people.named(pid(30), b"mystery");
        people.named(pid(31), b"new name");
        people.member(pid(31), pid(40));
        people.told(pid(32), false);
        people.member(pid(33), pid(32));
        let task = |number, name: &str| SeenTask {
            pid: pid(number),
            process: None,
            parent: None,
            name: name.to_owned(),
            kind: TaskKind::Unknown,
            ran_ns: 0,
        };
        let names = [
            (2, "kthreadd"),
            (30, ""),
            (31, "old name"),
            (32, "kworker/0:0"),
            (33, "kworker/0:1"),
        ];
        let mut seen = names.map(|(number, name)| task(number, name));
        people.complete(&mut seen);
        assert_eq!(infer_rest(&mut seen), 3);
        let found = seen.each_ref().map(|t| (t.name.as_str(), t.kind));
        let expected = [
            ("kthreadd", TaskKind::Kernel),
            ("mystery", TaskKind::Kernel),
            ("old name", TaskKind::User),
            ("kworker/0:0", TaskKind::User),
            ("kworker/0:1", TaskKind::User),
        ];
        assert_eq!(found, expected);
        assert_eq!(seen[2].process, Some(pid(40)));
    }
}
