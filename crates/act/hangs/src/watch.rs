//! Looks repeatedly at the state pages of a directory, and at those of other nodes.

use crate::assess::{Agree, Assessor, Scene, Settings};
use crate::error::WatchError;
use crate::far::Far;
use crate::look::{Initialised, Look};
use crate::pages::Pages;
use idlewave_interpose::StateProcess;
use std::path::Path;
use std::time::Instant;

/// The processes of one job.
#[derive(Debug)]
pub struct Watch {
    pages: Pages,
    assessor: Assessor,
    /// The processes on other nodes.
    pub far: Far,
    /// Their round at the previous look.
    round: u64,
}

impl Watch {
    /// Watches the pages that processes create in a directory: the one that `IDLEWAVE_STATE` in
    /// their environment names.
    pub fn new(directory: &Path) -> Self {
        Self::with(directory, Settings::default())
    }

    /// The same, with other thresholds for a verdict.
    pub fn with(directory: &Path, settings: Settings) -> Self {
        Self {
            pages: Pages::new(directory),
            assessor: Assessor::new(settings),
            far: Far::default(),
            round: 0,
        }
    }

    /// Living processes of the job on this node, as they identify themselves: PIDs are those of
    /// their own namespace.
    pub fn processes(&self) -> Vec<StateProcess> {
        self.pages.processes()
    }

    /// Progress of MPI_Init on this node. Does not count as a look.
    ///
    /// # Errors
    /// The directory or a page in it cannot be read.
    pub fn initialised(&mut self) -> Result<Initialised, WatchError> {
        self.pages.glimpse()?;
        let scene = Scene {
            now: Instant::now(),
            all: self.pages.sightings().collect(),
            agree: Agree::Here,
        };
        Ok(scene.init())
    }

    /// Whether all known ranks are in calls that may wait or have reached MPI_Finalize, none has
    /// moved since the previous glance, and other nodes report the same: then a look may find a
    /// deadlock. A glance takes a few loads per rank; a look reads whole pages and asks the kernel.
    pub fn is_still(&mut self) -> bool {
        let here = self.pages.is_still();
        let far = self.far.is_still();
        here.or(far).is_some() && here != Some(false) && far != Some(false)
    }

    /// Looks once. For other nodes it uses their answers to the last [request](Far::ask).
    ///
    /// # Errors
    /// The directory or a page in it cannot be read.
    pub fn look(&mut self) -> Result<Look, WatchError> {
        self.look_as(true)
    }

    /// Looks once between the regular looks, for deadlocks only: CPU times and polls, which count
    /// from one regular look to the next, do not change. Idle ranks are reported as making
    /// progress.
    ///
    /// # Errors
    /// The directory or a page in it cannot be read.
    pub fn look_between(&mut self) -> Result<Look, WatchError> {
        self.look_as(false)
    }

    fn look_as(&mut self, regular: bool) -> Result<Look, WatchError> {
        let now = Instant::now();
        self.pages.look(now, regular)?;
        // Whether all have answered a request sent after the previous look: what has not changed
        // since then held at the moment of asking.
        let new = self.far.is_complete() && self.far.round() > self.round;
        self.round = self.far.round();
        let scene = Scene {
            now,
            all: self.pages.sightings().chain(self.far.sightings()).collect(),
            agree: match (self.far.is_empty(), new) {
                (true, _) => Agree::Here,
                (false, true) => Agree::Twice,
                (false, false) => Agree::Never,
            },
        };
        let look = self.assessor.assess(&scene, regular);
        if regular {
            self.pages.close();
        }
        Ok(look)
    }
}
