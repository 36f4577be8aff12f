use super::*;
use crate::testing::Random;

const SECOND: f64 = 1e9;

/// A comb with normal jitter; `keep` is the share of teeth that have an event.
fn comb(random: &mut Random, period: f64, span: f64, jitter: f64, keep: f64) -> Vec<u64> {
    let phase = random.uniform();
    (0..(span / period) as usize)
        .filter_map(|i| {
            let at = (i as f64 + phase) * period + jitter * random.normal();
            (random.uniform() < keep).then_some((1e12 + at) as u64)
        })
        .collect()
}

fn poisson(random: &mut Random, n: usize, span: f64) -> Vec<u64> {
    random
        .events(n, span as u64)
        .into_iter()
        .map(|t| t + 1_000_000_000_000)
        .collect()
}

fn assert_period(found: &[Periodicity], want: f64, relative: f64, case: &str) {
    let first = found
        .first()
        .unwrap_or_else(|| panic!("{case}: nothing found"));
    let off = (first.period.value / want - 1.0).abs();
    assert!(off < relative, "{case}: {found:#?}");
    assert!(first.power > 1.0, "{case}: {found:#?}");
}

#[test]
fn fifty_milliseconds_are_found_within_a_thousandth_in_any_company() {
    for seed in 0..8 {
        for (span, foreign, keep) in [
            (10.0, 0, 1.0),
            (10.0, 300, 1.0),
            (30.0, 0, 0.3),
            (30.0, 2000, 1.0),
            (20.0, 100, 0.7),
        ] {
            let random = &mut Random::new(seed);
            let mut times = comb(random, 50e6, span * SECOND, 200e3, keep);
            times.extend(poisson(random, foreign, span * SECOND));
            let case = format!("seed {seed}, span {span}, foreign {foreign}, keep {keep}");
            assert_period(&periods(&times), 50e6, 1e-3, &case);
        }
    }
}

#[test]
fn a_250_hz_tick_among_three_thousand_random_events_is_found_with_its_share() {
    for seed in 0..6 {
        let random = &mut Random::new(seed);
        let mut times = comb(random, 4e6, 10.0 * SECOND, 20e3, 1.0);
        times.extend(poisson(random, 3000, 10.0 * SECOND));
        let found = periods(&times);
        assert_period(&found, 4e6, 1e-5, "tick");
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(
            (found[0].share - 2500.0 / 5500.0).abs() < 0.03,
            "{found:#?}"
        );
        assert!(found[0].power > 30.0, "{found:#?}");
    }
}

#[test]
fn poisson_events_have_no_period() {
    let mut alarms = 0;
    let mut calls = 0;
    for (n, cases) in [
        (5, 50),
        (12, 300),
        (30, 300),
        (300, 200),
        (3000, 60),
        (50_000, 4),
    ] {
        for seed in 0..cases {
            let random = &mut Random::new(1000 * n as u64 + seed);
            let found = periods(&poisson(random, n, 20.0 * SECOND));
            if let Some(first) = found.first() {
                println!("n {n}, seed {seed}: {first:?}");
                alarms += 1;
            }
            calls += 1;
        }
    }
    assert!(alarms <= 4, "{alarms} false alarms in {calls} calls");
}

#[test]
fn bursts_at_random_times_have_no_period() {
    let mut alarms = 0;
    for seed in 0..40 {
        let random = &mut Random::new(seed);
        let mut times = Vec::new();
        for begin in poisson(random, 150, 15.0 * SECOND) {
            let mut at = begin as f64;
            for _ in 0..1 + random.bits() % 20 {
                times.push(at as u64);
                at += random.exponential(1e6);
            }
        }
        alarms += usize::from(!periods(&times).is_empty());
    }
    assert!(alarms <= 1, "{alarms} of 40");
}

#[test]
fn uneven_watching_of_random_events_has_no_period() {
    let mut alarms = 0;
    for seed in 0..8 {
        let random = &mut Random::new(seed);
        let hole = 1e12 + (3.0 + 10.0 * random.uniform()) * SECOND;
        let mut times = poisson(random, 16_000, 20.0 * SECOND);
        times.retain(|&t| (t as f64) < hole || t as f64 > hole + 4.0 * SECOND);
        alarms += usize::from(!periods(&times).is_empty());
    }
    assert_eq!(alarms, 0, "of 8");
}

#[test]
fn holes_outliers_and_double_events_do_not_hide_a_period() {
    for seed in 0..20 {
        let random = &mut Random::new(seed);
        let mut times = comb(random, 50e6, 20.0 * SECOND, 100e3, 0.95);
        let hole = 1e12 + 6.0 * SECOND;
        times.retain(|&t| (t as f64) < hole || t as f64 > hole + 5.03 * SECOND);
        let doubles: Vec<u64> = times.iter().step_by(3).map(|t| t + 60_000).collect();
        times.extend(doubles);
        times.extend(poisson(random, 40, 20.0 * SECOND));
        let found = periods(&times);
        assert_period(&found, 50e6, 1e-3, &format!("seed {seed}"));
        assert!(found[0].share > 0.75, "{found:#?}");
    }
}

#[test]
fn relative_sleeps_whose_phase_drifts_are_found_by_their_gaps() {
    for (jitter, relative) in [(0.2e6, 2e-3), (1e6, 5e-3), (4e6, 2e-2)] {
        for seed in 0..20 {
            let random = &mut Random::new(seed);
            let mut now = 1e12;
            let times: Vec<u64> = (0..300)
                .map(|_| {
                    now += 50e6 + jitter * random.normal();
                    now as u64
                })
                .collect();
            let found = periods(&times);
            assert_period(
                &found,
                50e6,
                relative,
                &format!("seed {seed}, jitter {jitter}"),
            );
        }
    }
}

