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

mod bundle;
mod kernel;
mod tracks;

use crate::export::names::Names;
use crate::export::output::Output;
use crate::export::{ExportError, Job, view};
use crate::wire::Encoder;
use idlewave_run::tables::{Task, TaskKind};
use idlewave_run::{Ledger, NodeSheet};
use idlewave_units::{NodeId, Pid};
use std::collections::BTreeMap;

/// Thread number that stands for "no record says who had the CPU": larger than any that Linux gives.
pub(crate) const NOT_RECORDED: u32 = i32::MAX as u32;
/// State of a thread that left a CPU for an unknown reason: no state of any kernel.
pub(crate) const UNKNOWN_STATE: u64 = 0x8000;
/// Threads in a packet of names.
const NAMES_IN_PACKET: usize = 1000;

/// Fields of `Trace` and `TracePacket`.
pub(crate) mod packet {
    pub(crate) const PACKET: u32 = 1;
    pub(crate) const FTRACE_EVENTS: u32 = 1;
    pub(crate) const PROCESS_TREE: u32 = 2;
    pub(crate) const TIMESTAMP: u32 = 8;
    pub(crate) const SEQUENCE_ID: u32 = 10;
    pub(crate) const TRACK_EVENT: u32 = 11;
    pub(crate) const SEQUENCE_FLAGS: u32 = 13;
    pub(crate) const SYSTEM_INFO: u32 = 45;
    pub(crate) const COMPRESSED: u32 = 50;
    pub(crate) const TRACK_DESCRIPTOR: u32 = 60;
    pub(crate) const MACHINE_ID: u32 = 98;
}

/// Writes a run as a Perfetto trace.
///
/// # Errors
/// The run cannot be read, the file cannot be written, or the user asked for an end.
pub fn write(job: &Job<'_>) -> Result<Ledger, ExportError> {
    let findings = job.run.findings()?;
    let names = Names::of(job.run, findings.as_ref())?;
    let mut losses = Ledger::default();
    let mut trace = Trace {
        out: Output::begin(job.output)?,
        encoder: Encoder::default(),
    };
    for node in &job.run.manifest().nodes {
        system(&mut trace, node)?;
    }
    processes(&mut trace, &names)?;
    let mut canvas = tracks::Tracks::new(job, &names, trace);
    kernel::write(job, &names, &mut canvas, &mut losses)?;
    view::walk(job, &names, findings.as_ref(), &mut canvas, &mut losses)?;
    canvas.finish(&mut losses)?;
    (job.progress)(1.0);
    Ok(losses)
}

/// The file, packet by packet.
struct Trace {
    out: Output,
    encoder: Encoder,
}

impl Trace {
    /// Appends a packet, written by `inside`.
    fn packet(&mut self, inside: impl FnOnce(&mut Encoder)) -> Result<(), ExportError> {
        self.encoder.clear();
        self.encoder.message(packet::PACKET, inside);
        self.out.write(self.encoder.bytes())
    }
}

/// Names the machine of a packet; node 0 is the machine on which the trace was recorded.
fn machine(packet: &mut Encoder, node: NodeId) {
    if node.get() > 0 {
        packet.uint(packet::MACHINE_ID, node.get().into());
    }
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
