//! `idlewave place load`: counters of adapters on all nodes of the job, and files of switches and
//! jobs, as the loads of links.

use super::super::topology::read_files;
use super::text;
use crate::exit::{Exit, Failure};
use crate::files::{read_text, refuse_place, write_new};
use crate::measure;
use crate::output::print;
use crate::progress::Bars;
use clap::Args;
use idlewave_load::dump::read_dump;
use idlewave_load::host::{HostCounters, watch};
use idlewave_load::jobs::read_jobs;
use idlewave_load::{LoadFile, Sources, SwitchDump, When, acquire};
use idlewave_measure::on_each_node;
use idlewave_mpi::Launch;
use idlewave_session::{Progress, Stop};
use idlewave_topology::{Node, Topology};
use idlewave_units::Nanos;
use idlewave_units::foreign::cut;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

/// The largest file of counters or jobs: all ports of a fabric of ten thousand nodes take 40 MB.
const MOST_BYTES: usize = 256 << 20;
/// Readings within the interval: enough for a spread, rare enough to disturb nothing.
const PIECES: u32 = 10;
/// The command that tells the jobs of Slurm: squeue(1).
const SQUEUE: &str = "squeue";
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(600);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mpirun -n 16 --map-by ppr:1:node idlewave place load -o load.toml
  srun -N 16 --ntasks-per-node=1 idlewave place load -o load.toml
  idlewave place load --interval 1s")]
pub struct LoadArgs {
    /// New file for the loads [default: print them]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Nodes and switches, as of `idlewave place` [default: one switch]
    #[arg(long, value_name = "FILE")]
    topology: Vec<PathBuf>,
    /// Time over which adapters are read, from 1s to 10min
    #[arg(long, value_name = "TIME", default_value = "5s")]
    interval: Nanos,
    /// Adapters that belong to the topology, as in ib*,mlx5_0/1 [default: InfiniBand, else hardware]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    adapters: Vec<String>,
    /// Read no adapters, only files
    #[arg(long, requires = "switch_counters", conflicts_with_all = ["interval", "adapters"])]
    no_adapters: bool,
    /// Counters of switches: output of perfquery, ibqueryerrors, iblinkinfo or snmpwalk; at two
    /// times at least. FILE@TIME where the file was not written when they were read
    #[arg(long, value_name = "FILE[@TIME]")]
    switch_counters: Vec<String>,
    /// Running jobs: output of squeue or scontrol show job; `squeue` asks Slurm now
    #[arg(long, value_name = "FILE")]
    jobs: Option<PathBuf>,
}

/// The interval of `--interval` or `--load-interval`.
pub fn interval(option: &str, interval: Nanos) -> Result<Duration, Failure> {
    let time = interval.to_duration();
    if (LEAST..=MOST).contains(&time) {
        return Ok(time);
    }
    let what = format!("measure the load over {interval}: the interval is out of range");
    Err(Failure::new(Exit::Usage, what).with_next(format!("give {option} from 1s to 10min")))
}

/// Counters of all nodes of the job, on rank 0; `None` on other ranks.
pub fn read_adapters(
    time: Duration,
    stop: &Stop,
) -> Result<Option<Vec<Result<HostCounters, String>>>, Failure> {
    let launched = Launch::of_this_process().map_or(0, |launch| launch.rank);
    let own =
        || watch(Path::new("/"), time, PIECES, || stop.is_requested()).map_err(|e| e.to_string());
    measure::of_job(on_each_node(own), launched)
}

/// The hosts that could be read, and warnings about the others.
pub fn split(read: Vec<Result<HostCounters, String>>) -> (Vec<HostCounters>, Vec<String>) {
    let (mut hosts, mut warnings) = (Vec::new(), Vec::new());
    for one in read {
        match one {
            Ok(host) => hosts.push(host),
            Err(why) => warnings.push(format!("a node could not be measured: {why}")),
        }
    }
    (hosts, warnings)
}

/// Runs the command. In a job, rank 0 writes and prints.
pub fn run_load(args: &LoadArgs, stop: &Stop) -> Result<(), Failure> {
    let time = interval("--interval", args.interval)?;
    let first = Launch::of_this_process().is_none_or(|launch| launch.rank == 0);
    if let Some(output) = args.output.as_ref().filter(|_| first) {
        refuse_place(output, "-o")?;
    }
    // Files first: what is wrong with them is known at once.
    let mut sources = Sources {
        adapters: args.adapters.clone(),
        names_switches: !args.topology.is_empty(),
        ..Sources::default()
    };
    let mut warnings = Vec::new();
    let mut given = None;
    if first {
        for counters in &args.switch_counters {
            sources.dumps.push(read_counters(counters, stop)?);
        }
        sources.jobs = args.jobs.as_deref().map(|p| jobs_of(p, stop)).transpose()?;
        // The nodes of the job that measures are there to be used.
        let own = own_job();
        if let Some(jobs) = &mut sources.jobs {
            jobs.retain(|job| !own.contains(&job.id));
        }
        if !args.topology.is_empty() {
            let read = read_files(&args.topology, None)?;
            warnings.extend(read.warnings);
            given = Some(read.topology);
        }
    }
    if !args.no_adapters {
        let bars = Bars::new(first && args.output.is_some());
        bars.part("reading the counters of adapters");
        let read = read_adapters(time, stop);
        bars.finish();
        let Some(read) = read? else { return Ok(()) };
        let (hosts, missing) = split(read);
        sources.hosts = hosts;
        warnings.extend(missing);
    } else if !first {
        return Ok(());
    }
    let topology = match given {
        Some(topology) => topology,
        None => one_switch(&sources.hosts)?,
    };
    let mut file = acquire(&topology, &sources);
    file.warnings.splice(0..0, warnings);
    if file.loads.is_empty() {
        return Err(none(&file));
    }
    let Some(output) = &args.output else {
        return print(&file.write());
    };
    let written = file.write();
    write_new(output, "-o", |out| out.write_all(written.as_bytes()))?;
    print(&text::render(&file, &topology, output))
}

