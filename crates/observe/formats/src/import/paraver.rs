//! Paraver traces: a .prv, with names in the .pcf and the .row beside it. They come from idlewave's
//! own export and from other tools, such as Extrae.
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
//! The first application is the program. Its tasks are the ranks, unless its name says that it is
//! everything else on a node. Times count from the start of the trace. Records that Paraver itself
//! would refuse are left out and counted.

mod calls;
mod dropped;
mod events;
mod finish;
mod header;
mod labels;
mod lines;
mod live;
mod names;
mod run;
mod sheet;

use crate::import::ask::Ask;
use crate::import::error::ImportError;
use crate::import::imported::Imported;
pub(super) use finish::OF_ITS_KERNEL;
use header::Header;
use idlewave_run::RunWriter;
use lines::{Lines, Record};
use names::Names;
use run::Build;
use std::sync::atomic::Ordering;

/// First bytes of a trace.
pub(crate) const MAGIC: &[u8] = b"#Paraver";

/// Records between two checks of the stop flag.
const LOOK: u64 = 1 << 16;

/// Fills a run from a trace and closes it. Names come from the .pcf and .row files beside the
/// trace, if there are any. The ledger says what the trace lacks, and which parts of it have no
/// place in a run.
///
/// Memory is bounded by the threads that occur, not by the length of the trace.
pub(crate) fn read(ask: &Ask<'_>, run: RunWriter) -> Result<Imported, ImportError> {
    let mut lines = Lines::open(ask.input)?;
    let header = Header::read(&mut lines)?;
    let names = Names::beside(ask.input)?;
    let name = names.program(ask.input);
    let by_events = names.has_cpu_of_task() || (!names.known() && lines.names_cpus());
    let mut build = Build::begin(header, names, by_events, run)?;
    build.app.named(ask, &name)?;
    let (mut record, mut count) = (Record::default(), 0_u64);
    loop {
        match lines.next(&mut record)? {
            None => break,
            Some(false) => build.dropped(lines.number()),
            Some(true) => build.take(&record)?,
        }
        count += 1;
        if count % LOOK == 0 {
            (ask.progress)(lines.share());
            // The flag carries no data, so no ordering is needed.
            if ask.stop.load(Ordering::Relaxed) {
                return Err(ImportError::Interrupted);
            }
        }
    }
    build.finish(name, count)
}
