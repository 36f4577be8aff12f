//! Precedes the program in the launcher's command: `idlewave node-run TOKEN -- PROGRAM`.
//!
//! On a node with a running recorder it becomes the program. Otherwise it elects one process of the
//! node, which starts the recorder and the program, and waits for both; the others become the
//! program once the recorder runs. Whatever fails in idlewave, the program still runs.
//!
//! Launchers signal the whole process group, or all processes of a step, so the program gets their
//! signals directly: the waiting process blocks them, and passes on only those that were sent to it
//! alone and would end the program.

use crate::node::PRELOAD;
use crate::node_job::Job;
use crate::node_place::{Held, Place};
use crate::node_record::PERIOD;
use crate::tree::send;
use idlewave_interpose::write_library;
use idlewave_session::NodeFacts;
use idlewave_sys::files;
use idlewave_sys::process::Signal;
use idlewave_sys::terminal::say;
use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long programs wait for their node's recorder. It takes about 0.1 s; with fifteen busy
/// threads per CPU it took more than 10 s.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a signal may take to reach the program directly.
const BY_ITSELF: Duration = Duration::from_millis(100);

/// Runs `program`, recorded according to `token`. Returns its exit code, or does not return.
pub fn node_run(token: &str, program: &[OsString]) -> i32 {
    let Some(job) = Job::decode(token) else {
        say("idlewave: `node-run` is not meant to be called by hand: its token is damaged\n");
        return 2;
    };
    if program.is_empty() {
        say("idlewave: no program behind `node-run TOKEN --`\n");
        return 2;
    }
    match join(&job) {
        Ok(Part::Recorded { place, environment }) => {
            let code = exec(program, &with_library(environment));
            // The program was not started after all.
            place.unregister(std::process::id());
            code
        }
        Ok(Part::Leader { place, held }) => lead(&job, token, &place, &held, program),
        Err(error) => {
            warn(&error);
            exec(program, &with_library(job.environment()))
        }
    }
}

/// The environment of a rank, which must have the library also if its node is not recorded: the
/// ranks of other nodes compare clocks with all ranks in MPI_Init, and would wait forever. Without
/// a file of the library, it is in one that this process, and what it executes, keep open.
fn with_library(mut environment: Vec<(String, String)>) -> Vec<(String, String)> {
    let lacks = !environment.is_empty() && environment.iter().all(|(name, _)| name != PRELOAD);
    let library = || -> io::Result<String> {
        let file = memfd_create("libidlewave_interpose.so", MemfdFlags::empty())?;
        let mut file = File::from(file);
        file.write_all(idlewave_interpose::library())?;
        Ok(format!("/proc/self/fd/{}", file.into_raw_fd()))
    };
    match lacks.then(library) {
        Some(Ok(library)) => environment.push((PRELOAD.to_owned(), library)),
        Some(Err(error)) => warn(&error),
        None => {}
    }
    environment
}

fn warn(error: &io::Error) {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    say(&format!(
        "idlewave: node {} is not recorded: {error}\n",
        host.trim()
    ));
}

/// The role of this process on its node.
enum Part {
    /// A program with the recorder's environment.
    Recorded {
        place: Place,
        environment: Vec<(String, String)>,
    },
    /// The process that starts the recorder.
    Leader { place: Place, held: Held },
}

