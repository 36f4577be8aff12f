//! The preloaded library, which is part of this crate as bytes.

use crate::InterposeError;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libidlewave_interpose.so"));

/// Name of the file that [`write_library`] makes.
pub const FILE_NAME: &str = "libidlewave_interpose.so";

/// Writes the library into a directory and returns its path, for `LD_PRELOAD`.
///
/// A file of that name is replaced as a whole: programs that have the old one mapped keep it. The file can be read by
/// everybody, so that ranks of other users can load it.
///
/// # Errors
/// If the directory cannot be written.
pub fn write_library(directory: &Path) -> Result<PathBuf, InterposeError> {
    let path = directory.join(FILE_NAME);
    let temporary = directory.join(format!(".{FILE_NAME}.{}", std::process::id()));
    let write = || {
        // What an interrupted attempt of a process with the same number left.
        match std::fs::remove_file(&temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o755);
        options.open(&temporary)?.write_all(LIBRARY)?;
        std::fs::rename(&temporary, &path)
    };
    write().map_err(|source| {
        let _ = std::fs::remove_file(&temporary);
        InterposeError::File {
            action: "write",
            path: path.clone(),
            source,
        }
    })?;
    Ok(path)
}
