//! OTF2 archives, as Score-P, TAU and idlewave's own export write them.
//!
//! An archive is an anchor (NAME.otf2), global definitions (NAME.def) and a directory NAME with a
//! file of events and one of local definitions for each location: a thread of a process. The
//! layout of the bytes is that of OTF2 3.0 (Score-P), which reads the files of all earlier versions.
//!
//! What becomes of the records:
//!
//! | record | table |
//! |---|---|
//! | locations and the groups that they are in | `tasks`, ranks and nodes of the manifest |
//! | enter and leave of regions of MPI | `calls`, `operations` |
//! | enter and leave of other regions | `marks` |
//! | ends of messages | `transfers` |
//! | ends of collectives | root, bytes and communicator of `calls` |
//! | communicators and their groups | `communicators` |
//!
//! ```text
//! bytes         numbers and texts in either byte order
//! chunks        files of records
//! anchor        the archive and its files
//! definitions   what NAME.def defines
//! local         numbers and clock of a location
//! clock         ticks as nanoseconds
//! records       the file of events of a location
//! world         ranks, nodes and communicators
//! requests      operations of MPI that are not complete
//! lane          what a location is in the middle of
//! build         from events to rows
//! losses        the ledger
//! finish        the end of the run
//! ```

mod anchor;
mod build;
mod bytes;
mod chunks;
mod clock;
mod definitions;
mod finish;
mod lane;
mod local;
mod losses;
mod records;
mod requests;
mod world;

pub(super) use anchor::{inside, is_anchor};
pub(super) use losses::OF_ITS_KERNEL;

use crate::import::ask::Ask;
use crate::import::error::ImportError;
use crate::import::imported::Imported;
use anchor::Anchor;
use build::Build;
use definitions::Definitions;
use idlewave_run::RunWriter;
use local::Local;
use records::{Next, Records};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Events between two looks at the stop flag.
const LOOK: u64 = 1 << 16;

/// Fills a run from an archive and closes it. The ledger says what the archive lacks and what of it
/// has no place in a run.
///
/// Memory is bounded by the definitions and by regions and requests that are open, not by the
/// length of the trace.
pub(super) fn read(ask: &Ask<'_>, anchor: &Path, run: RunWriter) -> Result<Imported, ImportError> {
    let anchor = Anchor::read(anchor)?;
    let name = anchor.program();
    let definitions = Definitions::read(&anchor)?;
    let mut build = Build::begin(&anchor, &definitions, run)?;
    build.app.named(ask, &name)?;
    let all: u64 = definitions.locations.values().map(|l| l.events).sum();
    for process in build.processes(&definitions) {
        let mut requests = BTreeMap::new();
        for location in process {
            location_events(ask, &anchor, &mut build, location, &mut requests, all)?;
        }
        build.end_process(requests)?;
    }
    build.finish(&anchor, name)
}

/// Reads the events of a location.
fn location_events(
    ask: &Ask<'_>,
    anchor: &Anchor,
    build: &mut Build,
    location: u64,
    requests: &mut requests::Requests,
    all: u64,
) -> Result<(), ImportError> {
    let local = Local::read(anchor, location)?;
    build.losses.local(local.is_some());
    let local = local.unwrap_or_default();
    let Some(mut records) = Records::open(anchor, location)? else {
        return build.no_events(location);
    };
    let mut lane = build.lane(location, local);
    loop {
        match records.next()? {
            Next::Event(time, event) => build.take(&mut lane, requests, time, &event)?,
            Next::End => break,
            Next::Cut => {
                build.losses.cut += 1;
                break;
            }
        }
        if build.events % LOOK == 0 {
            (ask.progress)((build.events as f64 / all.max(1) as f64).min(1.0));
            // The flag carries no data, so no ordering is needed.
            if ask.stop.load(Ordering::Relaxed) {
                return Err(ImportError::Interrupted);
            }
        }
    }
    build.end(lane)
}
