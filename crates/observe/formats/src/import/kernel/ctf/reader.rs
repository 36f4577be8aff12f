//! From a CTF trace to tables.

use super::find::streams;
use super::layout::Layout;
use super::meaning::{Fields, Meaning};
use super::metadata::{Clock, Metadata};
use super::stream::{Identity, Losses, Next, Stream};
use crate::import::ask::Ask;
use crate::import::error::ImportError;
use crate::import::kernel::people::People;
use crate::import::kernel::sheet::Machine;
use idlewave_ftrace::{DecodeSummary, Feed, SeenTask};
use idlewave_run::{HostSheet, Ledger, RunWriter};
use idlewave_units::{Cpu, NodeId};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Events between two checks of the stop flag.
const LOOK: u64 = 1 << 14;
/// Limit on the stream files: 8192 CPUs with two channels of four files each.
const MOST_FILES: usize = 1 << 16;
/// Limit on the streams of one CPU, which are read side by side: LTTng has one for each channel.
const MOST_BESIDE: usize = 256;

/// A CTF trace that has been read.
pub(crate) struct Read {
    pub(crate) summary: DecodeSummary,
    pub(crate) machine: Machine,
    /// Who wrote it.
    pub(crate) tracer: Option<String>,
    /// When the session was created, in RFC 3339.
    pub(crate) started: Option<String>,
    /// The program that dropped the records of lost events.
    pub(crate) hides_losses: Option<&'static str>,
    /// What the trace lacks.
    pub(crate) losses: Ledger,
}

/// Turns the trace in `directory` into tables. `settle` may correct the kinds of the threads.
pub(crate) fn read(
    directory: &Path,
    ask: &Ask<'_>,
    out: &mut RunWriter,
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<Read, ImportError> {
    let metadata = Metadata::read(directory)?;
    let layout = Layout::of(&metadata).map_err(|reason| ImportError::Format {
        path: directory.join("metadata"),
        reason,
        next: "report the tracer and its version to the developers of idlewave".to_owned(),
    })?;
    let mut reader = Reader {
        ask,
        directory,
        metadata: &metadata,
        layout: &layout,
        feed: Feed::new(out, NodeId::new(0), &[])?,
        people: People::default(),
        bytes: 0,
        done: 0,
        events: 0,
        noted: 0,
        unplaced: 0,
        unplaced_gaps: 0,
        unplaced_lost: 0,
        cut: 0,
    };
    let mut stopped = false;
    for group in reader.groups()? {
        stopped = stopped || reader.group(group)?;
    }
    if !stopped {
        (ask.progress)(1.0);
    }
    reader.finish(out, stopped, settle)
}

/// Files of one CPU. Each entry is a stream, of one file or several.
type Group = Vec<VecDeque<PathBuf>>;

struct Reader<'a> {
    ask: &'a Ask<'a>,
    directory: &'a Path,
    metadata: &'a Metadata,
    layout: &'a Layout,
    feed: Feed,
    people: People,
    /// Bytes of all files, and of those that are done.
    bytes: u64,
    done: u64,
    events: u64,
    /// Events that only describe threads.
    noted: u64,
    /// Events whose CPU is not known.
    unplaced: u64,
    /// Gaps whose CPU is not known, and the events lost in them, as far as they were counted.
    unplaced_gaps: u64,
    unplaced_lost: u64,
    /// Files that end within a packet.
    cut: u64,
}

