//! Freezing a control group and thawing it, while somebody else moves processes into it.

use crate::control::{self, Control};
use crate::error::FreezeError;
use crate::group::Frozen;
use crate::watchdog::Line;
use idlewave_units::{Nanos, Pid};
use std::sync::Arc;

/// Freezes and thaws the processes of a [`crate::Group`] that another thread has, and adds to: a process that comes into a frozen control
/// group is frozen. When the group is gone, so is what this can do.
#[derive(Clone, Debug)]
pub struct Brake {
    pub(crate) control: Arc<Control>,
    pub(crate) line: Option<Line>,
}

impl Brake {
    /// As [`crate::Group::freeze`], under the watchdog that the group had when this was taken.
    ///
    /// # Errors
    /// As there.
    pub fn freeze(&self, limit: Nanos) -> Result<Frozen, FreezeError> {
        if let Some(line) = &self.line {
            line.check()?;
        }
        let after = self.control.freeze(limit)?;
        Ok(Frozen { after })
    }

    /// As [`crate::Group::thaw`].
    ///
    /// # Errors
    /// As there.
    pub fn thaw(&self) -> Result<Nanos, FreezeError> {
        self.control.thaw()
    }

    /// The processes in it now, ascending.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn members(&self) -> Result<Vec<Pid>, FreezeError> {
        let mut members = control::members(self.control.directory())?;
        members.sort();
        Ok(members)
    }
}
