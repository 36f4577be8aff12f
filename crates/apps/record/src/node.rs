//! The recorder of one node: provides what programs need to write rings, drains these into a bundle
//! beside the kernel's view, and finishes the node's bundle. It knows nothing about launchers or
//! other nodes.

use idlewave_capture::host::{allowed_cpus, read_host};
use idlewave_capture::proc::ContaminationMeter;
use idlewave_clock::{Calibration, Counter, Readings, monotonic_ns};
use idlewave_interpose::ring::DIRECTORY_VARIABLE;
use idlewave_interpose::{Bell, write_library};
use idlewave_run::spill::{self, SpillWriter};
use idlewave_run::{
    Contamination, Incomplete, Ledger, Manifest, NodeSheet, Phase, PhaseKind, Priority, RunState,
    RunWriter, SchemaVersion, TraceCost, TraceMode, TraceSheet,
};
use idlewave_session::{
    Drain, Gathered, KernelView, Lock, NewThread, Rings, SessionError, Utc, check_machine,
    ended_after, enter_without_rings, forget_rings, gather_program, no_room, note_rings,
    view_ended_after, without_tables,
};
use idlewave_units::{Nanos, NodeId, Pid, counted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Libraries that the loader loads before all others (ld.so(8)).
pub(crate) const PRELOAD: &str = "LD_PRELOAD";

/// What to record of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelTrace {
    /// Nothing: causes have no names.
    Off,
    /// What took the CPUs.
    On,
    /// Also the system calls of the ranks.
    WithSyscalls,
}

/// What to record, and where.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Directory of the bundle; must not exist, or be empty.
    pub output: PathBuf,
    /// The command line of the recording, for the manifest.
    pub command: Vec<String>,
    /// What to record of the kernel.
    pub trace: KernelTrace,
}

/// A running recording of one node. Dropped without [`finish`](Self::finish) it leaves a bundle in
/// state `recording`, as after SIGKILL, and no rings.
pub struct NodeRecorder {
    out: RunWriter,
    lock: Lock,
    view: KernelView,
    spill: SpillWriter,
    calibration: Calibration,
    readings: Readings,
    meter: ContaminationMeter,
    drain: Drain,
    rings: Rings,
    bell: Bell,
    library: PathBuf,
    begun: Instant,
    /// Threads of the program that are watched.
    watched: Vec<Pid>,
    /// Their kernel priorities when first seen.
    priorities: BTreeMap<Pid, Priority>,
    /// Why recording has stopped.
    trouble: Option<SessionError>,
    /// When the kernel's view was found to have failed.
    view_failed: Option<Duration>,
    signal: Option<i32>,
}

/// Totals of a recording so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Since the start.
    pub elapsed: Nanos,
    /// Threads of ranks of this node.
    pub ranks: u32,
    /// Records of all rings.
    pub records: u64,
    /// Records dropped because a ring was full.
    pub lost: u64,
    /// Bytes written to the spill.
    pub bytes: u64,
}

/// A finished bundle of one node. Its lock is held until this is dropped.
#[derive(Debug)]
pub struct NodeBundle {
    /// Its directory.
    pub path: PathBuf,
    /// Held by the recorder since it made the bundle.
    pub lock: Lock,
    /// The recorded program.
    pub gathered: Gathered,
    /// The totals.
    pub seen: Seen,
    /// Why the recording is incomplete; the bundle is intact as far as it goes.
    pub trouble: Option<SessionError>,
}

impl NodeRecorder {
    /// Creates the bundle and the rings, and starts to record the kernel's view.
    ///
    /// # Errors
    /// The bundle or the rings cannot be created. Then nothing is left behind.
    pub fn start(config: NodeConfig) -> Result<Self, SessionError> {
        check_machine()?;
        let root = Path::new("/");
        let cpus = allowed_cpus()?;
        let counter = Counter::choose(root);
        let readings = counter.measure()?;
        let calibration = Calibration::begin(counter);
        let mut rings = Rings::create()?;
        let bell = rings.bell()?;
        let library = rings
            .library_directory()
            .and_then(|directory| write_library(directory).map_err(no_room))?;
        let manifest = manifest(&config, root, &calibration, readings);
        let out = RunWriter::record(&config.output, manifest)?;
        let path = out.path().to_owned();
        let begin = move || {
            let lock = Lock::take(out.path())?;
            note_rings(out.path(), rings.path())?;
            let syscalls = config.trace == KernelTrace::WithSyscalls;
            let view = match config.trace {
                KernelTrace::Off => KernelView::off("idlewave record"),
                _ => KernelView::start(root, out.path(), &cpus, syscalls)?,
            };
            let mut recorder = Self {
                spill: SpillWriter::create(out.path())?,
                drain: Drain::new(rings.path()),
                out,
                lock,
                view,
                calibration,
                readings,
                meter: ContaminationMeter::start(root),
                rings,
                bell,
                library,
                begun: Instant::now(),
                watched: Vec::new(),
                priorities: BTreeMap::new(),
                trouble: None,
                view_failed: None,
                signal: None,
            };
            recorder.out.manifest.nodes[0].trace.mode = recorder.view.mode();
            recorder.out.save()?;
            Ok(recorder)
        };
        begin().inspect_err(|_| {
            // Created by this call and still empty; the error itself matters more.
            let _ = fs::remove_dir_all(&path);
        })
    }

