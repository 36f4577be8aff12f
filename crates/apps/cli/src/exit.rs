//! Exit codes and what is said with them. The codes are documented in docs/exit-codes.md.

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
    /// What was to be read is no bundle or no schedule, is damaged, or is of a newer schema.
    Bundle,
    /// A job was ended because its ranks waited for each other.
    Deadlock,
    /// A part of what was asked for could not be told; the rest was printed and written.
    Partly,
    /// A job was ended because its time was over: 124, as of timeout(1).
    TimeOut,
    /// The command to be recorded may not be executed: 126, as in shells.
    NotExecutable,
    /// The command to be recorded does not exist: 127, as in shells.
    NotFound,
    /// Ended by this signal, in order: 128 plus its number, as shells do.
    Signal(i32),
}

impl Exit {
    /// Its number.
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
    /// One line: what was not done and why; a second one: what to do next. Foreign names in them
    /// may hold anything.
    pub fn text(&self, lead: &str) -> String {
        let mut text = format!("{lead} {}\n", one_line(&self.what));
        if let Some(next) = &self.next {
            text.push_str(&format!("next step: {}\n", one_line(next)));
        }
        text
    }
}

/// Says it; the exit code still tells where standard error takes nothing.
pub fn report_failure(failure: &Failure) -> ExitCode {
    say(&failure.text("idlewave: failed to"));
    failure.exit.into()
}

/// What a failure with the bundle amounts to, and what to do next.
fn judge(error: &RunError) -> (Exit, &'static str) {
    const COPY: &str = "copy the bundle again from where it was recorded, or record again";
    match error {
        RunError::Io { action, source, .. } => match (*action, source.kind()) {
            ("read", ErrorKind::PermissionDenied) => {
                (Exit::Io, "read it as the user who recorded it")
            }
            // A file that the manifest names is not there, or is not text.
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
