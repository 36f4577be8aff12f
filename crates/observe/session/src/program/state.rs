//! What the spill says about a ring: blocks of
//! [`RecordKind::RingState`](idlewave_run::spill::RecordKind::RingState).
//!
//! | word | low half | high half |
//! |---|---|---|
//! | 0 | process | thread |
//! | 1 | which of the rings of this thread number, from 1 | clock of the ring |
//! | 2 | rank + 1 | size of MPI_COMM_WORLD, 0: not known |
//! | 3 | life | thread level + 1 |
//! | 4 | records that were dropped | |
//! | 5 | CPU + 1 if the thread may use one only | threads of the process without a ring |
//! | 6, 7 | name of the thread, 16 bytes | |
//! | 8 to 39 | name of the MPI library, ended by a zero | |
//! | 40 | process in the kernel's view | thread in the kernel's view |
//! | 41 | 0: they are the same as in word 0, 1: word 40 holds them, 2: they are not known | |
//! | 42 to 47 | nothing | |

use idlewave_interpose::RingState;
use idlewave_interpose::ring::{clock, life};
use idlewave_run::spill::RecordKind;
use idlewave_units::{Cpu, Pid, Rank};

/// Set among the bits of a ring's life if its program truncated its file; no program sets it.
pub(super) const TORN: u32 = 1 << 31;

const WORDS: usize = RecordKind::RingState.words();
const LIBRARY: std::ops::Range<usize> = 8..40;
const NAME: std::ops::Range<usize> = 6..8;

/// The numbers of a ring's process and thread in the kernel's view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Viewed {
    /// Those in the ring.
    #[default]
    Same,
    /// Others: the ring, or the recorder, is in another PID namespace than the kernel's view.
    As(Pid, Pid),
    /// The thread had ended, or was not visible, when the recorder asked.
    Unknown,
}

/// A ring of a recorded program, and the program's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRing {
    /// Process that wrote it, by its number in its own PID namespace.
    pub process: Pid,
    /// Thread that wrote it, likewise.
    pub thread: Pid,
    /// The numbers of both in the kernel's view.
    pub viewed: Viewed,
    /// Index among the rings of threads with this number, from 1.
    pub generation: u32,
    /// Whether its times are CLOCK_MONOTONIC; otherwise they are counts.
    pub monotonic: bool,
    /// Rank in MPI_COMM_WORLD; `None` if MPI_Init did not return.
    pub rank: Option<Rank>,
    /// Size of MPI_COMM_WORLD.
    pub size: Option<u32>,
    /// Bits of [`life`], and [`TORN`].
    pub life: u32,
    /// Thread level provided, 0 to 3.
    pub thread_level: Option<u32>,
    /// Records dropped because the ring was full.
    pub lost: u64,
    /// Threads of the process that could not create a ring, as far as this ring knows.
    pub refused: u32,
    /// The CPU to which the thread is bound; `None` if it may use several.
    pub cpu: Option<Cpu>,
    /// Name of the thread.
    pub name: String,
    /// The MPI library, as it names itself.
    pub library: Option<String>,
}

impl ProgramRing {
    /// From the header of the ring, and what is known about its thread.
    pub fn new(
        state: &RingState,
        generation: u32,
        viewed: Viewed,
        cpu: Option<Cpu>,
        name: &str,
    ) -> Self {
        Self {
            process: Pid::new(state.pid),
            thread: Pid::new(state.tid),
            viewed,
            generation,
            monotonic: state.clock == clock::MONOTONIC,
            rank: state.rank.map(Rank::new),
            size: state.size,
            life: state.life,
            thread_level: state.thread_level,
            lost: state.lost,
            refused: state.refused,
            cpu,
            name: name.to_owned(),
            library: state.library.clone().filter(|l| !l.is_empty()),
        }
    }

    /// Whether the header differs from this state.
    pub(super) fn differs(&self, state: &RingState) -> bool {
        let now = Self::new(state, self.generation, self.viewed, self.cpu, &self.name);
        now != *self
    }

    /// Keeps the previously known name and CPU if the thread has ended since.
    pub(super) fn or_as(mut self, before: Option<&Self>) -> Self {
        if let (true, Some(before)) = (self.name.is_empty(), before) {
            self.name = before.name.clone();
            self.cpu = before.cpu;
        }
        self
    }

