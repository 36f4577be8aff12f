//! Perfetto's traces. The kernel's events in them become the same tables as those of any other
//! recorder, with what the lists of threads say. What programs wrote into the trace has no place in
//! a run yet; it is counted.

use crate::import::ask::Ask;
use crate::import::error::ImportError;
use crate::import::kernel::people::People;
use crate::import::perfetto::{PerfettoError, Record, System, read as read_packets};
use idlewave_ftrace::{DecodeSummary, Feed, FtraceError, SeenTask};
use idlewave_run::{HostSheet, Ledger, RunWriter};
use idlewave_sys::files;
use idlewave_units::NodeId;
use std::cell::Cell;
use std::io::{self, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Records between two checks of the stop flag.
const LOOK: u64 = 1 << 14;

/// Whether a file may start like this: a packet, field 1 of the trace, of some length.
pub(crate) fn is_trace(start: &[u8]) -> bool {
    const PACKET: u8 = 0x0a;
    start.first() == Some(&PACKET) && start.contains(&0)
}

/// What was read.
pub(crate) struct Read {
    pub(crate) summary: DecodeSummary,
    pub(crate) losses: Ledger,
    pub(crate) host: HostSheet,
}

/// Turns the kernel's events of the first machine into tables. `settle` may correct the kinds of the
/// threads.
pub(crate) fn read(
    ask: &Ask<'_>,
    out: &mut RunWriter,
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<Read, ImportError> {
    let path = ask.input;
    let file = files::open(path).map_err(ImportError::io(path))?;
    let size = file.metadata().map_err(ImportError::io(path))?.len();
    let done = Cell::new(0);
    let mut input = Counted {
        input: BufReader::with_capacity(1 << 20, file),
        done: &done,
    };
    let mut first = Machine {
        feed: Feed::new(out, NodeId::new(0), &[])?,
        people: People::default(),
        host: HostSheet::default(),
    };
    let (mut records, mut elsewhere, mut stopped) = (0_u64, 0, false);
    let mut failed = Ok(());
    let summary = read_packets(&mut input, &mut |record| {
        records += 1;
        if records % LOOK == 0 {
            (ask.progress)(done.get() as f64 / size.max(1) as f64);
            // The flag carries no data, so no ordering is needed.
            stopped = ask.stop.load(Ordering::Relaxed);
        }
        match first.take(record) {
            Ok(taken) => elsewhere += u64::from(!taken),
            Err(error) => failed = Err(error),
        }
        match stopped || failed.is_err() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    failed?;
    let mut losses = Ledger::default();
    summary
        .map_err(|error| refused(path, error))?
        .enter(&mut losses);
    losses.enter(
        "events of other machines in the Perfetto trace",
        elsewhere,
        "only those of the first machine are imported",
        "export or record each machine into a trace of its own",
    );
    let Machine { feed, people, host } = first;
    let summary = feed.finish(out, stopped, |seen| {
        people.complete(seen);
        settle(seen);
    })?;
    Ok(Read {
        summary,
        losses,
        host,
    })
}

/// The first machine of a trace.
struct Machine {
    feed: Feed,
    people: People,
    host: HostSheet,
}

impl Machine {
    /// Takes a record; false if it is an event of another machine.
    fn take(&mut self, record: Record<'_>) -> Result<bool, FtraceError> {
        let Self { feed, people, host } = self;
        match record {
            Record::Event {
                machine: 0,
                cpu,
                time_ns,
                by,
                event,
            } => feed.event(cpu, time_ns, by, event)?,
            Record::Leaves {
                machine: 0,
                cpu,
                time_ns,
                prev,
                prev_state,
            } => feed.leaves(cpu, time_ns, prev, prev_state)?,
            Record::Gets {
                machine: 0,
                cpu,
                time_ns,
                next,
                next_comm,
            } => feed.gets(cpu, time_ns, next, next_comm)?,
            Record::Lost { machine: 0, cpu } => feed.lose(cpu, None),
            Record::System { machine: 0, system } => *host = sheet(system),
            Record::Process {
                machine: 0,
                pid,
                parent,
                name,
                kernel,
            } => {
                people.named(pid, name);
                people.member(pid, pid);
                if let Some(parent) = parent {
                    people.born(pid, parent);
                }
                if let Some(kernel) = kernel {
                    people.told(pid, kernel);
                }
            }
            Record::Thread {
                machine: 0,
                pid,
                process,
                name,
            } => {
                people.named(pid, name);
                if let Some(process) = process {
                    people.member(pid, process);
                }
            }
            Record::System { .. } | Record::Process { .. } | Record::Thread { .. } => {}
            Record::Event { .. }
            | Record::Leaves { .. }
            | Record::Gets { .. }
            | Record::Lost { .. } => return Ok(false),
        }
        Ok(true)
    }
}

fn sheet(system: System<'_>) -> HostSheet {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    HostSheet {
        name: text(system.name),
        kernel: text(system.release),
        kernel_build: text(system.build),
        architecture: text(system.architecture),
        ..HostSheet::default()
    }
}

fn refused(path: &Path, error: PerfettoError) -> ImportError {
    match error {
        PerfettoError::Io(source) => ImportError::io(path)(source),
        error => ImportError::Format {
            path: path.to_owned(),
            reason: error.to_string(),
            next: "copy the file again from where it was recorded".to_owned(),
        },
    }
}

/// Counts the bytes that are read.
struct Counted<'a, R> {
    input: R,
    done: &'a Cell<u64>,
}

impl<R: io::Read> io::Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.done.set(self.done.get() + count as u64);
        Ok(count)
    }
}
