//! Freezes and thaws a cgroup while another thread moves processes into it.

use crate::control::{self, Control};
use crate::error::FreezeError;
use crate::watchdog::Line;
use idlewave_units::{Nanos, Pid};
use std::sync::Arc;

/// A completed freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// From the order to the confirmation.
    pub after: Nanos,
}

/// Freezes and thaws the processes of a [`crate::Group`] that belongs to another thread, which may
/// add processes: a process that enters a frozen cgroup is frozen. Without the group the brake has
/// no effect.
#[derive(Clone, Debug)]
pub struct Brake {
    pub(crate) control: Arc<Control>,
    pub(crate) line: Option<Line>,
}

impl Brake {
    /// Like [`crate::Group::freeze`], under the watchdog that the group had when this was created.
    ///
    /// # Errors
    /// As for [`crate::Group::freeze`].
    pub fn freeze(&self, limit: Nanos) -> Result<Frozen, FreezeError> {
        if let Some(line) = &self.line {
            line.check()?;
        }
        let after = self.control.freeze(limit)?;
        if let Some(Err(over)) = self.line.as_ref().map(Line::check) {
            // If this process was stopped in between, it has frozen what a watchdog had thawed.
            self.control.thaw()?;
            return Err(over);
        }
        Ok(Frozen { after })
    }

    /// Like [`crate::Group::thaw`].
    ///
    /// # Errors
    /// As for [`crate::Group::thaw`].
    pub fn thaw(&self) -> Result<Nanos, FreezeError> {
        self.control.thaw()
    }

    /// The current processes of the group, ascending.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn members(&self) -> Result<Vec<Pid>, FreezeError> {
        let mut members = control::members(self.control.directory())?;
        members.sort();
        Ok(members)
    }
}
