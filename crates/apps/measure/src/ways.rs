//! Ways to program an exchange, compared: blocking, non-blocking, overlapped with computation.
//!
//! The ways take turns, in rounds, so that whatever else changes on the machine concerns all of
//! them. In each round the mean step of every way is divided by that of the first way; the effect
//! is the median ratio over the rounds, minus 1, with the interval of order statistics.

use crate::series::SeriesFindings;
use idlewave_run::ExchangeVariant;
use idlewave_run::findings::Estimate;
use idlewave_stats::quantiles::{self, MEDIAN_NEEDS};
use serde::Serialize;

/// How often each way is measured.
pub const ROUNDS: u32 = 12;

/// Several ways, measured in turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ways {
    /// Rounds in which every way was measured.
    pub rounds: u64,
    /// One per way, in the order in which they were named.
    pub ways: Vec<Way>,
}

/// One way to program the exchange; times in nanoseconds, medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Way {
    /// Which.
    pub variant: ExchangeVariant,
    /// Mean time of an iteration.
    pub step: Estimate,
    /// Undisturbed exchange.
    pub exchange: Estimate,
    /// What disturbances cost per iteration.
    pub noise: Estimate,
    /// How much longer an iteration is than in the first way, as a share; `None` for the first.
    pub longer: Option<Estimate>,
}

/// Whether iterations are longer or shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Longer in every value of the interval.
    Longer,
    /// Shorter in every value of the interval.
    Shorter,
    /// The interval contains no difference.
    NoDifference,
    /// Too few rounds for a 95 % interval.
    NotKnown,
}

impl Verdict {
    /// Of the interval of [`Way::longer`].
    pub fn of(longer: &Estimate) -> Self {
        match longer {
            e if e.n < MEDIAN_NEEDS as u64 => Self::NotKnown,
            e if e.low > 0.0 => Self::Longer,
            e if e.high < 0.0 => Self::Shorter,
            _ => Self::NoDifference,
        }
    }
}

impl Ways {
    /// Compares the ways, from the findings of every round; `rounds` have one entry per way, in the
    /// order of `variants`, and incomplete ones are left out. `None` without a complete one.
    pub fn of(
        variants: &[ExchangeVariant],
        rounds: &[Vec<Option<SeriesFindings>>],
    ) -> Option<Self> {
        let whole: Vec<Vec<&SeriesFindings>> = rounds
            .iter()
            .filter_map(|round| round.iter().map(Option::as_ref).collect())
            .filter(|round: &Vec<_>| round.len() == variants.len())
            .collect();
        if whole.is_empty() {
            return None;
        }
        let median = |value: &dyn Fn(&[&SeriesFindings]) -> f64| {
            let values: Vec<f64> = whole.iter().map(|round| value(round)).collect();
            quantiles::median_of_floats(&values)
        };
        let ways = variants.iter().enumerate().map(|(i, &variant)| Way {
            variant,
            step: median(&|round| round[i].step.value),
            exchange: median(&|round| round[i].exchange.value),
            noise: median(&|round| round[i].noise.value),
            longer: (i > 0).then(|| median(&|r| r[i].step.value / r[0].step.value - 1.0)),
        });
        Some(Self {
            rounds: whole.len() as u64,
            ways: ways.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank_run::RankRecord;
    use crate::series::findings;
    use idlewave_run::Coupling;
    use idlewave_units::Nanos;

    /// Steps of this length, of one rank.
    fn steps(length: u64) -> Option<SeriesFindings> {
        let record = RankRecord {
            begins: (0..=3).map(|k| k * length).collect(),
            arrivals: (0..3).map(|k| k * length + length / 2).collect(),
            ..RankRecord::default()
        };
        findings(&[record], Coupling::Neighbours, &[], Nanos::ZERO)
    }

    const TWO: [ExchangeVariant; 2] = [ExchangeVariant::Blocking, ExchangeVariant::NonBlocking];

    #[test]
    fn a_way_that_is_always_shorter_is_found_while_the_machine_gets_slower() {
        // Every round the machine is 10 % slower than in the round before, a hundred times the
        // difference between the ways.
        let rounds: Vec<_> = (0..12)
            .map(|round| {
                let slow = 1.1_f64.powi(round);
                [1_000_000.0, 999_000.0]
                    .map(|ns| steps((ns * slow) as u64))
                    .to_vec()
            })
            .collect();
        let found = Ways::of(&TWO, &rounds).expect("rounds");
        assert_eq!(found.rounds, 12);
        assert_eq!(found.ways[0].longer, None);
        let longer = found.ways[1].longer.as_ref().expect("the second");
        assert!((longer.value + 0.001).abs() < 2e-6, "{longer:?}");
        assert_eq!(Verdict::of(longer), Verdict::Shorter);
    }

    #[test]
    fn ways_that_take_turns_at_being_shorter_do_not_differ() {
        let rounds: Vec<_> = (0..12)
            .map(|round| vec![steps(1_000), steps(990 + 20 * (round % 2))])
            .collect();
        let found = Ways::of(&TWO, &rounds).expect("rounds");
        let longer = found.ways[1].longer.as_ref().expect("the second");
        assert_eq!(Verdict::of(longer), Verdict::NoDifference);
    }

    #[test]
    fn rounds_that_were_cut_short_do_not_count() {
        let whole = vec![steps(1_000), steps(900)];
        let cut = vec![steps(1_000), None];
        let found = Ways::of(&TWO, &[whole, cut.clone()]).expect("one round");
        assert_eq!(found.rounds, 1);
        let longer = found.ways[1].longer.as_ref().expect("the second");
        assert_eq!(Verdict::of(longer), Verdict::NotKnown);
        assert_eq!(Ways::of(&TWO, &[cut]), None);
    }
}
