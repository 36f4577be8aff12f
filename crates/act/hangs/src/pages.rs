//! The state pages in a directory: those of one job's processes on this node.

use crate::error::WatchError;
use crate::process::{Kernel, Kernels};
use crate::sighting::Sighting;
use idlewave_interpose::state::EXTENSION;
use idlewave_interpose::{InterposeError, StatePage, StateProcess};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Reads pages repeatedly.
#[derive(Debug)]
pub(crate) struct Pages {
    directory: PathBuf,
    kernels: Kernels,
    pages: BTreeMap<OsString, Tracked>,
    pub(crate) looks: u64,
}

/// A page with earlier observations.
#[derive(Debug)]
struct Tracked {
    page: StatePage,
    /// Its number, in order of discovery.
    number: u32,
    /// The epoch at the previous glance.
    glanced: Option<u64>,
    seen: Sighting,
}

impl Pages {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            kernels: Kernels::here(),
            pages: BTreeMap::new(),
            looks: 0,
        }
    }

    /// Observations of all processes.
    pub(crate) fn sightings(&self) -> impl Iterator<Item = &Sighting> {
        self.pages.values().map(|of| &of.seen)
    }

    /// The same, with the numbers of their pages.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &Sighting)> {
        self.pages.values().map(|of| (of.number, &of.seen))
    }

    /// Living processes, as they identify themselves.
    pub(crate) fn processes(&self) -> Vec<StateProcess> {
        let there = self.sightings().filter(|of| of.gone.is_none());
        there.map(|of| of.process.clone()).collect()
    }

    /// Reads the records without their epochs and asks the kernel: enough to know the phases of
    /// processes.
    pub(crate) fn glimpse(&mut self) -> Result<(), WatchError> {
        self.find()?;
        for of in self.pages.values_mut() {
            of.page.read(&mut of.seen.record);
            of.seen.kernel = self.kernels.ask(&of.seen.process);
        }
        Ok(())
    }

    /// Whether all known processes are in calls that may wait or have reached MPI_Finalize, and
    /// none has moved since the previous glance; `None` without processes.
    pub(crate) fn is_still(&mut self) -> Option<bool> {
        let mut still = None;
        for of in self.pages.values_mut().filter(|of| of.seen.gone.is_none()) {
            let epoch = of.page.epoch();
            let same = of.glanced.replace(epoch) == Some(epoch);
            let waits = same && epoch % 2 == 0 && of.page.may_wait();
            still = Some(still.unwrap_or(true) && waits);
        }
        still
    }

    /// Looks once. Afterwards all [sightings](Self::sightings) are of one moment, except records
    /// whose epochs differ.
    ///
    /// # Errors
    /// The directory, or a new page in it, cannot be read. Known pages were read nevertheless.
    pub(crate) fn look(&mut self, now: Instant, regular: bool) -> Result<(), WatchError> {
        let found = self.find();
        self.looks += 1;
        // All first epochs before all records, and those before all second epochs.
        for of in self.pages.values_mut() {
            of.seen.record.epochs[0] = of.page.epoch();
        }
        for of in self.pages.values_mut() {
            of.page.read(&mut of.seen.record);
        }
        for of in self.pages.values_mut() {
            of.seen.record.epochs[1] = of.page.close();
        }
        for of in self.pages.values_mut() {
            of.ask(&self.kernels, self.looks, now);
            of.seen.track(now, self.looks, regular);
        }
        found
    }

    /// Ends a regular look: the next one counts from here.
    pub(crate) fn close(&mut self) {
        for of in self.pages.values_mut() {
            of.seen.cpu_before = of.seen.cpu();
        }
    }

    /// Opens new pages.
    fn find(&mut self) -> Result<(), WatchError> {
        let directory = |source| WatchError::Directory {
            path: self.directory.clone(),
            source,
        };
        for entry in std::fs::read_dir(&self.directory).map_err(directory)? {
            let path = entry.map_err(directory)?.path();
            let name = path.file_name().unwrap_or_default().to_owned();
            if path.extension().is_none_or(|e| e != EXTENSION) || self.pages.contains_key(&name) {
                continue;
            }
            let page = match StatePage::open(&path) {
                Ok(page) => page,
                Err(InterposeError::NotReady(_)) => continue,
                Err(InterposeError::File { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound =>
                {
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let seen = Sighting::new(page.process(), self.looks + 1);
            let new = Tracked {
                page,
                number: self.pages.len() as u32,
                glanced: None,
                seen,
            };
            self.pages.insert(name, new);
        }
        Ok(())
    }
}

impl Tracked {
    /// Asks the kernel after the page was read. A process that is gone by now may have written to
    /// its page since, so this reads the page again.
    fn ask(&mut self, kernels: &Kernels, look: u64, now: Instant) {
        if self.seen.gone.is_some() {
            return;
        }
        self.seen.kernel = kernels.ask(&self.seen.process);
        if self.seen.kernel == Kernel::Gone {
            (self.seen.gone, self.seen.gone_at) = (Some(look), Some(now));
            self.seen.record.epochs[0] = self.page.epoch();
            self.page.read(&mut self.seen.record);
            self.seen.record.epochs[1] = self.page.close();
        }
    }
}