fn join(job: &Job) -> io::Result<Part> {
    let place = Place::open(job)?;
    let begin = Instant::now();
    loop {
        if place.is_over() {
            return Err(io::Error::other("its recorder has ended already"));
        }
        if let Some(environment) = place.ready() {
            place.register(std::process::id())?;
            return Ok(Part::Recorded { place, environment });
        }
        if let Some(held) = place.elect()? {
            return Ok(Part::Leader { place, held });
        }
        if begin.elapsed() > PATIENCE {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "its recorder does not start",
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Executes the program.
fn exec(program: &[OsString], environment: &[(String, String)]) -> i32 {
    let error = command(program, environment).exec();
    cannot_start(program, &error)
}

fn command(program: &[OsString], environment: &[(String, String)]) -> Command {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]);
    for (name, value) in environment {
        match name.as_str() {
            PRELOAD => command.env(name, preload(std::env::var_os(PRELOAD), value)),
            _ => command.env(name, value),
        };
    }
    command
}

/// The launcher's own preload for this process (as with `mpirun -x LD_PRELOAD=...`), and our
/// library, the last one in the recorder's `given`.
fn preload(own: Option<OsString>, given: &str) -> OsString {
    let mut preload = own.unwrap_or_default();
    if !preload.is_empty() {
        preload.push(":");
    }
    preload.push(given.rsplit(':').next().unwrap_or(given));
    preload
}

/// Reports the error, and returns the exit code that a shell would.
fn cannot_start(program: &[OsString], error: &io::Error) -> i32 {
    say(&format!(
        "idlewave: failed to start {}: {error}\n",
        program[0].to_string_lossy()
    ));
    if error.kind() == io::ErrorKind::NotFound {
        127
    } else {
        126
    }
}

/// Starts recorder and program, waits for both, hands over the bundle. Without a recorder it waits
/// for all programs of the node, as they need its library.
fn lead(job: &Job, token: &str, place: &Place, held: &Held, program: &[OsString]) -> i32 {
    let bundle = bundle_directory(job);
    let (recorder, environment) = match start_recorder(token, place, held, &bundle) {
        Ok((recorder, environment)) => (Some(recorder), environment),
        Err(error) => {
            warn(&error);
            let _ = fs::remove_dir_all(&bundle);
            let mut environment = job.environment();
            if let Ok(library) = write_library(place.path()) {
                let library = library.to_string_lossy().into_owned();
                environment.push((PRELOAD.to_owned(), library));
            }
            // This way the others do not wait for the recorder.
            let _ = place.set_ready(&environment);
            (None, with_library(environment))
        }
    };
    let signals = Signals::block();
    let mut command = command(program, &environment);
    // SAFETY: between fork and exec only prctl and sigprocmask are called, which are
    // async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            // The program ends with the process that the launcher knows.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Signals::unblock();
            Ok(())
        });
    }
    let ended = match command.spawn() {
        Ok(mut program) => {
            // If the program is gone already, there is nothing to wait for.
            let _ = place.register(program.id());
            signals.wait(&mut program)
        }
        Err(error) => {
            let code = cannot_start(program, &error);
            Ok(ExitStatus::from_raw(code << 8))
        }
    };
    place.release_leader();
    let handed_over = match recorder {
        Some(mut recorder) => {
            let ended = recorder.wait();
            hand_over(job, place, &bundle).and(ended.map(drop))
        }
        None => {
            while place.is_anybody_left() {
                std::thread::sleep(PERIOD);
            }
            place.remove()
        }
    };
    if let Err(error) = handed_over {
        warn(&error);
    }
    match ended {
        Ok(status) => end_like(status),
        Err(error) => {
            warn(&error);
            1
        }
    }
}

/// Most bytes read from a recorder's log.
const LONGEST_LOG: u64 = 16 << 20;

/// Path of the node's bundle: on a local file system.
fn bundle_directory(job: &Job) -> PathBuf {
    std::env::temp_dir().join(format!("idlewave-bundle-{}-{}", job.id, std::process::id()))
}

