//! Runs a user's MPI program on every number of nodes and of ranks per node that some nodes allow,
//! recorded: the measured side of placement.
//!
//! A program cannot change its layout while it runs, so each run is started anew, through the
//! launcher of its MPI library. Repetitions cycle through all layouts, so that drift affects them
//! alike. The recording of a run is summed up and removed.

use crate::error::RecordError;
use crate::front::{RecordOptions, record};
use crate::layout_launch::Starter;
use crate::layout_parts::{Mismatch, parts};
use crate::node::KernelTrace;
use crate::nodes_join::CLOCKS_APART;
use crate::signals::Signals;
use idlewave_capture::host::{allowed_cpus, read_host};
use idlewave_measure::{NodeLoad, PlacedRun, PlacedRuns, PlacementOutcome};
use idlewave_mpi::Launch;
use idlewave_pipeline::Effort;
use idlewave_report::library_name;
use idlewave_run::{Ledger, PhaseKind, RunReader};
use idlewave_session::{Progress, Quiet, SessionError};
use idlewave_sys::files;
use idlewave_topology::expand_hostlist;
use idlewave_units::counted;
use idlewave_units::foreign::shell_line;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// The most repetitions.
const MOST_REPEATS: u32 = 100;
/// The most lines kept of what a failing run printed, and the bytes at its end in which they are
/// looked for.
const MOST_LINES: usize = 10;
const MOST_BYTES: u64 = 64 << 10;
/// How long a line of dashes is around a message of Open MPI, at least.
const RULE: usize = 20;
/// The name under which launchers start processes on this node without asking anybody.
const HERE: &str = "localhost";

/// What to run, and where.
#[derive(Clone, Debug)]
pub struct LayoutOptions {
    /// The program with its arguments.
    pub program: Vec<OsString>,
    /// The launcher; `None` for the one of the MPI library that the program loads.
    pub launcher: Option<OsString>,
    /// The nodes; empty for those of the allocation of Slurm in which this runs, or this node.
    pub hosts: Vec<String>,
    /// The most ranks of a node; `None` for its number of CPUs.
    pub cores: Option<u32>,
    /// Numbers of ranks; empty for the powers of two from 2.
    pub ranks: Vec<u32>,
    /// Runs of each layout, from 1.
    pub repeats: u32,
}

/// The measurements, and why there are no more.
#[derive(Debug)]
pub struct LayoutStudy {
    /// What was measured until the end, or until a run failed.
    pub outcome: PlacementOutcome,
    /// The run that failed and ended the study.
    pub failed: Option<FailedRun>,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRun {
    /// Completes the phrase "failed to ...".
    pub what: String,
    /// The next step.
    pub next: String,
    /// Whether another option would help, rather than another program.
    pub is_usage: bool,
    /// The last lines that the program printed, or if there are none, those of its launcher.
    pub words: Vec<String>,
}

/// The nodes and what they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Nodes {
    /// As launchers know them.
    names: Vec<String>,
    cores: u32,
    /// CPUs of a node; `cores` where they are not known.
    cpus: u32,
    in_allocation: bool,
}

/// Ranks, and ranks on each node.
type Layout = (u32, u32);

