//! The reading end of a state page: what a process says about itself, as plain values.

use crate::InterposeError;
use crate::state::{
    COMMUNICATORS, MAGIC, PAIRS, PARTIAL, POSTED, Page, WAITS, Want, bit, kind, mode, phase,
    unknown,
};
use crate::table::{How, TABLE};
use idlewave_sys::mapping::{Access, Mapping};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

/// A state page, mapped for reading. The file belongs to a program, which may truncate it at any
/// time: then the page is [torn](Self::is_torn), and nothing more is known about its process.
#[derive(Debug)]
pub struct StatePage {
    mapping: Mapping,
    path: PathBuf,
}

/// The process to which a page belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateProcess {
    /// Its PID, in its own PID namespace.
    pub pid: u32,
    /// When it started, in ticks since boot; 0: not known.
    pub start: u64,
    /// Inode of that namespace; 0: not known.
    pub pid_namespace: u64,
    /// Host.
    pub host: String,
}

/// How far a process has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatePhase {
    /// In MPI_Init, or before it.
    #[default]
    Initialising,
    /// MPI_Init has returned.
    Running,
    /// MPI_Finalize was entered.
    Finalising,
    /// MPI_Finalize has returned.
    Finalised,
    /// MPI_Abort was called.
    Aborted,
}

/// One thing that a process waits for. Communicators are named by their keys, ranks are those of
/// MPI_COMM_WORLD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateWant {
    /// A message.
    Receive {
        /// Key of the communicator.
        communicator: u64,
        /// From whom; `None`: from anyone.
        from: Option<u32>,
        /// With which tag; `None`: any.
        tag: Option<i32>,
        /// Its place among the posted receives, if it was started before the call.
        slot: Option<u32>,
    },
    /// A receive for a message of ours.
    Send {
        /// Key of the communicator.
        communicator: u64,
        /// To whom.
        to: u32,
        /// With which tag; `None`: not known.
        tag: Option<i32>,
        /// Which message it is, see [`crate::state::Want::number`].
        number: u64,
        /// Whether the send ends only when the message is received.
        synchronous: bool,
        /// Whether it has [`crate::state::LARGE`] bytes or more.
        large: bool,
    },
    /// The other members of a collective.
    Collective {
        /// Key of the communicator.
        communicator: u64,
        /// Its number, from 1.
        number: u64,
        /// Which function it is.
        what: StateCollective,
    },
}

/// What a collective is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateCollective {
    /// Its [`crate::state::class`].
    pub class: u8,
    /// Tells functions apart.
    pub which: u16,
    /// Root, for classes that have one.
    pub root: u32,
}

impl StateCollective {
    /// The name of its function, blocking or non-blocking.
    pub fn name(&self) -> String {
        let started = self.which >> 8 & 0x7f != 0;
        let of = |how: How| match how {
            How::Collective(shape) => !started && shape as u16 == self.which & 0xff,
            How::StartCollective(shape) => started && shape as u16 == self.which & 0xff,
            _ => false,
        };
        let row = match self.which >> 15 {
            0 => TABLE.get(usize::from(self.which)),
            _ => TABLE.iter().find(|row| of(row.how)),
        };
        row.map_or_else(
            || format!("collective {:#x}", self.which),
            |row| format!("MPI_{}", row.name),
        )
    }
}

/// A communicator that a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateCommunicator {
    /// The number that its members agree on.
    pub key: u64,
    /// How many members it has.
    pub members: u32,
    /// Whether it is MPI_COMM_WORLD.
    pub world: bool,
    /// Collectives entered so far.
    pub entered: u64,
    /// The last of them.
    pub last: StateCollective,
}

/// Counters of one direction: those of each tag, or the sum alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateCount {
    /// By tag.
    Tags(Vec<(i32, u64)>),
    /// Of all tags.
    Sum(u64),
}

/// Messages between a process and another rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePair {
    /// Key of the communicator.
    pub communicator: u64,
    /// The other rank.
    pub peer: u32,
    /// Sent.
    pub sent: StateCount,
    /// Received.
    pub received: StateCount,
}

