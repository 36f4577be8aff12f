//! Runs cases: starts the real service and the programs, and collects their measurements.

use crate::case::{Case, Program, Treatment};
use crate::error::TrialError;
use idlewave_clock::monotonic_ns;
use idlewave_gang_agent::Control;
use idlewave_gang_agent::control::{Reply, Request, Stage, Status, SwitchStatus};
use idlewave_measure::FixedSteps;
use idlewave_session::Stop;
use idlewave_sys::files;
use idlewave_sys::process::{Signal, send};
use idlewave_units::{Nanos, Pid};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a service or the ranks of a program may take to start.
const COMING: Duration = Duration::from_secs(60);
/// The time between two checks while waiting.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes of a network context.
const CONTEXT: &str = "1MiB";
/// How long ranks must exist before they are switched: none of them is in MPI_Init, since all wait
/// at the gate.
const SETTLE: &str = "200ms";

/// How to run cases.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The idlewave executable.
    pub idlewave: PathBuf,
    /// The launcher of a built-in program's ranks, with its options; `None`: they are threads of
    /// one process.
    pub launcher: Option<Vec<OsString>>,
    /// Number of ranks of a built-in program.
    pub ranks: u32,
    /// The number of additions that take a microsecond.
    pub work_per_us: f64,
    /// Approximate run time of a built-in program alone.
    pub length: Nanos,
    /// The programs that were given.
    pub given: Vec<Vec<OsString>>,
    /// The directory for files.
    pub directory: PathBuf,
}

/// The measurements of one program of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// When it began its work, ns of `CLOCK_MONOTONIC`.
    pub begin: u64,
    /// When it ended its work.
    pub end: u64,
    /// When it was submitted.
    pub submitted: u64,
    /// When its command ended. A program that runs after it begins then, and one that takes turns
    /// with it then has the CPUs to itself.
    pub over: u64,
    /// The measurements of its ranks, if it is a built-in program.
    pub steps: Option<FixedSteps>,
}

/// One run of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// By program.
    pub programs: Vec<Seen>,
    /// What switching cost, if there was any.
    pub switches: Option<SwitchStatus>,
}

impl Trial {
    /// From when the first program starts its work to when the last one ends it.
    pub fn makespan(&self) -> Nanos {
        self.since_begin(|program| program.end)
    }

    /// From the first start of work to the end of the last command.
    pub fn until_over(&self) -> Nanos {
        self.since_begin(|program| program.over)
    }

    fn since_begin(&self, moment: fn(&Seen) -> u64) -> Nanos {
        let begin = self.programs.iter().map(|p| p.begin).min().unwrap_or(0);
        let end = self.programs.iter().map(moment).max().unwrap_or(0);
        Nanos::from_nanos(end.saturating_sub(begin))
    }

    /// From when a program was submitted until its command had ended.
    pub fn response(&self, program: usize) -> Nanos {
        let seen = self.programs.get(program);
        Nanos::from_nanos(seen.map_or(0, |p| p.over.saturating_sub(p.submitted)))
    }

    /// The work time of the first program.
    pub fn work_of_first(&self) -> Nanos {
        let first = self.programs.first();
        Nanos::from_nanos(first.map_or(0, |p| p.end.saturating_sub(p.begin)))
    }
}

/// A process started by the study, ended when this is dropped.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = send(Pid::new(self.0.id()), Signal::TERM);
            let end = Instant::now() + Duration::from_secs(10);
            while Instant::now() < end {
                match self.0.try_wait() {
                    Ok(None) => std::thread::sleep(LOOK),
                    _ => return,
                }
            }
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

impl Bench {
    /// Runs a case once.
    ///
    /// # Errors
    /// A program or the service cannot be started, fails, or is not ready in time; interrupted.
    pub fn run(&self, case: &Case, number: u64, stop: &Stop) -> Result<Trial, TrialError> {
        let ran = self.run_whole(case, number, stop);
        // A signal to the study's process group also stops its programs and its service: what they
        // do then is not a failure.
        ran.map_err(|error| match stop.is_requested() {
            true => TrialError::Interrupted,
            false => error,
        })
    }

