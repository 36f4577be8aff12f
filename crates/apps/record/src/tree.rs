//! The descendants of a process.

use idlewave_sys::process::{self, Signal};
use idlewave_units::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// Sends a signal to a process; one that has ended is left alone.
pub fn send(pid: u32, signal: Signal) {
    let _ = process::send(Pid::new(pid), signal);
}

/// Asks a command to end as a terminal would: the signal goes to it and to those of its descendants
/// that are in this process's group, in which it was started. Ranks that their launcher put into
/// groups of their own get the signal from the launcher.
pub fn ask_to_end(command: u32, signal: Signal) {
    let own = process::group(Pid::new(std::process::id()));
    for pid in descendants(command) {
        if pid == command || process::group(Pid::new(pid)) == own {
            send(pid, signal);
        }
    }
}

/// Whether a process was started with this variable in its environment: its PID may belong to
/// another process by now.
pub fn was_given(pid: u32, variable: &str, value: &OsStr) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let own = [variable.as_bytes(), b"=", value.as_bytes()].concat();
    environment.split(|&byte| byte == 0).any(|word| word == own)
}

/// A process and all that descend from it now, the process first.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()) {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut found, mut known) = (vec![root], BTreeSet::from([root]));
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        at += 1;
        for &child in children.get(&pid).into_iter().flatten() {
            if known.insert(child) {
                found.push(child);
            }
        }
    }
    found
}

/// Field 4 of /proc/PID/stat, behind the name (proc(5)).
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_descends_from_its_parent() {
        let own = std::process::id();
        let parent = parent(own).expect("this process has a parent");
        assert_eq!(descendants(own)[0], own);
        assert!(descendants(parent).contains(&own));
        assert_eq!(descendants(u32::MAX), [u32::MAX]);
    }
}
