//! Records that have no place in a run, for the loss ledger.

use std::collections::BTreeMap;

/// Records that have no place in the run.
#[derive(Default)]
pub(super) struct Dropped {
    pub malformed: u64,
    pub first: Option<u64>,
    pub undeclared: u64,
    pub outside: u64,
    pub others: BTreeMap<u32, u64>,
    pub unfinished: u64,
    pub messages: u64,
    pub foreign: u64,
}
