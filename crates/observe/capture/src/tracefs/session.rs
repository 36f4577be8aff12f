//! A recording, from an empty instance to the bundle's `raw/`.

use super::instance::COPY_MARKERS;
use super::reader::{self, Reader};
use super::{Instance, Numbers, TraceError, Tracefs, clean_stale, cost};
use crate::proc::tasks;
use idlewave_clock::monotonic_ns;
use idlewave_ftrace::{
    CpuStats, EVENTS, MARKER_EVENT, RawCapture, RawTask, SYSCALLS, format_path, header_page_path,
};
use idlewave_run::TraceCost;
use idlewave_sys::files;
use idlewave_units::{Bytes, Cpu, CpuSet, Nanos, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Buffer of one CPU, enough for half a second at 100,000 events per second.
const BUFFER: Bytes = Bytes::from_kib(4_096);
/// Limit for all buffers together, for nodes with many CPUs.
const ALL_BUFFERS: Bytes = Bytes::from_kib(512 * 1_024);
/// Events of this subsystem are recorded only for the ranks, since every process faults.
const FAULTS: &str = "exceptions";

/// What to record.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    /// Directory `raw/` of the bundle; created if missing.
    pub raw_dir: PathBuf,
    /// CPUs to record.
    pub cpus: CpuSet,
    /// Whether to record the system calls of the ranks too: two events each.
    pub syscalls: bool,
}

/// Whether lines that programs write to `trace_marker` may be copied to an instance that records
/// these CPUs. If the instance is off, or on a CPU outside its mask, such a write fails with EBADF
/// (`tracing_mark_write`, kernel/trace/trace.c). So lines are copied only if all CPUs are recorded,
/// and then without a mask, which would leave out CPUs that come online later.
fn takes_lines(root: &Path, cpus: &CpuSet) -> bool {
    let online = fs::read_to_string(root.join("sys/devices/system/cpu/online"));
    let online = online.ok().and_then(|online| online.trim().parse().ok());
    online.is_some_and(|online: CpuSet| online.difference(cpus).is_empty())
}

/// A running recording. Dropping it removes the instance and keeps what has been recorded.
#[derive(Debug)]
pub struct TraceSession {
    reader: Reader,
    instance: Instance,
    raw_dir: PathBuf,
    capture: RawCapture,
    tasks: BTreeMap<Pid, RawTask>,
    event_ns: Option<f64>,
    numbers: Numbers,
    /// The events that are recorded for the ranks only.
    of_ranks: Vec<(&'static str, &'static str)>,
    /// Named threads whose numbers in the trace are unknown.
    unknown: u64,
    _tracefs: Tracefs,
}

/// The result of a recording.
#[derive(Clone, Debug)]
pub struct TraceSummary {
    /// What the recording cost.
    pub cost: TraceCost,
    /// Per CPU.
    pub stats: Vec<CpuStats>,
    /// Threads of the run that ended before their numbers in the trace were known.
    pub unknown: u64,
}

