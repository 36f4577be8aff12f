//! The kernel's view of a process: whether it exists, whether it is stopped, and its CPU time
//! (proc(5)).

use idlewave_interpose::StateProcess;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Ticks of /proc/PID/stat per second: USER_HZ, 100 on all architectures that Linux still supports.
const TICK: Duration = Duration::from_millis(10);

/// The kernel's view of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kernel {
    /// It is in another namespace or on another host.
    Unknown,
    /// It has ended, or is a zombie.
    Gone,
    /// It exists.
    There {
        /// Whether it is stopped by a signal or a debugger.
        stopped: bool,
        /// CPU time of all its threads so far, to 10 ms.
        cpu: Duration,
    },
}

/// Looks up processes.
#[derive(Clone, Debug)]
pub(crate) struct Kernels {
    namespace: u64,
    host: String,
}

impl Kernels {
    /// Processes visible to this one.
    pub(crate) fn here() -> Self {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            namespace: fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino()),
            // As much of it as fits into a state page.
            host: host.trim().chars().take(63).collect(),
        }
    }

    /// Looks up one process.
    pub(crate) fn ask(&self, process: &StateProcess) -> Kernel {
        let known = self.namespace != 0 && process.start != 0;
        if !known || process.pid_namespace != self.namespace || process.host != self.host {
            return Kernel::Unknown;
        }
        match fs::read(
            Path::new("/proc")
                .join(process.pid.to_string())
                .join("stat"),
        ) {
            Ok(stat) => of(&String::from_utf8_lossy(&stat), process.start),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Kernel::Gone,
            // It ended while it was read.
            Err(error) if error.raw_os_error() == Some(3) => Kernel::Gone,
            Err(_) => Kernel::Unknown,
        }
    }
}

fn of(stat: &str, start: u64) -> Kernel {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok());
    // Fields 3, 14, 15 and 22; the first field after the name is number 3.
    let (Some(state), Some(user), Some(system), Some(began)) =
        (fields.first(), number(11), number(12), number(19))
    else {
        return Kernel::Unknown;
    };
    if began != start || matches!(*state, "Z" | "X") {
        return Kernel::Gone;
    }
    Kernel::There {
        stopped: matches!(*state, "T" | "t"),
        cpu: TICK * u32::try_from(user + system).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "7 (a ) b) T 1 7 7 0 -1 4194304 1 0 0 0 25 17 0 0 20 0 1 0 900 1 1 18446744073709551615";

    #[test]
    fn state_times_and_start_are_read_behind_a_name_with_parentheses() {
        let there = Kernel::There {
            stopped: true,
            cpu: Duration::from_millis(420),
        };
        assert_eq!(of(STAT, 900), there);
        let running = STAT.replace(") T", ") R");
        assert!(matches!(
            of(&running, 900),
            Kernel::There { stopped: false, .. }
        ));
    }

    #[test]
    fn another_process_with_the_same_number_is_not_it() {
        assert_eq!(of(STAT, 901), Kernel::Gone);
        assert_eq!(of(&STAT.replace(") T", ") Z"), 900), Kernel::Gone);
        assert_eq!(of("7 (a", 900), Kernel::Unknown);
    }

    #[test]
    fn of_another_namespace_or_host_nothing_is_known() {
        let here = Kernels::here();
        let mut process = StateProcess {
            pid: std::process::id(),
            start: 1,
            pid_namespace: here.namespace,
            host: here.host.clone(),
        };
        assert_eq!(here.ask(&process), Kernel::Gone, "it did not start at boot");
        process.pid_namespace += 1;
        assert_eq!(here.ask(&process), Kernel::Unknown);
        process.pid_namespace -= 1;
        process.host.push('x');
        assert_eq!(here.ask(&process), Kernel::Unknown);
    }
}
