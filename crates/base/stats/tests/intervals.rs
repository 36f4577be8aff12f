//! The intervals hold the truth as often as they say.

use crate::coverage::{CASES, Case};

const DRAWS: u64 = 1_000;

/// Whether an interval that held the truth so often has a coverage of `least` to `most`. Allows for
/// 2 standard deviations: an interval of 95 % that truly covers 90 % fails by 2.7 of its own.
fn is_right(held: u64, draws: u64, least: f64, most: f64) -> bool {
    let share = held as f64 / draws as f64;
    let allowed = |p: f64| 2.0 * (p * (1.0 - p) / draws as f64).sqrt();
    least - allowed(least) <= share && share <= most + allowed(most)
}

#[test]
fn a_coverage_of_nine_in_ten_or_of_ninety_nine_in_a_hundred_is_no_coverage_of_95_per_cent() {
    assert!(is_right(950, DRAWS, 0.94, 0.96));
    assert!(!is_right(900, DRAWS, 0.94, 0.96));
    assert!(!is_right(990, DRAWS, 0.94, 0.96));
}

#[test]
fn every_interval_holds_the_truth_as_often_as_it_says() {
    check(|case| case.one_in == 1);
}

#[test]
fn every_interval_that_takes_long_holds_the_truth_as_often_as_it_says() {
    check(|case| case.one_in > 1);
}

fn check(chosen: impl Fn(&Case) -> bool) {
    let mut wrong = Vec::new();
    for case in CASES.iter().filter(|case| chosen(case)) {
        let (held, draws) = case.held(DRAWS, 77);
        assert!(
            2 * draws * case.one_in > DRAWS,
            "{}: few have an interval",
            case.data
        );
        for (interval, held) in case.intervals.iter().zip(held) {
            if !is_right(held, draws, interval.least, interval.most) {
                let (name, data) = (interval.name, case.data);
                wrong.push(format!("{name} of {data}: {held} of {draws}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
