//! Where the shared library is.

use std::path::{Path, PathBuf};

/// Its name: libfabric loads what ends in `fi.so`.
pub const FILE_NAME: &str = "libidlewave_fi.so";

/// Finds it for an installed program: beside it, in `deps` beside it, where cargo builds it, or in
/// `../lib/idlewave`.
pub fn library(program: &Path) -> Option<PathBuf> {
    let beside = program.parent()?;
    let places = [
        beside.to_owned(),
        beside.join("deps"),
        beside.join("../lib/idlewave"),
    ];
    let files = places.into_iter().map(|place| place.join(FILE_NAME));
    files.into_iter().find(|file| file.is_file())
}
