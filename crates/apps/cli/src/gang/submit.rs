//! `idlewave gang submit`: runs a command whose ranks form a gang.

use super::ask;
use super::provider;
use super::ranks::Ranks;
use super::socket::Place;
use super::words::Words;
use crate::exit::{Exit, Failure, report_failure};
use crate::signals::for_program;
use clap::Args;
use idlewave_fabric::netctx::device::Attachment;
use idlewave_freeze::clock;
use idlewave_gang_agent::control::{Observation, Reply, Request, Stage};
use idlewave_gang_agent::{Control, MOST_RANKS, Mark, marked, ticket_of, wait};
use idlewave_hangs::{Doubt, Job, Look};
use idlewave_record::{Launch, Machine, exit_code, find_launch, start, wait_for};
use idlewave_sys::terminal::say;
use idlewave_units::{Bytes, Nanos};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// The time between two looks at the ranks; signals are passed on at the same interval.
const LOOK: Duration = Duration::from_millis(100);

/// The time between two attempts to reach a service that has gone away.
const AGAIN: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Give this gang its turns first, within a share of the time
    #[arg(long)]
    interactive: bool,
    /// Weight of this gang against others, from 1
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    weight: u32,
    /// Give each rank a network context of this size, as in 1MiB, for MPI programs whose library
    /// uses libfabric, and for idlewave measure
    #[arg(long, value_name = "SIZE")]
    context: Option<Bytes>,
    /// Number of ranks to start on this node; for --context without a launcher [default: 1]
    #[arg(long, value_name = "N", requires = "context", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RANKS)))]
    ranks: Option<u32>,
    /// Name to show [default: the program's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Number of words before the program in a launcher's command, launcher included; for when
    /// idlewave does not find the program
    #[arg(long, value_name = "N")]
    at: Option<usize>,
    /// End the job on a deadlock (not on a mere suspicion, such as a polling loop), with exit code
    /// 6
    #[arg(long)]
    kill: bool,
    /// Do not preload the library that tells whether ranks are in MPI_Init, idle or deadlocked
    #[arg(long, conflicts_with = "kill")]
    no_watch: bool,
    /// Report what happens to the gang
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
        // Exit codes are bytes: a shell ignores higher bits too.
        Ok(code) => ExitCode::from(code as u8),
        Err(failure) => report_failure(&failure),
    }
}

fn submitted(args: &SubmitArgs) -> Result<i32, Failure> {
    let mut signals = for_program()?;
    let token = token();
    let launch = find_launch(&args.command, args.at, &Machine)
        .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    // Ranks that this command starts itself are not MPI ranks; the service finds their deadlocks.
    let mpi = args.context.is_none() || launch.is_some();
    let mut ranks = match mpi && !args.no_watch {
        true => Some(Ranks::prepare(Words::new(false), LOOK)?),
        false => None,
    };
    let ticket = args
        .context
        .and_then(|_| ticket_of(&Mark::Token(token.clone())));
    let (command, environment) = marked_command(
        args,
        launch.as_ref(),
        ranks.as_mut(),
        &token,
        ticket.as_deref(),
    )?;
    let mut control = args.place.connect()?;
    let request = Request::Submit {
        name: name_of(args, launch.as_ref()),
        mark: Mark::Token(token),
        user: idlewave_sys::Uid::own().get(),
        interactive: args.interactive,
        weight: args.weight,
        keep: false,
        contexts: args.context.map(Bytes::get),
    };
    let gang = gang_of(&mut control, &request)?;
    if args.verbose {
        say(&format!("idlewave: gang {gang}\n"));
    }
    let child = start(&command, &environment)?;
    let begun = Instant::now();
    let mut submitted = Submitted {
        kill: args.kill,
        launcher: child.id(),
        service: Service {
            args,
            request,
            gang,
            control: Some(control),
            again: begun,
            refused: false,
            deadlocked: false,
            ending: false,
        },
        ranks,
        told: None,
        killed: false,
    };
    let status = wait_for(child, &mut signals, |end| submitted.step(end));
    // What was said since the last step.
    submitted.service.listen();
    if let Some(ticket) = ticket {
        // The agent has removed it, unless the agent was killed.
        let _ = std::fs::remove_file(ticket);
    }
    if let Some(ranks) = &mut submitted.ranks {
        submitted.killed &= !ranks.ended(status.success());
        if args.verbose {
            ranks.words.end(begun.elapsed());
        }
    }
    Ok(match submitted.killed {
        true => i32::from(Exit::Deadlock.code()),
        false => exit_code(status),
    })
}

