//! The front's message to the nodes: the token in their command line.

use crate::KernelTrace;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use idlewave_interpose::ring::CLOCKS_VARIABLE;
use idlewave_sys::files;
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// One recording on several nodes. As text it is a token of letters, digits, `-` and `_`, which no
/// shell changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Secret of this recording's processes: 32 hexadecimal digits.
    pub id: String,
    /// Directory of the bundle, absolute, as the front names it.
    pub run: PathBuf,
    /// The command line, for the manifests of the nodes.
    pub command: Vec<String>,
    /// What to record of the kernel.
    pub trace: KernelTrace,
    /// Whether the ranks compare the clocks of their nodes.
    pub clocks: bool,
    /// Nodes whose bundles the front has; they need not send them again.
    #[serde(default)]
    pub have: Vec<String>,
    /// The only node that should send now: if several send at once, some launchers tear lines.
    #[serde(default)]
    pub only: Option<String>,
    /// How often bundles have been requested.
    #[serde(default)]
    pub round: u32,
}

/// Name of the directory in the bundle where nodes put theirs.
const INCOMING: &str = ".nodes";
/// File in it with the job's number: a process that can read it sees the front's directory.
const TOKEN: &str = "job";

impl Job {
    /// A new job.
    ///
    /// # Errors
    /// The kernel returns no random numbers.
    pub fn new(run: &Path, command: &[String], trace: KernelTrace) -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let id = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let (command, have) = (command.to_vec(), Vec::new());
        Ok(Self {
            id,
            run: std::path::absolute(run)?,
            command,
            trace,
            clocks: true,
            have,
            only: None,
            round: 0,
        })
    }

    /// What the environment of all ranks must hold beside that of their node's recorder.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let clocks = (CLOCKS_VARIABLE.to_owned(), "nodes".to_owned());
        self.clocks.then_some(clocks).into_iter().collect()
    }

    /// The token.
    pub fn encode(&self) -> String {
        // Strings, a flag and paths from the command line: JSON can represent all but paths that
        // are not UTF-8, which the front has rejected.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    /// The job of a token; `None` if it is invalid.
    pub fn decode(token: &str) -> Option<Self> {
        let job: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        // It becomes part of a path.
        let plain = job.id.len() == 32 && job.id.bytes().all(|b| b.is_ascii_hexdigit());
        plain.then_some(job)
    }

    /// Where nodes that see the front's directory put their bundles.
    pub fn incoming(&self) -> PathBuf {
        incoming(&self.run)
    }

    /// Creates the place for the nodes' bundles; the bundle itself must exist.
    ///
    /// # Errors
    /// The place cannot be written.
    pub fn open_incoming(&self) -> std::io::Result<()> {
        files::create_directory(&self.incoming())?;
        files::replace(&self.incoming().join(TOKEN), self.id.as_bytes())
    }

    /// Whether the front's directory is visible here.
    pub fn sees_incoming(&self) -> bool {
        let token = self.incoming().join(TOKEN);
        files::read(&token, 64).is_ok_and(|id| id == self.id.as_bytes())
    }
}

/// Where the bundles of other nodes are put, in the bundle's directory.
pub(crate) fn incoming(run: &Path) -> PathBuf {
    run.join(INCOMING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_survives_the_way_through_its_token() {
        let dir = tempfile::tempdir().unwrap();
        let command = ["mpirun".to_owned(), "a b 'c' \"d\" $e \n ü".to_owned()];
        let job = Job::new(dir.path(), &command, KernelTrace::On).unwrap();
        let token = job.encode();
        assert!(
            token
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        );
        assert_eq!(Job::decode(&token), Some(job.clone()));
        assert_ne!(
            Job::new(dir.path(), &command, KernelTrace::On).unwrap().id,
            job.id
        );
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut job = Job::new(dir.path(), &[], KernelTrace::On).unwrap();
        job.id = "../../../../etc/................".to_owned();
        for token in ["", "x", "e30", "./app", &job.encode()] {
            assert_eq!(Job::decode(token), None, "{token}");
        }
    }

    #[test]
    fn the_front_s_directory_is_known_by_the_job_s_number() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let job = Job::new(here.path(), &[], KernelTrace::On).unwrap();
        assert!(!job.sees_incoming());
        job.open_incoming().unwrap();
        assert!(job.sees_incoming());
        // A directory of the same name on another node, from another job.
        let other = Job {
            run: there.path().to_owned(),
            ..job
        };
        Job::new(there.path(), &[], KernelTrace::On)
            .unwrap()
            .open_incoming()
            .unwrap();
        assert!(!other.sees_incoming());
    }
}
