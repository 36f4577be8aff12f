//! From the spill of a recorded program to the tables of its bundle.

use super::clocks;
use super::rows::{Rows, Thread};
use super::sheets::{self, Job};
use super::state::ProgramRing;
use crate::RecordingError;
use idlewave_clock::Calibration;
use idlewave_run::spill::{RecordKind, SpillReader};
use idlewave_run::{RunError, RunWriter};
use std::collections::BTreeMap;

/// What a recorded program was, as its rings told.
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
    /// The last moment of any record; 0 if there was none.
    pub last_ns: u64,
    /// Rows of the table `calls`.
    pub calls: u64,
    /// Records for which a ring had no room.
    pub lost: u64,
}

/// A ring in the spill.
#[derive(Clone, Debug)]
pub(crate) struct Spilled {
    pub ring: ProgramRing,
    pub records: u64,
}

/// The rings of a spill by their numbers, as they were last seen.
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

/// Makes the tables of a program's rings, its ranks, and what is missing, and enters them in the manifest (not yet
/// saved). Can be repeated until the spill is removed. Needs memory for what is open at one time, not for the run.
///
/// # Errors
/// The spill cannot be read, or a table not be written: the disk is full.
pub fn gather_program(
    out: &mut RunWriter,
    calibration: &Calibration,
) -> Result<Gathered, RecordingError> {
    let rings = rings(out.path())?;
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
    sheets::enter_losses(&mut out.manifest.losses, &rings, &job, &seen);
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