/// Variables that a command is started with, and their values.
type Environment = Vec<(OsString, OsString)>;

/// The command with its ranks marked, and the environment to start it in.
fn marked_command(
    args: &SubmitArgs,
    launch: Option<&Launch>,
    ranks: Option<&mut Ranks>,
    token: &str,
    ticket: Option<&Path>,
) -> Result<(Vec<OsString>, Environment), Failure> {
    // With a launcher, only the ranks carry the mark, on whichever node they are.
    let mark = format!("{}={token}", marked::VARIABLE);
    let mut shim = vec![OsString::from("env"), OsString::from(mark)];
    if let Some(ticket) = ticket {
        let mut variable = OsString::from(format!("{}=", Attachment::VARIABLE));
        variable.push(Attachment::of_ticket(ticket));
        shim.push(variable);
        shim.extend(provider::variables());
        let programs = launch.map_or(&[][..], |launch| &launch.programs[..]);
        let programs = programs
            .iter()
            .filter_map(|words| args.command.get(words.start));
        programs.for_each(|program| provider::judge(Path::new(program)));
    }
    if let Some(launch) = launch {
        if args.ranks.is_some() {
            return Err(
                Failure::new(Exit::Usage, "start ranks with --ranks and a launcher")
                    .with_next("omit --ranks: the launcher sets their number"),
            );
        }
        let (shim, environment) = match ranks {
            Some(ranks) => ranks.launch(launch.launcher, &args.command, &shim),
            None => (shim, Vec::new()),
        };
        return Ok((launch.with_shim(&args.command, &shim), environment));
    }
    if ticket.is_some() {
        let program = std::env::current_exe()
            .map_err(|e| Failure::new(Exit::Other, format!("find this program: {e}")))?;
        let count = args.ranks.unwrap_or(1).to_string();
        let mut words = vec![program.into_os_string()];
        words.extend(["gang", "ranks", &count, "--"].map(OsString::from));
        words.extend(shim);
        words.extend(args.command.iter().cloned());
        return Ok((words, Vec::new()));
    }
    let variable = (OsString::from(marked::VARIABLE), OsString::from(token));
    let watched = ranks.iter().flat_map(|ranks| ranks.environment());
    let all = std::iter::once(variable).chain(watched).collect();
    Ok((args.command.clone(), all))
}

/// The name given, or that of the program with its first arguments.
fn name_of(args: &SubmitArgs, launch: Option<&Launch>) -> String {
    if let Some(name) = &args.name {
        return name.clone();
    }
    let program = launch.and_then(|launch| launch.programs.first());
    let skipped = program.map_or(0, |words| words.start);
    let mut words = args.command.iter().skip(skipped).take(4);
    let first = words
        .next()
        .map(|word| Path::new(word).file_name().unwrap_or(word));
    let words: Vec<_> = first
        .into_iter()
        .chain(words.map(OsString::as_os_str))
        .map(OsStr::to_string_lossy)
        .collect();
    words.join(" ").chars().take(60).collect()
}

/// Submits the gang; returns its number.
fn gang_of(control: &mut Control, request: &Request) -> Result<u32, Failure> {
    match control.ask(request) {
        Ok(Reply::Submitted { gang }) => Ok(gang),
        Ok(Reply::Failed(why)) => Err(ask::refusal(why)),
        Ok(_) | Err(_) => Err(
            Failure::new(Exit::Other, "get an answer from the gang service")
                .with_next("check with `idlewave gang status` whether it still runs"),
        ),
    }
}

