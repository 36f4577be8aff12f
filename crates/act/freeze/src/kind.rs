//! The methods of stopping processes.

use std::fmt;

/// A method of stopping processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The freezer of cgroup v2, Linux 5.2: invisible to the processes and their parents, and
    /// confirmed; frozen processes can be killed.
    V2,
    /// The freezer of cgroup v1: like that of v2, but frozen processes die only when thawed.
    V1,
    /// `SIGSTOP` and `SIGCONT`: need no rights beyond being the same user. Parents see it
    /// (`waitpid` with `WUNTRACED`), any process of the user can undo it, and finding and
    /// confirming all processes takes readings of /proc.
    Signals,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::V2 => "cgroup v2",
            Kind::V1 => "cgroup v1",
            Kind::Signals => "signals",
        })
    }
}
