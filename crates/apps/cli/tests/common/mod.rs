//! Shared by the tests of the command: running it with a time limit, and a recorded bundle.

// Each test program uses only a part of it.
#![allow(dead_code, clippy::unwrap_used)]

use idlewave_mpi::testing::launcher_failed;
use idlewave_sys::Uid;
use idlewave_sys::process::{Signal, send};
use idlewave_units::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A command that takes longer counts as hung.
const LIMIT: Duration = Duration::from_secs(600);

/// The command, with minimal effort for predictions: no test here depends on their precision.
pub fn idlewave() -> Command {
    command_at(Path::new(env!("CARGO_BIN_EXE_idlewave")))
}

/// The same for a copy of its program, such as that of [`program_for_all`].
pub fn command_at(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("IDLEWAVE_EFFORT", "0.0001")
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null());
    command
}

/// The command's program where every user may start it: copied into `dir` if its directory is
/// private, as in a clone in a home directory.
pub fn program_for_all(dir: &Path) -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_idlewave"));
    let open = |dir: &Path| fs::metadata(dir).is_ok_and(|of| of.mode() & 0o001 != 0);
    if program.ancestors().skip(1).all(open) {
        return program;
    }
    let copied = dir.join("idlewave");
    copy_program(&program, &copied);
    copied
}

/// Copies a program by another process: a file that is open for writing, even in a child that
/// another thread has just started, cannot be executed.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// The output of a command, and how it ended.
#[derive(Debug)]
pub struct Ended {
    pub pid: u32,
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Asserts the documented form of a failure: this exit code, one line with what failed, one
    /// with the next step, and nothing else. Returns both.
    #[track_caller]
    pub fn failed(&self, code: i32) -> [String; 2] {
        assert_eq!(self.code, Some(code), "{self:?}");
        let lines: Vec<&str> = self.stderr.lines().collect();
        let &[what, next] = lines.as_slice() else {
            panic!("not one line and a next step: {self:?}")
        };
        let what = what.strip_prefix("idlewave: failed to ").expect(what);
        let next = next.strip_prefix("next step: ").expect(next);
        [what.to_owned(), next.to_owned()]
    }

    /// The same after other output, such as the expected size of a study.
    #[track_caller]
    pub fn failed_at_last(&self, code: i32) -> [String; 2] {
        let lines: Vec<&str> = self.stderr.lines().collect();
        let last = lines.len().saturating_sub(2);
        let ended = Self {
            pid: self.pid,
            code: self.code,
            stdout: self.stdout.clone(),
            stderr: lines[last..].join("\n"),
        };
        ended.failed(code)
    }

    /// Asserts success.
    #[track_caller]
    pub fn succeeded(&self) {
        assert_eq!(self.code, Some(0), "{self:?}");
    }
}

/// Runs a command to its end; fails the test if it hangs.
#[track_caller]
pub fn run(command: &mut Command) -> Ended {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait(child)
}

/// Runs a recording of an MPI program into `path` to its end, and again if the launcher failed by
/// itself, as on a busy machine.
#[track_caller]
pub fn run_recording(command: &mut Command, path: &Path) -> Ended {
    for _ in 0..4 {
        let ended = run(command);
        if !launcher_failed(&ended.stderr) {
            return ended;
        }
        let _ = fs::remove_dir_all(path);
    }
    run(command)
}

/// The signals of a process that a line of /proc/PID/status names, as bits; 0 if it has ended.
fn signals_of(pid: u32, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix(line));
    mask.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap())
}

