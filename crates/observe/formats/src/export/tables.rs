//! Every table of a run, batch by batch, for formats that hold tables as they are.

use crate::export::{Export, ExportError, Job, Written};
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use idlewave_run::tables::*;
use idlewave_sys::files;
use std::path::Path;

/// The file of a table.
pub(crate) trait TableFile {
    /// Writes some of its rows.
    fn rows(&mut self, rows: &RecordBatch) -> Result<(), ExportError>;
    /// Completes the file, after this many rows.
    fn finish(self: Box<Self>, rows: u64) -> Result<Written, ExportError>;
}

/// Creates the file of a table in a directory. It is not generic over tables, so it is compiled
/// once.
pub(crate) type Begin = fn(&Path, &str, &Schema) -> Result<Box<dyn TableFile>, ExportError>;

macro_rules! every_table {
    ($($table:ident)+) => {
        /// The names of the tables that [`each`] passes on.
        #[cfg(test)]
        const NAMES: &[&str] = &[$( $table::NAME ),+];

        /// Passes on every table that the run has.
        fn each(job: &Job<'_>, begin: Begin) -> Result<Export, ExportError> {
            let mut export = Export::default();
            let all: u64 = job.run.manifest().tables.iter().map(|t| t.rows).sum();
            let mut done = 0;
            $( export.files.extend(one::<$table>(job, begin, &mut done, all)?); )+
            Ok(export)
        }
    };
}

every_table! {
    Tasks Sources Bursts Interrupts Wakeups Migrations Syscalls Regions Detours Quanta TaskTimes Counters
    Calls Transfers Communicators Operations Marks Messages Waits WaitParts LateSteps LateParts
}

/// Writes a directory with a file for every table of the run.
pub(crate) fn write(job: &Job<'_>, begin: Begin) -> Result<Export, ExportError> {
    files::create_directory(job.output).map_err(ExportError::io(job.output))?;
    each(job, begin)
}

fn one<T: Table>(
    job: &Job<'_>,
    begin: Begin,
    done: &mut u64,
    all: u64,
) -> Result<Option<Written>, ExportError> {
    let Some(mut reader) = job.run.table_if_present::<T>()? else {
        return Ok(None);
    };
    let before = *done;
    let mut file = begin(job.output, T::NAME, &T::schema())?;
    let mut rows = T::default();
    while reader.next_into(&mut rows)? {
        job.go_on()?;
        file.rows(&rows.to_batch())?;
        *done += rows.len() as u64;
        (job.progress)(*done as f64 / all.max(1) as f64);
        rows.clear();
    }
    file.finish(*done - before).map(Some)
}

#[cfg(test)]
mod tests {
    use super::NAMES;

    #[test]
    fn no_table_of_the_bundle_is_forgotten() {
        let schemas = idlewave_run::tables::all_schemas();
        let mut all: Vec<&str> = schemas.iter().map(|(name, _, _)| *name).collect();
        let mut passed = NAMES.to_vec();
        all.sort_unstable();
        passed.sort_unstable();
        assert_eq!(passed, all);
    }
}
