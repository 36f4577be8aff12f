//! Turns the directory `raw/` of a recording into the tables of a run.

use crate::format::{EventFormat, HeaderPage};
use crate::markers::MARKER_EVENT;
use crate::pages::{MOST_PAGE_BYTES, PageSheet, PageSource, decode_pages};
use crate::{DecodeSummary, EVENTS, FtraceError, RawCapture, SYSCALLS, SeenTask};
use crate::{capture_path, format_path, header_page_path, pages_path};
use idlewave_run::RunWriter;
use idlewave_sys::files;
use idlewave_units::{Cpu, NodeId};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Writes the tables of a capture into a run, as [`decode_pages`] does.
///
/// # Errors
/// [`FtraceError::Capture`] if `capture.json` is invalid or rules out decoding (such as by a clock
/// other than `mono`), [`FtraceError::Format`] if a format file is malformed, [`FtraceError::Io`]
/// if a file cannot be read, and [`FtraceError::Run`] if a table cannot be written.
pub fn decode_capture(
    raw_dir: &Path,
    node: NodeId,
    out: &mut RunWriter,
    stop: &AtomicBool,
    progress: &dyn Fn(f64),
) -> Result<DecodeSummary, FtraceError> {
    decode_capture_with(raw_dir, node, out, stop, progress, |_| ())
}

/// The same; `settle` may correct the kinds and processes of the threads.
///
/// # Errors
/// As for [`decode_capture`].
pub fn decode_capture_with(
    raw_dir: &Path,
    node: NodeId,
    out: &mut RunWriter,
    stop: &AtomicBool,
    progress: &dyn Fn(f64),
    settle: impl FnOnce(&mut [SeenTask]),
) -> Result<DecodeSummary, FtraceError> {
    let capture = RawCapture::load(raw_dir)?;
    let header = read_header(raw_dir)?;
    check(&capture, &header, raw_dir)?;
    let formats = read_formats(raw_dir)?;
    let sheet = PageSheet {
        page_size: capture.page_size,
        header,
        little_endian: capture.little_endian,
        formats,
        scale: None,
        on_ns: Some(capture.on_ns),
        off_ns: capture.off_ns,
        bytes: total_bytes(raw_dir, &capture.cpus),
        cpus: capture.cpus,
        stats: capture.stats,
        tasks: capture.tasks,
        foreign: false,
    };
    let mut source = Directory(raw_dir);
    decode_pages(&sheet, &mut source, node, out, stop, progress, settle)
}

/// The files of a directory `raw/`.
struct Directory<'a>(&'a Path);

impl PageSource for Directory<'_> {
    fn open(&mut self, cpu: Cpu) -> io::Result<Option<Box<dyn Read + '_>>> {
        match files::open(&self.path(cpu)) {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
    fn path(&self, cpu: Cpu) -> PathBuf {
        pages_path(self.0, cpu)
    }
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
    if capture.page_size <= header.data || capture.page_size > MOST_PAGE_BYTES {
        let size = capture.page_size;
        return refuse(format!("no sub-buffer has a size of {size} bytes"));
    }
    if !capture.cpus.is_sorted_by(|a, b| a < b) {
        return refuse("the CPUs are not in ascending order".to_owned());
    }
    Ok(())
}

/// The formats that the capture has.
fn read_formats(raw_dir: &Path) -> Result<Vec<EventFormat>, FtraceError> {
    let mut formats = Vec::new();
    for &event in EVENTS.iter().chain(SYSCALLS).chain([&MARKER_EVENT]) {
        formats.extend(read_format(raw_dir, event)?);
    }
    Ok(formats)
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

#[cfg(test)]
#[path = "decode_tests/mod.rs"]
mod tests;
