use super::*;
use idlewave_stats::random::SplitMix;

/// A series of these durations, step by step, one step every 10 ms.
fn series(ranks: usize, durations: Vec<u64>) -> StepSeries {
    StepSeries {
        phase: 0,
        name: "forces".into(),
        ranks,
        begins: (0..durations.len() as u64)
            .map(|i| i / ranks as u64 * 10_000_000)
            .collect(),
        durations,
    }
}

/// Box-Muller.
fn normals(n: usize, seed: u64) -> Vec<f64> {
    let mut random = SplitMix::new(seed);
    let mut uniform = move || random.uniform();
    (0..n)
        .map(|_| (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos())
        .collect()
}

/// The study without hyper-threading at small scale: 64 ranks, 1,000 steps, in every fifth step one
/// rank is far too slow.
fn like_the_study() -> StepSeries {
    let ranks = 64;
    let mut durations: Vec<u64> = normals(ranks * 1_000, 7)
        .into_iter()
        .map(|z| (143_785_000.0 + 290_000.0 * z) as u64)
        .collect();
    for step in (0..1_000).step_by(5) {
        durations[step * ranks + step / 5 % ranks] = 200_000_000;
    }
    durations[500 * ranks + 3] = 221_543_000;
    series(ranks, durations)
}

#[test]
fn the_study_in_small_is_found_again() {
    let found = findings(&like_the_study()).unwrap();
    let core = found.core.unwrap();
    assert!(
        (core.mean.value - 143_785_000.0).abs() < 5_000.0,
        "{core:?}"
    );
    assert!(
        (core.deviation.value / 290_000.0 - 1.0).abs() < 0.02,
        "{core:?}"
    );
    // 201 of 64,000, within the accuracy of 64,000 values.
    assert!((core.tail.value - 0.0031).abs() < 2.5e-3, "{core:?}");
    assert!(core.tail.low <= 0.0031 && 0.0031 <= core.tail.high);
    assert!(core.misfit < 0.01);
    assert_eq!(core.outliers, 201);
    let slowest = &found.slowest;
    assert_eq!(
        (slowest.duration.get(), slowest.rank.get(), slowest.step),
        (221_543_000, 3, 500)
    );
    assert!((slowest.z.unwrap() - 268.0).abs() < 6.0, "{slowest:?}");
    assert_eq!(slowest.begin_ns, 500 * 10_000_000);
    // Four steps of five end with the Gaussian's maximum, the fifth with 200 ms; almost the whole
    // loss comes from the tail.
    let gaussian = found.scale[0].gaussian.unwrap();
    assert_eq!(found.scale[0].ranks, 64);
    assert!((gaussian - 0.9953).abs() < 2e-4, "{gaussian}");
    let expected = 143.785 / (0.8 * 143.785 / gaussian + 0.2 * 200.0);
    assert!(
        (found.efficiency.value - expected).abs() < 2e-3,
        "{:?}",
        found.efficiency
    );
    assert!((core.efficiency_without_outliers - gaussian).abs() < 2e-4);
    let share = core.outlier_share.unwrap();
    assert!((0.9..1.0).contains(&share), "{share}");
    // The tail visits all ranks in turn: no rank is flagged, and runs are as short as by chance.
    assert!(found.slow_ranks.is_empty(), "{:?}", found.slow_ranks);
    assert!((found.run_length / found.run_length_by_chance - 1.0).abs() < 0.02);
    assert_eq!(found.slowest_counts.iter().sum::<u64>(), 1_000);
    let moves = found.order.unwrap().moves.unwrap();
    assert_eq!((moves.lag, moves.shift), (5, 1), "{moves:?}");
    assert!(moves.is_significant() && (moves.share.value - 0.21).abs() < 0.03);
}

#[test]
fn predictions_by_what_was_measured_fall_below_those_by_the_core_alone() {
    let found = findings(&like_the_study()).unwrap();
    let at = |ranks| found.scale.iter().find(|s| s.ranks == ranks).unwrap();
    let (own, more) = (at(64), at(4_096));
    // At the run's number of ranks the prediction is the measurement, up to one outlier per step at
    // most.
    assert!((own.measured.unwrap() - found.efficiency.value).abs() < 0.01);
    assert!(more.gaussian.unwrap() > 0.99);
    // With 4,096 ranks every step holds an outlier.
    assert!(
        (more.measured.unwrap() - 143.96 / 200.0).abs() < 0.02,
        "{more:?}"
    );
    // All outliers but one last 200 ms, which no tail does.
    let most = at(65_536);
    assert_eq!((most.measured, &most.extrapolated), (None, &None));
    let why = most.not_extrapolated.as_deref().unwrap();
    assert!(why.contains("no generalised Pareto law"), "{why}");
    assert!(more.not_extrapolated.is_none() && more.extrapolated.is_none());
}

#[test]
fn more_ranks_than_a_tenth_of_the_durations_are_extrapolated_with_an_interval() {
    // 1 ms and an exponential time of 0.1 ms.
    let mut random = SplitMix::new(5);
    let durations: Vec<u64> = (0..4 * 1_000)
        .map(|_| (1e6 - 1e5 * random.uniform().ln()) as u64)
        .collect();
    let found = findings(&series(4, durations)).unwrap();
    for point in &found.scale {
        let harmonic: f64 = (1..=point.ranks).map(|i| 1.0 / i as f64).sum();
        let truth = 1.1 / (1.0 + 0.1 * harmonic);
        match (point.measured, &point.extrapolated) {
            (Some(measured), None) => {
                assert!(point.ranks <= 400 && (measured / truth - 1.0).abs() < 0.02);
            }
            (None, Some(estimate)) => {
                assert!(point.ranks > 400, "{point:?}");
                assert!(estimate.low < truth && truth < estimate.high, "{point:?}");
                assert!(estimate.high - estimate.low < 0.3, "{point:?}");
                assert_eq!(estimate.n, 4_000);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(point.not_extrapolated, None);
    }
    let shape = found.tail_shape.unwrap();
    assert!(shape.low < 0.0 && 0.0 < shape.high, "{shape:?}");
    assert_eq!(shape.n, 400);
    let few = findings(&series(4, vec![5, 6, 7, 8, 6, 9, 8, 8])).unwrap();
    let why = few.scale[1].not_extrapolated.as_deref();
    assert_eq!(why, Some("a tail needs 500 values"));
    assert_eq!(few.tail_shape, None);
}

#[test]
fn a_rank_that_is_always_slower_is_named() {
    let durations: Vec<u64> = normals(4 * 300, 3)
        .into_iter()
        .enumerate()
        .map(|(i, z)| (1e6 + 1e3 * z + if i % 4 == 2 { 1_500.0 } else { 0.0 }) as u64)
        .collect();
    let found = findings(&series(4, durations)).unwrap();
    assert_eq!(found.slow_ranks, [Rank::new(2)]);
    assert!(found.run_length > 1.5);
}

#[test]
fn the_map_has_few_cells_that_hold_every_step_once() {
    for (ranks, steps) in [(3_usize, 10_usize), (450, 1_001)] {
        let slowest: Vec<u32> = (0..steps).map(|s| (s * 7 % ranks) as u32).collect();
        let map = map(&slowest, ranks);
        assert_eq!(map.cells.iter().map(|c| c.2).sum::<u64>(), steps as u64);
        assert!(map.cells.iter().all(|c| c.0 < 200 && c.1 < 200));
        assert_eq!(map.steps_per_column, if steps < 200 { 1 } else { 6 });
        assert_eq!(map.ranks_per_row, if ranks < 200 { 1 } else { 3 });
    }
}

#[test]
fn the_distribution_rises_to_all_at_the_longest_and_has_points_in_the_tail() {
    let found = findings(&like_the_study()).unwrap();
    let points = &found.distribution;
    assert!(points.windows(2).all(|w| w[0].duration < w[1].duration));
    assert!(points.windows(2).all(|w| w[0].count < w[1].count));
    let last = points.last().unwrap();
    assert_eq!((last.duration.get(), last.count), (221_543_000, 64_000));
    assert!(points.iter().filter(|p| p.count > 63_000).count() > 10);
    assert!(points.len() <= POINTS + 1);
}

#[test]
fn nothing_is_said_where_nothing_varies_or_nothing_was_computed() {
    let equal = findings(&series(2, vec![1_000; 400])).unwrap();
    assert_eq!(equal.core, None);
    assert_eq!(equal.efficiency.value, 1.0);
    assert_eq!(equal.scale[0].gaussian, None);
    assert!(findings(&series(2, vec![0; 400])).is_none());
    let few = findings(&series(2, vec![5, 6, 7, 8])).unwrap();
    assert_eq!(few.core, None);
    assert_eq!(few.scale[0].measured, None);
}

#[test]
fn a_core_without_intervals_is_not_reported() {
    let of = |steps: usize| {
        let durations = normals(64 * steps, 11)
            .into_iter()
            .map(|z| (1e6 + 1e3 * z) as u64)
            .collect();
        findings(&series(64, durations)).unwrap()
    };
    let few = of(4);
    assert_eq!(few.core, None);
    assert_eq!((few.slowest.z, few.scale[0].gaussian), (None, None));
    let core = of(5).core.unwrap();
    for e in [&core.mean, &core.deviation, &core.tail] {
        assert!(e.low <= e.value && e.value <= e.high, "{e:?}");
    }
    // Resampling five steps of 64 gives the mean to a fraction of the deviation, not exactly.
    assert!(core.mean.high - core.mean.low < 1e3, "{core:?}");
}
