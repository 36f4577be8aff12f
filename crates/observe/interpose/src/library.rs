//! The preloaded library, which is part of this crate as bytes.

use crate::InterposeError;
use idlewave_sys::files;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libidlewave_interpose.so"));

/// Its bytes.
pub fn library() -> &'static [u8] {
    LIBRARY
}

/// Name of the file that [`write_library`] makes.
pub const FILE_NAME: &str = "libidlewave_interpose.so";

/// Writes the library into a directory and returns its path, for `LD_PRELOAD`.
///
/// A file of that name is replaced as a whole: programs that have the old one mapped keep it.
/// Everybody can read the file, so that ranks of other users can load it.
///
/// # Errors
/// If the directory cannot be written.
pub fn write_library(directory: &Path) -> Result<PathBuf, InterposeError> {
    let path = directory.join(FILE_NAME);
    let write = || {
        let mut new = files::Replacement::begin(&path)?;
        new.file().write_all(LIBRARY)?;
        new.file().set_permissions(Permissions::from_mode(0o755))?;
        new.commit()
    };
    write().map_err(|source| InterposeError::File {
        action: "write",
        path: path.clone(),
        source,
    })?;
    Ok(path)
}