    fn run_whole(&self, case: &Case, number: u64, stop: &Stop) -> Result<Trial, TrialError> {
        let directory = self.directory.join(number.to_string());
        fs::create_dir(&directory).map_err(TrialError::io("create", &directory))?;
        let service = self.service(&directory, case.treatment, stop)?;
        let gate = directory.join("gate");
        let built_in = case
            .programs
            .iter()
            .all(|p| !matches!(p, Program::Given(_)));
        let arrive = !case.arrivals.is_empty();
        if arrive {
            files::replace(&gate, b"").map_err(TrialError::io("write", &gate))?;
        }
        let mut running = Running {
            directory: &directory,
            begun: monotonic_ns(),
            built_in,
            commands: Vec::new(),
        };
        for (i, program) in case.programs.iter().enumerate() {
            let out = directory.join(format!("{i}.json"));
            let words = self.words(program, case.treatment, &directory, [&gate, &out]);
            let due = case.arrivals.get(i).map_or(0, |after| after.get());
            running.await_until(running.begun + due, stop)?;
            // A program that waits for others in a queue has been submitted when it was due.
            let submitted = match arrive {
                true => running.begun + due,
                false => monotonic_ns(),
            };
            if case.treatment == Treatment::Queue {
                running.await_all(stop)?;
            }
            let child = self.start(&words, case.treatment, &running.log(i))?;
            running.commands.push(Submitted {
                child,
                out,
                submitted,
                over: None,
            });
        }
        if built_in && !arrive {
            self.open_gate(&gate, service.is_some(), &mut running, stop)?;
        }
        running.await_all(stop)?;
        let programs = running.seen()?;
        let switches = match service {
            Some(_) => Some(status(&socket(&directory))?.switches),
            None => None,
        };
        drop(service);
        // The files of a failed run are kept for the user.
        let _ = fs::remove_dir_all(&directory);
        Ok(Trial { programs, switches })
    }

    /// The command line of a program, with all that starts it under this treatment.
    fn words(
        &self,
        program: &Program,
        treatment: Treatment,
        directory: &Path,
        [gate, out]: [&Path; 2],
    ) -> Vec<OsString> {
        let on_contexts = treatment.baseline() == Treatment::AloneOnContexts;
        let mut words = Vec::new();
        if on_contexts || treatment.slice().is_some() {
            words.push(self.idlewave.clone().into());
            words.extend(["gang", "submit", "--socket"].map(OsString::from));
            words.push(socket(directory).into());
            if on_contexts {
                words.extend(["--context", CONTEXT, "--ranks"].map(OsString::from));
                words.push(self.ranks.to_string().into());
            }
            words.push("--".into());
        }
        if let Program::Given(i) = program {
            words.extend(self.given.get(*i).into_iter().flatten().cloned());
            return words;
        }
        if !on_contexts {
            words.extend(self.launcher.iter().flatten().cloned());
        }
        words.push(self.idlewave.clone().into());
        words.extend(["gang", "program"].map(OsString::from));
        let steps = |work: Nanos, values: u32| {
            let steps = (self.length.get() / work.get().max(1)).max(1);
            let additions = (work.as_f64() / 1e3 * self.work_per_us).max(1.0) as u64;
            let of = |name: &str, value: String| [name.to_owned(), value];
            [
                of("--steps", steps.to_string()),
                of("--work", additions.to_string()),
                of("--values", values.to_string()),
            ]
            .concat()
        };
        let options = match program {
            Program::Benchmark(name) => vec!["--benchmark".to_owned(), name.clone()],
            Program::Fine(work) => steps(*work, 1),
            Program::Compute | Program::Given(_) => steps(Nanos::from_millis(1), 0),
        };
        words.extend(options.into_iter().map(OsString::from));
        if !on_contexts && self.launcher.is_none() {
            words.extend(["--ranks".to_owned(), self.ranks.to_string()].map(OsString::from));
        }
        words.extend(["--gate".into(), gate.into(), "--out".into(), out.into()]);
        words
    }

