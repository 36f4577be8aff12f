//! Names of what a process leaves behind outside of its files when it is killed: they tell whether it still lives.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A process, so named that another one can tell whether it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Inode of the process's PID namespace: numbers mean nothing in another one.
    namespace: u64,
    pid: u32,
    /// Ticks after boot when the process started: numbers are used again.
    start: u64,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current() -> io::Result<Self> {
        let pid = std::process::id();
        Ok(Self {
            namespace: pid_namespace()?,
            pid,
            start: started(pid).ok_or_else(|| io::Error::other("no start time in /proc"))?,
        })
    }

    /// `prefix-namespace-pid-start-number`.
    pub fn name(&self, prefix: &str, number: u32) -> String {
        format!(
            "{prefix}-{}-{}-{}-{number}",
            self.namespace, self.pid, self.start
        )
    }

    /// The owner in a name that [`name`](Self::name) made.
    pub fn parse(prefix: &str, name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(prefix)?.strip_prefix('-')?.split('-');
        let mut next = || parts.next()?.parse::<u64>().ok();
        let owner = Self {
            namespace: next()?,
            pid: u32::try_from(next()?).ok()?,
            start: next()?,
        };
        next().map(|_number| owner)
    }

    /// Whether it is of this PID namespace and has ended. Of others nothing can be told.
    pub fn has_ended(&self) -> bool {
        pid_namespace().is_ok_and(|n| n == self.namespace) && started(self.pid) != Some(self.start)
    }
}

fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata(Path::new("/proc/self/ns/pid"))?.ino())
}

/// Start time of a process in ticks after boot: field 22 of /proc/PID/stat (proc(5)). `None` if it has ended, also where it only
/// waits to be collected: the first process of many a container collects none.
pub fn started(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name may hold anything but ends at the last parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let time = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_owner() {
        let owner = Owner {
            namespace: 4_026_531_836,
            pid: 77,
            start: 123_456,
        };
        assert_eq!(Owner::parse("a-b", &owner.name("a-b", 3)), Some(owner));
    }

    #[test]
    fn names_of_others_are_not_taken_for_ours() {
        for name in [
            "trace",
            "idlewave",
            "idlewave-",
            "idlewave-1-2-x-0",
            "idlewave-1-2-3",
            "idlewave-1-99999999999-3-0",
        ] {
            assert_eq!(Owner::parse("idlewave", name), None, "{name}");
        }
    }

    #[test]
    fn this_process_lives_and_one_with_another_start_time_does_not() {
        let owner = Owner::current().expect("/proc is mounted");
        assert!(!owner.has_ended());
        let earlier = Owner {
            start: owner.start + 1,
            ..owner.clone()
        };
        assert!(earlier.has_ended());
        let elsewhere = Owner {
            namespace: 1,
            ..earlier
        };
        assert!(!elsewhere.has_ended(), "nothing is known of it");
    }

    #[test]
    fn one_that_waits_to_be_collected_has_ended() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(started(child.id()).is_some());
        drop(child.stdin.take());
        while started(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(fs::exists(format!("/proc/{}/stat", child.id())).unwrap());
        child.wait().unwrap();
    }
}
