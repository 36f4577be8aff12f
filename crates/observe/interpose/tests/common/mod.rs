//! Runs MPI programs under the preloaded library and reads what it wrote.

use idlewave_interpose::ring::{CAPACITY_VARIABLE, DIRECTORY_VARIABLE, WORDS, flags};
use idlewave_interpose::{Loss, Record, RingReader, RingState, decode, functions, write_library};
use idlewave_mpi::testing::{self, Installation, skip};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// Source of a test program.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

/// A place for one test: programs, the library and rings.
pub struct Place {
    directory: tempfile::TempDir,
    library: PathBuf,
}

/// One ring, read to its end.
#[derive(Debug)]
pub struct Ring {
    pub state: RingState,
    pub records: Vec<Record>,
}

/// All rings of one process.
#[derive(Debug)]
pub struct Process {
    pub rings: Vec<Ring>,
}

/// A message as one of its ends saw it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    pub send: bool,
    pub peer: Option<u32>,
    pub bytes: u64,
    pub flags: u8,
    /// Whether its completion was seen.
    pub complete: bool,
    pub communicator: u64,
}

/// What a run left.
pub struct Run {
    pub output: Output,
    /// By rank; those without one at the end.
    pub processes: Vec<Process>,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let library = write_library(directory.path()).expect("the library can be written");
        Self { directory, library }
    }

    pub fn library(&self) -> &Path {
        &self.library
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Compiles a C program; `None` where there is no compiler.
    pub fn compile_c(&self, mpi: &Installation, name: &str) -> Option<PathBuf> {
        let to = self.file(&format!("{name}.{}", mpi.name));
        let done = mpi.compile_c(&source(name), &to);
        if done.is_none() {
            skip(&format!("{} has no C compiler", mpi.name));
        }
        done.map(|()| to)
    }

    /// Runs `command`, which starts with the program, on this many ranks.
    pub fn run(
        &self,
        mpi: &Installation,
        ranks: u32,
        command: &[&Path],
        more: &[(&str, &str)],
    ) -> Run {
        let rings = self.file("rings");
        let mut launch = mpi.launch(ranks);
        Installation::kill_at_once(&mut launch);
        launch
            .arg("env")
            .arg(format!("LD_PRELOAD={}", self.library.display()));
        launch.arg(format!("{DIRECTORY_VARIABLE}={}", rings.display()));
        if !more.iter().any(|(name, _)| *name == CAPACITY_VARIABLE) {
            launch.arg(format!("{CAPACITY_VARIABLE}=8192"));
        }
        for (name, value) in more {
            launch.arg(format!("{name}={value}"));
        }
        launch.args(command);
        let output = output(&mut launch, &rings);
        Run {
            output,
            processes: read(&rings),
        }
    }

    /// The same, but the command must succeed on all ranks, with nothing lost.
    pub fn run_well(&self, mpi: &Installation, ranks: u32, command: &[&Path]) -> Vec<Process> {
        let run = self.run(mpi, ranks, command, &[]);
        assert!(
            run.output.status.success(),
            "{}: {}{}",
            mpi.name,
            String::from_utf8_lossy(&run.output.stdout),
            String::from_utf8_lossy(&run.output.stderr)
        );
        assert_eq!(run.processes.len(), ranks as usize, "{}", mpi.name);
        for (rank, process) in run.processes.iter().enumerate() {
            let state = &process.rings[0].state;
            assert_eq!(state.rank, Some(rank as u32), "{}", mpi.name);
            assert_eq!(state.size, Some(ranks), "{}", mpi.name);
            assert!(process.rings.iter().all(|ring| ring.state.lost == 0));
        }
        run.processes
    }
}

/// One job at a time: ranks wait by polling, so those of several tests at once would need minutes
/// for one second's work, until their time limit ends them.
static JOB: Mutex<()> = Mutex::new(());

fn output(command: &mut Command, rings: &Path) -> Output {
    let _one = JOB.lock().unwrap_or_else(PoisonError::into_inner);
    let output = testing::output_of_cleared(command, || {
        let _ = std::fs::remove_dir_all(rings);
        std::fs::create_dir(rings).expect("a directory for the rings");
    });
    let words = String::from_utf8_lossy(&output.stderr);
    // 124 is the exit code of `timeout`.
    assert_ne!(
        output.status.code(),
        Some(124),
        "the job did not end within its time limit: {command:?}: {words}"
    );
    output
}

/// Reads all rings of a directory.
pub fn read(directory: &Path) -> Vec<Process> {
    let mut by_process: BTreeMap<u32, Vec<Ring>> = BTreeMap::new();
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    for path in paths {
        let mut reader = RingReader::open(&path).expect("a ring");
        let mut words = Vec::new();
        while reader.take(1000, &mut words) > 0 {}
        reader.release();
        let decode = |words: &[u64]| {
            let record: &[u64; WORDS] = words.try_into().expect("a record");
            decode(record).expect("a record that can be decoded")
        };
        let records = words.chunks_exact(WORDS).map(decode).collect();
        let state = reader.state();
        by_process
            .entry(state.pid)
            .or_default()
            .push(Ring { state, records });
    }
    let mut processes: Vec<_> = by_process
        .into_values()
        .map(|rings| Process { rings })
        .collect();
    for process in &mut processes {
        // The main thread comes first.
        process
            .rings
            .sort_by_key(|ring| (ring.state.tid != ring.state.pid, ring.state.tid));
    }
    processes.sort_by_key(|process| process.rings[0].state.rank.unwrap_or(u32::MAX));
    processes
}

