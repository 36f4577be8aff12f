//! `idlewave record`, and the hidden commands that it starts on other nodes.

use crate::effort::effort;
use crate::exit::{Exit, Failure, report_failure};
use crate::progress::Bars;
use crate::signals::for_program;
use clap::Args;
use idlewave_pipeline::summary;
use idlewave_record::{KernelTrace, RecordError, RecordOptions, Recorded, record};
use idlewave_sys::run_as::{RunAsError, User, go_on_as};
use idlewave_sys::terminal::{Stream, say};
use idlewave_units::Nanos;
use idlewave_units::counted;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  idlewave record -- mpirun -n 4 ./app
  sudo idlewave record -o slow -- mpirun -n 4 ./app
  idlewave record --no-report -o single -- ./app

In a job script, put it before the launcher, as above: of a whole script, only
the ranks on this node are recorded.

Under sudo the program still runs as you, and you own the run; root's rights
are only used to trace the kernel.")]
pub struct RecordArgs {
    /// Directory for the run; must not exist, or be empty [default: idlewave-record-<date>-<time>]
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Do not trace the kernel (causes will have no names)
    #[arg(long)]
    no_trace: bool,
    /// Record the system calls of the ranks too, for `explain --view syscalls`; costs each
    /// call about half a microsecond
    #[arg(long, conflicts_with = "no_trace")]
    syscalls: bool,
    /// Only record; do not explain the run or write the report
    #[arg(long)]
    no_report: bool,
    /// Number of words before the program in a launcher's command, launcher included; for when
    /// idlewave does not find the program
    #[arg(long, value_name = "N")]
    at: Option<usize>,
    /// Run the program as this user (name or number), who then owns the run; needs root [default:
    /// the user who called sudo]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The command, with its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    program: Vec<OsString>,
}

impl RecordArgs {
    fn into_options(self) -> RecordOptions {
        RecordOptions {
            output: self.output,
            trace: match (self.no_trace, self.syscalls) {
                (true, _) => KernelTrace::Off,
                (false, false) => KernelTrace::On,
                (false, true) => KernelTrace::WithSyscalls,
            },
            report: !self.no_report,
            effort: effort(),
            at: self.at,
            program: self.program,
            command: std::env::args_os()
                .map(|arg| arg.to_string_lossy().into_owned())
                .collect(),
            clocks: true,
            unattended: None,
        }
    }
}

#[derive(Debug, Args)]
pub struct NodeRunArgs {
    token: String,
    #[arg(required = true, last = true)]
    program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct NodeSendArgs {
    token: String,
}

#[derive(Debug, Args)]
pub struct NodeRecordArgs {
    token: String,
    bundle: PathBuf,
}

/// Records a command. Standard output belongs to the program, so all our messages go to standard
/// error.
pub fn run_record(args: RecordArgs) -> ExitCode {
    // Before any thread starts.
    let signals = as_user(args.user.as_deref()).and_then(|()| for_program());
    let mut signals = match signals {
        Ok(signals) => signals,
        Err(failure) => return report_failure(&failure),
    };
    let bars = Bars::new(true);
    let recorded = record(&args.into_options(), &mut signals, &bars);
    bars.finish();
    match recorded {
        Ok(recorded) => {
            tell(&recorded);
            if let Some(trouble) = recorded.trouble {
                let lead = "idlewave: the recording is incomplete: failed to";
                say(&Failure::from(trouble).text(lead));
            }
            // Exit codes are bytes: a shell ignores higher bits too.
            ExitCode::from(recorded.exit_code as u8)
        }
        Err(error) => report_failure(&error.into()),
    }
}

/// Continues as this user, or as the one who called sudo, with this process's capabilities.
pub fn as_user(given: Option<&str>) -> Result<(), Failure> {
    let go = || {
        let user = match given {
            Some(who) => Some(User::find(who)?),
            None => User::behind_sudo(),
        };
        user.map_or(Ok(()), |user| go_on_as(&user))
    };
    go().map_err(|error: RunAsError| {
        Failure::new(Exit::Usage, error.to_string()).with_next(
            "omit --user, or give a user of this machine as root, as in sudo idlewave record --user NAME -- ./app",
        )
    })
}

/// Prints the result; errors are ignored.
fn tell(recorded: &Recorded) {
    let Some(analysis) = &recorded.analysis else {
        return say(&unexplained(recorded));
    };
    let stream = Stream::Error;
    let text = summary(analysis, stream.width(), stream.is_coloured());
    let _ = stream.write_coloured(&text);
    say(&format!(
        "report: {}/report.html\n",
        recorded.path.display()
    ));
}

fn unexplained(recorded: &Recorded) -> String {
    let path = recorded.path.display();
    if recorded.never_started {
        return format!(
            "idlewave: nothing was recorded, and {path} was not kept: the launcher ended with exit code {} before it started the program\n\
             next step: read the launcher's messages above, fix the cause and run the same command again\n",
            recorded.exit_code
        );
    }
    let seen = recorded.seen;
    let elapsed = Nanos::from_nanos(seen.elapsed.get() / 1_000_000 * 1_000_000);
    let all = match recorded.merged {
        Some(nodes) => format!(
            " on this node; {nodes} in all",
            nodes = counted(nodes, "node")
        ),
        None => String::new(),
    };
    format!(
        "idlewave: recorded {elapsed} in {path} ({} of {}{all}); to explain it: idlewave explain {path}\n",
        counted(seen.records, "record"),
        counted(seen.ranks, "thread")
    )
}

/// Becomes a process of a recorded program on some node.
pub fn run_node(args: &NodeRunArgs) -> ExitCode {
    ExitCode::from(idlewave_record::node_run(&args.token, &args.program) as u8)
}

/// Sends a node's bundle.
pub fn run_node_send(args: &NodeSendArgs) -> ExitCode {
    ExitCode::from(idlewave_record::node_send(&args.token) as u8)
}

/// Records a node.
pub fn run_node_record(args: &NodeRecordArgs) -> ExitCode {
    ExitCode::from(idlewave_record::node_record(&args.token, &args.bundle) as u8)
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let what = error.to_string();
        match error {
            RecordError::Recording(error) => error.into(),
            RecordError::NotFound(_) => {
                Failure::new(Exit::NotFound, what).with_next("check the command's name and PATH")
            }
            RecordError::NotStarted { .. } => Failure::new(Exit::NotExecutable, what)
                .with_next("check that the file is executable, as with ls -l"),
            // The error itself says what to do.
            RecordError::Launch(_) => Failure::new(Exit::Usage, what),
            _ => Failure::new(Exit::Usage, what)
                .with_next("give the command behind --, as in idlewave record -- ./app"),
        }
    }
}
