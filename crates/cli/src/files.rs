//! Runs that are read and files that are written.

use crate::exit::{Exit, Failure};
use crate::progress::Bars;
use idlewave_recording::{Lock, RecordingError, Stop, open_run};
use idlewave_run::RunReader;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

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

/// A file that is there already is somebody's; a pipe or a device is not. `option` names the file.
pub fn refuse_existing(target: &Path, option: &str) -> Result<(), Failure> {
    match fs::metadata(target) {
        Ok(there) if there.is_file() || there.is_dir() => Err(exists(target, option)),
        _ => Ok(()),
    }
}

/// What is there already, and places to which nothing can be written: better said before much work than after it.
pub fn refuse_place(target: &Path, option: &str) -> Result<(), Failure> {
    refuse_existing(target, option)?;
    if fs::metadata(target).is_ok() {
        return Ok(());
    }
    let tried = temporary(target);
    let made = fs::File::create_new(&tried).map(drop);
    // It was made to see whether it can be.
    let _ = fs::remove_file(&tried);
    made.map_err(|error| not_written(target, option, &error))
}

fn exists(target: &Path, option: &str) -> Failure {
    let what = format!("write {}: it exists already", target.display());
    Failure::new(Exit::Io, what)
        .with_next(format!("choose another name with {option}, or remove it"))
}

fn not_written(target: &Path, option: &str, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return exists(target, option);
    }
    let next = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("make the directory above it first, or choose another place with {option}")
        }
        _ => format!("choose a place that you may write with {option}"),
    };
    let what = format!("write {}: {error}", target.display());
    Failure::new(Exit::Io, what).with_next(next)
}

/// Beside a file, and known by the process.
fn temporary(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    target.with_file_name(name)
}

/// Writes a file, whole or not at all, and over no other one; what is no regular file, such as a pipe or a device, is written into.
pub fn write_new(
    target: &Path,
    option: &str,
    write: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let failed = |error: io::Error| not_written(target, option, &error);
    let into = |file: fs::File| -> io::Result<()> {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    };
    if fs::metadata(target).is_ok_and(|there| !there.is_file()) {
        let open = fs::OpenOptions::new().write(true).open(target);
        return open.and_then(into).map_err(failed);
    }
    let temporary = temporary(target);
    // A link to the whole file, as a rename would replace what came in between.
    let done = fs::File::create(&temporary)
        .and_then(into)
        .and_then(|()| fs::hard_link(&temporary, target));
    let done = match done {
        Err(error) if no_links(&error) => {
            refuse_existing(target, option)?;
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