/// The number of a function.
pub fn number(name: &str) -> u16 {
    let number = functions()
        .iter()
        .position(|function| function.name == name);
    number.unwrap_or_else(|| panic!("{name} is not wrapped")) as u16
}

/// Bytes sent and received, communicator, root, sequence.
pub type Collective = (u64, u64, Option<u64>, Option<u32>, u32);

impl Process {
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.rings.iter().flat_map(|ring| &ring.records)
    }

    /// Calls of a function.
    pub fn calls(&self, name: &str) -> Vec<Collective> {
        let wanted = number(name);
        self.records()
            .filter_map(|record| match record {
                Record::Call {
                    function,
                    sent,
                    received,
                    communicator,
                    root,
                    sequence,
                    ..
                } if *function == wanted => {
                    Some((*sent, *received, *communicator, *root, *sequence))
                }
                _ => None,
            })
            .collect()
    }

    /// Bytes of the calls of a function.
    pub fn amounts(&self, name: &str) -> Vec<(u64, u64)> {
        self.calls(name)
            .iter()
            .map(|call| (call.0, call.1))
            .collect()
    }

    /// Names of the functions called, in order, one per call.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for record in self.records() {
            if let Record::Call { function, .. } = record {
                names.push(functions()[usize::from(*function)].name);
            }
        }
        names
    }

    /// Messages by tag; receives as they were completed.
    pub fn messages(&self) -> BTreeMap<i32, Vec<Message>> {
        let mut messages: Vec<(Option<i32>, Message)> = Vec::new();
        let mut open: HashMap<u64, usize> = HashMap::new();
        // Sends and receives of all threads first: another thread may complete them.
        for record in self.records() {
            if let Record::Transfer {
                send,
                flags,
                tag,
                communicator,
                peer,
                bytes,
                request,
                ..
            } = record
            {
                if let Some(request) = request {
                    assert!(
                        open.insert(*request, messages.len()).is_none(),
                        "request {request} twice"
                    );
                }
                let message = Message {
                    send: *send,
                    peer: *peer,
                    bytes: *bytes,
                    flags: *flags,
                    complete: request.is_none(),
                    communicator: *communicator,
                };
                messages.push((*tag, message));
            }
        }
        for record in self.records() {
            if let Record::Completion {
                flags,
                tag,
                peer,
                bytes,
                request,
                ..
            } = record
            {
                let Some(place) = open.remove(request) else {
                    continue;
                };
                let (old_tag, message) = &mut messages[place];
                message.complete = true;
                message.flags |= flags;
                if !message.send {
                    (*old_tag, message.peer, message.bytes) = (*tag, *peer, *bytes);
                } else if flags & flags::CANCELLED == 0 {
                    assert_eq!(
                        (*old_tag, message.peer, message.bytes),
                        (*tag, *peer, *bytes)
                    );
                }
            }
        }
        let mut by_tag: BTreeMap<i32, Vec<Message>> = BTreeMap::new();
        for (tag, message) in messages {
            by_tag.entry(tag.unwrap_or(-1)).or_default().push(message);
        }
        by_tag.values_mut().for_each(|messages| messages.sort());
        by_tag
    }

    /// Members of each communicator.
    pub fn members(&self) -> BTreeMap<u64, Vec<Option<u32>>> {
        let mut members: BTreeMap<u64, Vec<Option<u32>>> = BTreeMap::new();
        for ring in &self.rings {
            let mut here: BTreeMap<u64, Vec<Option<u32>>> = BTreeMap::new();
            for record in &ring.records {
                if let Record::Members {
                    communicator,
                    first,
                    ranks,
                    ..
                } = record
                {
                    let list = here.entry(*communicator).or_default();
                    assert_eq!(list.len(), *first as usize);
                    list.extend(ranks);
                }
            }
            for (key, list) in here {
                let known = members.entry(key).or_insert_with(|| list.clone());
                assert_eq!(*known, list, "threads must agree");
            }
        }
        members
    }

    /// Losses by reason.
    pub fn losses(&self) -> BTreeMap<String, u64> {
        let mut losses = BTreeMap::new();
        for record in self.records() {
            if let Record::Loss { reason, many } = record {
                let name = match reason {
                    Loss::NotFollowed(function) => {
                        functions()[usize::from(*function)].name.to_owned()
                    }
                    other => format!("{other:?}"),
                };
                *losses.entry(name).or_default() += many;
            }
        }
        losses
    }
}
