//! `idlewave record`, and what it starts on other nodes.

use crate::args::{NodeRecordArgs, NodeRunArgs, NodeSendArgs, RecordArgs};
use crate::exit::{Exit, Failure};
use crate::progress::Bars;
use crate::{report_failure, terminal_width};
use idlewave_record::{RecordError, Recorded, Signals, record};
use idlewave_recording::summary;
use idlewave_units::Nanos;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Records a command. Standard output is the program's own, so all our words go to standard error.
pub fn run_record(args: RecordArgs) -> ExitCode {
    let mut signals = match Signals::install() {
        Ok(signals) => signals,
        Err(error) => {
            let failure = Failure::new(Exit::Other, format!("watch for signals: {error}"));
            return report_failure(&failure);
        }
    };
    let bars = Bars::new(true);
    let recorded = record(&args.into_options(), &mut signals, &bars);
    bars.finish();
    match recorded {
        Ok(recorded) => {
            say(recorded_text(&recorded));
            if let Some(trouble) = recorded.trouble {
                let failure = Failure::from(trouble);
                say(format!(
                    "idlewave: the recording is not complete: failed to {}\n",
                    failure.what
                ));
                if let Some(next) = failure.next {
                    say(format!("next step: {next}\n"));
                }
            }
            // Exit codes are bytes: what is above has no meaning for a shell either.
            ExitCode::from(recorded.exit_code as u8)
        }
        Err(error) => report_failure(&error.into()),
    }
}

fn recorded_text(recorded: &Recorded) -> String {
    let path = recorded.path.display();
    if recorded.never_started {
        return format!(
            "idlewave: no MPI program was recorded: the launcher ended with exit code {} before it started one ({path} holds what the machine did meanwhile)\n",
            recorded.exit_code
        );
    }
    let Some(analysis) = &recorded.analysis else {
        let seen = recorded.seen;
        let elapsed = Nanos::from_nanos(seen.elapsed.get() / 1_000_000 * 1_000_000);
        let all = match recorded.merged {
            Some(nodes) => format!(" on this node; {nodes} nodes in all"),
            None => String::new(),
        };
        return format!(
            "idlewave: recorded {elapsed} in {path} ({} records of {} threads{all}); to explain it: idlewave explain {path}\n",
            seen.records, seen.ranks
        );
    };
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    match summary(analysis, false, terminal_width(), color) {
        Ok(text) => format!("{text}report: {path}/report.html\n"),
        Err(error) => format!("idlewave: failed to {error}\n"),
    }
}

fn say(text: String) {
    // Nobody is there to be told that nobody is there.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// A process of a recorded program on some node.
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
                .with_next("check that the file may be executed, as with ls -l"),
            // It says itself what to do.
            RecordError::Launch(_) => Failure::new(Exit::Usage, what),
            _ => Failure::new(Exit::Usage, what)
                .with_next("give the command behind --, as in idlewave record -- ./app"),
        }
    }
}
