//! Turns the sub-buffers of the CPUs into the tables of a run, wherever they are stored.

use crate::event::Decoder;
use crate::feed::{Feed, Lane};
use crate::format::{EventFormat, HeaderPage};
use crate::ledger::{Account, Overall};
use crate::markers::{MARKER_EVENT, Markers};
use crate::scale::Scale;
use crate::stream::PageDecoder;
use crate::timeline::Timeline;
use crate::{CpuStats, DecodeSummary, FtraceError, RawTask, SeenTask, understood};
use idlewave_run::RunWriter;
use idlewave_units::{Cpu, NodeId};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes read at once, rounded to whole sub-buffers.
const CHUNK: usize = 1 << 20;

/// The largest sub-buffer: its count of used bytes has 27 bits.
pub const MOST_PAGE_BYTES: u32 = 1 << 27;

/// What must be known about sub-buffers to decode them.
#[derive(Clone, Debug)]
pub struct PageSheet {
    /// Size of a sub-buffer in bytes, its header included: at most [`MOST_PAGE_BYTES`].
    pub page_size: u32,
    /// Layout of its header.
    pub header: HeaderPage,
    /// Byte order of the recorded machine.
    pub little_endian: bool,
    /// The formats of its events; those that the timeline has no use for may be missing.
    pub formats: Vec<EventFormat>,
    /// Turns time stamps into nanoseconds; `None` if they are nanoseconds already.
    pub scale: Option<Scale>,
    /// The CPUs, ascending.
    pub cpus: Vec<Cpu>,
    /// When the recording began, nanoseconds of the trace clock; `None` if that is not known.
    pub on_ns: Option<u64>,
    /// When it ended, likewise.
    pub off_ns: Option<u64>,
    /// What the ring buffer lost, per CPU; may be empty.
    pub stats: Vec<CpuStats>,
    /// Threads known from elsewhere.
    pub tasks: Vec<RawTask>,
    /// Bytes of all sub-buffers, to report progress.
    pub bytes: u64,
    /// Whether a tool other than idlewave recorded them. This only affects messages.
    pub foreign: bool,
}

/// Where the sub-buffers of the CPUs are.
pub trait PageSource {
    /// The sub-buffers of a CPU, one after the other; `None` if there are none.
    ///
    /// # Errors
    /// They cannot be read.
    fn open(&mut self, cpu: Cpu) -> io::Result<Option<Box<dyn Read + '_>>>;
    /// The file that holds them, for messages.
    fn path(&self, cpu: Cpu) -> PathBuf;
}

/// Writes the tables `tasks`, `sources`, `bursts`, `interrupts`, `wakeups`, `migrations` and, if
/// there are any, `syscalls` into a run; the manifest names them but is not saved.
///
/// Rows are ordered by CPU and then by time, so one pass over the CPUs needs the memory of a few
/// thousand rows however long the trace is. The same sub-buffers give the same bytes. Damaged
/// sub-buffers, holes and unmatched events do not stop the decoding; they are counted in
/// [`DecodeSummary::losses`].
///
/// `progress` is called with the share of bytes done, 0 to 1, at least once per CPU. When `stop`
/// becomes true, the tables are finished properly with what was read so far. `settle` may correct
/// the kinds and processes of the threads, which are sorted by number.
///
/// # Errors
/// [`FtraceError::Io`] if sub-buffers cannot be read, and [`FtraceError::Run`] if a table cannot be
/// written.
pub fn decode_pages(
    sheet: &PageSheet,
    source: &mut dyn PageSource,
    node: NodeId,
    out: &mut RunWriter,
    stop: &AtomicBool,
    progress: &dyn Fn(f64),
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<DecodeSummary, FtraceError> {
    let used = |f: &&EventFormat| understood().any(|(_, event)| event == f.name);
    let formats: Vec<EventFormat> = sheet.formats.iter().filter(used).cloned().collect();
    let marker = sheet.formats.iter().find(|f| f.name == MARKER_EVENT.1);
    let (decoder, unusable) = Decoder::new(&formats);
    let mut feed = Feed::new(out, node, &sheet.tasks)?;
    feed.sink.markers = Markers::new(marker);
    let mut pass = Pass {
        sheet,
        pages: PageDecoder {
            page_size: sheet.page_size as usize,
            header: sheet.header,
            decoder,
            scale: sheet.scale,
        },
        feed,
        done: 0,
        stop,
        progress,
    };
    for &cpu in &sheet.cpus {
        if pass.stopped() {
            break;
        }
        match sheet.little_endian {
            true => pass.cpu::<true>(source, cpu)?,
            false => pass.cpu::<false>(source, cpu)?,
        }
    }
    let mut feed = pass.feed;
    let markers = std::mem::take(&mut feed.sink.markers);
    let overall = Overall {
        cpus: sheet.cpus.len(),
        end_known: sheet.off_ns.is_some(),
        foreign: sheet.foreign,
        switches: formats.iter().any(|f| f.name == "sched_switch"),
        unusable: &unusable,
    };
    let mut summary = feed.close(out, &overall, settle)?;
    let mut lines = markers.lines;
    lines.sort_by_key(|line| line.time_ns);
    summary.lines = marker.map(|_| lines);
    summary.losses.enter(
        "lines written to trace_marker",
        markers.dropped,
        "they are not markers of this run",
        "write fewer lines, or mark regions as docs/regions.md tells",
    );
    Ok(summary)
}

/// One pass over the CPUs.
struct Pass<'a> {
    sheet: &'a PageSheet,
    pages: PageDecoder,
    feed: Feed,
    done: u64,
    stop: &'a AtomicBool,
    progress: &'a dyn Fn(f64),
}

impl Pass<'_> {
    fn stopped(&mut self) -> bool {
        // The flag carries no data, so no ordering is needed.
        self.feed.summary.stopped |= self.stop.load(Ordering::Relaxed);
        self.feed.summary.stopped
    }

    fn cpu<const LE: bool>(
        &mut self,
        source: &mut dyn PageSource,
        cpu: Cpu,
    ) -> Result<(), FtraceError> {
        let path = source.path(cpu);
        let stats = self.sheet.stats.iter().find(|s| s.cpu == cpu);
        let mut account = Account::new(cpu, stats);
        let Some(mut input) = source.open(cpu).map_err(FtraceError::io("read", &path))? else {
            account.absent = true;
            self.feed.accounts.push(account);
            return Ok(());
        };
        let size = self.sheet.page_size as usize;
        let mut buffer = vec![0; size * (CHUNK / size).max(1)];
        let mut timeline = Timeline::new(self.feed.node, cpu, self.sheet.on_ns);
        while !self.stopped() {
            let filled = fill(&mut *input, &mut buffer).map_err(FtraceError::io("read", &path))?;
            if filled == 0 {
                break;
            }
            let Feed {
                sink,
                tables,
                summary,
                ..
            } = &mut self.feed;
            for bytes in buffer[..filled].chunks(size) {
                let events = self
                    .pages
                    .page::<LE>(bytes, &mut timeline, &mut account, sink);
                summary.pages += 1;
                summary.events += events;
            }
            tables.write_full(sink, summary)?;
            self.done += filled as u64;
            (self.progress)(self.done as f64 / self.sheet.bytes.max(self.done) as f64);
        }
        // If the last sub-buffers are missing, what ran until the end is unknown.
        let whole = !self.feed.summary.stopped && !account.cut && !account.tail_lost();
        let end = self.sheet.off_ns.filter(|_| whole);
        self.feed.end_lane(Lane { timeline, account }, end);
        Ok(())
    }
}

/// Reads until the buffer is full or the input ends.
fn fill(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
