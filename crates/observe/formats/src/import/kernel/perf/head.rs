//! What comes before and after the records of a perf.data.

use super::attrs::{self, Attributes};
use super::facts::{self, Facts, TRACING_DATA};
use crate::import::error::ImportError;
use crate::import::kernel::events::{Events, header_page, names, skip_sized};
use crate::import::kernel::input::Input;
use idlewave_ftrace::format::EventFormat;
use idlewave_units::Pid;
use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::path::Path;

/// First bytes of a perf.data, as a little-endian machine writes them and as a big-endian one does.
pub(crate) const MAGIC: [&[u8]; 2] = [b"PERFILE2", b"2ELIFREP"];
/// Size of the header that perf writes into a pipe, which has no other.
const PIPE: u64 = 16;
/// Size of the header of a file.
const FILE: u64 = 104;
/// Size of the position and size of a section.
const SECTION: u64 = 16;
/// Longest descriptions of events; kernels have a few MiB.
pub(crate) const LONGEST_TRACING: u64 = 64 << 20;

/// Where a section is.
#[derive(Clone, Copy, Debug)]
struct Section {
    at: u64,
    size: u64,
}

impl Section {
    fn read<R: Read + Seek>(input: &mut Input<'_, R>) -> Result<Self, ImportError> {
        Ok(Self {
            at: input.u64()?,
            size: input.u64()?,
        })
    }
}

/// Descriptions of tracepoints, and names of threads.
#[derive(Debug, Default)]
pub(crate) struct Tracing {
    pub(crate) formats: Vec<EventFormat>,
    pub(crate) names: Vec<(Pid, String)>,
}

impl Tracing {
    /// Reads what perf took from tracefs, laid out as in a trace.dat.
    pub(crate) fn read(path: &Path, at: u64, data: &[u8]) -> Result<Self, ImportError> {
        let mut input = Input::new(Cursor::new(data), path, at, data.len() as u64);
        input.expect(crate::import::detect::DAT_MAGIC)?;
        let version = input.text(16)?;
        input.little = input.u8()? == 0;
        // Size of a `long`, and that of a page.
        input.u8()?;
        input.u32()?;
        header_page(&mut input)?;
        let mut events = Events::default();
        events.system(&mut input, "ftrace")?;
        events.systems(&mut input)?;
        // Addresses of functions, and formats of trace_printk.
        skip_sized(&mut input)?;
        skip_sized(&mut input)?;
        // Since version 0.6.
        let names = match version.as_str() < "0.6" {
            true => Vec::new(),
            false => names(&mut input)?,
        };
        Ok(Self {
            formats: events.formats,
            names,
        })
    }
}

/// Everything but the records.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) little: bool,
    /// Whether the records describe themselves.
    pub(crate) pipe: bool,
    /// Where the records begin, and how many bytes they take.
    pub(crate) data: (u64, u64),
    pub(crate) attributes: Attributes,
    pub(crate) facts: Facts,
    /// `None` if the file has none here.
    pub(crate) tracing: Option<Tracing>,
}

impl Head {
    /// Reads all of a file but its records.
    pub(crate) fn read(file: File, path: &Path) -> Result<Self, ImportError> {
        let length = file.metadata().map_err(ImportError::io(path))?.len();
        let mut input = Input::new(file, path, 0, length);
        let magic = input.bytes(8, 8)?;
        input.little = magic == MAGIC[0];
        let size = input.u64()?;
        let mut head = Self {
            little: input.little,
            pipe: size == PIPE,
            data: (PIPE, length.saturating_sub(PIPE)),
            attributes: Attributes::default(),
            facts: Facts::default(),
            tracing: None,
        };
        match size {
            PIPE => {}
            FILE => head.of_file(&mut input)?,
            other => {
                return Err(input.damaged(format!("no perf.data has a header of {other} bytes")));
            }
        }
        Ok(head)
    }

    fn of_file(&mut self, input: &mut Input<'_, File>) -> Result<(), ImportError> {
        let attr_size = input.u64()?;
        let attributes = Section::read(input)?;
        let data = Section::read(input)?;
        // Event types, which perf has not written since 2013.
        Section::read(input)?;
        let features = [input.u64()?, input.u64()?, input.u64()?, input.u64()?];
        self.attributes(input, attributes, attr_size)?;
        let rest = input.length().saturating_sub(data.at);
        // A recorder that was killed leaves a size of 0.
        self.data = (data.at, if data.size == 0 { rest } else { data.size });
        if data.size == 0 || data.size > rest {
            return Ok(());
        }
        input.go(data.at + data.size)?;
        let numbers = (0..256).filter(|n| features[n / 64] >> (n % 64) & 1 == 1);
        let mut sections = Vec::new();
        for number in numbers {
            if input.left() < SECTION {
                return Ok(());
            }
            sections.push((number as u32, Section::read(input)?));
        }
        for (number, section) in sections {
            self.feature(input, number, section)?;
        }
        Ok(())
    }

    fn attributes(
        &mut self,
        input: &mut Input<'_, File>,
        section: Section,
        entry: u64,
    ) -> Result<(), ImportError> {
        let size = entry.saturating_sub(SECTION);
        if !(attrs::SHORTEST..=attrs::LONGEST).contains(&size) {
            return Err(input.damaged(format!("no attribute of an event has {size} bytes")));
        }
        for n in 0..section.size / entry {
            input.go(section.at.saturating_add(n * entry))?;
            let attr = input.bytes(size, size)?;
            let ids = Section::read(input)?;
            input.go(ids.at)?;
            let ids = input.bytes(ids.size, facts::LONGEST)?;
            if !self.add(&attr, &ids) {
                return Err(input.damaged("there are too many events"));
            }
        }
        Ok(())
    }

    /// Adds an attribute with the IDs of its events.
    fn add(&mut self, attr: &[u8], ids: &[u8]) -> bool {
        match self.little {
            true => self.attributes.read::<true>(attr, ids),
            false => self.attributes.read::<false>(attr, ids),
        }
    }

    fn feature(
        &mut self,
        input: &mut Input<'_, File>,
        number: u32,
        section: Section,
    ) -> Result<(), ImportError> {
        if number == TRACING_DATA && section.at < input.length() {
            input.go(section.at)?;
            let data = input.bytes(section.size, LONGEST_TRACING)?;
            self.tracing = Some(Tracing::read(input.path(), section.at, &data)?);
        } else if Facts::uses(number) && section.at < input.length() {
            input.go(section.at)?;
            if let Ok(data) = input.bytes(section.size, facts::LONGEST) {
                self.facts.take(number, &data, self.little);
            }
        }
        Ok(())
    }
}