/// Starts the recorder in a session of its own, so that signals for the program do not reach it.
fn start_recorder(
    token: &str,
    place: &Place,
    held: &Held,
    bundle: &Path,
) -> io::Result<(Child, Vec<(String, String)>)> {
    DirBuilder::new().mode(0o700).create(bundle)?;
    place.set_bundle(bundle, &NodeFacts::here())?;
    let log = files::create_over(&place.path().join("log"))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args([
        OsStr::new("node-record"),
        OsStr::new(token),
        bundle.as_os_str(),
    ]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    let lock = held.file().as_raw_fd();
    // SAFETY: any bit pattern is a valid set of CPUs.
    let all: libc::cpu_set_t =
        unsafe { std::mem::transmute([0xFF_u8; size_of::<libc::cpu_set_t>()]) };
    // SAFETY: between fork and exec only sched_setaffinity, setsid and fcntl are called, which are
    // async-signal-safe; the descriptor is open in the child as it is here, and the set lives
    // through the call.
    unsafe {
        command.pre_exec(move || {
            // The launcher has bound this process to the CPUs of one rank, but the recorder must
            // see the whole node. The kernel reduces all CPUs to those that the job may use.
            libc::sched_setaffinity(0, size_of_val(&all), &all);
            libc::setsid();
            // The child inherits the lock on purpose: the node has a recorder as long as the child
            // lives.
            libc::fcntl(lock, libc::F_SETFD, 0);
            Ok(())
        });
    }
    let mut recorder = command.spawn()?;
    let begin = Instant::now();
    loop {
        if let Some(environment) = place.ready() {
            return Ok((recorder, environment));
        }
        if recorder.try_wait()?.is_some() {
            let log = files::read(&place.path().join("log"), LONGEST_LOG).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            return Err(io::Error::other(match log.lines().last() {
                Some(last) => format!("its recorder ended: {last}"),
                None => "its recorder ended".to_owned(),
            }));
        }
        if begin.elapsed() > PATIENCE {
            let _ = recorder.kill();
            let _ = recorder.wait();
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "its recorder does not start",
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Name of a node's bundle among those of others: the host's, made unique.
pub(crate) fn node_name(place: &Place, facts: &NodeFacts) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let host: String = facts
        .host
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .take(100)
        .collect();
    let apart = place
        .path()
        .file_name()
        .unwrap_or_default()
        .as_encoded_bytes();
    let boot = facts.boot_id.as_bytes();
    let unique = crc32fast::hash(&[apart, boot, facts.host.as_bytes()].concat());
    format!("{}-{unique:08x}", host.trim_start_matches('.'))
}

/// Moves the bundle to where the front finds it, if the front's directory is visible here;
/// otherwise it stays, to be sent.
fn hand_over(job: &Job, place: &Place, bundle: &Path) -> io::Result<()> {
    let facts = NodeFacts::here();
    files::replace(&bundle.join("node.json"), &serde_json::to_vec(&facts)?)?;
    if !job.sees_incoming() {
        return Ok(());
    }
    // Processes that come after the node's recorder has ended are recorded by another one.
    let name = node_name(place, &facts);
    let part = job.incoming().join(format!("{name}.part"));
    copy(bundle, &part)?;
    let names = std::iter::once(name.clone()).chain((2..).map(|n| format!("{name}-{n}")));
    for name in names.take(1_000) {
        let to = job.incoming().join(name);
        if !to.exists() {
            fs::rename(&part, &to)?;
            break;
        }
    }
    fs::remove_dir_all(bundle)?;
    place.remove()
}

/// Copies a directory of files, and of directories of files.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            io::copy(&mut files::open(&entry.path())?, &mut files::create(&to)?)?;
        }
    }
    Ok(())
}

/// Ends this process like the program, by the same signal if there was one. Otherwise returns the
/// exit code.
fn end_like(status: ExitStatus) -> i32 {
    if let Some(signal) = status.signal() {
        // SAFETY: only this process's own limits and signal dispositions are changed, and it has
        // one thread.
        unsafe {
            // Do not overwrite the program's own core file.
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            libc::signal(signal, libc::SIG_DFL);
            Signals::unblock();
            libc::raise(signal);
        }
        return 128 + signal;
    }
    status.code().unwrap_or(1)
}

/// Whether the signal would end the process. A process that catches the signal may have got it
/// already, and must not get it twice.
fn is_at_the_mercy_of(pid: u32, signal: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/status"))
        .is_ok_and(|status| !is_taken_care_of(&status, signal))
}

/// Whether the process of a `/proc/PID/status` catches, ignores or blocks the signal (proc(5)).
fn is_taken_care_of(status: &str, signal: i32) -> bool {
    let masks = status.lines().filter_map(|line| {
        let (name, mask) = line.split_once(':')?;
        let known = matches!(name, "SigBlk" | "SigIgn" | "SigCgt");
        known.then(|| u64::from_str_radix(mask.trim(), 16).ok())?
    });
    masks.fold(0, |all, mask| all | mask) >> (signal - 1) & 1 == 1
}

/// Signals that must not end this process before the program.
struct Signals(libc::sigset_t);

