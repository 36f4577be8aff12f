//! The current turn, and what the switch before it has arranged.

use idlewave_gang::GangId;
use idlewave_gang::matrix::Matrix;
use idlewave_units::Nanos;
use std::collections::BTreeSet;

/// The current turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) since: Nanos,
    pub(super) until: Nanos,
}

/// What a switch has arranged.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// Gangs that it included. Any other gang runs until the next switch, regardless of turns.
    pub(super) gangs: BTreeSet<GangId>,
    /// Gangs that hold the networks of their nodes.
    pub(super) networks: Vec<GangId>,
    /// Whether gangs with network contexts were stopped, or loaded.
    pub(super) drained: bool,
}

impl Sorted {
    /// Forgets gangs without a row: they run freely, and must be included again when they return.
    pub(super) fn forget_others(&mut self, matrix: &Matrix) {
        self.gangs.retain(|gang| matrix.home(*gang).is_some());
    }
}