    /// The directory of the rings: private, on this node.
    pub fn rings(&self) -> &Path {
        self.rings.path()
    }

    /// What a program on this node needs in its environment to be recorded: LD_PRELOAD (an existing
    /// preload is kept, before ours) and IDLEWAVE_RINGS.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut preload = std::env::var_os(PRELOAD).unwrap_or_default();
        if !preload.is_empty() {
            preload.push(":");
        }
        preload.push(&self.library);
        let rings = self.rings.path().as_os_str().to_owned();
        vec![
            (PRELOAD.into(), preload),
            (DIRECTORY_VARIABLE.into(), rings),
        ]
    }

    /// Marks a process that was started, with its descendants, as part of the program.
    pub fn note_program(&mut self, process: Pid, name: &str) {
        self.view.note_program(process, name);
    }

    /// Notes that the user ended the program with this signal, so the run is incomplete.
    pub fn note_signal(&mut self, signal: i32) {
        self.signal.get_or_insert(signal);
    }

    /// The bell that wakes the caller of [`drain`](Self::drain). It rings when a ring is half full,
    /// and for new threads and ranks.
    pub fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Drains the rings; call it whenever the [`bell`](Self::bell) rings, and a few times per
    /// second.
    ///
    /// # Errors
    /// None: if the bundle cannot be written, recording stops, the programs are not disturbed, and
    /// [`finish`](Self::finish) returns the error.
    pub fn drain(&mut self) -> Result<Seen, SessionError> {
        if self.trouble.is_none() {
            let done = self.take(false);
            self.note_trouble(done.err());
        }
        if self.view_failed.is_none() && self.view.has_failed() {
            self.view_failed = Some(self.begun.elapsed());
        }
        self.meter.look_at_program(&self.drain.processes());
        Ok(self.seen())
    }

    /// Keeps the error that ends the recording, and notes it on disk so that it is reported even if
    /// the end cannot be written.
    fn note_trouble(&mut self, trouble: Option<SessionError>) {
        if let Some(trouble) = trouble {
            let _ = self.out.note(ended_after(self.begun.elapsed(), &trouble));
            self.trouble = Some(trouble);
        }
    }

    /// The totals so far.
    pub fn seen(&self) -> Seen {
        let drained = &self.drain.seen;
        Seen {
            elapsed: Nanos::from_nanos(self.begun.elapsed().as_nanos() as u64),
            ranks: drained.ranks,
            records: drained.records,
            lost: drained.lost,
            bytes: drained.bytes,
        }
    }

    fn take(&mut self, last: bool) -> Result<(), SessionError> {
        let mut new: Vec<NewThread> = Vec::new();
        let round = if last {
            Drain::last_round
        } else {
            Drain::round
        };
        let view = &mut self.view;
        round(
            &mut self.drain,
            &mut self.calibration,
            &mut self.spill,
            &mut |threads| view.numbers(threads),
            &mut new,
        )?;
        if !new.is_empty() {
            for thread in &new {
                let (process, thread) = (thread.process, thread.thread);
                let stat = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat"));
                // The priority of a thread that has ended is unknown.
                let priority = stat.ok().as_deref().and_then(Priority::of_stat);
                self.priorities.extend(priority.map(|of| (thread, of)));
            }
            self.watched.extend(new.iter().map(|thread| thread.thread));
            self.view.watch_program(&new, &self.watched)?;
        }
        Ok(())
    }

    /// Processes that write rings.
    pub fn processes(&self) -> Vec<Pid> {
        self.drain.processes()
    }

    /// Removes everything, because the program could not be started.
    pub fn abandon(self) {
        let path = self.out.path().to_owned();
        drop(self);
        // Created by `start`; what is left of it is not a run.
        let _ = fs::remove_dir_all(path);
    }

    /// Finishes once the programs have ended: empties the rings, ends the kernel's view, builds the
    /// tables. The exit code is that of the command, if known.
    ///
    /// # Errors
    /// The tables cannot be written. Then the bundle is in state `recording`; `idlewave explain`
    /// recovers it when there is space.
    pub fn finish(mut self, exit_code: impl Into<Option<i32>>) -> Result<NodeBundle, SessionError> {
        let end_ns = monotonic_ns();
        let exit_code = exit_code.into();
        if self.trouble.is_none() {
            let done = self.take(true);
            self.note_trouble(done.err());
        }
        let seen = self.seen();
        let elapsed = self.begun.elapsed();
        let refused = u64::from(self.drain.seen.refused);
        let unknown = u64::from(self.drain.seen.unknown);
        let mut out = self.out;
        let mut view = self.view;
        let unwatched = view.unwatch(&out).map_err(SessionError::from);
        let viewed = view.stop(Path::new("/"), &mut out);
        let viewed = viewed.map(|sheet| out.manifest.nodes[0].trace = sheet);
        let view_trouble = unwatched.and(viewed).err();
        out.manifest.nodes[0].contamination = self.meter.finish();
        out.manifest.nodes[0].clock = self.calibration.sheet(self.readings);
        enter_without_rings(&mut out.manifest.losses, self.drain.without_rings());
        let phase = &mut out.manifest.phases[0];
        phase.kind = PhaseKind::Recorded {
            library: None,
            exit_code,
        };
        phase.end_ns = end_ns.max(phase.begin_ns);
        if let Some(error) = &view_trouble {
            let _ = out.note(view_ended_after(self.view_failed.unwrap_or(elapsed), error));
        }
        let trouble = self.trouble.or(view_trouble);
        if trouble.is_some() {
            // Save before building the tables, for which there may be no space. If this fails, an
            // earlier note stays on disk.
            let _ = out.save();
        }
        let gathered = gather_program(&mut out, &self.calibration).inspect_err(|error| {
            let _ = out.note(without_tables(error));
        })?;
        for sheet in &mut out.manifest.ranks {
            let first = sheet.threads.first();
            sheet.priority = first.and_then(|thread| self.priorities.get(thread).copied());
        }
        out.manifest.losses.enter(
            "files among the rings that could not be read",
            refused,
            "the records of their threads are missing",
            "check whether another program writes into the directory of IDLEWAVE_RINGS",
        );
        out.manifest.losses.enter(
            "threads that call MPI and ended, or are of a PID namespace out of sight, before their numbers in the kernel trace were known",
            unknown,
            "what delayed them is unknown",
            "start idlewave outside the container, or in the container of the ranks",
        );
        let phase = &mut out.manifest.phases[0];
        phase.kind = PhaseKind::Recorded {
            library: gathered.library.clone(),
            exit_code,
        };
        phase.begin_ns = gathered.first_init_ns.unwrap_or(phase.begin_ns);
        phase.end_ns = end_ns.max(phase.begin_ns);
        let unfinished = gathered.ranks - gathered.finalised;
        let incomplete = match (out.manifest.incomplete.take(), self.signal) {
            (Some(noted), _) => Some(noted),
            (None, Some(signal)) => Some(Incomplete::Signal(signal)),
            (None, None) if unfinished > 0 => Some(Incomplete::Error(format!(
                "{unfinished} of {} did not complete MPI_Finalize",
                counted(gathered.ranks, "rank")
            ))),
            (None, None) => None,
        };
        out.close(incomplete)?;
        spill::remove(out.path())?;
        forget_rings(out.path())?;
        Ok(NodeBundle {
            path: out.path().to_owned(),
            lock: self.lock,
            gathered,
            seen,
            trouble,
        })
    }
}

fn manifest(
    config: &NodeConfig,
    root: &Path,
    calibration: &Calibration,
    readings: Readings,
) -> Manifest {
    let now_ns = monotonic_ns();
    Manifest {
        schema: SchemaVersion::CURRENT,
        idlewave: env!("CARGO_PKG_VERSION").to_owned(),
        state: RunState::Recording,
        incomplete: None,
        command: config.command.clone(),
        started: Utc::now().rfc3339(),
        seed: 1,
        simulated: None,
        nodes: vec![NodeSheet {
            node: NodeId::new(0),
            host: read_host(root),
            clock: calibration.sheet(readings),
            trace: TraceSheet {
                mode: TraceMode::Off,
                unavailable: Vec::new(),
                cost: TraceCost::default(),
            },
            contamination: Contamination::default(),
            alignment: None,
        }],
        conditions: Default::default(),
        phases: vec![Phase {
            kind: PhaseKind::Recorded {
                library: None,
                exit_code: None,
            },
            begin_ns: now_ns,
            end_ns: now_ns,
        }],
        ranks: Vec::new(),
        losses: Ledger::default(),
        tables: Vec::new(),
    }
}
