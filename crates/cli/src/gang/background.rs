//! The service as a process of its own, with a log.

use crate::exit::{Exit, Failure};
use idlewave_agent::Control;
use idlewave_agent::control::{Reply, Request};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a service in the background may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(15);

/// Starts the same service as a process of its own and waits until it answers.
pub fn background(local: bool, control: &Path) -> Result<(), Failure> {
    let failed =
        |what: &str, error: std::io::Error| Failure::new(Exit::Io, format!("{what}: {error}"));
    let path = control.with_extension("log");
    let file =
        fs::File::create(&path).map_err(|e| failed(&format!("create {}", path.display()), e))?;
    let again = file.try_clone().map_err(|e| failed("write a log", e))?;
    let program = std::env::current_exe().map_err(|e| failed("find this program", e))?;
    let words = std::env::args_os()
        .skip(1)
        .filter(|word| word != "--background");
    let mut command = Command::new(program);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(again);
    // SAFETY: between fork and exec only setsid is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    let mut child = command
        .spawn()
        .map_err(|e| failed("start the service", e))?;
    let end = Instant::now() + START_LIMIT;
    loop {
        if let Ok(Some(_)) = child.try_wait() {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let why = text
                .lines()
                .find_map(|line| line.strip_prefix("idlewave: failed to "));
            let why = why.unwrap_or("start the service: it ended at once");
            return Err(
                Failure::new(Exit::NotPossible, why).with_next(format!("read {}", path.display()))
            );
        }
        let nodes = usize::from(local);
        if let Ok(Ok(Reply::Status(status))) =
            Control::connect(control).map(|mut c| c.ask(&Request::Status))
        {
            if status.nodes.len() >= nodes {
                break;
            }
        }
        if Instant::now() > end {
            end_child(&mut child);
            let what = format!("hear of the service within {} s", START_LIMIT.as_secs());
            return Err(
                Failure::new(Exit::NotPossible, what).with_next(format!("read {}", path.display()))
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    crate::print(&format!(
        "gang switching runs (process {}), asked at {}, log in {}\n",
        child.id(),
        control.display(),
        path.display()
    ))
}

/// A service that does not come is not left behind: in order, then at once.
fn end_child(child: &mut Child) {
    if let Ok(pid) = libc::pid_t::try_from(child.id()) {
        // SAFETY: numbers only; it is our child and was not waited for.
        unsafe { libc::kill(pid, libc::SIGTERM) };
    }
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
