//! Recovers what a killed recorder left in the rings.

use super::drain::{Before, Drain};
use super::gather::rings;
use super::rings::{BUNDLE, RINGS, Rings, adopt, noted};
use super::sheets::enter_without_rings;
use crate::SessionError;
use idlewave_clock::{Calibration, Counter};
use idlewave_ftrace::capture_path;
use idlewave_run::RunWriter;
use idlewave_run::spill::SpillWriter;
use idlewave_sys::files;
use idlewave_sys::pid_namespace::PidNamespace;
use idlewave_units::Pid;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Stores the path of the rings in the bundle, and that of the bundle beside the rings: as long as
/// each names the other, new recordings leave the rings alone.
///
/// # Errors
/// The bundle or the directory of the rings cannot be written.
pub fn note_rings(bundle: &Path, rings: &Path) -> Result<(), SessionError> {
    let note = |at: PathBuf, path: &Path| {
        let done = files::replace(&at, path.as_os_str().as_bytes());
        done.map_err(SessionError::io("write", at))
    };
    let whole = fs::canonicalize(bundle).map_err(SessionError::io("find", bundle))?;
    note(rings.join(BUNDLE), &whole)?;
    note(bundle.join(RINGS), rings)
}

/// Removes the path from the bundle, once the rings are empty or gone.
///
/// # Errors
/// The bundle cannot be written.
pub fn forget_rings(bundle: &Path) -> Result<(), SessionError> {
    let path = bundle.join(RINGS);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(SessionError::io("remove", path)(e)),
        _ => Ok(()),
    }
}

/// Adds what the rings still hold to the spill of a bundle, if they exist: on the recording
/// machine, until it reboots. Dropping the result removes them.
///
/// # Errors
/// The spill cannot be read or written.
pub(crate) fn salvage_rings(out: &mut RunWriter) -> Result<Option<Rings>, SessionError> {
    let bundle = out.path().to_owned();
    let bundle = bundle.as_path();
    let path = noted(&bundle.join(RINGS));
    let Some(directory) = adopt(&path) else {
        forget_rings(bundle)?;
        return Ok(None);
    };
    let before = rings(bundle)?.into_iter().map(|(number, spilled)| {
        let ring = spilled.ring;
        let before = Before {
            number,
            records: spilled.records,
            viewed: ring.viewed,
        };
        ((ring.thread, ring.generation), before)
    });
    let mut drain = Drain::resume(&path, before.collect());
    let mut spill = SpillWriter::resume(bundle)?;
    // The rings use the same counter: this is the recording machine, and it has not rebooted.
    let mut calibration = Calibration::begin(Counter::choose(Path::new("/")));
    // This is for threads that the killed recorder had not seen: if their numbers differ, they can
    // no longer be looked up.
    let same = PidNamespace::current().is_ok_and(PidNamespace::is_initial)
        || !capture_path(&bundle.join("raw")).exists();
    let mut numbers = |threads: &[Pid]| {
        let numbers = threads.iter().map(|&thread| same.then_some(thread));
        Ok(numbers.collect())
    };
    drain.last_round(&mut calibration, &mut spill, &mut numbers, &mut Vec::new())?;
    enter_without_rings(&mut out.manifest.losses, drain.without_rings());
    forget_rings(bundle)?;
    Ok(Some(directory))
}
