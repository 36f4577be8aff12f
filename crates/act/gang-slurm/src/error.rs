//! Errors in dealing with jobs of Slurm.

use crate::ids::{JobId, NoJobId};
use idlewave_topology::HostlistError;
use std::path::{Path, PathBuf};

/// Why something of Slurm's could not be read or changed. Fits "failed to ...".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlurmError {
    /// A file or directory operation failed.
    #[error("{doing} {path}: {source}")]
    File {
        /// `read`, `write`, `replace` ...
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// Not a valid job number.
    #[error(transparent)]
    JobId(#[from] NoJobId),
    /// A variable that Slurm sets when it calls a prolog or epilog is missing.
    #[error(
        "read the job: {0} is not set; Slurm must call this as PrologSlurmctld or EpilogSlurmctld of slurm.conf"
    )]
    Unset(&'static str),
    /// A variable is set to a value that cannot be used.
    #[error("read the job: {name} is {value:?}, expected a {wanted}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value, truncated.
        value: String,
        /// What was expected.
        wanted: &'static str,
    },
    /// The job's list of nodes is invalid.
    #[error("read the nodes of the job: {0}")]
    Nodes(#[source] HostlistError),
    /// scontrol could not be run, or failed.
    #[error("ask scontrol for the processes of job {job}: {why}")]
    Scontrol {
        /// The job.
        job: JobId,
        /// scontrol's message, truncated, or the system's.
        why: String,
    },
    /// A line of `scontrol listpids` that does not name a process.
    #[error(
        "read line {line} of the output of scontrol: {text:?} does not name a process with its job and step"
    )]
    Listed {
        /// Counted from 1.
        line: usize,
        /// The line, truncated.
        text: String,
    },
    /// The text of slurm.conf cannot be changed.
    #[error("change {path}: {source}")]
    Conf {
        /// The file.
        path: PathBuf,
        /// What prevents the change.
        source: crate::conf::ConfError,
    },
}

impl SlurmError {
    /// For `map_err` of file operations.
    pub(crate) fn file(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| SlurmError::File {
            doing,
            path,
            source,
        }
    }
}
