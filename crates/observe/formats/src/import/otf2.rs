//! OTF2 archives, as Score-P, TAU, EZTrace and idlewave's own export write them.
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
//! process       the locations of a process, side by side
//! build         from events to rows
//! messages      ends of messages, and their requests
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
mod messages;
mod process;
mod records;
mod requests;
mod world;

pub(super) use anchor::{inside, is_anchor, is_part};
pub(super) use losses::OF_ITS_KERNEL;

use crate::import::app::{Clocks, Skew};
use crate::import::ask::Ask;
use crate::import::error::ImportError;
use crate::import::imported::Imported;
use anchor::Anchor;
use build::Build;
use definitions::Definitions;
use idlewave_run::RunWriter;
use std::path::Path;

/// Fills a run from an archive and closes it. The ledger says what the archive lacks, and which
/// parts of it have no place in a run.
///
/// Memory is bounded by the definitions, by open regions and requests, and by [`Skew`], not by the
/// length of the trace. An archive whose clocks disagree is read twice.
pub(super) fn read(ask: &Ask<'_>, anchor: &Path, run: RunWriter) -> Result<Imported, ImportError> {
    let anchor = Anchor::read(anchor)?;
    let name = anchor.program();
    let definitions = Definitions::read(&anchor)?;
    let mut build = Build::begin(&anchor, &definitions, run)?;
    build.app.named(ask, &name)?;
    build.app.skew = Some(Skew::of(Clocks::OfRanks));
    process::read_all(ask, &anchor, &mut build)?;
    build.shifts = build.app.shifts();
    if build.shifts.moved > 0 {
        // Read it again, with clocks that agree.
        let mut again = Build::begin(&anchor, &definitions, build.app.discard()?)?;
        again.shifts = build.shifts;
        process::read_all(ask, &anchor, &mut again)?;
        build = again;
    }
    build.finish(&anchor, name)
}
