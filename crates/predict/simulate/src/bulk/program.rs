//! The step of a bulk-synchronous program.

use super::collective::{Algorithm, Collective};
use crate::goal::{Parameters, PerByte};
use crate::{Stencil, Work};
use idlewave_units::Nanos;

/// A loop that all ranks execute.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Number of ranks, at least 1.
    pub ranks: u32,
    /// One step.
    pub phases: Vec<Phase>,
    /// What messages cost.
    pub costs: Parameters,
}

/// A part of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Every rank computes.
    Compute(Work),
    /// Time that passes on every rank without using its CPU, in nanoseconds: the cost of
    /// communication apart from waiting for others.
    Pause(u64),
    /// Every rank sends one message to each of its neighbours and waits for theirs.
    Exchange {
        /// The neighbours.
        stencil: Stencil,
        /// Length of each message.
        bytes: u64,
        /// How a rank waits for the messages.
        wait: Wait,
    },
    /// A collective of all ranks.
    Collective {
        /// The operation.
        operation: Collective,
        /// The messages that perform it.
        algorithm: Algorithm,
        /// Bytes per rank.
        bytes: u64,
    },
}

/// How a rank waits for the messages of an exchange.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// One direction after the other: send a message, wait for the one from the other side, go on
    /// (`MPI_Sendrecv`).
    Blocking,
    /// Send all, then receive in the order of arrival (`MPI_Isend`, `MPI_Irecv`, `MPI_Waitall`).
    All,
    /// Send all, compute, and only then wait; messages travel in the meantime.
    Overlapped(Work),
}

impl Program {
    /// Whether messages of this many bytes take no time.
    pub(crate) fn sends_for_free(&self, bytes: u64) -> bool {
        let costs = &self.costs;
        [costs.latency, costs.overhead, costs.gap] == [Nanos::ZERO; 3]
            && [costs.gap_per_byte, costs.overhead_per_byte] == [PerByte::ZERO; 2]
            && bytes <= costs.rendezvous.get()
    }

    /// Whether all parts are for this number of ranks.
    pub(crate) fn fits(&self) -> bool {
        let fits = |work: &Work| match work {
            Work::Same(_) => true,
            Work::Each(ns) => ns.len() == self.ranks as usize,
        };
        self.ranks > 0
            && self.phases.iter().all(|phase| match phase {
                Phase::Compute(work) => fits(work),
                Phase::Exchange { stencil, wait, .. } => {
                    stencil.ranks() == self.ranks as usize
                        && match wait {
                            Wait::Overlapped(work) => fits(work),
                            Wait::Blocking | Wait::All => true,
                        }
                }
                Phase::Pause(_) | Phase::Collective { .. } => true,
            })
    }
}
