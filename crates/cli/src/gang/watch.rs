//! `idlewave gang watch`: runs a program, and looks at what its ranks wait for.

use super::words::Words;
use crate::exit::{Exit, Failure};
use crate::report_failure;
use clap::Args;
use idlewave_interpose::state::DIRECTORY_VARIABLE;
use idlewave_interpose::write_library;
use idlewave_record::{Launch, Machine, Signals, descendants, find_launch, send, was_given};
use idlewave_units::Nanos;
use idlewave_watch::{Job, Watch};
use signal_hook::consts::{SIGKILL, SIGTERM};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How often it is looked whether the program has ended, or a signal is to be passed on.
const STEP: Duration = Duration::from_millis(20);
/// How long a job that is ended has before what is left of it is killed.
const PATIENCE: Duration = Duration::from_secs(3);
/// Where directories of state pages are, and how their names begin; the number of the process follows.
const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "idlewave-watch-";
/// Stands before the program in a launcher's command: on other nodes, and where the library is not, it changes nothing.
const SHIM: &str = "d=$0 l=$1 h=$2; shift 3; read -r here </proc/sys/kernel/hostname; \
    if [ \"$here\" = \"$h\" ] && [ -f \"$l\" ]; then \
    LD_PRELOAD=\"${LD_PRELOAD:+$LD_PRELOAD:}$l\"; IDLEWAVE_STATE=$d; export LD_PRELOAD IDLEWAVE_STATE; fi; exec \"$@\"";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave gang watch -- mpirun -n 2 ./app
  idlewave gang watch --kill --timeout 10min -- mpirun -n 2 ./app
  idlewave gang watch --json --interval 50ms -- mpirun -n 2 ./app

The exit code is the program's own; 6 where --kill has ended it because of
a deadlock, 124 where --timeout has.")]
pub struct WatchArgs {
    /// Time between two looks, from 10ms to 10s; a deadlock is told at the second look that shows it
    #[arg(
        long,
        default_value = "100ms",
        value_name = "TIME",
        allow_hyphen_values = true
    )]
    interval: Nanos,
    /// End the job when its ranks wait for each other (not where this rests on loops of tests)
    #[arg(long)]
    kill: bool,
    /// End the job after this time, from 10ms on
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    timeout: Option<Nanos>,
    /// Say on standard error as lines of JSON what is otherwise said in words
    #[arg(long)]
    json: bool,
    /// Words before the program in a launcher's command, the launcher included, where idlewave does not find it
    #[arg(long, value_name = "N")]
    at: Option<usize>,
    /// The command, with its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    program: Vec<OsString>,
}

/// Runs the command. Standard output is the program's own, so all our words go to standard error.
pub fn run_watch(args: &WatchArgs) -> ExitCode {
    match watched(args) {
        Ok(code) => code,
        Err(failure) => report_failure(&failure),
    }
}

fn watched(args: &WatchArgs) -> Result<ExitCode, Failure> {
    let interval = time(args.interval, "--interval", 10, Some(10_000))?;
    let timeout = args
        .timeout
        .map(|given| time(given, "--timeout", 10, None))
        .transpose()?;
    let mut signals = Signals::install()
        .map_err(|error| Failure::new(Exit::Other, format!("watch for signals: {error}")))?;
    let place = place()?;
    let child = start(args, &place)?;
    let mut run = Run {
        watch: Watch::new(place.path()),
        words: Words::new(args.json),
        child,
        place,
        ending: None,
    };
    let begun = Instant::now();
    let mut next = begun + interval;
    let mut ended = None;
    let status =
        loop {
            if let Some(status) = run.child.try_wait().map_err(|error| {
                Failure::new(Exit::Other, format!("wait for the program: {error}"))
            })? {
                break status;
            }
            let now = Instant::now();
            // What is being ended is told of as a deadlock no more.
            if now >= next && ended.is_none() {
                // Looks that were missed are not made up for.
                next = now + interval;
                if run.look() && args.kill {
                    ended = Some(Exit::Deadlock);
                    run.end();
                }
            }
            if timeout.is_some_and(|timeout| begun.elapsed() >= timeout) && ended.is_none() {
                ended = Some(Exit::TimeOut);
                run.words.timed_out(begun.elapsed());
                run.end();
            }
            for signal in signals.take_due() {
                send(run.child.id(), signal);
            }
            let asked = signals.asked_to_end().0;
            if asked > 1 || run.ending.is_some_and(|at| now >= at) {
                run.kill();
            }
            let left = next.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(STEP));
        };
    run.words.end(begun.elapsed());
    Ok(ended.map_or_else(|| own(status), ExitCode::from))
}