impl TraceSession {
    /// Removes what killed predecessors left, creates an instance and starts to record.
    ///
    /// # Errors
    /// [`TraceError::unavailable`] tells whether the machine does not allow tracing.
    pub fn start(root: &Path, config: &TraceConfig) -> Result<Self, TraceError> {
        let tracefs = Tracefs::find(root)?;
        clean_stale(&tracefs)?;
        let numbers = Numbers::new(&tracefs)?;
        let instance = Instance::create(&tracefs)?;
        instance.write("trace_clock", "mono")?;
        let lines = takes_lines(root, &config.cpus) && instance.file(COPY_MARKERS).exists();
        if !lines {
            instance.write("tracing_cpumask", &mask(&config.cpus))?;
        }
        for option in ["record-cmd", "markers"] {
            // These options only cost time; kernels that lack one are fine.
            let _ = instance.write(&format!("options/{option}"), "0");
        }
        let per_cpu = BUFFER
            .get()
            .min(ALL_BUFFERS.get() / config.cpus.len().max(1) as u64)
            / 1_024;
        for cpu in config.cpus.iter() {
            instance.write(
                &format!("per_cpu/cpu{cpu}/buffer_size_kb"),
                &per_cpu.to_string(),
            )?;
        }
        let event_ns = cost::event_ns(&instance);
        instance.write("trace", "")?;

        let raw_dir = config.raw_dir.clone();
        files::create_directory(&raw_dir).map_err(TraceError::io("create", &raw_dir))?;
        let header = header_page_path(&raw_dir);
        files::replace(&header, &header_page(&tracefs)?)
            .map_err(TraceError::io("write", &header))?;
        let (mut of_ranks, of_all): (Vec<_>, Vec<_>) =
            EVENTS.iter().partition(|(system, _)| *system == FAULTS);
        if config.syscalls {
            of_ranks.extend(SYSCALLS);
        }
        for &(system, event) in of_all.iter().chain(&of_ranks) {
            save_format(&tracefs, &raw_dir, system, event)?;
        }
        if lines {
            save_format(&tracefs, &raw_dir, MARKER_EVENT.0, MARKER_EVENT.1)?;
        }
        let page_size = page_size(&instance);
        let pipes = config.cpus.iter().map(|cpu| {
            (
                cpu,
                instance.file(&format!("per_cpu/cpu{cpu}/trace_pipe_raw")),
            )
        });
        let reader = Reader::start(pipes.collect(), &raw_dir, page_size)?;
        let mut session = Self {
            reader,
            raw_dir,
            capture: RawCapture {
                page_size: page_size as u32,
                clock: "mono".to_owned(),
                cpus: config.cpus.iter().collect(),
                little_endian: cfg!(target_endian = "little"),
                long_bytes: size_of::<std::ffi::c_long>() as u8,
                on_ns: monotonic_ns(),
                off_ns: None,
                stats: Vec::new(),
                tasks: Vec::new(),
            },
            tasks: BTreeMap::new(),
            event_ns,
            numbers,
            of_ranks,
            unknown: 0,
            instance,
            _tracefs: tracefs,
        };
        session.look_at_tasks()?;
        session.note(session.reader.tid(), reader::NAME, false);
        session.save()?;
        for (system, event) in of_all {
            session.enable(system, event)?;
        }
        session.instance.write("tracing_on", "1")?;
        if lines {
            session.instance.write(COPY_MARKERS, "1")?;
        }
        Ok(session)
    }

    /// Names a thread of this program, as a rank or as one that measures and records. Threads and
    /// processes are given by their numbers in this PID namespace, here and below.
    pub fn note(&mut self, pid: Pid, name: &str, rank: bool) {
        let process = Pid::new(std::process::id());
        self.note_as(pid, process, |task| {
            (task.name, task.rank, task.own) = (name.to_owned(), rank, !rank);
        });
    }

    /// Names a process of the recorded program: it and everything that it starts are
    /// [`TaskKind::Program`].
    ///
    /// [`TaskKind::Program`]: idlewave_run::tables::TaskKind::Program
    pub fn note_program(&mut self, pid: Pid, name: &str) {
        self.note_as(pid, pid, |task| {
            (task.name, task.program) = (name.to_owned(), true);
        });
        // This matters only if this process is killed; otherwise the last list counts.
        let _ = self.save();
    }

    /// Names a thread of the recorded program that calls MPI.
    pub fn note_rank(&mut self, thread: Pid, process: Pid, name: &str) {
        self.note_as(thread, process, |task| {
            (task.name, task.rank, task.program) = (name.to_owned(), true, true);
        });
    }

    fn note_as(&mut self, pid: Pid, process: Pid, fill: impl FnOnce(&mut RawTask)) {
        let Some(pid) = self.numbers.of(pid) else {
            self.unknown += 1;
            return;
        };
        let mut task = RawTask {
            pid,
            process: self.numbers.of(process),
            name: String::new(),
            kernel: false,
            rank: false,
            own: false,
            program: false,
        };
        fill(&mut task);
        self.tasks.insert(pid, task);
    }

