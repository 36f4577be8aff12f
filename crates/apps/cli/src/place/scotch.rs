//! Rank orders from `gmap` of Scotch, the only program that `idlewave place` starts, and only on
//! request.
//!
//! F. Pellegrini, "Scotch and libScotch user's guide", section "gmap". All its files are in a
//! private directory that is always removed; a process that takes too long is killed by its PID.

use crate::exit::{Exit, Failure};
use clap::Args;
use idlewave_network::Program;
use idlewave_place::{Mapping, read_scotch_mapping, scotch_graph, scotch_target};
use idlewave_session::Stop;
use idlewave_sys::files;
use idlewave_units::Nanos;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The program's names, in order of preference: in Debian, `gmap` is a program of another package,
/// which aligns genomes.
const NAMES: [&str; 2] = ["scotch_gmap", "gmap"];
/// The time between two checks whether gmap has ended: it takes 5 ms for small programs.
const POLL: Duration = Duration::from_millis(2);
/// A line of a mapping has two numbers of at most ten digits.
const LONGEST_LINE: u64 = 32;

/// Options of `idlewave place` for Scotch.
#[derive(Debug, Args)]
pub struct ScotchArgs {
    /// Also try rank orders from the gmap program of Scotch [default program: scotch_gmap or gmap]
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, require_equals = true)]
    pub scotch: Option<Option<PathBuf>>,
    /// Time limit for all runs of gmap together
    #[arg(long, default_value = "60s", requires = "scotch", value_name = "TIME")]
    pub scotch_limit: Nanos,
}

impl ScotchArgs {
    /// The program to run, if requested.
    ///
    /// # Errors
    /// No such program was found.
    pub fn program(&self) -> Result<Option<PathBuf>, Failure> {
        match &self.scotch {
            None => Ok(None),
            Some(Some(program)) => Ok(Some(program.clone())),
            Some(None) => match NAMES.iter().find_map(|name| in_path(name)) {
                Some(program) => Ok(Some(program)),
                None => Err(missing(&format!("{} and {}", NAMES[0], NAMES[1]))),
            },
        }
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::var_os("PATH")?;
    let executable = |file: &PathBuf| {
        let meta = file.metadata();
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(executable)
}

fn missing(what: &str) -> Failure {
    let what = format!("ask Scotch for an order of ranks: {what} not found");
    let next =
        "install the package scotch (apt install scotch), or give its gmap with --scotch=PROGRAM";
    Failure::new(Exit::NotPossible, what).with_next(next)
}

/// What all runs share.
struct Asked<'a> {
    program: &'a Path,
    directory: &'a Path,
    ranks: u32,
    limit: Nanos,
    deadline: Option<Instant>,
    stop: &'a Stop,
    /// The first failure; it makes the other runs pointless.
    failed: OnceLock<Failure>,
}

/// Computes an order of the ranks for each of these layouts, with as many runs of the program at
/// once as there are CPUs.
///
/// # Errors
/// The program cannot be started, fails, takes too long or returns something other than an order;
/// its files cannot be written; a request to stop.
pub fn orders(
    args: &ScotchArgs,
    program: &Path,
    of: &Program,
    layouts: &[Vec<u32>],
    stop: &Stop,
) -> Result<Vec<Mapping>, Failure> {
    let directory = tempfile::Builder::new()
        .prefix("idlewave-scotch-")
        .tempdir()
        .map_err(no_place)?;
    files::write_new(&directory.path().join("graph"), scotch_graph(of).as_bytes())
        .map_err(no_place)?;
    let limit = args.scotch_limit;
    let asked = Asked {
        program,
        directory: directory.path(),
        ranks: of.ranks(),
        limit,
        deadline: Instant::now().checked_add(Duration::from_nanos(limit.get())),
        stop,
        failed: OnceLock::new(),
    };
    let next = AtomicUsize::new(0);
    let some = || {
        let mut mappings = Vec::new();
        while asked.failed.get().is_none() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(sizes) = layouts.get(at) else { break };
            match asked.map(at, sizes) {
                Ok(mapping) => mappings.push(mapping),
                // Ignored if another failure was first: that one is the cause.
                Err(failure) => drop(asked.failed.set(failure)),
            }
        }
        mappings
    };
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut mappings = Vec::new();
    std::thread::scope(|scope| {
        let threads = (0..cpus.min(layouts.len())).map(|_| scope.spawn(some));
        // Start all before joining the first. The results of a thread that panicked are missing;
        // its panic message says so.
        for thread in threads.collect::<Vec<_>>() {
            mappings.extend(thread.join().unwrap_or_default());
        }
    });
    if let Some(failure) = asked.failed.into_inner() {
        return Err(failure);
    }
    // Dropping the directory would hide a failure to remove it.
    directory.close().map_err(no_place)?;
    Ok(mappings)
}

