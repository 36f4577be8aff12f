//! Imbalance is work that a rank repeats: a delay that comes and goes is not, however long.

#![allow(clippy::unwrap_used)]

use crate::made::{Explained, Made};
use idlewave_run::SourceKind;
use idlewave_stats::random::SplitMix;

const US: u64 = 1_000;
const WORK: u64 = 1_000 * US;

fn exponential(random: &mut SplitMix, mean: u64) -> u64 {
    (-random.uniform().ln() * mean as f64) as u64
}

/// A program that computes and meets in an all-to-all; `length` gives the computation of a rank in
/// a step.
fn all_to_all(ranks: u32, steps: u32, mut length: impl FnMut(u32, u32) -> u64) -> Explained {
    let mut made = Made::new(ranks);
    let mut at = 10 * US;
    for step in 0..steps {
        let enter: Vec<u64> = (0..ranks).map(|r| at + length(r, step)).collect();
        let leave = enter.iter().max().unwrap() + 5 * US;
        let members: Vec<_> = (0..ranks).map(|r| (r, enter[r as usize], leave)).collect();
        made.collective("MPI_Allreduce", 0, None, &members);
        at = leave;
    }
    made.explain()
}

/// Share of all waiting that is called imbalance.
fn imbalance(found: &Explained) -> f64 {
    let parts = &found.tables.wait_parts;
    let (mut charged, mut all) = (0, 0);
    for i in 0..parts.time.len() {
        let source = &found.findings.sources[parts.finding[i] as usize];
        all += parts.time[i].get();
        if source.kind == SourceKind::Imbalance {
            charged += parts.time[i].get();
        }
    }
    // If no wait is long enough to be explained, the share is 0.
    charged as f64 / all.max(1) as f64
}

/// How many of twenty runs name imbalance as a cause: more than 5 % of the waiting.
fn called(run: impl Fn(u64) -> Explained) -> usize {
    (0..20).filter(|&seed| imbalance(&run(seed)) > 0.05).count()
}

#[test]
fn equal_work_with_random_delays_is_not_called_imbalance() {
    for (ranks, steps) in [(2, 6), (2, 20), (4, 7), (8, 20)] {
        let wrong = called(|seed| {
            let mut random = SplitMix::new(seed * 1_000 + u64::from(steps));
            all_to_all(ranks, steps, |_, _| {
                WORK + exponential(&mut random, WORK / 3)
            })
        });
        assert!(
            wrong <= 1,
            "{wrong} of 20 with {ranks} ranks and {steps} steps"
        );
    }
}

#[test]
fn delays_that_last_for_several_steps_are_not_called_imbalance() {
    let wrong = called(|seed| {
        let mut random = SplitMix::new(seed + 7);
        let mut slow = [0u32; 4];
        all_to_all(4, 60, |rank, _| {
            let left = &mut slow[rank as usize];
            match *left {
                0 if random.uniform() < 0.05 => *left = 3 + (random.uniform() * 5.0) as u32,
                0 => {}
                _ => *left -= 1,
            }
            WORK + exponential(&mut random, WORK / 50) + u64::from(*left > 0) * WORK / 2
        })
    });
    assert!(wrong <= 1, "{wrong} of 20");
}

#[test]
fn a_rank_that_always_has_more_to_compute_is_called_imbalanced() {
    for steps in [8, 20] {
        let found = called(|seed| {
            let mut random = SplitMix::new(seed * 1_000 + u64::from(steps));
            all_to_all(4, steps, |rank, _| {
                WORK + u64::from(rank == 2) * WORK / 4 + exponential(&mut random, WORK / 50)
            })
        });
        assert!(found >= 19, "{found} of 20 with {steps} steps");
    }
    // Without noise it is charged with all but the first of 20 steps, which follows another call
    // than the rest.
    let found = all_to_all(4, 20, |rank, _| WORK + u64::from(rank == 2) * WORK / 4);
    assert_eq!(imbalance(&found), 0.95);
}

#[test]
fn what_a_rank_computes_once_is_not_known_to_be_imbalance() {
    let found = all_to_all(2, 20, |rank, step| {
        WORK + u64::from(rank == 1 && step == 9) * WORK
    });
    assert_eq!(imbalance(&found), 0.0);
}
