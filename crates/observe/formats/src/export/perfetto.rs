//! Perfetto's trace format: the kernel's view as the scheduler's own events, everything else as slices
//! on tracks of their own.
//!
//! A trace is a sequence of packets, in any order: the viewer sorts all events by time, and those of
//! equal time stay in the order of the file. Every time is in nanoseconds of the run's clock, which
//! passes for the trace's default clock. The kernel's view of nodes other than node 0 carries the
//! node's number as that of a machine; tracks belong to no machine, so that arrows lead from node to
//! node.
//!
//! Source: `protos/perfetto/trace/` in Perfetto's repository, whose numbers never change.

pub(crate) mod ftrace;
mod kernel;
pub(crate) mod trace;
mod tracks;

use crate::export::names::Names;
use crate::export::{Export, ExportError, Job, view};
use crate::wire::Encoder;
use idlewave_run::tables::{Task, TaskKind};
use idlewave_run::{Ledger, NodeSheet};
use idlewave_units::{NodeId, Pid};
use std::collections::BTreeMap;
use trace::{Trace, machine, packet};

/// Threads in a packet of names.
const NAMES_IN_PACKET: usize = 1000;

/// Writes a run as a Perfetto trace.
///
/// # Errors
/// The run cannot be read, the file cannot be written, or the user asked for an end.
pub fn write(job: &Job<'_>) -> Result<Export, ExportError> {
    let findings = job.run.findings()?;
    let names = Names::of(job.run, findings.as_ref())?;
    let mut losses = Ledger::default();
    let mut trace = Trace::begin(job.output)?;
    for node in &job.run.manifest().nodes {
        system(&mut trace, node)?;
    }
    processes(&mut trace, &names)?;
    let mut canvas = tracks::Tracks::new(job, &names, trace);
    kernel::write(job, &names, &mut canvas, &mut losses)?;
    view::walk(job, &names, findings.as_ref(), &mut canvas, &mut losses)?;
    let file = canvas.finish(&mut losses)?;
    (job.progress)(1.0);
    Ok(Export::one(file, losses))
}

/// The kernel of a node: states of threads are read by its version.
fn system(trace: &mut Trace, node: &NodeSheet) -> Result<(), ExportError> {
    const UTSNAME: u32 = 1;
    const MACHINE_NAME: u32 = 17;
    const SYSNAME: u32 = 1;
    const VERSION: u32 = 2;
    const RELEASE: u32 = 3;
    const MACHINE: u32 = 4;
    trace.packet(|packet| {
        machine(packet, node.node);
        packet.message(packet::SYSTEM_INFO, |system| {
            system.message(UTSNAME, |name| {
                name.text(SYSNAME, "Linux");
                name.text(VERSION, &node.host.kernel_build);
                name.text(RELEASE, &node.host.kernel);
                name.text(MACHINE, &node.host.architecture);
            });
            system.text(MACHINE_NAME, &node.host.name);
        });
    })
}

/// The processes of all nodes with their threads.
fn processes(trace: &mut Trace, names: &Names) -> Result<(), ExportError> {
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
                packet.message(packet::PROCESS_TREE, |tree| {
                    for task in tasks {
                        process(tree, task);
                    }
                });
            })?;
        }
    }
    Ok(())
}

/// A thread, and its process if it is the first thread of one.
fn process(tree: &mut Encoder, task: &Task) {
    const PROCESS: u32 = 1;
    const THREAD: u32 = 2;
    const PID: u32 = 1;
    const CMDLINE: u32 = 3;
    const IS_KTHREAD: u32 = 8;
    const CMDLINE_IS_COMM: u32 = 9;
    const TID: u32 = 1;
    const NAME: u32 = 2;
    const TGID: u32 = 3;
    let kernel = task.kind == TaskKind::Kernel;
    // Where the process is not known, the name comes with the first switch to the thread.
    let Some(of) = task.process.or(kernel.then_some(task.pid)) else {
        return;
    };
    if of == task.pid {
        tree.message(PROCESS, |process| {
            process.uint(PID, of.get().into());
            process.text(CMDLINE, &task.name);
            process.uint(IS_KTHREAD, kernel.into());
            process.uint(CMDLINE_IS_COMM, 1);
        });
    }
    tree.message(THREAD, |thread| {
        thread.uint(TID, task.pid.get().into());
        thread.text(NAME, &task.name);
        thread.uint(TGID, of.get().into());
    });
}
