//! Exit codes and what is said with them. The codes are documented in docs/exit-codes.md.

use idlewave_run::RunError;
use idlewave_study::StudyError;
use std::process::ExitCode;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done,
    /// A defect of idlewave, or something that no other code covers.
    Other,
    /// The command line cannot be carried out as it stands. clap uses the same code.
    Usage,
    /// This machine, or this user's rights on it, do not allow the measurement.
    NotPossible,
    /// Reading or writing failed: disk full, directory not writable.
    Io,
    /// The bundle is none, is damaged, or is of a newer schema.
    Bundle,
    /// Ended by this signal, in order: 128 plus its number, as shells do.
    Signal(i32),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Other => 1,
            Exit::Usage => 2,
            Exit::NotPossible => 3,
            Exit::Io => 4,
            Exit::Bundle => 5,
            Exit::Signal(number) => 128u8.saturating_add(number.clamp(0, 127) as u8),
        })
    }
}

/// Why the command failed, and what to do next.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    /// Fits "failed to ...".
    pub what: String,
    /// One line.
    pub next: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self {
            exit,
            what: what.into(),
            next: None,
        }
    }
    pub fn with_next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let (exit, next) = match &error {
            _ if error.is_disk_full() => (
                Exit::Io,
                "free some space, or choose another place with -o; what was recorded is readable",
            ),
            RunError::Io { .. } => (Exit::Io, "choose a directory that you may write with -o"),
            RunError::Exists(_) => (Exit::Io, "choose another name with -o, or remove it"),
            RunError::NotARun(_) => (
                Exit::Bundle,
                "give the directory that `idlewave study` made",
            ),
            RunError::NewerSchema { .. } => (
                Exit::Bundle,
                "use the idlewave that wrote it, or a newer one",
            ),
            RunError::Manifest { .. } | RunError::Table { .. } | RunError::NoTable { .. } => (
                Exit::Bundle,
                "copy the bundle again from where it was recorded, or record anew",
            ),
        };
        Failure::new(exit, error.to_string()).with_next(next)
    }
}

impl From<StudyError> for Failure {
    fn from(error: StudyError) -> Self {
        let next = error.next_step();
        let exit = match &error {
            StudyError::Run(_) => {
                let StudyError::Run(run) = error else {
                    unreachable!("matched above")
                };
                return run.into();
            }
            StudyError::Option { .. } => Exit::Usage,
            StudyError::NotPossible { .. } => Exit::NotPossible,
            StudyError::Busy(_) | StudyError::Damaged { .. } => Exit::Bundle,
            StudyError::Io { .. } => Exit::Io,
            _ => Exit::Other,
        };
        Failure {
            exit,
            what: error.to_string(),
            next,
        }
    }
}