    /// The numbers of these threads in the trace; `None` for one that has ended.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn traced(&mut self, threads: &[Pid]) -> Result<Vec<Option<Pid>>, TraceError> {
        self.numbers.ask(threads)
    }

    /// From now on, records page faults and, if requested, system calls of these threads only, and
    /// no longer of those given before.
    ///
    /// # Errors
    /// The kernel rejects the filter.
    pub fn watch_ranks(&mut self, threads: &[Pid]) -> Result<(), TraceError> {
        let traced: Vec<Pid> = threads
            .iter()
            .filter_map(|&thread| self.numbers.of(thread))
            .collect();
        let Some(filter) = filter(&traced) else {
            return Ok(());
        };
        for &(system, event) in &self.of_ranks {
            let file = format!("events/{system}/{event}/filter");
            if self.instance.file(&file).exists() {
                self.instance.write(&file, &filter)?;
                self.enable(system, event)?;
            }
        }
        self.save()
    }

    /// Whether this kernel can record system calls.
    pub fn has_syscalls(&self) -> bool {
        let directory = |(system, event)| self.instance.file(&format!("events/{system}/{event}"));
        SYSCALLS.iter().all(|&event| directory(event).exists())
    }

    /// Whether the reader failed; then [`stop`](Self::stop) returns the error.
    pub fn has_failed(&self) -> bool {
        self.reader.has_failed()
    }

    /// Bytes of the trace copied so far.
    pub fn copied(&self) -> u64 {
        self.reader.copied()
    }

    /// Stops recording, reads what is left, and removes the instance.
    ///
    /// # Errors
    /// The reader could not write, or the instance cannot be removed.
    pub fn stop(mut self) -> Result<TraceSummary, TraceError> {
        let _ = self.instance.write(COPY_MARKERS, "0");
        self.instance.write("tracing_on", "0")?;
        let off_ns = monotonic_ns();
        self.look_at_tasks()?;
        let report = self.reader.finish()?;
        let mut events = 0;
        for (cpu, bytes) in self.capture.cpus.iter().zip(&report.bytes) {
            let text = self.instance.read(&format!("per_cpu/cpu{cpu}/stats"))?;
            events += value(&text, "read events") + value(&text, "entries");
            self.capture.stats.push(CpuStats {
                cpu: *cpu,
                overrun: value(&text, "overrun"),
                commit_overrun: value(&text, "commit overrun"),
                dropped: value(&text, "dropped events"),
                bytes: *bytes,
            });
        }
        self.capture.off_ns = Some(off_ns);
        self.capture.tasks = self.tasks.into_values().collect();
        self.capture.save(&self.raw_dir)?;
        self.instance.remove()?;
        let cost = TraceCost {
            events,
            lost: self.capture.stats.iter().map(CpuStats::lost).sum(),
            reader: report.cpu_time,
            event_ns: self.event_ns,
            wall: Nanos::from_nanos(off_ns.saturating_sub(self.capture.on_ns)),
            cpus: self.capture.cpus.len() as u32,
        };
        Ok(TraceSummary {
            cost,
            stats: self.capture.stats,
            unknown: self.unknown,
        })
    }

    fn enable(&self, system: &str, event: &str) -> Result<(), TraceError> {
        let file = format!("events/{system}/{event}/enable");
        if self.instance.file(&file).exists() {
            self.instance.write(&file, "1")
        } else {
            Ok(())
        }
    }

    /// Lists the machine's threads, or those of the PID namespace. Named threads keep their
    /// entries.
    fn look_at_tasks(&mut self) -> Result<(), TraceError> {
        let own = Pid::new(std::process::id());
        let tasks = tasks(Path::new("/"));
        let threads: Vec<Pid> = tasks.iter().map(|task| task.pid).collect();
        let traced = self.numbers.ask(&threads)?;
        // The first thread of a process has its number.
        let of_process: BTreeMap<Pid, Pid> = threads
            .iter()
            .zip(&traced)
            .filter_map(|(thread, traced)| Some((*thread, (*traced)?)))
            .collect();
        for (task, pid) in tasks.into_iter().zip(traced) {
            let Some(pid) = pid else { continue };
            let is_own = task.process == own || is_recorder(task.process, &task.name);
            let raw = RawTask {
                pid,
                process: of_process.get(&task.process).copied(),
                name: task.name,
                kernel: task.kernel,
                rank: false,
                own: is_own,
                program: false,
            };
            let known = self
                .tasks
                .get(&pid)
                .is_some_and(|t| t.rank || t.own || t.program);
            if !known {
                self.tasks.insert(pid, raw);
            }
        }
        Ok(())
    }

    fn save(&mut self) -> Result<(), TraceError> {
        self.capture.tasks = self.tasks.values().cloned().collect();
        Ok(self.capture.save(&self.raw_dir)?)
    }
}

/// Whether a process is one of idlewave's on a node of a recording: another node's recorder on this
/// kernel, or the shim before the program in the launcher's command.
fn is_recorder(process: Pid, name: &str) -> bool {
    // Check the name first: it is at hand, and few processes have it.
    if !name.starts_with("idlewave") {
        return false;
    }
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let second = words.split(|byte| *byte == 0).nth(1);
    matches!(second, Some(b"node-record" | b"node-run" | b"node-send"))
}

/// `header_page` is the same for all instances and exists in the top directory only. The kernel
/// returns it to the first read of an open file and nothing to the next, so it must be read in one
/// go.
fn header_page(tracefs: &Tracefs) -> Result<Vec<u8>, TraceError> {
    const ROOM: usize = 64 << 10;
    let path = tracefs.root().join("events/header_page");
    let mut text = vec![0; ROOM];
    let length = fs::File::open(&path).and_then(|mut file| file.read(&mut text));
    text.truncate(length.map_err(TraceError::io("read", &path))?);
    Ok(text)
}

