//! Measures the cost of a switch by its policy for network contexts: two gangs of two processes,
//! whose ranks communicate all the time, on one device of this node, switched repeatedly with each
//! policy and size of context.

use crate::error::TrialError;
use idlewave_clock::monotonic_ns;
use idlewave_fabric::netctx::device::{At, Attachment, Device, Gang, Idle, Setup};
use idlewave_fabric::netctx::{Policy, Udp};
use idlewave_run::findings::Estimate;
use idlewave_session::Stop;
use idlewave_stats::quantiles;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The time between two switches.
const TURN: Duration = Duration::from_millis(4);
/// The first switches only give the ranks time to start.
const WARM: u32 = 50;
/// Gangs that are switched, and ranks of each.
const GANGS: u32 = 2;
const RANKS: u32 = 2;
/// How long draining may take before the switch is abandoned.
const LIMIT: Duration = Duration::from_secs(2);
/// Sizes of contexts: the one at which copies were half of a switch in SC'98, and two and four
/// times that.
pub(crate) const SIZES: [usize; 3] = [1 << 20, 2 << 20, 4 << 20];

/// The switches of one policy and size. Times in ns: median with its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contexts {
    /// `whole`, `valid` or `resident`.
    pub policy: String,
    /// Bytes of a context.
    pub bytes: u64,
    /// From the stop until nothing is in flight.
    pub drain: Estimate,
    /// The change of the context.
    pub context: Estimate,
    /// From the stop until the other gang may communicate.
    pub whole: Estimate,
    /// The 0.99 quantile of the whole switch.
    pub p99: f64,
}

/// A rank, killed when this is dropped.
struct Rank(Child);

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures `switches` switches of each policy and size. `program` is the command line of a program
/// that communicates until it is ended, as a rank of the gang that its environment names;
/// `directory` holds the devices, and so should be in memory.
///
/// # Errors
/// A device cannot be created or a program cannot be started; interrupted.
pub fn contexts(
    program: &[std::ffi::OsString],
    directory: &Path,
    switches: u32,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Contexts>, TrialError> {
    let mut found = Vec::new();
    for bytes in SIZES {
        for policy in Policy::ALL {
            let name = name(policy);
            progress(&format!("contexts of {} MiB, {name}", bytes >> 20));
            found.push(measure(
                program,
                directory,
                switches,
                (policy, bytes),
                stop,
            )?);
        }
    }
    Ok(found)
}

fn name(policy: Policy) -> &'static str {
    match policy {
        Policy::Whole => "whole",
        Policy::Valid => "valid",
        Policy::Resident => "resident",
    }
}

fn failed(error: &dyn std::fmt::Display) -> TrialError {
    TrialError::Failed {
        what: "gangs on a network device".to_owned(),
        why: error.to_string(),
    }
}

fn measure(
    program: &[std::ffi::OsString],
    directory: &Path,
    switches: u32,
    (policy, bytes): (Policy, usize),
    stop: &Stop,
) -> Result<Contexts, TrialError> {
    let path = directory.join(format!("{}.{bytes}", name(policy)));
    let setup = Setup {
        gangs: GANGS,
        places: RANKS,
        ranks: RANKS,
        policy,
        context_bytes: bytes,
        ..Setup::new(path)
    };
    // All ranks are on this node: nothing has to listen.
    let device = Device::new(&setup, None::<Udp>).map_err(|e| failed(&e))?;
    let mut ranks = Vec::new();
    for gang in 0..GANGS {
        let nodes = vec![0; RANKS as usize];
        device
            .admit(&Gang { gang, nodes })
            .map_err(|e| failed(&e))?;
        for rank in 0..RANKS {
            ranks.push(start(program, device.path(), gang, rank)?);
        }
    }
    device.switch(0, LIMIT).map_err(|e| failed(&e))?;
    device.resume(1).map_err(|e| failed(&e))?;
    let (mut drains, mut changes, mut wholes) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..WARM.saturating_add(switches) {
        std::thread::sleep(TURN);
        if stop.is_requested() {
            return Err(TrialError::Interrupted);
        }
        let mut ended = ranks.iter_mut().filter_map(|r| r.0.try_wait().ok()?);
        if let Some(dead) = ended.next() {
            return Err(failed(&format!("a rank ended: {dead}")));
        }
        let [begin, quiet, changed, end] = switch(&device, turn)?;
        if turn >= WARM {
            drains.push(quiet - begin);
            changes.push(changed - quiet);
            wholes.push(end - begin);
        }
    }
    Ok(Contexts {
        policy: name(policy).to_owned(),
        bytes: bytes as u64,
        drain: quantiles::median(&drains),
        context: quantiles::median(&changes),
        whole: quantiles::median(&wholes),
        p99: quantiles::quantile(&wholes, 0.99).value,
    })
}

/// Starts a rank that is attached to the device at `path`.
fn start(
    program: &[std::ffi::OsString],
    path: &Path,
    gang: u32,
    rank: u32,
) -> Result<Rank, TrialError> {
    let attachment = Attachment {
        at: At::Device {
            path: path.to_owned(),
            gang,
        },
        rank,
        size: RANKS,
        // Ranks of the inactive gang must not displace the others: nothing freezes them here.
        idle: Idle::Sleep,
    };
    let (name, arguments) = program.split_first().ok_or(TrialError::NoProgram)?;
    let child = Command::new(name)
        .args(arguments)
        .env(Attachment::VARIABLE, attachment.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| TrialError::Start {
            program: name.to_string_lossy().into_owned(),
            source,
        })?;
    Ok(Rank(child))
}

/// Stops the gang that is active in this turn, drains the network, and lets the other one go on.
/// Returns CLOCK_MONOTONIC nanoseconds before, after draining, after the change of contexts, and at
/// the end.
fn switch(device: &Device<Option<Udp>>, turn: u32) -> Result<[u64; 4], TrialError> {
    let active = turn % GANGS;
    let begin = monotonic_ns();
    device.stop(active).map_err(|e| failed(&e))?;
    let drained = device.wait_drained(LIMIT);
    let quiet = monotonic_ns();
    if !drained.complete {
        return Err(failed(&"the network was not drained in time"));
    }
    let next = (active + 1) % GANGS;
    device.switch(next, LIMIT).map_err(|e| failed(&e))?;
    let changed = monotonic_ns();
    // The first epoch was before the first turn.
    device.resume(u64::from(turn) + 2).map_err(|e| failed(&e))?;
    Ok([begin, quiet, changed, monotonic_ns()])
}