    fn start(
        &self,
        words: &[OsString],
        treatment: Treatment,
        log: &Path,
    ) -> Result<Owned, TrialError> {
        let (name, arguments) = words.split_first().ok_or(TrialError::NoProgram)?;
        let file = files::create_over(log).map_err(TrialError::io("create", log))?;
        let again = file.try_clone().map_err(TrialError::io("open", log))?;
        let mut command = Command::new(name);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(again);
        // The programs together have more ranks than there are CPUs; launchers and libraries must
        // not treat that specially.
        command.env("OMPI_MCA_rmaps_base_oversubscribe", "1");
        command.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
        if self.given.is_empty() {
            // The programs are our own, and safe to run as root.
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
            command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
        let yields = if treatment == Treatment::FreeYield {
            "1"
        } else {
            "0"
        };
        command.env("OMPI_MCA_mpi_yield_when_idle", yields);
        let child = command.spawn().map_err(|source| TrialError::Start {
            program: name.to_string_lossy().into_owned(),
            source,
        })?;
        Ok(Owned(child))
    }

    /// The service that the treatment needs, if any.
    fn service(
        &self,
        directory: &Path,
        treatment: Treatment,
        stop: &Stop,
    ) -> Result<Option<Owned>, TrialError> {
        let mut options: Vec<String> = match treatment {
            Treatment::Alone | Treatment::Free | Treatment::FreeYield | Treatment::Queue => {
                return Ok(None);
            }
            // A single gang is not switched.
            Treatment::AloneOnContexts => Vec::new(),
            Treatment::Switched(_) | Treatment::Contexts(..) => {
                vec!["--always".to_owned(), "--no-yield".to_owned()]
            }
            Treatment::Yielding(_) => vec!["--always".to_owned()],
        };
        if let Some(slice) = treatment.slice() {
            options.extend(["--slice".to_owned(), format!("{}ns", slice.get())]);
        }
        if let Treatment::Contexts(_, copying) = treatment {
            options.extend(["--contexts".to_owned(), copying.name().to_owned()]);
        }
        let path = socket(directory);
        let mut words: Vec<OsString> = vec![self.idlewave.clone().into()];
        words.extend(["gang", "start", "--settle", SETTLE].map(OsString::from));
        words.extend(options.into_iter().map(OsString::from));
        words.extend(["--socket".into(), path.clone().into()]);
        let log = directory.join("service.log");
        let mut service = self.start(&words, Treatment::Alone, &log)?;
        await_that("the gang service", &log, stop, || {
            if let Ok(Some(_)) = service.0.try_wait() {
                return Err(failed("the gang service", &log));
            }
            Ok(status(&path).is_ok_and(|s| s.open && s.nodes.iter().any(|node| node.coordinated)))
        })?;
        Ok(Some(service))
    }

    /// Lets the programs begin once all have started, and are switched if they should be.
    fn open_gate(
        &self,
        gate: &Path,
        switched: bool,
        running: &mut Running<'_>,
        stop: &Stop,
    ) -> Result<(), TrialError> {
        let count = running.commands.len();
        await_that("the ranks", &running.log(0), stop, || {
            running.look()?;
            if !switched {
                let mut outs = running.commands.iter().map(|command| &command.out);
                return Ok(outs.all(|out| out.with_extension("here").exists()));
            }
            let gangs = status(&socket(running.directory))?.gangs;
            let runs = gangs.iter().filter(|g| g.stage == Stage::Running);
            Ok(runs.count() == count)
        })?;
        files::replace(gate, b"").map_err(TrialError::io("write", gate))
    }
}

/// A command that was started.
struct Submitted {
    child: Owned,
    out: PathBuf,
    submitted: u64,
    over: Option<u64>,
}

/// The commands of a case.
struct Running<'a> {
    directory: &'a Path,
    begun: u64,
    built_in: bool,
    commands: Vec<Submitted>,
}

