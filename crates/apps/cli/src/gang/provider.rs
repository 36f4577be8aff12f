//! What makes MPI libraries use network contexts: idlewave's libfabric provider, by environment
//! variables of the ranks.

use idlewave_fi::{FILE_NAME, library};
use idlewave_mpi::needed_by;
use idlewave_sys::files;
use idlewave_sys::terminal::say;
use std::ffi::OsString;
use std::path::Path;

/// The longest MPI library that is looked into, bytes.
const LONGEST: u64 = 1 << 30;

/// The variables of a rank, as `NAME=VALUE`; none if the provider is not installed, which is said.
pub fn variables() -> Vec<OsString> {
    let program = std::env::current_exe();
    let Some(library) = program.ok().and_then(|program| library(&program)) else {
        say(&format!(
            "idlewave: {FILE_NAME} is neither beside this program nor in ../lib/idlewave: MPI libraries will not use the network contexts\n"
        ));
        return Vec::new();
    };
    let others = std::env::var_os("FI_PROVIDER_PATH");
    let all = idlewave_fi::variables(&library, others).into_iter();
    let word = |(name, value): (&str, OsString)| {
        let mut word = OsString::from(format!("{name}="));
        word.push(value);
        word
    };
    all.map(word).collect()
}

/// Says if a program's MPI library cannot use libfabric. Nothing is said where that is not known:
/// of scripts, and of libraries that end the program themselves then.
pub fn judge(program: &Path) {
    for candidate in needed_by(program).unwrap_or_default() {
        // Libraries are found by links to them.
        let Ok(file) = candidate.file.canonicalize() else {
            continue;
        };
        let Ok(content) = files::read(&file, LONGEST) else {
            continue;
        };
        if let Some(device) = mpich_device(&content).filter(|device| !device.contains("ofi")) {
            say(&format!(
                "idlewave: {} (MPICH, {device}) was built without libfabric: its messages do not use the network contexts\n",
                file.display()
            ));
        }
    }
}

/// The device that an MPICH library was built with, such as `ch4:ofi`: a string in it.
fn mpich_device(library: &[u8]) -> Option<&str> {
    let mut strings = library.split(|byte| *byte == 0);
    let device = strings.find(|text| {
        let known = text.starts_with(b"ch4:") || text.starts_with(b"ch3:");
        known && text.len() < 64
    });
    std::str::from_utf8(device?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_an_mpich_library_is_found() {
        let device = |bytes: &'static [u8]| mpich_device(bytes);
        assert_eq!(device(b"\0a ch4:x\0ch4:ucx\0b"), Some("ch4:ucx"));
        assert_eq!(device(b"\0ch4:ucx ofi\0"), Some("ch4:ucx ofi"));
        assert_eq!(device(b"Open MPI\0"), None);
    }
}
