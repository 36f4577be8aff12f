//! Turns the spill of a recorded program into the tables of its bundle.

use super::clocks;
use super::rows::{Rows, Thread};
use super::sheets::{self, Job};
use super::state::ProgramRing;
use crate::SessionError;
use idlewave_clock::Calibration;
use idlewave_run::spill::{RecordKind, SpillReader};
use idlewave_run::{RunError, RunWriter};
use std::collections::BTreeMap;

/// What the rings tell about a recorded program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Ranks of this node.
    pub ranks: u32,
    /// Ranks of this node that called MPI_Finalize.
    pub finalised: u32,
    /// Size of MPI_COMM_WORLD.
    pub size: Option<u32>,
    /// The MPI library, as it names itself.
    pub library: Option<String>,
    /// When the first MPI_Init returned, CLOCK_MONOTONIC nanoseconds.
    pub first_init_ns: Option<u64>,
    /// The latest time of any record; 0 without records.
    pub last_ns: u64,
    /// Rows of the table `calls`.
    pub calls: u64,
    /// Records dropped because a ring was full.
    pub lost: u64,
}

/// A ring in the spill.
#[derive(Clone, Debug)]
pub(crate) struct Spilled {
    pub ring: ProgramRing,
    pub records: u64,
}

/// The rings of a spill by number, in their last known state.
pub(crate) fn rings(bundle: &std::path::Path) -> Result<BTreeMap<u32, Spilled>, RunError> {
    let mut rings: BTreeMap<u32, Spilled> = BTreeMap::new();
    let Some(mut spill) = SpillReader::open(bundle)? else {
        return Ok(rings);
    };
    let mut words = Vec::new();
    while let Some((block, records)) =
        spill.next_where(&mut words, |b| b.kind == RecordKind::RingState)?
    {
        let number = block.rank.get();
        if block.kind == RecordKind::RingRecord {
            if let Some(spilled) = rings.get_mut(&number) {
                spilled.records += records;
            }
            continue;
        }
        for words in words.chunks_exact(RecordKind::RingState.words()) {
            if let Some(ring) = ProgramRing::from_words(words) {
                let records = rings.get(&number).map_or(0, |r| r.records);
                rings.insert(number, Spilled { ring, records });
            }
        }
    }
    Ok(rings)
}

/// Builds the tables of a program's rings, its ranks and its losses, and adds them to the manifest
/// (not yet saved). This can be repeated until the spill is removed. Memory grows with what is open
/// at one time, not with the length of the run.
///
/// # Errors
/// The spill cannot be read, or a table cannot be written (full disk).
pub fn gather_program(
    out: &mut RunWriter,
    calibration: &Calibration,
) -> Result<Gathered, SessionError> {
    let mut rings = rings(out.path())?;
    for spilled in rings.values_mut() {
        spilled.ring = spilled.ring.clone().with_viewed_numbers();
    }
    let job = Job::of(rings.values().map(|r| &r.ring));
    let mut rows = Rows::new(out, calibration)?;
    let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
    let mut words = Vec::new();
    if let Some(mut spill) = SpillReader::open(out.path())? {
        let wanted = |number| rings.get(&number).filter(|r| !job.is_other(r.ring.process));
        while let Some((block, _)) =
            spill.next_where(&mut words, |b| b.kind == RecordKind::RingRecord)?
        {
            let number = block.rank.get();
            let Some(Spilled { ring, .. }) = wanted(number) else {
                continue;
            };
            let thread = threads.entry(number).or_default();
            rows.add(ring, job.rank(ring.process), thread, &words)?;
        }
    }
    let with_rings = threads.iter_mut().filter_map(|(number, thread)| {
        let ring = &rings.get(number)?.ring;
        Some((ring, job.rank(ring.process), thread))
    });
    let seen = rows.finish(with_rings, out)?;
    clocks::write(out.path(), &seen.exchanges)?;
    let rings: Vec<&ProgramRing> = rings.values().map(|r| &r.ring).collect();
    let early = out.manifest.incomplete.is_some();
    sheets::enter_losses(&mut out.manifest.losses, &rings, &job, &seen, early);
    out.manifest.ranks = job.sheets(&rings);
    Ok(Gathered {
        ranks: job.ranks(),
        finalised: job.finalised(&rings),
        size: job.size(),
        library: rings.iter().find_map(|r| r.library.clone()),
        first_init_ns: seen.first_init_ns,
        last_ns: seen.last_ns,
        calls: seen.calls,
        lost: rings.iter().map(|r| r.lost).sum(),
    })
}
