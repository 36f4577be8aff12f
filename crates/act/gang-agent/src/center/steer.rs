//! Turns: when a turn is over, which row is next, and what a switch has to arrange.

use super::Center;
use super::turn::Sorted;
use crate::courier::Courier;
use idlewave_freeze::clock;
use idlewave_gang::GangId;
use idlewave_gang::matrix::RowId;
use idlewave_gang::policy::Decision;
use idlewave_gang::protocol::{Event, Slot};
use idlewave_units::Nanos;

/// Least time until the next decision when no row can use a turn.
const REST: Nanos = Nanos::from_millis(20);
/// Least sleep while a turn cannot be ended.
pub(super) const AGAIN: Nanos = Nanos::from_millis(1);
/// Ranks with network contexts are examined at least this often; at the end of a turn this is free.
const LOOK_AT_RANKS: Nanos = Nanos::from_secs(1);
/// How long to wait for agents that have not yet applied the current gangs.
pub(super) const PATIENCE: Nanos = Nanos::from_secs(1);

impl<C: Courier> Center<C> {
    /// Accounts for a turn that ended at that time.
    pub(super) fn account(&mut self, of: Slot, end: Nanos) {
        if let Slot::Gang(row) = of {
            let time = end.saturating_sub(self.turn.since);
            let planned = self.turn.until.saturating_sub(self.turn.since);
            // Turns end late because orders take time. If a row were charged for that, its tag
            // would still exceed the next row's at the end of the next row's slice. The next row
            // would then get a second slice, and so would every later row.
            let late = time.checked_sub(planned);
            let time = match late {
                Some(late) if late.get() < self.slice.get() / 8 => planned,
                _ => time,
            };
            self.desk.ran(RowId::new(row.get()), time, end);
        }
        self.turn.since = end;
    }

    /// Whether the nodes are ready for a switch; if so, until when to wait for those that have not
    /// applied the current gangs.
    fn can_switch(&self) -> Option<Nanos> {
        let can = self.protocol.idle() && !self.protocol.members().is_empty();
        can.then(|| match self.desk.settled() {
            true => self.changed_at,
            false => self.changed_at + PATIENCE,
        })
    }

    /// When to decide on the next turn if nothing arrives before.
    pub(super) fn due(&self) -> Option<Nanos> {
        let patience = self.can_switch()?;
        if self.protocol.running() == Slot::All && !self.desk.has_turns() {
            return None;
        }
        // A turn that is over but cannot be ended is retried later: this thread never spins.
        Some(self.turn.until.max(patience).max(clock::now() + AGAIN))
    }

    /// Decides on the next turn, if the current one is over or has become pointless.
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
            // A gang that comes later is switched at once.
            None => (Slot::All, Nanos::ZERO),
            Some(Decision::Run { row, slice, .. }) => {
                (Slot::Gang(GangId::new(row.get())), slice.length)
            }
            // No row can use a turn: the running one keeps the CPUs.
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

    /// Whether ranks with contexts that have the CPUs to themselves were not examined for too long.
    /// They are then stopped briefly to check for a deadlock.
    fn is_to_be_looked_at(&self, now: Nanos) -> bool {
        !self.sorted.networks.is_empty() && now > self.quiet_at + LOOK_AT_RANKS
    }

    /// Whether the current turn is outdated because gangs have come since: a switch is due at once,
    /// perhaps to the same row.
    pub(super) fn is_out_of_order(&self) -> bool {
        self.waits_for_network() || self.is_disturbed()
    }

    /// Whether a gang of another row runs beside the current one because it came after the last
    /// switch.
    fn is_disturbed(&self) -> bool {
        let Slot::Gang(row) = self.protocol.running() else {
            return false;
        };
        let matrix = self.desk.matrix();
        let own = matrix.running(RowId::new(row.get()));
        let mut gangs = matrix.gangs().map(|(gang, _)| gang);
        gangs.any(|gang| !self.sorted.gangs.contains(&gang) && !own.contains(&gang))
    }

    /// Whether a gang has moved into the running row, for instance from a removed row, and its
    /// context is not loaded.
    fn waits_for_network(&self) -> bool {
        let gangs = self.desk.contexts_of(self.protocol.running());
        gangs
            .iter()
            .any(|gang| !self.sorted.networks.contains(gang))
    }
}
