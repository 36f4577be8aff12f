//! `idlewave import`: makes a run from a trace of another tool.

use crate::exit::{Exit, Failure, judge};
use crate::output::print;
use crate::progress::Bars;
use clap::Args;
use idlewave_formats::import::{
    Ask, Chosen, ImportError, Imported, Joined, Program, Rule, Subject, import,
};
use idlewave_run::{Ledger, Loss};
use idlewave_session::{Progress, Stop, Utc};
use idlewave_units::foreign::{one_line, shell_word};
use idlewave_units::{Nanos, counted, show};
use std::fs;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  idlewave import docs/examples/ftrace.txt -o site
  idlewave import docs/examples/ftrace.txt -o daemon --program collectd
  idlewave import docs/examples/kineto -o training

Formats: trace.dat of trace-cmd, perf.data, text of `trace-cmd report`, `perf script` and tracefs, the \
    directory of an LTTng session (CTF), the directory raw/ of a run, Perfetto's traces, the report of AIX's \
    trcrpt; and with ranks, Paraver's .prv, OTF2 archives of Score-P and TAU, and the traces of PyTorch's \
    profiler. docs/import.md shows how to record each.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// A trace, or the directory that holds it; its format is recognised by its content. Of
    /// PyTorch's profiler: the traces of all ranks, or their directory
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// New directory for the run
    #[arg(short, long, value_name = "RUN")]
    output: PathBuf,
    /// With a kernel trace: the traces of the program in the same run, to be joined with it
    #[arg(long, num_args = 1.., value_name = "FILE")]
    app: Vec<PathBuf>,
    /// What to add to the times of the program's traces to get those of the kernel trace, in
    /// nanoseconds; otherwise it follows from what both traces contain
    #[arg(
        long,
        value_name = "NS",
        requires = "app",
        allow_negative_numbers = true
    )]
    app_offset: Option<i64>,
    /// The program under study, by name or process number; otherwise the user program that used
    /// most CPU time. Traces of a program have one name, with --app too
    #[arg(long, value_name = "NAME|PID")]
    program: Option<Program>,
}

/// Runs the command.
pub fn run_import(args: &ImportArgs, stop: &Stop) -> Result<(), Failure> {
    let (files, app) = (all_followed(&args.files)?, all_followed(&args.app)?);
    let Some((file, more)) = files.split_first() else {
        return Err(Failure::new(Exit::Usage, "import: no file"));
    };
    let bars = Bars::new(true);
    bars.part("importing the trace");
    let command: Vec<String> = std::env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    let imported = import(&Ask {
        input: file,
        more,
        app: &app,
        app_offset: args.app_offset,
        output: &args.output,
        command: &command,
        started: &recorded(file),
        program: &args.program.clone().unwrap_or_default(),
        stop: &stop.flag,
        progress: &|share| bars.at(share),
    });
    bars.finish();
    print(&wrapped(&text(&imported?, &args.output)))
}

fn all_followed(files: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    files.iter().map(|file| followed(file)).collect()
}

/// Resolves a symbolic link: whoever names one on the command line means its target.
fn followed(file: &Path) -> Result<PathBuf, Failure> {
    match fs::symlink_metadata(file) {
        Ok(there) if there.is_symlink() => fs::canonicalize(file).map_err(|error| {
            let what = format!("follow the link {}: {error}", file.display());
            Failure::new(Exit::Io, what).with_next("check where it leads to")
        }),
        _ => Ok(file.to_owned()),
    }
}

/// When the file was written: the best estimate of when it was recorded.
fn recorded(file: &Path) -> String {
    let modified = fs::metadata(file).and_then(|m| m.modified());
    modified.map_or_else(|_| Utc::now(), Utc::of).rfc3339()
}

