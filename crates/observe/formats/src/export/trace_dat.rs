//! `trace.dat` version 7, the file of trace-cmd and KernelShark.
//!
//! The kernel's sub-buffers and descriptions of events are copied as they were recorded, so nothing
//! of them is lost: no times are converted, and events that idlewave does not know are included.
//! The file cannot hold anything else of the run.
//!
//! Layout: head, section of options, and the sections that the options point to. Sources:
//! trace-cmd.dat.v7(5), and `lib/trace-cmd/trace-input.c` of trace-cmd 3.1 for the sizes of fields.

mod section;

use crate::export::out::Output;
use crate::export::{Export, ExportError, Job};
use idlewave_ftrace::{RawCapture, capture_path, header_page_path, pages_path};
use idlewave_run::tables::{
    Calls, Detours, LateSteps, Marks, Quanta, Regions, Table, Tasks, Transfers,
};
use idlewave_run::{Ledger, RunReader};
use idlewave_sys::files;
use idlewave_units::{Cpu, NodeId};
use section::{Format, Numbers};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

const FORMAT: &str = "trace.dat";
/// Maximum size of an event description in bytes, as in the decoder.
const LONGEST: u64 = 16 << 20;
/// Bytes copied at once.
const CHUNK: u64 = 1 << 20;
/// `events/header_event`, the same text on every kernel (`ring_buffer_print_entry_header`).
const HEADER_EVENT: &str = "# compressed entry header\n\
    \ttype_len    :    5 bits\n\
    \ttime_delta  :   27 bits\n\
    \tarray       :   32 bits\n\
    \n\
    \tpadding     : type == 29\n\
    \ttime_extend : type == 30\n\
    \ttime_stamp : type == 31\n\
    \tdata max type_len  == 28\n";

/// Options of the file. One that points to a section has the number of that section.
mod option {
    pub(super) const DONE: u16 = 0;
    pub(super) const BUFFER: u16 = 3;
    pub(super) const UNAME: u16 = 5;
    pub(super) const CPU_COUNT: u16 = 8;
    pub(super) const VERSION: u16 = 9;
    pub(super) const HEADER_INFO: u16 = 16;
    pub(super) const FTRACE_EVENTS: u16 = 17;
    pub(super) const EVENT_FORMATS: u16 = 18;
    pub(super) const KALLSYMS: u16 = 19;
    pub(super) const PRINTK: u16 = 20;
    pub(super) const CMDLINES: u16 = 21;
}

/// Writes the kernel's trace of a run as `trace.dat`, from the directory `raw/`.
///
/// # Errors
/// [`ExportError::Lacks`] if the run has no such directory, or one that cannot be understood; the
/// run cannot be read, the file cannot be written, or the user asked to stop.
pub fn write(job: &Job<'_>) -> Result<Export, ExportError> {
    let raw = job.run.path().join("raw");
    if !capture_path(&raw).exists() {
        return Err(lacks(
            "the run has no directory raw/ with the kernel's trace as recorded: it was removed, or \
             the trace was not recorded by idlewave"
                .to_owned(),
        ));
    }
    let capture = RawCapture::load(&raw).map_err(|error| lacks(error.to_string()))?;
    let mut losses = Ledger::default();
    let cpus = cpus(&raw, &capture, &mut losses)?;
    let file = File::of(job, &raw, &capture, cpus)?;
    let mut out = Output::begin(job.output)?;
    file.write(job, &raw, &mut out)?;
    // The run was decoded from the same sub-buffers, so it has the same number of events.
    let node = job.run.manifest().nodes.first();
    let events = node.map(|node| node.trace.cost.events);
    let file = out.finish(events.filter(|events| *events > 0))?;
    enter(job.run, &mut losses);
    (job.progress)(1.0);
    Ok(Export::one(file, losses))
}

fn lacks(reason: String) -> ExportError {
    ExportError::Lacks {
        format: FORMAT,
        reason,
    }
}

/// The sub-buffers of a CPU.
struct CpuData {
    cpu: Cpu,
    /// Bytes of whole sub-buffers.
    bytes: u64,
}

