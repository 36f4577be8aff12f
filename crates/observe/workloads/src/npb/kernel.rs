//! What a benchmark provides, and how it is run.

use super::class::Class;
use super::traffic::Traffic;
use crate::stopwatch::Stopwatch;
use crate::{Verified, WorkloadError};
use idlewave_fabric::{Fabric, Reduction};
use idlewave_units::{Bytes, Rank};
use std::sync::atomic::{AtomicBool, Ordering};

/// Numbers of ranks that a benchmark can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Any up to this one.
    Any(u32),
    /// Powers of two up to this one.
    PowersOfTwo(u32),
    /// Squares up to this one.
    Squares(u32),
}

impl Allowed {
    /// The most ranks.
    pub const fn most(self) -> u32 {
        let (Self::Any(most) | Self::PowersOfTwo(most) | Self::Squares(most)) = self;
        most
    }

    /// Why this number of ranks is not possible, if so, and which are.
    pub fn refusal(self, ranks: u32) -> Option<String> {
        let (fits, which) = match self {
            Self::Any(_) => (true, "any number of ranks"),
            Self::PowersOfTwo(_) => (
                ranks.is_power_of_two(),
                "a power of two of ranks (1, 2, 4, 8)",
            ),
            Self::Squares(_) => (
                ranks.isqrt().pow(2) == ranks,
                "a square of ranks (1, 4, 9, 16)",
            ),
        };
        let most = self.most();
        (!fits || ranks == 0 || ranks > most)
            .then(|| format!("it runs on {which} up to {most}, not on {ranks}"))
    }
}

/// A verification value.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What it is.
    pub name: String,
    /// The value found.
    pub found: f64,
    /// The published one.
    pub published: f64,
    /// The largest relative difference that the specification allows.
    pub tolerance: f64,
}

impl Check {
    fn passes(&self) -> bool {
        let off = ((self.found - self.published) / self.published).abs();
        // A NaN does not pass.
        off <= self.tolerance
    }
}

/// A benchmark at work on one rank.
///
/// Operations of the fabric go through the [`Stopwatch`], which also gets the names of regions
/// ([`Stopwatch::region`]). All ranks call all methods in the same order.
pub trait Kernel: Sized {
    /// What its operations are called, in the plural.
    const OPERATION: &'static str;

    /// Numbers of ranks that it can use.
    fn allowed(class: Class) -> Allowed;

    /// Most memory a rank needs.
    fn memory_per_rank(class: Class, ranks: u32) -> Bytes;

    /// Timed iterations.
    fn iterations(class: Class) -> u32;

    /// Operations of all ranks in the timed part, as NPB counts them for its Mop/s.
    fn operations(class: Class) -> u64;

    /// What one of an allowed number of ranks does in the timed part.
    fn traffic(class: Class, ranks: u32, rank: Rank) -> Traffic;

    /// Sets the problem up, including the untimed iteration if the specification has one.
    ///
    /// # Errors
    /// Another rank failed.
    fn new<F: Fabric>(class: Class, watch: &mut Stopwatch<'_, F>) -> Result<Self, WorkloadError>;

    /// What is timed before the first iteration.
    ///
    /// # Errors
    /// Another rank failed.
    fn begin<F: Fabric>(&mut self, _watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        Ok(())
    }

    /// An iteration, counted from 1.
    ///
    /// # Errors
    /// Another rank failed.
    fn iterate<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
        iteration: u32,
    ) -> Result<(), WorkloadError>;

    /// What is timed after the last iteration.
    ///
    /// # Errors
    /// Another rank failed.
    fn end<F: Fabric>(&mut self, _watch: &mut Stopwatch<'_, F>) -> Result<(), WorkloadError> {
        Ok(())
    }

    /// What was found beside what is published; the same on all ranks.
    ///
    /// # Errors
    /// Another rank failed.
    fn checks<F: Fabric>(
        &mut self,
        watch: &mut Stopwatch<'_, F>,
    ) -> Result<Vec<Check>, WorkloadError>;
}

/// At most this often per run the ranks agree whether to stop: once in every iteration would
/// synchronise them more than the benchmark does.
pub(super) const AGREEMENTS: u32 = 20;

/// Runs the benchmark `name`.
///
/// # Errors
/// The result is wrong (the same on all ranks), or another rank failed.
pub fn run<F: Fabric, K: Kernel>(
    name: &str,
    class: Class,
    watch: &mut Stopwatch<'_, F>,
    halt: &AtomicBool,
    progress: &mut dyn FnMut(f64),
) -> Result<Verified, WorkloadError> {
    let all = K::iterations(class);
    let mut kernel = K::new(class, watch)?;
    watch.barrier()?;
    watch.restart(all as usize);
    kernel.begin(watch)?;
    let mut done = 0;
    let every = all.div_ceil(AGREEMENTS);
    while done < all {
        done += 1;
        kernel.iterate(watch, done)?;
        watch.end_iteration();
        progress(f64::from(done) / f64::from(all));
        if done % every == 0 && done < all {
            let mut stop = [f64::from(u8::from(halt.load(Ordering::Relaxed)))];
            watch.allreduce(&mut stop, Reduction::Max)?;
            if stop[0] > 0.0 {
                break;
            }
        }
    }
    let complete = done == all;
    if complete {
        kernel.end(watch)?;
    }
    let timed = watch.record();
    watch.restart(0);
    if complete {
        let checks = kernel.checks(watch)?;
        if let Some(wrong) = checks.iter().find(|check| !check.passes()) {
            let Check {
                name: value,
                found,
                published,
                tolerance,
            } = wrong;
            return Err(WorkloadError::NotVerified {
                benchmark: name.to_owned(),
                what: format!(
                    "{value} is {found:.13e}, not {published:.13e} (within {tolerance:.0e})"
                ),
            });
        }
    }
    Ok(Verified {
        timed,
        verification: watch.parts(),
        verified: complete,
        iterations: done.into(),
        operations: K::operations(class) * u64::from(done) / u64::from(all),
        checksum: None,
    })
}