fn no_place(error: io::Error) -> Failure {
    let what = format!("write files for Scotch: {error}");
    let next = "set TMPDIR to a directory for temporary files";
    Failure::new(Exit::Io, what).with_next(next)
}

impl Asked<'_> {
    fn failure(&self, why: impl std::fmt::Display) -> Failure {
        let what = format!(
            "ask {} for an order of ranks: {why}",
            self.program.display()
        );
        let next = "check that it is gmap of Scotch 6 or newer, or omit --scotch";
        Failure::new(Exit::NotPossible, what).with_next(next)
    }

    fn map(&self, number: usize, sizes: &[u32]) -> Result<Mapping, Failure> {
        let file = |what: &str| self.directory.join(format!("{what}.{number}"));
        let [target, mapping, said] = ["target", "mapping", "said"].map(file);
        files::write_new(&target, scotch_target(sizes).as_bytes()).map_err(no_place)?;
        let child = Command::new(self.program)
            .arg(self.directory.join("graph"))
            .args([&target, &mapping])
            .args([OsStr::new("/dev/null"), OsStr::new("-b0")])
            // With several threads, its results differ from run to run.
            .env("SCOTCH_PTHREAD_NUMBER", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(files::create(&said).map_err(no_place)?)
            // Ctrl-C goes to this process, which ends the child cleanly.
            .process_group(0)
            .spawn();
        let child = child.map_err(|error| match error.kind() {
            ErrorKind::NotFound => missing(&self.program.display().to_string()),
            _ => self.failure(error),
        })?;
        let status = self.wait(child)?;
        if !status.success() {
            return Err(self.failure(how_ended(status, &said)));
        }
        let most = (u64::from(self.ranks) + 2) * LONGEST_LINE;
        let text = match read_at_most(&mapping, most) {
            Ok(text) => text,
            Err(error) => return Err(self.failure(format!("it wrote no mapping: {error}"))),
        };
        let mapping = read_scotch_mapping(&text);
        let mapping = mapping.and_then(|node_of| Mapping::new(sizes.to_vec(), node_of));
        mapping.map_err(|error| self.failure(format!("its output is not a valid order: {error}")))
    }

    /// Waits for a process to end, and kills it if that takes too long or its result is no longer
    /// needed.
    fn wait(&self, mut child: Child) -> Result<ExitStatus, Failure> {
        let why = loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => break self.failure(error),
            }
            if self.stop.is_requested() {
                break Failure::new(Exit::Other, "ask Scotch for an order of ranks: interrupted");
            }
            if self.failed.get().is_some() {
                break self.failure("another run failed");
            }
            if self.deadline.is_some_and(|end| Instant::now() >= end) {
                let late = self.failure(format!("it takes longer than {}", self.limit));
                break late.with_next("allow more time with --scotch-limit, or omit --scotch");
            }
            std::thread::sleep(POLL);
        };
        // It may have ended meanwhile, which is fine.
        let _ = child.kill();
        let _ = child.wait();
        Err(why)
    }
}

/// Describes how a process failed, with the first line of its messages.
fn how_ended(status: ExitStatus, said: &Path) -> String {
    const MOST: usize = 120;
    let ended = match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with code {code}"),
        (None, Some(signal)) => format!("signal {signal} ended it"),
        (None, None) => "it failed".to_owned(),
    };
    let said = read_at_most(said, 4_096).unwrap_or_default();
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    let printable = |c: &char| !c.is_control();
    match line {
        Some(line) => {
            let line: String = line.chars().filter(printable).take(MOST).collect();
            format!("{ended}: {line}")
        }
        None => ended,
    }
}

fn read_at_most(file: &Path, bytes: u64) -> io::Result<String> {
    let mut read = Vec::new();
    File::open(file)?.take(bytes).read_to_end(&mut read)?;
    Ok(String::from_utf8_lossy(&read).into_owned())
}