/// The CPUs that have sub-buffers.
fn cpus(
    raw: &Path,
    capture: &RawCapture,
    losses: &mut Ledger,
) -> Result<Vec<CpuData>, ExportError> {
    let size = u64::from(capture.page_size);
    // trace-cmd maps sub-buffers into memory.
    if size == 0 || size % 4096 != 0 || size > 1 << 27 {
        return Err(lacks(format!("no sub-buffer has a size of {size} bytes")));
    }
    let mut cpus = Vec::new();
    for &cpu in &capture.cpus {
        let path = pages_path(raw, cpu);
        let length = match files::open(&path).and_then(|file| file.metadata()) {
            Ok(there) => there.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                losses.enter(
                    format!("no kernel trace of CPU {cpu}"),
                    1,
                    "this CPU is empty in the file",
                    "the recorder was killed, or a file of the capture is missing",
                );
                0
            }
            Err(error) => return Err(ExportError::io(path)(error)),
        };
        losses.enter(
            "sub-buffers cut short",
            u64::from(length % size != 0),
            "their events are not in the file",
            "the recorder was killed: record again if the end matters",
        );
        let bytes = length - length % size;
        cpus.push(CpuData { cpu, bytes });
    }
    Ok(cpus)
}

/// The parts of the file.
struct File {
    numbers: Numbers,
    page_size: u32,
    long_bytes: u8,
    /// Number of the option that points to the section, and the section's content.
    sections: Vec<(u16, Vec<u8>)>,
    /// Options that point to no section.
    facts: Vec<(u16, Vec<u8>)>,
    cpus: Vec<CpuData>,
}

impl File {
    fn of(
        job: &Job<'_>,
        raw: &Path,
        capture: &RawCapture,
        cpus: Vec<CpuData>,
    ) -> Result<Self, ExportError> {
        let numbers = Numbers {
            little_endian: capture.little_endian,
        };
        let header = read(&header_page_path(raw))?;
        let mut formats = formats(raw)?;
        let own = formats.remove("ftrace").unwrap_or_default();
        let sections = vec![
            (
                option::HEADER_INFO,
                numbers.header_info(&header, HEADER_EVENT.as_bytes()),
            ),
            (option::FTRACE_EVENTS, numbers.formats(&own)),
            (option::EVENT_FORMATS, numbers.systems(&formats)),
            (option::KALLSYMS, numbers.u32(0).to_vec()),
            (option::PRINTK, numbers.u32(0).to_vec()),
            (
                option::CMDLINES,
                numbers.sized(names(job.run, capture)?.as_bytes()),
            ),
        ];
        let manifest = job.run.manifest();
        let mut facts = vec![
            (
                option::CPU_COUNT,
                numbers.u32(capture.cpus.len() as u32).to_vec(),
            ),
            (
                option::VERSION,
                text(&format!("idlewave {}", manifest.idlewave)),
            ),
        ];
        if let Some(node) = manifest.nodes.first() {
            let host = &node.host;
            let uname = format!(
                "Linux {} {} {} {}",
                host.name, host.kernel, host.kernel_build, host.architecture
            );
            facts.push((option::UNAME, text(&uname)));
        }
        Ok(Self {
            numbers,
            page_size: capture.page_size,
            long_bytes: capture.long_bytes,
            sections,
            facts,
            cpus,
        })
    }

    /// Everything up to the offset of the first options, which follow immediately.
    fn head(&self) -> Vec<u8> {
        let mut head = b"\x17\x08\x44tracing7\0".to_vec();
        head.push(u8::from(!self.numbers.little_endian));
        head.push(self.long_bytes);
        head.extend(self.numbers.u32(self.page_size));
        head.extend(b"none\0\0");
        let first = head.len() as u64 + 8;
        head.extend(self.numbers.u64(first));
        head
    }

    /// The section of options, given the offsets of the other sections.
    fn options(&self, places: &[u64], buffer: u64, data: u64) -> Vec<u8> {
        let numbers = self.numbers;
        let mut options = Vec::new();
        for ((id, _), place) in self.sections.iter().zip(places) {
            options.extend(numbers.option(*id, &numbers.u64(*place)));
        }
        for (id, fact) in &self.facts {
            options.extend(numbers.option(*id, fact));
        }
        // The main buffer has no name.
        let mut of_buffer = numbers.u64(buffer).to_vec();
        of_buffer.extend(b"\0mono\0");
        of_buffer.extend(numbers.u32(self.page_size));
        of_buffer.extend(numbers.u32(self.cpus.len() as u32));
        let mut at = data;
        for cpu in &self.cpus {
            of_buffer.extend(numbers.u32(cpu.cpu.get()));
            of_buffer.extend(numbers.u64(at));
            of_buffer.extend(numbers.u64(cpu.bytes));
            at += cpu.bytes;
        }
        options.extend(numbers.option(option::BUFFER, &of_buffer));
        options.extend(numbers.option(option::DONE, &numbers.u64(0)));
        numbers.section(option::DONE, &options)
    }

