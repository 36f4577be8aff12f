//! Perfetto's trace format: the kernel's view as the scheduler's own events, everything else as slices
//! on tracks of their own.
//!
//! A trace is a sequence of packets, in any order: the viewer sorts all events by time, and events
//! with equal times keep the order of the file. Every time is in nanoseconds of the run's clock,
//! which is passed off as the trace's default clock. The kernel's view of nodes other than node 0
//! carries the node's number as that of a machine; tracks belong to no machine, so that arrows can
//! lead from node to node.
//!
//! Source: `protos/perfetto/trace/` in Perfetto's repository, whose numbers never change.

pub(crate) mod ftrace;
mod kernel;
pub(crate) mod people;
pub(crate) mod trace;
mod tracks;

use crate::export::names::Names;
use crate::export::{Export, ExportError, Job, view};
use idlewave_run::Ledger;
use trace::Trace;

/// Writes a run as a Perfetto trace.
///
/// # Errors
/// The run cannot be read, the file cannot be written, or the user asked to stop.
pub fn write(job: &Job<'_>) -> Result<Export, ExportError> {
    let findings = job.run.findings()?;
    let names = Names::of(job.run, findings.as_ref())?;
    let mut losses = Ledger::default();
    let mut trace = Trace::begin(job.output)?;
    for node in &job.run.manifest().nodes {
        people::write_system(&mut trace, node)?;
    }
    people::write_tree(&mut trace, &names)?;
    let mut canvas = tracks::Tracks::new(job, &names, trace);
    kernel::write(job, &names, &mut canvas, &mut losses)?;
    view::walk(job, &names, findings.as_ref(), &mut canvas, &mut losses)?;
    let file = canvas.finish(&mut losses)?;
    (job.progress)(1.0);
    Ok(Export::one(file, losses))
}