/// The failure where no link has a rate.
pub fn none(file: &LoadFile) -> Failure {
    let why = file
        .warnings
        .first()
        .map_or("nothing was read", String::as_str);
    Failure::new(Exit::NotPossible, format!("measure the load: {why}")).with_next(
        "name the nodes of the topology as the hosts are named, or give --adapters; docs/place.md explains which adapter is which link",
    )
}

/// These hosts on a switch.
pub fn one_switch(hosts: &[HostCounters]) -> Result<Topology, Failure> {
    let mut names: Vec<&str> = hosts.iter().map(|host| host.host.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let nodes = names.into_iter().map(Node::new).collect();
    // The name of the switch must be none of a host.
    Topology::on_one_switch(nodes, "(switch)").map_err(|error| {
        Failure::new(Exit::Usage, format!("measure the load: {error}"))
            .with_next("give the names of nodes and switches with --topology")
    })
}

/// Counters of switches, with the time of their file or the one that is given.
fn read_counters(given: &str, stop: &Stop) -> Result<SwitchDump, Failure> {
    const NEXT: &str = "give the output of perfquery, ibqueryerrors --data -r, iblinkinfo or snmpwalk; docs/place.md shows the commands";
    let (path, told) = match given.rsplit_once('@') {
        // A file may have an @ in its name.
        Some((path, time)) if !Path::new(given).exists() => (Path::new(path), Some(time)),
        _ => (Path::new(given), None),
    };
    let text = read_text(path, MOST_BYTES, NEXT, Some(stop))?;
    let wrong = |why: String| {
        let what = format!("read {}: {why}", path.display());
        Failure::new(Exit::Bundle, what).with_next(NEXT)
    };
    let ports = read_dump(&text).map_err(|error| wrong(error.to_string()))?;
    let at = match told {
        Some(told) => {
            let seconds = told.parse::<f64>().ok().filter(|s| s.is_finite());
            let when = || When::read(told).map(|when| when.seconds() as f64);
            seconds.or_else(when).ok_or_else(|| {
                Failure::new(
                    Exit::Usage,
                    format!("use the time {told:?} of {}", path.display()),
                )
                .with_next("write 2026-03-01T12:00:00Z, or seconds since 1970, after the @")
            })?
        }
        None => {
            let changed = fs::metadata(path).and_then(|of| of.modified());
            let since = changed
                .ok()
                .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            since
                .map(|s| s.as_secs_f64())
                .ok_or_else(|| wrong("it has no time".to_owned()))?
        }
    };
    Ok(SwitchDump { at, ports })
}

/// What Slurm may call the job that this process runs in: squeue writes a task of an array as
/// `1234_5`.
fn own_job() -> Vec<String> {
    let of = |name: &str| env::var(name).ok();
    let task = of("SLURM_ARRAY_JOB_ID").zip(of("SLURM_ARRAY_TASK_ID"));
    let task = task.map(|(array, task)| format!("{array}_{task}"));
    of("SLURM_JOB_ID").into_iter().chain(task).collect()
}

/// What Slurm says of the running jobs. Ctrl-C ends the question too.
fn squeue() -> Result<String, Failure> {
    let refused = |why: String| {
        Failure::new(Exit::NotPossible, format!("ask Slurm for its jobs: {why}")).with_next(
            "check that squeue works here, or give its output of another node with --jobs",
        )
    };
    let ended = Command::new(SQUEUE)
        .args(["--noheader", "--states=running", "--format=%i|%T|%N"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| refused(error.to_string()))?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Err(refused(cut(said.lines().next().unwrap_or_default().trim())));
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

fn jobs_of(path: &Path, stop: &Stop) -> Result<Vec<idlewave_load::jobs::RunningJob>, Failure> {
    const NEXT: &str =
        "give the output of squeue --json, scontrol show job, or squeue -o '%i|%T|%N'";
    let text = match path == Path::new(SQUEUE) {
        true => squeue()?,
        false => read_text(path, MOST_BYTES, NEXT, Some(stop))?,
    };
    read_jobs(&text).map_err(|error| {
        Failure::new(Exit::Bundle, format!("read {}: {error}", path.display())).with_next(NEXT)
    })
}
