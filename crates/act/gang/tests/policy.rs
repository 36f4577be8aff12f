//! Shares against their bounds, and decisions to check by eye.

#![allow(clippy::unwrap_used)]

use idlewave_gang::matrix::RowId;
use idlewave_gang::policy::{
    Activity, Class, Costs, Decision, Policy, PolicyError, Reason, Settings,
};
use idlewave_units::Nanos;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn row(n: u32) -> RowId {
    RowId::new(n)
}

fn policy(rows: &[(u32, Class)]) -> Policy {
    let mut policy = Policy::new(Settings::default()).unwrap();
    for (n, (weight, class)) in rows.iter().enumerate() {
        policy
            .add(row(n as u32), *weight, *class, Nanos::ZERO)
            .unwrap();
    }
    policy
}

fn chosen(policy: &mut Policy, now: Nanos) -> (u32, Reason) {
    match policy.next(now) {
        Decision::Run { row, reason, .. } => (row.get(), reason),
        rest => panic!("{rest:?}"),
    }
}

/// Rows in the order of their turns of 10 ms.
fn turns(policy: &mut Policy, now: &mut Nanos, turns: usize) -> Vec<u32> {
    (0..turns)
        .map(|_| {
            let (n, _) = chosen(policy, *now);
            *now += ms(10);
            policy.ran(row(n), ms(10), *now);
            n
        })
        .collect()
}

#[test]
fn equal_rows_take_turns_and_weights_count() {
    let now = &mut ms(0);
    let mut equal = policy(&[(1, Class::Production); 3]);
    assert_eq!(turns(&mut equal, now, 6), [0, 1, 2, 0, 1, 2]);
    let mut weighted = policy(&[(2, Class::Production), (1, Class::Production)]);
    assert_eq!(turns(&mut weighted, now, 6), [0, 1, 0, 0, 1, 0]);
}

#[test]
fn a_row_that_slept_or_came_later_gets_nothing_for_that_time() {
    let now = &mut ms(0);
    let mut policy = policy(&[(1, Class::Production); 2]);
    policy.activity(row(1), Activity::Dead);
    assert_eq!(turns(&mut policy, now, 4), [0, 0, 0, 0]);
    policy.activity(row(1), Activity::Active);
    policy.add(row(2), 1, Class::Production, *now).unwrap();
    let next = turns(&mut policy, now, 9);
    for n in 0..3 {
        assert_eq!(next.iter().filter(|r| **r == n).count(), 3, "{next:?}");
    }
    policy.remove(row(0));
    assert_eq!(turns(&mut policy, now, 4), [1, 2, 1, 2]);
}

#[test]
fn dead_rows_have_no_turn_and_idle_ones_a_short_one_each_second() {
    let mut policy = policy(&[(1, Class::Production); 3]);
    policy.activity(row(0), Activity::Dead);
    policy.activity(row(1), Activity::Idle);
    assert_eq!(chosen(&mut policy, ms(999)), (2, Reason::Turn));
    policy.switched(ms(1));
    let Decision::Run {
        row: n,
        slice,
        reason,
    } = policy.next(ms(1000))
    else {
        panic!()
    };
    assert_eq!((n, reason, slice.length), (row(1), Reason::Probe, ms(10)));
    policy.ran(row(1), ms(10), ms(1010));
    assert_eq!(chosen(&mut policy, ms(1010)), (2, Reason::Turn));
    policy.activity(row(2), Activity::Dead);
    assert_eq!(
        policy.next(ms(1010)),
        Decision::Rest {
            until: Some(ms(2010))
        }
    );
    policy.activity(row(1), Activity::Dead);
    assert_eq!(policy.next(ms(5000)), Decision::Rest { until: None });
}

#[test]
fn many_idle_rows_do_not_starve_an_active_one() {
    let mut policy = policy(&[(1, Class::Production); 300]);
    for n in 1..300 {
        policy.activity(row(n), Activity::Idle);
    }
    let mut now = ms(1000);
    let turns = turns(&mut policy, &mut now, 400);
    assert_eq!(turns.iter().filter(|n| **n == 0).count(), 200);
}