/// Measures all layouts.
///
/// # Errors
/// Nothing could be started. A run that fails ends the study and is part of the result, as is an
/// interruption, unless it comes before the first run has ended.
pub fn study_layouts(
    options: &LayoutOptions,
    signals: &mut Signals,
    progress: &dyn Progress,
) -> Result<LayoutStudy, RecordError> {
    let name = options.program.first().ok_or(RecordError::NoCommand)?;
    crate::child::find(name)?;
    refuse_inside(name)?;
    if !(1..=MOST_REPEATS).contains(&options.repeats) {
        let option = format!("--repeats {}", options.repeats);
        let next = format!("give 1 to {MOST_REPEATS}");
        return Err(refused(option, "not possible", next).into());
    }
    let cpus = allowed_cpus().map_err(SessionError::from)?.len() as u32;
    let nodes = Nodes::of(options, cpus, |name| std::env::var(name).ok())?;
    let starter = Starter::choose(options.launcher.as_deref(), name, nodes.in_allocation)?;
    let all = layouts(options, &nodes)?;
    let scratch = scratch()?;
    let mut study = Study {
        options,
        starter,
        scratch: scratch.path(),
        library: None,
        machine: Vec::new(),
        losses: Ledger::default(),
        nodes,
    };
    study.host_file(&study.nodes.names, 1)?;
    let mut runs: Vec<Vec<PlacedRun>> = vec![Vec::new(); all.len()];
    let mut failed = None;
    let total = (options.repeats as usize * all.len()) as f64;
    'measuring: for repeat in 0..options.repeats as usize {
        for (at, &layout) in all.iter().enumerate() {
            if signals.ended_by().is_some() {
                break 'measuring;
            }
            progress.part(&study.title(layout));
            progress.at((repeat * all.len() + at) as f64 / total);
            match study.run(layout, signals) {
                _ if signals.ended_by().is_some() => break 'measuring,
                Ok(Ok(run)) => runs[at].push(run),
                Ok(Err(run)) => {
                    failed = Some(run);
                    break 'measuring;
                }
                Err(error) if runs.iter().all(Vec::is_empty) => return Err(error),
                Err(error) => {
                    failed = Some(FailedRun {
                        what: error.to_string(),
                        next: "see whether the disk is full".to_owned(),
                        is_usage: false,
                        words: Vec::new(),
                    });
                    break 'measuring;
                }
            }
        }
    }
    let interrupted = signals.ended_by().is_some();
    if interrupted && runs.iter().all(Vec::is_empty) {
        let kept = "nothing was measured".to_owned();
        return Err(SessionError::Interrupted { kept }.into());
    }
    Ok(LayoutStudy {
        outcome: study.outcome(&all, runs, interrupted),
        failed,
    })
}

fn refused(option: String, reason: &str, next: String) -> SessionError {
    SessionError::Option {
        option,
        reason: reason.to_owned(),
        next,
    }
}

/// Rejects a process that a launcher started: the study starts the launcher itself.
fn refuse_inside(program: &OsStr) -> Result<(), SessionError> {
    match Launch::of_this_process() {
        None => Ok(()),
        Some(launch) => Err(refused(
            format!("-- {}", program.to_string_lossy()),
            &format!(
                "{} started this command, which starts a launcher for each layout itself",
                launch.launcher.name()
            ),
            "start it without a launcher: idlewave place study -- PROGRAM".to_owned(),
        )),
    }
}

/// A directory for host files and for what is recorded, removed at the end: in the current one,
/// which the nodes of a cluster usually share.
fn scratch() -> Result<tempfile::TempDir, SessionError> {
    let make = || {
        let here = std::env::current_dir()?;
        tempfile::Builder::new()
            .prefix("idlewave-place-study-")
            .tempdir_in(here)
    };
    make().map_err(|error| SessionError::NotPossible {
        reason: format!("no directory for its recordings can be made here: {error}"),
        next: "change to a directory where you may write, and which all nodes see".to_owned(),
    })
}

