//! Paraver: NAME.prv with the records, NAME.pcf and NAME.row with their names, and a directory
//! NAME.cfgs of views.
//!
//! Times are nanoseconds from the first record of the run. The first application has a task per
//! rank, or per process of a recorded program without MPI; each node has an application with
//! everything else that ran there. Format: the manual "Paraver: Parallel Program Visualization and
//! Analysis tool, Tracefile description" and the parser of paraver-kernel (utils/traceparser).

mod applications;
mod labels;
mod late;
mod objects;
mod program;
pub(super) mod record;
mod states;
mod survey;
mod text;
mod turns;
mod views;

use crate::export::kernel::enter_inferred;
use crate::export::out::Output;
use crate::export::sorter::Sorter;
use crate::export::{Export, ExportError, Job};
use crate::prv;
use idlewave_run::tables::*;
use record::{Record, header};
use states::States;
use std::path::{Path, PathBuf};
use survey::Survey;

/// What is written beside the trace: names of values, names of objects, views.
const BESIDE: [&str; 3] = ["pcf", "row", "cfgs"];

/// The trace and what is written beside it.
pub(super) fn places(output: &Path) -> Result<Vec<PathBuf>, ExportError> {
    if output.extension().is_none_or(|ending| ending != "prv") {
        let mut instead = output.as_os_str().to_owned();
        instead.push(".prv");
        return Err(ExportError::Name {
            path: output.to_owned(),
            reason: "Paraver opens only files that end with .prv",
            instead: instead.into(),
        });
    }
    let beside = BESIDE.map(|ending| output.with_extension(ending));
    Ok([&[output.to_owned()], &beside[..]].concat())
}

/// Writes the trace to the file that the job names, and the other files beside it.
pub fn write(job: &Job<'_>) -> Result<Export, ExportError> {
    let mut export = Export::default();
    let survey = Survey::of(job)?;
    (job.progress)(0.2);
    let mut records = Sorter::new(job.output);
    let mut names = labels::Names::new(job)?;
    program::gather(job, &survey, &mut records, &mut names, &mut export.losses)?;
    (job.progress)(0.4);
    gather_kernel(job, &survey, &mut records, &mut export)?;
    not_exported(job, &mut export)?;
    (job.progress)(0.6);
    let Some((begin, end)) = records.span() else {
        return Err(ExportError::Lacks {
            format: "paraver",
            reason: "nothing in it has a time".to_owned(),
        });
    };

    let mut out = Output::begin(job.output)?;
    header(&mut out.text, job, &survey, end - begin)?;
    let places = survey.objects.places();
    let mut written = 0;
    let all = records.len();
    records.finish(|record| {
        record.line(&mut out.text, &places, begin);
        written += 1;
        if written % 65_536 == 0 {
            job.go_on()?;
            (job.progress)(0.6 + 0.4 * written as f64 / all as f64);
        }
        out.pass_on()
    })?;
    export.files.push(out.finish(Some(written))?);
    let [pcf, row, views] = BESIDE.map(|ending| job.output.with_extension(ending));
    names.write(&pcf, &survey, &mut export)?;
    labels::rows(&row, &survey, &mut export)?;
    views::write(&views, &survey, &mut export)?;
    Ok(export)
}

/// States, CPUs and interrupts from the kernel's view.
fn gather_kernel(
    job: &Job<'_>,
    survey: &Survey,
    records: &mut Sorter<Record>,
    export: &mut Export,
) -> Result<(), ExportError> {
    let (mut uncertain, mut failed) = (0, Ok(()));
    job.run.for_each::<Interrupts>(|row| {
        let Some(object) = survey.objects.ran(row.node, row.cpu, row.pid) else {
            return;
        };
        uncertain += u64::from(!row.certain);
        let kind = prv::INTERRUPT + u32::from(row.depth);
        let cpu = survey.objects.cpu(row.node, row.cpu);
        let begin = Record::event(row.begin_ns, object, kind, u64::from(row.source) + 1);
        let end = Record::event(row.end_ns, object, kind, 0);
        for record in [begin, end] {
            if failed.is_ok() {
                failed = records.push(record.on(cpu));
            }
        }
    })?;
    failed?;
    enter_inferred(&mut export.losses, "interrupts", uncertain);
    let late = late::Late::of(job, survey, &mut export.losses)?;
    let turns = turns::gather(job, survey, &mut export.losses)?;
    let spans = [records.span(), turns.span()];
    let Some(end) = spans.iter().flatten().map(|span| span.1).max() else {
        return Ok(());
    };
    // The last states end with the trace, whose last moment may be a wake-up.
    records.cover(end);
    let mut states = States::new(&survey.objects, late, end);
    turns.finish(|turn| states.take(&turn, records))?;
    states.finish(records)
}

/// Enters what the format has no record for.
fn not_exported(job: &Job<'_>, export: &mut Export) -> Result<(), ExportError> {
    let tables = &job.run.manifest().tables;
    let rows = |name: &str| {
        let table = tables.iter().find(|t| t.name == name);
        table.map_or(0, |t| t.rows)
    };
    for (table, what, advice) in [
        (
            Detours::NAME,
            "detours seen from user space",
            "export to csv or selfish for them",
        ),
        (
            Quanta::NAME,
            "quanta of fixed work",
            "export to csv for them",
        ),
        (
            TaskTimes::NAME,
            "CPU times from /proc",
            "export to csv for them",
        ),
        (
            Counters::NAME,
            "counters from /proc",
            "export to csv for them",
        ),
        (
            Wakeups::NAME,
            "wakers of threads",
            "export to csv: table `wakeups`",
        ),
        (
            Migrations::NAME,
            "times of migrations",
            "export to csv: table `migrations`",
        ),
        (
            Syscalls::NAME,
            "entries into system calls and returns",
            "export to trace.dat, or to csv: table `syscalls`",
        ),
        (
            WaitParts::NAME,
            "parts of waits",
            "export to csv, or see `idlewave explain`",
        ),
    ] {
        let consequence = match table {
            Wakeups::NAME => "the trace shows when a thread was woken, not by whom",
            Migrations::NAME => {
                "the trace shows on which CPU a thread ran next, not when it was moved"
            }
            _ => "the trace lacks them",
        };
        export.losses.enter(what, rows(table), consequence, advice);
    }
    Ok(())
}
