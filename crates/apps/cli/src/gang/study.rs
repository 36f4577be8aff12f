//! `idlewave gang study`: measures what switching costs and saves; and the programs that it runs.

use super::ranks::MEMORY;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::json::{self, Begun};
use crate::measure::{of_job, rank_of_this_process};
use crate::output::print;
use crate::progress::Bars;
use clap::Args;
use idlewave_clock::Monotonic;
use idlewave_measure::{Benchmark, FixedStepsOptions, FixedWork, fixed_steps};
use idlewave_mpi::Search;
use idlewave_record::{Machine, Programs as _};
use idlewave_session::{Quiet, Stop};
use idlewave_units::counted;

use idlewave_gang_study::{
    Bench, Extent, Kept, Repeats, TrialError, built_in, choose, contexts, given, names,
    npb as npb_tables, sheet, study, text,
};
use idlewave_report::gang_page;
use idlewave_sys::{Uid, host_name};
use idlewave_units::Nanos;
use idlewave_workloads::npb;
use idlewave_workloads::speed::counts_per_thousand_steps;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use tempfile::TempDir;

/// A step that takes longer counts as interrupted.
const GAP: Nanos = Nanos::from_millis(4);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo idlewave gang study
  sudo idlewave gang study --slices 40ms --repeats 2 --length 500ms
  sudo idlewave gang study --npb --quick
  sudo idlewave gang study -- mpirun -n 2 ./app ::: mpirun -n 2 ./app")]
pub struct StudyArgs {
    /// Run the NAS Parallel Benchmarks: alone by policy for network contexts, in pairs, and short ones
    /// beside a long one. Takes hours, at 10 s per program
    #[arg(long, conflicts_with_all = ["slices", "length", "commands"])]
    npb: bool,
    /// Which benchmarks to run [default: all]
    #[arg(long, requires = "npb", value_delimiter = ',', value_name = "NAMES",
          value_parser = clap::builder::PossibleValuesParser::new(names()))]
    programs: Vec<String>,
    /// Smaller benchmarks, and each in a pair with itself and one other: a few minutes
    #[arg(long, requires = "npb")]
    quick: bool,
    /// Class of all benchmarks [default: for each one that takes 3 to 15 s]
    #[arg(long, requires = "npb", value_name = "CLASS")]
    class: Option<npb::Class>,
    /// Seed of the times at which short programs arrive
    #[arg(long, requires = "npb", default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Keep every run in this file; if it has runs of this study, go on from them
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Slices to compare
    #[arg(
        long,
        default_value = "10ms,40ms,100ms",
        value_delimiter = ',',
        value_name = "TIMES"
    )]
    slices: Vec<Nanos>,
    /// Number of runs of each case
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeats: u32,
    /// Repeat cases further until it is known whether they take this much longer than one after the
    /// other, as in 1%
    #[arg(long, value_name = "PERCENT", value_parser = super::serve::part)]
    decide: Option<f64>,
    /// Most runs of each case with --decide
    #[arg(long, default_value_t = 30, requires = "decide", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    most: u32,
    /// Approximate run time of a built-in program alone
    #[arg(long, default_value = "1s", value_name = "TIME")]
    length: Nanos,
    /// Ranks of a built-in program
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    ranks: u32,
    /// Number of switches for each policy and size of network contexts; 0 skips these
    #[arg(long, default_value_t = 300, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    switches: u32,
    /// Launcher of the built-in programs, with its options but without -n [default: mpirun if there
    /// is one]
    #[arg(long, value_name = "LAUNCHER", conflicts_with = "threads")]
    launcher: Option<OsString>,
    /// Run the ranks of a built-in program as threads of one process
    #[arg(long)]
    threads: bool,
    /// Print JSON, with every run
    #[arg(long)]
    json: bool,
    /// New file for an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Two programs to use instead of the built-in ones: COMMAND ::: COMMAND
    #[arg(last = true, value_name = "COMMANDS")]
    commands: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct ProgramArgs {
    /// A benchmark to run instead of steps, as in cg:A
    #[arg(long, conflicts_with_all = ["steps", "work", "values"])]
    benchmark: Option<Benchmark>,
    /// Number of steps
    #[arg(long, default_value_t = 1)]
    steps: u64,
    /// Additions per step
    #[arg(long, default_value_t = 1)]
    work: u64,
    /// Values in the allreduce of each step
    #[arg(long, default_value_t = 0)]
    values: usize,
    /// Number of ranks, if they are threads
    #[arg(long)]
    ranks: Option<u32>,
    /// Begin when this file exists
    #[arg(long)]
    gate: Option<PathBuf>,
    /// Write the ranks' measurements to this file
    #[arg(long)]
    out: PathBuf,
}

