//! From a trace to a run.

use crate::import::ask::Ask;
use crate::import::detect::{Format, detect};
use crate::import::error::ImportError;
use crate::import::imported::Imported;
use crate::import::{kernel, otf2, paraver};
use idlewave_run::{Ledger, Manifest, RunState, RunWriter, SchemaVersion};
use std::fs;

/// Writes a run from a trace. After an error the output directory is gone.
///
/// # Errors
/// The trace cannot be read, has no known format or lacks what a run needs; the run cannot be
/// written; the user asked for an end.
pub fn import(ask: &Ask<'_>) -> Result<Imported, ImportError> {
    let format = detect(ask.input)?;
    let out = RunWriter::create(ask.output, begun(ask))?;
    let imported = match &format {
        Format::Paraver => paraver::read(ask, out),
        Format::Otf2(anchor) => otf2::read(ask, anchor, out),
        Format::Kernel(recorder) => kernel::read(ask, recorder, out),
    };
    if imported.is_err() {
        // Half a run would be taken for one that a killed recorder left. That it cannot be removed
        // matters less than why the import failed.
        let _ = fs::remove_dir_all(ask.output);
    }
    imported
}

/// The manifest of a run whose import has begun.
fn begun(ask: &Ask<'_>) -> Manifest {
    Manifest {
        schema: SchemaVersion::CURRENT,
        idlewave: env!("CARGO_PKG_VERSION").to_owned(),
        state: RunState::Recording,
        incomplete: None,
        command: ask.command.to_vec(),
        started: ask.started.to_owned(),
        seed: 1,
        simulated: None,
        nodes: Vec::new(),
        phases: Vec::new(),
        ranks: Vec::new(),
        losses: Ledger::default(),
        tables: Vec::new(),
    }
}
