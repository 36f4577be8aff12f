//! The three sources of the kernel's view.

use super::process::{Process, sees_kernel};
use crate::host::root::{Root, reason};
use crate::perf::{PerfError, paranoid_level, probe_switches};
use idlewave_run::{TraceMode, Unavailable};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::io::Error;
use std::path::Path;

/// Where tracefs is mounted, the newer place first.
const TRACEFS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// What this process may record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// A kernel trace: tracefs exists or can be mounted, and is writable.
    pub tracing: bool,
    /// Switches of own threads by perf.
    pub switches: bool,
    /// CPU time of all tasks of the machine, including those of other users and the kernel.
    pub task_times: bool,
    /// What is missing, why, and the command that would allow it.
    pub unavailable: Vec<Unavailable>,
}

impl Capabilities {
    /// The best permitted mode.
    pub fn best(&self) -> TraceMode {
        match self {
            Capabilities { tracing: true, .. } => TraceMode::Tracefs,
            Capabilities { switches: true, .. } => TraceMode::PerfSwitch,
            _ => TraceMode::Counters,
        }
    }
}

/// Determines what this process may record on the machine below `root`. For the live machine, `/`,
/// a perf event is opened and closed to be certain.
pub fn capabilities(root: &Path) -> Capabilities {
    let root = Root::new(root);
    let process = Process::read(&root);
    let tracing = tracing(&root, process);
    let switches = switches(&root, process);
    let task_times = task_times(&root, process);
    Capabilities {
        tracing: tracing.is_ok(),
        switches: switches.is_ok(),
        task_times: task_times.is_ok(),
        unavailable: [tracing, switches, task_times]
            .into_iter()
            .filter_map(Result::err)
            .collect(),
    }
}

fn missing(what: &str, why: &str, allow: Option<&str>) -> Unavailable {
    Unavailable {
        what: what.to_owned(),
        why: why.to_owned(),
        allow: allow.map(str::to_owned),
    }
}

fn tracing(root: &Root, process: Process) -> Result<(), Unavailable> {
    let refuse = |why: &str, allow: Option<&str>| {
        Err(missing(
            "names of tasks, interrupts and softirqs that took the CPU",
            why,
            allow,
        ))
    };
    let docker = "docker run --privileged -v /sys/kernel/tracing:/sys/kernel/tracing ...";
    let rights = if process.container {
        docker
    } else {
        "sudo idlewave ..."
    };
    // In confidentiality mode the kernel's memory, and so its trace, is hidden from everyone.
    let lockdown = root
        .text("sys/kernel/security/lockdown")
        .ok()
        .flatten()
        .unwrap_or_default();
    if lockdown.contains("[confidentiality]") {
        return refuse("the kernel is locked down (lockdown=confidentiality)", None);
    }
    for place in TRACEFS {
        let instances = root.path(place).join("instances");
        match std::fs::metadata(&instances) {
            Ok(_) => {
                return match writable(&instances) {
                    Ok(()) => Ok(()),
                    Err(e) => refuse(&format!("/{place}/instances: {}", reason(&e)), Some(rights)),
                };
            }
            // Users cannot see whether tracefs is here: debugfs is closed to them even on machines
            // that have no tracefs. Report this place's error.
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                return refuse(&format!("/{place}: {}", reason(&e)), Some(rights));
            }
            Err(_) => {}
        }
    }
    let known = root
        .text("proc/filesystems")
        .ok()
        .flatten()
        .unwrap_or_default();
    if !known.split_whitespace().any(|word| word == "tracefs") {
        return refuse("this kernel has no tracefs (CONFIG_FTRACE)", None);
    }
    if process.admin {
        return Ok(());
    }
    refuse(
        "tracefs is not mounted, and mounting it needs CAP_SYS_ADMIN",
        Some(rights),
    )
}

/// Whether this process, with its effective user, may create entries in a directory.
fn writable(directory: &Path) -> Result<(), Error> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    Ok(accessat(CWD, directory, access, AtFlags::EACCESS)?)
}

fn switches(root: &Root, process: Process) -> Result<(), Unavailable> {
    let what = "times at which own threads were off their CPU (perf switch records)";
    let refuse = |error: &PerfError| {
        let allow = match error {
            // Outside a container the filter is the administrator's, and does not apply to root.
            PerfError::Filtered(_) if !process.container => Some("sudo idlewave ..."),
            error => error.allow(),
        };
        Err(missing(what, &error.to_string(), allow))
    };
    if root.is_live() {
        return probe_switches().or_else(|e| refuse(&e));
    }
    match paranoid_level(root) {
        None => Err(missing(
            what,
            "this kernel has no perf events (CONFIG_PERF_EVENTS)",
            None,
        )),
        Some(level) if level > 2 && !process.perfmon => refuse(&PerfError::NotPermitted { level }),
        Some(_) => Ok(()),
    }
}

fn task_times(root: &Root, process: Process) -> Result<(), Unavailable> {
    let refuse =
        |why: &str, allow: Option<&str>| Err(missing("CPU time of other tasks", why, allow));
    match root.text("proc/self/schedstat") {
        Err(why) => return refuse(&why, None),
        Ok(None) => {
            return refuse(
                "this kernel keeps no scheduler statistics (CONFIG_SCHED_INFO)",
                None,
            );
        }
        // A process that reads its own time never sees zero if it is counted.
        Ok(Some(line)) if line.split_whitespace().take(3).all(|word| word == "0") => {
            return refuse("/proc/self/schedstat counts nothing", None);
        }
        Ok(Some(_)) => {}
    }
    if sees_kernel(root) {
        return Ok(());
    }
    if process.root {
        refuse(
            "only processes of this container are visible",
            Some("docker run --pid host ..."),
        )
    } else if process.container {
        refuse(
            "only own processes are visible",
            Some("docker run --pid host --user root ..."),
        )
    } else {
        refuse(
            "only own processes are visible (/proc is mounted with hidepid)",
            Some("sudo idlewave ..."),
        )
    }
}
