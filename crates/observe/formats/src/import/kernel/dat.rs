//! Files of trace-cmd, versions 6 and 7.
//!
//! Both hold the kernel's own descriptions of its events and the sub-buffers of every CPU as they
//! left the ring buffer. Version 6 is one sequence, version 7 has sections, which may be
//! compressed. Source: trace-cmd.dat.v6(5), trace-cmd.dat.v7(5). In the option BUFFER of version 7,
//! a sub-buffer size comes between the clock and the number of CPUs; the manual page omits it.

mod options;
mod packed;
mod pages;
mod parts;
mod v6;
mod v7;

use crate::import::detect::DAT_MAGIC;
use crate::import::error::ImportError;
use crate::import::kernel::input::Input;
use idlewave_ftrace::{PageSheet, RawTask};
use idlewave_run::Ledger;
use idlewave_sys::files;
use idlewave_units::Pid;
use parts::{Packing, Parts};
use std::fs::File;
use std::path::Path;

pub(crate) use pages::DatPages;
pub use parts::Head;

/// Reads all of a trace.dat but its sub-buffers.
///
/// # Errors
/// It cannot be read or is damaged, or its version, clock or compression is not known.
pub fn read_head(path: &Path) -> Result<Head, ImportError> {
    let file = files::open(path).map_err(ImportError::io(path))?;
    let length = file.metadata().map_err(ImportError::io(path))?.len();
    let mut input = Input::new(file, path, 0, length);
    let parts = read_parts(&mut input)?;
    let mut head = head(path, parts)?;
    let ends = head.extents.iter().map(|e| e.offset.saturating_add(e.size));
    head.losses.enter(
        "CPUs whose data reaches beyond the end of the file",
        ends.filter(|end| *end > length).count() as u64,
        "the last events of these CPUs are missing",
        "copy the file again from where it was recorded",
    );
    Ok(head)
}

fn read_parts(input: &mut Input<'_, File>) -> Result<Parts, ImportError> {
    input.expect(DAT_MAGIC)?;
    let version = input.text(16)?;
    input.little = match input.u8()? {
        0 => true,
        1 => false,
        other => return Err(input.damaged(format!("{other} is no byte order"))),
    };
    // Size of a `long` in the recording program; the kernel's is in header_page.
    input.u8()?;
    let page_size = input.u32()?;
    match version.as_str() {
        "6" => v6::read(input, page_size),
        "7" => v7::read(input, page_size),
        _ => Err(ImportError::Format {
            path: input.path().to_owned(),
            reason: format!("version {version} of trace.dat is not known, only 6 and 7 are"),
            next: "convert it: trace-cmd convert -i FILE -o NEW --file-version 7".to_owned(),
        }),
    }
}

/// Clocks that count nanoseconds (Documentation/trace/ftrace.rst, "trace_clock").
const NANOSECONDS: &[&str] = &["local", "global", "perf", "mono", "mono_raw", "boot", "tai"];

fn head(path: &Path, parts: Parts) -> Result<Head, ImportError> {
    let lacks = |what: String, next: &str| ImportError::Lacks {
        path: path.to_owned(),
        what,
        next: next.to_owned(),
    };
    let mut losses = Ledger::default();
    let mut buffers = parts.buffers;
    buffers.sort_by_key(|b| std::cmp::Reverse(b.bytes()));
    let others = buffers.iter().skip(1).filter(|b| b.bytes() > 0).count();
    losses.enter(
        "trace instances of the file other than the largest",
        others as u64,
        "they are not imported",
        "export them into files of their own with trace-cmd split or convert",
    );
    let buffer = buffers.into_iter().next().filter(|b| b.bytes() > 0);
    let buffer = buffer.ok_or_else(|| {
        let next = "record again: trace-cmd record -e sched -e irq -e irq_vectors";
        lacks("it has no trace data".to_owned(), next)
    })?;
    let clock = buffer.clock.filter(|c| !c.is_empty());
    let clock = clock.or(parts.told.clock).unwrap_or("local".to_owned());
    let scale = parts.told.scale;
    if scale.is_none() && !NANOSECONDS.contains(&clock.as_str()) {
        let what = format!("its trace clock `{clock}` does not count nanoseconds");
        return Err(lacks(what, "record with trace-cmd record -C mono"));
    }
    losses.enter(
        "times of a guest, not converted to its host's",
        u64::from(parts.told.guest),
        "they cannot be compared with a trace of the host",
        "none needed if the guest alone is of interest",
    );
    let header = match &parts.header_page {
        Some(text) => idlewave_ftrace::format::HeaderPage::parse(path, text)?,
        None => idlewave_ftrace::format::HeaderPage::LONG64,
    };
    let page_size = buffer.page_size.unwrap_or(parts.page_size);
    if page_size <= header.data || page_size > idlewave_ftrace::MOST_PAGE_BYTES {
        let what = format!("no sub-buffer has a size of {page_size} bytes");
        return Err(lacks(
            what,
            "copy the file again from where it was recorded",
        ));
    }
    let mut extents = buffer.extents;
    extents.sort_by_key(|e| e.cpu);
    extents.dedup_by_key(|e| e.cpu);
    let sheet = PageSheet {
        page_size,
        header,
        little_endian: parts.little,
        formats: parts.events.formats,
        scale,
        cpus: extents.iter().map(|e| e.cpu).collect(),
        on_ns: None,
        off_ns: None,
        stats: parts.told.stats,
        tasks: tasks(parts.names, &parts.told.processes),
        bytes: extents.iter().map(|e| e.size).sum(),
        foreign: true,
    };
    Ok(Head {
        sheet,
        packing: match buffer.packed {
            true => parts.packing,
            false => Packing::Plain,
        },
        extents,
        clock,
        uname: parts.told.uname,
        version: parts.version,
        losses,
    })
}

fn tasks(names: Vec<(Pid, String)>, processes: &[(Pid, Pid)]) -> Vec<RawTask> {
    let processes: std::collections::BTreeMap<Pid, Pid> = processes.iter().copied().collect();
    let task = |(pid, name)| RawTask {
        pid,
        process: processes.get(&pid).copied(),
        name,
        kernel: false,
        rank: false,
        own: false,
        program: false,
    };
    names.into_iter().map(task).collect()
}
