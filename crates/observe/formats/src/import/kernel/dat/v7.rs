//! Version 7: sections, found by options.

use super::options::{self, BUFFER, CMDLINES, DONE, EVENT_FORMATS, FTRACE_EVENTS, HEADER_INFO};
use super::packed;
use super::parts::{Buffer, Packing, Parts, Told};
use super::v6::checked;
use crate::import::error::ImportError;
use crate::import::kernel::events::{Events, header_page, names};
use crate::import::kernel::input::Input;
use idlewave_ftrace::MOST_CPUS;
use idlewave_units::Cpu;
use std::fs::File;
use std::io::Cursor;

/// Flag of a section: compressed.
const PACKED: u16 = 1;
/// Limit on the sections of options: a file has a handful, more means a cycle.
const MOST_SECTIONS: usize = 1 << 10;
/// Longest section other than sub-buffers: descriptions of some thousand events.
const LONGEST: u64 = 256 << 20;
/// Bytes of one CPU in the option BUFFER.
const PER_CPU: u64 = 20;

pub(crate) fn read(input: &mut Input<'_, File>, page_size: u32) -> Result<Parts, ImportError> {
    let name = input.text(64)?;
    let version = input.text(64)?;
    let packing = match name.as_str() {
        "none" => Packing::Plain,
        "zlib" => Packing::Zlib,
        "zstd" => Packing::Zstd,
        _ => {
            return Err(ImportError::Format {
                path: input.path().to_owned(),
                reason: format!("it is compressed with {name} {version}, which is not known"),
                next: "convert it: trace-cmd convert -i FILE -o NEW --compression none".to_owned(),
            });
        }
    };
    let mut parts = Parts {
        version: 7,
        little: input.little,
        page_size,
        header_page: None,
        events: Events::default(),
        names: Vec::new(),
        told: Told::default(),
        packing,
        buffers: Vec::new(),
    };
    let mut next = input.u64()?;
    let mut sections = 0;
    while next != 0 {
        sections += 1;
        if sections > MOST_SECTIONS {
            return Err(input.damaged("the sections of options have no end"));
        }
        next = options(input, next, &mut parts)?;
    }
    Ok(parts)
}

/// Reads a section of options and returns where the next one is, 0 for none.
fn options(
    input: &mut Input<'_, File>,
    offset: u64,
    parts: &mut Parts,
) -> Result<u64, ImportError> {
    let section = section(input, offset, options::DONE, parts.packing)?;
    let mut inner = reader(input, offset, &section);
    while inner.left() > 0 {
        let id = inner.u16()?;
        let size = inner.u32()?;
        let at = inner.at();
        let data = inner.bytes(u64::from(size), options::LONGEST)?;
        let mut word = Input::new(
            Cursor::new(&data[..]),
            input.path(),
            offset + at,
            data.len() as u64,
        );
        word.little = input.little;
        match id {
            DONE => return word.u64(),
            BUFFER => parts.buffers.push(buffer(input, &mut word)?),
            HEADER_INFO | FTRACE_EVENTS | EVENT_FORMATS | CMDLINES => {
                let place = word.u64()?;
                part(input, id, place, parts)?;
            }
            _ => parts
                .told
                .take(id, &data, (input.path(), offset + at, input.little))?,
        }
    }
    Ok(0)
}

fn part(
    input: &mut Input<'_, File>,
    id: u16,
    offset: u64,
    parts: &mut Parts,
) -> Result<(), ImportError> {
    let section = section(input, offset, id, parts.packing)?;
    let mut inner = reader(input, offset, &section);
    match id {
        HEADER_INFO => parts.header_page = Some(header_page(&mut inner)?),
        FTRACE_EVENTS => parts.events.system(&mut inner, "ftrace")?,
        EVENT_FORMATS => parts.events.systems(&mut inner)?,
        _ => parts.names = names(&mut inner)?,
    }
    Ok(())
}

fn reader<'p, 'b>(
    input: &Input<'p, File>,
    offset: u64,
    section: &'b [u8],
) -> Input<'p, Cursor<&'b [u8]>> {
    let length = section.len() as u64;
    let mut inner = Input::new(Cursor::new(section), input.path(), offset, length);
    inner.little = input.little;
    inner
}

/// The content of a section, unpacked.
fn section(
    input: &mut Input<'_, File>,
    offset: u64,
    id: u16,
    packing: Packing,
) -> Result<Vec<u8>, ImportError> {
    input.go(offset)?;
    let found = input.u16()?;
    if found != id {
        return Err(input.damaged(format!("section {found} stands where section {id} should")));
    }
    let flags = input.u16()?;
    // A description, for readers that print it.
    input.u32()?;
    let size = input.u64()?;
    if flags & PACKED == 0 {
        return input.bytes(size, LONGEST);
    }
    let inside = input.u32()?;
    let outside = u64::from(input.u32()?);
    if outside > LONGEST {
        return Err(input.damaged(format!("a section of {outside} bytes is too long")));
    }
    let bytes = input.bytes(u64::from(inside), LONGEST)?;
    packed::unpack(packing, &bytes, outside)
        .map_err(|reason| input.damaged(format!("a compressed section is damaged: {reason}")))
}

fn buffer(
    input: &mut Input<'_, File>,
    option: &mut Input<'_, Cursor<&[u8]>>,
) -> Result<Buffer, ImportError> {
    let offset = option.u64()?;
    let name = option.text(256)?;
    let clock = option.text(256)?;
    // The manual page omits the size of sub-buffers here; files have it.
    let page_size = match option.left() % PER_CPU {
        8 => Some(option.u32()?),
        _ => None,
    };
    let cpus = option.u32()?;
    if cpus > MOST_CPUS {
        return Err(option.damaged(format!("no machine has {cpus} CPUs")));
    }
    let mut extents = Vec::new();
    for _ in 0..cpus {
        let cpu = option.u32()?;
        if cpu >= MOST_CPUS {
            return Err(option.damaged(format!("no machine has a CPU {cpu}")));
        }
        let (begin, size) = (option.u64()?, option.u64()?);
        extents.push(checked(input, Cpu::new(cpu), begin, size)?);
    }
    // The section's own header says whether it is compressed.
    input.go(offset)?;
    input.u16()?;
    let flags = input.u16()?;
    Ok(Buffer {
        name,
        clock: Some(clock),
        page_size,
        packed: flags & PACKED != 0,
        extents,
    })
}
