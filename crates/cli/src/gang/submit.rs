//! `idlewave gang submit`: a command whose ranks are a gang.

use super::{Place, ask};
use crate::exit::{Exit, Failure};
use crate::report_failure;
use clap::Args;
use idlewave_agent::control::{Reply, Request, Stage};
use idlewave_agent::{Control, Mark, marked};
use idlewave_record::{Machine, Signals, exit_code, find_launch, start, wait_for};
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// How often the service is listened to.
const PERIOD: Duration = Duration::from_millis(50);

/// How often a service that has gone is looked for.
const AGAIN: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Its turns come first, within a share of the time
    #[arg(long)]
    interactive: bool,
    /// Its share against other gangs, from 1
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    weight: u32,
    /// Name to be shown [default: the program's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The program is word N of the command, if it cannot be found in a launcher's
    #[arg(long, value_name = "N")]
    at: Option<usize>,
    /// Say what happens with the gang
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    place: Place,
    /// The command: a launcher with its program, or any program
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command; standard output and the exit code are its own.
pub fn submit(args: &SubmitArgs) -> ExitCode {
    match submitted(args) {
        // Exit codes are bytes: what is above has no meaning for a shell either.
        Ok(code) => ExitCode::from(code as u8),
        Err(failure) => report_failure(&failure),
    }
}

fn submitted(args: &SubmitArgs) -> Result<i32, Failure> {
    let mut signals = Signals::install()
        .map_err(|error| Failure::new(Exit::Other, format!("watch for signals: {error}")))?;
    let token = token();
    let launch = find_launch(&args.command, args.at, &Machine)
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    // With a launcher only the ranks bear the mark, on whichever node they are.
    let mark = format!("{}={token}", marked::VARIABLE);
    let (command, environment) = match &launch {
        Some(launch) => {
            let shim = [OsString::from("env"), OsString::from(&mark)];
            (launch.with_shim(&args.command, &shim), Vec::new())
        }
        None => {
            let variable = (OsString::from(marked::VARIABLE), OsString::from(&token));
            (args.command.clone(), vec![variable])
        }
    };
    let program = launch
        .as_ref()
        .and_then(|l| l.programs.first())
        .map_or(0, |words| words.start);
    let name = args.name.clone().unwrap_or_else(|| {
        let mut words = args.command.iter().skip(program).take(4);
        let first = words
            .next()
            .map(|word| Path::new(word).file_name().unwrap_or(word));
        let words: Vec<_> = first
            .into_iter()
            .chain(words.map(OsString::as_os_str))
            .map(OsStr::to_string_lossy)
            .collect();
        words.join(" ").chars().take(60).collect()
    });
    let mut control = args.place.connect()?;
    let request = Request::Submit {
        name,
        mark: Mark::Token(token),
        user: idlewave_agent::own_user(),
        interactive: args.interactive,
        weight: args.weight,
        keep: false,
    };
    match control.ask(&request) {
        Ok(Reply::Submitted { gang }) => {
            if args.verbose {
                say(&format!("idlewave: gang {gang}\n"));
            }
            let mut service = Service {
                args,
                request,
                gang,
                control: Some(control),
                again: Instant::now(),
                refused: false,
            };
            let child = start(&command, &environment)?;
            let status = wait_for(child, &mut signals, PERIOD, || service.listen());
            Ok(exit_code(status))
        }
        Ok(Reply::Failed(why)) => Err(ask::refusal(why)),
        Ok(_) | Err(_) => Err(Failure::new(Exit::Other, "hear from the gang service")
            .with_next("see whether it still runs, with `idlewave gang status`")),
    }
}

/// The service, and what it knows of the gang. When it has gone the command runs on, and is submitted again when it is back: its
/// ranks bear the same mark.
struct Service<'a> {
    args: &'a SubmitArgs,
    request: Request,
    gang: u32,
    control: Option<Control>,
    /// When it is looked for again.
    again: Instant,
    /// Whether it was said that it does not take the gang back.
    refused: bool,
}

impl Service<'_> {
    fn listen(&mut self) {
        let Some(control) = &mut self.control else {
            if Instant::now() >= self.again {
                self.again = Instant::now() + AGAIN;
                self.return_to();
            }
            return;
        };
        match control.next(Some(Duration::from_millis(1))) {
            Ok(Some(Reply::Changed { stage, ending })) => self.changed(stage, ending),
            Ok(_) => {}
            Err(_) => {
                self.control = None;
                self.again = Instant::now() + AGAIN;
                say(
                    "idlewave: the gang service has gone; the command runs on, unswitched until it is back\n",
                );
            }
        }
    }

    fn changed(&self, stage: Stage, ending: bool) {
        let what = match stage {
            _ if ending => "its processes are told to end",
            Stage::Waiting => "waits for its ranks",
            Stage::Starting => "its ranks are coming; they run freely until all are there",
            Stage::Running => "takes turns from now on",
            Stage::Ended => "its ranks have ended",
        };
        if self.args.verbose || ending {
            say(&format!("idlewave: gang {}: {what}\n", self.gang));
        }
    }

    fn return_to(&mut self) {
        let Ok(mut control) = self.args.place.connect() else {
            return;
        };
        match control.ask(&self.request) {
            Ok(Reply::Submitted { gang }) => {
                self.gang = gang;
                self.control = Some(control);
                self.refused = false;
                say(&format!(
                    "idlewave: the gang service is back; the command is gang {gang} now\n"
                ));
            }
            // It may take the gang later, as after a drain.
            Ok(Reply::Failed(why)) if !self.refused => {
                self.refused = true;
                say(&format!(
                    "idlewave: the gang service is back and failed to {why}; the command runs on, unswitched\n"
                ));
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// A mark that nobody else has.
fn token() -> String {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("{}.{}", std::process::id(), since.as_nanos())
}

fn say(text: &str) {
    // Nobody is there to be told that nobody is there.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