fn text(imported: &Imported, run: &Path) -> String {
    let lost = match imported.missed {
        Some(missed) => format!(", {} lost", show::count(missed)),
        None => String::new(),
    };
    let cpus = match imported.cpus {
        0 => String::new(),
        cpus => format!(" on {}", counted(cpus, "CPU")),
    };
    let head = format!(
        "{}: {}{cpus} in {}{lost}\n",
        imported.format,
        counted(imported.events, "event"),
        imported.span,
    );
    let program = match &imported.program {
        Subject::Chosen { chosen, inferred } => of_kernel(chosen, *inferred),
        Subject::Told {
            name,
            ranks,
            threads,
        } => {
            let ranks = match ranks {
                0 => "no ranks".to_owned(),
                ranks => counted(*ranks, "rank"),
            };
            let (name, threads) = (one_line(name), counted(*threads, "thread"));
            format!("program under study: {name}, {ranks}, {threads}, as the trace says\n")
        }
    };
    let joined = imported.joined.as_ref().map(of_both).unwrap_or_default();
    head + &program + &joined + &ending(&imported.losses, run)
}

/// How the traces of the program were joined with the kernel's.
fn of_both(joined: &Joined) -> String {
    let by = match joined.by_number {
        true => "by the numbers of their threads",
        false => "by name and order of their processes",
    };
    let moments = counted(joined.moments, "moment");
    let offset = match joined.error {
        Some(error) => format!("known to {error} from {moments} at which a thread has a CPU"),
        None => format!("as asked, checked at {moments} at which a thread has a CPU"),
    };
    format!(
        "joined: ranks bound to the kernel's threads {by}; {} ns added to the program's times, {offset}\n",
        joined.offset_ns
    )
}

/// The program of a kernel trace, and what such a trace lacks.
fn of_kernel(program: &Chosen, inferred: u64) -> String {
    let name = one_line(&program.name);
    let why = match program.rule {
        Rule::Asked => "as asked".to_owned(),
        Rule::Recorded => "as idlewave recorded it".to_owned(),
        Rule::Busiest => format!(
            "the user program with the most CPU time ({} of {})",
            Nanos::from_nanos(program.ran_ns),
            Nanos::from_nanos(program.users_ns)
        ),
    };
    let mut text = format!(
        "program under study: {name}, {}, {why}\n",
        counted(program.threads, "thread")
    );
    if program.rule != Rule::Asked && !program.others.is_empty() {
        let others: Vec<String> = program.others.iter().map(|o| one_line(o)).collect();
        text += &format!(
            "  another one: --program NAME or PID; next in CPU time: {}\n",
            others.join(", ")
        );
    }
    if inferred > 0 {
        text += &format!(
            "kernel threads: told from user threads by name and parent ({})\n",
            counted(inferred, "thread")
        );
    }
    text + "not in such a trace: ranks, MPI calls, regions, settings of the machine\n"
}

fn ending(losses: &Ledger, run: &Path) -> String {
    let lost: String = losses.entries().iter().map(line).collect();
    let lost = match lost.as_str() {
        "" => lost,
        lost => format!("lost or uncertain:\n{lost}"),
    };
    let run = shell_word(&run.display().to_string());
    lost + &format!("\nNEXT\n  idlewave explain {run}\n  idlewave report {run}\n")
}

/// Wraps lines to the width of a terminal, except for names without spaces.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let deeper = format!("{indent}  ");
        let options = textwrap::Options::new(80)
            .initial_indent(indent)
            .subsequent_indent(&deeper);
        out += &textwrap::fill(line.trim_start(), options);
        out.push('\n');
    }
    out
}

fn line(loss: &Loss) -> String {
    format!("  {} ({})\n", one_line(&loss.what), show::count(loss.count))
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        let exit = match &error {
            ImportError::Io { .. } => Exit::Io,
            ImportError::NoProgram { .. } | ImportError::Together { .. } => Exit::Usage,
            ImportError::Run(run) => {
                let (exit, next) = judge(run);
                return Failure::new(exit, error.to_string()).with_next(next);
            }
            ImportError::Interrupted => {
                let kept = "nothing was written".to_owned();
                return idlewave_session::SessionError::Interrupted { kept }.into();
            }
            _ => Exit::Bundle,
        };
        Failure::new(exit, error.to_string()).with_next(error.next_step())
    }
}
