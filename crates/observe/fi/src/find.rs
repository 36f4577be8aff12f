//! Where the shared library is, and how MPI libraries are told to use it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The name by which programs ask for this provider.
pub const NAME: &str = "idlewave";
/// The library's name: libfabric loads what ends in `fi.so`.
pub const FILE_NAME: &str = "libidlewave_fi.so";

/// Variables that select libfabric in MPI libraries, and nothing that passes it by: the matching
/// layer of Open MPI; the network module of MPICH, also inside a node, without remote memory
/// access, which the provider does not have.
const SELECT: [(&str, &str); 6] = [
    ("OMPI_MCA_pml", "cm"),
    ("OMPI_MCA_mtl", "ofi"),
    ("MPIR_CVAR_CH4_NETMOD", "ofi"),
    ("MPIR_CVAR_NOLOCAL", "1"),
    ("MPIR_CVAR_CH4_OFI_ENABLE_RMA", "0"),
    ("MPIR_CVAR_CH4_OFI_ENABLE_ATOMICS", "0"),
];

/// Finds it for an installed program: beside it, in `deps` beside it, where cargo builds it, or in
/// `../lib/idlewave`.
pub fn library(program: &Path) -> Option<PathBuf> {
    let beside = program.parent()?;
    let places = [
        beside.to_owned(),
        beside.join("deps"),
        beside.join("../lib/idlewave"),
    ];
    let mut files = places.into_iter().map(|place| place.join(FILE_NAME));
    files.find(|file| file.is_file())
}

/// The variables with which MPI libraries use the provider in `library`. `others` are the
/// directories in which libfabric looks for providers already.
pub fn variables(library: &Path, others: Option<OsString>) -> Vec<(&'static str, OsString)> {
    let directory = library.parent().unwrap_or(Path::new("/"));
    let directory = directory.canonicalize().unwrap_or(directory.to_owned());
    let mut path = directory.into_os_string();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        path.push(":");
        path.push(others);
    }
    let own = [
        ("FI_PROVIDER_PATH", path),
        ("FI_PROVIDER", OsString::from(NAME)),
    ];
    let select = SELECT.map(|(name, value)| (name, OsString::from(value)));
    own.into_iter().chain(select).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_beside_a_program_and_where_it_is_installed() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("bin/idlewave");
        assert_eq!(library(&program), None);
        for place in ["lib/idlewave", "bin/deps", "bin"] {
            let file = directory.path().join(place).join(FILE_NAME);
            std::fs::create_dir_all(directory.path().join("bin")).unwrap();
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            let found = library(&program).unwrap().canonicalize().unwrap();
            assert_eq!(found, file.canonicalize().unwrap());
        }
    }

    #[test]
    fn providers_of_others_stay_in_the_path() {
        let path = |others: Option<&str>| {
            let all = variables(Path::new("/x/lib.so"), others.map(OsString::from));
            all.into_iter().next().unwrap().1
        };
        assert_eq!(path(None), "/x");
        assert_eq!(path(Some("")), "/x");
        assert_eq!(path(Some("/a:/b")), "/x:/a:/b");
    }
}
