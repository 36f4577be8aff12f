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
        let service = match case.treatment {
            Treatment::Switched(slice) => Some(self.service(&directory, slice, false, stop)?),
            Treatment::Yielding(slice) => Some(self.service(&directory, slice, true, stop)?),
            Treatment::Alone | Treatment::Free | Treatment::FreeYield => None,
        };
        let gate = directory.join("gate");
        let begun = monotonic_ns();
        let mut children = Vec::new();
        for (i, program) in case.programs.iter().enumerate() {
            let out = directory.join(format!("{i}.json"));
            let mut words = self.words(program, &gate, &out);
            if service.is_some() {
                let mut submit: Vec<OsString> = vec![
                    self.idlewave.clone().into(),
                    "gang".into(),
                    "submit".into(),
                    "--socket".into(),
                    socket(&directory).into(),
                    "--".into(),
                ];
                submit.append(&mut words);
                words = submit;
            }
            children.push((
                self.start(&words, case.treatment, &directory.join(format!("{i}.log")))?,
                out,
            ));
        }
        let built_in = case
            .programs
            .iter()
            .all(|p| !matches!(p, Program::Given(_)));
        if built_in {
            self.open_gate(&directory, &gate, service.is_some(), &mut children, stop)?;
        }
        let programs = self.collect(&directory, children, built_in, begun, stop)?;
        let switches = match service {
            Some(_) => Some(status(&socket(&directory))?.switches),
            None => None,
        };
        drop(service);
        // The files of a failed run are kept for the user.
        let _ = fs::remove_dir_all(&directory);
        Ok(Trial { programs, switches })
    }

    /// The command line of a program.
    fn words(&self, program: &Program, gate: &Path, out: &Path) -> Vec<OsString> {
        let (work, values) = match program {
            Program::Given(i) => return self.given.get(*i).cloned().unwrap_or_default(),
            Program::Fine(work) => (*work, 1),
            Program::Compute => (Nanos::from_millis(1), 0),
        };
        let steps = (self.length.get() / work.get().max(1)).max(1);
        let additions = (work.as_f64() / 1e3 * self.work_per_us).max(1.0) as u64;
        let mut words = self.launcher.clone().unwrap_or_default();
        let texts = ["gang".to_owned(), "program".to_owned()];
        words.push(self.idlewave.clone().into());
        words.extend(texts.map(OsString::from));
        words.extend(["--steps".to_owned(), steps.to_string()].map(OsString::from));
        words.extend(["--work".to_owned(), additions.to_string()].map(OsString::from));
        words.extend(["--values".to_owned(), values.to_string()].map(OsString::from));
        if self.launcher.is_none() {
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

    fn service(
        &self,
        directory: &Path,
        slice: Nanos,
        yielding: bool,
        stop: &Stop,
    ) -> Result<Owned, TrialError> {
        let path = socket(directory);
        let mut words: Vec<OsString> = vec![self.idlewave.clone().into()];
        words.extend(
            ["gang", "start", "--always", "--settle", SETTLE, "--slice"].map(OsString::from),
        );
        words.push(format!("{}ns", slice.get()).into());
        words.extend(["--socket".into(), path.clone().into()]);
        if !yielding {
            words.push("--no-yield".into());
        }
        let log = directory.join("service.log");
        let mut service = self.start(&words, Treatment::Alone, &log)?;
        await_that("the gang service", &log, stop, || {
            if let Ok(Some(_)) = service.0.try_wait() {
                return Err(failed("the gang service", &log));
            }
            Ok(status(&path).is_ok_and(|s| s.open && s.nodes.iter().any(|node| node.coordinated)))
        })?;
        Ok(service)
    }

    /// Lets the programs begin once all have started, and are switched if they should be.
    fn open_gate(
        &self,
        directory: &Path,
        gate: &Path,
        switched: bool,
        children: &mut [(Owned, PathBuf)],
        stop: &Stop,
    ) -> Result<(), TrialError> {
        let count = children.len();
        let log = directory.join("0.log");
        await_that("the ranks", &log, stop, || {
            for (i, (child, _)) in children.iter_mut().enumerate() {
                if let Ok(Some(_)) = child.0.try_wait() {
                    return Err(failed("a program", &directory.join(format!("{i}.log"))));
                }
            }
            if !switched {
                return Ok(children
                    .iter()
                    .all(|(_, out)| out.with_extension("here").exists()));
            }
            let running = status(&socket(directory))?
                .gangs
                .iter()
                .filter(|g| g.stage == Stage::Running)
                .count();
            Ok(running == count)
        })?;
        files::replace(gate, b"").map_err(TrialError::io("write", gate))
    }

    fn collect(
        &self,
        directory: &Path,
        mut children: Vec<(Owned, PathBuf)>,
        built_in: bool,
        begun: u64,
        stop: &Stop,
    ) -> Result<Vec<Seen>, TrialError> {
        let mut ends: Vec<Option<u64>> = vec![None; children.len()];
        while ends.iter().any(Option::is_none) {
            if stop.is_requested() {
                return Err(TrialError::Interrupted);
            }
            for (i, (child, _)) in children.iter_mut().enumerate() {
                if ends[i].is_some() {
                    continue;
                }
                if let Ok(Some(status)) = child.0.try_wait() {
                    if !status.success() {
                        return Err(failed("a program", &directory.join(format!("{i}.log"))));
                    }
                    ends[i] = Some(monotonic_ns());
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let seen = children.iter().zip(ends).map(|((_, out), end)| {
            let over = end.unwrap_or(begun);
            if !built_in {
                return Ok(Seen {
                    begin: begun,
                    end: over,
                    over,
                    steps: None,
                });
            }
            let text = fs::read(out).map_err(TrialError::io("read", out))?;
            let steps: Result<FixedSteps, _> = serde_json::from_slice(&text);
            let steps = steps.map_err(|error| TrialError::io("read", out)(error.into()))?;
            Ok(Seen {
                begin: steps.ranks.iter().map(|r| r.begin).min().unwrap_or(begun),
                end: steps.ranks.iter().map(|r| r.end).max().unwrap_or(begun),
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
