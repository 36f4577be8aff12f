//! The sub-buffers of a trace.dat.

use super::packed::Chunks;
use super::parts::{Extent, Head, Packing};
use idlewave_ftrace::PageSource;
use idlewave_sys::files;
use idlewave_units::Cpu;
use std::cell::Cell;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Finds the sub-buffers in the file.
pub(crate) struct DatPages<'a> {
    path: &'a Path,
    extents: &'a [Extent],
    packing: Packing,
    little: bool,
    cut: Cell<u64>,
}

impl<'a> DatPages<'a> {
    pub(crate) fn new(path: &'a Path, head: &'a Head) -> Self {
        Self {
            path,
            extents: &head.extents,
            packing: head.packing,
            little: head.sheet.little_endian,
            cut: Cell::new(0),
        }
    }

    /// CPUs whose compressed data ended before its last chunk.
    pub(crate) fn cut(&self) -> u64 {
        self.cut.get()
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
        Ok(Some(match self.packing {
            Packing::Plain => Box::new(file.take(extent.size)),
            // The chunks themselves say where they end: the size that trace-cmd writes leaves out
            // the four bytes of their count.
            packing => {
                let input = BufReader::new(file);
                Box::new(Chunks::new(input, packing, self.little, &self.cut))
            }
        }))
    }

    fn path(&self, _: Cpu) -> PathBuf {
        self.path.to_owned()
    }
}
