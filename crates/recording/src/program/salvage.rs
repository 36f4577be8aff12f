//! What a killed recorder left in the rings.

use super::drain::Drain;
use super::gather::rings;
use super::rings::{Rings, adopt};
use crate::RecordingError;
use idlewave_clock::{Calibration, Counter};
use idlewave_run::spill::SpillWriter;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// File of the bundle that holds the path of the rings, while they are there.
const FILE: &str = "rings";

/// Notes in the bundle where its rings are.
///
/// # Errors
/// The bundle cannot be written.
pub fn note_rings(bundle: &Path, rings: &Path) -> Result<(), RecordingError> {
    let path = bundle.join(FILE);
    fs::write(&path, rings.as_os_str().as_bytes()).map_err(RecordingError::io("write", path))
}

/// Takes that note back: the rings are empty, or gone.
///
/// # Errors
/// The bundle cannot be written.
pub fn forget_rings(bundle: &Path) -> Result<(), RecordingError> {
    let path = bundle.join(FILE);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(RecordingError::io("remove", path)(e)),
        _ => Ok(()),
    }
}

/// Adds to the spill of a bundle what its rings still hold, if they are there: they are on the machine that recorded,
/// until the next recording or the next start of the machine. They go when the result is dropped.
///
/// # Errors
/// The spill cannot be read or written.
pub(crate) fn salvage_rings(bundle: &Path) -> Result<Option<Rings>, RecordingError> {
    let noted = fs::read(bundle.join(FILE)).unwrap_or_default();
    let path = PathBuf::from(std::ffi::OsString::from_vec(noted));
    let Some(directory) = adopt(&path) else {
        forget_rings(bundle)?;
        return Ok(None);
    };
    let before = rings(bundle)?.into_iter().map(|(number, spilled)| {
        let ring = spilled.ring;
        ((ring.thread, ring.generation), (number, spilled.records))
    });
    let mut drain = Drain::resume(&path, before.collect());
    let mut spill = SpillWriter::resume(bundle)?;
    // The same counter as that of the rings: this is the machine that recorded, and it has not been started anew.
    let mut calibration = Calibration::begin(Counter::choose(Path::new("/")));
    drain.last_round(&mut calibration, &mut spill, &mut Vec::new())?;
    forget_rings(bundle)?;
    Ok(Some(directory))
}