/// Waits until a process has a handler for a signal, or has ended.
pub fn await_handler(child: &mut Child, signal: Signal) {
    let begin = Instant::now();
    while signals_of(child.id(), "SigCgt:") & 1 << (signal.as_raw() - 1) == 0 {
        if child.try_wait().unwrap().is_some() {
            return;
        }
        assert!(begin.elapsed() < LIMIT, "no handler of {signal:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a signal has reached a process: before that, a second one would merge with it.
pub fn await_delivery(pid: u32, signal: Signal) {
    let begin = Instant::now();
    let pending = || signals_of(pid, "SigPnd:") | signals_of(pid, "ShdPnd:");
    while pending() & 1 << (signal.as_raw() - 1) != 0 {
        assert!(begin.elapsed() < LIMIT, "{signal:?} does not arrive");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a child that was not waited for, so its PID is still valid.
#[track_caller]
pub fn signal(child: &Child, signal: Signal) {
    send(Pid::new(child.id()), signal).unwrap();
}

/// The command line of a process, and where each of its threads hangs.
fn what_hangs(pid: u32) -> String {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let mut told = read(format!("/proc/{pid}/cmdline")).replace('\0', " ");
    for thread in fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
    {
        let thread = thread.unwrap().path();
        for file in ["stat", "syscall", "wchan"] {
            let text = read(format!("{}/{file}", thread.display()));
            told += &format!("\n{file}: {}", text.trim());
        }
    }
    told
}

/// Waits for a command whose outputs are piped.
#[track_caller]
pub fn wait(mut child: Child) -> Ended {
    let drain = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let stdout = drain(child.stdout.take().map(|p| Box::new(p) as _));
    let stderr = drain(child.stderr.take().map(|p| Box::new(p) as _));
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > LIMIT {
            let hung = what_hangs(child.id());
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("hangs: {hung}\n{}", stderr.join().unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ended {
        pid: child.id(),
        code: status.code(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

/// The short study that most tests work on, explained and reported: recorded once per test program,
/// and by `./check` once for all of them.
pub fn bundle() -> &'static Path {
    static BUNDLE: OnceLock<PathBuf> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
        // Leftovers of earlier test programs: they have no way to clean up when they exit.
        for entry in fs::read_dir(all).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            // Files derived from a bundle, beside it, have an extension.
            let owner = name
                .strip_prefix("bundle-")
                .and_then(|n| n.split('.').next());
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let check = std::env::var("IDLEWAVE_CHECK").ok();
        let owner = check.unwrap_or_else(|| std::process::id().to_string());
        let path = all.join(format!("bundle-{owner}"));
        // The first process records the bundle; the others wait for it.
        let lock = fs::File::open(all).unwrap();
        // Closing the file releases the lock.
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        if !path.join("report.html").exists() {
            let _ = fs::remove_dir_all(&path);
            run(&mut study(&path)).succeeded();
        }
        path
    })
}

/// A directory with `run`, a lockstep run under known noise. A recorded study may allow no model:
/// if others keep the CPUs busy, no time is left for the ranks.
pub fn lockstep() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let noise = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../docs/examples/noise.toml"
    );
    let stencil = ["simulate", "stencil", "--noise", noise, "--ranks", "4"];
    let steps = ["--steps", "1000", "--replications", "2", "-o", "run"];
    let made = run(idlewave().args(stencil).args(steps).current_dir(&dir));
    made.succeeded();
    dir
}

/// The shortest possible study, with few iterations.
pub fn study(output: &Path) -> Command {
    study_with(&["--duration=2s", "--work=200us"], output)
}

/// A study with these options.
pub fn study_with(options: &[&str], output: &Path) -> Command {
    let mut command = idlewave();
    command.arg("study").args(options).arg("-o").arg(output);
    command
}

/// `explain` or `report` of a bundle.
pub fn again(what: &str, bundle: &Path) -> Ended {
    run(idlewave().arg(what).arg(bundle))
}

/// Commands of the `console` blocks of a page.
pub fn commands_of_page(page: &str) -> Vec<String> {
    let blocks = page.split("```console\n").skip(1);
    blocks
        .flat_map(|b| b.split("```").next().unwrap_or_default().lines())
        .filter_map(|line| line.strip_prefix("$ "))
        .map(str::to_owned)
        .collect()
}

/// Copies a directory with its contents.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// All files below a directory with their bytes, by name.
pub fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

/// Tracefs instances created by a process of this program.
pub fn instances_of(pid: u32) -> Vec<PathBuf> {
    let Ok(instances) = fs::read_dir("/sys/kernel/tracing/instances") else {
        return Vec::new();
    };
    // idlewave-<PID namespace>-<process>-<its start>-<number>
    let owner = pid.to_string();
    let paths = instances.flatten().map(|entry| entry.path());
    paths
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let parts: Vec<&str> = name.split('-').collect();
            parts.len() == 5 && parts[0] == "idlewave" && parts[2] == owner
        })
        .collect()
}

/// Whether this process has root's rights.
pub fn is_root() -> bool {
    Uid::own() == Uid::ROOT
}

/// Whether a program can be started.
pub fn has(program: &str) -> bool {
    let version = Command::new(program).arg("--version").output();
    version.is_ok_and(|o: Output| o.status.success())
}

/// A separate file system mounted on a directory; unmounted when dropped.
pub struct Mount(PathBuf);

impl Mount {
    /// Mounts with the arguments of mount(8) at `target`; returns the reason if that is not
    /// possible.
    pub fn new(args: &[&str], target: &Path) -> Result<Self, String> {
        if !is_root() {
            return Err("mounting needs root".to_owned());
        }
        let done = Command::new("mount").args(args).arg(target).output();
        let done = done.map_err(|e| format!("mount: {e}"))?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into_owned());
        }
        Ok(Self(target.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Unmount lazily, which works even if a failed test left a file open.
        let done = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(done.is_ok_and(|s| s.success()) || std::thread::panicking());
    }
}
