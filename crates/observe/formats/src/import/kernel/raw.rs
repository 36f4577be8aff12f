//! The directory `raw/` of an idlewave run: decoded again, into a run of its own.

use crate::import::ask::Ask;
use crate::import::error::ImportError;
use crate::import::kernel::sheet::Machine;
use idlewave_ftrace::{DecodeSummary, RawCapture, SeenTask, decode_capture_with};
use idlewave_run::{RunReader, RunWriter};
use idlewave_units::NodeId;
use std::path::Path;

/// What is known of the machine: all that the run around the directory says, if there is one.
pub(crate) fn machine(raw: &Path) -> Result<Machine, ImportError> {
    let capture = RawCapture::load(raw)?;
    let run = raw.parent().and_then(|run| RunReader::open(run).ok());
    let node = run.as_ref().and_then(|run| run.manifest().nodes.first());
    Ok(Machine {
        host: node.map(|n| n.host.clone()).unwrap_or_default(),
        clock: capture.clock,
        resolution_ns: 1,
        span: capture.off_ns.map(|off| (capture.on_ns, off)),
    })
}

/// Decodes the directory.
pub(crate) fn read(
    raw: &Path,
    ask: &Ask<'_>,
    out: &mut RunWriter,
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<DecodeSummary, ImportError> {
    let node = NodeId::new(0);
    Ok(decode_capture_with(
        raw,
        node,
        out,
        ask.stop,
        ask.progress,
        settle,
    )?)
}
