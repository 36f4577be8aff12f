//! OTF2 archives, written by OTF2's own library if it is installed.
//!
//! Each thread of a rank, and of a recorded program without MPI, is a location; ranks and processes
//! are groups of locations, hosts are nodes of the system tree. Times are nanoseconds of the run.
//! The library writes the anchor file last; without it, nothing can be opened.
//!
//! ```text
//! library      the functions of the library
//! archive      an archive that is being written
//! survey       threads of a run as locations
//! regions      names of regions
//! comms        communicators and ranks in them
//! record       what happened in a location, small enough to sort
//! program      calls, messages, marks and steps as records
//! taken        what took the CPU, as records
//! lane         records of a location as events
//! gathered     all of it, before anything is written
//! definitions  what the numbers in events stand for
//! ```

mod archive;
mod comms;
mod definitions;
mod gathered;
mod lane;
mod library;
mod program;
mod record;
mod regions;
mod survey;
mod taken;

use crate::export::names::Names;
use crate::export::sorter::Sorter;
use crate::export::{Export, ExportError, Job, Written};
use archive::Archive;
use comms::Comms;
use gathered::Gathered;
use idlewave_run::Ledger;
use idlewave_run::tables::*;
use idlewave_sys::files;
use lane::{Ended, Lane};
use library::Library;
use regions::Regions;
use std::fs;
use std::path::Path;
use survey::Survey;

/// Records between two checks of the stop flag.
const LOOK: u64 = 1 << 16;

/// Writes an archive into the directory that the job names.
pub(super) fn write(job: &Job<'_>) -> Result<Export, ExportError> {
    job.go_on()?;
    let library = Library::open()?;
    let mut gathered = gather(job)?;
    let Some(span) = gathered.records.span() else {
        return Err(ExportError::Lacks {
            format: "otf2",
            reason: "it has neither calls of MPI nor threads of a program".to_owned(),
        });
    };
    files::create_directory(job.output).map_err(ExportError::io(job.output))?;
    let archive = Archive::create(&library, job.output)?;
    let counts = events(job, &archive, &mut gathered)?;
    let definitions = definitions::write(job, &archive, &gathered, span, &counts)?;
    archive.close()?;
    (job.progress)(1.0);
    files_of(job.output, &gathered, &counts, definitions)
}

fn gather(job: &Job<'_>) -> Result<Gathered, ExportError> {
    let findings = job.run.findings()?;
    let names = Names::of(job.run, findings.as_ref())?;
    let survey = Survey::of(job, &names)?;
    let mut gathered = Gathered {
        comms: Comms::of(job, &survey)?,
        survey,
        regions: Regions::default(),
        records: Sorter::new(job.output),
        losses: Ledger::default(),
    };
    (job.progress)(0.1);
    program::gather(job, &names, &mut gathered)?;
    (job.progress)(0.3);
    taken::gather(job, &names, &mut gathered)?;
    (job.progress)(0.5);
    not_exported(job, &mut gathered);
    Ok(gathered)
}

