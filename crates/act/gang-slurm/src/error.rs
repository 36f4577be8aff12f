//! What can go wrong with jobs of Slurm.

use crate::ids::{JobId, NoJobId};
use idlewave_topology::HostlistError;
use std::path::{Path, PathBuf};

/// Why something of Slurm could not be read or changed. Fits "failed to ...".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlurmError {
    /// A file or a directory.
    #[error("{doing} {path}: {source}")]
    File {
        /// `read`, `write`, `replace` ...
        doing: &'static str,
        /// Which one.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// No number of a job.
    #[error(transparent)]
    JobId(#[from] NoJobId),
    /// A prolog or an epilog is called by Slurm, which sets these.
    #[error(
        "read the job: {0} is not set; Slurm must call this as PrologSlurmctld or EpilogSlurmctld of slurm.conf"
    )]
    Unset(&'static str),
    /// One that is set says nothing of use.
    #[error("read the job: {name} is {value:?}, expected a {wanted}")]
    Variable {
        /// Which one.
        name: &'static str,
        /// What it holds, cut.
        value: String,
        /// What was expected.
        wanted: &'static str,
    },
    /// The list of the job's nodes.
    #[error("read the nodes of the job: {0}")]
    Nodes(#[source] HostlistError),
    /// scontrol cannot be run, or failed.
    #[error("ask scontrol for the processes of job {job}: {why}")]
    Scontrol {
        /// Of which job.
        job: JobId,
        /// Its words, cut, or the system's.
        why: String,
    },
    /// A line of `scontrol listpids` that is none.
    #[error(
        "read line {line} of the output of scontrol: {text:?} does not name a process with its job and step"
    )]
    Listed {
        /// From 1 on.
        line: usize,
        /// The line, cut.
        text: String,
    },
    /// The text of slurm.conf.
    #[error("change {path}: {source}")]
    Conf {
        /// Which file.
        path: PathBuf,
        /// What is in the way.
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