fn time(given: Nanos, option: &str, least: u64, most: Option<u64>) -> Result<Duration, Failure> {
    let ns = given.get();
    let ms = u128::from(ns) / 1_000_000;
    if ms < u128::from(least) || most.is_some_and(|most| ms > u128::from(most)) {
        let range = match most {
            Some(_) => "from 10ms to 10s",
            None => "10ms or more",
        };
        let what = format!("take {given} for {option}");
        return Err(Failure::new(Exit::Usage, what).with_next(format!("give {range}")));
    }
    Ok(Duration::from_nanos(ns))
}

/// The exit code of a shell for how a program ended.
fn own(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or(128 + status.signal().unwrap_or(0));
    ExitCode::from(code as u8)
}

/// A job that is watched.
struct Run {
    watch: Watch,
    words: Words,
    child: Child,
    place: TempDir,
    /// When what is left is killed.
    ending: Option<Instant>,
}

impl Run {
    /// Looks, and says what is new; whether ranks wait for each other without any doubt about loops of tests.
    fn look(&mut self) -> bool {
        match self.watch.look() {
            Ok(look) => {
                self.words.look(&look);
                matches!(&look.job, Job::Deadlocked(deadlock) if !deadlock.polling)
            }
            // The program is not to suffer from it.
            Err(error) => {
                self.words.trouble(&error.to_string());
                false
            }
        }
    }

    /// Asks the launcher to end the job.
    fn end(&mut self) {
        send(self.child.id(), SIGTERM);
        self.ending = Some(Instant::now() + PATIENCE);
    }

    /// Kills what is left of the job, and nothing else.
    fn kill(&mut self) {
        let ranks = self.watch.processes().into_iter().map(|of| of.pid);
        let own = self.place.path().as_os_str().to_owned();
        let ranks: Vec<u32> = ranks
            .filter(|&pid| was_given(pid, DIRECTORY_VARIABLE, &own))
            .collect();
        for pid in descendants(self.child.id()).into_iter().chain(ranks) {
            send(pid, SIGKILL);
        }
    }
}

/// A private directory for pages, in memory where there is some.
fn place() -> Result<TempDir, Failure> {
    let memory = Path::new(MEMORY);
    let directory = match memory.is_dir() {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    };
    sweep(&directory);
    let name = format!("{PREFIX}{}-", std::process::id());
    tempfile::Builder::new()
        .prefix(&name)
        .tempdir_in(&directory)
        .map_err(|error| {
            let what = format!("make a directory in {}: {error}", directory.display());
            Failure::new(Exit::Io, what).with_next("make room there")
        })
}

/// Removes what watches have left that were killed.
fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| {
            let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
            pid.parse::<u32>().ok()
        });
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // Those of other users stay.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn start(args: &WatchArgs, place: &TempDir) -> Result<Child, Failure> {
    let library = write_library(place.path()).map_err(|error| {
        Failure::new(Exit::Io, error.to_string()).with_next("make room in /dev/shm")
    })?;
    // It says itself what to do.
    let launch = find_launch(&args.program, args.at, &Machine)
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let mut command;
    match launch {
        Some(launch) => {
            let words = behind_shim(&launch, &args.program, place.path(), &library);
            command = Command::new(&words[0]);
            command.args(&words[1..]);
        }
        None => {
            let mut preload = std::env::var_os("LD_PRELOAD").unwrap_or_default();
            if !preload.is_empty() {
                preload.push(":");
            }
            preload.push(&library);
            command = Command::new(&args.program[0]);
            command.args(&args.program[1..]);
            command.env("LD_PRELOAD", preload);
            command.env(DIRECTORY_VARIABLE, place.path());
        }
    }
    let name = args.program[0].to_string_lossy();
    command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::new(Exit::NotFound, format!("start {name}: {error}"))
            .with_next("check the command's name and PATH"),
        _ => Failure::new(Exit::NotExecutable, format!("start {name}: {error}"))
            .with_next("check that the file may be executed, as with ls -l"),
    })
}

/// The launcher's command, with the library given to each program on this host.
fn behind_shim(
    launch: &Launch,
    command: &[OsString],
    place: &Path,
    library: &Path,
) -> Vec<OsString> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let words: [&OsStr; 7] = [
        OsStr::new("sh"),
        OsStr::new("-c"),
        OsStr::new(SHIM),
        place.as_os_str(),
        library.as_os_str(),
        OsStr::new(host.trim()),
        OsStr::new("--"),
    ];
    launch.with_shim(command, &words.map(OsStr::to_owned))
}
