//! Exit codes and failure messages. docs/exit-codes.md documents the codes.

use idlewave_explain::ExplainError;
use idlewave_pipeline::PipelineError;
use idlewave_run::RunError;
use idlewave_session::SessionError;
use idlewave_sys::terminal::say;
use idlewave_units::foreign::one_line;
use std::io::ErrorKind;
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
    /// An input is no bundle or schedule, is damaged, or has a newer schema.
    Bundle,
    /// A deadlocked job was ended.
    Deadlock,
    /// A part of the answer is missing; the rest was printed and written.
    Partly,
    /// The machine does not keep a limit that was given.
    Limit,
    /// A job was ended at its time limit: 124, as timeout(1) does.
    TimeOut,
    /// The command to be recorded is not executable: 126, as in shells.
    NotExecutable,
    /// The command to be recorded does not exist: 127, as in shells.
    NotFound,
    /// Ended cleanly on this signal: 128 plus its number, as in shells.
    Signal(i32),
}

impl Exit {
    /// The process exit status.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Other => 1,
            Exit::Usage => 2,
            Exit::NotPossible => 3,
            Exit::Io => 4,
            Exit::Bundle => 5,
            Exit::Deadlock => 6,
            Exit::Partly => 7,
            Exit::Limit => 8,
            Exit::TimeOut => 124,
            Exit::NotExecutable => 126,
            Exit::NotFound => 127,
            Exit::Signal(number) => 128u8.saturating_add(number.clamp(0, 127) as u8),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Why the command failed, and what to do next.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    /// Completes the phrase "failed to ...".
    pub what: String,
    /// The next step, in one line.
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
    /// One line with what failed and why, and a second one with the next step. Names from outside
    /// may contain any character, so both lines are escaped.
    pub fn text(&self, lead: &str) -> String {
        let mut text = format!("{lead} {}\n", one_line(&self.what));
        if let Some(next) = &self.next {
            text.push_str(&format!("next step: {}\n", one_line(next)));
        }
        text
    }
}

/// Prints the failure. The exit code reports it even if standard error cannot be written.
pub fn report_failure(failure: &Failure) -> ExitCode {
    say(&failure.text("idlewave: failed to"));
    failure.exit.into()
}

/// The exit code and the next step for a failure to read or write a bundle.
pub fn judge(error: &RunError) -> (Exit, &'static str) {
    const COPY: &str = "copy the bundle again from where it was recorded, or record again";
    match error {
        RunError::Io { action, source, .. } => match (*action, source.kind()) {
            ("read", ErrorKind::PermissionDenied) => {
                (Exit::Io, "read it as the user who recorded it")
            }
            // A file that the manifest names is missing or is not text.
            ("read", ErrorKind::NotFound | ErrorKind::InvalidData) => (Exit::Bundle, COPY),
            ("read", _) => (Exit::Io, COPY),
            ("create", ErrorKind::NotFound) => (
                Exit::Io,
                "create its parent directory, or choose another place with -o",
            ),
            _ => (Exit::Io, "choose a directory that you may write with -o"),
        },
        RunError::Exists(_) => (Exit::Io, "choose another name with -o, or remove it"),
        RunError::NotARun(path) if !path.exists() => (
            Exit::Bundle,
            "there is no such directory; give the one that `idlewave study`, `record` or `measure -o` made",
        ),
        RunError::NotARun(_) => (
            Exit::Bundle,
            "give the directory that `idlewave study`, `record` or `measure -o` made",
        ),
        RunError::Odd(_) => (
            Exit::Bundle,
            "remove it if you trust the rest of the run: idlewave itself puts none there",
        ),
        RunError::NewerSchema { .. } => (
            Exit::Bundle,
            "use the idlewave that wrote it, or a newer one",
        ),
        RunError::Manifest { .. } | RunError::Table { .. } | RunError::NoTable { .. } => {
            (Exit::Bundle, COPY)
        }
    }
}

impl From<PipelineError> for Failure {
    fn from(error: PipelineError) -> Self {
        let exit = match error {
            PipelineError::Session(error) => return error.into(),
            PipelineError::Explain(ExplainError::Filter(_) | ExplainError::NotComparable(_)) => {
                Exit::Usage
            }
            PipelineError::Explain(_) => Exit::Bundle,
            _ => Exit::Other,
        };
        Failure {
            exit,
            what: error.to_string(),
            next: error.next_step(),
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let mut next = error.next_step();
        let cause = match &error {
            SessionError::NothingKept(cause) => cause,
            error => error,
        };
        let exit = match cause {
            SessionError::Run(run) => {
                let (exit, usual) = judge(run);
                next.get_or_insert(usual.to_owned());
                exit
            }
            SessionError::Option { .. } => Exit::Usage,
            SessionError::NotPossible { .. } => Exit::NotPossible,
            SessionError::Busy(_) | SessionError::Damaged { .. } => Exit::Bundle,
            SessionError::Io { .. } | SessionError::Trace(_) => Exit::Io,
            _ => Exit::Other,
        };
        Failure {
            exit,
            what: error.to_string(),
            next,
        }
    }
}
