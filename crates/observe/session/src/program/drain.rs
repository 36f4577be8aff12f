//! Moves records from the rings to the spill while the program runs.

use super::state::{ProgramRing, TORN, Viewed};
use crate::SessionError;
use idlewave_clock::{Calibration, Pair};
use idlewave_interpose::ring::REFUSED_EXTENSION;
use idlewave_interpose::{InterposeError, RingReader, RingState};
use idlewave_run::spill::{Block, RecordKind, SpillWriter};
use idlewave_sys::pid_namespace::{self, PidNamespace};
use idlewave_units::{Cpu, Pid, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Minimum interval between pairs of clock readings: a day of them takes less than 3 MiB.
const CALIBRATE_EVERY: Duration = Duration::from_secs(1);
/// Records copied at a time: 256 KiB.
const PIECE: u64 = 1 << 12;

/// Returns the numbers of threads of this PID namespace in the kernel's view; `None` for one that
/// has ended.
pub type AskNumbers<'a> = dyn FnMut(&[Pid]) -> Result<Vec<Option<Pid>>, SessionError> + 'a;

/// Drains the rings in a directory.
pub struct Drain {
    directory: PathBuf,
    before: BTreeMap<(Pid, u32), Before>,
    /// The namespace of this process; `None` without /proc.
    namespace: Option<PidNamespace>,
    rings: BTreeMap<OsString, Ring>,
    /// Files that are not rings, remembered so that they are examined only once.
    refused: Vec<OsString>,
    /// Processes that could not create a ring, by their own numbers.
    without: BTreeSet<u32>,
    calibrated: Option<Instant>,
    pair: Option<Pair>,
    words: Vec<u64>,
    /// Totals so far.
    pub seen: Drained,
}

/// What a killed predecessor has taken from a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    /// Number of the ring in the spill.
    pub number: u32,
    /// Records in the spill.
    pub records: u64,
    /// Its numbers in the kernel's view.
    pub viewed: Viewed,
}

/// Totals of what the rings have yielded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Rings.
    pub rings: u32,
    /// Threads that have a rank.
    pub ranks: u32,
    /// Records taken.
    pub records: u64,
    /// Records dropped because a ring was full.
    pub lost: u64,
    /// Bytes written to the spill.
    pub bytes: u64,
    /// Files in the directory that could not be read as rings.
    pub refused: u32,
    /// Threads that had ended, or were not visible, when their numbers in the kernel's view were
    /// requested.
    pub unknown: u32,
}

/// A thread that calls MPI and whose rank is now known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewThread {
    /// Its rank.
    pub rank: Rank,
    /// Its process, by the number in this PID namespace.
    pub process: Pid,
    /// The thread, likewise.
    pub thread: Pid,
    /// Its name.
    pub name: String,
}

struct Ring {
    reader: RingReader,
    /// Its header as last read.
    said: RingState,
    number: u32,
    generation: u32,
    /// Its process and thread by their numbers in this PID namespace; `None` if not visible.
    here: Option<(Pid, Pid)>,
    viewed: Viewed,
    /// Its state in the spill.
    known: Option<ProgramRing>,
}

impl Drain {
    /// For the rings in `directory`.
    pub fn new(directory: &Path) -> Self {
        Self::resume(directory, BTreeMap::new())
    }

    /// The same after a killed predecessor. `before` has what it took from each ring, by thread and
    /// generation.
    pub(crate) fn resume(directory: &Path, before: BTreeMap<(Pid, u32), Before>) -> Self {
        Self {
            directory: directory.to_owned(),
            before,
            namespace: PidNamespace::current().ok(),
            rings: BTreeMap::new(),
            refused: Vec::new(),
            without: BTreeSet::new(),
            calibrated: None,
            pair: None,
            words: Vec::new(),
            seen: Drained::default(),
        }
    }

