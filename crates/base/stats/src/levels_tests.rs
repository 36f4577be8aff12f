use super::*;
use crate::testing::Random;
use proptest::prelude::*;

/// Quanta on three levels in turn with stays of 50 to 500 ms, plus detours: ends, durations,
/// switches (time, level).
fn three_levels(seed: u64, span: u64) -> (Vec<u64>, Vec<u64>, Vec<(u64, f64)>) {
    let mut random = Random::new(seed);
    let (mut ends, mut durations, mut switches) = (Vec::new(), Vec::new(), Vec::new());
    let (mut now, mut level, mut until) = (1_000_000_u64, 0_usize, 0_u64);
    while now < span {
        // The last stay lasts at least 20 ms, too.
        if now >= until && now + 20_000_000 < span {
            level = (level + 1 + (random.bits() % 2) as usize) % 3;
            until = now + 50_000_000 + (random.uniform() * 450e6) as u64;
            switches.push((now, [9070.0, 11_400.0, 22_400.0][level]));
        }
        let mut quantum = [9070.0, 11_400.0, 22_400.0][level] + 20.0 * random.normal();
        if random.uniform() < 0.02 {
            quantum += random.exponential(8000.0);
        }
        if random.uniform() < 1e-5 {
            quantum += random.exponential(6e6);
        }
        now += quantum as u64;
        ends.push(now);
        durations.push(quantum as u64);
    }
    (ends, durations, switches)
}

#[test]
fn three_levels_are_found_within_one_percent_and_switches_within_ten_milliseconds() {
    for seed in 0..20 {
        let (ends, durations, switches) = three_levels(seed, 10_000_000_000);
        let got = segment(&ends, &durations);
        let levels: Vec<f64> = got.levels().iter().map(|l| l.duration as f64).collect();
        assert_eq!(levels.len(), 3, "seed {seed}: {levels:?}");
        for (level, want) in levels.iter().zip([9070.0, 11_400.0, 22_400.0]) {
            assert!((level / want - 1.0).abs() < 0.01, "seed {seed}: {levels:?}");
        }
        assert_eq!(got.fastest(), Some(got.levels()[0].duration));
        assert_eq!(got.segments().len(), switches.len(), "seed {seed}");
        for (segment, (time, level)) in got.segments().iter().zip(&switches) {
            assert!(
                segment.begin.abs_diff(*time) < 10_000_000,
                "seed {seed}: {segment:?} {time}"
            );
            assert!(
                (segment.duration as f64 / level - 1.0).abs() < 0.01,
                "seed {seed}"
            );
        }
        let share: f64 = got.levels().iter().map(|l| l.share).sum();
        assert!((share - 1.0).abs() < 1e-9);
        assert!(
            got.levels()
                .iter()
                .all(|l| (50_000_000..500_000_000).contains(&l.dwell))
        );
    }
}

#[test]
fn a_steady_series_with_a_coarse_clock_has_one_level() {
    let durations: Vec<u64> = (0..100_000).map(|i| 10_000 + i % 3 * 10).collect();
    let ends: Vec<u64> = (1..=100_000).map(|i| i * 10_000).collect();
    let got = segment(&ends, &durations);
    assert_eq!(
        got.levels(),
        [Level {
            duration: 10_010,
            share: 1.0,
            dwell: 1_000_000_000,
            stays: 1
        }]
    );
    assert_eq!(
        got.segments(),
        [Segment {
            begin: 0,
            end: 1_000_000_000,
            duration: 10_010
        }]
    );
}

#[test]
fn scatter_without_switches_has_one_level() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let durations: Vec<u64> = (0..20_000)
            .map(|_| (500_000.0 * (0.05 * random.normal()).exp()) as u64)
            .collect();
        let ends: Vec<u64> = durations
            .iter()
            .scan(0, |now, d| {
                *now += d;
                Some(*now)
            })
            .collect();
        assert_eq!(segment(&ends, &durations).levels().len(), 1, "seed {seed}");
    }
}

#[test]
fn long_steps_of_a_millisecond_show_their_levels_too() {
    let mut now = 0;
    let (mut ends, mut durations) = (Vec::new(), Vec::new());
    for i in 0..2000_u64 {
        let d = if i / 200 % 2 == 0 {
            1_000_000
        } else {
            1_300_000
        };
        now += d;
        ends.push(now);
        durations.push(d);
    }
    let got = segment(&ends, &durations);
    assert_eq!(got.segments().len(), 10);
    assert_eq!(
        got.segments()[0].end,
        200_000_000,
        "the switch is at the quantum"
    );
    assert_eq!((got.levels()[0].stays, got.levels()[1].stays), (5, 5));
    assert_eq!(got.at(0), Some(1_000_000));
    assert_eq!(got.at(200_000_001), Some(1_300_000));
    assert_eq!(got.at(u64::MAX), Some(1_300_000));
}

#[test]
fn nothing_has_no_level_and_one_quantum_has_one() {
    assert_eq!(segment(&[], &[]), Levels::default());
    assert_eq!(segment(&[], &[]).at(5), None);
    let one = segment(&[100], &[30]);
    assert_eq!(one.fastest(), Some(30));
    assert_eq!(
        one.segments(),
        [Segment {
            begin: 70,
            end: 100,
            duration: 30
        }]
    );
    assert_eq!(segment(&[0, 0], &[0, 0]).fastest(), Some(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn segments_touch_and_cover_the_series(
        durations in prop::collection::vec(0_u64..40_000_000, 1..400),
        pause in 0_u64..1_000_000,
    ) {
        let mut now = 0;
        let ends: Vec<u64> = durations.iter().map(|d| { now += d + pause; now }).collect();
        let got = segment(&ends, &durations);
        prop_assert_eq!(got.segments()[0].begin, ends[0] - durations[0]);
        prop_assert_eq!(got.segments().last().map(|s| s.end), Some(now));
        prop_assert!(got.segments().windows(2).all(|s| s[0].end == s[1].begin));
        prop_assert!(got.levels().windows(2).all(|l| l[0].duration <= l[1].duration));
        let share: f64 = got.levels().iter().map(|l| l.share).sum();
        prop_assert!((share - 1.0).abs() < 1e-9);
        let stays: u64 = got.levels().iter().map(|l| l.stays).sum();
        prop_assert_eq!(stays, got.segments().len() as u64);
    }
}
