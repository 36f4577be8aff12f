//! Runs a command in place of this process: started as by a shell, with the signals meant for it.

use crate::error::RecordError;
use crate::signals::Signals;
use crate::tree::{descendants, send};
use idlewave_sys::process::{Signal, await_end};
use idlewave_units::Pid;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// Starts a command with additions to its environment. It inherits the standard streams.
///
/// # Errors
/// The command does not exist or cannot be started.
pub fn start(
    command: &[OsString],
    environment: &[(OsString, OsString)],
) -> Result<Child, RecordError> {
    start_into(command, environment, None)
}

/// The same; with a file, the command's standard output and error go there, and it has no input.
pub(crate) fn start_into(
    command: &[OsString],
    environment: &[(OsString, OsString)],
    words: Option<&File>,
) -> Result<Child, RecordError> {
    let (name, arguments) = command.split_first().ok_or(RecordError::NoCommand)?;
    find(name)?;
    let mut started = Command::new(name);
    started.args(arguments);
    started.envs(environment.iter().map(|(name, value)| (name, value)));
    let not_started = |source| RecordError::NotStarted {
        command: name.to_string_lossy().into_owned(),
        source,
    };
    if let Some(words) = words {
        let copy = || words.try_clone().map_err(not_started);
        started.stdin(Stdio::null()).stdout(copy()?).stderr(copy()?);
    }
    started.spawn().map_err(not_started)
}

/// Waits for the end of a command and passes signals on to it; the second termination signal kills
/// it with all its descendants. `step` is called repeatedly. It waits for a while, until something
/// happens that it handles, or until its descriptor becomes readable because the command has ended.
/// Signals are passed on only after it returns.
pub fn wait_for(
    mut child: Child,
    signals: &mut Signals,
    mut step: impl FnMut(BorrowedFd<'_>),
) -> ExitStatus {
    let pair = UnixStream::pair().ok();
    // Closing `ring` wakes `step`. Without the pair or the thread, this only waits for the
    // command's end.
    let ended = pair.map(|(end, ring)| (end, when_ended(child.id(), || drop(ring))));
    let mut killed = false;
    while let Some((end, _)) = ended
        .as_ref()
        .filter(|(_, ended)| ended.try_recv() == Err(TryRecvError::Empty))
    {
        step(end.as_fd());
        signals.pass_on(child.id());
        if signals.asked_to_end().0 > 1 && !killed {
            killed = true;
            for pid in descendants(child.id()) {
                send(pid, Signal::KILL);
            }
        }
    }
    // Someone else may have reaped the child: then its exit status is unknown.
    child
        .wait()
        .unwrap_or_else(|_| ExitStatus::from_raw(1 << 8))
}

/// The exit code of a command as in a shell: 128 plus the signal that ended it.
pub fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(128 + status.signal().unwrap_or(0))
}

/// Signals the end of a child, without reaping it.
pub fn when_ended(pid: u32, ring: impl FnOnce() + Send + 'static) -> Receiver<()> {
    let (tell, told) = channel();
    let wait = move || {
        // If it is no longer a child, it has ended too.
        let _ = await_end(Pid::new(pid));
        // A receiver that is gone needs no message.
        let _ = tell.send(());
        ring();
    };
    let spawned = std::thread::Builder::new()
        .name("idlewave-wait".to_owned())
        .spawn(wait);
    // Without the thread the channel is closed, and the caller waits for the child at once, without
    // draining rings meanwhile; the ledger reports the losses.
    drop(spawned);
    told
}

/// Whether a command can be started, by the rules of execvp(3).
pub(crate) fn find(name: &OsStr) -> Result<(), RecordError> {
    use std::os::unix::fs::PermissionsExt;
    let text = || name.to_string_lossy().into_owned();
    let look = |path: &Path| {
        let meta = path.metadata().ok().filter(|meta| meta.is_file())?;
        Some(meta.permissions().mode() & 0o111 != 0)
    };
    let denied = || RecordError::NotStarted {
        command: text(),
        source: io::ErrorKind::PermissionDenied.into(),
    };
    if name.as_bytes().contains(&b'/') {
        return match look(Path::new(name)) {
            Some(true) => Ok(()),
            Some(false) => Err(denied()),
            None => Err(RecordError::NotFound(text())),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let found: Vec<bool> = std::env::split_paths(&path)
        .filter_map(|directory| look(&directory.join(name)))
        .collect();
    match (found.contains(&true), found.is_empty()) {
        (true, _) => Ok(()),
        (false, false) => Err(denied()),
        (false, true) => Err(RecordError::NotFound(text())),
    }
}