    /// Whether the program truncated the ring's file: what had not been drained by then is lost.
    pub fn is_torn(&self) -> bool {
        self.life & TORN != 0
    }

    /// Replaces the numbers by those of the kernel's view, by which bundles identify threads.
    pub(super) fn with_viewed_numbers(mut self) -> Self {
        if let Viewed::As(process, thread) = self.viewed {
            (self.process, self.thread) = (process, thread);
        }
        self
    }

    /// Whether MPI_Finalize has returned in the program.
    pub fn has_finalised(&self) -> bool {
        self.life & life::FINALISED != 0
    }

    /// As words of the spill.
    pub fn to_words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let plus_one = |n: Option<u32>| n.map_or(0, |n| n.saturating_add(1));
        let clock = if self.monotonic {
            clock::MONOTONIC
        } else {
            clock::COUNTER
        };
        words[0] = pair(self.process.get(), self.thread.get());
        words[1] = pair(self.generation, clock);
        words[2] = pair(
            plus_one(self.rank.map(Rank::get)),
            self.size.unwrap_or_default(),
        );
        words[3] = pair(self.life, plus_one(self.thread_level));
        words[4] = self.lost;
        words[5] = pair(plus_one(self.cpu.map(Cpu::get)), self.refused);
        (words[40], words[41]) = match self.viewed {
            Viewed::Same => (0, 0),
            Viewed::As(process, thread) => (pair(process.get(), thread.get()), 1),
            Viewed::Unknown => (0, 2),
        };
        put_text(&mut words[NAME], &self.name);
        put_text(
            &mut words[LIBRARY],
            self.library.as_deref().unwrap_or_default(),
        );
        words
    }

    /// From words of the spill; `None` if they are too few.
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let words: &[u64; WORDS] = words.try_into().ok()?;
        let low = |at: usize| words[at] as u32;
        let high = |at: usize| (words[at] >> 32) as u32;
        let library = text(&words[LIBRARY]);
        Some(Self {
            process: Pid::new(low(0)),
            thread: Pid::new(high(0)),
            viewed: match words[41] {
                1 => Viewed::As(Pid::new(low(40)), Pid::new(high(40))),
                2 => Viewed::Unknown,
                _ => Viewed::Same,
            },
            generation: low(1),
            monotonic: high(1) == clock::MONOTONIC,
            rank: low(2).checked_sub(1).map(Rank::new),
            size: Some(high(2)).filter(|&size| size > 0),
            life: low(3),
            thread_level: high(3).checked_sub(1),
            lost: words[4],
            refused: high(5),
            cpu: low(5).checked_sub(1).map(Cpu::new),
            name: text(&words[NAME]),
            library: Some(library).filter(|l| !l.is_empty()),
        })
    }
}

/// Writes as much of a text as fits, and a zero after it, into zeroed words.
fn put_text(words: &mut [u64], text: &str) {
    let room = 8 * words.len() - 1;
    for (at, byte) in text.bytes().take(room).enumerate() {
        words[at / 8] |= u64::from(byte) << (8 * (at % 8));
    }
}

/// The text in words, up to the first zero.
fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_survives_the_way_through_the_spill() {
        let ring = ProgramRing {
            process: Pid::new(7),
            thread: Pid::new(9),
            viewed: Viewed::As(Pid::new(4711), Pid::new(4712)),
            generation: 2,
            monotonic: true,
            rank: Some(Rank::new(0)),
            size: Some(4),
            life: 7,
            thread_level: Some(3),
            lost: 1 << 40,
            refused: 3,
            cpu: Some(Cpu::new(0)),
            name: "fifteen letters".to_owned(),
            library: Some("Open MPI v4.1.4, package: Debian".to_owned()),
        };
        assert_eq!(
            ProgramRing::from_words(&ring.to_words()),
            Some(ring.clone())
        );
        let unknown = ProgramRing {
            monotonic: false,
            viewed: Viewed::Unknown,
            rank: None,
            size: None,
            thread_level: None,
            cpu: None,
            library: None,
            ..ring
        };
        assert_eq!(ProgramRing::from_words(&unknown.to_words()), Some(unknown));
        assert_eq!(ProgramRing::from_words(&[0; 47]), None);
    }
}
