//! From a perf.data to tables.

use super::facts::clock_name;
use super::head::{self, Head, LONGEST_TRACING, Tracing};
use super::packed::Unpacker;
use super::pass::{
    AUXTRACE, COMPRESSED, COMPRESSED2, Counts, FINISHED_ROUND, Pass, Sink, TRACING_DATA,
};
use super::stream::{HEAD, Record, Stream};
use crate::import::ask::Ask;
use crate::import::error::ImportError;
use crate::import::kernel::sheet::Machine;
use idlewave_ftrace::page::{read_u32, read_u64};
use idlewave_ftrace::{DecodeSummary, Feed, SeenTask};
use idlewave_run::{Ledger, RunWriter};
use idlewave_sys::files;
use idlewave_units::NodeId;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Records between two checks of the stop flag.
const LOOK: u64 = 1 << 14;

/// Whether a file may start like this.
pub(crate) fn is_perf_data(start: &[u8]) -> bool {
    head::MAGIC.iter().any(|magic| start.starts_with(magic))
}

/// A perf.data that has been read.
pub(crate) struct Read {
    pub(crate) summary: DecodeSummary,
    pub(crate) machine: Machine,
    /// Version of perf, if the file gives it.
    pub(crate) version: Option<String>,
    pub(crate) pipe: bool,
    /// What the file lacks.
    pub(crate) losses: Ledger,
}

/// Turns a perf.data into tables. `settle` may correct the kinds of the threads.
pub(crate) fn read(
    ask: &Ask<'_>,
    out: &mut RunWriter,
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<Read, ImportError> {
    let path = ask.input;
    let open = || files::open(path).map_err(ImportError::io(path));
    let head = Head::read(open()?, path)?;
    let (little, pipe) = (head.little, head.pipe);
    let feed = Feed::new(out, NodeId::new(0), &[])?;
    let mut reader = Reader {
        path,
        stream: Stream::new(open()?, path, head.data.0, head.data.1)?,
        pass: Pass::new(head.attributes, head.facts, Sink::new(feed)),
        described: false,
        packed: None,
    };
    if let Some(tracing) = head.tracing {
        reader.describe(&tracing);
    } else if !pipe {
        return Err(reader.undescribed());
    }
    let stopped = match little {
        true => reader.run::<true>(ask)?,
        false => reader.run::<false>(ask)?,
    };
    reader.finish(pipe, out, stopped, settle)
}

/// What compressed records hold.
#[derive(Default)]
struct Packed {
    unpacker: Unpacker,
    /// Unpacked bytes that are no whole record yet.
    bytes: Vec<u8>,
    /// Bytes of the records taken so far.
    taken: u64,
    /// Where rounds ended, in unpacked bytes.
    rounds: VecDeque<u64>,
    /// Bytes left of a last piece that was cut short.
    cut: usize,
}

struct Reader<'p> {
    path: &'p Path,
    stream: Stream<'p>,
    pass: Pass,
    described: bool,
    packed: Option<Packed>,
}