impl Nodes {
    /// The nodes that were given, those of Slurm's allocation, or this one. `variable` reads the
    /// environment, `cpus` is how many CPUs this process may use.
    fn of(
        options: &LayoutOptions,
        cpus: u32,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SessionError> {
        let allocated = variable("SLURM_JOB_NODELIST").filter(|list| !list.is_empty());
        let in_allocation = allocated.is_some();
        let allocated = allocated.filter(|_| options.hosts.is_empty());
        let names = match &allocated {
            Some(list) => expand_hostlist(list).map_err(|error| {
                let next = "give the nodes with --hosts".to_owned();
                refused("SLURM_JOB_NODELIST".to_owned(), &error.to_string(), next)
            })?,
            None if options.hosts.is_empty() => vec![HERE.to_owned()],
            None => options.hosts.clone(),
        };
        let of_allocation = || least_cpus(&variable("SLURM_JOB_CPUS_PER_NODE")?);
        let known = allocated.is_some().then(of_allocation).flatten();
        let here = (names == [HERE]).then_some(cpus);
        let cores = options.cores.or(known).unwrap_or(cpus).max(1);
        Ok(Self {
            names,
            cores,
            cpus: known.or(here).unwrap_or(cores),
            in_allocation,
        })
    }
}

/// The least number in Slurm's list of CPUs per node: `4(x3),2`.
fn least_cpus(list: &str) -> Option<u32> {
    let number = |part: &str| part.split('(').next()?.trim().parse().ok();
    list.split(',').map(number).min()?
}

/// Every even layout: k ranks on each of ranks / k nodes.
fn layouts(options: &LayoutOptions, nodes: &Nodes) -> Result<Vec<Layout>, SessionError> {
    let count = nodes.names.len() as u32;
    let most = count.saturating_mul(nodes.cores);
    let numbers: Vec<u32> = match options.ranks.is_empty() {
        true => (1..32).map(|p| 1 << p).take_while(|&p| p <= most).collect(),
        false => options.ranks.clone(),
    };
    let mut all = Vec::new();
    for ranks in numbers {
        let fits = |k: &u32| ranks % k == 0 && ranks / k <= count;
        let per_node = (1..=nodes.cores.min(ranks)).filter(fits);
        all.extend(per_node.map(|per_node| (ranks, per_node)));
    }
    match all.is_empty() {
        false => Ok(all),
        true => Err(refused(
            match options.ranks.is_empty() {
                true => "this allocation".to_owned(),
                false => "--ranks".to_owned(),
            },
            &format!(
                "there is no layout on {} with {} each",
                counted(count, "node"),
                counted(nodes.cores, "core")
            ),
            "give other --ranks, more --hosts, or more ranks per node with --cores".to_owned(),
        )),
    }
}

/// A study under way.
struct Study<'a> {
    options: &'a LayoutOptions,
    nodes: Nodes,
    starter: Starter,
    scratch: &'a Path,
    /// The MPI library, once a run has told it.
    library: Option<String>,
    /// How busy others kept each node, in the run with the most.
    machine: Vec<NodeLoad>,
    /// What the recordings lost.
    losses: Ledger,
}