impl Signals {
    fn set() -> libc::sigset_t {
        let mut set = MaybeUninit::uninit();
        let all = [
            libc::SIGHUP,
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGTERM,
            libc::SIGUSR1,
            libc::SIGUSR2,
            libc::SIGALRM,
            libc::SIGPIPE,
            libc::SIGCHLD,
        ];
        // SAFETY: sigemptyset initialises the set; the numbers are signals.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in all {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            set.assume_init()
        }
    }

    fn block() -> Self {
        let set = Self::set();
        // SAFETY: the set is whole; only this thread's mask changes.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        Self(set)
    }

    /// Async-signal-safe.
    fn unblock() {
        let set = Self::set();
        // SAFETY: the set is whole; only this thread's mask changes.
        unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut()) };
    }

    /// Waits for the program's end.
    fn wait(&self, program: &mut Child) -> io::Result<ExitStatus> {
        // A signal to pass on, and when.
        let mut pending: Option<(i32, Instant)> = None;
        loop {
            if let Some(status) = program.try_wait()? {
                return Ok(status);
            }
            if let Some((signal, at)) = pending {
                if at.elapsed() >= BY_ITSELF {
                    pending = None;
                    let named = Signal::from_named_raw(signal);
                    let named = named.filter(|_| is_at_the_mercy_of(program.id(), signal));
                    // The child has not been reaped, so its PID is not reused.
                    if let Some(named) = named {
                        send(program.id(), named);
                    }
                }
            }
            // Limits the wait, in case the notification of the program's end gets lost.
            let time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 50_000_000,
            };
            // SAFETY: set and time are initialised; no information is requested.
            let signal = unsafe { libc::sigtimedwait(&self.0, std::ptr::null_mut(), &time) };
            if matches!(
                signal,
                libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM
            ) {
                pending = Some((signal, Instant::now()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_without_a_recorder_gets_the_library_if_others_compare_clocks_with_it() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(with_library(Vec::new()), []);
        let whole = vec![pair("x", "y"), pair(PRELOAD, "/a.so")];
        assert_eq!(with_library(whole.clone()), whole);
        let given = with_library(vec![pair("x", "y")]);
        assert_eq!((given.len(), &given[0]), (2, &pair("x", "y")));
        assert_eq!(given[1].0, PRELOAD);
        // As a program that this process executes would see it.
        let cat = Command::new("cat").arg(&given[1].1).output().unwrap();
        assert!(cat.stdout == idlewave_interpose::library(), "{cat:?}");
    }

    #[test]
    fn what_the_launcher_preloads_is_kept_before_our_library() {
        for (own, given, expected) in [
            (None, "/rings/ours.so", "/rings/ours.so"),
            (Some(""), "/rings/ours.so", "/rings/ours.so"),
            (Some("/x.so"), "/rings/ours.so", "/x.so:/rings/ours.so"),
            // A process gets only those preloads that the launcher passed on.
            (
                Some("/x.so"),
                "/y.so:/rings/ours.so",
                "/x.so:/rings/ours.so",
            ),
            (None, "/y.so:/rings/ours.so", "/rings/ours.so"),
        ] {
            assert_eq!(preload(own.map(OsString::from), given), expected);
        }
    }

    #[test]
    fn a_signal_that_the_program_catches_ignores_or_blocks_is_not_sent_again() {
        let status = |blocked: u64, ignored: u64, caught: u64| {
            format!(
                "Name:\tx\nSigPnd:\tffffffffffffffff\nSigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\n\
                 SigCgt:\t{caught:016x}\nCapInh:\tffffffffffffffff\n"
            )
        };
        let term = 1 << (libc::SIGTERM - 1);
        assert!(!is_taken_care_of(&status(0, 0, 0), libc::SIGTERM));
        assert!(!is_taken_care_of(
            &status(!term, !term, !term),
            libc::SIGTERM
        ));
        for status in [status(term, 0, 0), status(0, term, 0), status(0, 0, term)] {
            assert!(is_taken_care_of(&status, libc::SIGTERM));
            assert!(!is_taken_care_of(&status, libc::SIGHUP));
        }
        assert!(!is_at_the_mercy_of(u32::MAX, libc::SIGTERM));
    }
}