impl Reader<'_> {
    /// Takes all records; returns whether the user stopped the import.
    fn run<const LE: bool>(&mut self, ask: &Ask<'_>) -> Result<bool, ImportError> {
        let mut records = 0_u64;
        while let Some(record) = self.stream.next::<LE>()? {
            match record.kind {
                FINISHED_ROUND => match &mut self.packed {
                    None => self.pass.round::<LE>()?,
                    Some(packed) => packed.rounds.push_back(packed.unpacker.unpacked()),
                },
                TRACING_DATA => {
                    let size = read_u32::<LE>(record.body, 0).unwrap_or(0);
                    self.tracing(size)?;
                }
                AUXTRACE => {
                    let size = read_u64::<LE>(record.body, 0).unwrap_or(0);
                    self.stream.skip(size)?;
                }
                COMPRESSED | COMPRESSED2 => {
                    let piece = piece::<LE>(record);
                    let packed = self.packed.get_or_insert_default();
                    packed.unpacker.feed(piece);
                    self.unpack::<LE>()?;
                }
                _ => self.pass.record::<LE>(record)?,
            }
            records += 1;
            if records % LOOK == 0 {
                (ask.progress)(self.stream.share());
                // The flag carries no data, so no ordering is needed.
                if ask.stop.load(Ordering::Relaxed) {
                    return Ok(true);
                }
            }
        }
        self.unpack_rest::<LE>()?;
        self.pass.end::<LE>()?;
        (ask.progress)(1.0);
        Ok(false)
    }

    /// Takes the descriptions that follow a record of a pipe.
    fn tracing(&mut self, size: u32) -> Result<(), ImportError> {
        let at = self.stream.at();
        // Padded to a multiple of 8.
        let size = u64::from(size).next_multiple_of(8);
        if let Some(data) = self.stream.data(size, LONGEST_TRACING)? {
            self.describe(&Tracing::read(self.path, at, &data)?);
        }
        Ok(())
    }

    fn describe(&mut self, tracing: &Tracing) {
        self.pass.describe(tracing);
        self.described = true;
    }

    /// Unpacks what was fed, and takes its records.
    fn unpack<const LE: bool>(&mut self) -> Result<(), ImportError> {
        let Some(mut packed) = self.packed.take() else {
            return Ok(());
        };
        loop {
            let more = packed.unpacker.step(&mut packed.bytes);
            if !more.map_err(|reason| self.stream.damaged(reason))? {
                break;
            }
            self.take_unpacked::<LE>(&mut packed)?;
        }
        self.packed = Some(packed);
        Ok(())
    }

    fn unpack_rest<const LE: bool>(&mut self) -> Result<(), ImportError> {
        let Some(mut packed) = self.packed.take() else {
            return Ok(());
        };
        let left = packed.unpacker.end(&mut packed.bytes);
        packed.cut = left.map_err(|reason| self.stream.damaged(reason))?;
        self.take_unpacked::<LE>(&mut packed)?;
        packed.cut += packed.bytes.len();
        self.packed = Some(packed);
        Ok(())
    }

    fn take_unpacked<const LE: bool>(&mut self, packed: &mut Packed) -> Result<(), ImportError> {
        let mut at = 0;
        loop {
            while packed
                .rounds
                .front()
                .is_some_and(|end| *end <= packed.taken)
            {
                packed.rounds.pop_front();
                self.pass.round::<LE>()?;
            }
            let record = Record::first::<LE>(&packed.bytes[at..]);
            let record = record.map_err(|reason| self.stream.damaged(reason))?;
            let Some(record) = record else {
                break;
            };
            let size = HEAD + record.body.len();
            self.pass.record::<LE>(record)?;
            at += size;
            packed.taken += size as u64;
        }
        packed.bytes.drain(..at);
        Ok(())
    }

    /// Why nothing can be read without descriptions.
    fn undescribed(&self) -> ImportError {
        let (what, next) = match self.pass.attributes.tracepoints().next() {
            None => (
                "none of its events is a tracepoint",
                "record the event sched:sched_switch too: docs/import.md shows how",
            ),
            Some(_) => (
                "the descriptions of its tracepoints are missing, which perf writes last",
                "copy all of the file, and let perf record come to its end; what it writes into a pipe, \
                 `perf record -o - > FILE`, can be read up to where it was cut",
            ),
        };
        self.lacks(what, next)
    }

    fn lacks(&self, what: &str, next: &str) -> ImportError {
        ImportError::Lacks {
            path: self.path.to_owned(),
            what: what.to_owned(),
            next: next.to_owned(),
        }
    }

    fn finish(
        self,
        pipe: bool,
        out: &mut RunWriter,
        stopped: bool,
        settle: impl FnOnce(&mut [SeenTask]),
    ) -> Result<Read, ImportError> {
        if !self.described && !stopped {
            return Err(self.undescribed());
        }
        let mut tracepoints = self.pass.attributes.tracepoints();
        if tracepoints.any(|layout| !layout.is_placed()) {
            let what = "its tracepoints have no time or no CPU";
            return Err(self.lacks(what, "record them with perf record -a -T --sample-cpu"));
        }
        let cut = self.stream.cut() || self.packed.is_some_and(|packed| packed.cut > 0);
        let clock = self.pass.attributes.tracepoints().next();
        let clock = clock.and_then(|layout| layout.clock);
        let facts = self.pass.facts;
        let mut losses = Ledger::default();
        enter(
            &mut losses,
            &self.pass.counts,
            self.pass.sink.undescribed,
            cut,
        );
        for name in &self.pass.unusable {
            losses.enter(
                format!("kernel trace event {name} lacks fields that idlewave needs"),
                1,
                "it is not used",
                "report the kernel version to the developers of idlewave",
            );
        }
        let Sink { feed, people, .. } = self.pass.sink;
        let mut summary = feed.finish(out, stopped, |seen| {
            people.complete(seen);
            settle(seen);
        })?;
        summary.missed = summary.missed.saturating_add(self.pass.counts.unplaced);
        Ok(Read {
            summary,
            machine: Machine {
                host: facts.host(),
                clock: clock_name(clock.or(facts.clock)).to_owned(),
                resolution_ns: 1,
                span: None,
            },
            version: facts.version,
            pipe,
            losses,
        })
    }
}

/// The piece of a Zstandard frame in a record: all of it, or as much as the size before it says.
fn piece<const LE: bool>(record: Record<'_>) -> &[u8] {
    match record.kind {
        COMPRESSED2 => {
            let size = read_u64::<LE>(record.body, 0).unwrap_or(0);
            let piece = record.body.get(8..).unwrap_or_default();
            &piece[..piece.len().min(usize::try_from(size).unwrap_or(usize::MAX))]
        }
        _ => record.body,
    }
}

fn enter(losses: &mut Ledger, counts: &Counts, undescribed: u64, cut: bool) {
    losses.enter(
        "end of the perf.data cut short",
        u64::from(cut),
        "the last events are missing",
        "the recorder was killed or the file not copied whole: record again if the end matters",
    );
    losses.enter(
        "events lost on CPUs that the perf.data does not name",
        counts.unplaced,
        "bursts and interrupts around the gaps are not marked",
        "record with larger buffers: perf record -m 16M",
    );
    losses.enter(
        "times at which the kernel paused a tracepoint because it was too frequent",
        counts.paused,
        "events are missing after each, and how many is not known",
        "raise the sysctl kernel.perf_event_max_sample_rate, or record fewer events",
    );
    losses.enter(
        "samples of events that the perf.data does not describe",
        counts.strays,
        "they are not used",
        "the file is damaged: record again",
    );
    losses.enter(
        "records of the perf.data whose fields do not fit",
        counts.garbled,
        "they are not used",
        "the file is damaged: record again",
    );
    losses.enter(
        "tracepoints before their descriptions in the perf.data",
        undescribed,
        "they are not used",
        "the file is damaged: record again",
    );
    losses.enter(
        "threads of other programs, which perf did not watch",
        u64::from(counts.one_program),
        "who had the CPUs while the program did not is not known",
        "record all CPUs: perf record -a",
    );
}
