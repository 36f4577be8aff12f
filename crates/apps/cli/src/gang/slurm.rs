//! `idlewave gang slurm`: switches the jobs that Slurm admits (docs/gang-slurm.md).

use super::socket::Place;
use crate::exit::{Exit, Failure};
use crate::output::print;
use crate::signals::until_stopped;
use clap::{Args, Subcommand};
use idlewave_gang_agent::Mark;
use idlewave_gang_agent::control::{Reply, Request};
use idlewave_gang_slurm::conf::{Done, Setup};
use idlewave_gang_slurm::{Job, SlurmError};
use idlewave_sys::terminal::say;
use idlewave_units::foreign::one_line;
use std::ffi::CString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// How long a job may have to wait for the service.
const LIMIT: Duration = Duration::from_secs(2);

/// Slurm admits jobs that share CPUs, and idlewave switches them in slices of 10 to 100 ms.
#[derive(Debug, Args)]
pub struct SlurmArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Change slurm.conf so that jobs share CPUs and idlewave switches them
    Install(InstallArgs),
    /// Restore slurm.conf
    Uninstall(UninstallArgs),
    /// Called by slurmctld before a job starts
    Prolog(HookArgs),
    /// Called by slurmctld when a job has ended
    Epilog(HookArgs),
}

#[derive(Debug, Args)]
struct ConfArgs {
    /// The configuration [default: $SLURM_CONF, or /etc/slurm/slurm.conf]
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
}

impl ConfArgs {
    fn setup(&self) -> Result<Setup, Failure> {
        let named = self.conf.clone().map(PathBuf::into_os_string);
        let conf = named
            .or_else(|| std::env::var_os("SLURM_CONF"))
            .unwrap_or_else(|| "/etc/slurm/slurm.conf".into());
        Setup::beside(Path::new(&conf)).map_err(|error| {
            failed(&error)
                .with_next("give its path with --conf, on the machine that runs slurmctld")
        })
    }
}

#[derive(Debug, Args)]
struct InstallArgs {
    /// How many jobs may share a CPU
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=256))]
    sharing: u32,
    /// A partition whose jobs take part; may be given again [default: all]
    #[arg(long, value_name = "NAME")]
    partition: Vec<String>,
    /// The program that slurmctld calls, on its machine [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    #[command(flatten)]
    conf: ConfArgs,
}

#[derive(Debug, Args)]
struct UninstallArgs {
    /// Remove the scripts too; only after slurmctld was restarted
    #[arg(long)]
    scripts: bool,
    #[command(flatten)]
    conf: ConfArgs,
}

#[derive(Debug, Args)]
struct HookArgs {
    #[command(flatten)]
    place: Place,
}

/// Runs the command.
pub fn run_slurm(args: &SlurmArgs) -> ExitCode {
    match &args.what {
        What::Install(args) => until_stopped(|_| install(args)),
        What::Uninstall(args) => until_stopped(|_| uninstall(args)),
        What::Prolog(args) => hook("prolog", args, brought),
        What::Epilog(args) => hook("epilog", args, released),
    }
}

fn failed(error: &SlurmError) -> Failure {
    let (exit, next) = match error {
        SlurmError::File { .. } => (Exit::Io, "run this as a user who may write there"),
        _ => (Exit::Usage, "change that and run this again"),
    };
    Failure::new(exit, error.to_string()).with_next(next)
}

fn install(args: &InstallArgs) -> Result<(), Failure> {
    let setup = args.conf.setup()?;
    let program = match &args.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()
            .map_err(|e| Failure::new(Exit::Other, format!("find this program: {e}")))?,
    };
    if !program.is_absolute() {
        let what = format!(
            "let slurmctld call {}: the path is not absolute",
            program.display()
        );
        return Err(Failure::new(Exit::Usage, what).with_next("give the absolute path"));
    }
    let done = setup
        .install(&program, args.sharing, args.partition.iter().cloned())
        .map_err(|error| failed(&error))?;
    print(&installed(&setup, &done))
}

