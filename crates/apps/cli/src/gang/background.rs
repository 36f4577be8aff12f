//! Runs the service as a background process with a log.

use crate::exit::{Exit, Failure};
use crate::output::print;
use idlewave_gang_agent::control::{Reply, Request};
use idlewave_gang_agent::{Control, take_seat};
use idlewave_sys::files::Replacement;
use idlewave_sys::process::{Signal, in_own_session, send};
use idlewave_units::Pid;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a service in the background may take to answer, perhaps on a busy machine. One that
/// fails to start is noticed at once.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Starts this command again as a background process and waits until its service answers.
pub fn background(local: bool, control: &Path) -> Result<(), Failure> {
    let failed =
        |what: &str, error: std::io::Error| Failure::new(Exit::Io, format!("{what}: {error}"));
    let path = control.with_extension("log");
    let create = |e| failed(&format!("create {}", path.display()), e);
    // The log replaces the previous one only once the new service has its socket: another service
    // may run there and write to that log.
    let mut log = Replacement::begin(&path).map_err(create)?;
    let said = |e| failed("write a log", e);
    let outputs = [log.file().try_clone(), log.file().try_clone()];
    let [output, errors] = outputs.map(|file| file.map_err(said));
    let program = std::env::current_exe().map_err(|e| failed("find this program", e))?;
    let words = std::env::args_os()
        .skip(1)
        .filter(|word| word != "--background");
    let mut command = Command::new(program);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(output?)
        .stderr(errors?);
    let mut child = in_own_session(&mut command)
        .spawn()
        .map_err(|e| failed("start the service", e))?;
    let end = Instant::now() + START_LIMIT;
    loop {
        if let Ok(Some(_)) = child.try_wait() {
            let text = fs::read_to_string(log.path()).unwrap_or_default();
            let why = text
                .lines()
                .find_map(|line| line.strip_prefix("idlewave: failed to "));
            let why = why.unwrap_or("start the service: it ended at once");
            return Err(ended(why, &text, log, &path, control));
        }
        if serves(&child, control, local) {
            break;
        }
        if Instant::now() > end {
            end_child(&mut child);
            let what = format!(
                "get an answer from the service within {} s",
                START_LIMIT.as_secs()
            );
            return Err(ended(&what, "", log, &path, control));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    log.commit().map_err(create)?;
    print(&format!(
        "gang switching runs (process {}), socket {}, log {}\n",
        child.id(),
        control.display(),
        path.display()
    ))
}

/// Whether this child answers, and its agent is up if it has one. Another service that started
/// faster may answer instead.
fn serves(child: &Child, control: &Path, local: bool) -> bool {
    let Ok(mut control) = Control::connect(control) else {
        return false;
    };
    let status = match control.process() == child.id() {
        true => control.ask(&Request::Status),
        false => return false,
    };
    matches!(status, Ok(Reply::Status(status)) if status.nodes.len() >= usize::from(local))
}

/// The failure of a service that did not start. Its log is kept unless another service owns the
/// log's path.
fn ended(why: &str, said: &str, log: Replacement, path: &Path, control: &Path) -> Failure {
    let failure = Failure::new(Exit::NotPossible, why);
    // The next step that the service itself printed.
    let step = said
        .lines()
        .find_map(|line| line.strip_prefix("next step: "));
    let alone = take_seat(control).is_ok();
    let read = (alone && log.commit().is_ok()).then(|| format!("read {}", path.display()));
    match (step, read) {
        (Some(step), _) => failure.with_next(step),
        (None, Some(read)) => failure.with_next(read),
        (None, None) => failure,
    }
}

/// Ends a service that did not start: with SIGTERM, then with SIGKILL.
fn end_child(child: &mut Child) {
    let _ = send(Pid::new(child.id()), Signal::TERM);
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(10)),
            _ => return,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}
