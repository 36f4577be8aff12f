//! The place of a message whose receive is known.

use crate::done::{Context, Receive};
use crate::room::Room;

/// See the module.
pub struct Place {
    pub room: Room,
    pub context: Context,
    pub reports: bool,
    /// The buffer for several messages that it is in.
    pub pool: Option<usize>,
}

impl Place {
    /// That of a message in a receive's room, or in a part of it.
    pub fn of(receive: &Receive, room: Room, pool: Option<usize>) -> Self {
        Self {
            room,
            context: receive.context,
            reports: receive.reports,
            pool,
        }
    }
}