/// Copies a format file, or does nothing if this kernel lacks the event.
fn save_format(
    tracefs: &Tracefs,
    raw_dir: &Path,
    system: &str,
    event: &str,
) -> Result<(), TraceError> {
    let source = tracefs
        .root()
        .join("events")
        .join(system)
        .join(event)
        .join("format");
    let text = match fs::read(&source) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(TraceError::io("read", &source)(e)),
    };
    let target = format_path(raw_dir, system, event);
    let dir = target.parent().unwrap_or(raw_dir);
    for dir in dir.parent().into_iter().chain([dir]) {
        files::create_directory(dir).map_err(TraceError::io("create", dir))?;
    }
    files::replace(&target, &text).map_err(TraceError::io("write", &target))
}

/// Size of a sub-buffer: configurable since Linux 6.8, one page of memory before.
fn page_size(instance: &Instance) -> usize {
    let set = instance.read("buffer_subbuf_size_kb").ok();
    set.and_then(|kib| kib.trim().parse::<usize>().ok())
        .map_or_else(rustix::param::page_size, |kib| kib * 1_024)
}

/// The filter for events of these threads; `None` if there are none.
///
/// Threads that started together have consecutive numbers. If there are too many such runs for one
/// write, the filter is the range from the lowest to the highest number, which includes other
/// threads.
fn filter(threads: &[Pid]) -> Option<String> {
    // The kernel accepts one page.
    const LONGEST: usize = 4_000;
    let numbers: BTreeSet<u32> = threads.iter().map(|thread| thread.get()).collect();
    let (first, last) = (numbers.first()?, numbers.last()?);
    let mut rows: Vec<(u32, u32)> = Vec::new();
    for &number in &numbers {
        match rows.last_mut() {
            Some((_, end)) if *end + 1 == number => *end = number,
            _ => rows.push((number, number)),
        }
    }
    let range = |(first, last)| format!("(common_pid >= {first} && common_pid <= {last})");
    let exact = rows.into_iter().map(range).collect::<Vec<_>>().join(" || ");
    let fits = exact.len() <= LONGEST;
    Some(if fits { exact } else { range((*first, *last)) })
}

/// CPUs in the kernel's bitmap notation: 32-bit words in hexadecimal, highest first.
fn mask(cpus: &CpuSet) -> String {
    let words = cpus.iter().map(Cpu::index).max().unwrap_or(0) / 32 + 1;
    let mut bits = vec![0_u32; words];
    for cpu in cpus.iter() {
        bits[cpu.index() / 32] |= 1 << (cpu.index() % 32);
    }
    bits.iter()
        .rev()
        .map(|word| format!("{word:08x}"))
        .collect::<Vec<_>>()
        .join(",")
}

/// A number from a `stats` file: lines of `name: value`.
fn value(text: &str, name: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|v| v.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_words_of_32_bits_highest_first() {
        let set = |text: &str| text.parse::<CpuSet>().expect("a CPU list");
        assert_eq!(mask(&set("0-3")), "0000000f");
        assert_eq!(mask(&set("1,32,70")), "00000040,00000001,00000002");
    }

    #[test]
    fn a_filter_names_the_threads_alone_or_if_they_are_too_many_their_range() {
        let of =
            |numbers: &[u32]| filter(&numbers.iter().map(|&n| Pid::new(n)).collect::<Vec<_>>());
        let row =
            |first: u32, last: u32| format!("(common_pid >= {first} && common_pid <= {last})");
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7]), Some(row(7, 7)));
        assert_eq!(
            of(&[9, 7, 8, 7, 12]),
            Some(format!("{} || {}", row(7, 9), row(12, 12)))
        );
        let apart = |count: u32| (0..count).map(|n| 1_000 + 2 * n).collect::<Vec<_>>();
        assert_eq!(of(&apart(50)).unwrap().matches("||").count(), 49);
        assert_eq!(of(&apart(500)), Some(row(1_000, 1_998)));
    }

    #[test]
    fn values_are_found_by_their_whole_name() {
        let text = "entries: 3\noverrun: 1\ncommit overrun: 2\nbytes: 120\nread events: 42\n";
        assert_eq!(value(text, "overrun"), 1);
        assert_eq!(value(text, "commit overrun"), 2);
        assert_eq!(value(text, "read events"), 42);
        assert_eq!(value(text, "dropped events"), 0);
    }
}