fn installed(setup: &Setup, done: &Done) -> String {
    let conf = setup.conf.display();
    let mut text = match done.unchanged {
        true => format!("{conf} already contains:\n"),
        false => format!("{conf} was changed (backup: {}):\n", setup.copy.display()),
    };
    for change in &done.plan.changes {
        let _ = writeln!(text, "  {change}");
    }
    for include in &done.plan.includes {
        let _ = writeln!(text, "  not checked: the included file {include}");
    }
    text.push_str(
        "Next:
  1. copy it to all nodes, unless they get it from slurmctld
  2. beside slurmctld:  idlewave gang start --no-local --munge --listen ADDRESS:7431 --operator \"$(id -u USER)\" --background
     where USER is SlurmUser of slurm.conf
  3. on node N from 0:  idlewave gang agent --munge --controller ADDRESS:7431 --node N
  4. restart slurmctld, then `scontrol reconfigure`: jobs that start from then on are switched
To go back: idlewave gang slurm uninstall
",
    );
    text
}

fn uninstall(args: &UninstallArgs) -> Result<(), Failure> {
    let setup = args.conf.setup()?;
    if args.scripts {
        setup.remove_scripts().map_err(|error| failed(&error))?;
        return print("idlewave's scripts are removed\n");
    }
    let conf = setup.conf.display();
    let text = match setup.uninstall().map_err(|error| failed(&error))? {
        false => format!("{conf} was not changed by idlewave; nothing to restore\n"),
        true => format!(
            "{conf} is restored.
Next:
  1. copy it to all nodes, unless they get it from slurmctld
  2. restart slurmctld, then `scontrol reconfigure`
  3. idlewave gang slurm uninstall --scripts
  4. idlewave gang stop
"
        ),
    };
    print(&text)
}

/// The request to the service when a job begins.
fn brought(job: &Job) -> Request {
    Request::Submit {
        name: format!("Slurm job {}", job.id),
        mark: Mark::Slurm(job.id.get()),
        user: job.user.get(),
        interactive: false,
        weight: 1,
        keep: true,
        contexts: None,
    }
}

/// The request when a job has ended.
fn released(job: &Job) -> Request {
    Request::Release {
        mark: Mark::Slurm(job.id.get()),
    }
}

/// Tells the service about a job. A failure is only logged: the job then runs as it would without
/// the service.
fn hook(word: &'static str, args: &HookArgs, request: fn(&Job) -> Request) -> ExitCode {
    let job = match Job::from_environment(|name| std::env::var(name).ok()) {
        Ok(job) => job,
        Err(error) => {
            log(&format!("{word}: failed to {error}"));
            return ExitCode::SUCCESS;
        }
    };
    let (id, request) = (job.id, request(&job));
    let place = args.place.clone();
    let (said, heard) = channel();
    // A thread that still waits for the service ends with this process.
    thread::spawn(move || said.send(told(&place, &request)));
    let told = heard.recv_timeout(LIMIT).unwrap_or_else(|_| {
        let seconds = LIMIT.as_secs();
        let path = args.place.path();
        Err(format!(
            "get an answer from the gang service at {} within {seconds} s",
            path.display()
        ))
    });
    if let Err(why) = told {
        log(&format!(
            "{word} of job {id}: failed to {why}; the job is not switched"
        ));
    }
    ExitCode::SUCCESS
}

fn told(place: &Place, request: &Request) -> Result<(), String> {
    let mut control = place.connect().map_err(|failure| failure.what)?;
    match control.ask(request) {
        Ok(Reply::Failed(why)) => Err(why),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("get an answer from the gang service: {error}")),
    }
}

/// Logs to syslog, where administrators look for messages of slurmctld's scripts, and to standard
/// error.
fn log(text: &str) {
    let line = one_line(text);
    if let Ok(line) = CString::new(line.as_bytes()) {
        // SAFETY: both are strings that end with a zero byte and outlive the calls; the format
        // takes one of them.
        unsafe {
            libc::openlog(c"idlewave".as_ptr(), 0, libc::LOG_DAEMON);
            libc::syslog(libc::LOG_WARNING, c"%s".as_ptr(), line.as_ptr());
            libc::closelog();
        }
    }
    say(&format!("idlewave: {line}\n"));
}
