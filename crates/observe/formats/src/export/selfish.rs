//! The noise of each CPU as a file of detours, in the form that the selfish benchmark of Netgauge
//! writes and `idlewave fit` reads (crates/analyse/fit/src/selfish.rs): start and length in
//! nanoseconds, one per line.
//!
//! A run that measured detours exports those of its detour loops. Any other run exports what the
//! kernel trace recorded: stretches during which an interrupt or a thread that is no rank had the
//! CPU. Stretches that touch are one detour, as a loop would see them.

use crate::export::out::{Output, number};
use crate::export::{Export, ExportError, Job};
use idlewave_run::tables::{Bursts, Detours, Interrupts, TaskKind, Tasks};
use idlewave_run::{DetourLoop, PhaseKind};
use idlewave_sys::files;
use idlewave_units::{Cpu, NodeId, Pid};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

/// What one CPU lost: when it was watched, and the detours as start and end, in any order.
struct Lost {
    begin: u64,
    end: u64,
    detours: Vec<(u64, u64)>,
}

/// Writes a file per CPU into the directory that the job names.
pub fn write(job: &Job<'_>) -> Result<Export, ExportError> {
    let mut export = Export::default();
    let phases = &job.run.manifest().phases;
    let measured = phases.iter().enumerate().find_map(|(at, p)| match &p.kind {
        PhaseKind::Detour { loops, .. } => Some((at as u32, loops)),
        _ => None,
    });
    let mut lost: Vec<(PathBuf, Lost)> = match measured {
        Some((phase, loops)) => measured_by_loops(job, phase, loops, &mut export)?,
        None => recorded(job, &mut export)?,
    };
    lost.retain(|(_, lost)| !lost.detours.is_empty());
    if lost.is_empty() {
        return Err(ExportError::Lacks {
            format: "selfish",
            reason: "it has neither measured detours nor a kernel trace with noise in it"
                .to_owned(),
        });
    }
    files::create_directory(job.output).map_err(ExportError::io(job.output))?;
    let all = lost.len();
    for (done, (name, lost)) in lost.into_iter().enumerate() {
        job.go_on()?;
        (job.progress)(done as f64 / all as f64);
        let mut out = Output::begin(&job.output.join(name))?;
        let records = lines(&mut out, lost)?;
        export.files.push(out.finish(Some(records))?);
    }
    Ok(export)
}

fn measured_by_loops(
    job: &Job<'_>,
    phase: u32,
    loops: &[DetourLoop],
    export: &mut Export,
) -> Result<Vec<(PathBuf, Lost)>, ExportError> {
    let mut by_cpu: BTreeMap<Cpu, Lost> = BTreeMap::new();
    for one in loops {
        export.losses.enter(
            format!("detours that the loop on CPU {} had no memory for", one.cpu),
            one.not_kept,
            "the file lacks them",
            "measure with a higher threshold",
        );
        let lost = Lost {
            begin: one.begin_ns,
            end: one.end_ns,
            detours: Vec::new(),
        };
        by_cpu.insert(one.cpu, lost);
    }
    let mut elsewhere = 0;
    job.run.for_each::<Detours>(|row| {
        let lost = by_cpu.get_mut(&row.cpu).filter(|_| row.phase == phase);
        match lost {
            Some(lost) => lost
                .detours
                .push((row.begin_ns, row.begin_ns + row.length.get())),
            None => elsewhere += 1,
        }
    })?;
    export.losses.enter(
        "detours of other phases than the first detour measurement",
        elsewhere,
        "the files have those of the detour loops only",
        "export to csv for all of them",
    );
    let named = |(cpu, lost)| (PathBuf::from(format!("cpu{cpu}.selfish")), lost);
    Ok(by_cpu.into_iter().map(named).collect())
}

fn recorded(job: &Job<'_>, export: &mut Export) -> Result<Vec<(PathBuf, Lost)>, ExportError> {
    let mut own: HashSet<(NodeId, Pid)> = HashSet::new();
    job.run.for_each::<Tasks>(|task| {
        if matches!(
            task.kind,
            TaskKind::Idle | TaskKind::Rank | TaskKind::Program
        ) {
            own.insert((task.node, task.pid));
        }
    })?;
    let mut by_cpu: BTreeMap<(NodeId, Cpu), Lost> = BTreeMap::new();
    let (mut idle, mut detours) = (0_u64, 0_u64);
    let mut take = |node, cpu, begin: u64, end: u64, noise: bool| {
        let lost = by_cpu.entry((node, cpu)).or_insert(Lost {
            begin,
            end,
            detours: Vec::new(),
        });
        lost.begin = lost.begin.min(begin);
        lost.end = lost.end.max(end);
        if noise {
            detours += 1;
            lost.detours.push((begin, end));
        }
    };
    job.run.for_each::<Bursts>(|row| {
        let noise = row.pid != Pid::IDLE && !own.contains(&(row.node, row.pid));
        idle += u64::from(row.pid == Pid::IDLE);
        take(row.node, row.cpu, row.begin_ns, row.end_ns, noise);
    })?;
    job.run.for_each::<Interrupts>(|row| {
        take(row.node, row.cpu, row.begin_ns, row.end_ns, true);
    })?;
    export.losses.enter(
        "names of sources",
        detours,
        "the files have start and length only",
        "export to csv or paraver for the names",
    );
    export.losses.enter(
        "stretches in which a CPU was idle",
        idle,
        "noise that hit an idle CPU is in the files as if it had hit a rank",
        "run a rank on every CPU, or fit the run itself: `idlewave fit RUN`",
    );
    let several = job.run.manifest().nodes.len() > 1;
    let named = |((node, cpu), lost)| {
        let name = match several {
            true => format!("node{node}-cpu{cpu}.selfish"),
            false => format!("cpu{cpu}.selfish"),
        };
        (PathBuf::from(name), lost)
    };
    Ok(by_cpu.into_iter().map(named).collect())
}

/// Writes the detours of a CPU and returns their number. Times count from the start of watching.
fn lines(out: &mut Output, mut lost: Lost) -> Result<u64, ExportError> {
    lost.detours.sort_unstable();
    let head = format!(
        "# Detours exported by idlewave. Times count from the start of the measurement.\n\
         # Time [ns]\tselfish duration [ns]\n# Measurement period: {} s\n",
        seconds(lost.end.saturating_sub(lost.begin))
    );
    out.text.extend_from_slice(head.as_bytes());
    let mut records = 0;
    let mut write = |out: &mut Output, (begin, end): (u64, u64)| {
        number(&mut out.text, begin.saturating_sub(lost.begin));
        out.text.push(b'\t');
        number(&mut out.text, end - begin);
        out.text.push(b'\n');
        records += 1;
        out.pass_on()
    };
    let mut open: Option<(u64, u64)> = None;
    for (begin, end) in lost.detours {
        // Damaged rows may end before they begin.
        let end = end.max(begin);
        match &mut open {
            Some((_, until)) if begin <= *until => *until = end.max(*until),
            _ => {
                if let Some(before) = open.replace((begin, end)) {
                    write(out, before)?;
                }
            }
        }
    }
    if let Some(last) = open {
        write(out, last)?;
    }
    Ok(records)
}

/// Nanoseconds as seconds, exactly.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}
