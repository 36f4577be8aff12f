//! Whose turn it is: when a turn is over, who is next, and what a switch has to put in order.

use super::Center;
use crate::courier::Courier;
use idlewave_freeze::clock;
use idlewave_gang::GangId;
use idlewave_gang::matrix::{Matrix, RowId};
use idlewave_gang::policy::Decision;
use idlewave_gang::protocol::{Event, Slot};
use idlewave_units::Nanos;
use std::collections::BTreeSet;

/// How long nothing is decided at least when nobody has a use for a turn.
const REST: Nanos = Nanos::from_millis(20);
/// How long it sleeps at least while a turn cannot be ended.
pub(super) const AGAIN: Nanos = Nanos::from_millis(1);
/// How often ranks with network contexts are looked at, at least: at the end of a turn it costs nothing.
const LOOK_AT_RANKS: Nanos = Nanos::from_secs(1);
/// How long it is waited for agents that have not carried out the present state of the gangs.
pub(super) const PATIENCE: Nanos = Nanos::from_secs(1);

/// The turn under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) since: Nanos,
    pub(super) until: Nanos,
}

/// What a switch puts in order.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    /// Gangs that it knows. Any other runs until the next switch, whoever's turn it is.
    gangs: BTreeSet<GangId>,
    /// Gangs with network contexts that have the networks of their nodes.
    networks: Vec<GangId>,
    /// Whether gangs with network contexts were stopped, or came in.
    pub(super) drained: bool,
}

impl Sorted {
    /// Gangs that are in no row run freely, and have to be put in order when they come back.
    pub(super) fn forget_others(&mut self, matrix: &Matrix) {
        self.gangs.retain(|gang| matrix.home(*gang).is_some());
    }
}

impl<C: Courier> Center<C> {
    /// A turn ended at that moment.
    pub(super) fn account(&mut self, of: Slot, end: Nanos) {
        if let Slot::Gang(row) = of {
            let time = end.saturating_sub(self.turn.since);
            let planned = self.turn.until.saturating_sub(self.turn.since);
            // Turns end late by the time that orders take. Charged for that, a row is behind the next one when that one's slice is over, which
            // then gets a second slice, and so does every row after it.
            let late = time.checked_sub(planned);
            let time = match late {
                Some(late) if late.get() < self.slice.get() / 8 => planned,
                _ => time,
            };
            self.desk.ran(RowId::new(row.get()), time, end);
        }
        self.turn.since = end;
    }

    /// Whether a switch can be begun as far as the nodes go; with it, until when it is waited for those that have not carried out the
    /// present state of the gangs.
    fn can_switch(&self) -> Option<Nanos> {
        let can = self.protocol.idle() && !self.protocol.members().is_empty();
        can.then(|| match self.desk.settled() {
            true => self.changed_at,
            false => self.changed_at + PATIENCE,
        })
    }

    /// When it is to be decided whose turn is next, if nothing is heard before.
    pub(super) fn due(&self) -> Option<Nanos> {
        let patience = self.can_switch()?;
        if self.protocol.running() == Slot::All && !self.desk.has_turns() {
            return None;
        }
        // A turn that is over and cannot be ended yet is asked again after a while: this thread never spins.
        Some(self.turn.until.max(patience).max(clock::now() + AGAIN))
    }

    /// Whose turn is next, if one is over or has lost its sense.
    pub(super) fn steer(&mut self, now: Nanos) {
        if self.can_switch().is_none_or(|patience| now < patience) {
            return;
        }
        let running = self.protocol.running();
        let there = self.desk.has(running);
        if let Slot::Gang(row) = running {
            let early = || self.desk.policy().ends_early(RowId::new(row.get()));
            if there && now < self.turn.until && !self.desk.lets_all_run() && early().is_none() {
                return;
            }
        } else if now < self.turn.until {
            return;
        }
        self.account(running, now);
        let (to, slice) = match self.desk.decide(now) {
            // Whoever comes is switched at once.
            None => (Slot::All, Nanos::ZERO),
            Some(Decision::Run { row, slice, .. }) => {
                (Slot::Gang(GangId::new(row.get())), slice.length)
            }
            // Nobody has a use for a turn: who has the CPUs keeps them.
            Some(Decision::Rest { until }) => {
                let soon = now + self.settings.desk.policy.longest.max(REST);
                self.turn.until = until.map_or(soon, |until| until.clamp(now + REST, soon));
                return;
            }
        };
        let always = self.settings.always && to != Slot::All;
        let forced = always || self.is_out_of_order() || self.is_to_be_looked_at(now);
        let again = to == running && !forced;
        if again {
            self.turn.until = now + slice;
            return;
        }
        (self.slice, self.left) = (slice, running);
        let drain = !self.desk.contexts_of(running).is_empty();
        let networks = self.desk.contexts_of(to);
        self.coming = Sorted {
            gangs: self.desk.matrix().gangs().map(|(gang, _)| gang).collect(),
            drained: drain || !networks.is_empty(),
            networks,
        };
        self.event(Event::Switch { to, drain });
    }

    /// Whether ranks with contexts that have the CPUs alone were not looked at for long: they are stopped for a moment, and it is known whether they
    /// wait for each other for ever.
    fn is_to_be_looked_at(&self, now: Nanos) -> bool {
        !self.sorted.networks.is_empty() && now > self.quiet_at + LOOK_AT_RANKS
    }

    /// Whether the turn under way is not what it should be, as gangs have come since it began: a switch is due at once, perhaps to the same row.
    pub(super) fn is_out_of_order(&self) -> bool {
        self.waits_for_network() || self.is_disturbed()
    }

    /// Whether a gang of another row runs beside the one whose turn it is: it has come since the last switch.
    fn is_disturbed(&self) -> bool {
        let Slot::Gang(row) = self.protocol.running() else {
            return false;
        };
        let matrix = self.desk.matrix();
        let own = matrix.running(RowId::new(row.get()));
        let mut gangs = matrix.gangs().map(|(gang, _)| gang);
        gangs.any(|gang| !self.sorted.gangs.contains(&gang) && !own.contains(&gang))
    }

    /// Whether a gang has come into the row that runs, as one from a row that is no more, whose context is not there yet.
    fn waits_for_network(&self) -> bool {
        let gangs = self.desk.contexts_of(self.protocol.running());
        gangs
            .iter()
            .any(|gang| !self.sorted.networks.contains(gang))
    }
}
