//! Prepares a bundle for analysis: recovers what a killed writer left, and turns raw captures into
//! tables.

use crate::gather::{gather_killed, killed_calibration};
use crate::program::{add_lines, complete_ranks, gather_program, salvage_rings};
use crate::{Progress, SessionError};
use idlewave_ftrace::{capture_path, decode_capture};
use idlewave_run::tables::{Bursts, Table};
use idlewave_run::{Incomplete, Phase, PhaseKind, RunReader, RunState, RunWriter, spill};
use idlewave_sys::files;
use idlewave_units::NodeId;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a bundle can be read as it is: its writer finished it, and what the kernel recorded is
/// decoded.
pub fn is_whole(run: &RunReader) -> bool {
    let decoded = run.manifest().tables.iter().any(|t| t.name == Bursts::NAME);
    let has_raw = capture_path(&run.path().join("raw")).is_file();
    run.manifest().state != RunState::Recording && (decoded || !has_raw)
}

/// Opens a bundle for analysis. The caller holds its lock, so state `recording` means that its
/// writer is dead.
pub fn open(
    path: &Path,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<RunReader, SessionError> {
    let run = RunReader::open(path)?;
    if is_whole(&run) {
        return Ok(run);
    }
    let raw = path.join("raw");
    let has_raw = capture_path(&raw).is_file();
    let killed = run.manifest().state == RunState::Recording;
    let mut out = run.into_writer();
    if killed {
        progress.part("gathering what a killed recording left");
        files::remove_left(path);
        make_whole(&mut out, has_raw)?;
    }
    if has_raw {
        progress.part("decoding the kernel's view");
        let summary = decode_capture(&raw, NodeId::new(0), &mut out, stop, &|share| {
            progress.at(share)
        });
        let summary = match summary {
            Ok(summary) => summary,
            Err(error) => {
                // Drop the table's entry, so that the next analysis decodes again.
                out.manifest.tables.retain(|t| t.name != Bursts::NAME);
                return Err(error.into());
            }
        };
        if summary.stopped || stop.load(Ordering::Relaxed) {
            return Err(SessionError::Interrupted {
                kept: format!("to go on: idlewave explain {}", path.display()),
            });
        }
        add_lines(&mut out, summary.lines.as_deref())?;
        out.manifest.losses.append(summary.losses);
        out.save()?;
    }
    Ok(RunReader::open(path)?)
}

/// Ends the tables and the last phase of a writer that was killed or ran out of disk space, and
/// marks the run.
fn make_whole(out: &mut RunWriter, has_raw: bool) -> Result<(), SessionError> {
    let recorded = |phase: &Phase| matches!(phase.kind, PhaseKind::Recorded { .. });
    if out.manifest.phases.iter().any(recorded) {
        return make_program_whole(out, has_raw);
    }
    // The latest known time of each phase.
    let mut ends = vec![0_u64; out.manifest.phases.len()];
    let mut see = |phase: u32, end_ns: u64| {
        if let Some(end) = ends.get_mut(phase as usize) {
            *end = (*end).max(end_ns);
        }
    };
    gather_killed(out, |rows| {
        for row in rows.detours.rows() {
            see(row.phase, row.begin_ns.saturating_add(row.length.get()));
        }
        for row in rows.quanta.rows() {
            see(row.phase, row.begin_ns.saturating_add(row.duration.get()));
        }
        for row in rows.regions.rows() {
            see(row.phase, row.end_ns);
        }
    })?;
    if !has_raw {
        out.salvage::<Bursts>(|_| ())?;
    }
    for (phase, end) in out.manifest.phases.iter_mut().zip(ends) {
        if end > phase.begin_ns {
            phase.end_ns = phase.end_ns.min(end);
        }
    }
    let why = out.manifest.incomplete.clone();
    out.close(why.or(Some(Incomplete::Killed)))?;
    Ok(spill::remove(out.path())?)
}

/// The same for a recorded program. What its rings still hold is added first, if they exist.
fn make_program_whole(out: &mut RunWriter, has_raw: bool) -> Result<(), SessionError> {
    let why = out
        .manifest
        .incomplete
        .clone()
        .unwrap_or(Incomplete::Killed);
    // Set first: the ledger entries take it into account.
    out.manifest.incomplete = Some(why.clone());
    let rings = salvage_rings(out)?;
    let calibration = killed_calibration(out.path())?;
    let gathered = gather_program(out, &calibration)?;
    if !has_raw {
        out.salvage::<Bursts>(|_| ())?;
    }
    if let Some(size) = gathered.size {
        complete_ranks(&mut out.manifest, size);
    }
    for phase in &mut out.manifest.phases {
        if let PhaseKind::Recorded { library, .. } = &mut phase.kind {
            library.clone_from(&gathered.library);
            phase.begin_ns = gathered.first_init_ns.unwrap_or(phase.begin_ns);
            phase.end_ns = gathered.last_ns.max(phase.begin_ns);
        }
    }
    out.close(Some(why))?;
    drop(rings);
    Ok(spill::remove(out.path())?)
}
