//! The recorder of a node other than the front's: `idlewave node-record TOKEN BUNDLE`, started by
//! the shim.

use crate::node::{NodeConfig, NodeRecorder};
use crate::node_job::Job;
use crate::node_place::Place;
use idlewave_sys::terminal::say;
use std::path::Path;
use std::time::Duration;

/// The time between drains of the rings, unless one is half full earlier. The end of the program is
/// noticed with the same latency.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// Records this node until the program's last process has gone. Returns the exit code; the last
/// line of standard error describes errors.
pub fn node_record(token: &str, bundle: &Path) -> i32 {
    let Some(job) = Job::decode(token) else {
        say("`node-record` is not meant to be called by hand: its token is damaged\n");
        return 2;
    };
    match record(&job, bundle) {
        Ok(()) => 0,
        Err(error) => {
            say(&format!("{error}\n"));
            1
        }
    }
}

fn record(job: &Job, bundle: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let place = Place::find(job).ok_or("the job's directory on this node is gone")?;
    let leader = std::os::unix::process::parent_id();
    let mut recorder = NodeRecorder::start(NodeConfig {
        output: bundle.to_owned(),
        command: job.command.clone(),
        trace: job.trace,
    })?;
    let environment = words(&recorder.environment())?;
    place.set_ready(&[environment, job.environment()].concat())?;
    let mut bell = recorder.bell();
    loop {
        bell.wait(PERIOD);
        // Check before the drain, which then includes the records of the last process.
        let last = (place.is_leader_released() || std::os::unix::process::parent_id() != leader)
            && !place.is_anybody_left();
        recorder.drain()?;
        if last {
            break;
        }
    }
    // Processes that start now are not recorded.
    place.set_over()?;
    // Only the front knows the command's exit code.
    recorder.finish(None)?;
    Ok(())
}

/// The environment as text for the other processes.
fn words(
    environment: &[(std::ffi::OsString, std::ffi::OsString)],
) -> Result<Vec<(String, String)>, &'static str> {
    let text = |word: &std::ffi::OsString| word.to_str().map(str::to_owned);
    environment
        .iter()
        .map(|(name, value)| text(name).zip(text(value)))
        .collect::<Option<_>>()
        .ok_or("a path of the recorder is not UTF-8")
}