/// What a look at the ranks tells the service: see [`Request::Observed`].
type Known = (Option<bool>, Observation);

/// A gang whose command is running.
struct Submitted<'a> {
    kill: bool,
    launcher: u32,
    service: Service<'a>,
    ranks: Option<Ranks>,
    /// What was last reported to the service, under the gang's current number.
    told: Option<Known>,
    /// Whether the job is being ended because of a deadlock.
    killed: bool,
}

impl Submitted<'_> {
    /// Waits for the command to end, for the service, or for the next look; then handles whatever
    /// happened.
    fn step(&mut self, end: BorrowedFd<'_>) {
        let now = Instant::now();
        let looks = self.ranks.as_ref().filter(|_| !self.killed);
        let next = looks.map_or(now + LOOK, Ranks::due);
        let left = next.saturating_duration_since(now);
        let mut sockets = vec![end];
        sockets.extend(self.service.control.as_ref().map(AsFd::as_fd));
        sockets.extend(self.ranks.iter().flat_map(Ranks::sockets));
        // Check everything, whatever ended the wait.
        let _ = wait(&sockets, Some(clock::now() + Nanos::from(left)));
        self.service.listen();
        if self.kill && self.service.deadlocked && !self.killed {
            self.killed = true;
            // The service ends the ranks on all nodes; their launcher ends with them.
            let gang = self.service.gang;
            self.service.tell(&Request::Cancel { gang });
        }
        // A gang that is being ended is not submitted again.
        if !self.killed && self.service.return_to() {
            self.told = None;
        }
        let now = Instant::now();
        // The deadlock of a job that is being ended is not reported again.
        if !self.killed {
            self.look(now);
        }
        if let Some(ranks) = self.ranks.as_ref().filter(|ranks| ranks.overdue(now)) {
            ranks.kill(self.launcher);
        }
    }

    /// Looks at the ranks if it is time, and reports changes to the service.
    fn look(&mut self, now: Instant) {
        let Some(look) = self.ranks.as_mut().and_then(|ranks| ranks.look(now)) else {
            return;
        };
        let Some(known) = known(&look) else { return };
        // Idleness is reported at every look: the service knows whether the ranks have had a turn
        // since.
        if self.told != Some(known) || known.1 == Observation::Idle {
            self.told = Some(known);
            let (initialised, activity) = known;
            self.service.tell(&Request::Observed {
                gang: self.service.gang,
                initialised,
                activity,
            });
        }
        if self.kill && look.deadlock().is_some() {
            self.killed = true;
            // Frozen ranks end only once they are thawed: the service does both.
            let gang = self.service.gang;
            self.service.tell(&Request::Cancel { gang });
            if let Some(ranks) = &mut self.ranks {
                ranks.end(self.launcher);
            }
        }
    }
}

/// The service, and what it knows about the gang. If it goes away, the command runs on and is
/// submitted again once it is back: its ranks carry the same mark.
struct Service<'a> {
    args: &'a SubmitArgs,
    request: Request,
    gang: u32,
    control: Option<Control>,
    /// When to try to reach it again.
    again: Instant,
    /// Whether its refusal to take the gang back was reported.
    refused: bool,
    /// Whether it has reported a deadlock among ranks with network contexts.
    deadlocked: bool,
    /// Whether it has reported that the gang's processes are being ended.
    ending: bool,
}

