//! Ways that take turns, compared: of programming an exchange, or of using the hardware threads of
//! a core.
//!
//! The ways take turns, in rounds, so that whatever else changes on the machine concerns all of
//! them. In each round the mean step of every way is divided by that of the first way; the effect
//! is the median ratio over the rounds, minus 1, with the interval of order statistics.

use crate::series::SeriesFindings;
use idlewave_run::findings::{Way, WayVerdict, Ways};
use idlewave_run::{ExchangeVariant, Siblings};
use idlewave_stats::quantiles;
use idlewave_units::show::{change, percent};

/// What distinguishes a way.
pub type WayOf = (ExchangeVariant, Option<Siblings>);

/// Compares the ways, from the findings of every round; `rounds` have one entry per way, in the
/// order of `of`, and incomplete ones are left out. `None` without a complete one.
pub fn ways(of: &[WayOf], rounds: &[Vec<Option<SeriesFindings>>]) -> Option<Ways> {
    let whole: Vec<Vec<&SeriesFindings>> = rounds
        .iter()
        .filter_map(|round| round.iter().map(Option::as_ref).collect())
        .filter(|round: &Vec<_>| round.len() == of.len())
        .collect();
    if whole.is_empty() {
        return None;
    }
    let median = |value: &dyn Fn(&[&SeriesFindings]) -> f64| {
        let values: Vec<f64> = whole.iter().map(|round| value(round)).collect();
        quantiles::median_of_floats(&values)
    };
    let ways = of.iter().enumerate().map(|(i, &(variant, siblings))| Way {
        variant,
        siblings,
        phases: Vec::new(),
        step: median(&|round| round[i].step.value),
        exchange: median(&|round| round[i].exchange.value),
        noise: median(&|round| round[i].noise.value),
        longer: (i > 0).then(|| median(&|r| r[i].step.value / r[0].step.value - 1.0)),
    });
    Some(Ways {
        rounds: whole.len() as u64,
        ways: ways.collect(),
    })
}

/// How `other` differs from `first`, as a sentence; `None` of the first itself.
pub fn way_sentence(first: &Way, other: &Way) -> Option<String> {
    let longer = other.longer.as_ref()?;
    let (name, base) = (other.name(), first.name());
    let by = percent(longer.value.abs());
    let siblings = other.siblings.is_some();
    Some(match (WayVerdict::of(longer), siblings) {
        (WayVerdict::Shorter, false) => {
            format!("Use {name}: a step is {by} shorter than with {base}.")
        }
        (WayVerdict::Longer, false) => format!("Use {base}: a step is {by} longer with {name}."),
        (WayVerdict::NoDifference, false) => {
            format!("{name}: no significant difference from {base} on this machine.")
        }
        (WayVerdict::NotKnown, false) => {
            format!("{name} and {base}: too few rounds to say; measure without interrupting.")
        }
        (WayVerdict::Shorter, true) => {
            format!("A step is {by} shorter with {name} siblings than with {base} ones.")
        }
        (WayVerdict::Longer, true) => {
            format!("A step is {by} longer with {name} siblings than with {base} ones.")
        }
        (WayVerdict::NoDifference, true) => {
            format!("{name} siblings: no significant difference from {base} ones.")
        }
        (WayVerdict::NotKnown, true) => {
            format!("{name} siblings: too few rounds to say; measure without interrupting.")
        }
    })
}

/// How much longer a step is than in the first way, with its interval if there are enough rounds
/// for one.
pub fn way_change(way: &Way) -> String {
    way.longer.as_ref().map_or_else(
        || "-".to_owned(),
        |e| {
            let value = change(e.value);
            match e.median_interval() {
                None => value,
                Some((low, high)) => format!("{value} ({} .. {})", change(low), change(high)),
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{RankTimes, findings};
    use idlewave_run::Coupling;
    use idlewave_run::findings::WayVerdict;
    use idlewave_units::Nanos;

    /// Steps of this length, of one rank.
    fn steps(length: u64) -> Option<SeriesFindings> {
        let begins: Vec<u64> = (0..=3).map(|k| k * length).collect();
        let arrivals: Vec<u64> = (0..3).map(|k| k * length + length / 2).collect();
        let record = RankTimes {
            begins: &begins,
            arrivals: &arrivals,
        };
        findings(&[record], Coupling::Neighbours, &[], Nanos::ZERO)
    }

    const TWO: [WayOf; 2] = [
        (ExchangeVariant::Blocking, None),
        (ExchangeVariant::NonBlocking, None),
    ];

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
        let found = ways(&TWO, &rounds).expect("rounds");
        assert_eq!(found.rounds, 12);
        assert_eq!(found.ways[0].longer, None);
        let longer = found.ways[1].longer.as_ref().expect("the second");
        assert!((longer.value + 0.001).abs() < 2e-6, "{longer:?}");
        assert_eq!(WayVerdict::of(longer), WayVerdict::Shorter);
    }

    #[test]
    fn ways_that_take_turns_at_being_shorter_do_not_differ() {
        let rounds: Vec<_> = (0..12)
            .map(|round| vec![steps(1_000), steps(990 + 20 * (round % 2))])
            .collect();
        let found = ways(&TWO, &rounds).expect("rounds");
        let longer = found.ways[1].longer.as_ref().expect("the second");
        assert_eq!(WayVerdict::of(longer), WayVerdict::NoDifference);
        assert!(way_change(&found.ways[1]).ends_with("(-1.00 % .. +1.00 %)"));
        let five = ways(&TWO, &rounds[..5]).expect("rounds");
        let shown = way_change(&five.ways[1]);
        assert!(shown.ends_with(" %"), "{shown}");
        assert_eq!(way_change(&five.ways[0]), "-");
    }

    #[test]
    fn rounds_that_were_cut_short_do_not_count() {
        let whole = vec![steps(1_000), steps(900)];
        let cut = vec![steps(1_000), None];
        let found = ways(&TWO, &[whole, cut.clone()]).expect("one round");
        assert_eq!(found.rounds, 1);
        let longer = found.ways[1].longer.as_ref().expect("the second");
        assert_eq!(WayVerdict::of(longer), WayVerdict::NotKnown);
        assert_eq!(ways(&TWO, &[cut]), None);
    }
}
