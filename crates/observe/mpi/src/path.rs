//! Finds programs as a shell does.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file that a program's name stands for: the name itself if it has a slash, else the first
/// executable file of that name in `PATH`. Unchanged if there is none.
pub fn in_path(program: &Path) -> PathBuf {
    in_directories(program, &std::env::var_os("PATH").unwrap_or_default())
}

fn in_directories(program: &Path, path: &OsStr) -> PathBuf {
    if program.components().count() != 1 {
        return program.to_owned();
    }
    std::env::split_paths(path)
        .map(|directory| directory.join(program))
        .find(|file| is_executable(file))
        .unwrap_or_else(|| program.to_owned())
}

/// Whether it is a regular file that somebody may execute.
fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_executable_file_of_the_name_is_the_program() {
        let root = tempfile::tempdir().unwrap();
        let directory = |name: &str| root.path().join(name);
        for (name, mode) in [("text", 0o644), ("first", 0o755), ("second", 0o755)] {
            let file = directory(name).join("mpirun");
            std::fs::create_dir(directory(name)).unwrap();
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        }
        // A directory of that name is not a program either.
        std::fs::create_dir_all(directory("deep").join("mpirun")).unwrap();
        let all = ["nowhere", "text", "deep", "first", "second"].map(directory);
        let path = std::env::join_paths(all).unwrap();
        let found = |name: &str| in_directories(Path::new(name), &path);
        assert_eq!(found("mpirun"), directory("first").join("mpirun"));
        assert_eq!(found("other"), Path::new("other"));
        assert_eq!(found("./mpirun"), Path::new("./mpirun"));
    }
}
