//! PID namespaces: a process has a PID in its own namespace and in every one above it
//! (pid_namespaces(7)). The kernel's trace has the PIDs of the initial namespace; /proc shows those
//! of the namespace in which it was mounted; system calls take and return those of the caller's
//! namespace.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Inode of the initial PID namespace: `PROC_PID_INIT_INO` of include/linux/proc_ns.h, the same on
/// every Linux.
const INITIAL: u64 = 0xEFFF_FFFC;

/// A PID namespace, identified by its inode, which is unique among existing namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PidNamespace(u64);

impl PidNamespace {
    /// By its inode, as `/proc/PID/ns/pid` has it.
    pub fn of_inode(inode: u64) -> Self {
        Self(inode)
    }

    /// The namespace of this process.
    ///
    /// # Errors
    /// There is no /proc.
    pub fn current() -> io::Result<Self> {
        Ok(Self(fs::metadata("/proc/self/ns/pid")?.ino()))
    }

    /// Its inode.
    pub fn inode(self) -> u64 {
        self.0
    }

    /// Whether it is the initial namespace of the machine, whose PIDs the kernel's trace contains.
    pub fn is_initial(self) -> bool {
        self.0 == INITIAL
    }
}

/// Why /proc does not show the processes that this one can address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcTrouble {
    /// It is not mounted.
    Absent,
    /// It was mounted in another PID namespace: its PIDs are not those that system calls take.
    Foreign,
}

impl ProcTrouble {
    /// The problem, as a clause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Absent => "/proc is not mounted",
            Self::Foreign => "/proc shows another PID namespace than the one this process is in",
        }
    }

    /// The command that fixes it.
    pub fn next_step(self) -> &'static str {
        match self {
            Self::Absent => "mount -t proc proc /proc",
            Self::Foreign => {
                "mount a /proc of this namespace: `mount -t proc proc /proc`, or `unshare --mount-proc`"
            }
        }
    }
}

/// Whether /proc below `root` (`/` for this machine) exists and its PIDs are those that system
/// calls take.
///
/// # Errors
/// It does not exist, or its PIDs differ.
pub fn check_proc(root: &Path) -> Result<(), ProcTrouble> {
    let status = fs::read(root.join("proc/self/status")).map_err(|_| ProcTrouble::Absent)?;
    match numbers(&status, "NSpid:").len() {
        // Known since Linux 4.1; before, assume the same namespace.
        0 | 1 => Ok(()),
        _ => Err(ProcTrouble::Foreign),
    }
}

/// A process and one of its threads in another PID namespace, by their PIDs in this one; `None` if
/// they have ended or cannot be seen from here.
pub fn here(namespace: PidNamespace, process: u32, thread: u32) -> Option<(u32, u32)> {
    let is_there = |pid: u32| {
        fs::metadata(format!("/proc/{pid}/ns/pid")).is_ok_and(|meta| meta.ino() == namespace.0)
    };
    let found = within("/proc", process).find(|&pid| is_there(pid))?;
    let found_thread = within(&format!("/proc/{found}/task"), thread).next()?;
    Some((found, found_thread))
}

/// A process of a PID namespace below the initial one, this process's, by its PID in `namespace`
/// and whatever else `is_it` looks at.
///
/// # Errors
/// Whether there is one cannot be told: this is not the initial namespace, /proc hides processes
/// (hidepid of proc(5)) or does not let this user look at one that may be it, or Linux is older
/// than 4.1.
pub fn below(
    namespace: PidNamespace,
    pid: u32,
    is_it: impl Fn(u32) -> bool,
) -> io::Result<Option<u32>> {
    let shows_all = !fs::read_to_string("/proc/self/mounts")?.contains("hidepid=");
    let tells = !numbers(&fs::read("/proc/self/status")?, "NSpid:").is_empty();
    if !(PidNamespace::current()?.is_initial() && shows_all && tells) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    for found in within("/proc", pid).filter(|&found| is_it(found)) {
        match fs::metadata(format!("/proc/{found}/ns/pid")) {
            Ok(meta) if meta.ino() == namespace.0 => return Ok(Some(found)),
            Ok(_) => {}
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Whether a process ended while it was looked at.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Processes or threads in a directory of /proc that have the PID `pid` in a namespace of their
/// own, by their PIDs here.
fn within(directory: &str, pid: u32) -> impl Iterator<Item = u32> {
    listed(directory).filter(move |here| {
        let status = fs::read(format!("{directory}/{here}/status")).unwrap_or_default();
        innermost(&status) == Some(pid)
    })
}

/// Entries of a directory whose names are numbers.
fn listed(directory: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The PID of a process in its own namespace, where /proc shows that of a namespace above; from
/// `/proc/PID/status`.
fn innermost(status: &[u8]) -> Option<u32> {
    match numbers(status, "NSpid:").as_slice() {
        [_, .., innermost] => Some(*innermost),
        _ => None,
    }
}

fn numbers(status: &[u8], field: &str) -> Vec<u32> {
    let status = String::from_utf8_lossy(status);
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let words = line.unwrap_or_default().split_ascii_whitespace();
    words.map_while(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proc_of_the_own_namespace_shows_one_number_of_this_process() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(check_proc(dir.path()), Err(ProcTrouble::Absent));
        let own = dir.path().join("proc/self");
        fs::create_dir_all(&own).expect("a directory");
        for (status, expected) in [
            ("Name:\tx\nNSpid:\t4711\n", Ok(())),
            ("Name:\tx\nNSpid:\t4711\t1\n", Err(ProcTrouble::Foreign)),
            // Linux before 4.1.
            ("Name:\tx\n", Ok(())),
        ] {
            fs::write(own.join("status"), status).expect("it is writable");
            assert_eq!(check_proc(dir.path()), expected, "{status}");
        }
    }

    #[test]
    fn the_number_inside_is_the_last_of_several() {
        assert_eq!(innermost(b"NSpid:\t4711\t80\t3\n"), Some(3));
        assert_eq!(innermost(b"NSpid:\t4711\n"), None);
        assert_eq!(innermost(b""), None);
    }

    #[test]
    fn this_process_is_in_a_namespace() {
        let own = PidNamespace::current().expect("/proc is mounted");
        assert_eq!(own, PidNamespace::of_inode(own.inode()));
        assert!(PidNamespace::of_inode(4_026_531_836).is_initial());
        // It has no PID in a namespace below its own.
        assert_eq!(here(own, std::process::id(), std::process::id()), None);
    }
}
