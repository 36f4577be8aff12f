//! From a raw capture to the tables of a run.

use crate::event::Decoder;
use crate::format::{EventFormat, HeaderPage};
use crate::ledger::{Account, enter_losses};
use crate::markers::{MARKER_EVENT, MarkerLine, Markers};
use crate::names::TaskBook;
use crate::stream::PageDecoder;
use crate::timeline::{Sink, Timeline};
use crate::{EVENTS, FtraceError, RawCapture};
use crate::{capture_path, format_path, header_page_path, pages_path};
use idlewave_run::tables::{Bursts, Interrupts, Migrations, Wakeups};
use idlewave_run::{Ledger, RunError, RunWriter, Table, TableWriter};
use idlewave_sys::files;
use idlewave_units::{Cpu, NodeId};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes read at once, rounded to whole sub-buffers.
const CHUNK: usize = 1 << 20;
/// Rows of a table collected before they are written.
const ROWS: usize = 1 << 14;

/// What came out of a capture. The losses are the caller's to enter into the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "the losses belong into the manifest's ledger"]
pub struct DecodeSummary {
    /// CPUs decoded.
    pub cpus: u32,
    /// Sub-buffers read.
    pub pages: u64,
    /// Events read, those of unknown kind included.
    pub events: u64,
    /// Events lost, by the ring buffer's own count.
    pub missed: u64,
    /// Rows of table `tasks`.
    pub tasks: u64,
    /// Rows of table `sources`.
    pub sources: u64,
    /// Rows of table `bursts`.
    pub bursts: u64,
    /// Rows of table `interrupts`.
    pub interrupts: u64,
    /// Rows of table `wakeups`.
    pub wakeups: u64,
    /// Rows of table `migrations`.
    pub migrations: u64,
    /// Lines written to `trace_marker`, in time order; `None` if the recorder could not get them,
    /// on a kernel older than Linux 6.15.
    pub lines: Option<Vec<MarkerLine>>,
    /// Whether `stop` ended it early: the tables are whole, but cover the start of the trace only.
    pub stopped: bool,
    /// What is missing or uncertain. It is *not* in the writer's manifest yet.
    pub losses: Ledger,
}

/// Writes the tables `tasks`, `sources`, `bursts`, `interrupts`, `wakeups` and `migrations` of a
/// capture into a run; the manifest names them but is not saved.
///
/// Rows are ordered by CPU and then by time, so one pass over the CPUs needs the memory of a few
/// thousand rows however long the trace is. The same capture gives the same bytes. Damaged
/// sub-buffers, holes and unmatched events do not end the work; they are counted in
/// [`DecodeSummary::losses`].
///
/// `progress` is called with the share of bytes done, 0 to 1, at least once per CPU. When `stop`
/// becomes true, the tables are finished in order with what was read so far.
///
/// # Errors
/// [`FtraceError::Capture`] if the capture cannot be decoded by its own description (another clock
/// than `mono`), [`FtraceError::Format`] if a format file is not one, [`FtraceError::Io`], and
/// [`FtraceError::Run`] if a table cannot be written.
pub fn decode_capture(
    raw_dir: &Path,
    node: NodeId,
    out: &mut RunWriter,
    stop: &AtomicBool,
    progress: &dyn Fn(f64),
) -> Result<DecodeSummary, FtraceError> {
    let capture = RawCapture::load(raw_dir)?;
    let header = read_header(raw_dir)?;
    check(&capture, &header, raw_dir)?;
    let (formats, absent) = read_formats(raw_dir)?;
    let (decoder, unusable) = Decoder::new(&formats);
    let marker_format = read_format(raw_dir, MARKER_EVENT)?;
    let mut pass = Pass {
        capture: &capture,
        pages: PageDecoder {
            page_size: capture.page_size as usize,
            header,
            decoder,
        },
        node,
        sink: Sink {
            tasks: TaskBook::new(&capture.tasks),
            markers: Markers::new(marker_format.as_ref()),
            ..Sink::default()
        },
        tables: Tables::new(out)?,
        summary: DecodeSummary::default(),
        total: total_bytes(raw_dir, &capture.cpus),
        done: 0,
        stop,
        progress,
    };
    let mut accounts = Vec::new();
    for &cpu in &capture.cpus {
        if pass.stopped() {
            break;
        }
        let account = match capture.little_endian {
            true => pass.cpu::<true>(raw_dir, cpu)?,
            false => pass.cpu::<false>(raw_dir, cpu)?,
        };
        accounts.push(account);
    }
    let Pass {
        mut sink,
        mut tables,
        mut summary,
        ..
    } = pass;
    tables.write(sink.rows, &mut summary)?;
    tables.finish(out)?;
    let tasks = sink.tasks.table(node);
    summary.tasks = tasks.len() as u64;
    summary.sources = sink.sources.table().len() as u64;
    out.write_table(&tasks)?;
    out.write_table(sink.sources.table())?;
    summary.missed = accounts.iter().map(Account::missed).sum();
    let stopped = summary.stopped;
    let losses = &mut summary.losses;
    enter_losses(losses, &capture, &accounts, &absent, &unusable, stopped);
    sink.markers.lines.sort_by_key(|line| line.time_ns);
    summary.lines = marker_format.map(|_| sink.markers.lines);
    summary.losses.enter(
        "lines written to trace_marker",
        sink.markers.dropped,
        "they are not markers of this run",
        "write fewer lines, or mark regions as docs/regions.md tells",
    );
    Ok(summary)
}

