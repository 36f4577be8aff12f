//! From a kernel trace to a run.

use crate::import::ask::Ask;
use crate::import::detect::Recorder;
use crate::import::error::ImportError;
use crate::import::imported::{Imported, Subject};
use crate::import::kernel::dat::{self, DatPages};
use crate::import::kernel::program::{Chosen, Program, Rule, busiest, choose};
use crate::import::kernel::sheet::{self, Machine};
use crate::import::kernel::{aix, ctf, kinds, perf, perfetto, raw, text};
use idlewave_ftrace::{DecodeSummary, SeenTask, decode_pages};
use idlewave_run::tables::TaskKind;
use idlewave_run::{HostSheet, Incomplete, Manifest, RunWriter};
use idlewave_units::{Nanos, NodeId};
use std::path::Path;

/// What one of the readers found.
struct Found {
    format: String,
    machine: Machine,
    summary: DecodeSummary,
    /// The program that dropped the records of lost events.
    hides_losses: Option<&'static str>,
}

impl Found {
    /// Completes the manifest and the ledger.
    fn complete(&mut self, manifest: &mut Manifest, inferred: u64, comparable: &str) {
        if let Some(program) = self.hides_losses {
            self.summary.losses.enter(
                format!("lost events, which {program} leaves out"),
                1,
                "whether and where events are missing is not known",
                "import the perf.data that the file was made from",
            );
        }
        manifest.losses.append(self.summary.losses.clone());
        manifest.losses.enter(
            "threads whose kind is inferred from their names and parents",
            inferred,
            "a kernel thread may count as a user program, or the reverse",
            "none needed unless one of them takes much time",
        );
        sheet::complete(manifest, &self.machine, &self.summary, comparable);
    }
}

/// Fills a run from a kernel trace and closes it.
pub(crate) fn read(
    ask: &Ask<'_>,
    recorder: &Recorder,
    mut run: RunWriter,
) -> Result<Imported, ImportError> {
    let out = &mut run;
    let mut settled = Settled::default();
    let settle = |seen: &mut [SeenTask]| settled.settle(seen, recorder, ask.program);
    let mut found = match recorder {
        Recorder::Dat => of_dat(ask, out, settle)?,
        Recorder::Raw(raw) => Found {
            format: "raw sub-buffers".to_owned(),
            machine: raw::machine(raw)?,
            summary: raw::read(raw, ask, out, settle)?,
            hides_losses: None,
        },
        Recorder::PerfData => of_perf_data(ask, out, settle)?,
        Recorder::Ctf(trace) => of_ctf(trace, ask, out, settle)?,
        Recorder::Text => of_text(ask, out, settle)?,
        Recorder::Aix => of_aix(ask, out, settle)?,
        Recorder::Perfetto => of_perfetto(ask, out, settle)?,
    };
    if found.summary.stopped {
        return Err(ImportError::Interrupted);
    }
    if found.summary.bursts == 0 {
        return Err(ImportError::Lacks {
            path: ask.input.to_owned(),
            what: "it holds no task switches".to_owned(),
            next: "record the event sched:sched_switch too".to_owned(),
        });
    }
    let program = settled.chosen.ok_or_else(|| ImportError::NoProgram {
        asked: ask.program.to_string(),
        busiest: settled.busiest,
    })?;
    found.complete(&mut out.manifest, settled.inferred, comparable(recorder));
    // So that the manifest names the program and the command reproduces the run.
    if !matches!(program.rule, Rule::Asked) {
        let name = program.name.clone();
        out.manifest.command.extend(["--program".to_owned(), name]);
    }
    out.close(None::<Incomplete>)?;
    let summary = found.summary;
    let (begin, end) = summary.span.unwrap_or((0, 0));
    Ok(Imported {
        format: found.format,
        events: summary.events,
        missed: found.hides_losses.is_none().then_some(summary.missed),
        cpus: summary.cpus,
        span: Nanos::from_nanos(end.saturating_sub(begin)),
        program: Subject::Chosen {
            chosen: program,
            inferred: settled.inferred,
        },
        losses: summary.losses,
        joined: None,
    })
}

