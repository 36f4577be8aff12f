//! Why a slurm.conf is left unchanged.

/// What prevents a change. Fits "failed to change FILE: ...".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfError {
    /// Bytes that are not UTF-8.
    #[error("line {0} is not valid UTF-8; rewrite the line in UTF-8")]
    NotText(usize),
    /// The file has no partition in which to share CPUs.
    #[error("no line begins with PartitionName; give the file that has the partitions")]
    NoPartition,
    /// A partition that was requested does not exist.
    #[error("partition {0:?} does not exist")]
    UnknownPartition(String),
    /// Preemption by suspending, for which Slurm uses the same mechanism as for its time slices.
    #[error(
        "line {0} has PreemptMode with SUSPEND, which needs Slurm's own slices; use REQUEUE or CANCEL, or no preemption"
    )]
    Suspend(usize),
    /// One parameter on several lines: which one counts depends on the version of Slurm.
    #[error("{key} is set on the lines {first} and {second}; leave one of them")]
    Twice {
        /// The parameter.
        key: &'static str,
        /// Counted from 1.
        first: usize,
        /// Counted from 1.
        second: usize,
    },
    /// A program of the site that a script cannot call as Slurm would.
    #[error(
        "line {line}: {key}={value} is not the absolute path of a single program; give the path of a script that calls it"
    )]
    Program {
        /// Counted from 1.
        line: usize,
        /// The parameter.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// A path that Slurm would not read back unchanged.
    #[error(
        "the path {0:?} cannot stand in slurm.conf: it must be absolute, without blanks, quotes, #, \\ and wildcards"
    )]
    Path(String),
    /// The number of jobs per CPU is out of range.
    #[error(
        "{0} jobs per CPU requested; gang switching needs 2 or more, and Slurm accepts at most 65533"
    )]
    Sharing(u32),
    /// The scripts should be removed, but the file still names them.
    #[error("it still names the scripts; restore it first")]
    InUse,
    /// Comments of an earlier change that no longer belong together.
    #[error(
        "line {0} is out of place: it belongs to an earlier change; restore the file from the copy made before that change"
    )]
    Damaged(usize),
}
