//! The recorder of one node: it gives programs what they need to write rings, drains these into a bundle beside
//! the kernel's view, and ends with the bundle of the node. It knows nothing of launchers and of other nodes.

use idlewave_capture::host::{allowed_cpus, read_host};
use idlewave_capture::proc::ContaminationMeter;
use idlewave_clock::{Calibration, Counter, Readings, monotonic_ns};
use idlewave_interpose::ring::DIRECTORY_VARIABLE;
use idlewave_interpose::{Bell, write_library};
use idlewave_recording::{
    Drain, Gathered, KernelView, Lock, NewThread, RecordingError, Rings, Utc, forget_rings,
    gather_program, note_rings,
};
use idlewave_run::spill::{self, SpillWriter};
use idlewave_run::{
    Contamination, Incomplete, Ledger, Manifest, NodeSheet, Phase, PhaseKind, RunState, RunWriter,
    SchemaVersion, TraceCost, TraceMode, TraceSheet,
};
use idlewave_units::{Nanos, NodeId, Pid};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Libraries that the loader puts before all others (ld.so(8)).
pub(crate) const PRELOAD: &str = "LD_PRELOAD";

/// What to record, and where to.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Directory of the bundle; must not exist, or be empty.
    pub output: PathBuf,
    /// The command line of the recording, for the manifest.
    pub command: Vec<String>,
    /// Whether to record the kernel's view.
    pub trace: bool,
}

/// The recording of one node under way. Dropped without [`finish`](Self::finish) it leaves a bundle in state
/// `recording`, as after SIGKILL, and no rings.
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
    /// Why nothing more is recorded.
    trouble: Option<RecordingError>,
    signal: Option<i32>,
}

/// What a recording has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Since the start.
    pub elapsed: Nanos,
    /// Threads of ranks of this node.
    pub ranks: u32,
    /// Records of all rings.
    pub records: u64,
    /// Records for which a ring had no room.
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
    /// What the program was.
    pub gathered: Gathered,
    /// All that was seen.
    pub seen: Seen,
    /// Why the recording is not all there; the bundle is whole as far as it goes.
    pub trouble: Option<RecordingError>,
}

impl NodeRecorder {
    /// Makes the bundle and the rings, and starts to record the kernel's view.
    ///
    /// # Errors
    /// The bundle or the rings cannot be made. Nothing is left behind then.
    pub fn start(config: NodeConfig) -> Result<Self, RecordingError> {
        let root = Path::new("/");
        let cpus = allowed_cpus()?;
        let counter = Counter::choose(root);
        let readings = counter.measure()?;
        let calibration = Calibration::begin(counter);
        let mut rings = Rings::create()?;
        let bell = rings.bell()?;
        let library = rings.library_directory().and_then(|directory| {
            write_library(directory).map_err(|e| RecordingError::NotPossible {
                reason: e.to_string(),
                next: "make room in TMPDIR, or set it to another directory".to_owned(),
            })
        })?;
        let manifest = manifest(&config, root, &calibration, readings);
        let out = RunWriter::create(&config.output, manifest)?;
        let path = out.path().to_owned();
        let begin = move || {
            let lock = Lock::take(out.path())?;
            note_rings(out.path(), rings.path())?;
            let view = match config.trace {
                true => KernelView::start(root, out.path(), &cpus)?,
                false => KernelView::off("idlewave record"),
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
                trouble: None,
                signal: None,
            };
            recorder.out.manifest.nodes[0].trace.mode = recorder.view.mode();
            recorder.out.save()?;
            Ok(recorder)
        };
        begin().inspect_err(|_| {
            // It was made by this call and holds nothing yet; the error itself matters more.
            let _ = fs::remove_dir_all(&path);
        })
    }

    /// The directory of the rings: private, on this node.
    pub fn rings(&self) -> &Path {
        self.rings.path()
    }

    /// What a program of this node must find in its environment to be recorded: LD_PRELOAD (a preload that is there
    /// already is kept, before ours) and IDLEWAVE_RINGS.
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

    /// A process of the program was started: it and what descends from it are the program's.
    pub fn note_program(&mut self, process: Pid, name: &str) {
        self.view.note_program(process, name);
    }

