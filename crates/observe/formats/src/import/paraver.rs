//! Paraver traces: .prv with the names of .pcf and .row beside it, of idlewave's own export and of
//! other tools, such as Extrae.
//!
//! What becomes of the records:
//!
//! | record | table |
//! |---|---|
//! | event 60000001, or running states with a CPU where there is none | `bursts` |
//! | events 61000000 and up, by the names in the .pcf | `interrupts`, `sources` |
//! | events 50000001 to 50000003 and 50100001 to 50100004 | `calls`, `operations` |
//! | communications | `transfers` |
//! | communicators | `communicators` |
//! | regions and marks of idlewave's export | `marks` |
//!
//! The first application is the program: its tasks are the ranks, unless its name says that it is
//! everything else on a node. Times count from the start of the trace. Records that Paraver itself
//! would refuse are left out and counted.

mod calls;
mod dropped;
mod error;
mod events;
mod finish;
mod header;
mod labels;
mod lines;
mod live;
mod names;
mod run;
mod sheet;

pub use error::PrvError;

use header::Header;
use idlewave_run::Ledger;
use idlewave_sys::files;
use lines::{Lines, Record};
use names::Names;
use run::Build;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the file begins as a Paraver trace does. One that cannot be read does not.
pub fn is_trace(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    let file = files::open(path);
    file.is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && start == MAGIC)
}

/// First bytes of a trace.
const MAGIC: [u8; 8] = *b"#Paraver";

/// Reads the trace at `path` into a new run at `to`, a directory that does not exist or is empty.
/// Names come from the files with the endings .pcf and .row beside it, if they are there. The
/// ledger, which is also in the manifest of the run, says what the trace lacks and what of it has
/// no place in a run.
///
/// Memory is bounded by the threads that occur, not by the length of the trace.
///
/// # Errors
/// A file cannot be read or written, the first line is not that of a Paraver trace, or `stop` became
/// true. The directory is gone then.
pub fn read(path: &Path, to: &Path, stop: &AtomicBool) -> Result<Ledger, PrvError> {
    let mut lines = Lines::open(path)?;
    let header = Header::read(&mut lines)?;
    let names = Names::beside(path)?;
    let by_events = names.has_cpu_of_task() || (!names.known() && lines.names_cpus());
    let build = Build::begin(path, to, header, names, by_events)?;
    let filled = fill(&mut lines, build, stop);
    if filled.is_err() {
        // Half a run would be taken for one that a killed recorder left. That it cannot be removed
        // matters less than why the import failed.
        let _ = fs::remove_dir_all(to);
    }
    filled
}

fn fill(lines: &mut Lines, mut build: Build, stop: &AtomicBool) -> Result<Ledger, PrvError> {
    let (mut record, mut count) = (Record::default(), 0_u64);
    loop {
        match lines.next(&mut record)? {
            None => break,
            Some(false) => build.dropped(lines.number()),
            Some(true) => build.take(&record)?,
        }
        count += 1;
        // The flag carries no data, so no ordering is needed.
        if count % 65_536 == 0 && stop.load(Ordering::Relaxed) {
            return Err(PrvError::Interrupted);
        }
    }
    build.finish()
}
