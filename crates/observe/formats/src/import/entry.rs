//! From a trace to a run.

use crate::import::ask::Ask;
use crate::import::detect::{Format, Recorder, detect};
use crate::import::error::ImportError;
use crate::import::imported::Imported;
use crate::import::kernel::Program;
use crate::import::{join, kernel, kineto, otf2, paraver};
use idlewave_run::{Ledger, Manifest, RunState, RunWriter, SchemaVersion};
use std::fs;
use std::path::Path;

/// Imports a trace into a run. On error, no output directory is left.
///
/// # Errors
/// The trace cannot be read, has no known format or lacks what a run needs; the run cannot be
/// written; the user interrupted the import.
pub fn import(ask: &Ask<'_>) -> Result<Imported, ImportError> {
    let format = whole(ask)?;
    if !ask.app.is_empty() && !matches!(format, Format::Kernel(_)) {
        return Err(ImportError::Together {
            path: ask.input.to_owned(),
            reason: "it is no kernel trace, which the traces after --app could be joined with"
                .to_owned(),
            next: "give the kernel trace first, and the program's traces after --app".to_owned(),
        });
    }
    let out = RunWriter::create(ask.output, begun(ask))?;
    let imported = match &format {
        Format::Paraver => paraver::read(ask, out),
        Format::Otf2(anchor) => otf2::read(ask, anchor, out),
        Format::Kineto(files) => kineto::read(ask, files, out),
        Format::Kernel(recorder) => of_kernel(ask, recorder, out),
    };
    if imported.is_err() {
        // Half a run would pass for one that a killed recorder left. A failure to remove it matters
        // less than why the import failed.
        let _ = fs::remove_dir_all(ask.output);
    }
    imported
}

/// A kernel trace, and the traces of the program where there are any.
fn of_kernel(ask: &Ask<'_>, recorder: &Recorder, out: RunWriter) -> Result<Imported, ImportError> {
    let [first, more @ ..] = ask.app else {
        return kernel::read(ask, recorder, out);
    };
    let inner = ask.output.join(join::INNER);
    let told = import(&Ask {
        input: first,
        more,
        output: &inner,
        app: &[],
        app_offset: None,
        progress: &|share| (ask.progress)(share / 2.0),
        ..*ask
    })?;
    // The ranks determine which threads of the kernel trace are the program's.
    let second = Ask {
        program: &Program::Busiest,
        progress: &|share| (ask.progress)((1.0 + share) / 2.0),
        ..*ask
    };
    let kernel = kernel::read(&second, recorder, out)?;
    let joined = join::join(ask, first, kernel, told)?;
    fs::remove_dir_all(&inner).map_err(ImportError::io(&inner))?;
    Ok(joined)
}

/// The format of all the files.
fn whole(ask: &Ask<'_>) -> Result<Format, ImportError> {
    let mut format = detect(ask.input)?;
    for path in ask.more {
        let Format::Kineto(files) = &mut format else {
            return Err(one_trace(ask.input));
        };
        match detect(path)? {
            Format::Kineto(others) => files.extend(others),
            Format::Kernel(_) | Format::Paraver | Format::Otf2(_) => return Err(one_trace(path)),
        }
    }
    Ok(format)
}

fn one_trace(path: &Path) -> ImportError {
    ImportError::Together {
        path: path.to_owned(),
        reason: "it is a whole trace, and a run holds one".to_owned(),
        next: "import it alone; only PyTorch's profiler writes a file for each rank".to_owned(),
    }
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
        conditions: Default::default(),
        phases: Vec::new(),
        ranks: Vec::new(),
        losses: Ledger::default(),
        tables: Vec::new(),
    }
}
