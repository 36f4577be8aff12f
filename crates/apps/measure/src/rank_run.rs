//! A lockstep run of one rank. Its records stay in memory until the run is over, so that nothing is
//! written while others measure.

use crate::MeasureError;
use idlewave_clock::{Calibration, with_source};
use idlewave_explain::series::RankTimes;
use idlewave_fabric::Fabric;
use idlewave_session::align::Correction;
use idlewave_units::Nanos;
use idlewave_workloads::detour::Gap;
use idlewave_workloads::lockstep::{Iteration, Pattern, Plan, Work, run_rank};
use std::sync::atomic::AtomicBool;

/// The most gaps that one rank keeps.
const MOST_GAPS: usize = 1 << 18;
/// Gaps of at least this length are kept.
pub const THRESHOLD: Nanos = Nanos::from_micros(1);

/// What a rank runs.
#[derive(Clone, Debug)]
pub struct RankPlan {
    /// How the ranks meet.
    pub pattern: Pattern,
    /// Fibonacci steps of one iteration, and the time they take at the CPU's highest speed.
    pub steps: u64,
    /// See `steps`.
    pub work: Nanos,
    /// The duration; that of rank 0 counts.
    pub duration: Nanos,
    /// The most iterations.
    pub max_iterations: u64,
}

/// The record of a rank, in nanoseconds of its node's CLOCK_MONOTONIC; on rank 0, after correction,
/// on the first node's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankRecord {
    /// Start of every iteration, and the end of the last one.
    pub begins: Vec<u64>,
    /// End of every computation.
    pub arrivals: Vec<u64>,
    /// Start and length of gaps.
    pub gaps: Vec<(u64, u64)>,
    /// Gaps that were not kept.
    pub lost_gaps: u64,
}

impl RankRecord {
    /// The number of iterations.
    pub fn iterations(&self) -> usize {
        self.arrivals.len()
    }

    /// Its times.
    pub fn times(&self) -> RankTimes<'_> {
        RankTimes {
            begins: &self.begins,
            arrivals: &self.arrivals,
        }
    }

    /// Converts the times to the first node's clock.
    pub fn correct(&mut self, by: &Correction) {
        for time in self.begins.iter_mut().chain(&mut self.arrivals) {
            *time = by.apply(*time);
        }
        for (begin, length) in &mut self.gaps {
            let end = by.apply(begin.saturating_add(*length));
            *begin = by.apply(*begin);
            *length = end.saturating_sub(*begin);
        }
    }

    /// Converts the record to words for sending.
    pub fn to_words(&self) -> Vec<u64> {
        let mut words = vec![
            self.arrivals.len() as u64,
            self.gaps.len() as u64,
            self.lost_gaps,
        ];
        words.extend(&self.begins);
        words.extend(&self.arrivals);
        words.extend(
            self.gaps
                .iter()
                .flat_map(|&(begin, length)| [begin, length]),
        );
        words
    }

    /// Reads words; an empty record if they are invalid.
    pub fn of_words(words: &[u64]) -> Self {
        let read = || {
            let (&[iterations, gaps, lost_gaps], rest) = words.split_first_chunk::<3>()?;
            let (begins, rest) = rest.split_at_checked(iterations as usize + 1)?;
            let (arrivals, rest) = rest.split_at_checked(iterations as usize)?;
            let (pairs, _) = rest.split_at_checked(2 * gaps as usize)?;
            Some(Self {
                begins: begins.to_vec(),
                arrivals: arrivals.to_vec(),
                gaps: pairs.chunks_exact(2).map(|p| (p[0], p[1])).collect(),
                lost_gaps,
            })
        };
        read().unwrap_or_default()
    }
}

/// Allocates memory and writes to it, so that no page fault occurs while it is filled.
fn room<T: Default + Clone>(items: usize) -> Vec<T> {
    let mut items = vec![T::default(); items];
    std::hint::black_box(items.as_mut_ptr());
    items.clear();
    items
}

/// Runs this rank. All ranks of the fabric call it with the same plan.
pub fn run<F: Fabric>(
    fabric: &mut F,
    plan: &RankPlan,
    calibration: &mut Calibration,
    halt: &AtomicBool,
) -> Result<RankRecord, MeasureError> {
    let rate = calibration.counts_per_second();
    let counts = |time: Nanos| (time.as_secs_f64() * rate) as u64;
    // An iteration takes at least as long as its computation, apart from turbo frequencies.
    let expected = plan.duration.get() / plan.work.get().max(1) * 3 / 2 + 1_024;
    let room_for = expected.min(plan.max_iterations);
    let mut iterations: Vec<Iteration> = room(room_for as usize + 1);
    let mut gaps: Vec<Gap> = room(MOST_GAPS.min(4 * room_for as usize + 1_024));
    let mut lost_gaps = 0;
    let rank_plan = Plan {
        work: Work::new(plan.steps, plan.work, counts(plan.work)),
        pattern: &plan.pattern,
        duration: counts(plan.duration),
        threshold: counts(THRESHOLD),
        max_iterations: room_for,
        halt,
    };
    calibration.update();
    let counter = calibration.counter();
    let done = with_source!(counter, s => run_rank(
        fabric,
        s,
        &rank_plan,
        |iteration| iterations.push(iteration),
        |gap| if gaps.len() < gaps.capacity() { gaps.push(gap) } else { lost_gaps += 1 },
    ));
    calibration.update();
    done?;
    let ns = |counts| calibration.to_ns(counts);
    // The last entry only marks the end of the previous one.
    let real = iterations.len().saturating_sub(1);
    Ok(RankRecord {
        begins: iterations.iter().map(|i| ns(i.begin)).collect(),
        arrivals: iterations[..real].iter().map(|i| ns(i.arrival)).collect(),
        gaps: gaps
            .iter()
            .map(|g| {
                let begin = ns(g.begin);
                let end = ns(g.begin.saturating_add(g.length));
                (begin, end.saturating_sub(begin))
            })
            .collect(),
        lost_gaps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::AlignmentPoint;
    use proptest::prelude::*;

    #[test]
    fn a_corrected_record_is_on_the_clock_of_the_first_node() {
        let point = |time_ns, offset_ns| AlignmentPoint {
            time_ns,
            offset_ns,
            round_trip: Nanos::ZERO,
        };
        // 1000 ns ahead at first, and gaining 10 % on top.
        let points = vec![point(2_000, -1_000), point(3_100, -1_100)];
        let by = Correction::fit(points, 2_000, 3_100).expect("two points");
        let mut record = RankRecord {
            begins: vec![2_000, 2_550, 3_100],
            arrivals: vec![2_220, 2_660],
            gaps: vec![(2_110, 110)],
            lost_gaps: 1,
        };
        record.correct(&by);
        assert_eq!(record.begins, [1_000, 1_500, 2_000]);
        assert_eq!(record.arrivals, [1_200, 1_600]);
        assert_eq!(record.gaps, [(1_100, 100)]);
    }

    proptest! {
        #[test]
        fn a_record_survives_being_sent(
            begins in prop::collection::vec(any::<u64>(), 1..50),
            gaps in prop::collection::vec(any::<(u64, u64)>(), 0..20),
            lost_gaps in any::<u64>(),
        ) {
            let arrivals = begins[1..].to_vec();
            let record = RankRecord { begins, arrivals, gaps, lost_gaps };
            prop_assert_eq!(RankRecord::of_words(&record.to_words()), record.clone());
            let words = record.to_words();
            prop_assert_eq!(RankRecord::of_words(&words[..words.len() - 1]).iterations(), 0);
        }
    }
}
