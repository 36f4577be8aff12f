//! What users see: the summary on the terminal and the page.

use crate::analyse::{Analysis, explained};
use crate::beside::Beside;
use crate::{Effort, PipelineError};
use idlewave_report::{PutFile, ReportError, render_calls, render_page, render_text};
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
    render_calls(analysis.run.manifest(), &analysis.findings)
}

/// Writes the page of a bundle to `output`, or to `report.html` in the bundle; explains the bundle
/// first if that has not been done. The events of a large run go into a folder beside the page.
/// Returns where the page is.
///
/// # Errors
/// As for [`analyse`], or the page cannot be written.
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
    // Replace the target of a link, not the link itself; the folder is beside the target.
    let place = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    write_page(&analysis, &place, replace)?;
    Ok(target.to_owned())
}

/// Writes the page into the bundle and returns where it is. Readers see either the old page or the
/// new one. The events of a large run go into the folder `report_files` beside it.
///
/// # Errors
/// It cannot be written.
pub fn write_report(analysis: &Analysis, bundle: &Path) -> Result<PathBuf, PipelineError> {
    let target = bundle.join("report.html");
    write_page(analysis, &target, files::replace)?;
    Ok(target)
}

/// Writes a page with the folder of its files. A pipe or a device has no place beside it.
fn write_page(
    analysis: &Analysis,
    target: &Path,
    replace: impl FnOnce(&Path, &[u8]) -> io::Result<()>,
) -> Result<(), PipelineError> {
    let mut beside = (!is_special(target)).then(|| Beside::of(target));
    let mut put = beside
        .as_mut()
        .map(|beside| |name: &str, bytes: &[u8]| beside.put(name, bytes));
    let written = render_page(
        &analysis.run,
        &analysis.findings,
        analysis.unwritten.as_ref(),
        put.as_mut().map(|put| put as PutFile<'_>),
    )
    .map_err(|error| match error {
        // The files are part of the page.
        ReportError::File { source, .. } => SessionError::io("write", target)(source).into(),
        other => PipelineError::from(other),
    })
    .and_then(|page| {
        let written = replace(target, page.as_bytes());
        Ok(written.map_err(SessionError::io("write", target))?)
    });
    match (beside, &written) {
        (Some(beside), Ok(())) => beside.keep(),
        (Some(beside), Err(_)) => beside.discard(),
        (None, _) => {}
    }
    written
}

/// Whether there is something at this path that is not a file, such as a pipe or a device.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file())
}

/// Writes a file that the user named, completely or not at all. Anything that is not a file is
/// written to directly.
fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    match is_special(target) {
        true => OpenOptions::new()
            .write(true)
            .open(target)?
            .write_all(bytes),
        false => files::replace(target, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_report::testing::Synthetic;
    use idlewave_session::Quiet;
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
    fn a_link_stays_and_what_it_leads_to_is_replaced_with_its_folder_beside() {
        let dir = tempfile::tempdir().unwrap();
        let (run, there) = (dir.path().join("run"), dir.path().join("there"));
        Synthetic::default().write(&run).unwrap();
        fs::create_dir(&there).unwrap();
        let (file, link) = (there.join("page.html"), dir.path().join("link.html"));
        fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        let to = |target| {
            let stop = AtomicBool::new(false);
            render(&run, Some(target), Effort::USUAL, &stop, &Quiet).unwrap()
        };
        assert_eq!(to(&link), link);
        assert!(fs::read_to_string(&file).unwrap().contains("<!doctype"));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let names = |dir: &Path| fs::read_dir(dir).unwrap().count();
        assert!(names(&there.join("page_files")) > 0);
        assert_eq!(names(&there), 2, "nothing else is left beside");
        assert_eq!(names(dir.path()), 3, "nor beside the link");
        // A device has no folder.
        to(Path::new("/dev/null"));
        assert!(!Path::new("/dev/null_files").exists());
    }
}
