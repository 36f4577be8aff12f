//! The program's tables in the run.

use super::offset::Offset;
use super::people::{NODE, People};
use crate::import::error::ImportError;
use idlewave_run::tables::{Calls, Communicators, Marks, Operation, Operations, Table, Transfers};
use idlewave_run::{RunReader, RunWriter};
use std::path::Path;

/// Copies the program's tables with the kernel's times and threads, batch by batch. Returns the
/// span of the program: from the end of the first `MPI_Init`, or else from the start of the first
/// call or region, to the end of the last one. With `MPI_Init`, the span lasts at least until the
/// ranks' threads last ran. `None` if there are no calls or regions.
pub(super) fn copy(
    app: &RunReader,
    out: &mut RunWriter,
    people: &People,
    offset: &Offset,
    path: &Path,
) -> Result<Option<(u64, u64)>, ImportError> {
    let operations = app.read::<Operations>()?;
    let is_init = |id: &Operation| id.name == "MPI_Init" || id.name == "MPI_Init_thread";
    let inits: Vec<u32> = operations
        .rows()
        .filter(is_init)
        .map(|row| row.id)
        .collect();
    let mut init: Option<u64> = None;
    let mut span: Option<(u64, u64)> = None;
    let mut see = |begin: u64, end: u64| {
        let (first, last) = span.unwrap_or((begin, end));
        span = Some((first.min(begin), last.max(end)));
    };
    out.write_table(&people.tasks())?;
    moved::<Operations>(app, out, path, |_| Some(()))?;
    moved::<Communicators>(app, out, path, |_| Some(()))?;
    moved::<Calls>(app, out, path, |row| {
        row.thread = people.pid(row.thread);
        row.begin_ns = offset.apply(row.begin_ns)?;
        row.end_ns = offset.apply(row.end_ns)?;
        see(row.begin_ns, row.end_ns);
        if inits.contains(&row.operation) {
            init = Some(init.map_or(row.end_ns, |first| first.min(row.end_ns)));
        }
        Some(())
    })?;
    moved::<Transfers>(app, out, path, |row| {
        row.thread = people.pid(row.thread);
        row.posted_ns = offset.apply(row.posted_ns)?;
        apply(offset, &mut row.wait_ns)?;
        apply(offset, &mut row.completed_ns)?;
        Some(())
    })?;
    moved::<Marks>(app, out, path, |row| {
        row.node = NODE;
        row.thread = people.pid(row.thread);
        row.begin_ns = offset.apply(row.begin_ns)?;
        apply(offset, &mut row.end_ns)?;
        see(row.begin_ns, row.end_ns.unwrap_or(row.begin_ns));
        Some(())
    })?;
    Ok(span.map(|(begin, end)| match init {
        Some(init) => (init, end.max(offset.ran_until_ns)),
        None => (begin, end),
    }))
}

/// Moves a time that may be absent.
fn apply(offset: &Offset, ns: &mut Option<u64>) -> Option<()> {
    if let Some(ns) = ns {
        *ns = offset.apply(*ns)?;
    }
    Some(())
}

fn moved<T: Table>(
    app: &RunReader,
    out: &mut RunWriter,
    path: &Path,
    mut change: impl FnMut(&mut T::Row) -> Option<()>,
) -> Result<(), ImportError> {
    let Some(mut reader) = app.table_if_present::<T>()? else {
        return Ok(());
    };
    let mut table = out.table::<T>()?;
    let mut batch = T::default();
    loop {
        batch.clear();
        if !reader.next_into(&mut batch)? {
            break;
        }
        for mut row in batch.rows() {
            if change(&mut row).is_none() {
                return Err(ImportError::Lacks {
                    path: path.to_owned(),
                    what: "its times, moved onto the kernel's clock, lie before that clock's zero"
                        .to_owned(),
                    next: "check --app-offset: it is added to the program's times".to_owned(),
                });
            }
            table.push(row)?;
        }
    }
    out.finish_table(table)?;
    Ok(())
}
