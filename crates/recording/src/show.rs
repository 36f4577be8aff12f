//! What users see: the summary on the terminal and the page.

use crate::analyse::{Analysis, analyse};
use crate::{Progress, RecordingError};
use idlewave_report::{render_html, render_text};
use idlewave_run::RunReader;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The summary for the terminal, no line wider than `width` columns, or the findings as JSON.
///
/// # Errors
/// The findings cannot be written as JSON.
pub fn summary(
    analysis: &Analysis,
    json: bool,
    width: usize,
    color: bool,
) -> Result<String, RecordingError> {
    if !json {
        return Ok(render_text(
            analysis.run.manifest(),
            &analysis.findings,
            width,
            color,
        ));
    }
    let mut text =
        serde_json::to_string_pretty(&analysis.findings).map_err(|e| RecordingError::Io {
            action: "encode",
            path: "findings".into(),
            source: e.into(),
        })?;
    text.push('\n');
    Ok(text)
}

/// Writes the page of a bundle to `output`, or to `report.html` in the bundle; explains it first if that has
/// not been done. Returns where the page is.
///
/// # Errors
/// As [`analyse`], or the page cannot be written.
pub fn render(
    path: &Path,
    output: Option<&Path>,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<PathBuf, RecordingError> {
    let run = RunReader::open(path)?;
    let analysis = match run.findings()? {
        Some(findings) => Analysis { run, findings },
        None => analyse(path, stop, progress)?,
    };
    progress.part("writing the report");
    let target = output.map_or_else(|| path.join("report.html"), Path::to_owned);
    write_report(&analysis, &target)?;
    Ok(target)
}

/// Writes the page beside its target and renames it: readers see the old page or the new one.
pub fn write_report(analysis: &Analysis, target: &Path) -> Result<(), RecordingError> {
    let page = render_html(&analysis.run, &analysis.findings)?;
    replace(target, page.as_bytes()).map_err(RecordingError::io("write", target))
}

/// Writes a file, whole or not at all. What is no regular file, such as a pipe or a device, is written into.
fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let there = fs::metadata(target).ok();
    if there.as_ref().is_some_and(|m| !m.is_file()) {
        return fs::write(target, bytes);
    }
    // A link stays, and what it leads to is replaced.
    let target = match there {
        Some(_) => fs::canonicalize(target)?,
        None => target.to_owned(),
    };
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = target.with_file_name(name);
    let done = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, &target));
    if done.is_err() {
        // The error itself matters more than what is left of the temporary file.
        let _ = fs::remove_file(&temporary);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};

    #[test]
    fn a_device_is_written_into_and_stays() {
        replace(Path::new("/dev/null"), b"page").unwrap();
        let error = replace(Path::new("/dev/full"), b"page").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        for device in ["/dev/null", "/dev/full"] {
            let kind = fs::symlink_metadata(device).unwrap().file_type();
            assert!(kind.is_char_device(), "{device}");
        }
    }

    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("page"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let names = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(names, 2, "nothing is left beside");
    }
}
