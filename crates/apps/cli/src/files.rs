//! Opening runs and reading and writing files.

use crate::exit::{Exit, Failure};
use crate::progress::Bars;
use idlewave_run::RunReader;
use idlewave_session::{Lock, SessionError, Stop, is_whole, open_run};
use idlewave_sys::{file_limit, files};
use idlewave_units::Bytes;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// Opens a run, first completing whatever its recording left unfinished.
pub fn open_complete(path: &Path, stop: &Stop) -> Result<RunReader, Failure> {
    let bars = Bars::new(true);
    let open = || {
        idlewave_record::join_left(path, &stop.flag, &bars)?;
        // Check before taking the lock: a path that is no bundle gets its own error, and a complete
        // run may have many readers.
        let run = RunReader::open(path).map_err(SessionError::from)?;
        if is_whole(&run) {
            return Ok(run);
        }
        let _lock = Lock::take(path)?;
        Ok(open_run(path, &stop.flag, &bars)?)
    };
    let opened = open();
    bars.finish();
    opened
}

/// Reads a text file, or standard input if the path is `-`, of at most `most` bytes. It reads in
/// pieces, so that an endless or binary input is refused early and a signal stops the reading.
/// `stop` is `None` where signals end the process at once; `next` is the next step to print on
/// failure.
pub fn read_bytes(
    path: &Path,
    most: usize,
    next: &str,
    stop: Option<&Stop>,
) -> Result<Vec<u8>, Failure> {
    let failed = |exit, why: String| {
        Failure::new(exit, format!("read {}: {why}", name(path))).with_next(next)
    };
    let io = |error: io::Error| failed(Exit::Io, error.to_string());
    let mut input: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(fs::File::open(path).map_err(io)?),
    };
    let mut bytes = Vec::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        if stop.is_some_and(Stop::is_requested) {
            let kept = "nothing was written".to_owned();
            return Err(SessionError::Interrupted { kept }.into());
        }
        let read = match input.read(&mut piece).map_err(io)? {
            0 => return Ok(bytes),
            count => piece.get(..count).unwrap_or_default(),
        };
        if read.contains(&0) {
            return Err(failed(Exit::Bundle, "it is not text".to_owned()));
        }
        if bytes.len() + read.len() > most {
            let most = Bytes::new(most as u64).exact_text();
            return Err(failed(Exit::Bundle, format!("it is longer than {most}")));
        }
        bytes.extend_from_slice(read);
    }
}

/// The text of a file, as [`read_bytes`] reads it.
pub fn read_text(
    path: &Path,
    most: usize,
    next: &str,
    stop: Option<&Stop>,
) -> Result<String, Failure> {
    String::from_utf8(read_bytes(path, most, next, stop)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let what = format!("read {}: byte {at} is not valid UTF-8", name(path));
        Failure::new(Exit::Bundle, what).with_next(next)
    })
}

/// How messages name a path that may be `-`.
pub fn name(path: &Path) -> String {
    match path.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// Refuses to overwrite an existing file or directory; a pipe or a device is accepted. `option` is
/// the option that named it.
pub fn refuse_existing(target: &Path, option: &str) -> Result<(), Failure> {
    match fs::metadata(target) {
        Ok(there) if there.is_file() || there.is_dir() => Err(exists(target, option)),
        _ => Ok(()),
    }
}

/// Refuses an existing or unwritable target before the work starts rather than after it.
pub fn refuse_place(target: &Path, option: &str) -> Result<(), Failure> {
    // Where `-` means standard output, the caller has handled it.
    if target.as_os_str() == "-" {
        let what = format!("write {option} to standard output");
        let next = format!("give a new file name with {option}");
        return Err(Failure::new(Exit::Usage, what).with_next(next));
    }
    refuse_existing(target, option)?;
    if fs::metadata(target).is_ok() {
        return Ok(());
    }
    // Create the file to see whether that works, and remove it.
    let made = files::Replacement::begin(target).map(drop);
    made.map_err(|error| not_written(target, option, &error))
}

fn exists(target: &Path, option: &str) -> Failure {
    let what = format!("write {}: it already exists", target.display());
    Failure::new(Exit::Io, what)
        .with_next(format!("choose another name with {option}, or remove it"))
}

fn not_written(target: &Path, option: &str, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return exists(target, option);
    }
    let next = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("create its parent directory, or choose another place with {option}")
        }
        _ if file_limit::is_met(error) => {
            "raise the limit on the size of files, as with ulimit -f unlimited".to_owned()
        }
        _ if files::is_full(error) => {
            format!("free some space, or choose another place with {option}")
        }
        _ => format!("choose a place that you may write with {option}"),
    };
    let what = format!("write {}: {error}", target.display());
    Failure::new(Exit::Io, what).with_next(next)
}

/// Writes a new file, either completely or not at all. It never overwrites an existing one. A
/// target that is not a regular file, such as a pipe or a device, is written to directly.
pub fn write_new(
    target: &Path,
    option: &str,
    write: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let failed = |error: io::Error| not_written(target, option, &error);
    let into = |file: &mut fs::File| -> io::Result<()> {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    };
    if fs::metadata(target).is_ok_and(|there| !there.is_file()) {
        let open = fs::OpenOptions::new().write(true).open(target);
        return open.and_then(|mut file| into(&mut file)).map_err(failed);
    }
    let mut new = files::Replacement::begin(target).map_err(failed)?;
    into(new.file()).map_err(failed)?;
    // Link the complete file instead of renaming it: a rename would overwrite a file created
    // meanwhile.
    match fs::hard_link(new.path(), target) {
        Err(error) if no_links(&error) => {
            refuse_existing(target, option)?;
            new.commit()
        }
        other => other,
    }
    .map_err(failed)
}

/// Whether the file system does not support hard links.
fn no_links(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_or_is_too_long_or_no_text_is_refused_with_the_next_step() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let refused = |path: &Path, most| {
            let failure = read_text(path, most, "give another", None).unwrap_err();
            assert_eq!(failure.next.as_deref(), Some("give another"));
            assert_eq!(failure.exit, Exit::Bundle);
            failure.what
        };
        let zero = refused(Path::new("/dev/zero"), usize::MAX);
        assert_eq!(zero, "read /dev/zero: it is not text");
        fs::write(&file, vec![b'a'; 200 << 10]).unwrap();
        assert!(refused(&file, (200 << 10) - 1).ends_with("longer than 204799 B"));
        let text = read_text(&file, 200 << 10, "", None).unwrap();
        assert_eq!(text.len(), 200 << 10);
        fs::write(&file, b"ab\xff").unwrap();
        assert!(refused(&file, 10).ends_with("byte 2 is not valid UTF-8"));
        let none = read_bytes(&dir.path().join("none"), 1, "", None).unwrap_err();
        assert_eq!(none.exit, Exit::Io);
    }

    #[test]
    fn reading_ends_where_it_is_asked_to() {
        let stop = Stop::default();
        stop.flag.store(true, std::sync::atomic::Ordering::Relaxed);
        let failure = read_bytes(Path::new("/dev/zero"), 1, "", Some(&stop)).unwrap_err();
        assert!(failure.what.contains("nothing was written"), "{failure:?}");
    }
}
