//! Turns the spill of a recording into the tables of a bundle.

use idlewave_clock::{Calibration, Counter, Pair};
use idlewave_run::spill::SpillReader;
use idlewave_run::tables::{Detours, Quanta, Regions, Table};
use idlewave_run::{RunError, RunWriter};
use idlewave_workloads::Rows;
use std::path::Path;

/// Builds the tables from the spill and adds them to the manifest (not yet saved); `see` is called
/// with the rows of every block. This can be repeated until the spill is removed.
///
/// # Errors
/// The spill cannot be read, or a table cannot be written (full disk).
pub fn gather(
    out: &mut RunWriter,
    calibration: &Calibration,
    mut see: impl FnMut(&Rows),
) -> Result<(), RunError> {
    let mut detours = out.table::<Detours>()?;
    let mut quanta = out.table::<Quanta>()?;
    let mut regions = out.table::<Regions>()?;
    let mut words = Vec::new();
    let mut rows = Rows::default();
    let mut misfits = 0;
    if let Some(mut spill) = SpillReader::open(out.path())? {
        while let Some(block) = spill.next(Some(&mut words))? {
            rows.clear();
            misfits += rows.add(&block, &words, &out.manifest, calibration);
            see(&rows);
            for row in rows.detours.rows() {
                detours.push(row)?;
            }
            for row in rows.quanta.rows() {
                quanta.push(row)?;
            }
            for row in rows.regions.rows() {
                regions.push(row)?;
            }
        }
    }
    out.finish_table(detours)?;
    out.finish_table(quanta)?;
    out.finish_table(regions)?;
    out.manifest.losses.enter(
        "records that belong to no phase of the run",
        misfits,
        "they are left out",
        "the bundle is damaged: record again",
    );
    Ok(())
}

/// The same for a killed writer, whose calibration comes from the spill.
///
/// # Errors
/// As for [`gather`].
pub fn gather_killed(out: &mut RunWriter, see: impl FnMut(&Rows)) -> Result<(), RunError> {
    let calibration = killed_calibration(out.path())?;
    gather(out, &calibration, see)
}

/// The calibration of a killed writer, from the spill of its bundle.
///
/// # Errors
/// The spill cannot be read.
pub fn killed_calibration(bundle: &Path) -> Result<Calibration, RunError> {
    let mut pairs = Vec::new();
    let mut last = 0;
    if let Some(mut spill) = SpillReader::open(bundle)? {
        while let Some(block) = spill.next(None)? {
            if block.ns > last {
                last = block.ns;
                pairs.push(Pair {
                    counts: block.counts,
                    ns: block.ns,
                    bracket: 0,
                });
            }
        }
    }
    // Only for conversion; its counter, perhaps another machine's, is never read.
    Ok(Calibration::from_pairs(Counter::Monotonic, pairs))
}