/// What one page said at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRecord {
    /// How far the process is.
    pub phase: StatePhase,
    /// Rank in MPI_COMM_WORLD; `None` until MPI_Init has returned.
    pub rank: Option<u32>,
    /// Size of MPI_COMM_WORLD; `None` likewise.
    pub size: Option<u32>,
    /// Bits of [`crate::state::unknown`].
    pub unknown: u32,
    /// The epochs before and after the rest was read. If they are equal and even, the record is
    /// consistent.
    pub epochs: [u64; 2],
    /// Its [`crate::state::mode`].
    pub mode: u8,
    /// Whether waits are left out.
    pub partial: bool,
    /// The function called, as an index of [`crate::functions`].
    pub function: u16,
    /// What it waits for.
    pub wants: Vec<StateWant>,
    /// Tests in a row that found nothing.
    pub polls: u64,
    /// Receives that are posted, each with its slot.
    pub posted: Vec<StateWant>,
    /// Communicators.
    pub communicators: Vec<StateCommunicator>,
    /// Counters.
    pub pairs: Vec<StatePair>,
}

impl StatePage {
    /// Maps a page.
    ///
    /// # Errors
    /// See [`InterposeError`]; with `NotReady` it can be opened a moment later.
    pub fn open(path: &Path) -> Result<Self, InterposeError> {
        let io = |source| InterposeError::File {
            action: "read",
            path: path.to_owned(),
            source,
        };
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)
            .map_err(io)?;
        let bytes = size_of::<Page>();
        if file.metadata().map_err(io)?.len() < bytes as u64 {
            return Err(InterposeError::NotReady(path.to_owned()));
        }
        let mapped = Mapping::new(&file, bytes, Access::Read).and_then(Mapping::cover);
        let page = Self {
            mapping: mapped.map_err(io)?,
            path: path.to_owned(),
        };
        // Acquire: pairs with the writer's store.
        match page.page().magic.load(Acquire) {
            MAGIC => Ok(page),
            0 => Err(InterposeError::NotReady(path.to_owned())),
            _ => Err(InterposeError::Damaged {
                path: path.to_owned(),
                reason: "it is not a state page of this version".to_owned(),
            }),
        }
    }

    fn page(&self) -> &Page {
        // SAFETY: the mapping is large enough, aligned to a page, and lives as long as `self`;
        // every bit pattern is valid.
        unsafe { self.mapping.base().cast::<Page>().as_ref() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the program has truncated the file: nothing more can be read from it.
    pub fn is_torn(&self) -> bool {
        self.page().magic.load(Relaxed) != MAGIC || self.mapping.is_lost()
    }

    /// The process to which it belongs.
    pub fn process(&self) -> StateProcess {
        let page = self.page();
        let host: Vec<u8> = page
            .host
            .iter()
            .flat_map(|word| word.load(Relaxed).to_le_bytes())
            .take_while(|&byte| byte != 0)
            .collect();
        StateProcess {
            pid: page.pid.load(Relaxed),
            start: page.start.load(Relaxed),
            pid_namespace: page.pid_namespace.load(Relaxed),
            host: String::from_utf8_lossy(&host).into_owned(),
        }
    }

    /// The current epoch. For a snapshot of several processes, get the epochs of all of them first,
    /// then [`read`](Self::read) each, then [`close`](Self::close) each. The epoch of a torn page
    /// is odd, as if the page were being written.
    pub fn epoch(&self) -> u64 {
        // Acquire: what is read afterwards is not older.
        let epoch = self.page().epoch.load(Acquire);
        match self.is_torn() {
            true => 1,
            false => epoch,
        }
    }

    /// Whether its rank is in a call that may wait for others, or has reached MPI_Finalize, as far
    /// as a quick look tells.
    pub fn may_wait(&self) -> bool {
        let page = self.page();
        let within = page.doing.load(Relaxed) as u8 != mode::NONE;
        let past = !matches!(
            page.phase.load(Relaxed),
            phase::INITIALISING | phase::RUNNING
        );
        within || past
    }

    /// Reads the record into `to`, but leaves its epochs as they are. If the page is torn, `to`
    /// keeps the identity and phase of the process, and says that nothing else is known.
    pub fn read(&self, to: &mut StateRecord) {
        let before = (to.phase, to.rank, to.size, to.unknown);
        self.read_whole(to);
        // Check last: the reads above may have gone past the new end of the file.
        if self.is_torn() {
            let (phase, rank, size, unknown) = before;
            *to = StateRecord {
                phase,
                rank,
                size,
                unknown: unknown | unknown::TORN,
                epochs: to.epochs,
                ..StateRecord::default()
            };
        }
    }

    fn read_whole(&self, to: &mut StateRecord) {
        let page = self.page();
        // Acquire: rank, size and what is unknown were stored before it.
        to.phase = match page.phase.load(Acquire) {
            phase::INITIALISING => StatePhase::Initialising,
            phase::RUNNING => StatePhase::Running,
            phase::FINALISING => StatePhase::Finalising,
            phase::ABORTED => StatePhase::Aborted,
            _ => StatePhase::Finalised,
        };
        to.rank = page.rank_plus_one.load(Relaxed).checked_sub(1);
        to.size = Some(page.size.load(Relaxed)).filter(|&size| size > 0);
        to.unknown = page.unknown.load(Acquire);
        let doing = page.doing.load(Relaxed);
        to.mode = doing as u8;
        to.partial = doing & PARTIAL != 0;
        to.function = (doing >> 16) as u16;
        to.polls = page.polls.load(Relaxed);
        // Numbers of a torn record may be anything.
        let count = ((doing >> 32) as usize).min(WAITS);
        to.wants.clear();
        to.wants.extend(page.waits[..count].iter().filter_map(want));
        let used = (page.posted_used.load(Relaxed) as usize).min(POSTED);
        to.posted.clear();
        to.posted
            .extend(page.posted[..used].iter().filter_map(want));
        let used = (page.communicators_used.load(Relaxed) as usize).min(COMMUNICATORS);
        to.communicators.clear();
        let mut keys = [0; COMMUNICATORS];
        for (slot, of) in page.communicators[..used].iter().enumerate() {
            keys[slot] = of.key.load(Relaxed);
            let members = of.members.load(Relaxed);
            if keys[slot] != 0 {
                to.communicators.push(StateCommunicator {
                    key: keys[slot],
                    members: members as u32,
                    world: members >> 32 != 0,
                    entered: of.entered.load(Relaxed),
                    last: collective(of.last.load(Relaxed)),
                });
            }
        }
        let used = (page.pairs_used.load(Relaxed) as usize).min(PAIRS);
        to.pairs.clear();
        for pair in &page.pairs[..used] {
            let key = pair.key.load(Relaxed);
            let more = pair.more.load(Relaxed);
            let communicator = keys.get((key >> 32) as usize).copied().unwrap_or(0);
            if communicator == 0 {
                continue;
            }
            to.pairs.push(StatePair {
                communicator,
                peer: key as u32,
                sent: tags(&pair.sent, &pair.sent_tags, &pair.sent_by_tag, more & 1),
                received: tags(
                    &pair.received,
                    &pair.received_tags,
                    &pair.received_by_tag,
                    more & 2,
                ),
            });
        }
    }

    /// The epoch after [`read`](Self::read).
    pub fn close(&self) -> u64 {
        // Acquire: what was read before is not newer.
        fence(Acquire);
        self.epoch()
    }
}

fn tags(
    sum: &std::sync::atomic::AtomicU64,
    tags: &[std::sync::atomic::AtomicI32],
    counts: &[std::sync::atomic::AtomicU64],
    more: u64,
) -> StateCount {
    if more != 0 {
        return StateCount::Sum(sum.load(Relaxed));
    }
    let of = tags.iter().zip(counts);
    let of = of.map(|(tag, count)| (tag.load(Relaxed), count.load(Relaxed)));
    StateCount::Tags(of.filter(|(_, count)| *count > 0).collect())
}

fn collective(word: u64) -> StateCollective {
    StateCollective {
        class: word as u8,
        which: (word >> 16) as u16,
        root: (word >> 32) as u32,
    }
}

fn want(slot: &Want) -> Option<StateWant> {
    let what = slot.what.load(Relaxed);
    let which = slot.which.load(Relaxed);
    let number = slot.number.load(Relaxed);
    let communicator = slot.communicator.load(Relaxed);
    let bits = (what >> 8) as u8;
    let peer = ((what >> 32) as u32).checked_sub(1);
    let tag = (bits & bit::TAG != 0).then_some(which as u32 as i32);
    Some(match what as u8 {
        kind::RECEIVE => StateWant::Receive {
            communicator,
            from: peer,
            tag,
            slot: (number as u32).checked_sub(1),
        },
        kind::SEND => StateWant::Send {
            communicator,
            to: peer?,
            tag,
            number,
            synchronous: bits & bit::SYNCHRONOUS != 0,
            large: bits & bit::LARGE != 0,
        },
        kind::COLLECTIVE => StateWant::Collective {
            communicator,
            number,
            what: collective(which),
        },
        _ => return None,
    })
}
