//! Ways that took turns: lockstep runs of one measurement, in rounds.

use serde::{Deserialize, Serialize};

/// The place of a lockstep run among ways that took turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The round, counted from 0; every way has one turn in each.
    pub round: u32,
    /// What the other hardware threads of the cores did; `None` if ways to program the exchange
    /// took turns.
    pub siblings: Option<Siblings>,
}

/// What the other hardware threads of the cores do while the ranks measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Siblings {
    /// Every rank is bound to one hardware thread; idlewave leaves the others alone.
    Idle,
    /// Every rank is bound to its core: if the kernel needs one thread, the rank may use another.
    Free,
    /// As `Idle`, and idlewave itself computes on the others.
    Busy,
}

impl Siblings {
    /// In the order of the tables; the others are compared with the first.
    pub const ALL: [Self; 3] = [Self::Idle, Self::Free, Self::Busy];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Free => "free",
            Self::Busy => "busy",
        }
    }
}