impl<'a> Reader<'a> {
    /// Groups the files by CPU.
    fn groups(&mut self) -> Result<Vec<Group>, ImportError> {
        let files = streams(self.directory)?;
        if files.len() > MOST_FILES {
            return Err(self.lacks(
                format!("it has {} stream files, which are too many", files.len()),
                "record fewer channels, or without limits on the size of files",
            ));
        }
        let mut known: Vec<(Identity, PathBuf)> = Vec::new();
        for file in files {
            let length = fs::metadata(&file).map_or(0, |of| of.len());
            self.bytes = self.bytes.saturating_add(length);
            let mut stream = self.open(VecDeque::from([file.clone()]))?;
            let identity = stream.as_mut().map(Stream::identity).transpose()?.flatten();
            match identity {
                Some(identity) => known.push((identity, file)),
                // An idle CPU, or a file that ends within its first head.
                None => self.cut += stream.map_or(0, |stream| stream.cut),
            }
        }
        if known.is_empty() {
            let next = match self.metadata.is_of_perf() {
                true => {
                    "import the perf.data instead: perf data convert leaves out what went through a pipe"
                }
                false => "copy all of the directory",
            };
            return Err(self.lacks("it has no streams of events".to_owned(), next));
        }
        known.sort();
        let mut groups: Vec<(Option<u32>, Group)> = Vec::new();
        let mut last: Option<Identity> = None;
        for (identity, file) in known {
            let same = |of: Identity| {
                let key = |of: Identity| (of.cpu, of.class, of.instance);
                // A stream with numbered packets continues in the next file.
                key(of) == key(identity) && of.sequence < identity.sequence
            };
            let goes_on = last.replace(identity).is_some_and(same);
            match groups.last_mut() {
                Some((cpu, group)) if *cpu == identity.cpu => match group.last_mut() {
                    Some(files) if goes_on => files.push_back(file),
                    _ => group.push(VecDeque::from([file])),
                },
                _ => groups.push((identity.cpu, vec![VecDeque::from([file])])),
            }
        }
        Ok(groups.into_iter().map(|(_, group)| group).collect())
    }