#[test]
fn a_turn_ends_early_where_another_row_has_more_use_for_it() {
    let mut policy = policy(&[
        (1, Class::Production),
        (1, Class::Production),
        (1, Class::Interactive),
    ]);
    policy.activity(row(2), Activity::Idle);
    assert_eq!(policy.ends_early(row(0)), None);
    policy.activity(row(0), Activity::Idle);
    assert_eq!(policy.ends_early(row(0)), Some(Reason::Yield));
    assert_eq!(
        policy.ends_early(row(9)),
        Some(Reason::Yield),
        "its row is gone"
    );
    policy.activity(row(1), Activity::Dead);
    assert_eq!(policy.ends_early(row(0)), None, "nobody else can use it");
    policy.activity(row(0), Activity::Active);
    policy.activity(row(2), Activity::Active);
    assert_eq!(policy.ends_early(row(0)), Some(Reason::Interactive));
    // Above its share it waits: 200 ms are saved up, and at a share of 0.5 its time counts half.
    policy.ran(row(2), ms(402), ms(402));
    assert_eq!(policy.ends_early(row(0)), None);
    assert_eq!(chosen(&mut policy, ms(402)), (0, Reason::Turn));
    policy.ran(row(0), ms(2), ms(404));
    assert_eq!(chosen(&mut policy, ms(404)), (2, Reason::Interactive));
}

#[test]
fn interactive_rows_alone_use_up_nothing() {
    let mut policy = policy(&[(1, Class::Interactive), (1, Class::Production)]);
    policy.activity(row(1), Activity::Dead);
    policy.ran(row(0), ms(10_000), ms(10_000));
    policy.activity(row(1), Activity::Active);
    assert_eq!(chosen(&mut policy, ms(10_000)), (0, Reason::Interactive));
}

#[test]
fn the_slice_is_the_upper_quantile_of_the_cost_over_the_overhead() {
    let settings = Settings::default();
    let mut costs = Costs::default();
    let slice = costs.slice(&settings);
    assert_eq!(
        (slice.length, slice.cost, slice.kept),
        (ms(100), None, None)
    );
    costs.add(Nanos::from_micros(400));
    let slice = costs.slice(&settings);
    assert_eq!((slice.length, slice.n, slice.kept), (ms(20), 1, Some(true)));
    // 1 to 20 times 50 us: the 18th of 20 is 900 us; 0.9 ms / 2 % = 45 ms.
    let mut costs = Costs::default();
    for n in 1..=20 {
        costs.add(Nanos::from_micros(50 * n));
    }
    let slice = costs.slice(&settings);
    assert_eq!(
        (slice.length, slice.cost, slice.n),
        (ms(45), Some(Nanos::from_micros(900)), 20)
    );
    // With fewer than ten, the largest counts.
    let mut few = Costs::default();
    for n in 1..=9 {
        few.add(Nanos::from_micros(100 * n));
    }
    assert_eq!(few.upper(), Some((Nanos::from_micros(900), 9)));
}

#[test]
fn the_slice_stays_within_its_bounds_and_says_when_the_overhead_is_not_kept() {
    let slice = |cost: Nanos| {
        let mut costs = Costs::default();
        costs.add(cost);
        let slice = costs.slice(&Settings::default());
        (slice.length, slice.kept)
    };
    assert_eq!(slice(Nanos::from_micros(1)), (ms(10), Some(true)));
    assert_eq!(slice(ms(2)), (ms(100), Some(true)));
    assert_eq!(slice(Nanos::from_nanos(2 * MS + 1)), (ms(100), Some(false)));
}

#[test]
fn a_rise_of_the_cost_shows_after_seven_switches_and_a_fall_after_fifty_eight() {
    let mut costs = Costs::default();
    let cost = |costs: &Costs| costs.upper().unwrap().0;
    let (low, high) = (Nanos::from_micros(300), Nanos::from_micros(900));
    (0..100).for_each(|_| costs.add(low));
    (0..6).for_each(|_| costs.add(high));
    assert_eq!(cost(&costs), low);
    costs.add(high);
    assert_eq!(cost(&costs), high);
    (0..100).for_each(|_| costs.add(high));
    (0..57).for_each(|_| costs.add(low));
    assert_eq!(cost(&costs), high);
    costs.add(low);
    assert_eq!(cost(&costs), low);
    assert_eq!(costs.upper().unwrap().1, 64);
}

