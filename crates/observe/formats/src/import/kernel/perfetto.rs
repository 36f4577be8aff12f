//! Perfetto's traces: the kernel's events in them become the same tables as those of any other
//! recorder. What programs wrote into the trace has no place in a run yet; it is counted.

use crate::import::kernel::ImportError;
use crate::import::perfetto::{NOT_RECORDED, PerfettoError, Record, Summary, read as read_packets};
use idlewave_ftrace::event::Event;
use idlewave_ftrace::{DecodeSummary, Feed, FtraceError, SeenTask};
use idlewave_run::{Ledger, RunWriter};
use idlewave_sys::files;
use idlewave_units::NodeId;
use std::io::{BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Events between two looks at the stop flag.
const LOOK: u64 = 1 << 14;

/// Whether a file may start like this: a packet, field 1 of the trace, of some length.
pub(crate) fn is_trace(start: &[u8]) -> bool {
    const PACKET: u8 = 0x0a;
    start.first() == Some(&PACKET) && start.contains(&0)
}

/// Turns the kernel's events of the first machine into tables. `settle` may correct the kinds of the
/// threads.
pub(crate) fn read(
    path: &Path,
    out: &mut RunWriter,
    stop: &AtomicBool,
    progress: &dyn Fn(f64),
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<(DecodeSummary, Ledger), ImportError> {
    let file = files::open(path).map_err(ImportError::io(path))?;
    let bytes = file.metadata().map_or(0, |m| m.len());
    let mut input = Counted {
        inner: BufReader::with_capacity(1 << 20, file),
        read: 0,
    };
    let mut pass = Pass {
        feed: Feed::new(out, NodeId::new(0), &[])?,
        stop,
        stopped: false,
        elsewhere: 0,
        failed: None,
    };
    let summary = read_packets(&mut input, &mut |record| pass.take(record));
    progress(input.read as f64 / bytes.max(input.read).max(1) as f64);
    if let Some(error) = pass.failed {
        return Err(error.into());
    }
    let mut losses = Ledger::default();
    summary
        .map_err(|error| refused(path, error))?
        .enter_all(&mut losses, pass.elsewhere);
    Ok((pass.feed.finish(out, pass.stopped, settle)?, losses))
}

struct Pass<'a> {
    feed: Feed,
    stop: &'a AtomicBool,
    stopped: bool,
    /// Events of other machines than the first.
    elsewhere: u64,
    failed: Option<FtraceError>,
}

impl Pass<'_> {
    fn take(&mut self, record: Record<'_>) -> ControlFlow<()> {
        match record {
            Record::Event { machine, .. } | Record::Lost { machine, .. } if machine != 0 => {
                self.elsewhere += 1;
            }
            Record::Lost { cpu, .. } => self.feed.lose(cpu, None),
            // To and from what is not recorded: a hole, which the timeline finds by itself.
            Record::Event {
                event: Event::Switch { next, .. },
                ..
            } if next == NOT_RECORDED => {}
            Record::Event {
                cpu,
                time_ns,
                by,
                event,
                ..
            } => {
                if let Err(error) = self.feed.event(cpu, time_ns, by, event) {
                    self.failed = Some(error);
                    return ControlFlow::Break(());
                }
                // The flag carries no data, so no ordering is needed.
                if self.feed.events() % LOOK == 0 && self.stop.load(Ordering::Relaxed) {
                    self.stopped = true;
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

impl Summary {
    fn enter_all(&self, losses: &mut Ledger, elsewhere: u64) {
        self.enter(losses);
        losses.enter(
            "events of other machines in the Perfetto trace",
            elsewhere,
            "only the first machine is imported",
            "export or record each machine into a trace of its own",
        );
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

/// Counts the bytes read.
struct Counted<R> {
    inner: R,
    read: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read += count as u64;
        Ok(count)
    }
}
