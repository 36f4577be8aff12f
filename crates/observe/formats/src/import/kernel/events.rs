//! The descriptions of events in a trace.dat, and in the part of a perf.data that is laid out like
//! one.

use crate::import::error::ImportError;
use crate::import::kernel::input::Input;
use idlewave_ftrace::format::EventFormat;
use idlewave_ftrace::{MARKER_EVENT, understood};
use idlewave_units::Pid;
use std::io::{Read, Seek};

/// Longest description of one event: the kernel's have less than 64 KiB.
const LONGEST: u64 = 1 << 20;
/// Limit on the events of one system; kernels have some thousand in all.
const MOST: u32 = 1 << 16;
/// Longest list of names.
const LONGEST_LIST: u64 = 64 << 20;

/// Descriptions of the events that the timeline uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    pub(crate) formats: Vec<EventFormat>,
}

impl Events {
    /// Reads descriptions of events of one system: a count, then size and text of each.
    pub(crate) fn system<R: Read + Seek>(
        &mut self,
        input: &mut Input<'_, R>,
        system: &str,
    ) -> Result<(), ImportError> {
        let count = input.u32()?;
        if count > MOST {
            return Err(input.damaged(format!("{count} events of one system are too many")));
        }
        for _ in 0..count {
            let size = input.u64()?;
            let text = input.bytes(size, LONGEST)?;
            let text = String::from_utf8_lossy(&text);
            let name = text.lines().find_map(|l| l.trim().strip_prefix("name:"));
            let name = name.unwrap_or("").trim();
            let mut used = understood().chain([MARKER_EVENT]);
            if used.any(|event| event == (system, name)) {
                self.formats.push(EventFormat::parse(input.path(), &text)?);
            }
        }
        Ok(())
    }

    /// Reads the descriptions of all systems but `ftrace`: a count, then the name and the events of
    /// each.
    pub(crate) fn systems<R: Read + Seek>(
        &mut self,
        input: &mut Input<'_, R>,
    ) -> Result<(), ImportError> {
        let count = input.u32()?;
        if count > MOST {
            return Err(input.damaged(format!("{count} systems of events are too many")));
        }
        for _ in 0..count {
            let name = input.text(256)?;
            self.system(input, &name)?;
        }
        Ok(())
    }
}

/// `header_page` and `header_event`, the layouts of a sub-buffer and of an event's head.
pub(crate) fn header_page<R: Read + Seek>(input: &mut Input<'_, R>) -> Result<String, ImportError> {
    input.expect(b"header_page\0")?;
    let size = input.u64()?;
    let text = input.bytes(size, LONGEST)?;
    input.expect(b"header_event\0")?;
    let size = input.u64()?;
    input.skip(size)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Names of threads: a size, then lines `PID NAME`.
pub(crate) fn names<R: Read + Seek>(
    input: &mut Input<'_, R>,
) -> Result<Vec<(Pid, String)>, ImportError> {
    let size = input.u64()?;
    let text = input.bytes(size, LONGEST_LIST)?;
    let text = String::from_utf8_lossy(&text);
    let line = |line: &str| {
        let (pid, name) = line.trim_start().split_once(' ')?;
        Some((Pid::new(pid.parse().ok()?), name.to_owned()))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// Skips an unused part with a 32-bit size.
pub(crate) fn skip_sized<R: Read + Seek>(input: &mut Input<'_, R>) -> Result<(), ImportError> {
    let size = input.u32()?;
    input.skip(u64::from(size))
}
