//! Looks at the state pages of a directory again and again, and at those of other nodes.

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
    /// Those of other nodes.
    pub far: Far,
    /// The round of theirs at the look before.
    round: u64,
}

impl Watch {
    /// Watches the pages that processes make in a directory: that of `IDLEWAVE_STATE` in their environment.
    pub fn new(directory: &Path) -> Self {
        Self::with(directory, Settings::default())
    }

    /// The same, with other demands on a verdict.
    pub fn with(directory: &Path, settings: Settings) -> Self {
        Self {
            pages: Pages::new(directory),
            assessor: Assessor::new(settings),
            far: Far::default(),
            round: 0,
        }
    }

    /// Processes of the job that are there on this node, by what they say of themselves: their numbers are those of their own namespace.
    pub fn processes(&self) -> Vec<StateProcess> {
        self.pages.processes()
    }

    /// How far MPI_Init is on this node. It looks at phases only.
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

    /// Whether all ranks that are known are in calls that may wait, the same as at the glance before, and other nodes say the same of theirs: a look may
    /// find a deadlock. Some loads per rank, where a look reads all of a page and asks the kernel.
    pub fn is_still(&mut self) -> bool {
        let here = self.pages.is_still();
        let far = self.far.is_still();
        here.or(far).is_some() && here != Some(false) && far != Some(false)
    }

    /// Looks once. Of other nodes it takes what they said when they were [asked](Far::ask) last.
    ///
    /// # Errors
    /// The directory or a page in it cannot be read.
    pub fn look(&mut self) -> Result<Look, WatchError> {
        self.look_as(true)
    }

    /// Looks once between the looks that come at regular times, for a deadlock alone: what those count from one to the next, CPU time and looks at
    /// which ranks polled, does not change by it. Of ranks that only do nothing it says that they make progress.
    ///
    /// # Errors
    /// The directory or a page in it cannot be read.
    pub fn look_between(&mut self) -> Result<Look, WatchError> {
        self.look_as(false)
    }

    fn look_as(&mut self, regular: bool) -> Result<Look, WatchError> {
        let now = Instant::now();
        self.pages.look(now, regular)?;
        // All have answered what was asked after the look before: what is the same as then was so at the moment of asking.
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
