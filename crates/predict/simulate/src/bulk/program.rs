//! What a step of a bulk-synchronous program is.

use super::collective::{Algorithm, Collective};
use crate::goal::{Parameters, PerByte};
use crate::{Stencil, Work};
use idlewave_units::Nanos;

/// A loop that all ranks go through.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Number of ranks, from 1 on.
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
    /// For every rank so much time goes by, in nanoseconds, without its CPU: what communication costs beside waiting for others.
    Pause(u64),
    /// Every rank sends one message to each of its neighbours and waits for theirs.
    Exchange {
        /// The neighbours.
        stencil: Stencil,
        /// Length of each message.
        bytes: u64,
        /// How it waits.
        wait: Wait,
    },
    /// All ranks together.
    Collective {
        /// What is done.
        operation: Collective,
        /// By which messages.
        algorithm: Algorithm,
        /// Bytes of each rank.
        bytes: u64,
    },
}

/// How a rank waits for the messages of an exchange.
#[derive(Clone, Debug, PartialEq)]
pub enum Wait {
    /// One direction after the other: it sends one message, waits for the one from the other side, goes on (`MPI_Sendrecv`).
    Blocking,
    /// It sends all, then takes what comes in the order in which it comes (`MPI_Isend`, `MPI_Irecv`, `MPI_Waitall`).
    All,
    /// It sends all, computes, and only then waits; messages travel in the meantime.
    Overlapped(Work),
}

impl Program {
    /// Whether messages of so many bytes take no time.
    pub(crate) fn sends_for_free(&self, bytes: u64) -> bool {
        let costs = &self.costs;
        [costs.latency, costs.overhead, costs.gap] == [Nanos::ZERO; 3]
            && [costs.gap_per_byte, costs.overhead_per_byte] == [PerByte::ZERO; 2]
            && bytes <= costs.rendezvous.get()
    }

    /// Whether every number is of the ranks that there are.
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
