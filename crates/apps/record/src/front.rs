//! `idlewave record -- COMMAND` from start to end.

use crate::child::{exit_code, find, start_into, when_ended};
use crate::error::RecordError;
use crate::merge::Front;
use crate::node::{KernelTrace, NodeBundle, NodeConfig, NodeRecorder, Seen};
use crate::nodes::Nodes;
use crate::nodes_join::{join_nodes, missing_ranks};
use crate::nodes_wait::Patience;
use crate::signals::Signals;
use crate::tree::{descendants, send, was_given};
use idlewave_interpose::ring::DIRECTORY_VARIABLE;
use idlewave_pipeline::{Analysis, Effort, PipelineError, analyse_locked, write_report};
use idlewave_run::RunReader;
use idlewave_session::{Lock, Progress, SessionError, Utc, complete_ranks};
use idlewave_sys::process::Signal;
use idlewave_units::Pid;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

/// The time between drains of the rings, unless one is half full earlier. Waking up then costs more
/// than draining: at 100 us per call a period of 50 ms took 0.23 % of two CPUs.
const PERIOD: Duration = Duration::from_millis(200);

/// How long to wait silently for a program that was asked to end.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a launcher that fetches bundles may be silent, normally and once the program was asked
/// to end.
const QUIET: Duration = Duration::from_secs(300);
const HURRIED: Duration = Duration::from_secs(30);

/// What to record.
#[derive(Debug)]
pub struct RecordOptions {
    /// Directory for the bundle; `None` for a new one named after the date.
    pub output: Option<PathBuf>,
    /// What to record of the kernel.
    pub trace: KernelTrace,
    /// Whether to explain the run and write the report afterwards.
    pub report: bool,
    /// Effort of its prediction.
    pub effort: Effort,
    /// Position of the program in the launcher's command, if it cannot be found.
    pub at: Option<usize>,
    /// The command to record.
    pub program: Vec<OsString>,
    /// The whole command line, for the manifest.
    pub command: Vec<String>,
    /// Whether the ranks of several nodes compare their clocks at the end of MPI_Init and at the
    /// start of MPI_Finalize, which takes a while.
    pub clocks: bool,
    /// For a command that nobody attends: the file for its output, standard and error. It then has
    /// no input, and processes of this node that outlive it are killed. `None`: it inherits the
    /// standard streams.
    pub unattended: Option<File>,
}

/// The result.
#[derive(Debug)]
pub struct Recorded {
    /// The bundle.
    pub path: PathBuf,
    /// Exit code of the program, or 128 plus the signal that ended it.
    pub exit_code: i32,
    /// Totals of the front's node.
    pub seen: Seen,
    /// Nodes in the bundle, if several were merged.
    pub merged: Option<usize>,
    /// Whether the launcher failed before it had started the program: then there is no bundle.
    pub never_started: bool,
    /// The explained run, if requested and possible.
    pub analysis: Option<Analysis>,
    /// Why the recording, or its analysis, is incomplete.
    pub trouble: Option<PipelineError>,
}

