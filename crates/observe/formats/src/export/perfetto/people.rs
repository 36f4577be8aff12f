//! Machines, processes and threads: `SystemInfo` and `ProcessTree`.

use super::trace::{Trace, machine, packet};
use crate::export::ExportError;
use crate::export::names::Names;
use crate::wire::Encoder;
use idlewave_run::NodeSheet;
use idlewave_run::tables::{Task, TaskKind};
use idlewave_units::{NodeId, Pid};
use std::collections::BTreeMap;

/// Maximum number of threads in a packet of names.
const NAMES_IN_PACKET: usize = 1000;

/// Fields of `SystemInfo` and of `Utsname` in it.
pub(crate) mod system {
    pub(crate) const UTSNAME: u32 = 1;
    pub(crate) const MACHINE_NAME: u32 = 17;
    pub(crate) const SYSNAME: u32 = 1;
    pub(crate) const VERSION: u32 = 2;
    pub(crate) const RELEASE: u32 = 3;
    pub(crate) const MACHINE: u32 = 4;
}

/// Fields of `ProcessTree`.
pub(crate) mod tree {
    pub(crate) const PROCESS: u32 = 1;
    pub(crate) const THREAD: u32 = 2;
}

/// Fields of `ProcessTree.Process`.
pub(crate) mod process {
    pub(crate) const PID: u32 = 1;
    pub(crate) const PARENT: u32 = 2;
    pub(crate) const CMDLINE: u32 = 3;
    pub(crate) const IS_KTHREAD: u32 = 8;
    pub(crate) const CMDLINE_IS_COMM: u32 = 9;
}

/// Fields of `ProcessTree.Thread`.
pub(crate) mod thread {
    pub(crate) const TID: u32 = 1;
    pub(crate) const NAME: u32 = 2;
    pub(crate) const TGID: u32 = 3;
}

/// The kernel of a node: its version decides how states of threads are read.
pub(super) fn write_system(trace: &mut Trace, node: &NodeSheet) -> Result<(), ExportError> {
    trace.packet(|packet| {
        machine(packet, node.node);
        packet.message(packet::SYSTEM_INFO, |out| {
            out.message(system::UTSNAME, |out| {
                out.text(system::SYSNAME, "Linux");
                out.text(system::VERSION, &node.host.kernel_build);
                out.text(system::RELEASE, &node.host.kernel);
                out.text(system::MACHINE, &node.host.architecture);
            });
            out.text(system::MACHINE_NAME, &node.host.name);
        });
    })
}

/// The processes of all nodes with their threads.
pub(super) fn write_tree(trace: &mut Trace, names: &Names) -> Result<(), ExportError> {
    let mut nodes: BTreeMap<NodeId, Vec<&Task>> = BTreeMap::new();
    for task in names.tasks.values() {
        if task.pid != Pid::IDLE {
            nodes.entry(task.node).or_default().push(task);
        }
    }
    for (node, tasks) in nodes {
        for tasks in tasks.chunks(NAMES_IN_PACKET) {
            trace.packet(|packet| {
                machine(packet, node);
                packet.message(packet::PROCESS_TREE, |out| {
                    for task in tasks {
                        write_task(out, task);
                    }
                });
            })?;
        }
    }
    Ok(())
}

/// A thread, and its process if it is the first thread of one.
fn write_task(out: &mut Encoder, task: &Task) {
    let kernel = task.kind == TaskKind::Kernel;
    // If the process is not known, the name comes with the first switch to the thread.
    let Some(of) = task.process.or(kernel.then_some(task.pid)) else {
        return;
    };
    if of == task.pid {
        out.message(tree::PROCESS, |out| {
            out.uint(process::PID, of.get().into());
            out.text(process::CMDLINE, &task.name);
            out.uint(process::IS_KTHREAD, kernel.into());
            out.uint(process::CMDLINE_IS_COMM, 1);
        });
    }
    out.message(tree::THREAD, |out| {
        out.uint(thread::TID, task.pid.get().into());
        out.text(thread::NAME, &task.name);
        out.uint(thread::TGID, of.get().into());
    });
}
