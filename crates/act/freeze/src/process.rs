//! Processes in /proc (`proc_pid_stat(5)`, `proc_pid_status(5)`): parents, users and states.

use crate::error::FreezeError;
use idlewave_sys::Uid;
use idlewave_sys::process::{Signal, send};
use idlewave_units::Pid;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The `stat` line of a process or a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: Pid,
    /// `R`, `S`, `D`, `T` stopped, `t` traced, `Z`, `X` ...
    pub(crate) state: char,
    pub(crate) parent: Pid,
    pub(crate) session: Pid,
    /// Start time in clock ticks since boot; identifies the process together with its PID, since
    /// PIDs are reused.
    pub(crate) start: u64,
}

impl Stat {
    /// Parses the line; `None` if invalid. The name may contain blanks and brackets.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (pid, rest) = line.split_once(" (")?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Starts with field 3 of the line.
        let field = |number: usize| fields.get(number - 3);
        Some(Stat {
            pid: Pid::new(pid.parse().ok()?),
            state: field(3)?.chars().next()?,
            parent: Pid::new(field(4)?.parse().ok()?),
            session: Pid::new(field(6)?.parse().ok()?),
            start: field(22)?.parse().ok()?,
        })
    }

    /// Whether it executes nothing until something continues it: stopped, or dead.
    pub(crate) fn rests(&self) -> bool {
        matches!(self.state, 'T' | 't' | 'Z' | 'X' | 'x')
    }
}

fn directory(pid: Pid) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// A process or a thread; `None` if it does not exist.
pub(crate) fn stat(pid: Pid) -> Option<Stat> {
    // The name is untrusted and need not be UTF-8.
    let bytes = fs::read(directory(pid).join("stat")).ok()?;
    Stat::parse(&String::from_utf8_lossy(&bytes))
}

/// All current processes. One that ends meanwhile is left out; one that starts meanwhile may be.
pub(crate) fn all() -> Result<BTreeMap<Pid, Stat>, FreezeError> {
    let proc = Path::new("/proc");
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(proc).map_err(FreezeError::file("read", proc))? {
        let entry = entry.map_err(FreezeError::file("read", proc))?;
        let number = entry.file_name().to_str().and_then(|n| n.parse().ok());
        if let Some(stat) = number.and_then(|n| stat(Pid::new(n))) {
            found.insert(stat.pid, stat);
        }
    }
    Ok(found)
}

/// Whether no thread of the process executes anything; `None` if the process has ended.
pub(crate) fn rests(pid: Pid) -> Option<bool> {
    // A thread that ended between the list and the look rests as well.
    Some(threads(pid)?.all(|stat| stat.rests()))
}

/// Whether a thread of the process sleeps uninterruptibly.
pub(crate) fn waits(pid: Pid) -> bool {
    threads(pid).is_some_and(|mut threads| threads.any(|stat| stat.state == 'D'))
}

fn threads(pid: Pid) -> Option<impl Iterator<Item = Stat>> {
    let tasks = fs::read_dir(directory(pid).join("task")).ok()?;
    Some(tasks.flatten().filter_map(|thread| {
        let bytes = fs::read(thread.path().join("stat")).ok()?;
        Stat::parse(&String::from_utf8_lossy(&bytes))
    }))
}

/// Sends a signal to the process with this PID and start time; does nothing if there is none.
pub(crate) fn signal_by_number(pid: Pid, start: u64, signal: Signal) -> Result<(), FreezeError> {
    match stat(pid) {
        Some(stat) if stat.start == start => told(send(pid, signal), pid),
        _ => Ok(()),
    }
}

/// Maps the result of a signal: a process that has ended needs none.
pub(crate) fn told(sent: io::Result<()>, pid: Pid) -> Result<(), FreezeError> {
    match sent {
        Err(error) if Errno::from_io_error(&error) != Some(Errno::SRCH) => {
            let path = format!("/proc/{pid}");
            Err(FreezeError::file("signal", path.as_ref())(error))
        }
        _ => Ok(()),
    }
}

