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
use lines::{Lines, Record};
use names::Names;
use run::Build;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Reads the trace at `path` into a new run at `to`, a directory that does not exist or is empty.
/// Names come from the files with the endings .pcf and .row beside it, if they are there. The
/// ledger, which is also in the manifest of the run, says what the trace lacks and what of it has
/// no place in a run.
///
/// Memory is bounded by the threads that occur, not by the length of the trace.
///
/// # Errors
/// A file cannot be read or written, the first line is not that of a Paraver trace, or `stop` became
/// true; then what was written of the run is in state `recording`.
pub fn read(path: &Path, to: &Path, stop: &AtomicBool) -> Result<Ledger, PrvError> {
    let mut lines = Lines::open(path)?;
    let header = Header::read(&mut lines)?;
    let names = Names::beside(path)?;
    let by_events = names.has_cpu_of_task() || (!names.known() && lines.names_cpus());
    let mut build = Build::begin(path, to, header, names, by_events)?;
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
