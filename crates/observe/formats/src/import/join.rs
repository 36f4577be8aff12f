//! Joins a kernel trace and traces of the program, recorded together, into one run.
//!
//! Both are imported as they would be alone, the program's into a directory inside the run. Then
//! the program's tables are moved onto the kernel's clock and its threads take the kernel's
//! numbers, so the result is like a recording of `idlewave record`.
//!
//! ```text
//! people     which thread of the kernel is which thread of a rank
//! offset     what to add to the program's times
//! tables     the program's tables in the run
//! ```

mod offset;
mod people;
mod tables;

use crate::import::ask::Ask;
use crate::import::error::ImportError;
use crate::import::imported::{Imported, Joined, Subject};
use crate::import::{otf2, paraver};
use idlewave_run::{Ledger, Manifest, RunReader};
use offset::Offset;
use people::People;
use std::path::Path;

/// The directory inside the run that holds the run of the program's trace until the two are joined.
pub(super) const INNER: &str = "application";

/// Joins the run of a kernel trace at `ask.output` with that of the program's traces, which lies
/// inside it. `first` is the first file of those traces.
pub(super) fn join(
    ask: &Ask<'_>,
    first: &Path,
    kernel: Imported,
    told: Imported,
) -> Result<Imported, ImportError> {
    let Subject::Told { name, ranks, .. } = &told.program else {
        return Err(refused(
            first,
            "it is a kernel trace, not one of a program with ranks",
            "give --app a trace of Paraver, an OTF2 archive or traces of PyTorch's profiler",
        ));
    };
    if *ranks == 0 {
        let next = "import the kernel trace alone, with --program";
        return Err(refused(first, "its program has no ranks", next));
    }
    let app = RunReader::open(&ask.output.join(INNER))?;
    let run = RunReader::open(ask.output)?;
    one_host(first, app.manifest())?;
    let people = People::find(&run, &app, name, ask.input)?;
    let offset = match ask.app_offset {
        Some(given) => Offset::given(&run, &app, &people, given)?,
        None => Offset::estimate(&run, &app, &people, first)?,
    };
    let mut out = run.into_writer();
    let span = tables::copy(&app, &mut out, &people, &offset, first)?;
    let losses = describe(&mut out.manifest, app.manifest(), &people, &offset);
    if let (Some((begin, end)), Some(phase)) = (span, out.manifest.phases.first_mut()) {
        // As in a recording, what comes before MPI_Init and after the program does not count.
        phase.begin_ns = begin.clamp(phase.begin_ns, phase.end_ns);
        phase.end_ns = end.clamp(phase.begin_ns, phase.end_ns);
    }
    // That command names the program as the program's trace does.
    let command = &app.manifest().command;
    out.manifest.command.clone_from(command);
    out.close(None)?;
    Ok(Imported {
        format: format!("{} and {}", kernel.format, told.format),
        events: kernel.events + told.events,
        program: Subject::Told {
            name: name.clone(),
            ranks: *ranks,
            threads: people.mapped() as u64,
        },
        losses,
        joined: Some(Joined {
            offset_ns: offset.ns,
            error: offset.error,
            moments: offset.moments,
            by_number: people.by_number,
        }),
        ..kernel
    })
}

fn refused(path: &Path, reason: &str, next: &str) -> ImportError {
    ImportError::Together {
        path: path.to_owned(),
        reason: reason.to_owned(),
        next: next.to_owned(),
    }
}

/// A kernel trace covers one machine.
fn one_host(path: &Path, app: &Manifest) -> Result<(), ImportError> {
    match app.nodes.len() {
        0 | 1 => Ok(()),
        hosts => Err(refused(
            path,
            &format!("its ranks ran on {hosts} hosts, the kernel trace is of one"),
            "give only the traces of the ranks on the kernel trace's host",
        )),
    }
}

/// Fills in what follows from both traces together, and returns the ledger.
fn describe(manifest: &mut Manifest, app: &Manifest, people: &People, offset: &Offset) -> Ledger {
    manifest.ranks = people.sheets(app);
    for phase in &mut manifest.phases {
        if let Some(told) = app.phases.first() {
            phase.kind = told.kind.clone();
        }
    }
    for node in &mut manifest.nodes {
        node.trace.unavailable.clear();
        let moved = format!(
            "; the program's times, of the clock \"{}\", were moved by {} ns",
            app.nodes.first().map_or("", |n| n.clock.counter.as_str()),
            offset.ns
        );
        node.clock.method.push_str(&moved);
    }
    let mut losses = Ledger::default();
    let clock = "a trace clock that programs can read";
    let foreign = manifest
        .losses
        .entries()
        .iter()
        .filter(|loss| loss.what != clock);
    for loss in foreign {
        losses.enter(&loss.what, loss.count, &loss.consequence, &loss.advice);
    }
    for loss in app.losses.entries() {
        let what = loss.what.as_str();
        if what != otf2::OF_ITS_KERNEL && !paraver::OF_ITS_KERNEL.contains(&what) {
            losses.enter(&loss.what, loss.count, &loss.consequence, &loss.advice);
        }
    }
    offset.enter(&mut losses);
    people.enter(&mut losses);
    manifest.losses = losses.clone();
    losses
}
