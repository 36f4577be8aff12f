//! From rings to the spill, while the program runs.

use super::state::ProgramRing;
use crate::RecordingError;
use idlewave_clock::{Calibration, Pair};
use idlewave_interpose::{InterposeError, RingReader};
use idlewave_run::spill::{Block, RecordKind, SpillWriter};
use idlewave_units::{Cpu, Pid, Rank};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Two readings of the clocks are taken at least this far apart: a day of them stays below 3 MiB.
const CALIBRATE_EVERY: Duration = Duration::from_secs(1);
/// Records copied at a time: 256 KiB.
const PIECE: u64 = 1 << 12;

/// Takes what the rings of a directory hold.
pub struct Drain {
    directory: PathBuf,
    before: BTreeMap<(Pid, u32), (u32, u64)>,
    rings: BTreeMap<OsString, Ring>,
    /// Files that are no rings, so that they are looked at once only.
    refused: Vec<OsString>,
    calibrated: Option<Instant>,
    pair: Option<Pair>,
    words: Vec<u64>,
    /// All that has been seen.
    pub seen: Drained,
}

/// What the rings have given so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Rings.
    pub rings: u32,
    /// Threads that have a rank.
    pub ranks: u32,
    /// Records taken.
    pub records: u64,
    /// Records for which a ring had no room.
    pub lost: u64,
    /// Bytes written to the spill.
    pub bytes: u64,
    /// Files in the directory that could not be read as rings.
    pub refused: u32,
}

/// A thread that has begun to call MPI, now that its rank is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewThread {
    /// Its rank.
    pub rank: Rank,
    /// Its process.
    pub process: Pid,
    /// The thread.
    pub thread: Pid,
    /// Its name.
    pub name: String,
}

struct Ring {
    reader: RingReader,
    number: u32,
    generation: u32,
    /// What the spill knows of it.
    known: Option<ProgramRing>,
}

impl Drain {
    /// Of the rings in `directory`.
    pub fn new(directory: &Path) -> Self {
        Self::resume(directory, BTreeMap::new())
    }

    /// The same after a predecessor that was killed. `before` tells what it has taken of each ring, by thread and
    /// generation: the number of the ring in the spill, and the records there.
    pub(crate) fn resume(directory: &Path, before: BTreeMap<(Pid, u32), (u32, u64)>) -> Self {
        Self {
            directory: directory.to_owned(),
            before,
            rings: BTreeMap::new(),
            refused: Vec::new(),
            calibrated: None,
            pair: None,
            words: Vec::new(),
            seen: Drained::default(),
        }
    }

    /// Takes what there is. Threads whose rank has become known are told to `told`.
    ///
    /// # Errors
    /// The spill cannot be written; the records stay in the rings.
    pub fn round(
        &mut self,
        calibration: &mut Calibration,
        spill: &mut SpillWriter,
        told: &mut Vec<NewThread>,
    ) -> Result<Drained, RecordingError> {
        self.look();
        let now = Instant::now();
        let due = self
            .calibrated
            .is_none_or(|then| now.duration_since(then) >= CALIBRATE_EVERY);
        if due {
            self.calibrated = Some(now);
            self.pair = Some(calibration.update());
        }
        let pair = self.pair.unwrap_or(Pair {
            counts: 0,
            ns: 0,
            bracket: 0,
        });
        self.take(pair, spill, told)
    }

    /// The last round: with a fresh reading of the clocks, so that no record lies behind the last one.
    ///
    /// # Errors
    /// As [`round`](Self::round).
    pub fn last_round(
        &mut self,
        calibration: &mut Calibration,
        spill: &mut SpillWriter,
        told: &mut Vec<NewThread>,
    ) -> Result<Drained, RecordingError> {
        self.calibrated = None;
        self.round(calibration, spill, told)
    }