impl From<TrialError> for Failure {
    fn from(error: TrialError) -> Self {
        let what = error.to_string();
        match error {
            TrialError::Interrupted => {
                Failure::new(Exit::Other, what).with_next("let it run for at least one repeat")
            }
            TrialError::Io { .. } => Failure::new(Exit::Io, what)
                .with_next("make sure that there is space for temporary files (TMPDIR)"),
            TrialError::Failed { .. } => Failure::new(Exit::NotPossible, what)
                .with_next("try `idlewave gang start` and the program separately"),
            TrialError::Service { .. } => Failure::new(Exit::NotPossible, what)
                .with_next("check that `idlewave gang start` keeps running here on its own"),
            TrialError::NotKept { .. } => {
                Failure::new(Exit::Usage, what).with_next("give another file with --keep")
            }
            TrialError::NoProgram | TrialError::Start { .. } => {
                Failure::new(Exit::NotPossible, what)
                    .with_next("check that the command is on the PATH")
            }
        }
    }
}

/// What must be the same to go on with a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Setting {
    machine: String,
    ranks: u32,
    launcher: Vec<String>,
    programs: Vec<Vec<String>>,
    length: Nanos,
    extent: Option<Extent>,
}

fn shown(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// Runs the study.
pub fn run_study(args: &StudyArgs, stop: &Stop) -> Result<(), Failure> {
    let wrong = |what: &str, next: &str| Err(Failure::new(Exit::Usage, what).with_next(next));
    let most = Nanos::from_secs(10);
    if args.slices.is_empty()
        || args
            .slices
            .iter()
            .any(|s| *s < Nanos::from_millis(1) || *s > most)
    {
        return wrong(
            "use these slices: the range is 1ms to 10s",
            "give times in this range with --slices, as in 10ms,40ms",
        );
    }
    if args.length < Nanos::from_millis(100) || args.length > Nanos::from_secs(600) {
        return wrong(
            "use this length: the range is 100ms to 10min",
            "give a time in this range with --length",
        );
    }
    let commands = commands(&args.commands)?;
    if let Some(path) = &args.html {
        files::refuse_place(path, "--html")?;
    }
    let launcher = launcher(args);
    let yields = is_open_mpi(launcher.as_deref(), &commands);
    let directory = tempfile::Builder::new()
        .prefix("idlewave-study-")
        .tempdir()
        .map_err(|e| Failure::new(Exit::Io, format!("make a directory for the study: {e}")))?;
    let bench = Bench {
        idlewave: std::env::current_exe()
            .map_err(|e| Failure::new(Exit::Other, format!("find this program: {e}")))?,
        work_per_us: work_per_us(),
        launcher,
        ranks: args.ranks,
        length: args.length,
        given: commands,
        directory: directory.path().to_owned(),
    };
    let begun = Begun::now();
    let bars = Bars::new(!args.json);
    let all = || names().into_iter().map(str::to_owned).collect();
    let extent = Extent {
        programs: match args.programs.is_empty() {
            true => all(),
            false => args.programs.clone(),
        },
        quick: args.quick,
        class: args.class,
        seed: args.seed,
    };
    let setting = Setting {
        machine: machine(),
        ranks: args.ranks,
        launcher: bench.launcher.iter().flatten().map(shown).collect(),
        programs: bench
            .given
            .iter()
            .map(|words| words.iter().map(shown).collect())
            .collect(),
        length: args.length,
        extent: args.npb.then(|| extent.clone()),
    };
    let begin = || {
        let plan = match args.npb {
            true => Some(choose(&bench, &extent, stop, &bars)?),
            false => None,
        };
        Ok((setting.clone(), plan))
    };
    let (mut kept, plan) = match &args.keep {
        Some(path) => {
            let (kept, (before, plan)) = Kept::open(path, begin)?;
            if before != setting {
                return Err(Failure::new(
                    Exit::Usage,
                    format!(
                        "go on with the study in {}: it is of another machine or has other options",
                        path.display()
                    ),
                )
                .with_next("give the options it was begun with, or another file"));
            }
            (Some(kept), plan)
        }
        None => (None, begin()?.1),
    };
    let tables = match (&plan, bench.given.is_empty()) {
        (Some(plan), _) => npb_tables(plan, &extent),
        (None, true) => built_in(&args.slices, yields),
        (None, false) => given(&args.slices, yields),
    };
    if let Some(plan) = &plan {
        use idlewave_session::Progress as _;
        for (name, why) in &plan.left_out {
            bars.note(&format!("idlewave: {name} is left out: {why}"));
        }
    }
    if Uid::own() != Uid::ROOT {
        use idlewave_session::Progress as _;
        bars.note("idlewave: without root, switches are late on a busy machine: no real-time priority, and usually no freezer");
    }
    let found = study(
        &bench,
        &tables,
        Repeats {
            all: args.repeats,
            until: args.decide.map(|limit| (limit, args.most)),
        },
        machine(),
        kept.as_mut(),
        stop,
        &bars,
    )
    .and_then(|mut found| {
        if bench.given.is_empty() && args.switches > 0 {
            use idlewave_session::Progress as _;
            let program = speaker(&bench.idlewave, directory.path());
            let mut part = |what: &str| bars.part(what);
            let memory = in_memory();
            let devices = memory.as_ref().unwrap_or(&directory).path();
            match contexts(&program, devices, args.switches, stop, &mut part) {
                Ok(measured) => found.contexts = measured,
                // Earlier measurements are kept.
                Err(TrialError::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    });
    bars.finish();
    let found = found?;
    if let Some(path) = &args.html {
        let command = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        let page = gang_page(&sheet(&found, command.collect(), env!("CARGO_PKG_VERSION")));
        files::write_new(path, "--html", |out| out.write_all(page.as_bytes()))?;
    }
    if args.json {
        return json::print_below(
            begun.header(vec![host_name()], stop.is_requested(), &[]),
            &found,
        );
    }
    print(&text(&found))?;
    match &args.html {
        Some(path) => print(&format!("page: {}\n", path.display())),
        None => Ok(()),
    }
}

/// A directory whose files are never written to a disk; `None` if there is none.
fn in_memory() -> Option<TempDir> {
    let mut named = tempfile::Builder::new();
    named.prefix("idlewave-study-").tempdir_in(MEMORY).ok()
}

/// Splits the words at `:::` into two commands; none if there are no words.
fn commands(words: &[OsString]) -> Result<Vec<Vec<OsString>>, Failure> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let parts: Vec<Vec<OsString>> = words
        .split(|word| word == ":::")
        .map(<[OsString]>::to_vec)
        .collect();
    if parts.len() != 2 || parts.iter().any(Vec::is_empty) {
        return Err(
            Failure::new(Exit::Usage, "find two programs behind `--`").with_next(
                "give two, as in: idlewave gang study -- mpirun -n 2 ./a ::: mpirun -n 2 ./b",
            ),
        );
    }
    Ok(parts)
}

/// The launcher's command, with the number of ranks.
fn launcher(args: &StudyArgs) -> Option<Vec<OsString>> {
    if args.threads {
        return None;
    }
    let given = args.launcher.as_ref().map(|text| {
        text.to_string_lossy()
            .split_whitespace()
            .map(OsString::from)
            .collect::<Vec<_>>()
    });
    let mut words = match given {
        Some(words) if !words.is_empty() => words,
        _ => vec!["mpirun", "mpiexec"]
            .into_iter()
            .map(OsString::from)
            .find(|w| Machine.can_be_started(w))
            .map(|w| vec![w])?,
    };
    words.extend(["-n".into(), args.ranks.to_string().into()]);
    Some(words)
}

/// Whether ranks yield on request: only those of Open MPI do.
fn is_open_mpi(launcher: Option<&[OsString]>, commands: &[Vec<OsString>]) -> bool {
    let first = commands
        .first()
        .map(Vec::as_slice)
        .or(launcher)
        .and_then(<[OsString]>::first);
    let real = first.and_then(|word| Machine.real_path(word));
    let name = real
        .as_deref()
        .and_then(std::path::Path::file_name)
        .map(OsStr::to_string_lossy);
    name.is_some_and(|name| {
        ["orterun", "prterun", "mpirun.openmpi", "mpirun", "prte"].contains(&name.as_ref())
    })
}

/// A program that communicates until it is ended.
fn speaker(idlewave: &std::path::Path, directory: &std::path::Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![idlewave.into()];
    let steps = u64::MAX.to_string();
    words.extend(
        [
            "gang", "program", "--steps", &steps, "--work", "1000", "--values", "8", "--out",
        ]
        .map(OsString::from),
    );
    words.push(directory.join("never").into());
    words
}

/// How many dependent additions this CPU does in a microsecond at its highest clock rate.
fn work_per_us() -> f64 {
    let counts = counts_per_thousand_steps(Monotonic);
    1e6 / counts.max(1.0)
}

fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let info = read("/proc/cpuinfo");
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("a processor", |(_, name)| name);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "{cpus} of {model}, Linux {}",
        kernel.trim(),
        cpus = counted(cpus, "CPU")
    )
}

/// A program of the study.
pub fn run_program(args: &ProgramArgs, stop: &Stop) -> Result<(), Failure> {
    let options = FixedStepsOptions {
        fabric: None,
        mpi: Search::default(),
        ranks: args.ranks,
        work: match args.benchmark {
            Some(benchmark) => FixedWork::Benchmark(benchmark),
            None => FixedWork::Steps {
                steps: args.steps,
                work: args.work,
                values: args.values,
            },
        },
        gate: args.gate.clone(),
        here: args.gate.is_some().then(|| args.out.with_extension("here")),
        gap: GAP,
    };
    let done = fixed_steps(&options, stop, &Quiet);
    match of_job(done, rank_of_this_process())? {
        Some(found) => {
            let text = serde_json::to_vec(&found)
                .map_err(|e| Failure::new(Exit::Other, format!("write JSON: {e}")))?;
            files::write_new(&args.out, "--out", |out| out.write_all(&text))
        }
        None => Ok(()),
    }
}