    /// Drains all rings once. Calls `told` for threads whose rank has become known, and requests
    /// the numbers of new threads in the kernel's view.
    ///
    /// # Errors
    /// The spill cannot be written; the records stay in the rings.
    pub fn round(
        &mut self,
        calibration: &mut Calibration,
        spill: &mut SpillWriter,
        numbers: &mut AskNumbers<'_>,
        told: &mut Vec<NewThread>,
    ) -> Result<Drained, SessionError> {
        self.look(numbers)?;
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

    /// The last round, with a fresh clock reading that no record is later than.
    ///
    /// # Errors
    /// As for [`round`](Self::round).
    pub fn last_round(
        &mut self,
        calibration: &mut Calibration,
        spill: &mut SpillWriter,
        numbers: &mut AskNumbers<'_>,
        told: &mut Vec<NewThread>,
    ) -> Result<Drained, SessionError> {
        self.calibrated = None;
        self.round(calibration, spill, numbers, told)
    }

    fn take(
        &mut self,
        pair: Pair,
        spill: &mut SpillWriter,
        told: &mut Vec<NewThread>,
    ) -> Result<Drained, SessionError> {
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
                Ok::<(), SessionError>(())
            };
            let mut state = ring.reader.state();
            if ring.reader.is_torn() {
                // The header is unusable now; keep the last known state.
                state = ring.said.clone();
                state.life |= TORN;
            }
            ring.said.clone_from(&state);
            let is_new = ring.known.is_none();
            let was_ranked = ring.known.as_ref().is_some_and(|k| k.rank.is_some());
            if ring
                .known
                .as_ref()
                .is_none_or(|known| known.differs(&state))
            {
                let thread = ring.here.map(|(_, thread)| thread.get());
                let cpu = thread.and_then(bound_to);
                let name = thread.map(name_of).unwrap_or_default();
                let ring_now = ProgramRing::new(&state, ring.generation, ring.viewed, cpu, &name);
                let ring_now = ring_now.or_as(ring.known.as_ref());
                written(RecordKind::RingState, &ring_now.to_words())?;
                if let (Some(rank), false, Some((process, thread))) =
                    (ring_now.rank, was_ranked, ring.here)
                {
                    told.push(NewThread {
                        rank,
                        process,
                        thread,
                        name: ring_now.name.clone(),
                    });
                }
                ring.known = Some(ring_now);
            }
            // Records that arrive during this round are left to the next one.
            let mut left = ring.reader.waiting().min(ring.reader.capacity());
            while left > 0 {
                self.words.clear();
                let taken = ring.reader.take(left.min(PIECE), &mut self.words);
                if taken == 0 {
                    break;
                }
                written(RecordKind::RingRecord, &self.words)?;
                // Release only now: from here on, the records survive in the spill if this process
                // ends.
                ring.reader.release();
                left -= taken;
                seen.records += taken;
            }
            if let Some(known) = ring.known.as_mut().filter(|_| ring.reader.is_torn()) {
                if !known.is_torn() {
                    known.life |= TORN;
                    written(RecordKind::RingState, &known.to_words())?;
                }
            }
            seen.rings += u32::from(is_new);
            seen.lost += state.lost;
            seen.ranks += u32::from(state.rank.is_some());
        }
        Ok(*seen)
    }

    /// Opens new rings.
    fn look(&mut self, numbers: &mut AskNumbers<'_>) -> Result<(), SessionError> {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries {
            let name = entry.file_name();
            if self.rings.contains_key(&name) || self.refused.contains(&name) {
                continue;
            }
            self.without.extend(name.to_str().and_then(refused));
            let Some(generation) = name.to_str().and_then(generation) else {
                continue;
            };
            match RingReader::open(&entry.path()) {
                Ok(mut reader) => {
                    let state = reader.state();
                    let thread = Pid::new(state.tid);
                    let here = here(&state, self.namespace);
                    let before = self.before.get(&(thread, generation)).copied();
                    let before = match before {
                        Some(before) => before,
                        None => Before {
                            number: (self.before.len() + self.rings.len()) as u32,
                            records: 0,
                            viewed: viewed(&state, here, numbers)?,
                        },
                    };
                    reader.skip_to(before.records);
                    self.seen.unknown += u32::from(before.viewed == Viewed::Unknown);
                    let ring = Ring {
                        reader,
                        said: state,
                        number: before.number,
                        generation,
                        here,
                        viewed: before.viewed,
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
        Ok(())
    }

    /// Number of processes that could not create a ring; they are not recorded.
    pub fn without_rings(&self) -> u64 {
        let with: BTreeSet<u32> = self.rings.values().map(|ring| ring.said.pid).collect();
        self.without.difference(&with).count() as u64
    }

    /// Processes that write rings, by their numbers in this PID namespace.
    pub fn processes(&self) -> Vec<Pid> {
        let known = self.rings.values().filter(|ring| ring.known.is_some());
        let mut pids: Vec<Pid> = known
            .filter_map(|ring| ring.here.map(|(process, _)| process))
            .collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

/// Process and thread of a ring by their numbers in this process's PID namespace `own`; the ring
/// may be from one below.
fn here(state: &RingState, own: Option<PidNamespace>) -> Option<(Pid, Pid)> {
    let namespace = PidNamespace::of_inode(state.pid_namespace);
    if state.pid_namespace == 0 || own.is_none() || own == Some(namespace) {
        return Some((Pid::new(state.pid), Pid::new(state.tid)));
    }
    let found = pid_namespace::here(namespace, state.pid, state.tid);
    found.map(|(process, thread)| (Pid::new(process), Pid::new(thread)))
}

/// The numbers of a new ring's process and thread in the kernel's view.
fn viewed(
    state: &RingState,
    here: Option<(Pid, Pid)>,
    numbers: &mut AskNumbers<'_>,
) -> Result<Viewed, SessionError> {
    let Some((process, thread)) = here else {
        return Ok(Viewed::Unknown);
    };
    Ok(match numbers(&[process, thread])?.as_slice() {
        [Some(process), Some(thread)] => {
            let same = process.get() == state.pid && thread.get() == state.tid;
            match same {
                true => Viewed::Same,
                false => Viewed::As(*process, *thread),
            }
        }
        _ => Viewed::Unknown,
    })
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

/// The process of `PID.refused`.
fn refused(name: &str) -> Option<u32> {
    let (pid, rest) = name.split_once('.')?;
    (rest == REFUSED_EXTENSION).then(|| pid.parse().ok())?
}

/// Name of a living thread; empty if it has ended.
fn name_of(thread: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{thread}/comm"));
    name.map(|name| name.trim_end().to_owned())
        .unwrap_or_default()
}

/// The only CPU that a thread may use; `None` if there are several, or it has ended.
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
    use idlewave_clock::Counter;
    use idlewave_interpose::ring::{HEADER_BYTES, Header, MAGIC, WORDS, life};
    use idlewave_run::RunWriter;
    use idlewave_run::testing::empty_manifest;
    use std::mem::offset_of;
    use std::os::unix::fs::FileExt;

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
    fn processes_that_could_make_no_ring_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["7.refused", "8.refused", "x.refused", "9.9.refused"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        // A later thread of process 8 succeeded.
        Made::new(&dir.path().join("8.8.ring"), 8, 0);
        let mut drain = Drain::new(dir.path());
        let mut numbers =
            |threads: &[Pid]| Ok(threads.iter().copied().map(Some).collect::<Vec<_>>());
        drain.look(&mut numbers).unwrap();
        assert_eq!(drain.without_rings(), 1);
    }

    /// The ring of a rank, as its program writes it.
    struct Made(fs::File);

    impl Made {
        fn new(path: &Path, thread: u32, rank: u32) -> Self {
            const CAPACITY: u64 = 64;
            fs::write(path, vec![0; HEADER_BYTES + CAPACITY as usize * 8 * WORDS]).unwrap();
            let made = Self(fs::File::options().write(true).open(path).unwrap());
            for (at, number) in [
                (offset_of!(Header, pid), thread),
                (offset_of!(Header, tid), thread),
                (offset_of!(Header, rank_plus_one), rank + 1),
                (offset_of!(Header, size), 2),
                (offset_of!(Header, life), life::INITIALISED),
            ] {
                made.0
                    .write_all_at(&number.to_le_bytes(), at as u64)
                    .unwrap();
            }
            made.set(offset_of!(Header, capacity), CAPACITY);
            made.set(offset_of!(Header, magic), MAGIC);
            made
        }

        fn set(&self, at: usize, word: u64) {
            self.0.write_all_at(&word.to_le_bytes(), at as u64).unwrap();
        }

        fn written(&self, records: u64) {
            self.set(offset_of!(Header, written), records);
        }
    }

    #[test]
    fn a_ring_that_its_program_cuts_short_is_told_and_the_others_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let bundle = dir.path().join("run");
        RunWriter::create(&bundle, empty_manifest()).unwrap();
        let rings: Vec<Made> = (0..3)
            .map(|n| Made::new(&dir.path().join(format!("7{n}.7{n}.ring")), 70 + n, n))
            .collect();
        let mut calibration = Calibration::begin(Counter::choose(Path::new("/")));
        let mut spill = SpillWriter::create(&bundle).unwrap();
        let mut drain = Drain::new(dir.path());
        let mut round = || {
            let mut told = Vec::new();
            drain
                .last_round(
                    &mut calibration,
                    &mut spill,
                    &mut |threads| Ok(threads.iter().copied().map(Some).collect()),
                    &mut told,
                )
                .unwrap()
        };
        rings.iter().for_each(|ring| ring.written(3));
        assert_eq!(round().records, 9);
        // One ring has lost everything, the other everything but its header, which claims more
        // records.
        rings[0].0.set_len(0).unwrap();
        rings[1].0.set_len(HEADER_BYTES as u64).unwrap();
        rings[1..].iter().for_each(|ring| ring.written(5));
        assert_eq!(round().records, 11);
        assert_eq!(round(), round());
        let known = super::super::gather::rings(&bundle).unwrap();
        let known = known
            .values()
            .map(|r| (r.ring.rank, r.records, r.ring.is_torn()));
        let mut known: Vec<_> = known.collect();
        known.sort();
        let rank = |n| Some(Rank::new(n));
        let expected = [(rank(0), 3, true), (rank(1), 3, true), (rank(2), 5, false)];
        assert_eq!(known, expected);
    }

    #[test]
    fn this_thread_has_a_name() {
        let own = std::process::id();
        assert!(!name_of(own).is_empty());
        assert_eq!(name_of(u32::MAX), "");
        assert_eq!(bound_to(u32::MAX), None);
    }
}
