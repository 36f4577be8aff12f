//! Names for what a process leaves outside its files when it is killed. The name tells whether the
//! process is still alive.
//!
//! This is the only such mark: a bare PID could belong to another process in another PID namespace,
//! or to a later one.

use crate::pid_namespace::{PidNamespace, below, check_proc};
use std::fs;
use std::io;
use std::path::Path;

/// Identity of a process by which another one can tell whether it is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// PIDs are valid in this namespace only.
    namespace: PidNamespace,
    pid: u32,
    /// Ticks after boot when the process started, since PIDs are reused.
    start: u64,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// Another process of this PID namespace.
    ///
    /// # Errors
    /// There is no such process, or /proc is not mounted.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self {
            namespace: PidNamespace::current()?,
            pid,
            start: started(pid).ok_or(io::ErrorKind::NotFound)?,
        })
    }

    /// `prefix-namespace-pid-start-number`; anything after it in a name is ignored.
    pub fn name(&self, prefix: &str, number: u32) -> String {
        format!(
            "{prefix}-{}-{}-{}-{number}",
            self.namespace.inode(),
            self.pid,
            self.start
        )
    }

    /// The owner in a name made by [`name`](Self::name).
    pub fn parse(prefix: &str, name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(prefix)?.strip_prefix('-')?.split('-');
        let mut next = || parts.next()?.parse::<u64>().ok();
        let owner = Self {
            namespace: PidNamespace::of_inode(next()?),
            pid: u32::try_from(next()?).ok()?,
            start: next()?,
        };
        next().map(|_number| owner)
    }

    /// Whether it is known to have ended: in the initial PID namespace, unless /proc hides
    /// processes, of every owner; elsewhere of those in the same namespace; with a /proc of another
    /// one of none.
    pub fn has_ended(&self) -> bool {
        let is_it = |pid| started(pid) == Some(self.start);
        let Ok(own) = PidNamespace::current() else {
            return false;
        };
        check_proc(Path::new("/")).is_ok()
            && match own == self.namespace {
                true => !is_it(self.pid),
                false => below(self.namespace, self.pid, is_it).is_ok_and(|found| found.is_none()),
            }
    }
}

/// Start time of a process in ticks after boot: field 22 of /proc/PID/stat (proc(5)). `None` if it
/// has ended, including zombies: the first process of many containers does not reap them.
pub fn started(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name may contain anything but ends at the last parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let time = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uid;

    #[test]
    fn a_name_tells_its_owner() {
        let owner = Owner {
            namespace: PidNamespace::of_inode(4_026_531_836),
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
            namespace: PidNamespace::of_inode(1),
            ..owner
        };
        let sees_all = PidNamespace::current().is_ok_and(PidNamespace::is_initial)
            && !fs::read_to_string("/proc/self/mounts").is_ok_and(|all| all.contains("hidepid="));
        assert_eq!(
            elsewhere.has_ended(),
            sees_all,
            "no namespace has that inode"
        );
    }

    /// `cat` as the first process of a PID namespace.
    #[test]
    fn who_lives_in_a_namespace_below_is_known_in_the_initial_one() {
        use std::os::unix::fs::MetadataExt;
        let own = PidNamespace::current().expect("/proc is mounted");
        let unshare = (own.is_initial() && Uid::own() == Uid::ROOT).then(|| {
            let mut command = std::process::Command::new("unshare");
            command.args(["-pf", "--kill-child", "cat"]);
            command.stdin(std::process::Stdio::piped()).spawn()
        });
        let Some(Ok(mut unshare)) = unshare else {
            println!(
                "skipped: it needs root, the initial PID namespace, and unshare of util-linux"
            );
            return;
        };
        let (namespace, outside) = loop {
            let path = format!("/proc/{}/ns/pid_for_children", unshare.id());
            // Not there until the namespace has its first process.
            let Ok(children) = fs::metadata(path) else {
                assert!(started(unshare.id()).is_some(), "unshare runs");
                std::thread::yield_now();
                continue;
            };
            let namespace = PidNamespace::of_inode(children.ino());
            if let Some(pid) = below(namespace, 1, |_| true).expect("it shows all") {
                break (namespace, pid);
            }
            std::thread::yield_now();
        };
        let cat = Owner {
            namespace,
            pid: 1,
            start: started(outside).expect("it waits for input"),
        };
        assert!(!cat.has_ended());
        let [mut before, mut beside, mut elsewhere] = [cat.clone(), cat.clone(), cat.clone()];
        before.start -= 1;
        beside.pid = 2;
        elsewhere.namespace = PidNamespace::of_inode(1);
        for other in [before, beside, elsewhere] {
            assert!(other.has_ended(), "{other:?}");
        }
        unshare.kill().expect("it runs");
        unshare.wait().expect("it runs");
        while !cat.has_ended() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_that_waits_to_be_collected_has_ended() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("it is there");
        assert!(started(child.id()).is_some());
        drop(child.stdin.take());
        while started(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(fs::exists(format!("/proc/{}/stat", child.id())).expect("it is there"));
        child.wait().expect("it is there");
    }
}