    fn open(&self, files: VecDeque<PathBuf>) -> Result<Option<Stream<'a>>, ImportError> {
        let losses = match self.metadata.fact(&["tracer_name"]) {
            Some(name) if name.starts_with("lttng") => Losses::AtEnd,
            _ => Losses::Somewhere,
        };
        Stream::open(self.layout, self.metadata.uuid, losses, files)
    }

    /// Takes the events of one CPU in order of time; returns whether the user stopped the import.
    fn group(&mut self, group: Group) -> Result<bool, ImportError> {
        if group.len() > MOST_BESIDE {
            return Err(self.lacks(
                format!("a CPU has {} streams, which are too many", group.len()),
                "record fewer channels",
            ));
        }
        let mut streams = Vec::new();
        for files in group {
            if let Some(mut stream) = self.open(files)? {
                if self.advance(&mut stream)? {
                    streams.push(stream);
                } else {
                    self.end(&stream);
                }
            }
        }
        while !streams.is_empty() {
            let times = streams.iter().map(Stream::time).enumerate();
            // Of equal times, the first.
            let earliest = times.min_by_key(|(_, time)| *time).map_or(0, |(at, _)| at);
            let stream = &mut streams[earliest];
            self.take(stream)?;
            if !self.advance(stream)? {
                let stream = streams.remove(earliest);
                self.end(&stream);
            }
            self.events += 1;
            if self.events % LOOK == 0 {
                let beside = streams.iter().map(Stream::done);
                let done = beside.fold(self.done, u64::saturating_add);
                (self.ask.progress)((done as f64 / self.bytes.max(1) as f64).min(1.0));
                // The flag carries no data, so no ordering is needed.
                if self.ask.stop.load(Ordering::Relaxed) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn end(&mut self, stream: &Stream<'_>) {
        self.done = self.done.saturating_add(stream.done());
        self.cut += stream.cut;
    }

    /// Goes to the next event of a stream; false if there is none.
    #[inline]
    fn advance(&mut self, stream: &mut Stream<'_>) -> Result<bool, ImportError> {
        loop {
            match stream.step()? {
                Next::Event => return Ok(true),
                Next::Lost(count) => match stream.cpu() {
                    Some(cpu) => self.feed.lose(Cpu::new(cpu), count),
                    None => {
                        self.unplaced_gaps += 1;
                        let lost = count.unwrap_or(0);
                        self.unplaced_lost = self.unplaced_lost.saturating_add(lost);
                    }
                },
                Next::End => return Ok(false),
            }
        }
    }

    /// Takes an event.
    #[inline]
    fn take(&mut self, stream: &Stream<'_>) -> Result<(), ImportError> {
        let Some((event, fields)) = stream.event() else {
            return Ok(());
        };
        let Some(cpu) = stream.cpu().map(Cpu::new) else {
            self.unplaced += 1;
            return Ok(());
        };
        let Some(meaning) = &event.meaning else {
            self.feed.unknown(cpu);
            return Ok(());
        };
        let by = event.by.map(|place| fields.pid(place));
        if let Some((process, thread)) = event.member {
            // In a PID namespace, perf and the tracepoints number threads differently.
            let (process, thread) = (fields.pid(process), fields.pid(thread));
            if by == Some(thread) {
                self.people.member(thread, process);
            }
        }
        if let Meaning::Fork {
            child,
            process: Some(process),
            ..
        } = *meaning
        {
            let (child, process) = (fields.pid(child), fields.pid(process));
            self.people.member(child, process);
        }
        match fields.event(meaning) {
            Some(found) => {
                let time = nanoseconds(stream.time(), self.layout.clock.as_ref());
                self.feed.event(cpu, time, by, found)?;
            }
            None => {
                self.noted += 1;
                self.note(meaning, fields);
            }
        }
        Ok(())
    }

    /// Notes a thread that existed when the recording began.
    fn note(&mut self, meaning: &Meaning, fields: Fields<'_>) {
        /// The type of kernel threads (`LTTNG_KERNEL_THREAD`).
        const KERNEL_THREAD: u64 = 1;
        let Meaning::Thread {
            pid,
            process,
            parent,
            name,
            kind,
        } = *meaning
        else {
            return;
        };
        let pid = fields.pid(pid);
        if let Some(name) = name {
            self.people.named(pid, fields.text(name));
        }
        if let Some(process) = process {
            self.people.member(pid, fields.pid(process));
        }
        if let Some(parent) = parent {
            self.people.born(pid, fields.pid(parent));
        }
        if let Some(kind) = kind {
            self.people.told(pid, fields.number(kind) == KERNEL_THREAD);
        }
    }

    fn lacks(&self, what: String, next: &str) -> ImportError {
        ImportError::Lacks {
            path: self.directory.to_owned(),
            what,
            next: next.to_owned(),
        }
    }

    fn finish(
        self,
        out: &mut RunWriter,
        stopped: bool,
        settle: impl FnOnce(&mut [SeenTask]),
    ) -> Result<Read, ImportError> {
        let mut losses = Ledger::default();
        losses.enter(
            "files of the CTF trace cut short",
            self.cut,
            "the last events of their CPUs are missing",
            "the recorder was killed or the files not copied whole: record again if the end matters",
        );
        losses.enter(
            "events of the CTF trace whose CPU is not known",
            self.unplaced,
            "they are not used",
            "record with a tracer that notes the CPU of each packet or event",
        );
        losses.enter(
            "gaps in the CTF trace whose CPU is not known",
            self.unplaced_gaps,
            "what is missing there is not marked in the tables",
            "record with a tracer that notes the CPU of each packet",
        );
        losses.enter(
            "architecture of the system calls not told by the CTF trace",
            u64::from(self.layout.syscalls.guessed()),
            "it is taken for x86_64; names of calls are right on aarch64 as well",
            "none needed",
        );
        for name in &self.layout.unusable {
            losses.enter(
                format!("kernel trace event {name} lacks fields that idlewave needs"),
                1,
                "it is not used",
                "report the kernel version to the developers of idlewave",
            );
        }
        let (people, metadata) = (self.people, self.metadata);
        let mut summary = self.feed.finish(out, stopped, |seen| {
            people.complete(seen);
            settle(seen);
        })?;
        summary.events += self.noted;
        summary.missed = summary.missed.saturating_add(self.unplaced_lost);
        Ok(Read {
            summary,
            machine: machine(metadata, self.layout),
            tracer: tracer(metadata),
            // It drops the records of lost events.
            hides_losses: metadata.is_of_perf().then_some("perf data convert"),
            started: metadata.fact(&["trace_creation_datetime"]).and_then(date),
            losses,
        })
    }
}

/// A time of the trace in nanoseconds. The clock's offset to the time of day is left out, because
/// programs do not count from there.
#[inline]
fn nanoseconds(counts: u64, clock: Option<&Clock>) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    match clock {
        Some(clock) if clock.rate != SECOND => {
            let scaled = u128::from(counts) * u128::from(SECOND) / u128::from(clock.rate);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        }
        _ => counts,
    }
}

/// What the metadata says about the machine.
fn machine(metadata: &Metadata, layout: &Layout) -> Machine {
    let clock = layout.clock.as_ref();
    let fact = |names: &[&str]| metadata.fact(names).unwrap_or_default().to_owned();
    let rate = clock.map_or(1_000_000_000, |clock| clock.rate);
    Machine {
        host: HostSheet {
            name: fact(&["hostname", "host"]),
            kernel: fact(&["kernel_release", "release"]),
            kernel_build: fact(&["kernel_version"]),
            architecture: match metadata.fact(&["machine"]) {
                Some(told) => told.to_owned(),
                None => layout
                    .syscalls
                    .architecture()
                    .unwrap_or_default()
                    .to_owned(),
            },
            ..HostSheet::default()
        },
        clock: match clock {
            // LTTng's name of CLOCK_MONOTONIC, which the kernel's tracer calls mono.
            Some(clock) if clock.name == "monotonic" && rate == 1_000_000_000 => "mono".to_owned(),
            Some(clock) => clock.name.clone(),
            None => String::new(),
        },
        resolution_ns: 1_000_000_000_u64.div_ceil(rate),
        span: None,
    }
}

/// LTTng's `20261125T191857+0000` in RFC 3339.
fn date(text: &str) -> Option<String> {
    let form = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => matches!(byte, b'+' | b'-'),
        _ => byte.is_ascii_digit(),
    };
    if text.len() != 20 || !text.bytes().enumerate().all(form) {
        return None;
    }
    let (day, rest) = text.split_at(8);
    let (hour, zone) = rest[1..].split_at(6);
    let day = [&day[..4], &day[4..6], &day[6..]].join("-");
    let hour = [&hour[..2], &hour[2..4], &hour[4..]].join(":");
    Some(format!("{day}T{hour}{}:{}", &zone[..3], &zone[3..]))
}

/// Name and version of the tracer.
fn tracer(metadata: &Metadata) -> Option<String> {
    let name = metadata.fact(&["tracer_name"])?;
    let numbers = ["tracer_major", "tracer_minor", "tracer_patchlevel"];
    let numbers: Vec<&str> = numbers.iter().filter_map(|n| metadata.fact(&[n])).collect();
    // For perf, it is the version of the tool.
    let version = match (numbers.is_empty(), name) {
        (true, "perf") => metadata.fact(&["version"]).unwrap_or_default().to_owned(),
        _ => numbers.join("."),
    };
    Some(format!("{name} {version}").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_or_left_out() {
        let expected = Some("2026-11-25T19:18:57-01:30".to_owned());
        assert_eq!(date("20261125T191857-0130"), expected);
        for odd in [
            "",
            "20261125T191857Z",
            "20261125 191857+0000",
            "2026112\u{e9}T191857+000",
        ] {
            assert_eq!(date(odd), None, "{odd}");
        }
    }
}