#[test]
fn settings_out_of_range_are_refused() {
    let with = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::default();
        change(&mut settings);
        Policy::new(settings).err()
    };
    assert_eq!(
        with(&|s| s.overhead = 0.0),
        Some(PolicyError::Overhead(0.0))
    );
    assert_eq!(
        with(&|s| s.overhead = 1.0),
        Some(PolicyError::Overhead(1.0))
    );
    assert!(with(&|s| s.overhead = f64::NAN).is_some());
    assert_eq!(with(&|s| s.share = 1.0), Some(PolicyError::Share(1.0)));
    assert_eq!(with(&|s| s.share = 0.0), None);
    assert!(with(&|s| s.shortest = Nanos::ZERO).is_some());
    assert!(with(&|s| s.longest = ms(9)).is_some());
    let mut policy = policy(&[]);
    let refused = policy.add(row(3), 0, Class::Production, Nanos::ZERO);
    assert_eq!(refused, Err(PolicyError::Weight(3)));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn of_two_rows_that_stay_active_none_gets_ahead_by_more_than_a_turn_each(
        weights in prop::collection::vec(1..20_u32, 2..6),
        times in prop::collection::vec(1..100_u64, 50..200),
        sleeps in prop::collection::vec(any::<bool>(), 200),
        from in 0..40_usize,
    ) {
        let rows: Vec<_> = weights.iter().map(|w| (*w, Class::Production)).collect();
        let mut policy = policy(&rows);
        let mut had = vec![0.0; weights.len()];
        let mut now = Nanos::ZERO;
        for (n, time) in times.iter().enumerate() {
            // The last row comes and goes; the others stay.
            let last = weights.len() as u32 - 1;
            if last > 1 {
                policy.activity(row(last), if sleeps[n] { Activity::Dead } else { Activity::Active });
            }
            if n == from {
                had.fill(0.0);
            }
            let (r, _) = chosen(&mut policy, now);
            now += ms(*time);
            policy.ran(row(r), ms(*time), now);
            had[r as usize] += *time as f64;
            let stay = if last > 1 { weights.len() - 1 } else { weights.len() };
            for i in 0..stay {
                for j in 0..stay {
                    let (w, v) = (f64::from(weights[i]), f64::from(weights[j]));
                    let ahead = had[i] / w - had[j] / v;
                    prop_assert!(ahead <= 100.0 / w + 100.0 / v + 1e-6, "{i} {j} {ahead}");
                }
            }
        }
    }

    #[test]
    fn interactive_rows_stay_within_their_share_and_production_never_starves(
        share in 0.05..0.9_f64,
        burst in 0..300_u64,
        times in prop::collection::vec((1..100_u64, any::<bool>()), 50..300),
        from in 0..40_usize,
    ) {
        let settings = Settings { share, burst: ms(burst), ..Settings::default() };
        let mut policy = Policy::new(settings).unwrap();
        policy.add(row(0), 1, Class::Interactive, Nanos::ZERO).unwrap();
        policy.add(row(1), 1, Class::Production, Nanos::ZERO).unwrap();
        let (mut interactive, mut all, mut now, mut streak) = (0.0, 0.0, Nanos::ZERO, 0.0);
        for (n, (time, wakes)) in times.iter().enumerate() {
            if n == from {
                (interactive, all) = (0.0, 0.0);
            }
            policy.activity(row(0), if *wakes { Activity::Active } else { Activity::Dead });
            let (r, _) = chosen(&mut policy, now);
            now += ms(*time);
            policy.ran(row(r), ms(*time), now);
            all += *time as f64;
            if r == 0 {
                interactive += *time as f64;
                streak += *time as f64;
            } else {
                streak = 0.0;
            }
            let burst = burst as f64;
            prop_assert!(interactive <= share * all + burst + 100.0 * (1.0 - share) + 1e-6);
            prop_assert!(streak <= (burst + 100.0 * (1.0 - share)) / (1.0 - share) + 1e-6);
        }
    }
}

#[test]
fn the_short_turn_of_an_idle_row_is_not_cut_shorter() {
    let mut policy = policy(&[(1, Class::Production), (1, Class::Production)]);
    policy.activity(row(0), Activity::Idle);
    assert_eq!(chosen(&mut policy, ms(2000)), (0, Reason::Probe));
    assert_eq!(policy.ends_early(row(0)), None);
    policy.activity(row(0), Activity::Dead);
    assert_eq!(policy.ends_early(row(0)), Some(Reason::Yield));
    // If it is idle in a normal turn, it cannot use the rest of it.
    policy.activity(row(0), Activity::Idle);
    policy.ran(row(0), ms(10), ms(2010));
    assert_eq!(chosen(&mut policy, ms(2010)), (1, Reason::Turn));
    policy.activity(row(1), Activity::Idle);
    policy.activity(row(0), Activity::Active);
    assert_eq!(policy.ends_early(row(1)), Some(Reason::Yield));
}
