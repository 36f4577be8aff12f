//! Processes that count in a shared file, and the freezers that this machine has.

#![allow(dead_code)]

use idlewave_freeze::{FreezeError, Freezer, Kind, Watchdog};
use idlewave_units::{Nanos, Pid};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

#[path = "../../../../../tests/nodes/rig.rs"]
mod rig;

pub use rig::skip;

/// The variable that names what a child of a test does. If it is set, this program is that child.
pub const ACT: &str = "IDLEWAVE_FREEZE_ACT";
/// An unprivileged user.
pub const NOBODY: u32 = 65534;
/// Long enough for a running process to count.
pub const STILL: Duration = Duration::from_millis(40);
/// Long enough for a very busy machine.
pub const LIMIT: Nanos = Nanos::from_secs(300);

pub fn is_root() -> bool {
    idlewave_sys::Uid::own() == idlewave_sys::Uid::ROOT
}

/// All freezers that work on this machine; prints why others do not. Signals always work.
pub fn freezers() -> Vec<Freezer> {
    let mut found = vec![Freezer::Signals];
    for kind in [Kind::V2, Kind::V1] {
        match Freezer::of_kind(kind) {
            Ok(freezer) => found.push(freezer),
            Err(e) => skip(&e.to_string()),
        }
    }
    found
}

/// An act and its name; the act receives its argument.
pub type Named = (&'static str, fn(&str));

/// If this program is the child of a test, counts, or does one of these by name; otherwise nothing.
pub fn act(others: &[Named]) {
    let argument = std::env::var("IDLEWAVE_FREEZE_ARGUMENT").unwrap_or_default();
    match std::env::var(ACT) {
        Ok(act) if act == "count" => count(&argument),
        Ok(act) => others.iter().find(|(name, _)| *name == act).unwrap().1(&argument),
        Err(_) => {}
    }
}

/// A process of a test, killed at its end.
pub struct Act {
    child: Child,
    said: BufReader<ChildStdout>,
}

/// A command that runs this test program again, as an act with an argument.
pub fn command(act: &str, argument: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "acts_in_a_child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ACT, act)
        .env("IDLEWAVE_FREEZE_ARGUMENT", argument);
    command
}

impl Act {
    /// Starts it and waits until it says `ready`.
    pub fn start(command: &mut Command) -> Self {
        Self::start_saying(command, "ready").1
    }

    /// Starts it and waits until it says this word; returns what follows the word.
    pub fn start_saying(command: &mut Command, word: &str) -> (String, Self) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut act = Act { child, said };
        (act.hear(word), act)
    }

    /// Returns what it says after this word, on a line of its own or after output of the test
    /// harness.
    pub fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.said.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended before it said {word}");
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }

    pub fn pid(&self) -> Pid {
        Pid::new(self.child.id())
    }

    /// Sends `SIGKILL`, and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it ended by itself, without an error.
    pub fn ended_well(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Act {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Counters in a file, which processes increment.
pub struct Counters {
    file: File,
    dir: tempfile::TempDir,
}

impl Counters {
    /// Creates this many counters at zero; everyone may write.
    pub fn new(count: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let file = File::create_new(dir.path().join("counters")).unwrap();
        file.set_len(count * 8).unwrap();
        file.set_permissions(PermissionsExt::from_mode(0o666))
            .unwrap();
        let read = File::open(dir.path().join("counters")).unwrap();
        Counters { file: read, dir }
    }
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("counters")
    }
    pub fn all(&self) -> Vec<u64> {
        let mut bytes = vec![0; usize::try_from(self.file.metadata().unwrap().len()).unwrap()];
        self.file.read_exact_at(&mut bytes, 0).unwrap();
        let numbers = bytes.chunks_exact(8);
        numbers
            .map(|n| u64::from_ne_bytes(n.try_into().unwrap()))
            .collect()
    }
    /// Whether no counter changes for that long.
    pub fn stand_still(&self, duration: Duration) -> bool {
        let before = self.all();
        thread::sleep(duration);
        self.all() == before
    }
    /// Waits until every counter has increased.
    #[track_caller]
    pub fn await_progress(&self) {
        let before = self.all();
        await_that("all make progress", || {
            self.all().iter().zip(&before).all(|(a, b)| a > b)
        });
    }
    /// A process with that many threads, each with its counter.
    pub fn busy(&self, threads: u64) -> Act {
        Act::start(&mut self.command(threads))
    }
    pub fn command(&self, threads: u64) -> Command {
        command("count", &format!("{threads} {}", self.path().display()))
    }
}

/// Waits for a condition that is certain to come true.
#[track_caller]
pub fn await_that(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT.to_duration();
    while !condition() {
        assert!(Instant::now() < end, "in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Counts with several threads into a file, until it is killed or [`LIMIT`] is over.
pub fn count(argument: &str) {
    let (threads, path) = argument.split_once(' ').unwrap();
    let threads: u64 = threads.parse().unwrap();
    let end = idlewave_freeze::clock::now() + LIMIT;
    thread::scope(|scope| {
        for index in 0..threads {
            let file = File::options().write(true).open(path).unwrap();
            scope.spawn(move || {
                let mut n = 0_u64;
                while idlewave_freeze::clock::now() < end {
                    n += 1;
                    file.write_at(&n.to_ne_bytes(), index * 8).unwrap();
                }
            });
        }
        println!("\nready");
    });
}

/// A watchdog that is this test program.
pub fn watchdog() -> Result<Watchdog, FreezeError> {
    Watchdog::start(&mut command("watch", ""))
}

/// The state letters of all threads of a process.
pub fn states(pid: Pid) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .map(|task| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
        })
        .collect()
}

/// Names of groups that this process made in the freezer's parent and did not remove.
pub fn left_behind(freezer: &Freezer, owner: Pid) -> Vec<String> {
    let Some(parent) = freezer.parent() else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(parent).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    names
        .filter(|n| n.starts_with("idlewave-freeze.") && n.contains(&format!(".{owner}.")))
        .collect()
}

/// The lines of `/proc/PID/cgroup`.
pub fn cgroups(pid: Pid) -> String {
    std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("cgroup")).unwrap()
}

/// A control group that a test made, removed at its end.
pub struct Given(pub PathBuf);

impl Given {
    pub fn new(parent: &Path, what: &str) -> Self {
        let directory = parent.join(format!("idlewave-test-{what}.{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        Given(directory)
    }
    pub fn enter(&self, pid: Pid) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        for _ in 0..1_000 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Ends a process that this test started.
pub fn end(pid: Pid) {
    let _ = Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .stderr(Stdio::null())
        .status();
}
