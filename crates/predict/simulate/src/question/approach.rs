//! Estimates the long-run step from a run that is not that long.
//!
//! Ranks that begin in step are less disturbed at first than later: a delay has not yet met the
//! others that it will overlap. On a line of ranks the mean step approaches its long-run value as
//! t^(-2/3), the law of growing surfaces of the class of Kardar, Parisi and Zhang (Phys. Rev. Lett.
//! 56 (1986) 889; the correction: Krug and Meakin, J. Phys. A 23 (1990) L987), until a ring of P
//! ranks has settled after about P^(3/2) steps. No warm-up of a large ring is long enough, so the
//! rest is estimated: a power of time is fitted to the means of successive blocks of steps, and its
//! limit is the answer. How far the limit moves with another exponent is part of the interval.

use crate::bulk::{Collective, Phase, Program};

/// Blocks of steps that the law is fitted to; one more block precedes them as warm-up.
pub(super) const BLOCKS: u64 = 15;

/// How the mean step approaches its long-run value: as t^-`exponent`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Approach {
    /// The exponent used.
    pub exponent: f64,
    /// The smallest and the largest exponent that may be right instead.
    pub between: (f64, f64),
}

impl Approach {
    /// The law for a program; `None` if all its ranks wait for each other in every step, so that no
    /// delay carries over.
    ///
    /// The exponent is 2/3 for a line of ranks, and 0.76 and 0.82 for planes and cuboids; once
    /// everything has settled, any large exponent would do. 1 lies in between and changes the mean
    /// little. Along a tree, where no rank waits for those behind it, delays add up like a random
    /// walk: 1/2.
    pub fn of(program: &Program) -> Option<Approach> {
        let mut found = None;
        for phase in &program.phases {
            let least = match phase {
                Phase::Compute(_) | Phase::Pause(_) => continue,
                Phase::Exchange { .. } => 2.0 / 3.0,
                Phase::Collective { operation, .. } => match operation {
                    Collective::Broadcast | Collective::Reduce => 0.5,
                    Collective::Barrier | Collective::Allreduce | Collective::Alltoall => {
                        return None;
                    }
                },
            };
            found = Some(found.map_or(least, |f: f64| f.min(least)));
        }
        found.map(|least| Approach {
            exponent: 1.0,
            between: (least, 1.5),
        })
    }
}

/// The weights of the blocks in the limit for infinite time: least squares of a + b t^-exponent, of
/// which a is wanted.
pub(super) fn weights(exponent: f64, warm_up: u64, ends: &[u64]) -> Vec<f64> {
    let integral = |t: u64| {
        let t = t as f64 + 1.0;
        match (1.0 - exponent).abs() < 1e-9 {
            true => t.ln(),
            false => t.powf(1.0 - exponent) / (1.0 - exponent),
        }
    };
    let mut begin = warm_up;
    let means: Vec<f64> = ends
        .iter()
        .map(|&end| {
            let mean = (integral(warm_up + end) - integral(begin)) / (warm_up + end - begin) as f64;
            begin = warm_up + end;
            mean
        })
        .collect();
    let n = means.len() as f64;
    let centre = means.iter().sum::<f64>() / n;
    let spread: f64 = means.iter().map(|m| (m - centre).powi(2)).sum();
    means
        .iter()
        .map(|m| 1.0 / n - centre * (m - centre) / spread)
        .collect()
}

/// Where blocks end, in steps after the warm-up; empty if there are too few steps to see how their
/// mean develops.
pub(super) fn block_ends(steps: u64) -> Vec<u64> {
    let count = steps.min(BLOCKS);
    match count < 4 {
        true => Vec::new(),
        false => (1..=count).map(|i| i * steps / count).collect(),
    }
}