#[test]
fn sleeps_that_end_on_ticks_are_no_faster_than_they_are() {
    for seed in 0..10 {
        let random = &mut Random::new(seed);
        let mut now = 250_000_u64;
        let times: Vec<u64> = (0..400)
            .map(|_| {
                now += if random.uniform() < 0.2 { 14 } else { 13 };
                now * 4_000_000 + (20e3 * random.uniform()) as u64
            })
            .collect();
        assert_period(&periods(&times), 52e6, 1e-3, &format!("seed {seed}"));
    }
}

#[test]
fn twenty_events_are_enough_where_they_are_regular() {
    for seed in 0..20 {
        let random = &mut Random::new(seed);
        let times = comb(random, SECOND, 20.0 * SECOND, 2e6, 1.0);
        assert_period(&periods(&times), SECOND, 2e-3, &format!("seed {seed}"));
    }
}

#[test]
fn two_periods_at_once_are_both_found() {
    for seed in 0..4 {
        let random = &mut Random::new(seed);
        let mut times = comb(random, 4e6, 20.0 * SECOND, 5e3, 1.0);
        times.extend(comb(random, 33.37e6, 20.0 * SECOND, 100e3, 1.0));
        times.extend(poisson(random, 1000, 20.0 * SECOND));
        let found = periods(&times);
        assert_period(&found, 4e6, 1e-5, "tick");
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(
            (found[1].period.value / 33.37e6 - 1.0).abs() < 1e-3,
            "{found:#?}"
        );
    }
}

#[test]
fn two_teeth_in_each_period_are_one_period_that_all_events_share() {
    for seed in 0..10 {
        let random = &mut Random::new(seed);
        let mut times = comb(random, 50e6, 20.0 * SECOND, 50e3, 1.0);
        let second: Vec<u64> = times.iter().map(|t| t + 17_000_000).collect();
        times.extend(second);
        let found = periods(&times);
        assert_period(&found, 50e6, 1e-4, &format!("seed {seed}"));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].share > 0.95, "{found:#?}");
    }
}

#[test]
fn the_interval_of_a_comb_holds_the_period_in_nineteen_of_twenty_cases() {
    let held = (0..100)
        .filter(|&seed| {
            let random = &mut Random::new(seed);
            let mut times = comb(random, 50e6, 15.0 * SECOND, 500e3, 0.9);
            times.extend(poisson(random, 50, 15.0 * SECOND));
            let period = periods(&times).remove(0).period;
            period.low <= 50e6 && 50e6 <= period.high
        })
        .count();
    assert!(held >= 86, "{held} of 100");
}

#[test]
fn order_and_origin_of_time_do_not_matter_and_nothing_has_no_period() {
    let random = &mut Random::new(9);
    let times = comb(random, 7e6, 5.0 * SECOND, 50e3, 0.8);
    let found = periods(&times);
    let reversed: Vec<u64> = times.iter().rev().copied().collect();
    assert_eq!(periods(&reversed), found);
    let moved: Vec<u64> = times.iter().map(|t| t - 900_000_000_000).collect();
    let back = |mut found: Vec<Periodicity>| {
        let phases = found.iter_mut().filter_map(|f| f.phase.as_mut());
        phases.for_each(|p| p.reference_ns += 900_000_000_000);
        found
    };
    assert_eq!(back(periods(&moved)), found);
    assert!(periods(&[]).is_empty());
    assert!(periods(&[5]).is_empty());
    assert!(periods(&[5; 100]).is_empty());
}

#[test]
fn the_phase_of_an_exact_comb_is_its_next_tooth() {
    // 100 teeth, 7 ms apart: the mean of their times is the middle between two.
    let times: Vec<u64> = (0..100).map(|k| 1_000_000_003 + k * 7_000_000).collect();
    let found = periods(&times);
    let phase = found[0].phase.as_ref().expect("a phase");
    assert_eq!(phase.reference_ns, 1_000_000_003 + 99 * 3_500_000);
    assert!((phase.offset.value - 3.5e6).abs() < 1e-3, "{phase:?}");
    assert_eq!(phase.offset.n, 100);
    // Later events move the reference, not the comb; the interval is the standard error of the
    // line: half of the events 1 us early, half 1 us late.
    let times: Vec<u64> = (0..100)
        .map(|k| 1_000_000_003 + k * 7_000_000 + k % 2 * 2_000)
        .collect();
    let found = periods(&times);
    let phase = found[0].phase.as_ref().expect("a phase");
    let tooth = phase.reference_ns as f64 + phase.offset.value;
    let late = (tooth - 1_000_001_003.0).rem_euclid(7e6);
    assert!(late.min(7e6 - late) < 50.0, "{phase:?}");
    let half = 0.5 * (phase.offset.high - phase.offset.low);
    let expected = 1.984 * 1_000.0 * (1.0_f64 / 98.0).sqrt();
    assert!((half / expected - 1.0).abs() < 0.02, "{half} {expected}");
}

#[test]
fn a_thread_that_sleeps_has_a_period_but_no_phase() {
    let mut random = Random::new(3);
    let mut now = 1e9;
    let mut next = || {
        now += 50e6 + 1e6 * random.normal();
        now as u64
    };
    let times: Vec<u64> = (0..400).map(|_| next()).collect();
    let found = periods(&times);
    assert_period(&found, 50e6, 0.01, "sleeper");
    assert_eq!(found[0].phase, None);
}