impl Study<'_> {
    fn program(&self) -> String {
        let words = self.options.program.iter();
        let words: Vec<String> = words.map(|w| w.to_string_lossy().into_owned()).collect();
        shell_line(&words)
    }

    fn title(&self, (ranks, per_node): Layout) -> String {
        let name = Path::new(&self.options.program[0]);
        let name = name.file_name().unwrap_or(name.as_os_str());
        format!(
            "{}: {}, {per_node} per node",
            name.to_string_lossy(),
            counted(ranks, "rank")
        )
    }

    fn host_file(&self, nodes: &[String], per_node: u32) -> Result<String, SessionError> {
        self.starter.host_file(nodes, per_node).map_err(|error| {
            let next = "give each node once, by the name that launchers know";
            refused("--hosts".to_owned(), &error.to_string(), next.to_owned())
        })
    }

    /// One run.
    fn run(
        &mut self,
        (ranks, per_node): Layout,
        signals: &mut Signals,
    ) -> Result<Result<PlacedRun, FailedRun>, RecordError> {
        let io = |action, path: &Path| SessionError::io(action, path.to_owned());
        let nodes = &self.nodes.names[..(ranks / per_node) as usize];
        let hosts = self.scratch.join("hosts");
        let content = self.host_file(nodes, per_node)?;
        files::create_over(&hosts)
            .and_then(|mut file| file.write_all(content.as_bytes()))
            .map_err(io("write", &hosts))?;
        let output = self.scratch.join("output");
        let words = files::create_over(&output).map_err(io("write", &output))?;
        let shared = per_node > self.nodes.cpus;
        let mut command = Vec::new();
        if shared {
            // Ranks that share a CPU must yield to each other while they wait; the user's own
            // setting counts.
            command.extend(["env".into(), yielding()]);
        }
        command.extend(self.starter.command(nodes, per_node, shared, &hosts));
        let at = command.len();
        command.extend(self.options.program.iter().cloned());
        let bundle = self.scratch.join("run");
        let options = RecordOptions {
            output: Some(bundle.clone()),
            trace: KernelTrace::Off,
            report: false,
            effort: Effort::USUAL,
            at: Some(at),
            program: command,
            command: std::env::args_os()
                .map(|arg| arg.to_string_lossy().into_owned())
                .collect(),
            // Each rank is timed by its own clock.
            clocks: false,
            unattended: Some(words),
        };
        let recorded = record(&options, signals, &Quiet)?;
        let done = if recorded.never_started || recorded.exit_code != 0 {
            Err(Mismatch::Wrong(ended(recorded.exit_code)))
        } else if let Some(trouble) = &recorded.trouble {
            Err(Mismatch::Wrong(format!("recording it failed: {trouble}")))
        } else {
            let run = RunReader::open(&bundle).map_err(SessionError::from)?;
            self.note(&run);
            parts(&run, ranks, per_node).map_err(SessionError::from)?
        };
        if bundle.exists() {
            fs::remove_dir_all(&bundle).map_err(io("remove", &bundle))?;
        }
        Ok(done.map_err(|mismatch| FailedRun {
            is_usage: mismatch == Mismatch::Launcher,
            next: match mismatch {
                Mismatch::Launcher => "give the launcher of its library with --launcher".to_owned(),
                Mismatch::NoMpi => {
                    "give a program that is linked with an MPI library dynamically".to_owned()
                }
                Mismatch::Wrong(_) => format!(
                    "run it with {} by hand, or give other --ranks",
                    self.starter.program.to_string_lossy()
                ),
            },
            what: format!(
                "run {} with {}, {per_node} per node: {}",
                self.program(),
                counted(ranks, "rank"),
                mismatch.text()
            ),
            words: last_lines(&output).unwrap_or_default(),
        }))
    }

    /// Takes what a bundle says about library and machine.
    fn note(&mut self, run: &RunReader) {
        let library = run
            .manifest()
            .phases
            .iter()
            .find_map(|phase| match &phase.kind {
                PhaseKind::Recorded { library, .. } => library.clone(),
                _ => None,
            });
        self.library = library.or(self.library.take());
        self.losses.append(run.manifest().losses.clone());
        for node in &run.manifest().nodes {
            let of = NodeLoad {
                node: node.host.name.clone(),
                contamination: node.contamination.clone(),
            };
            match self.machine.iter_mut().find(|known| known.node == of.node) {
                Some(known) if known.contamination.others < of.contamination.others => *known = of,
                Some(_) => {}
                None => self.machine.push(of),
            }
        }
    }

    fn outcome(
        self,
        all: &[Layout],
        runs: Vec<Vec<PlacedRun>>,
        interrupted: bool,
    ) -> PlacementOutcome {
        let launcher = self.starter.program.to_string_lossy().into_owned();
        // Each rank is timed by its own clock: how clocks compare does not matter.
        let losses = self.losses.entries().iter();
        let losses = losses.filter(|loss| !loss.what.starts_with(CLOCKS_APART));
        let notes = losses
            .map(|l| format!("{}: {}; {}; {}", l.what, l.count, l.consequence, l.advice))
            .collect();
        let layouts = all.iter().zip(runs);
        PlacementOutcome {
            benchmark: self.program(),
            fabric: match self.library.as_deref().map(library_name) {
                Some(library) => format!("{launcher}, {library}"),
                None => launcher,
            },
            nodes: match self.nodes.names.as_slice() {
                [only] if only == HERE => vec![read_host(Path::new("/")).name],
                names => names.to_vec(),
            },
            cpus_per_node: self.nodes.cpus,
            layouts: layouts
                .map(|(&(ranks, ranks_per_node), runs)| PlacedRuns {
                    ranks,
                    nodes: ranks / ranks_per_node,
                    ranks_per_node,
                    runs,
                })
                .collect(),
            iterations: 1,
            interrupted,
            notes,
            machine: self.machine,
        }
    }
}

/// Makes the ranks of Open MPI yield while they wait, unless the user says otherwise.
fn yielding() -> OsString {
    const NAME: &str = "OMPI_MCA_mpi_yield_when_idle";
    let value = std::env::var(NAME).unwrap_or_else(|_| "1".to_owned());
    format!("{NAME}={value}").into()
}

fn ended(code: i32) -> String {
    match code {
        129..=192 => format!("signal {} ended it", code - 128),
        code => format!("it ended with exit code {code}"),
    }
}

/// The last lines of a file of output.
fn last_lines(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(of_program(&String::from_utf8_lossy(&bytes)))
}