/// Records a command: starts it, waits for it, explains the recording.
///
/// # Errors
/// The program cannot be started. Later trouble is part of the result, as is the program's exit
/// code.
pub fn record(
    options: &RecordOptions,
    signals: &mut Signals,
    progress: &dyn Progress,
) -> Result<Recorded, RecordError> {
    let name = options.program.first().ok_or(RecordError::NoCommand)?;
    signals.program_begins();
    find(name)?;
    let path = options
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("idlewave-record-{}", Utc::now().for_file())));
    let mut nodes = Nodes::of(&options.program, options.at, &path, options.trace)?;
    if let Some(nodes) = nodes.as_mut().filter(|_| !options.clocks) {
        nodes.omit_clocks();
    }
    let mut recorder = NodeRecorder::start(NodeConfig {
        output: path.clone(),
        command: options.command.clone(),
        trace: options.trace,
    })?;
    if let Some(nodes) = nodes.as_ref().filter(|nodes| nodes.launch().guessed) {
        let program = nodes.launch().programs.first().map(|words| words.start);
        let word = program.and_then(|at| options.program.get(at));
        let word = word.map(|word| word.to_string_lossy()).unwrap_or_default();
        progress.note(&format!(
            "idlewave: an option of the launcher is unknown: `{word}` is assumed to be the program; if it is not, say \
             `--at N`, where N counts the words before it, the launcher included"
        ));
    }
    let environment = recorder.environment();
    let mut command = options.program.clone();
    if let Some(with_shim) = nodes.as_mut().map(|nodes| {
        nodes.own_node_is_ready(&as_text(&environment)?)?;
        nodes.command()
    }) {
        match with_shim {
            Ok(with_shim) => command = with_shim,
            Err(error) => {
                // This node is still recorded.
                progress.note(&format!("idlewave: other nodes are not recorded: {error}"));
                if let Some(nodes) = nodes.take() {
                    // No bundle will be put there; a failure to remove it is harmless.
                    let _ = nodes.forget();
                }
            }
        }
    }
    // With a shim, the processes get the environment from the shim: launchers would pass it to
    // nodes where the files it names do not exist.
    let environment = if nodes.is_some() {
        Vec::new()
    } else {
        environment
    };
    let child = match start_into(&command, &environment, options.unattended.as_ref()) {
        Ok(child) => child,
        Err(error) => {
            recorder.abandon();
            return Err(error);
        }
    };
    let status = watch(child, name, &mut recorder, signals, progress);
    if options.unattended.is_some() {
        for pid in recorded_processes(&recorder) {
            send(pid, Signal::KILL);
        }
    }
    let exit_code = exit_code(status);
    let stop = signals.program_has_ended();
    let seen = recorder.seen();
    let mut recorded = Recorded {
        path,
        exit_code,
        seen,
        merged: None,
        never_started: false,
        analysis: None,
        trouble: None,
    };
    match recorder.finish(exit_code) {
        Ok(bundle) => {
            let quiet = match signals.asked_to_end() {
                (0, _) => QUIET,
                _ => HURRIED,
            };
            let patience = Patience { stop, quiet };
            after(options, &mut recorded, bundle, nodes, patience, progress);
        }
        Err(error) => recorded.trouble = Some(error.into()),
    }
    Ok(recorded)
}

/// After the end of the program: the other nodes, the analysis, the report.
fn after(
    options: &RecordOptions,
    recorded: &mut Recorded,
    bundle: NodeBundle,
    nodes: Option<Nodes>,
    patience: Patience<'_>,
    progress: &dyn Progress,
) {
    recorded.seen = bundle.seen;
    recorded.trouble = bundle.trouble.map(PipelineError::from);
    let path = recorded.path.clone();
    let size = bundle.gathered.size;
    let mut lock = bundle.lock;
    let mut never_started = false;
    let mut nodes_merged = None;
    let finish = || -> Result<Option<Analysis>, PipelineError> {
        let joined = match nodes {
            Some(nodes) => join(
                options,
                recorded.exit_code,
                &path,
                nodes,
                patience,
                progress,
            )?,
            None => Joined::Nothing,
        };
        match joined {
            Joined::Merged(merged) => {
                lock = merged;
                nodes_merged = Some(RunReader::open(&path)?.manifest().nodes.len());
            }
            Joined::NeverStarted => {
                never_started = true;
                return Ok(None);
            }
            Joined::Nothing => {
                if let Some(size) = size {
                    let mut out = RunReader::open(&path)?.into_writer();
                    complete_ranks(&mut out.manifest, size);
                    out.save()?;
                }
            }
        }
        if !options.report {
            return Ok(None);
        }
        let analysis = analyse_locked(&path, &lock, options.effort, patience.stop, progress)?;
        progress.part("writing the report");
        write_report(&analysis, &path)?;
        Ok(Some(analysis))
    };
    match finish() {
        Ok(analysis) => recorded.analysis = analysis,
        Err(error) => {
            recorded.trouble.get_or_insert(error);
        }
    }
    let never_started = never_started && recorded.trouble.is_none();
    if never_started {
        // The bundle holds nothing of the program, and the next attempt can use its path. Whatever
        // is left of it is not a run.
        let _ = fs::remove_dir_all(&path);
    }
    recorded.never_started = never_started;
    recorded.merged = nodes_merged;
}

