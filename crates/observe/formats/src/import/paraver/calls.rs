//! MPI functions by type and value.

use crate::import::app::{App, MOST_FUNCTIONS};
use crate::import::paraver::names::Names;
use crate::prv;
use idlewave_run::tables::OperationClass;
use std::collections::HashMap;

/// The functions that were called, by type and value.
#[derive(Default)]
pub(super) struct Functions(HashMap<(u32, u64), (u32, OperationClass)>);

impl Functions {
    /// The row in `operations` of a function, and its class.
    pub(super) fn id(
        &mut self,
        kind: u32,
        value: u64,
        names: &Names,
        app: &mut App,
    ) -> (u32, OperationClass) {
        if let Some(&found) = self.0.get(&(kind, value)) {
            return found;
        }
        let known = prv::call_name(kind, value).or_else(|| names.value(kind, value));
        let name = known.map_or_else(|| format!("MPI function {kind}:{value}"), str::to_owned);
        let found = app.function(&name, kind == prv::COLLECTIVE);
        if self.0.len() < MOST_FUNCTIONS as usize {
            self.0.insert((kind, value), found);
        }
        found
    }
}