/// The last lines of the program itself; if there are none, those of the launcher, which Open MPI
/// puts between lines of dashes, MPICH behind `=` and srun behind its name.
fn of_program(text: &str) -> Vec<String> {
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let is_rule = |line: &str| line.len() >= RULE && line.bytes().all(|byte| byte == b'-');
    let mut inside = false;
    let mut own = Vec::new();
    for line in lines() {
        if is_rule(line) {
            inside = !inside;
        } else if !inside && !line.starts_with('=') && !line.starts_with("srun: ") {
            own.push(line.to_owned());
        }
    }
    if own.is_empty() {
        own = lines()
            .filter(|line| !is_rule(line))
            .map(str::to_owned)
            .collect();
    }
    own.split_off(own.len().saturating_sub(MOST_LINES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(hosts: &[&str], cores: Option<u32>, ranks: &[u32]) -> LayoutOptions {
        LayoutOptions {
            program: vec!["./app".into()],
            launcher: None,
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            cores,
            ranks: ranks.to_vec(),
            repeats: 1,
        }
    }

    fn nodes(options: &LayoutOptions, environment: &[(&str, &str)]) -> Nodes {
        let variable = |name: &str| {
            let found = environment.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Nodes::of(options, 2, variable).unwrap()
    }

    #[test]
    fn every_even_layout_that_nodes_and_cores_allow_is_there_once() {
        let of = |hosts: &[&str], cores, ranks: &[u32]| {
            let options = options(hosts, cores, ranks);
            layouts(&options, &nodes(&options, &[])).map_err(|error| error.to_string())
        };
        let two = ["n1", "n2"];
        assert_eq!(
            of(&two, Some(4), &[2, 4, 6, 8]).unwrap(),
            [(2, 1), (2, 2), (4, 2), (4, 4), (6, 3), (8, 4)]
        );
        // Powers of two up to all cores.
        assert_eq!(of(&[], None, &[]).unwrap(), [(2, 2)]);
        assert_eq!(of(&two, Some(3), &[]).unwrap(), [(2, 1), (2, 2), (4, 2)]);
        let said = of(&two, Some(2), &[3, 16]).unwrap_err();
        assert_eq!(
            said,
            "use --ranks: there is no layout on 2 nodes with 2 cores each"
        );
        assert!(of(&[], Some(1), &[]).is_err());
    }

    #[test]
    fn nodes_are_those_given_or_allocated_or_this_one() {
        let slurm = [
            ("SLURM_JOB_NODELIST", "n[1-3]"),
            ("SLURM_JOB_CPUS_PER_NODE", "8(x2),4"),
        ];
        let this = nodes(&options(&[], None, &[]), &[]);
        assert_eq!(
            (this.names, this.cores, this.in_allocation),
            (vec![HERE.to_owned()], 2, false)
        );
        let allocated = nodes(&options(&[], None, &[]), &slurm);
        assert_eq!(
            (
                allocated.names.join(" "),
                allocated.cores,
                allocated.in_allocation
            ),
            ("n1 n2 n3".to_owned(), 4, true)
        );
        let more = nodes(&options(&[], Some(8), &[]), &slurm);
        assert_eq!((more.cores, more.cpus), (8, 4));
        let given = nodes(&options(&["m1"], Some(6), &[]), &slurm);
        assert_eq!((given.names.join(" "), given.cores), ("m1".to_owned(), 6));
    }

    #[test]
    fn the_program_s_own_last_lines_are_told_without_its_launcher_s() {
        let rule = "-".repeat(60);
        let text = format!("step 1\nbad input\n{rule}\nPrimary job terminated\n{rule}\n");
        assert_eq!(of_program(&text), ["step 1", "bad input"]);
        let text = "bad input\n\n====\n=   EXIT CODE: 3\n====\n";
        assert_eq!(of_program(text), ["bad input"]);
        let silent = format!("{rule}\nno such host\n{rule}\n");
        assert_eq!(of_program(&silent), ["no such host"]);
        let long: String = (0..100).map(|i| format!("{i}\n")).collect();
        let last = of_program(&long);
        assert_eq!((last.len(), &*last[0]), (MOST_LINES, "90"));
        assert!(of_program("").is_empty());
    }

    #[test]
    fn a_run_ended_by_a_code_or_by_a_signal() {
        assert_eq!(ended(3), "it ended with exit code 3");
        assert_eq!(ended(139), "signal 11 ended it");
        assert_eq!(ended(255), "it ended with exit code 255");
    }
}