impl Service<'_> {
    fn tell(&mut self, request: &Request) {
        let told = self.control.as_mut().map(|control| control.tell(request));
        if let Some(Err(_)) = told {
            self.gone();
        }
    }

    /// Handles its messages about the gang.
    fn listen(&mut self) {
        while let Some(control) = &mut self.control {
            match control.said() {
                Ok(Some(Reply::Changed { stage, ending })) => self.changed(stage, ending),
                Ok(Some(Reply::Deadlocked { waits })) => {
                    self.deadlocked = true;
                    let gang = self.gang;
                    let lines = waits.join("\n  ");
                    say(&format!(
                        "idlewave: gang {gang}: deadlock among its ranks\n  {lines}\n"
                    ));
                }
                Ok(Some(Reply::Failed(why))) if self.args.verbose => {
                    say(&format!("idlewave: the service failed to {why}\n"));
                }
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(_) => self.gone(),
            }
        }
    }

    fn changed(&mut self, stage: Stage, ending: bool) {
        let new = ending && !self.ending;
        self.ending = ending;
        let what = match stage {
            _ if new => "its processes are being terminated",
            Stage::Waiting => "waiting for its ranks",
            Stage::Starting => "its ranks are starting; they run freely until all have started",
            Stage::Running => "takes turns from now on",
            Stage::Ended => "its ranks have ended",
        };
        if self.args.verbose || new {
            say(&format!("idlewave: gang {}: {what}\n", self.gang));
        }
    }

    fn gone(&mut self) {
        self.control = None;
        self.again = Instant::now() + AGAIN;
        continue_stopped();
        say(match self.args.context {
            None => {
                "idlewave: the gang service is gone; the command runs on, unswitched until it is back\n"
            }
            Some(_) => {
                "idlewave: the gang service is gone, and with it the ranks' network contexts; the ranks fail\n"
            }
        });
    }

    /// Tries from time to time to reach a service that has gone away. Returns true if it has just
    /// accepted the gang; it then knows nothing else about it.
    fn return_to(&mut self) -> bool {
        // Contexts end with the service that created them.
        let waits = self.control.is_some() || Instant::now() < self.again;
        if waits || self.args.context.is_some() {
            return false;
        }
        self.again = Instant::now() + AGAIN;
        continue_stopped();
        let Ok(mut control) = self.args.place.connect() else {
            return false;
        };
        match control.ask(&self.request) {
            Ok(Reply::Submitted { gang }) => {
                self.gang = gang;
                self.control = Some(control);
                self.refused = false;
                say(&format!(
                    "idlewave: the gang service is back; the command is gang {gang} now\n"
                ));
                return true;
            }
            // It may accept the gang later, as after a drain.
            Ok(Reply::Failed(why)) if !self.refused => {
                self.refused = true;
                say(&format!(
                    "idlewave: the gang service is back and failed to {why}; the command runs on, unswitched\n"
                ));
            }
            Ok(_) | Err(_) => {}
        }
        false
    }
}

/// What a look reports to the service; `None` for nothing, since no process has called MPI.
fn known(look: &Look) -> Option<Known> {
    let alive = look.ranks.iter().filter(|rank| !rank.ended()).count();
    Some(match &look.job {
        Job::NoProcess => return None,
        Job::Initialising => (Some(false), Observation::Progressing),
        // Unseen ranks may be about to leave MPI_Init.
        Job::Incomplete { .. } | Job::Unclear => (None, Observation::Progressing),
        Job::Progressing => (Some(true), Observation::Progressing),
        Job::Idle => (Some(true), Observation::Idle),
        // Its messages may be in flight: it keeps its turns.
        Job::Suspected(_, Doubt::Slow) => (Some(true), Observation::Progressing),
        Job::Deadlocked(deadlock) | Job::Suspected(deadlock, Doubt::Polling) => {
            let dead = Observation::Deadlocked {
                ranks: deadlock.ranks.len() as u32,
                all: deadlock.ranks.len() == alive,
                polling: look.suspicion().is_some(),
            };
            (Some(true), dead)
        }
        // Another program of the same job may start.
        Job::Terminated => (None, Observation::Terminated),
    })
}

/// Continues processes that a killed service stopped with signals. If the service was killed
/// together with its watchdogs, nothing else would continue them. Its agent may end a moment later
/// than the controller, so this is repeated as long as the service is away.
fn continue_stopped() {
    // Whatever this user cannot continue is left to the next start.
    let _ = idlewave_freeze::recover(&idlewave_freeze::Freezer::Signals);
}

/// A unique mark.
fn token() -> String {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("{}.{}", std::process::id(), since.as_nanos())
}