/// Rejects a process that does not fully belong to that user (real, effective and saved user).
pub(crate) fn check_user(pid: Pid, group: Uid) -> Result<(), FreezeError> {
    let path = directory(pid).join("status");
    let bytes = fs::read(&path).map_err(|_| FreezeError::NoProcess(pid))?;
    let text = String::from_utf8_lossy(&bytes);
    let users = users(&text).ok_or_else(|| FreezeError::Unknown {
        path,
        text: idlewave_units::foreign::cut(&text),
    })?;
    match users.into_iter().find(|user| *user != group) {
        Some(theirs) => Err(FreezeError::OtherUser { pid, theirs, group }),
        None => Ok(()),
    }
}

/// Real, effective and saved user of a `status`.
fn users(status: &str) -> Option<[Uid; 3]> {
    let line = status.lines().find_map(|l| l.strip_prefix("Uid:"))?;
    let mut numbers = line.split_ascii_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok().map(Uid::new);
    Some([next()?, next()?, next()?])
}

/// The processes of `roots` and all their descendants, from their own lists of children: a few
/// reads of /proc instead of one for every process of the machine. A list is exact when its threads
/// have stopped (Documentation/filesystems/proc.rst); `None` if the kernel has none
/// (`CONFIG_PROC_CHILDREN`).
pub(crate) fn descendants(roots: &BTreeMap<Pid, u64>) -> Option<BTreeMap<Pid, Stat>> {
    if !Path::new("/proc/thread-self/children").exists() {
        return None;
    }
    let mut todo: Vec<(Pid, Option<u64>)> = roots.iter().map(|(p, s)| (*p, Some(*s))).collect();
    let mut found = BTreeMap::new();
    while let Some((pid, start)) = todo.pop() {
        let Some(stat) = stat(pid).filter(|stat| start.is_none_or(|s| s == stat.start)) else {
            continue;
        };
        if found.insert(pid, stat).is_none() {
            let tasks = fs::read_dir(directory(pid).join("task"));
            for task in tasks.into_iter().flatten().flatten() {
                let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
                let numbers = text.split_ascii_whitespace().filter_map(|n| n.parse().ok());
                todo.extend(numbers.map(|n| (Pid::new(n), None)));
            }
        }
    }
    Some(found)
}

