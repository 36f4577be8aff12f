//! Why a recording ended early, for its manifest.

use crate::SessionError;
use idlewave_run::spill::SpillReader;
use idlewave_run::tables::{Detours, Quanta, Regions, Table};
use idlewave_run::{Incomplete, RunReader};
use idlewave_units::Nanos;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// In milliseconds; more digits are of no use.
fn after(elapsed: Duration) -> Nanos {
    Nanos::from_nanos(elapsed.as_millis() as u64 * 1_000_000)
}

/// Recording stopped this long after it had started.
pub fn ended_after(elapsed: Duration, error: &SessionError) -> Incomplete {
    let elapsed = after(elapsed);
    Incomplete::Error(format!("recording stopped after {elapsed}: {error}"))
}

/// Recording of the kernel's view stopped after this time.
pub fn view_ended_after(elapsed: Duration, error: &SessionError) -> Incomplete {
    let elapsed = after(elapsed);
    Incomplete::Error(format!("the kernel's view ends after {elapsed}: {error}"))
}

/// The recording finished, but its tables could not be written.
pub fn without_tables(error: &SessionError) -> Incomplete {
    Incomplete::Error(format!(
        "its tables could not be written when the recording had ended: {error}"
    ))
}

/// Cleans up a failed recording: if nothing was measured, the bundle is removed, so that the next
/// attempt can use its path. The caller created the bundle and holds its lock.
pub fn failed(bundle: &Path, error: SessionError) -> SessionError {
    if holds_measurements(bundle) || fs::remove_dir_all(bundle).is_err() {
        return error;
    }
    SessionError::NothingKept(Box::new(error))
}

/// Whether a bundle holds measurements: tables, spill, or pages of the kernel's view.
fn holds_measurements(bundle: &Path) -> bool {
    let measured = [Detours::NAME, Quanta::NAME, Regions::NAME];
    let in_tables = RunReader::open(bundle).is_ok_and(|run| {
        let mut tables = run.manifest().tables.iter();
        tables.any(|t| t.rows > 0 && measured.contains(&t.name.as_str()))
    });
    // A spill that cannot be read does not count as empty.
    let in_spill = SpillReader::open(bundle)
        .map(|spill| spill.map_or(Ok(false), |mut spill| Ok(spill.next(None)?.is_some())))
        .and_then(|found| found);
    let pages = fs::read_dir(bundle.join("raw"))
        .into_iter()
        .flatten()
        .flatten();
    let mut pages = pages.filter(|entry| entry.path().extension().is_some_and(|e| e == "pages"));
    let in_pages = pages.any(|entry| entry.metadata().is_ok_and(|file| file.len() > 0));
    in_tables || in_pages || in_spill.unwrap_or(true)
}
