//! Records that have no place in a run, for the loss ledger.

use std::collections::BTreeMap;

/// Records that have no place in the run, by the reason.
#[derive(Default)]
pub(super) struct Dropped {
    /// Lines that are no records, and the first of them.
    pub malformed: u64,
    pub first: Option<u64>,
    /// Of threads or CPUs that the first line does not declare.
    pub undeclared: u64,
    /// Before the start or after the end of the trace.
    pub outside: u64,
    /// Events of types without a table, by type.
    pub others: BTreeMap<u32, u64>,
    /// Interrupts by sources without a name.
    pub unnamed: u64,
    /// What does not end, or is nested too deeply.
    pub unfinished: u64,
    /// Messages: each lacks its communicator.
    pub messages: u64,
    /// Calls and messages of applications other than the program.
    pub foreign: u64,
}
