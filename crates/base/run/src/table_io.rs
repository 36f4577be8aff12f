//! Writing and reading one table: an Arrow IPC file of record batches.
//!
//! A truncated file (its writer was killed) is read as a stream up to the last whole batch.

use crate::batches::{BATCH_ROWS, BatchReader, BatchWriter};
use crate::{RunError, Table, TableEntry};
use std::marker::PhantomData;
use std::path::Path;

/// Writes one table, batch by batch.
pub struct TableWriter<T: Table> {
    batches: BatchWriter,
    pending: T,
}

impl<T: Table> TableWriter<T> {
    /// Starts a table at its final path; what has been written survives the end of this process.
    pub(crate) fn create(directory: &Path) -> Result<Self, RunError> {
        let batches = BatchWriter::create(directory, T::NAME, &T::schema())?;
        Ok(Self::on(batches))
    }

    /// Starts a table that replaces an older one once it is complete.
    pub(crate) fn replace(directory: &Path) -> Result<Self, RunError> {
        let batches = BatchWriter::replace(directory, T::NAME, &T::schema())?;
        Ok(Self::on(batches))
    }

    fn on(batches: BatchWriter) -> Self {
        Self {
            batches,
            pending: T::default(),
        }
    }

    /// Adds a row; every 16,384 rows become a batch on disk.
    pub fn push(&mut self, row: T::Row) -> Result<(), RunError> {
        self.pending.push(row);
        if self.pending.len() >= BATCH_ROWS {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Adds whole columns.
    pub fn extend(&mut self, rows: &T) -> Result<(), RunError> {
        self.flush()?;
        self.batches.write(&rows.to_batch())
    }

    /// Writes what is pending, so that it survives the end of this process.
    pub fn flush(&mut self) -> Result<(), RunError> {
        if !self.pending.is_empty() {
            let batch = self.pending.to_batch();
            self.pending.clear();
            self.batches.write(&batch)?;
        }
        self.batches.flush()
    }

    /// Ends the table and returns its entry for the manifest.
    pub fn finish(mut self) -> Result<TableEntry, RunError> {
        self.flush()?;
        self.batches.finish()
    }
}

/// Reads one table, batch by batch.
pub struct TableReader<T: Table> {
    batches: BatchReader,
    table: PhantomData<T>,
}

impl<T: Table> TableReader<T> {
    pub(crate) fn on(batches: BatchReader) -> Self {
        Self {
            batches,
            table: PhantomData,
        }
    }

    /// Appends the next batch to `table`; `Ok(false)` at the end.
    pub fn next_into(&mut self, table: &mut T) -> Result<bool, RunError> {
        let Some(batch) = self.batches.next()? else {
            return Ok(false);
        };
        table
            .append_batch(&batch)
            .map_err(|reason| self.batches.damaged(reason))?;
        Ok(true)
    }

    /// The whole table in memory.
    pub fn read_all(mut self) -> Result<T, RunError> {
        let mut table = T::default();
        while self.next_into(&mut table)? {}
        Ok(table)
    }
}
