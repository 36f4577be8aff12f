//! Benchmarks by name: programs of known size that verify their own result and run on all ranks of
//! a fabric.
//!
//! The name holds all parameters: `is:A` is the integer sort in class A; `halo:64` is a halo
//! exchange with blocks of 64 cells along each edge;
//! `halo:64x32x16,steps=500,dims=2,residual=10,open` sets every option (see [`Halo`]).

use crate::halo::Halo;
use crate::is::{self, Class};
use crate::npb::{Npb, ParseClassError, Program};
use crate::{Verified, WorkloadError};
use idlewave_fabric::Fabric;
use idlewave_units::Bytes;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

/// One of the benchmarks, with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// Integer sort: all-to-all of nearly all data.
    Is(Class),
    /// Stencil: messages between neighbours.
    Halo(Halo),
    /// One of the NAS Parallel Benchmarks that compute with floating-point numbers.
    Npb(Npb),
}

impl Benchmark {
    /// Most memory a rank needs for its data. Beyond it, the MPI library needs some, and the
    /// [`Stopwatch`](crate::Stopwatch): 8 bytes per iteration, of at most [`MOST_ITERATIONS`], and
    /// up to 8 MiB for [`MOST_STRETCHES`].
    ///
    /// [`MOST_ITERATIONS`]: crate::MOST_ITERATIONS
    /// [`MOST_STRETCHES`]: crate::MOST_STRETCHES
    pub fn memory_per_rank(&self, ranks: u32) -> Bytes {
        match self {
            Self::Is(class) => is::memory_per_rank(*class, ranks),
            Self::Halo(halo) => halo.memory_per_rank(ranks),
            Self::Npb(npb) => npb.memory_per_rank(ranks),
        }
    }

    /// The most ranks it has work for.
    pub fn most_ranks(&self) -> u32 {
        match self {
            Self::Is(class) => class.buckets(),
            Self::Halo(_) => u32::MAX,
            Self::Npb(npb) => npb.allowed().most(),
        }
    }

    /// Why it cannot run on this number of ranks, if so, and on which it can.
    pub fn refusal(&self, ranks: u32) -> Option<String> {
        match self {
            Self::Npb(npb) => npb.allowed().refusal(ranks),
            Self::Is(_) | Self::Halo(_) => {
                let most = self.most_ranks();
                (ranks == 0 || ranks > most)
                    .then(|| format!("it has work for at most {most} ranks, not for {ranks}"))
            }
        }
    }

    /// The numbers of ranks on which it can run that are closest to this one, below and above.
    pub fn nearest(&self, ranks: u32) -> Vec<u32> {
        let fits = |number: &u32| self.refusal(*number).is_none();
        let most = self.most_ranks();
        let below = (1..ranks.min(most.saturating_add(1))).rev().find(fits);
        let above = (ranks.saturating_add(1)..=most.max(1)).find(fits);
        below.into_iter().chain(above).collect()
    }

    /// Timed iterations unless halted.
    pub fn iterations(&self) -> u64 {
        match self {
            Self::Is(_) => is::ITERATIONS.into(),
            Self::Halo(halo) => halo.steps.into(),
            Self::Npb(npb) => npb.iterations(),
        }
    }

    /// What its operations are called, in the plural.
    pub fn operation(&self) -> &'static str {
        match self {
            Self::Is(_) => "keys ranked",
            Self::Halo(_) => "cells updated",
            Self::Npb(npb) => npb.operation(),
        }
    }

    /// Runs it on all ranks of the fabric. All ranks must call it, with no operation in flight. It
    /// can run repeatedly, and on worlds of fewer ranks ([`Fabric::with_ranks`]). `progress` gets
    /// the share done, 0 to 1. If `halt` is set on rank 0, all ranks end after the same iteration:
    /// [`Is`](Self::Is) and [`Halo`](Self::Halo) verify what they have done, [`Npb`](Self::Npb)
    /// nothing, since values are published only for its end ([`Verified::verified`]).
    ///
    /// # Errors
    /// It cannot run on this number of ranks ([`refusal`](Self::refusal)) or the result is wrong
    /// (the same on all ranks), or another rank failed.
    pub fn run<F: Fabric>(
        &self,
        fabric: &mut F,
        halt: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Verified, WorkloadError> {
        match self {
            Self::Is(class) => is::run(fabric, *class, halt, progress),
            Self::Halo(halo) => halo.run(fabric, halt, progress),
            Self::Npb(npb) => npb.run(fabric, halt, progress),
        }
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(class) => write!(f, "is:{class}"),
            Self::Halo(halo) => write!(f, "halo:{halo}"),
            Self::Npb(npb) => npb.fmt(f),
        }
    }
}

/// A text that names no benchmark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read a benchmark: {text:?}: {reason}")]
pub struct ParseBenchmarkError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

impl FromStr for Benchmark {
    type Err = ParseBenchmarkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |reason: String| ParseBenchmarkError {
            text: text.to_owned(),
            reason,
        };
        if let Some((name, class)) = text.split_once(':') {
            if let Some(program) = Program::of_name(name) {
                let class: Result<_, ParseClassError> = class.parse();
                let class = class.map_err(|error| wrong(error.to_string()))?;
                return Ok(Self::Npb(Npb { program, class }));
            }
        }
        match text.split_once(':') {
            Some(("is", class)) => {
                let class = class.parse();
                class
                    .map(Self::Is)
                    .map_err(|_| wrong("the classes are S, W, A, B, C".to_owned()))
            }
            Some(("halo", size)) => size.parse().map(Self::Halo).map_err(wrong),
            _ => Err(wrong(
                "give a NAS benchmark with its class, or halo:CELLS, as in cg:A or halo:64"
                    .to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in [
            "is:S",
            "is:C",
            "halo:64",
            "halo:64,steps=7",
            "halo:64x32x16,steps=500,dims=2,residual=10,open",
        ] {
            let benchmark: Benchmark = name.parse().expect(name);
            assert_eq!(benchmark.to_string(), name);
        }
        let short: Benchmark = "halo:8x8x8,dims=3,steps=100".parse().expect("all usual");
        assert_eq!(short.to_string(), "halo:8");
    }

    #[test]
    fn the_nearest_numbers_of_ranks_are_below_and_above() {
        let near = |name: &str, ranks| name.parse::<Benchmark>().expect(name).nearest(ranks);
        assert_eq!(near("is:S", 600), [512]);
        assert_eq!(near("is:S", 0), [1]);
        assert_eq!(near("halo:8", 3), [2, 4]);
        let is: Benchmark = "is:S".parse().expect("a name");
        assert_eq!(is.refusal(512), None);
        assert!(is.refusal(513).is_some_and(|why| why.contains("512")));
    }

    #[test]
    fn what_is_no_benchmark_is_refused_with_the_reason() {
        for (name, part) in [
            ("", "as in cg:A"),
            ("is", "as in cg:A"),
            ("is:Z", "S, W, A, B, C"),
            ("ua:A", "as in cg:A"),
            ("halo:", "cells"),
            ("halo:3", "from 4"),
            ("halo:8x8", "cells"),
            ("halo:8,steps=0", "steps"),
            ("halo:8,dims=4", "dims"),
            ("halo:8,width=4", "width"),
            ("halo:4096x4096x4096", "cells"),
            ("halo:8,open=1", "open=1"),
        ] {
            let error = name.parse::<Benchmark>().expect_err(name).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