/// The processes of `roots` and all their descendants, and those of `sessions`, in `all`.
pub(crate) fn closure(
    all: &BTreeMap<Pid, Stat>,
    roots: &BTreeSet<Pid>,
    sessions: &BTreeSet<Pid>,
) -> BTreeSet<Pid> {
    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    for stat in all.values() {
        children.entry(stat.parent).or_default().push(stat.pid);
    }
    let first = all.values().filter(|s| sessions.contains(&s.session));
    let mut todo: Vec<Pid> = first.map(|s| s.pid).collect();
    todo.extend(roots.iter().filter(|r| all.contains_key(r)));
    let mut found = BTreeSet::new();
    while let Some(pid) = todo.pop() {
        if found.insert(pid) {
            todo.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn made(pid: u32, parent: u32, session: u32) -> (Pid, Stat) {
        let stat = Stat {
            pid: Pid::new(pid),
            state: 'S',
            parent: Pid::new(parent),
            session: Pid::new(session),
            start: 1,
        };
        (stat.pid, stat)
    }

    fn pids(numbers: &[u32]) -> BTreeSet<Pid> {
        numbers.iter().copied().map(Pid::new).collect()
    }

    #[test]
    fn a_line_is_read_whatever_the_name_holds() {
        let line = "17 (a) R 1 (b c) T 5 6 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 987654 1 2";
        let stat = Stat::parse(line).unwrap();
        let expected = Stat {
            pid: Pid::new(17),
            state: 'T',
            parent: Pid::new(5),
            session: Pid::new(7),
            start: 987_654,
        };
        assert_eq!(stat, expected);
        assert!(stat.rests());
        assert_eq!(Stat::parse("17 (a) T 5 6 7"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn only_what_is_stopped_or_dead_rests() {
        let rests = |state| {
            let (_, stat) = made(1, 0, 0);
            Stat { state, ..stat }.rests()
        };
        assert!("TtZXx".chars().all(rests));
        assert!(!"RSDIKWP".chars().any(rests));
    }

    #[test]
    fn the_own_process_is_found_and_runs() {
        let own = Pid::new(std::process::id());
        let stat = stat(own).unwrap();
        assert_eq!(stat.pid, own);
        assert!(stat.start > 0);
        let found = all().unwrap();
        assert_eq!(found[&own].start, stat.start);
        assert_eq!(rests(own), Some(false));
    }

    #[test]
    fn a_process_is_of_a_user_only_with_all_three_numbers() {
        let [real, effective, saved] = users("Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t9\n").unwrap();
        assert_eq!((real.get(), effective.get(), saved.get()), (1, 2, 3));
        assert_eq!(users("Uid:\t1\t2\n"), None);
        assert_eq!(users("Gid:\t1\t2\t3\t4\n"), None);
        let own = Pid::new(std::process::id());
        check_user(own, Uid::own()).unwrap();
        let other = Uid::new(Uid::own().get() + 1);
        assert!(matches!(
            check_user(own, other),
            Err(FreezeError::OtherUser { theirs, .. }) if theirs == Uid::own()
        ));
    }

    #[test]
    fn descendants_and_sessions_are_followed_and_strangers_are_not() {
        let all: BTreeMap<_, _> = [
            made(1, 0, 1),
            made(10, 1, 10),
            made(11, 10, 10),
            made(12, 11, 12),
            // An orphan of session 10, and its child in another session.
            made(13, 1, 10),
            made(14, 13, 14),
            made(20, 1, 20),
        ]
        .into();
        let none = BTreeSet::new();
        assert_eq!(closure(&all, &pids(&[10]), &none), pids(&[10, 11, 12]));
        assert_eq!(
            closure(&all, &none, &pids(&[10])),
            pids(&[10, 11, 12, 13, 14])
        );
        assert_eq!(closure(&all, &pids(&[99]), &none), none);
    }

    #[test]
    fn children_are_found_by_their_parents_lists_as_among_all() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sh -c 'sleep 600 & wait' & wait"])
            .spawn()
            .unwrap();
        let pid = Pid::new(shell.id());
        let start = stat(pid).unwrap().start;
        let begun = Instant::now();
        let lists = loop {
            let lists = descendants(&[(pid, start)].into());
            let there = lists.as_ref().is_none_or(|l| l.len() == 3);
            if there || begun.elapsed() > Duration::from_secs(60) {
                break lists;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let among_all = closure(&all().unwrap(), &[pid].into(), &BTreeSet::new());
        let another = descendants(&[(pid, start + 1)].into());
        for child in among_all.iter().skip(1) {
            let number = child.get().to_string();
            let mut kill = std::process::Command::new("kill");
            assert!(kill.args(["-KILL", &number]).status().unwrap().success());
        }
        shell.wait().unwrap();
        let Some(lists) = lists else {
            println!("skipped: this kernel has no lists of children");
            return;
        };
        assert_eq!(among_all.len(), 3);
        assert_eq!(lists.into_keys().collect::<BTreeSet<_>>(), among_all);
        assert!(another.unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_a_line_or_none(text in "\\PC*") {
            let _ = Stat::parse(&text);
            let _ = users(&text);
        }

        #[test]
        fn a_closure_ends_with_any_parents(parents in proptest::collection::vec(0_u32..20, 1..20)) {
            let all: BTreeMap<_, _> = (0_u32..)
                .zip(&parents)
                .map(|(pid, parent)| made(pid, *parent, 0))
                .collect();
            let found = closure(&all, &pids(&[0]), &BTreeSet::new());
            prop_assert!(found.contains(&Pid::new(0)));
            for stat in all.values() {
                if found.contains(&stat.parent) {
                    prop_assert!(found.contains(&stat.pid));
                }
            }
        }
    }
}
