//! Where idlewave looks for an MPI library.
//!
//! The user may name the file, or a program whose library is wanted. Otherwise, in this order: what
//! the launcher's environment says; `../lib` beside the launcher's executable and beside `mpirun`;
//! the loader's directories. If a launcher with a library of its own started this process, only
//! libraries of that family or of the standard ABI are tried.

use crate::abi::Family;
use crate::candidate::{Candidate, existing};
use crate::program::needed_by;
use crate::{Launch, MpiError};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Names under which MPI libraries are installed, preferred ones first.
const NAMES: [&str; 7] = [
    "libmpi.so.40",
    "libmpi.so.12",
    "libmpich.so.12",
    "libmpi_abi.so.1",
    "libmpi_abi.so.0",
    "libmpi_abi.so",
    "libmpi.so",
];

/// Variables that name the prefix of an installation.
const PREFIXES: [&str; 8] = [
    "OPAL_PREFIX",
    "PMIX_PREFIX",
    "MPI_HOME",
    "MPI_ROOT",
    "I_MPI_ROOT",
    "MPICH_DIR",
    "CRAY_MPICH_DIR",
    "EBROOTOPENMPI",
];

/// Which library the user asks for.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// The library file (`--mpi-lib`); nothing else is tried.
    pub library: Option<PathBuf>,
    /// The program whose library is wanted (`--mpi-of`); nothing else is tried.
    pub program: Option<PathBuf>,
}

impl Search {
    /// Whether the user says which library to use.
    pub fn is_told(&self) -> bool {
        self.library.is_some() || self.program.is_some()
    }
}

/// Everything to try, in order, without duplicates.
///
/// # Errors
/// The named program has no MPI library or cannot be read.
pub fn candidates(search: &Search) -> Result<Vec<Candidate>, MpiError> {
    let mut found = match search {
        Search {
            library: Some(file),
            ..
        } => vec![Candidate::new(file, "named by the user", None)],
        Search {
            program: Some(program),
            ..
        } => needed_by(program)?,
        _ => installed(),
    };
    let mut seen = HashSet::new();
    found.retain(|candidate| seen.insert(candidate.file.clone()));
    Ok(found)
}

/// Candidates from the launcher and the system.
fn installed() -> Vec<Candidate> {
    let launch = Launch::of_this_process();
    let family = launch.and_then(|launch| launch.launcher.family());
    let mut found = of_environment(family);
    found.extend(beside_launchers(family));
    let names = NAMES.iter().filter(|name| fits(name, family));
    found.extend(names.map(|name| Candidate::new(name, "the loader's directories", family)));
    found
}

/// Whether a library of that name may belong to the wanted family.
fn fits(name: &str, family: Option<Family>) -> bool {
    match (Family::of_soname(name), family) {
        // Any implementation may have the standard ABI.
        (None | Some(Family::Standard), _) | (_, None) => true,
        (Some(of_name), Some(wanted)) => of_name == wanted,
    }
}

fn of_environment(family: Option<Family>) -> Vec<Candidate> {
    let mut found = Vec::new();
    if let Some(directory) = std::env::var_os("OMPI_LIBDIR_LOC") {
        let directory = PathBuf::from(directory);
        found.extend(in_directory(
            &directory,
            "OMPI_LIBDIR_LOC of the launcher",
            family,
        ));
    }
    for name in PREFIXES {
        if let Some(prefix) = std::env::var_os(name) {
            found.extend(in_prefix(&PathBuf::from(prefix), name, family));
        }
    }
    found
}

/// Candidates beside the executables of launchers among this process's ancestors, and beside
/// `mpirun`.
fn beside_launchers(family: Option<Family>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for exe in launchers_above() {
        let because = format!("beside {}, which started this process", exe.display());
        found.extend(beside(&exe, &because, family));
    }
    for name in ["mpirun", "mpiexec"] {
        let exe = crate::in_path(Path::new(name));
        if exe.is_absolute() {
            let because = format!("beside {}", exe.display());
            found.extend(beside(&exe, &because, family));
        }
    }
    found
}

