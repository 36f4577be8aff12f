//! Labels, and small files of text.

use crate::export::out::Output;
use crate::export::{Export, ExportError};
use std::path::Path;

/// A name for a label: one line, never blank.
pub(super) fn label(name: &str) -> String {
    let line = idlewave_units::foreign::one_line(name);
    match line.trim() {
        "" => "?".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

/// Writes a small file in one go.
pub(super) fn small(path: &Path, text: &str, export: &mut Export) -> Result<(), ExportError> {
    let mut out = Output::begin(path)?;
    out.text.extend_from_slice(text.as_bytes());
    export.files.push(out.finish(None)?);
    Ok(())
}