    fn take(
        &mut self,
        pair: Pair,
        spill: &mut SpillWriter,
        told: &mut Vec<NewThread>,
    ) -> Result<Drained, RecordingError> {
        let seen = &mut self.seen;
        (seen.lost, seen.ranks) = (0, 0);
        for ring in self.rings.values_mut() {
            let block = |kind| Block {
                kind,
                phase: 0,
                cpu: Cpu::new(0),
                rank: Rank::new(ring.number),
                counts: pair.counts,
                ns: pair.ns,
            };
            let mut written = |kind, words: &[u64]| {
                spill.write(&block(kind), words)?;
                seen.bytes += 64 + 8 * words.len() as u64;
                Ok::<(), RecordingError>(())
            };
            let state = ring.reader.state();
            let is_new = ring.known.is_none();
            let was_ranked = ring.known.as_ref().is_some_and(|k| k.rank.is_some());
            if ring
                .known
                .as_ref()
                .is_none_or(|known| known.differs(&state))
            {
                let pid = state.tid;
                let ring_now =
                    ProgramRing::new(&state, ring.generation, bound_to(pid), &name_of(pid));
                let ring_now = ring_now.or_as(ring.known.as_ref());
                written(RecordKind::RingState, &ring_now.to_words())?;
                if let (Some(rank), false) = (ring_now.rank, was_ranked) {
                    told.push(NewThread {
                        rank,
                        process: ring_now.process,
                        thread: ring_now.thread,
                        name: ring_now.name.clone(),
                    });
                }
                ring.known = Some(ring_now);
            }
            // What comes in meanwhile is for the next round.
            let mut left = ring.reader.waiting().min(ring.reader.capacity());
            while left > 0 {
                self.words.clear();
                let taken = ring.reader.take(left.min(PIECE), &mut self.words);
                if taken == 0 {
                    break;
                }
                written(RecordKind::RingRecord, &self.words)?;
                // Only now: what is in the spill survives the end of this process.
                ring.reader.release();
                left -= taken;
                seen.records += taken;
            }
            seen.rings += u32::from(is_new);
            seen.lost += state.lost;
            seen.ranks += u32::from(state.rank.is_some());
        }
        Ok(*seen)
    }

    /// Opens rings that are new.
    fn look(&mut self) {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries {
            let name = entry.file_name();
            if self.rings.contains_key(&name) || self.refused.contains(&name) {
                continue;
            }
            let Some(generation) = name.to_str().and_then(generation) else {
                continue;
            };
            match RingReader::open(&entry.path()) {
                Ok(mut reader) => {
                    let thread = Pid::new(reader.state().tid);
                    let fresh = (self.before.len() + self.rings.len()) as u32;
                    let before = self.before.get(&(thread, generation)).copied();
                    let (number, records) = before.unwrap_or((fresh, 0));
                    reader.skip_to(records);
                    let ring = Ring {
                        reader,
                        number,
                        generation,
                        known: None,
                    };
                    self.rings.insert(name, ring);
                }
                Err(InterposeError::NotReady { .. }) => {}
                Err(_) => {
                    self.refused.push(name);
                    self.seen.refused += 1;
                }
            }
        }
    }

    /// Processes that write rings.
    pub fn processes(&self) -> Vec<Pid> {
        let known = self.rings.values().filter_map(|ring| ring.known.as_ref());
        let mut pids: Vec<Pid> = known.map(|known| known.process).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

/// `PID.TID.ring` is the first ring of a thread number, `PID.TID.2.ring` the second.
fn generation(name: &str) -> Option<u32> {
    let mut parts = name.strip_suffix(".ring")?.split('.');
    let mut next = || parts.next().map(|part| part.parse::<u32>().ok());
    let (Some(Some(_)), Some(Some(_))) = (next(), next()) else {
        return None;
    };
    match next() {
        None => Some(1),
        Some(number) => number,
    }
}

/// Name of a living thread; empty if it has gone.
fn name_of(thread: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{thread}/comm"));
    name.map(|name| name.trim_end().to_owned())
        .unwrap_or_default()
}

/// The only CPU that a thread may use; `None` if there are several, or it has gone.
fn bound_to(thread: u32) -> Option<Cpu> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().parse().ok().map(Cpu::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rings_tell_their_generation() {
        assert_eq!(generation("12.13.ring"), Some(1));
        assert_eq!(generation("12.13.2.ring"), Some(2));
        for name in [
            "12.ring",
            "12.13.ring.new",
            "a.13.ring",
            "12.13.x.ring",
            "libx.so",
        ] {
            assert_eq!(generation(name), None, "{name}");
        }
    }

    #[test]
    fn this_thread_has_a_name() {
        let own = std::process::id();
        assert!(!name_of(own).is_empty());
        assert_eq!(name_of(u32::MAX), "");
        assert_eq!(bound_to(u32::MAX), None);
    }
}