/// Longest description of an event in bytes; a longer one is damage: the kernel's have less than 64
/// KiB.
const LONGEST_FORMAT: u64 = 16 << 20;

fn read_header(raw_dir: &Path) -> Result<HeaderPage, FtraceError> {
    let path = header_page_path(raw_dir);
    let text = files::read(&path, LONGEST_FORMAT).map_err(FtraceError::io("read", &path))?;
    HeaderPage::parse(&path, &String::from_utf8_lossy(&text))
}

fn check(capture: &RawCapture, header: &HeaderPage, raw_dir: &Path) -> Result<(), FtraceError> {
    let refuse = |reason: String| {
        Err(FtraceError::Capture {
            path: capture_path(raw_dir),
            reason,
        })
    };
    if capture.clock != "mono" {
        return refuse(format!(
            "the trace clock is `{}`, only `mono` compares with the times of the run",
            capture.clock
        ));
    }
    if capture.page_size <= header.data || capture.page_size > 1 << 27 {
        let size = capture.page_size;
        return refuse(format!("no sub-buffer has a size of {size} bytes"));
    }
    if !capture.cpus.is_sorted_by(|a, b| a < b) {
        return refuse("the CPUs are not in ascending order".to_owned());
    }
    Ok(())
}

/// The formats that the capture has, and the names of those it lacks.
fn read_formats(raw_dir: &Path) -> Result<(Vec<EventFormat>, Vec<&'static str>), FtraceError> {
    let mut formats = Vec::new();
    let mut absent = Vec::new();
    for &(system, event) in EVENTS {
        match read_format(raw_dir, (system, event))? {
            Some(format) => formats.push(format),
            None => absent.push(event),
        }
    }
    Ok((formats, absent))
}

