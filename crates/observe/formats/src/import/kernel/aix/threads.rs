//! The threads of a report: their processes, names and last CPUs.

use idlewave_ftrace::SeenTask;
use idlewave_run::tables::TaskKind;
use idlewave_units::{Cpu, Pid};
use std::collections::HashMap;

/// Threads of the kernel, as `ps -k` names their processes.
const KERNEL: &[&str] = &[
    "aioLserver",
    "aioserver",
    "dog",
    "gil",
    "j2gsp",
    "j2pg",
    "kbiod",
    "lrud",
    "lvmbb",
    "memgrdd",
    "memp_rbd",
    "netm",
    "pilegc",
    "psmd",
    "random",
    "reaper",
    "rtcmd",
    "sched",
    "swapper",
    "vmmd",
    "vmptacrt",
    "wlmsched",
    "xmgc",
];

/// Name of the idle process.
const WAIT: &str = "wait";
/// Longest name kept, in bytes.
const NAME: usize = 64;

/// What is known of a thread.
#[derive(Clone, Debug, Default)]
struct Known {
    process: Option<u32>,
    name: String,
    cpu: Option<Cpu>,
    idle: bool,
}

/// Threads by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads {
    known: HashMap<u32, Known>,
}

impl Threads {
    /// Notes a thread, and what is known of it.
    pub(crate) fn see(&mut self, tid: u32, process: Option<u32>, name: &[u8]) {
        let known = self.known.entry(tid).or_default();
        known.process = process.or(known.process);
        if !name.is_empty() && known.name.as_bytes() != name {
            let name = &name[..name.len().min(NAME)];
            known.name = String::from_utf8_lossy(name).into_owned();
        }
        known.idle |= known.name == WAIT;
    }

    /// The same for a name from the column, which may lag behind.
    pub(crate) fn see_at_line(&mut self, tid: u32, process: Option<u32>, name: &[u8]) {
        let unnamed = self.known.get(&tid).is_none_or(|k| k.name.is_empty());
        self.see(tid, process, if unnamed { name } else { &[] });
    }

    /// Notes that a thread belongs to the idle process.
    pub(crate) fn idle(&mut self, tid: u32) {
        self.known.entry(tid).or_default().idle = true;
    }

    /// Notes that a thread begins to run.
    pub(crate) fn runs(&mut self, tid: u32, cpu: Cpu) {
        self.known.entry(tid).or_default().cpu = Some(cpu);
    }

    /// The CPU that a thread ran on last.
    pub(crate) fn cpu(&self, tid: u32) -> Option<Cpu> {
        self.known.get(&tid)?.cpu
    }

    /// The thread's number in the tables: all threads of the idle process are one.
    pub(crate) fn pid(&self, tid: u32) -> Pid {
        match self.known.get(&tid).is_some_and(|k| k.idle) {
            true => Pid::IDLE,
            false => Pid::new(tid),
        }
    }

    /// Gives a new thread its parent's name.
    pub(crate) fn inherit(&mut self, child: u32, parent: Pid) {
        let name = self.known.get(&parent.get()).map(|k| k.name.clone());
        self.see(child, None, name.unwrap_or_default().as_bytes());
    }

    /// Enters names, processes and idle threads into the table of threads.
    pub(crate) fn settle(&self, seen: &mut [SeenTask]) {
        for task in seen.iter_mut().filter(|t| t.pid != Pid::IDLE) {
            let Some(known) = self.known.get(&task.pid.get()) else {
                continue;
            };
            task.process = known.process.map(Pid::new);
            task.name.clone_from(&known.name);
            if known.idle {
                task.kind = TaskKind::Idle;
            }
        }
    }
}

/// Whether only a thread of the AIX kernel has this name.
pub(crate) fn is_kernel_name(name: &str) -> bool {
    KERNEL.contains(&name)
}