impl Running<'_> {
    fn log(&self, command: usize) -> PathBuf {
        self.directory.join(format!("{command}.log"))
    }

    /// Notes which have ended.
    fn look(&mut self) -> Result<(), TrialError> {
        for i in 0..self.commands.len() {
            let command = &mut self.commands[i];
            if command.over.is_some() {
                continue;
            }
            if let Ok(Some(status)) = command.child.0.try_wait() {
                if !status.success() {
                    return Err(failed("a program", &self.log(i)));
                }
                command.over = Some(monotonic_ns());
            }
        }
        Ok(())
    }

    /// Waits until all have ended that were started.
    fn await_all(&mut self, stop: &Stop) -> Result<(), TrialError> {
        self.look()?;
        while self.commands.iter().any(|command| command.over.is_none()) {
            self.pause(stop)?;
        }
        Ok(())
    }

    /// Waits until a moment.
    fn await_until(&mut self, moment: u64, stop: &Stop) -> Result<(), TrialError> {
        while monotonic_ns() < moment {
            self.pause(stop)?;
        }
        Ok(())
    }

    fn pause(&mut self, stop: &Stop) -> Result<(), TrialError> {
        if stop.is_requested() {
            return Err(TrialError::Interrupted);
        }
        std::thread::sleep(Duration::from_millis(1));
        self.look()
    }

    /// What was seen, once all have ended.
    fn seen(&self) -> Result<Vec<Seen>, TrialError> {
        let seen = self.commands.iter().map(|command| {
            let over = command.over.unwrap_or(self.begun);
            let submitted = command.submitted;
            if !self.built_in {
                return Ok(Seen {
                    begin: self.begun,
                    end: over,
                    submitted,
                    over,
                    steps: None,
                });
            }
            let out = &command.out;
            let text = fs::read(out).map_err(TrialError::io("read", out))?;
            let steps: Result<FixedSteps, _> = serde_json::from_slice(&text);
            let steps = steps.map_err(|error| TrialError::io("read", out)(error.into()))?;
            Ok(Seen {
                begin: steps
                    .ranks
                    .iter()
                    .map(|r| r.begin)
                    .min()
                    .unwrap_or(self.begun),
                end: steps
                    .ranks
                    .iter()
                    .map(|r| r.end)
                    .max()
                    .unwrap_or(self.begun),
                submitted,
                over,
                steps: Some(steps),
            })
        });
        seen.collect()
    }
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("gang.sock")
}

fn status(socket: &Path) -> Result<Status, TrialError> {
    let unheard = |source| TrialError::Service { source };
    let mut control = Control::connect(socket).map_err(unheard)?;
    match control.ask(&Request::Status).map_err(unheard)? {
        Reply::Status(status) => Ok(*status),
        _ => Err(unheard(std::io::ErrorKind::InvalidData.into())),
    }
}

fn failed(what: &str, log: &Path) -> TrialError {
    let text = fs::read_to_string(log).unwrap_or_default();
    // Launchers frame their messages with lines of symbols.
    let says = |line: &&str| line.chars().any(char::is_alphabetic);
    let last = text.lines().rev().find(says);
    TrialError::Failed {
        what: what.to_owned(),
        why: last.unwrap_or("it printed nothing").to_owned(),
    }
}

fn await_that(
    what: &str,
    log: &Path,
    stop: &Stop,
    mut is_there: impl FnMut() -> Result<bool, TrialError>,
) -> Result<(), TrialError> {
    let end = Instant::now() + COMING;
    while !is_there()? {
        if stop.is_requested() {
            return Err(TrialError::Interrupted);
        }
        if Instant::now() > end {
            return Err(failed(what, log));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
