//! The NAS Parallel Benchmarks that compute with floating-point numbers, over any fabric. (The
//! eighth, IS, is in [`crate::is`].)
//!
//! Written from the specification (Bailey et al., RNR-94-007); class sizes and verification values
//! are those of NPB 3.4. Each is a [`Kernel`]: [`run`] does what all have in common. It sets the
//! problem up, does the untimed iteration that the specification asks for, meets at a barrier, times
//! the iterations, and compares the result with the published one.

mod bt;
mod cells;
mod cfd;
mod cg;
mod class;
mod ep;
mod ft;
mod kernel;
mod lu;
mod mg;
mod shares;
mod sp;
#[cfg(test)]
mod tests;
mod traffic;

use crate::stopwatch::Stopwatch;
use crate::{Verified, WorkloadError};
use idlewave_fabric::{Fabric, Waits};
use idlewave_units::{Bytes, Rank};
use kernel::{Allowed, Kernel};
use std::fmt;
use std::sync::atomic::AtomicBool;

pub use class::{Class, ParseClassError};
pub use traffic::{Message, Operation, Traffic};

/// Which of the benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Program {
    /// Embarrassingly parallel: Gaussian deviates, hardly any messages.
    Ep,
    /// Conjugate gradients: a random sparse matrix, sums and transposes of vectors.
    Cg,
    /// Multigrid: V-cycles on a cubic grid, borders exchanged on every level.
    Mg,
    /// Fourier transform in three dimensions: all-to-all of all data.
    Ft,
    /// Lower-upper solver: a pipeline of many small messages.
    Lu,
    /// Scalar pentadiagonal: a flow, advanced by sweeps along lines with five separate equations.
    Sp,
    /// Block tridiagonal: the same flow, advanced by sweeps with 5 x 5 blocks.
    Bt,
}

/// Runs `$body` with `$kernel` as the program's [`Kernel`].
macro_rules! with_kernel {
    ($program:expr, $kernel:ident => $body:expr) => {
        match $program {
            Program::Ep => {
                type $kernel = ep::Ep;
                $body
            }
            Program::Cg => {
                type $kernel = cg::Cg;
                $body
            }
            Program::Mg => {
                type $kernel = mg::Mg;
                $body
            }
            Program::Ft => {
                type $kernel = ft::Ft;
                $body
            }
            Program::Lu => {
                type $kernel = lu::Lu;
                $body
            }
            Program::Bt => {
                type $kernel = bt::Bt;
                $body
            }
            Program::Sp => {
                type $kernel = sp::Sp;
                $body
            }
        }
    };
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Ep,
        Self::Cg,
        Self::Mg,
        Self::Ft,
        Self::Lu,
        Self::Sp,
        Self::Bt,
    ];

    /// Its name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ep => "ep",
            Self::Cg => "cg",
            Self::Mg => "mg",
            Self::Ft => "ft",
            Self::Lu => "lu",
            Self::Sp => "sp",
            Self::Bt => "bt",
        }
    }

    /// The program of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|program| program.name() == name)
    }

    /// What it does, in a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Ep => "pairs of Gaussian random numbers; hardly any messages",
            Self::Cg => "conjugate gradients; sums and transposes of vectors",
            Self::Mg => "V-cycles on a cubic grid; borders of all sizes between neighbours",
            Self::Ft => "Fourier transform in three dimensions; all-to-all of all data",
            Self::Lu => "symmetric over-relaxation; a pipeline of many small messages",
            Self::Bt => "the same flow, by sweeps with blocks of 5 x 5; larger messages",
            Self::Sp => "a flow, by sweeps with separate equations; many messages",
        }
    }
}

/// A benchmark with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Npb {
    /// Which one.
    pub program: Program,
    /// Its size.
    pub class: Class,
}

impl Npb {
    /// Most memory a rank needs for its data; see
    /// [`Benchmark::memory_per_rank`](crate::Benchmark::memory_per_rank) for what is not in it.
    pub fn memory_per_rank(self, ranks: u32) -> Bytes {
        with_kernel!(self.program, K => K::memory_per_rank(self.class, ranks.max(1)))
    }

    /// Numbers of ranks it can use.
    pub fn allowed(self) -> Allowed {
        with_kernel!(self.program, K => K::allowed(self.class))
    }

    /// Timed iterations unless halted.
    pub fn iterations(self) -> u64 {
        with_kernel!(self.program, K => K::iterations(self.class).into())
    }

    /// Operations of all ranks in all iterations, as NPB counts them.
    pub fn operations(self) -> u64 {
        with_kernel!(self.program, K => K::operations(self.class))
    }

    /// What its operations are called, in the plural.
    pub fn operation(self) -> &'static str {
        with_kernel!(self.program, K => K::OPERATION)
    }

    /// What one of this many ranks computes and communicates; `None` if it cannot use them, or there
    /// is no such rank.
    pub fn traffic(self, ranks: u32, rank: Rank) -> Option<Traffic> {
        let fits = rank.get() < ranks && self.allowed().refusal(ranks).is_none();
        fits.then(|| with_kernel!(self.program, K => K::traffic(self.class, ranks, rank)))
    }

    /// Runs it on all ranks of the fabric; see [`Benchmark::run`](crate::Benchmark::run).
    ///
    /// # Errors
    /// It cannot use this number of ranks or its result is wrong (the same on all ranks), or another
    /// rank failed.
    pub fn run<F: Fabric>(
        self,
        fabric: &mut F,
        halt: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Verified, WorkloadError> {
        let ranks = fabric.size();
        if let Some(reason) = self.allowed().refusal(ranks) {
            return Err(WorkloadError::WrongSize {
                benchmark: self.to_string(),
                reason,
            });
        }
        // Blocking library calls, as the original benchmarks make them.
        fabric.set_waits(Waits::Blocking);
        let mut watch = Stopwatch::start(fabric);
        let (name, class) = (self.to_string(), self.class);
        let done = with_kernel!(self.program, K => {
            kernel::run::<F, K>(&name, class, &mut watch, halt, progress)
        });
        fabric.set_waits(Waits::Watched);
        done
    }
}

impl fmt::Display for Npb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.program.name(), self.class)
    }
}
