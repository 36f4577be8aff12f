//! Computation and a barrier whose messages cost nothing: all ranks continue when the last one has
//! computed.

use crate::Work;
use crate::bulk::{BulkError, Collective, Phase, Program};
use idlewave_noise::{Noise, Timeline};
use rayon::prelude::*;

/// A running program of this form.
pub(super) struct Closed<'a> {
    noise: &'a Noise,
    cpus: Vec<Timeline>,
    work: Work,
    pause: u64,
    /// When the next step begins, on all ranks.
    now: u64,
}

/// Least number of ranks per thread at a time.
const AT_A_TIME: usize = 256;

impl<'a> Closed<'a> {
    /// `None` if the program has another form.
    pub fn of(program: &Program, noise: &'a Noise) -> Option<Self> {
        let (work, barrier, pause) = match &program.phases[..] {
            [Phase::Compute(work), barrier] => (work, barrier, 0),
            [Phase::Compute(work), barrier, Phase::Pause(pause)] => (work, barrier, *pause),
            _ => return None,
        };
        let Phase::Collective {
            operation: Collective::Barrier,
            bytes,
            ..
        } = barrier
        else {
            return None;
        };
        if !program.fits() || !program.sends_for_free(*bytes) {
            return None;
        }
        let cpus = (0..program.ranks)
            .into_par_iter()
            .map(|rank| Timeline::new(noise, noise.place(rank)));
        Some(Closed {
            noise,
            cpus: cpus.collect(),
            work: work.clone(),
            pause,
            now: 0,
        })
    }

    /// Advances all ranks by one step.
    pub fn step(&mut self) -> Result<(), BulkError> {
        let Closed {
            noise,
            cpus,
            work,
            pause,
            now,
        } = self;
        let ends = cpus.par_iter_mut().enumerate().with_min_len(AT_A_TIME);
        let last = ends
            .map(|(rank, cpu)| cpu.end(noise, *now, work.of(rank), |_| {}))
            .max();
        *now = last.unwrap_or(*now).saturating_add(*pause);
        match *now {
            u64::MAX => Err(BulkError::TooLong),
            _ => Ok(()),
        }
    }

    /// The sum of the times of all ranks, in nanoseconds.
    pub fn sum(&self) -> u128 {
        u128::from(self.now) * self.cpus.len() as u128
    }
}
