//! Every table of a run, batch by batch, for formats that hold tables as they are.

use crate::export::{ExportError, Job};
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use idlewave_run::tables::*;

/// What takes the tables of a run. It is not generic over them, so it is compiled once.
pub(crate) trait Tables {
    /// A table begins.
    fn begin(&mut self, name: &str, schema: &Schema) -> Result<(), ExportError>;
    /// Rows of it.
    fn rows(&mut self, rows: &RecordBatch) -> Result<(), ExportError>;
    /// It ends.
    fn end(&mut self) -> Result<(), ExportError>;
}

macro_rules! every_table {
    ($($table:ident)+) => {
        /// The names of the tables that [`each`] passes on.
        #[cfg(test)]
        const NAMES: &[&str] = &[$( $table::NAME ),+];

        /// Passes on every table that the run has.
        pub(crate) fn each(job: &Job<'_>, to: &mut dyn Tables) -> Result<(), ExportError> {
            let all: u64 = job.run.manifest().tables.iter().map(|t| t.rows).sum();
            let mut done = 0;
            $( one::<$table>(job, to, &mut done, all)?; )+
            Ok(())
        }
    };
}

every_table! {
    Tasks Sources Bursts Interrupts Wakeups Migrations Regions Detours Quanta TaskTimes Counters Calls
    Transfers Communicators Operations Marks Messages Waits WaitParts LateSteps LateParts
}

fn one<T: Table>(
    job: &Job<'_>,
    to: &mut dyn Tables,
    done: &mut u64,
    all: u64,
) -> Result<(), ExportError> {
    let Some(mut reader) = job.run.table_if_present::<T>()? else {
        return Ok(());
    };
    to.begin(T::NAME, &T::schema())?;
    let mut rows = T::default();
    while reader.next_into(&mut rows)? {
        job.go_on()?;
        to.rows(&rows.to_batch())?;
        *done += rows.len() as u64;
        (job.progress)(*done as f64 / all.max(1) as f64);
        rows.clear();
    }
    to.end()
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