/// Writes the events of all locations, and returns how many each has.
fn events(
    job: &Job<'_>,
    archive: &Archive<'_>,
    gathered: &mut Gathered,
) -> Result<Vec<u64>, ExportError> {
    let records = std::mem::replace(&mut gathered.records, Sorter::new(job.output));
    let (all, mut done) = (records.len().max(1), 0);
    // `None` if no file was written.
    let mut counts = vec![None; gathered.survey.locations.len()];
    let mut total = Ended::default();
    let mut lane: Option<(u32, Lane<'_>)> = None;
    let survey = &gathered.survey;
    let mut end = |lane: Option<(u32, Lane<'_>)>| -> Result<(), ExportError> {
        if let Some((object, lane)) = lane {
            let ended = lane.end()?;
            counts[object as usize] = Some(ended.events);
            total.outlived += ended.outlived;
            total.split += ended.split;
            total.open += ended.open;
            total.too_deep += ended.too_deep;
        }
        Ok(())
    };
    records.finish(|record| {
        if lane
            .as_ref()
            .is_none_or(|(object, _)| *object != record.object)
        {
            end(lane.take())?;
            let location = survey.locations[record.object as usize].number;
            lane = Some((record.object, Lane::on(archive.events(location)?)));
        }
        if let Some((_, lane)) = &mut lane {
            lane.take(&record)?;
        }
        done += 1;
        if done % LOOK == 0 {
            job.go_on()?;
            (job.progress)(0.5 + 0.5 * done as f64 / all as f64);
        }
        Ok(())
    })?;
    end(lane)?;
    // Readers expect a file for each location.
    for (location, count) in survey.locations.iter().zip(&counts) {
        if count.is_none() {
            archive.events(location.number)?.close()?;
        }
        archive.local_definitions(location.number)?;
    }
    archive.end_of_locations()?;
    not_nested(&mut gathered.losses, &total);
    Ok(counts.into_iter().map(Option::unwrap_or_default).collect())
}

/// Enters regions that are not nested as those of an archive must be.
fn not_nested(losses: &mut Ledger, total: &Ended) {
    for (what, count, consequence) in [
        (
            "marked regions that end within a call",
            total.outlived,
            "they end with the call",
        ),
        (
            "marked regions that last longer than one that they begin in",
            total.split,
            "each is two regions, before and after the end of that one",
        ),
        (
            "regions that were never left",
            total.open,
            "they end with the last event of their thread",
        ),
        (
            "regions that lie too deep in others",
            total.too_deep,
            "the archive lacks them",
        ),
    ] {
        losses.enter(what, count, consequence, "export to csv");
    }
}

/// Enters what OTF2 has no records for, or what this export leaves out.
fn not_exported(job: &Job<'_>, gathered: &mut Gathered) {
    let no_records = "an archive has no records for them";
    let lost: [(&str, &[&str], &str); 5] = [
        (
            "wake-ups and migrations",
            &[Wakeups::NAME, Migrations::NAME],
            no_records,
        ),
        (
            "entries into system calls and returns",
            &[Syscalls::NAME],
            no_records,
        ),
        (
            "detours and fixed work seen from user space",
            &[Detours::NAME, Quanta::NAME],
            no_records,
        ),
        (
            "readings of counters",
            &[TaskTimes::NAME, Counters::NAME],
            "they are sums over time, not events",
        ),
        (
            "late steps and waits that the analysis found",
            &[LateSteps::NAME, Waits::NAME],
            "readers of archives find waits themselves; they do not know the causes",
        ),
    ];
    for (what, tables, consequence) in lost {
        let all = job.run.manifest().tables.iter();
        let rows = all.filter(|t| tables.contains(&t.name.as_str()));
        let rows = rows.map(|t| t.rows).sum();
        let losses = &mut gathered.losses;
        losses.enter(what, rows, consequence, "export to csv");
    }
    gathered.losses.enter(
        "ranks that the run does not list",
        gathered.survey.gaps(),
        "those above them have lower numbers in the archive",
        "export to csv",
    );
}

/// The files of the archive, starting with the one to open.
fn files_of(
    output: &Path,
    gathered: &Gathered,
    counts: &[u64],
    definitions: u64,
) -> Result<Export, ExportError> {
    let mut export = Export {
        files: Vec::new(),
        losses: gathered.losses.clone(),
    };
    let mut add = |name: String, records| {
        let path = output.join(name);
        let bytes = fs::metadata(&path).map_err(ExportError::io(&path))?.len();
        export.files.push(Written {
            path,
            bytes,
            records,
        });
        Ok::<(), ExportError>(())
    };
    add("traces.otf2".to_owned(), None)?;
    add("traces.def".to_owned(), Some(definitions))?;
    for (location, count) in gathered.survey.locations.iter().zip(counts) {
        add(format!("traces/{}.evt", location.number), Some(*count))?;
    }
    Ok(export)
}
