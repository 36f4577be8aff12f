//! How a rank meets the others after its computation, and how all agree on the last iteration,
//! where possible without extra messages.
//!
//! - Exchange: every message carries the last iteration, as far as its sender knows it. What rank 0
//!   decides after iteration k goes out with the messages of k + 1 and reaches a rank d exchanges
//!   away after k + d. So rank 0 sets the last iteration to k plus the diameter: all ranks know it
//!   in time and take part in the same exchanges.
//! - Allreduce: one of the values says whether rank 0 wants to end; all see the sum in the same
//!   iteration.
//! - All-to-all: rank 0's message to each rank says whether this iteration is the last.
//! - Barrier and reduce cannot tell all ranks: see [`Tree`].

use super::exchange::Exchange;
use super::message::{HEADER, Header, NO_END};
use super::pattern::Pattern;
use super::tree::Tree;
use crate::WorkloadError;
use idlewave_fabric::{Fabric, Reduction};
use idlewave_run::{Coupling, ExchangeVariant};
use idlewave_units::{Nanos, Rank};

/// Values of a reduction repeat after this many iterations, so that their sums are exact.
const VALUES: u64 = 1 << 20;

/// One rank's way to meet the others.
pub enum Meeting<F: Fabric> {
    Exchange(Exchange<F>),
    Barrier(Tree<F>),
    Allreduce(Vec<f64>),
    Reduce(Vec<f64>, Tree<F>),
    Alltoall { send: Vec<u8>, receive: Vec<u8> },
}

impl<F: Fabric> Meeting<F> {
    pub fn new(fabric: &F, pattern: &Pattern, work: Nanos) -> Result<Self, WorkloadError> {
        let values = || vec![0.0; (pattern.bytes / size_of::<f64>()).max(1)];
        Ok(match pattern.coupling {
            Coupling::Neighbours => Self::Exchange(Exchange::new(fabric, pattern)?),
            Coupling::Barrier => Self::Barrier(Tree::new(fabric, work)),
            Coupling::Allreduce => Self::Allreduce(values()),
            Coupling::Reduce => Self::Reduce(values(), Tree::new(fabric, work)),
            Coupling::Alltoall => {
                let all = vec![0; pattern.bytes.max(HEADER) * fabric.size() as usize];
                Self::Alltoall {
                    receive: all.clone(),
                    send: all,
                }
            }
        })
    }

    /// Called once, before the first iteration.
    pub fn begin(&mut self, fabric: &mut F) -> Result<(), WorkloadError> {
        match self {
            Self::Exchange(exchange) => exchange.prepare(fabric),
            Self::Barrier(tree) | Self::Reduce(_, tree) => tree.begin(fabric),
            Self::Allreduce(_) | Self::Alltoall { .. } => Ok(()),
        }
    }

    /// The last iteration, if rank 0 decides at the end of `iteration`.
    pub fn last_after(&self, iteration: u64) -> u64 {
        match self {
            Self::Exchange(exchange) => iteration + exchange.diameter(),
            Self::Barrier(tree) | Self::Reduce(_, tree) => tree.last_after(iteration),
            Self::Allreduce(_) | Self::Alltoall { .. } => iteration + 1,
        }
    }

    /// Whether the exchange starts in the middle of the computation.
    pub fn overlaps(&self) -> bool {
        matches!(self, Self::Exchange(e) if e.variant() == ExchangeVariant::Overlapped)
    }

    /// Called in the middle of the computation of `iteration`.
    #[inline]
    pub fn start(
        &mut self,
        fabric: &mut F,
        iteration: u64,
        last: u64,
    ) -> Result<(), WorkloadError> {
        match self {
            Self::Exchange(exchange) => exchange.start(fabric, iteration, last),
            _ => Ok(()),
        }
    }

    /// Meets the others after the computation of `iteration`. `last` is the last iteration as far
    /// as this rank knows it; returns what it knows afterwards.
    #[inline]
    pub fn meet(
        &mut self,
        fabric: &mut F,
        iteration: u64,
        last: u64,
        hook: &mut impl FnMut(),
    ) -> Result<u64, WorkloadError> {
        match self {
            Self::Exchange(exchange) => exchange.meet(fabric, iteration, last, hook),
            Self::Barrier(tree) => {
                fabric.barrier(hook)?;
                checked(tree, fabric, iteration, last, hook)
            }
            Self::Allreduce(values) => {
                fill(values, iteration);
                // Rank 0 knows one iteration ahead; in the last one it tells the others.
                values[0] = f64::from(u8::from(last <= iteration));
                fabric.allreduce(values, Reduction::Sum, hook)?;
                check_sum(values, 1, iteration, fabric.size())?;
                Ok(if values[0] > 0.0 { iteration } else { last })
            }
            Self::Reduce(values, tree) => {
                fill(values, iteration);
                fabric.reduce(Rank::new(0), values, Reduction::Sum, hook)?;
                if fabric.rank().get() == 0 {
                    check_sum(values, 0, iteration, fabric.size())?;
                }
                checked(tree, fabric, iteration, last, hook)
            }
            Self::Alltoall { send, receive } => {
                alltoall(send, receive, fabric, iteration, last, hook)
            }
        }
    }

    /// Called once, after the last iteration.
    pub fn end(&mut self, fabric: &mut F) -> Result<(), WorkloadError> {
        match self {
            Self::Barrier(tree) | Self::Reduce(_, tree) => {
                tree.settle(fabric, &mut || ()).map(|_| ())
            }
            _ => Ok(()),
        }
    }
}

fn checked<F: Fabric>(
    tree: &mut Tree<F>,
    fabric: &mut F,
    iteration: u64,
    last: u64,
    hook: &mut impl FnMut(),
) -> Result<u64, WorkloadError> {
    if tree.is_due(iteration) {
        tree.check(fabric, iteration, last, hook)
    } else {
        Ok(last)
    }
}

#[inline]
fn fill(values: &mut [f64], iteration: u64) {
    // Exact, since below 2^20.
    values.fill((iteration % VALUES) as f64);
}

fn check_sum(values: &[f64], from: usize, iteration: u64, size: u32) -> Result<(), WorkloadError> {
    let wanted = (iteration % VALUES) as f64 * f64::from(size);
    match values[from..].iter().all(|v| *v == wanted) {
        true => Ok(()),
        false => Err(WorkloadError::WrongSum { iteration }),
    }
}

#[inline]
fn alltoall<F: Fabric>(
    send: &mut [u8],
    receive: &mut [u8],
    fabric: &mut F,
    iteration: u64,
    last: u64,
    hook: &mut impl FnMut(),
) -> Result<u64, WorkloadError> {
    let (sender, block) = (fabric.rank(), send.len() / fabric.size() as usize);
    for (to, message) in send.chunks_exact_mut(block).enumerate() {
        let header = Header {
            last: if last <= iteration { last } else { NO_END },
            iteration,
            sender,
            way: to as u32,
        };
        header.write(message);
    }
    fabric.alltoall(send, receive, hook)?;
    let mut told = last;
    for (from, message) in receive.chunks_exact(block).enumerate() {
        let from = Rank::new(from as u32);
        let said = Header::checked(message, iteration, from, sender.get())?;
        if from.get() == 0 {
            told = told.min(said);
        }
    }
    Ok(told)
}
