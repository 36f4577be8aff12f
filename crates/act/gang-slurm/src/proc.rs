//! What is read about processes from a directory in the form of /proc (proc(5)).

use crate::SlurmError;
use crate::cgroup::Membership;
use idlewave_sys::Uid;
use idlewave_units::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// One process as it was when read.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) parent: Pid,
    /// Clock ticks since boot.
    pub(crate) start: u64,
    /// The name of the program, truncated by the kernel to 15 bytes.
    pub(crate) name: String,
    /// Real, effective and saved user.
    pub(crate) users: [Uid; 3],
    pub(crate) group: Option<Membership>,
}

/// All current processes. A process that ends meanwhile is left out, as is a zombie.
pub(crate) fn all(root: &Path) -> Result<BTreeMap<Pid, Seen>, SlurmError> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root).map_err(SlurmError::file("read", root))? {
        let entry = entry.map_err(SlurmError::file("read", root))?;
        let number = entry.file_name().to_str().and_then(crate::ids::digits);
        if let Some((pid, seen)) = number.and_then(|n| Some((Pid::new(n), look(&entry.path())?))) {
            found.insert(pid, seen);
        }
    }
    Ok(found)
}

fn look(directory: &Path) -> Option<Seen> {
    // Names of programs need not be UTF-8.
    let read = |file: &str| {
        let bytes = fs::read(directory.join(file)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (name, parent, start) = stat(&read("stat")?)?;
    let users = users(&read("status")?)?;
    Some(Seen {
        parent,
        start,
        name,
        users,
        group: read("cgroup").and_then(|text| Membership::parse(&text)),
    })
}

/// Name, parent and start of a living process. The name may contain blanks and brackets.
fn stat(line: &str) -> Option<(String, Pid, u64)> {
    let (_, rest) = line.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X" | "x") {
        return None;
    }
    // The third field of the line is the first here.
    let parent = fields.get(4 - 3)?.parse().ok()?;
    let start = fields.get(22 - 3)?.parse().ok()?;
    Some((name.to_owned(), Pid::new(parent), start))
}

fn users(status: &str) -> Option<[Uid; 3]> {
    let line = status.lines().find_map(|l| l.strip_prefix("Uid:"))?;
    let mut numbers = line.split_ascii_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok().map(Uid::new);
    Some([next()?, next()?, next()?])
}

/// The variables that a process was started with; `None` if they cannot be read, as for another
/// user's process without the right to do so.
pub(crate) fn environment(root: &Path, pid: Pid) -> Option<Vec<u8>> {
    fs::read(root.join(pid.to_string()).join("environ")).ok()
}

/// The value of a variable; the first occurrence counts, as for getenv(3).
pub(crate) fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a str> {
    environment.split(|b| *b == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        std::str::from_utf8(value).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_stat_gives_name_parent_and_start() {
        let rest = "3 4 5 0 -1 7 8 9 10 11 12 13 14 15 16 17 18 19 4711 21";
        let line = |state: &str| format!("77 (a) b (c)) {state} {rest}");
        let expected = Some(("a) b (c)".to_owned(), Pid::new(3), 4711));
        assert_eq!(stat(&line("S")), expected);
        assert_eq!(stat(&line("T")), expected);
        assert_eq!(stat(&line("Z")), None);
        assert_eq!(stat("77 (a) S 3"), None);
        assert_eq!(stat(""), None);
    }

    #[test]
    fn variables_are_found_by_their_whole_name() {
        let block = b"XSLURM_JOB_ID=1\0SLURM_JOB_ID_X=2\0SLURM_JOB_ID=3\0SLURM_JOB_ID=4\0BAD=\xff\0EMPTY=\0";
        assert_eq!(variable(block, "SLURM_JOB_ID"), Some("3"));
        assert_eq!(variable(block, "EMPTY"), Some(""));
        assert_eq!(variable(block, "BAD"), None);
        assert_eq!(variable(block, "SLURM_JOB"), None);
    }

    #[test]
    fn users_are_all_three_numbers() {
        let ids = |text: &str| users(text).map(|u| u.map(Uid::get));
        assert_eq!(ids("Name:\tx\nUid:\t1\t2\t3\t4\n"), Some([1, 2, 3]));
        assert_eq!(ids("Uid:\t1\t2\n"), None);
    }
}
