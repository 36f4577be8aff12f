//! The sub-buffers of a trace.dat.

use super::packed::Chunks;
use super::{Extent, Head, Packing};
use idlewave_ftrace::PageSource;
use idlewave_sys::files;
use idlewave_units::Cpu;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Finds them in the file.
pub(crate) struct DatPages<'a> {
    path: &'a Path,
    extents: &'a [Extent],
    packing: Packing,
    little: bool,
}

impl<'a> DatPages<'a> {
    pub(crate) fn new(path: &'a Path, head: &'a Head) -> Self {
        Self {
            path,
            extents: &head.extents,
            packing: head.packing,
            little: head.sheet.little_endian,
        }
    }
}

impl PageSource for DatPages<'_> {
    fn open(&mut self, cpu: Cpu) -> io::Result<Option<Box<dyn Read + '_>>> {
        let Some(extent) = self.extents.iter().find(|e| e.cpu == cpu) else {
            return Ok(None);
        };
        if extent.size == 0 {
            return Ok(Some(Box::new(io::empty())));
        }
        let mut file = files::open(self.path)?;
        file.seek(SeekFrom::Start(extent.offset))?;
        let part = file.take(extent.size);
        Ok(Some(match self.packing {
            Packing::Plain => Box::new(part),
            packing => Box::new(Chunks::new(BufReader::new(part), packing, self.little)),
        }))
    }

    fn path(&self, _: Cpu) -> PathBuf {
        self.path.to_owned()
    }
}
