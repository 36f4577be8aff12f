//! Runs that are read and files that are written.

use crate::exit::{Exit, Failure};
use crate::progress::Bars;
use idlewave_recording::{Lock, RecordingError, Stop, open_run};
use idlewave_run::RunReader;
use std::fs;
use std::io;
use std::path::Path;

/// Opens a run with everything that can be made of what it recorded, which is made now where it was not before.
pub fn open_complete(path: &Path, stop: &Stop) -> Result<RunReader, Failure> {
    let bars = Bars::new(true);
    let open = || {
        idlewave_record::join_left(path, &stop.flag, &bars)?;
        // A path that is no bundle is said to be none rather than one that cannot be locked.
        RunReader::open(path).map_err(RecordingError::from)?;
        let _lock = Lock::take(path)?;
        Ok(open_run(path, &stop.flag, &bars)?)
    };
    let opened = open();
    bars.finish();
    opened
}

/// A file that is there already is somebody's; a pipe or a device is not.
pub fn refuse_existing(target: &Path) -> Result<(), Failure> {
    match fs::metadata(target) {
        Ok(there) if there.is_file() || there.is_dir() => Err(exists(target)),
        _ => Ok(()),
    }
}

fn exists(target: &Path) -> Failure {
    let what = format!("write {}: it exists already", target.display());
    Failure::new(Exit::Io, what).with_next("choose another name with -o, or remove it")
}

/// Writes a file, whole or not at all, and over no other one.
pub fn write_new(target: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(target),
        kind => {
            let next = match kind {
                io::ErrorKind::NotFound => {
                    "make the directory above it first, or choose another place with -o"
                }
                _ => "choose a place that you may write with -o",
            };
            let what = format!("write {}: {error}", target.display());
            Failure::new(Exit::Io, what).with_next(next)
        }
    };
    if fs::metadata(target).is_ok_and(|there| !there.is_file()) {
        return fs::write(target, bytes).map_err(failed);
    }
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = target.with_file_name(name);
    // A link to the whole file, as a rename would replace what came in between.
    let done = fs::write(&temporary, bytes).and_then(|()| fs::hard_link(&temporary, target));
    let done = match done {
        Err(error) if no_links(&error) => {
            refuse_existing(target)?;
            fs::rename(&temporary, target)
        }
        other => other,
    };
    // The outcome matters more than what is left of the temporary file.
    let _ = fs::remove_file(&temporary);
    done.map_err(failed)
}

/// Whether a file system cannot link files.
fn no_links(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
    )
}
