//! Finds the MPI library that a program loads, in the loader's order (ld.so(8)): the `DT_RPATH`
//! directories of a file and of those through which it is loaded, `LD_LIBRARY_PATH`, the file's own
//! `DT_RUNPATH` directories, the system's.

use crate::abi::Family;
use crate::candidate::{Candidate, existing};
use crate::{MpiError, Needs};
use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};

/// How many libraries of one program to look at, at most.
const MOST_FILES: usize = 512;

/// The MPI libraries among all that the program needs; at least one. A program name without a slash
/// is looked up in `PATH`.
///
/// # Errors
/// The program cannot be read, is not an ELF file, or needs no MPI library.
pub fn needed_by(program: &Path) -> Result<Vec<Candidate>, MpiError> {
    let program = crate::in_path(program);
    let because = format!("needed by {}", program.display());
    let mut found = Vec::new();
    let mut missing = Vec::new();
    let mut to_read = VecDeque::from([(Needs::of(&program)?, Vec::new())]);
    let mut seen = HashSet::new();
    while let Some((needs, above)) = to_read.pop_front() {
        if seen.len() >= MOST_FILES {
            break;
        }
        let rpath = [needs.rpath.as_slice(), &above].concat();
        let directories = directories(&rpath, &needs.runpath, library_path());
        for name in needs.libraries {
            if !seen.insert(name.clone()) {
                continue;
            }
            let place = locate(&name, &directories);
            for soname in c_library(&name) {
                let beside = (*soname != name)
                    .then(|| {
                        place
                            .as_deref()
                            .and_then(|p| existing(p.with_file_name(soname)))
                    })
                    .flatten();
                let own = (*soname == name).then(|| place.clone()).flatten();
                let file = own.or(beside).unwrap_or_else(|| PathBuf::from(soname));
                found.push(Candidate::new(file, &because, None));
            }
            match place.and_then(|place| Needs::of(&place).ok()) {
                Some(needs) => to_read.push_back((needs, rpath.clone())),
                None => missing.push(name),
            }
        }
    }
    if found.is_empty() {
        return Err(MpiError::NotNeeded { program, missing });
    }
    Ok(found)
}

/// The C library of MPI behind a library of this name: itself, or the one under a Fortran or C++
/// layer.
fn c_library(name: &str) -> Vec<&str> {
    let Some((stem, version)) = name.split_once(".so") else {
        return Vec::new();
    };
    let is_layer = |prefixes: &[&str]| prefixes.iter().any(|prefix| stem.starts_with(prefix));
    if Family::of_soname(name).is_some() || stem == "libmpi" {
        vec![name]
    } else if version == ".40" && is_layer(&["libmpi_mpifh", "libmpi_usempi", "libmpi_cxx"]) {
        vec!["libmpi.so.40"]
    } else if is_layer(&["libmpichfort", "libmpichcxx"]) {
        vec!["libmpich.so.12"]
    } else if is_layer(&["libmpifort", "libmpicxx"]) {
        vec!["libmpi.so.12"]
    } else {
        Vec::new()
    }
}

/// Where the loader looks for the libraries of a file, in order. `rpath` is that of the file and of
/// those through which it is loaded; the loader ignores it for a file with a `runpath`.
fn directories(rpath: &[PathBuf], runpath: &[PathBuf], library_path: Vec<PathBuf>) -> Vec<PathBuf> {
    let rpath = if runpath.is_empty() { rpath } else { &[] };
    let triplet = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let system = ["lib", "usr/lib", "lib64", "usr/lib64", "usr/local/lib"];
    let mut all = [rpath, &library_path, runpath].concat();
    all.push(PathBuf::from(triplet));
    all.extend(system.map(|directory| Path::new("/").join(directory)));
    all
}

/// `LD_LIBRARY_PATH`, where an empty entry is the current directory.
fn library_path() -> Vec<PathBuf> {
    match std::env::var_os("LD_LIBRARY_PATH") {
        Some(path) if !path.is_empty() => std::env::split_paths(&path)
            .map(|directory| Path::new(".").join(directory))
            .collect(),
        _ => Vec::new(),
    }
}

fn locate(name: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    if name.contains('/') {
        return existing(PathBuf::from(name));
    }
    let mut files = directories.iter().map(|directory| directory.join(name));
    files.find_map(existing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_lead_to_their_c_library() {
        for (layer, library) in [
            ("libmpi.so.40", "libmpi.so.40"),
            ("libmpi_usempif08.so.40", "libmpi.so.40"),
            ("libmpi_mpifh.so.40", "libmpi.so.40"),
            ("libmpichfort.so.12", "libmpich.so.12"),
            ("libmpifort.so.12", "libmpi.so.12"),
            ("libmpi_abi.so.1", "libmpi_abi.so.1"),
        ] {
            assert_eq!(c_library(layer), [library]);
        }
        assert!(c_library("libm.so.6").is_empty());
        assert!(c_library("libmpiutil.so").is_empty());
    }

    #[test]
    fn directories_come_in_the_order_of_the_loader() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let begin = |runpath: &[&str]| {
            let of = directories(&paths(&["rpath"]), &paths(runpath), paths(&["variable"]));
            let own = of.into_iter().take_while(|d| d.is_relative());
            own.collect::<Vec<_>>()
        };
        assert_eq!(begin(&[]), paths(&["rpath", "variable"]));
        assert_eq!(begin(&["runpath"]), paths(&["variable", "runpath"]));
    }
}