    /// The program is ended by the user with this signal, so that the run is not all that it might have been.
    pub fn note_signal(&mut self, signal: i32) {
        self.signal.get_or_insert(signal);
    }

    /// What wakes whoever waits to [`drain`](Self::drain): it rings when a ring is half full, and for new threads and ranks.
    pub fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Takes what the rings hold; call it whenever the [`bell`](Self::bell) rings, and a few times a second.
    ///
    /// # Errors
    /// None: where the bundle cannot be written nothing is recorded from then on, the programs are not disturbed, and
    /// [`finish`](Self::finish) tells.
    pub fn drain(&mut self) -> Result<Seen, RecordingError> {
        if self.trouble.is_none() {
            let done = self.take(false);
            self.trouble = done.err();
        }
        self.meter.look_at_program(&self.drain.processes());
        Ok(self.seen())
    }

    /// What has been seen so far.
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

    fn take(&mut self, last: bool) -> Result<(), RecordingError> {
        let mut new: Vec<NewThread> = Vec::new();
        let round = if last {
            Drain::last_round
        } else {
            Drain::round
        };
        round(
            &mut self.drain,
            &mut self.calibration,
            &mut self.spill,
            &mut new,
        )?;
        if !new.is_empty() {
            self.watched.extend(new.iter().map(|thread| thread.thread));
            self.view.watch_program(&new, &self.watched)?;
        }
        Ok(())
    }

    /// Processes that write rings.
    pub fn processes(&self) -> Vec<Pid> {
        self.drain.processes()
    }

    /// Removes everything again: the program could not be started.
    pub fn abandon(self) {
        let path = self.out.path().to_owned();
        drop(self);
        // It was made by `start`; what is left of it is no run.
        let _ = fs::remove_dir_all(path);
    }

    /// The programs have ended: empties the rings, ends the kernel's view, makes the tables. The exit code is that of the
    /// command, where it is known.
    ///
    /// # Errors
    /// The tables cannot be written. The bundle is in state `recording` then; `idlewave explain` makes it whole when there
    /// is room.
    pub fn finish(
        mut self,
        exit_code: impl Into<Option<i32>>,
    ) -> Result<NodeBundle, RecordingError> {
        let end_ns = monotonic_ns();
        if self.trouble.is_none() {
            self.trouble = self.take(true).err();
        }
        let seen = self.seen();
        let refused = u64::from(self.drain.seen.refused);
        let mut out = self.out;
        let mut view = self.view;
        let unwatched = view.unwatch(&out).map_err(RecordingError::from);
        let viewed = view.stop(Path::new("/"), &mut out);
        let mut trouble = self.trouble.or(unwatched.err());
        match viewed {
            Ok(sheet) => out.manifest.nodes[0].trace = sheet,
            Err(error) => trouble = trouble.or(Some(error)),
        }
        out.manifest.nodes[0].contamination = self.meter.finish();
        out.manifest.nodes[0].clock = self.calibration.sheet(self.readings);
        let gathered = gather_program(&mut out, &self.calibration)?;
        out.manifest.losses.enter(
            "files among the rings that could not be read",
            refused,
            "what the threads did that made them is missing",
            "see whether another program writes into the directory of IDLEWAVE_RINGS",
        );
        let phase = &mut out.manifest.phases[0];
        phase.kind = PhaseKind::Recorded {
            library: gathered.library.clone(),
            exit_code: exit_code.into(),
        };
        phase.begin_ns = gathered.first_init_ns.unwrap_or(phase.begin_ns);
        phase.end_ns = end_ns.max(phase.begin_ns);
        let unfinished = gathered.ranks - gathered.finalised;
        let incomplete = match (&trouble, self.signal) {
            (Some(trouble), _) => Some(Incomplete::Error(trouble.to_string())),
            (None, Some(signal)) => Some(Incomplete::Signal(signal)),
            (None, None) if unfinished > 0 => Some(Incomplete::Error(format!(
                "{unfinished} of {} ranks did not come to the end of MPI_Finalize",
                gathered.ranks
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