    fn write(&self, job: &Job<'_>, raw: &Path, out: &mut Output) -> Result<(), ExportError> {
        let head = self.head();
        let sections: Vec<Vec<u8>> = (self.sections.iter())
            .map(|(id, content)| self.numbers.section(*id, content))
            .collect();
        // The options have the same length whatever the places are.
        let mut at = (head.len() + self.options(&vec![0; sections.len()], 0, 0).len()) as u64;
        let mut places = Vec::new();
        for section in &sections {
            places.push(at);
            at += section.len() as u64;
        }
        let begin = self.numbers.section_head(option::BUFFER, 0).len() as u64 + at;
        let data = begin.next_multiple_of(self.page_size.into());
        let bytes: u64 = self.cpus.iter().map(|cpu| cpu.bytes).sum();
        out.write(&head)?;
        out.write(&self.options(&places, at, data))?;
        for section in &sections {
            out.write(section)?;
        }
        let length = data - begin + bytes;
        out.write(&self.numbers.section_head(option::BUFFER, length))?;
        out.write(&vec![0; (data - begin) as usize])?;
        let mut done = 0;
        for cpu in &self.cpus {
            copy(
                job,
                &pages_path(raw, cpu.cpu),
                cpu.bytes,
                out,
                &mut |copied| {
                    done += copied;
                    (job.progress)(done as f64 / bytes as f64);
                },
            )?;
        }
        Ok(())
    }
}

/// Copies the first `bytes` bytes of a file.
fn copy(
    job: &Job<'_>,
    path: &Path,
    bytes: u64,
    out: &mut Output,
    copied: &mut dyn FnMut(u64),
) -> Result<(), ExportError> {
    if bytes == 0 {
        return Ok(());
    }
    let mut file = files::open(path).map_err(ExportError::io(path))?;
    let mut buffer = vec![0; CHUNK.min(bytes) as usize];
    let mut left = bytes;
    while left > 0 {
        job.go_on()?;
        let part = &mut buffer[..left.min(CHUNK) as usize];
        file.read_exact(part).map_err(ExportError::io(path))?;
        out.write(part)?;
        left -= part.len() as u64;
        copied(part.len() as u64);
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, ExportError> {
    files::read(path, LONGEST).map_err(ExportError::io(path))
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = text.replace('\0', "?").into_bytes();
    bytes.push(0);
    bytes
}

/// The descriptions of events by system, in order of their names.
fn formats(raw: &Path) -> Result<BTreeMap<String, Vec<Format>>, ExportError> {
    let mut systems = BTreeMap::new();
    for (system, directory) in entries(&raw.join("formats"))? {
        let mut formats = Vec::new();
        for (_, file) in entries(&directory)? {
            formats.push(Format(read(&file)?));
        }
        systems.insert(system, formats);
    }
    Ok(systems)
}

fn entries(directory: &Path) -> Result<BTreeMap<String, PathBuf>, ExportError> {
    let failed = || ExportError::io(directory);
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        found.insert(name, entry.path());
    }
    Ok(found)
}

/// Names of threads, one per line.
fn names(run: &RunReader, capture: &RawCapture) -> Result<String, ExportError> {
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    for task in &capture.tasks {
        names.insert(task.pid.get(), task.name.clone());
    }
    // Names in the trace are newer than the recorder's list.
    run.for_each::<Tasks>(|task| {
        if task.node == NodeId::new(0) && task.pid.get() > 0 {
            names.insert(task.pid.get(), task.name);
        }
    })?;
    let line = |(pid, name): (&u32, &String)| {
        let name = name.replace(|c: char| c.is_control(), "?");
        format!("{pid} {name}\n")
    };
    Ok(names.iter().map(line).collect())
}

/// Enters what the file does not hold.
fn enter(run: &RunReader, losses: &mut Ledger) {
    let manifest = run.manifest();
    let rows = |name: &str| {
        let table = manifest.tables.iter().find(|table| table.name == name);
        table.map_or(0, |table| table.rows)
    };
    let program = [
        Regions::NAME,
        Detours::NAME,
        Quanta::NAME,
        Calls::NAME,
        Transfers::NAME,
        Marks::NAME,
        LateSteps::NAME,
    ];
    losses.enter(
        "rows about the program: steps, gaps, calls, messages, marks, late steps",
        program.into_iter().map(rows).sum(),
        "the file holds the kernel's events only",
        "export to Perfetto's format to see both",
    );
    losses.enter(
        "nodes other than the first",
        manifest.nodes.len().saturating_sub(1) as u64,
        "the directory raw/ holds the trace of the first node",
        "export to Perfetto's format to see all nodes",
    );
    losses.enter(
        "symbols of the kernel",
        1,
        "functions and addresses in events are numbers",
        "none needed: idlewave's events name none",
    );
}