/// The format of one event; `None` if the capture lacks it.
fn read_format(
    raw_dir: &Path,
    (system, event): (&str, &str),
) -> Result<Option<EventFormat>, FtraceError> {
    let path = format_path(raw_dir, system, event);
    match files::read(&path, LONGEST_FORMAT) {
        Ok(text) => {
            let text = String::from_utf8_lossy(&text);
            Ok(Some(EventFormat::parse_named(&path, &text, event)?))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(FtraceError::io("read", &path)(e)),
    }
}

fn total_bytes(raw_dir: &Path, cpus: &[Cpu]) -> u64 {
    let size = |cpu: &Cpu| fs::metadata(pages_path(raw_dir, *cpu)).map_or(0, |m| m.len());
    cpus.iter().map(size).sum()
}

/// The tables that grow with the trace.
struct Tables {
    bursts: TableWriter<Bursts>,
    interrupts: TableWriter<Interrupts>,
    wakeups: TableWriter<Wakeups>,
    migrations: TableWriter<Migrations>,
}

impl Tables {
    fn new(out: &RunWriter) -> Result<Self, RunError> {
        Ok(Self {
            bursts: out.table()?,
            interrupts: out.table()?,
            wakeups: out.table()?,
            migrations: out.table()?,
        })
    }

    /// Writes all pending rows.
    fn write(
        &mut self,
        mut rows: crate::timeline::Rows,
        summary: &mut DecodeSummary,
    ) -> Result<(), RunError> {
        drain(&mut self.bursts, &mut rows.bursts, &mut summary.bursts)?;
        drain(
            &mut self.interrupts,
            &mut rows.interrupts,
            &mut summary.interrupts,
        )?;
        drain(&mut self.wakeups, &mut rows.wakeups, &mut summary.wakeups)?;
        drain(
            &mut self.migrations,
            &mut rows.migrations,
            &mut summary.migrations,
        )
    }

    /// Writes the rows of those tables that have collected a batch.
    fn write_full(&mut self, sink: &mut Sink, summary: &mut DecodeSummary) -> Result<(), RunError> {
        let rows = &mut sink.rows;
        if rows.bursts.len() >= ROWS {
            drain(&mut self.bursts, &mut rows.bursts, &mut summary.bursts)?;
        }
        if rows.interrupts.len() >= ROWS {
            drain(
                &mut self.interrupts,
                &mut rows.interrupts,
                &mut summary.interrupts,
            )?;
        }
        if rows.wakeups.len() >= ROWS {
            drain(&mut self.wakeups, &mut rows.wakeups, &mut summary.wakeups)?;
        }
        if rows.migrations.len() >= ROWS {
            drain(
                &mut self.migrations,
                &mut rows.migrations,
                &mut summary.migrations,
            )?;
        }
        Ok(())
    }

    fn finish(self, out: &mut RunWriter) -> Result<(), RunError> {
        out.finish_table(self.bursts)?;
        out.finish_table(self.interrupts)?;
        out.finish_table(self.wakeups)?;
        out.finish_table(self.migrations)
    }
}

fn drain<T: Table>(
    writer: &mut TableWriter<T>,
    rows: &mut T,
    count: &mut u64,
) -> Result<(), RunError> {
    if !rows.is_empty() {
        writer.extend(rows)?;
        *count += rows.len() as u64;
        rows.clear();
    }
    Ok(())
}

/// One pass over the CPUs.
struct Pass<'a> {
    capture: &'a RawCapture,
    pages: PageDecoder,
    node: NodeId,
    sink: Sink,
    tables: Tables,
    summary: DecodeSummary,
    total: u64,
    done: u64,
    stop: &'a AtomicBool,
    progress: &'a dyn Fn(f64),
}

impl Pass<'_> {
    fn stopped(&mut self) -> bool {
        // The flag carries no data, so no ordering is needed.
        self.summary.stopped |= self.stop.load(Ordering::Relaxed);
        self.summary.stopped
    }

    fn cpu<const LE: bool>(&mut self, raw_dir: &Path, cpu: Cpu) -> Result<Account, FtraceError> {
        let path = pages_path(raw_dir, cpu);
        let mut account = Account::new(cpu, self.capture.stats_of(cpu));
        let mut file = match files::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                account.absent = true;
                return Ok(account);
            }
            Err(e) => return Err(FtraceError::io("read", &path)(e)),
        };
        let size = self.capture.page_size as usize;
        let mut buffer = vec![0; size * (CHUNK / size).max(1)];
        let mut timeline = Timeline::new(self.node, cpu, self.capture.on_ns);
        while !self.stopped() {
            let filled = fill(&mut file, &mut buffer).map_err(FtraceError::io("read", &path))?;
            if filled == 0 {
                break;
            }
            for bytes in buffer[..filled].chunks(size) {
                let events =
                    self.pages
                        .page::<LE>(bytes, &mut timeline, &mut account, &mut self.sink);
                self.summary.pages += 1;
                self.summary.events += events;
            }
            self.tables.write_full(&mut self.sink, &mut self.summary)?;
            self.done += filled as u64;
            (self.progress)(self.done as f64 / self.total.max(self.done) as f64);
        }
        // If the last sub-buffers are missing, what ran until the end is unknown.
        let whole = !self.summary.stopped && !account.cut && !account.tail_lost();
        timeline.end(self.capture.off_ns.filter(|_| whole), &mut self.sink);
        account.misfits = timeline.misfits;
        self.summary.cpus += 1;
        Ok(account)
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

#[cfg(test)]
#[path = "decode_tests/mod.rs"]
mod tests;
