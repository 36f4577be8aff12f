//! Recovers what killed owners left: groups, identified by their names, and processes stopped by
//! signals.

use crate::control::{self, Homes};
use crate::error::FreezeError;
use crate::freezer::Freezer;
use crate::journal;
use crate::private_name::{PrivateName, namespace};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Continues processes that dead owners had stopped by signals, and thaws and removes the groups
/// that they left in the freezer's parent; their processes move to the parent. Returns the groups
/// and journal files removed.
///
/// # Errors
/// The first that could not be removed, after all others were tried.
pub fn recover(freezer: &Freezer) -> Result<Vec<PathBuf>, FreezeError> {
    let here = namespace()?;
    // Whatever the freezer: jobs that Slurm limits by a cgroup stay in it and are stopped by
    // signals.
    let (mut recovered, mut failed) = match journal::recover(here) {
        Ok(recovered) => (recovered, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let Some(parent) = freezer.parent() else {
        return failed.map_or(Ok(recovered), Err);
    };
    let homes = Homes {
        default: parent.to_owned(),
        of: BTreeMap::new(),
    };
    for entry in fs::read_dir(parent).map_err(FreezeError::file("read", parent))? {
        let entry = entry.map_err(FreezeError::file("read", parent))?;
        let name = entry.file_name().to_str().and_then(PrivateName::parse);
        if name.is_some_and(|name| name.is_orphan(here)) {
            match control::release(freezer.kind(), &entry.path(), &homes) {
                Ok(()) => recovered.push(entry.path()),
                Err(e) => failed = failed.or(Some(e)),
            }
        }
    }
    recovered.sort();
    failed.map_or(Ok(recovered), Err)
}
