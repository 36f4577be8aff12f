//! Programs as a shell finds them.

use std::path::{Path, PathBuf};

/// The file that a program's name stands for: itself if it has a slash, else the first one of that name in the
/// directories of `PATH`. The name unchanged where there is none.
pub fn in_path(program: &Path) -> PathBuf {
    if program.components().count() != 1 {
        return program.to_owned();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
        .unwrap_or_else(|| program.to_owned())
}