fn of_dat(
    ask: &Ask<'_>,
    out: &mut RunWriter,
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<Found, ImportError> {
    let head = dat::read_head(ask.input)?;
    let node = NodeId::new(0);
    let mut pages = DatPages::new(ask.input, &head);
    let mut summary = decode_pages(
        &head.sheet,
        &mut pages,
        node,
        out,
        ask.stop,
        ask.progress,
        settle,
    )?;
    summary.losses.append(head.losses.clone());
    summary.losses.enter(
        "CPUs whose compressed data is cut short",
        pages.cut(),
        "the last events of these CPUs are missing",
        "copy the file again from where it was recorded",
    );
    Ok(Found {
        format: format!("trace.dat, version {}", head.version),
        machine: Machine {
            host: head
                .uname
                .as_deref()
                .map(Machine::of_uname)
                .unwrap_or_default(),
            clock: head.clock.clone(),
            resolution_ns: 1,
            span: None,
        },
        summary,
        hides_losses: None,
    })
}

fn of_perf_data(
    ask: &Ask<'_>,
    out: &mut RunWriter,
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<Found, ImportError> {
    let read = perf::read(ask, out, settle)?;
    let mut summary = read.summary;
    summary.losses.append(read.losses);
    let through = if read.pipe { ", through a pipe" } else { "" };
    let by = read.version.map(|version| format!(" of perf {version}"));
    Ok(Found {
        format: format!("perf.data{}{through}", by.unwrap_or_default()),
        machine: read.machine,
        summary,
        hides_losses: None,
    })
}

fn of_ctf(
    trace: &Path,
    ask: &Ask<'_>,
    out: &mut RunWriter,
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<Found, ImportError> {
    let read = ctf::read(trace, ask, out, settle)?;
    let mut summary = read.summary;
    summary.losses.append(read.losses);
    if let Some(started) = read.started {
        out.manifest.started = started;
    }
    let by = read.tracer.map(|tracer| format!(" of {tracer}"));
    Ok(Found {
        format: format!("CTF trace{}", by.unwrap_or_default()),
        machine: read.machine,
        summary,
        hides_losses: read.hides_losses,
    })
}

fn of_text(
    ask: &Ask<'_>,
    out: &mut RunWriter,
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<Found, ImportError> {
    let read = text::read(ask, out, settle)?;
    let mut summary = read.summary;
    summary.losses.append(read.losses);
    let facts = read.facts;
    Ok(Found {
        format: read.tool.to_owned(),
        machine: Machine {
            host: HostSheet {
                name: facts.host.unwrap_or_default(),
                kernel: facts.kernel.unwrap_or_default(),
                architecture: facts.architecture.unwrap_or_default(),
                cpu_model: facts.cpu_model,
                ..HostSheet::default()
            },
            clock: String::new(),
            resolution_ns: 10_u64.pow(9 - read.digits.min(9)),
            span: None,
        },
        summary,
        hides_losses: read.hides_losses,
    })
}

fn of_aix(
    ask: &Ask<'_>,
    out: &mut RunWriter,
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<Found, ImportError> {
    let read = aix::read(ask, out, settle)?;
    let mut summary = read.summary;
    summary.losses.append(read.losses);
    Ok(Found {
        format: "report of AIX's trcrpt".to_owned(),
        machine: Machine {
            host: HostSheet {
                name: read.host.unwrap_or_default(),
                kernel: read.system.unwrap_or("AIX".to_owned()),
                ..HostSheet::default()
            },
            clock: String::new(),
            resolution_ns: 10_u64.pow(9 - read.digits.min(9)),
            span: None,
        },
        summary,
        hides_losses: None,
    })
}

fn of_perfetto(
    ask: &Ask<'_>,
    out: &mut RunWriter,
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<Found, ImportError> {
    let read = perfetto::read(ask, out, settle)?;
    let mut summary = read.summary;
    summary.losses.append(read.losses);
    Ok(Found {
        format: "Perfetto trace".to_owned(),
        machine: Machine {
            host: read.host,
            clock: String::new(),
            resolution_ns: 1,
            span: None,
        },
        summary,
        hides_losses: None,
    })
}

/// How to record with a clock that programs can read.
fn comparable(recorder: &Recorder) -> &'static str {
    match recorder {
        Recorder::Dat | Recorder::Raw(_) => "record with trace-cmd record -C mono",
        Recorder::PerfData => "record with perf record -k CLOCK_MONOTONIC",
        Recorder::Ctf(_) => {
            "record with LTTng's own clock; perf data convert leaves the clock out: import the perf.data \
             itself, of perf record -k CLOCK_MONOTONIC"
        }
        Recorder::Text => {
            "import a file that names its clock: a trace.dat of trace-cmd record -C mono, or a perf.data of \
             perf record -k CLOCK_MONOTONIC"
        }
        Recorder::Perfetto => {
            "record with trace-cmd record -C mono or perf record -k CLOCK_MONOTONIC"
        }
        Recorder::Aix => "none: the report counts from the start of its trace",
    }
}

/// What became of the threads.
#[derive(Default)]
struct Settled {
    chosen: Option<Chosen>,
    busiest: Vec<String>,
    inferred: u64,
}

impl Settled {
    fn settle(&mut self, seen: &mut [SeenTask], recorder: &Recorder, program: &Program) {
        self.inferred = match recorder {
            Recorder::Raw(_) => 0,
            Recorder::Dat | Recorder::PerfData | Recorder::Text => kinds::infer(seen),
            Recorder::Ctf(_) | Recorder::Perfetto => kinds::infer_rest(seen),
            Recorder::Aix => kinds::infer_by_name(seen, aix::is_kernel_name),
        };
        self.chosen = choose(seen, program);
        if self.chosen.is_none() {
            self.busiest = busiest(seen);
        }
        // A run without MPI calls has no ranks.
        for task in seen.iter_mut().filter(|t| t.kind == TaskKind::Rank) {
            task.kind = TaskKind::Program;
        }
    }
}
