//! Why a slurm.conf is left as it is.

/// What is in the way of a change. Fits "failed to change FILE: ...".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfError {
    /// Bytes that are no UTF-8.
    #[error("line {0} is not valid UTF-8; rewrite the line in UTF-8")]
    NotText(usize),
    /// No partition to share CPUs in.
    #[error("no line begins with PartitionName; give the file that has the partitions")]
    NoPartition,
    /// A partition that was asked for.
    #[error("partition {0:?} does not exist")]
    UnknownPartition(String),
    /// Preemption by suspending, which Slurm does with the same means as its slices.
    #[error(
        "line {0} has PreemptMode with SUSPEND, which needs Slurm's own slices; use REQUEUE or CANCEL, or no preemption"
    )]
    Suspend(usize),
    /// One parameter on several lines: which of them count differs between the versions of Slurm.
    #[error("{key} is set on the lines {first} and {second}; leave one of them")]
    Twice {
        /// The parameter.
        key: &'static str,
        /// From 1 on.
        first: usize,
        /// From 1 on.
        second: usize,
    },
    /// A program of the site's that cannot be called from a script as Slurm would call it.
    #[error(
        "line {line}: {key}={value} is not the absolute path of a single program; give the path of a script that calls it"
    )]
    Program {
        /// From 1 on.
        line: usize,
        /// The parameter.
        key: &'static str,
        /// What it is set to.
        value: String,
    },
    /// A path that Slurm would not read back.
    #[error(
        "the path {0:?} cannot stand in slurm.conf: it must be absolute, without blanks, quotes, #, \\ and wildcards"
    )]
    Path(String),
    /// Sharing by fewer than two jobs is none.
    #[error(
        "{0} jobs per CPU requested; gang switching needs 2 or more, and Slurm accepts at most 65533"
    )]
    Sharing(u32),
    /// The scripts are to go, and the file still names them.
    #[error("it still names the scripts; restore it first")]
    InUse,
    /// Comments of an earlier change that do not belong together any more.
    #[error(
        "line {0} is out of place: it belongs to an earlier change; restore the file from the copy made before that change"
    )]
    Damaged(usize),
}
