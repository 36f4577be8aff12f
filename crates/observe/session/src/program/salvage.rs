//! Recovers what a killed recorder left in the rings.

use super::drain::{Before, Drain};
use super::gather::rings;
use super::rings::{Rings, adopt};
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
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// File of the bundle that holds the path of the rings while they exist.
const FILE: &str = "rings";
/// Longest path that the kernel accepts (PATH_MAX).
const LONGEST_PATH: u64 = 4_096;

/// Stores the path of the rings in the bundle.
///
/// # Errors
/// The bundle cannot be written.
pub fn note_rings(bundle: &Path, rings: &Path) -> Result<(), SessionError> {
    let path = bundle.join(FILE);
    files::replace(&path, rings.as_os_str().as_bytes()).map_err(SessionError::io("write", path))
}

/// Removes that path: the rings are empty or gone.
///
/// # Errors
/// The bundle cannot be written.
pub fn forget_rings(bundle: &Path) -> Result<(), SessionError> {
    let path = bundle.join(FILE);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(SessionError::io("remove", path)(e)),
        _ => Ok(()),
    }
}

/// Adds what the rings still hold to the spill of a bundle, if they exist: on the recording
/// machine, until the next recording or reboot. They are removed when the result is dropped.
///
/// # Errors
/// The spill cannot be read or written.
pub(crate) fn salvage_rings(out: &mut RunWriter) -> Result<Option<Rings>, SessionError> {
    let bundle = out.path().to_owned();
    let bundle = bundle.as_path();
    let noted = files::read(&bundle.join(FILE), LONGEST_PATH).unwrap_or_default();
    let path = PathBuf::from(std::ffi::OsString::from_vec(noted));
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
    // For threads that the killed recorder had not seen: where numbers differ, they can no longer
    // be looked up.
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