/// The outcome for the other nodes.
enum Joined {
    /// There are none.
    Nothing,
    /// The launcher has started nothing.
    NeverStarted,
    /// The merged bundle's lock.
    Merged(Lock),
}

/// Fetches the bundles of other nodes and merges them with this one's.
fn join(
    options: &RecordOptions,
    exit_code: i32,
    own: &Path,
    mut nodes: Nodes,
    patience: Patience<'_>,
    progress: &dyn Progress,
) -> Result<Joined, SessionError> {
    let stop = patience.stop;
    let fetched = nodes.fetch(exit_code != 0, patience, |others| {
        missing_ranks(std::iter::once(own).chain(others.iter().map(PathBuf::as_path)))
    });
    if fetched.bundles.is_empty() && fetched.losses.is_empty() {
        let _ = nodes.forget();
        return Ok(match fetched.never_started {
            true => Joined::NeverStarted,
            false => Joined::Nothing,
        });
    }
    let front = Front {
        command: options.command.clone(),
        exit_code: Some(exit_code),
        losses: fetched.losses,
    };
    let lock = join_nodes(own, &fetched.bundles, front, stop, progress)?;
    Ok(Joined::Merged(lock))
}

/// Drains the rings until the command has ended, whatever becomes of its children. Passes signals
/// on; the second termination signal kills the command.
fn watch(
    mut child: Child,
    name: &OsStr,
    recorder: &mut NodeRecorder,
    signals: &mut Signals,
    progress: &dyn Progress,
) -> ExitStatus {
    let process = Pid::new(child.id());
    let short = Path::new(name).file_name().unwrap_or(name);
    recorder.note_program(process, &short.to_string_lossy());
    let mut bell = recorder.bell();
    let ring = bell.clone();
    let ended = when_ended(child.id(), move || ring.ring());
    let (mut killed, mut told, mut first) = (false, false, None);
    // The loop ends with the thread's message, or with the thread; then `wait` below waits.
    while ended.try_recv() == Err(TryRecvError::Empty) {
        bell.wait(PERIOD);
        // Trouble is reported at the end; the program continues.
        let _ = recorder.drain();
        signals.pass_on(child.id());
        let (asked, last) = signals.asked_to_end();
        if let Some(signal) = last {
            recorder.note_signal(signal);
            let begun = *first.get_or_insert_with(Instant::now);
            if asked == 1 && !told && begun.elapsed() >= PATIENCE {
                told = true;
                progress.note(&format!(
                    "idlewave: the program continues after signal {signal}; waiting for it, a second signal kills it"
                ));
            }
        }
        if asked > 1 && !killed {
            killed = true;
            for pid in descendants(child.id())
                .into_iter()
                .chain(recorded_processes(recorder))
            {
                send(pid, Signal::KILL);
            }
        }
    }
    match child.wait() {
        Ok(status) => status,
        // Someone else has reaped it: its exit status is unknown.
        Err(_) => ExitStatus::from_raw(1 << 8),
    }
}

/// The living processes that the recorder knows, without others that reuse their PIDs.
fn recorded_processes(recorder: &NodeRecorder) -> Vec<u32> {
    let rings = recorder.rings().as_os_str();
    let known = recorder.processes().into_iter().map(|pid| pid.get());
    known
        .filter(|&pid| was_given(pid, DIRECTORY_VARIABLE, rings))
        .collect()
}

fn as_text(environment: &[(OsString, OsString)]) -> io::Result<Vec<(String, String)>> {
    let text = |word: &OsString| word.to_str().map(str::to_owned);
    let words = environment
        .iter()
        .map(|(name, value)| Some((text(name)?, text(value)?)));
    words
        .collect::<Option<_>>()
        .ok_or_else(|| io::Error::other("a path is not UTF-8"))
}
