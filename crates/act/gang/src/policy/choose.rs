//! Choice of the next row.

use super::costs::{Costs, Slice};
use super::settings::{PolicyError, Settings};
use crate::matrix::RowId;
use idlewave_units::Nanos;
use std::collections::BTreeMap;

/// Tags are `nanoseconds * SCALE / weight`, which keeps enough precision in the division.
const SCALE: u128 = 1 << 32;

/// The class of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A user waits at a terminal: first, within a share.
    Interactive,
    /// Everything else.
    Production,
}

/// What the gangs of a row can do with a turn; the best of them counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// All are terminated or deadlocked.
    Dead,
    /// All wait for external events, or are dead.
    Idle,
    /// At least one can make progress.
    Active,
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This row runs.
    Run {
        /// The row; possibly the one already running.
        row: RowId,
        /// Its slice.
        slice: Slice,
        /// The reason.
        reason: Reason,
    },
    /// No row can use a turn.
    Rest {
        /// When to ask again if nothing changes before; `None`: only after a change.
        until: Option<Nanos>,
    },
}

/// Why a row is next, or why a turn ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It has had the least time relative to its weight.
    Turn,
    /// Its class goes first.
    Interactive,
    /// It is idle, and gets a turn to check whether it still is.
    Probe,
    /// The running row cannot use its turn, and another one can.
    Yield,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    weight: u32,
    class: Class,
    activity: Activity,
    tag: u128,
    last: Nanos,
}

/// The state of the policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    settings: Settings,
    rows: BTreeMap<RowId, Entry>,
    costs: Costs,
    /// By class: the start tag of the row chosen last.
    virtual_time: [u128; 2],
    /// Time of interactive rows above their share, in ns; a negative value is saved-up time.
    above: f64,
    /// Whether the last decision was a turn for an idle row: two in a row would let many idle rows
    /// starve the others.
    probed: bool,
}

impl Policy {
    /// A policy without rows.
    ///
    /// # Errors
    /// Settings out of range.
    pub fn new(settings: Settings) -> Result<Policy, PolicyError> {
        settings.check()?;
        Ok(Policy {
            above: -settings.burst.as_f64(),
            settings,
            rows: BTreeMap::new(),
            costs: Costs::default(),
            virtual_time: [0, 0],
            probed: false,
        })
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The costs of switches.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Adds a row, or updates one whose gangs changed. A new one is active, and starts level with
    /// the others of its class.
    ///
    /// # Errors
    /// Weight 0.
    pub fn add(
        &mut self,
        row: RowId,
        weight: u32,
        class: Class,
        now: Nanos,
    ) -> Result<(), PolicyError> {
        if weight == 0 {
            return Err(PolicyError::Weight(row.get()));
        }
        let level = self.virtual_time[class as usize];
        let entry = self.rows.entry(row).or_insert(Entry {
            weight,
            class,
            activity: Activity::Active,
            tag: level,
            last: now,
        });
        if entry.class != class {
            entry.tag = level;
        }
        entry.weight = weight;
        entry.class = class;
        Ok(())
    }

    /// Removes a row.
    pub fn remove(&mut self, row: RowId) {
        self.rows.remove(&row);
    }

    /// Updates the activity of a row. A row that wakes starts level: it gets no credit for time in
    /// which it did not need turns.
    pub fn activity(&mut self, row: RowId, activity: Activity) {
        if let Some(entry) = self.rows.get_mut(&row) {
            if entry.activity != Activity::Active && activity == Activity::Active {
                entry.tag = entry.tag.max(self.virtual_time[entry.class as usize]);
            }
            entry.activity = activity;
        }
    }

    /// A row ran for this long, until now.
    pub fn ran(&mut self, row: RowId, time: Nanos, now: Nanos) {
        let production = self.wants(Class::Production);
        let Some(entry) = self.rows.get_mut(&row) else {
            return;
        };
        entry.tag += u128::from(time.get()) * SCALE / u128::from(entry.weight);
        entry.last = now;
        let (time, share) = (time.as_f64(), self.settings.share);
        match entry.class {
            // Otherwise it took no time from a production row.
            Class::Interactive if production => self.above += time * (1.0 - share),
            Class::Interactive => {}
            Class::Production => self.above -= time * share,
        }
        self.above = self.above.max(-self.settings.burst.as_f64());
    }

    /// A switch cost this much.
    pub fn switched(&mut self, cost: Nanos) {
        self.costs.add(cost);
    }

    /// The decision at `now`. Equal tags are ordered by row number.
    pub fn next(&mut self, now: Nanos) -> Decision {
        let first = self.first(Class::Interactive);
        let second = self.first(Class::Production);
        self.probed &= first.is_some() || second.is_some();
        if let (false, Some(row)) = (self.probed, self.probe(now)) {
            self.probed = true;
            let mut slice = self.costs.slice(&self.settings);
            slice.length = self.settings.shortest;
            return Decision::Run {
                row,
                slice,
                reason: Reason::Probe,
            };
        }
        self.probed = false;
        let (row, reason) = match (first, second) {
            (Some(row), None) => (row, Reason::Turn),
            (Some(row), Some(_)) if self.above <= 0.0 => (row, Reason::Interactive),
            (_, Some(row)) => (row, Reason::Turn),
            (None, None) => {
                return Decision::Rest {
                    until: self.probes().map(|(at, _)| at).min(),
                };
            }
        };
        if let Some(entry) = self.rows.get(&row) {
            self.virtual_time[entry.class as usize] = entry.tag;
        }
        Decision::Run {
            row,
            slice: self.costs.slice(&self.settings),
            reason,
        }
    }

    /// Whether the turn of a row should end early.
    pub fn ends_early(&self, running: RowId) -> Option<Reason> {
        let entry = self.rows.get(&running);
        let others = |class| {
            self.rows.iter().any(|(row, e)| {
                *row != running && e.class == class && e.activity == Activity::Active
            })
        };
        let interactive = others(Class::Interactive);
        match entry {
            Some(e) if e.activity == Activity::Active => {
                (e.class == Class::Production && interactive && self.above <= 0.0)
                    .then_some(Reason::Interactive)
            }
            // This short turn exists to check whether the row is still idle.
            Some(e) if e.activity == Activity::Idle && self.probed => None,
            _ => (interactive || others(Class::Production)).then_some(Reason::Yield),
        }
    }

    fn wants(&self, class: Class) -> bool {
        self.first(class).is_some()
    }

    fn first(&self, class: Class) -> Option<RowId> {
        self.rows
            .iter()
            .filter(|(_, e)| e.class == class && e.activity == Activity::Active)
            .min_by_key(|(row, e)| (e.tag, **row))
            .map(|(row, _)| *row)
    }

    /// Idle rows, with the time of their next turn.
    fn probes(&self) -> impl Iterator<Item = (Nanos, RowId)> + '_ {
        self.rows
            .iter()
            .filter(|(_, e)| e.activity == Activity::Idle)
            .map(|(row, e)| (e.last + self.settings.probe, *row))
    }

    fn probe(&self, now: Nanos) -> Option<RowId> {
        self.probes()
            .filter(|(at, _)| *at <= now)
            .min()
            .map(|p| p.1)
    }
}
