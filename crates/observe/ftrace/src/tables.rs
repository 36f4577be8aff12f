//! The tables that grow with the trace, written batch by batch.

use crate::DecodeSummary;
use crate::timeline::{Rows, Sink};
use idlewave_run::tables::{Bursts, Interrupts, Migrations, Syscalls, Wakeups};
use idlewave_run::{RunError, RunWriter, Table, TableWriter};

/// Rows of a table collected before they are written.
const ROWS: usize = 1 << 14;

/// The tables that grow with the trace.
pub(crate) struct Tables {
    bursts: TableWriter<Bursts>,
    interrupts: TableWriter<Interrupts>,
    wakeups: TableWriter<Wakeups>,
    migrations: TableWriter<Migrations>,
    syscalls: TableWriter<Syscalls>,
}

impl Tables {
    pub(crate) fn new(out: &RunWriter) -> Result<Self, RunError> {
        Ok(Self {
            bursts: out.table()?,
            interrupts: out.table()?,
            wakeups: out.table()?,
            migrations: out.table()?,
            syscalls: out.table()?,
        })
    }

    /// Writes all pending rows.
    pub(crate) fn write(
        &mut self,
        mut rows: Rows,
        summary: &mut DecodeSummary,
    ) -> Result<(), RunError> {
        drain(&mut self.bursts, &mut rows.bursts, &mut summary.bursts)?;
        drain(
            &mut self.interrupts,
            &mut rows.interrupts,
            &mut summary.interrupts,
        )?;
        drain(&mut self.wakeups, &mut rows.wakeups, &mut summary.wakeups)?;
        drain(
            &mut self.migrations,
            &mut rows.migrations,
            &mut summary.migrations,
        )?;
        drain(
            &mut self.syscalls,
            &mut rows.syscalls,
            &mut summary.syscalls,
        )
    }

    /// Writes the rows of those tables that have collected a batch.
    pub(crate) fn write_full(
        &mut self,
        sink: &mut Sink,
        summary: &mut DecodeSummary,
    ) -> Result<(), RunError> {
        let rows = &mut sink.rows;
        if rows.bursts.len() >= ROWS {
            drain(&mut self.bursts, &mut rows.bursts, &mut summary.bursts)?;
        }
        if rows.interrupts.len() >= ROWS {
            drain(
                &mut self.interrupts,
                &mut rows.interrupts,
                &mut summary.interrupts,
            )?;
        }
        if rows.wakeups.len() >= ROWS {
            drain(&mut self.wakeups, &mut rows.wakeups, &mut summary.wakeups)?;
        }
        if rows.migrations.len() >= ROWS {
            drain(
                &mut self.migrations,
                &mut rows.migrations,
                &mut summary.migrations,
            )?;
        }
        if rows.syscalls.len() >= ROWS {
            drain(
                &mut self.syscalls,
                &mut rows.syscalls,
                &mut summary.syscalls,
            )?;
        }
        Ok(())
    }

    /// Without rows there is no table of system calls: they are recorded on request only.
    pub(crate) fn finish(
        self,
        out: &mut RunWriter,
        summary: &DecodeSummary,
    ) -> Result<(), RunError> {
        out.finish_table(self.bursts)?;
        out.finish_table(self.interrupts)?;
        out.finish_table(self.wakeups)?;
        out.finish_table(self.migrations)?;
        match summary.syscalls {
            0 => out.discard_table(self.syscalls),
            _ => out.finish_table(self.syscalls),
        }
    }
}

fn drain<T: Table>(
    writer: &mut TableWriter<T>,
    rows: &mut T,
    count: &mut u64,
) -> Result<(), RunError> {
    if !rows.is_empty() {
        writer.extend(rows)?;
        *count += rows.len() as u64;
        rows.clear();
    }
    Ok(())
}
