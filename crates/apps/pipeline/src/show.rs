//! What users see: the summary on the terminal and the page.

use crate::analyse::{Analysis, explained};
use crate::beside::Beside;
use crate::{Effort, PipelineError};
use idlewave_report::{ReportError, render_calls, render_page, render_text};
use idlewave_session::{Progress, SessionError};
use idlewave_sys::files;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The summary for the terminal, no line wider than `width` columns.
pub fn summary(analysis: &Analysis, width: usize, color: bool) -> String {
    render_text(analysis.run.manifest(), &analysis.findings, width, color)
}

/// Every MPI function that was called, with exact numbers, as a table.
pub fn calls(analysis: &Analysis) -> String {
    render_calls(&analysis.findings)
}

/// Writes the page of a bundle to `output`, or to `report.html` in the bundle; explains it first if that has
/// not been done. The events of a large run go into a folder beside the page. Returns where the page is.
///
/// # Errors
/// As [`analyse`], or the page cannot be written.
pub fn render(
    path: &Path,
    output: Option<&Path>,
    effort: Effort,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<PathBuf, PipelineError> {
    let analysis = explained(path, effort, stop, progress)?;
    progress.part("writing the report");
    let Some(target) = output else {
        return write_report(&analysis, path);
    };
    let is_file = fs::metadata(target).map_or(true, |there| there.is_file());
    match is_file {
        true => write_page(&analysis, target, replace)?,
        // A pipe or a device has no place beside it.
        false => {
            let page = render_page(
                &analysis.run,
                &analysis.findings,
                analysis.unwritten.as_ref(),
                None,
            )?;
            replace(target, page.as_bytes()).map_err(SessionError::io("write", target))?;
        }
    }
    Ok(target.to_owned())
}

/// Writes the page into the bundle and returns where it is: readers see the old page or the new one. The events of a large
/// run go into the folder `report_files` beside it.
///
/// # Errors
/// It cannot be written.
pub fn write_report(analysis: &Analysis, bundle: &Path) -> Result<PathBuf, PipelineError> {
    let target = bundle.join("report.html");
    write_page(analysis, &target, files::replace)?;
    Ok(target)
}

/// Writes a page with the folder of its files.
fn write_page(
    analysis: &Analysis,
    target: &Path,
    replace: impl FnOnce(&Path, &[u8]) -> io::Result<()>,
) -> Result<(), PipelineError> {
    let mut beside = Beside::of(target);
    let mut put = |name: &str, bytes: &[u8]| beside.put(name, bytes);
    let written = render_page(
        &analysis.run,
        &analysis.findings,
        analysis.unwritten.as_ref(),
        Some(&mut put),
    )
    .map_err(|error| match error {
        // Its files are a part of the page.
        ReportError::File { source, .. } => SessionError::io("write", target)(source).into(),
        other => PipelineError::from(other),
    })
    .and_then(|page| {
        let written = replace(target, page.as_bytes());
        Ok(written.map_err(SessionError::io("write", target))?)
    });
    match written {
        Ok(()) => beside.keep(),
        Err(_) => beside.discard(),
    }
    written
}

/// Writes a file that the user named, whole or not at all. What is no regular file, such as a pipe or a device, is written into.
fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let there = fs::metadata(target).ok();
    if there.as_ref().is_some_and(|m| !m.is_file()) {
        return OpenOptions::new()
            .write(true)
            .open(target)?
            .write_all(bytes);
    }
    // A link stays, and what it leads to is replaced.
    match there {
        Some(_) => files::replace(&fs::canonicalize(target)?, bytes),
        None => files::replace(target, bytes),
    }
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