fn beside(exe: &Path, because: &str, family: Option<Family>) -> Vec<Candidate> {
    let target = std::fs::canonicalize(exe).unwrap_or_else(|_| exe.to_owned());
    let family = family.or_else(|| family_of_launcher(&target));
    let mut found = Vec::new();
    // The locations of the symlink and of its target: either may be the installation.
    for file in [target.as_path(), exe] {
        if let Some(prefix) = file.parent().and_then(Path::parent) {
            found.extend(in_prefix(prefix, because, family));
        }
    }
    found
}

/// The family that a launcher's file name implies.
fn family_of_launcher(exe: &Path) -> Option<Family> {
    let name = exe.file_name()?.to_string_lossy();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["openmpi", "orte", "prte"]) {
        Some(Family::OpenMpi)
    } else if has(&["hydra", "mpich"]) {
        Some(Family::Mpich)
    } else {
        None
    }
}

fn in_prefix(prefix: &Path, because: &str, family: Option<Family>) -> Vec<Candidate> {
    let triplet = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let directories = ["lib", "lib64", "lib/release", triplet.as_str()];
    let candidates = directories.map(|d| in_directory(&prefix.join(d), because, family));
    candidates.into_iter().flatten().collect()
}

fn in_directory(directory: &Path, because: &str, family: Option<Family>) -> Vec<Candidate> {
    let names = NAMES.iter().filter(|name| fits(name, family));
    names
        .filter_map(|name| existing(directory.join(name)))
        .map(|file| Candidate::new(file, because, family))
        .collect()
}

/// Executables of this process's ancestors that have a launcher's name.
fn launchers_above() -> Vec<PathBuf> {
    const LAUNCHERS: [&str; 6] = ["mpirun", "mpiexec", "orte", "prte", "hydra", "prun"];
    let mut found = Vec::new();
    let mut process = std::os::unix::process::parent_id();
    while process > 1 && found.len() < 4 {
        // The link of another user's process cannot be read, but the parent's number can.
        if let Ok(exe) = std::fs::read_link(format!("/proc/{process}/exe")) {
            let name = exe.file_name().map(|n| n.to_string_lossy().into_owned());
            if name.is_some_and(|name| LAUNCHERS.iter().any(|l| name.contains(l))) {
                found.push(exe);
            }
        }
        match parent_of(process) {
            Some(parent) => process = parent,
            None => break,
        }
    }
    found
}

fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may contain spaces and parentheses: the fields follow the last parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_named_file_is_the_only_candidate() {
        let search = Search {
            library: Some("/nowhere/libmpi.so".into()),
            program: Some("/bin/true".into()),
        };
        let found = candidates(&search).unwrap();
        let files: Vec<_> = found.into_iter().map(|c| c.file).collect();
        assert_eq!(files, [PathBuf::from("/nowhere/libmpi.so")]);
    }

    #[test]
    fn a_program_without_an_mpi_library_is_told_and_nothing_else_is_tried() {
        let program = std::env::current_exe().unwrap();
        let search = Search {
            library: None,
            program: Some(program.clone()),
        };
        let error = candidates(&search).unwrap_err();
        let text = format!("{} is not linked with one", program.display());
        assert!(error.to_string().ends_with(&text), "{error}");
    }

    #[test]
    fn without_a_word_of_the_user_the_loader_is_asked_last() {
        let found = candidates(&Search::default()).unwrap();
        let last = found.last().unwrap();
        assert_eq!(last.because, "the loader's directories");
    }

    #[test]
    fn the_name_of_a_launcher_tells_its_family() {
        for (exe, family) in [
            ("/usr/bin/orterun", Some(Family::OpenMpi)),
            ("/opt/bin/prterun", Some(Family::OpenMpi)),
            ("/usr/bin/mpiexec.hydra", Some(Family::Mpich)),
            ("/usr/bin/mpirun", None),
        ] {
            assert_eq!(family_of_launcher(Path::new(exe)), family, "{exe}");
        }
    }

    #[test]
    fn libraries_of_the_other_family_are_left_out() {
        assert!(fits("libmpi.so.40", Some(Family::OpenMpi)));
        assert!(!fits("libmpi.so.40", Some(Family::Mpich)));
        assert!(fits("libmpi_abi.so.1", Some(Family::Mpich)));
        assert!(fits("libmpi.so.12", None));
    }
}
