//! Version 6: one part after the other.

use super::options::{self, BUFFER, DONE};
use super::parts::{Buffer, Extent, Packing, Parts, Told};
use crate::import::error::ImportError;
use crate::import::kernel::events::{Events, header_page, names, skip_sized};
use crate::import::kernel::input::Input;
use idlewave_ftrace::MOST_CPUS;
use idlewave_units::Cpu;
use std::fs::File;

pub(crate) fn read(input: &mut Input<'_, File>, page_size: u32) -> Result<Parts, ImportError> {
    let header = header_page(input)?;
    let mut events = Events::default();
    events.system(input, "ftrace")?;
    events.systems(input)?;
    // Addresses of functions, and formats of trace_printk.
    skip_sized(input)?;
    skip_sized(input)?;
    let names = names(input)?;
    let cpus = cpu_count(input)?;
    let mut told = Told::default();
    let mut instances = Vec::new();
    let mut kind = input.bytes(10, 10)?;
    if kind == b"options  \0" {
        loop {
            let id = input.u16()?;
            if id == DONE {
                break;
            }
            let size = input.u32()?;
            let at = input.at();
            let data = input.bytes(u64::from(size), options::LONGEST)?;
            match id {
                BUFFER => instances.extend(instance(&data, input.little)),
                _ => told.take(id, &data, (input.path(), at, input.little))?,
            }
        }
        kind = input.bytes(10, 10)?;
    }
    let mut buffers = vec![buffer(input, &kind, cpus, String::new())?];
    for (offset, name) in instances {
        input.go(offset)?;
        // Since version 3.1 of trace-cmd an instance may have other CPUs than the kernel's buffer.
        let kind = input.bytes(10, 10)?;
        buffers.push(buffer(input, &kind, cpus, name)?);
    }
    Ok(Parts {
        version: 6,
        little: input.little,
        page_size,
        header_page: Some(header),
        events,
        names,
        told,
        packing: Packing::Plain,
        buffers,
    })
}

fn cpu_count(input: &mut Input<'_, File>) -> Result<u32, ImportError> {
    let cpus = input.u32()?;
    match cpus {
        1..=MOST_CPUS => Ok(cpus),
        _ => Err(input.damaged(format!("no machine has {cpus} CPUs"))),
    }
}

/// Offset and name of an instance.
fn instance(data: &[u8], little: bool) -> Option<(u64, String)> {
    let word = *data.first_chunk::<8>()?;
    let offset = match little {
        true => u64::from_le_bytes(word),
        false => u64::from_be_bytes(word),
    };
    let name = data[8..].split(|b| *b == 0).next()?;
    Some((offset, String::from_utf8_lossy(name).into_owned()))
}

/// Offset and size of each CPU's sub-buffers.
fn buffer(
    input: &mut Input<'_, File>,
    kind: &[u8],
    cpus: u32,
    name: String,
) -> Result<Buffer, ImportError> {
    match kind {
        b"flyrecord\0" => {}
        b"latency  \0" => {
            return Err(ImportError::Lacks {
                path: input.path().to_owned(),
                what: "it holds the text of a latency tracer, not events".to_owned(),
                next: "record events: trace-cmd record -e sched -e irq".to_owned(),
            });
        }
        _ => return Err(input.damaged("`flyrecord` should stand before this place")),
    }
    let mut extents = Vec::new();
    for cpu in 0..cpus {
        let (offset, size) = (input.u64()?, input.u64()?);
        extents.push(checked(input, Cpu::new(cpu), offset, size)?);
    }
    Ok(Buffer {
        name,
        extents,
        ..Buffer::default()
    })
}

/// Checks that an extent begins within the file. One that is cut short keeps what there is.
pub(crate) fn checked(
    input: &Input<'_, File>,
    cpu: Cpu,
    offset: u64,
    size: u64,
) -> Result<Extent, ImportError> {
    if size > 0 && offset >= input.length() {
        return Err(input.damaged(format!(
            "the data of CPU {cpu} should begin at byte {offset}, where the file has ended,"
        )));
    }
    Ok(Extent { cpu, offset, size })
}
