//! What users see: the summary on the terminal and the page.

use crate::analyse::{Analysis, analyse};
use crate::{Progress, RecordingError};
use idlewave_report::{render_html, render_text};
use idlewave_run::RunReader;
use std::fs;
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
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = target.with_file_name(name);
    if let Err(error) = fs::write(&temporary, page) {
        // The error itself matters more than what is left of the temporary file.
        let _ = fs::remove_file(&temporary);
        return Err(RecordingError::io("write", target)(error));
    }
    fs::rename(&temporary, target).map_err(RecordingError::io("write", target))
}
