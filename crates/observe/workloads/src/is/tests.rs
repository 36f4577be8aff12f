//! The sort as a whole: published ranks, any number of ranks, detected errors, and closed forms
//! compared with what happens.

use super::shares::{Room, ends_of, expected, part, sums_of};
use super::sort::{Sort, keys_of};
use super::{Class, ITERATIONS, Operation, TESTS, check_ranks, memory_per_rank, run, traffic};
use crate::testing::on_ranks;
use crate::{Stopwatch, Verified};
use idlewave_fabric::{Endpoint, Fabric, PointToPoint};
use idlewave_units::Nanos;
use std::sync::atomic::{AtomicBool, Ordering};

fn verified(class: Class, ranks: u32) -> Vec<Verified> {
    let halt = AtomicBool::new(false);
    let done = on_ranks(ranks, |fabric| run(fabric, class, &halt, &mut |_| ()));
    done.into_iter().map(Result::unwrap).collect()
}

#[test]
fn keys_of_all_parts_are_the_sequence_and_its_smallest_ranks_are_published() {
    let class = Class::S;
    let keys: Vec<i32> = keys_of(class, 0..class.keys()).collect();
    for ranks in [2, 3, 8] {
        let parts = (0..ranks).flat_map(|rank| keys_of(class, part(class, rank, ranks)));
        assert!(parts.eq(keys.iter().copied()));
    }
    // The published rank of a test key: the number of keys below it after iteration 1 has modified
    // two.
    let mut modified = keys;
    (modified[1], modified[11]) = (1, (1 << class.key_bits()) - 1);
    for test in class.tests() {
        let key = modified[test.index as usize];
        let below = modified.iter().filter(|&&other| other < key).count();
        assert_eq!(below as i64, test.rank_in(1));
    }
}

#[test]
fn class_s_is_verified_on_any_number_of_ranks() {
    for ranks in [1, 2, 3, 4, 8, 13] {
        for done in verified(Class::S, ranks) {
            assert_eq!(done.iterations, 10);
            assert_eq!(done.operations, 10 * 65_536);
        }
    }
}

#[test]
fn more_ranks_than_buckets_are_refused_with_both_numbers() {
    assert!(check_ranks(Class::S, 512).is_ok());
    let refused = check_ranks(Class::S, 513).unwrap_err().to_string();
    assert_eq!(
        refused,
        "run is:S: it has work for at most 512 ranks, not for 513"
    );
    assert!(check_ranks(Class::W, 1_024).is_ok());
}

#[test]
fn class_w_is_verified() {
    let numbers: &[u32] = match idlewave_mpi::testing::long() {
        true => &[1, 2, 3, 4, 8],
        false => &[3, 8],
    };
    for &ranks in numbers {
        verified(Class::W, ranks);
    }
}

#[test]
fn times_add_up_and_messages_belong_to_the_verification() {
    for ranks in [1, 4] {
        for done in verified(Class::S, ranks) {
            let p = done.timed.parts;
            assert_eq!(p.collective + p.point_to_point + p.computation(), p.total);
            assert!(p.computation() > Nanos::ZERO && p.collective > Nanos::ZERO);
            assert_eq!(p.point_to_point, Nanos::ZERO);
            let sent = done.verification.point_to_point > Nanos::ZERO;
            assert_eq!(sent, ranks > 1);
        }
    }
}

/// One iteration and the order check on each rank; `before` and `between` tamper with the data.
fn after(
    ranks: u32,
    before: impl Fn(&mut Sort, u32) + Sync,
    between: impl Fn(&mut Sort, u32) + Sync,
) -> [u64; 4] {
    let all = on_ranks(ranks, |fabric| {
        let rank = fabric.rank().get();
        let mut sort = Sort::new(Class::S, rank, ranks);
        before(&mut sort, rank);
        let mut watch = Stopwatch::start(fabric);
        assert!(!sort.iterate(&mut watch, 1, false).unwrap());
        between(&mut sort, rank);
        sort.check_order(&mut watch).unwrap();
        sort.checks
    });
    let sum = |part: fn(&super::Checks) -> u64| all.iter().map(part).sum();
    [
        sum(|c| c.passed),
        sum(|c| c.failed),
        sum(|c| c.keys),
        sum(|c| c.unordered),
    ]
}

#[test]
fn a_changed_key_is_found_by_the_ranks_of_the_test_keys() {
    for ranks in [1, 3] {
        let right = after(ranks, |_, _| (), |_, _| ());
        assert_eq!(right, [5, 0, 65_536, 0]);
        // A key moves from the middle to the bottom: some test keys get one more key below them.
        let lower = |sort: &mut Sort, rank| {
            if rank == 0 {
                let key = sort.keys.iter_mut().skip(100).find(|k| **k > 1_000);
                *key.unwrap() = 2;
            }
        };
        let [passed, failed, keys, unordered] = after(ranks, lower, |_, _| ());
        assert!(failed > 0 && passed + failed == 5, "{passed} {failed}");
        assert_eq!((keys, unordered), (65_536, 0));
    }
}

#[test]
fn keys_above_those_of_the_next_rank_are_found() {
    let raise = |by| move |sort: &mut Sort, rank| sort.raise(if rank == 1 { by } else { 0 });
    assert_eq!(after(4, |_, _| (), raise(0))[3], 0);
    // Rank 1's keys move down into rank 0's range, then up into rank 2's: each time one rank
    // detects it.
    assert_eq!(after(4, |_, _| (), raise(-700))[3], 1);
    assert_eq!(after(4, |_, _| (), raise(700))[3], 1);
}

#[test]
fn a_rank_without_keys_passes_on_the_largest_key_before_it() {
    let without = |sort: &mut Sort, rank| {
        if rank == 1 || rank == 2 {
            sort.forget();
        }
    };
    let [.., keys, unordered] = after(5, |_, _| (), without);
    assert!(keys < 65_536 && unordered == 0);
    let raised = |sort: &mut Sort, rank| {
        without(sort, rank);
        sort.raise(if rank == 0 { 1_500 } else { 0 });
    };
    // Neither rank 1 nor rank 2 has anything to compare.
    assert_eq!(after(5, |_, _| (), raised)[3], 1);
}

#[test]
fn a_wrong_result_is_an_error_on_all_ranks_that_says_what_is_wrong() {
    let halt = AtomicBool::new(false);
    let errors = on_ranks(3, |fabric| {
        let mut sort = Sort::new(Class::S, fabric.rank().get(), 3);
        sort.keys[500] = 3;
        super::verified(fabric, &mut sort, &halt, &mut |_| ())
            .unwrap_err()
            .to_string()
    });
    for error in &errors {
        assert_eq!(error, &errors[0]);
        assert!(error.starts_with("verify is:S: "), "{error}");
        assert!(error.contains("of 50 test keys"), "{error}");
    }
}

#[test]
fn where_one_rank_is_halted_all_end_after_the_same_iteration_with_a_verified_result() {
    let halts: [AtomicBool; 3] = Default::default();
    let done = on_ranks(3, |fabric| {
        let rank = fabric.rank().get();
        let halt = &halts[rank as usize];
        let mut told = 0.0;
        let done = run(fabric, Class::S, halt, &mut |share| {
            told = share;
            halt.store(rank == 1 && share > 0.25, Ordering::Relaxed);
        });
        (done.unwrap(), told)
    });
    for (done, told) in done {
        assert_eq!((done.iterations, done.operations), (4, 4 * 65_536));
        assert_eq!(told, 0.4);
    }
}

#[test]
fn it_runs_again_and_on_fewer_ranks_in_the_same_world() {
    let halt = AtomicBool::new(false);
    on_ranks(4, |fabric| {
        for ranks in [4, 2, 3, 1, 4] {
            let work = |fabric: &mut Endpoint| run(fabric, Class::S, &halt, &mut |_| ());
            let members: Vec<_> = (0..ranks).map(idlewave_units::Rank::new).collect();
            let done = fabric.with_ranks(&members, work).unwrap();
            assert_eq!(done.is_some(), fabric.rank().get() < ranks);
            assert!(done.is_none_or(|done| done.is_ok()));
        }
    });
}

#[test]
fn the_stated_memory_is_what_the_arrays_take() {
    for ranks in [1, 2, 3, 8, 64] {
        let room = Room::of(Class::S, ranks);
        let stated = memory_per_rank(Class::S, ranks).get() as usize;
        let held = on_ranks(ranks, |fabric| {
            let mut sort = Sort::new(Class::S, fabric.rank().get(), ranks);
            let mut watch = Stopwatch::start(fabric);
            for iteration in 1..=ITERATIONS {
                sort.iterate(&mut watch, iteration, false).unwrap();
            }
            sort.check_order(&mut watch).unwrap();
            sort.held()
        });
        // Add what an exchange copies and holds per bucket and rank.
        let exchange = 8 * room.block + 16 * 518 + 64 * ranks as usize;
        for held in held {
            let all = held + exchange;
            // The six values beyond the buckets have no second copy.
            assert!((stated - 48..=stated).contains(&all), "{all} of {stated}");
        }
    }
}

#[test]
fn the_known_distribution_gives_the_real_sizes_of_buckets_and_messages() {
    for class in [Class::S, Class::W] {
        let mut real = vec![0.0; class.buckets() as usize];
        for key in keys_of(class, 0..class.keys()) {
            real[(key >> class.shift()) as usize] += 1.0;
        }
        for (bucket, (real, expected)) in real.iter().zip(expected(class)).enumerate() {
            let off = (real - expected).abs();
            assert!(
                off <= 6.0 * expected.sqrt() + 2.0,
                "{bucket}: {real} for {expected}"
            );
        }
        for ranks in [1_u32, 2, 3, 4, 8, 16, 64, 256] {
            let room = Room::of(class, ranks);
            let ends = ends_of(&real, ranks);
            let mut begin = 0;
            for (&end, sum) in ends.iter().zip(sums_of(&real, &ends)) {
                assert!(sum as usize <= room.sorted);
                assert!(
                    (end - begin) << class.shift() <= room.values,
                    "{ranks} ranks"
                );
                begin = end;
            }
        }
        let traffic = traffic(class, 4);
        let mut pairs = traffic
            .iteration
            .iter()
            .filter_map(|operation| match operation {
                Operation::Alltoallv(pairs) => Some(pairs),
                _ => None,
            });
        let pairs = pairs.next().unwrap();
        let ends = ends_of(&real, 4);
        for from in 0..4 {
            let mut counts = [0.0; 4];
            for key in keys_of(class, part(class, from, 4)) {
                let bucket = (key >> class.shift()) as usize;
                counts[ends.partition_point(|&end| end <= bucket)] += 1.0;
            }
            for (to, count) in counts.into_iter().enumerate() {
                let expected = pairs.of(from, to as u32) as f64 / 4.0;
                // The bucket at a border may go to either rank.
                let slack = 6.0 * expected.sqrt() + class.keys() as f64 / 512.0;
                assert!(
                    (count - expected).abs() < slack,
                    "{from} to {to}: {count}, {expected}"
                );
            }
        }
    }
}

#[test]
fn the_traffic_is_that_of_the_specification_with_values_of_eight_bytes() {
    let traffic = traffic(Class::A, 8);
    let kinds: Vec<&Operation> = traffic.iteration.iter().collect();
    assert_eq!(kinds.len(), 5);
    let bytes = 8 * (1_024 + TESTS as u64 + 1);
    assert_eq!(*kinds[1], Operation::Allreduce { bytes });
    assert_eq!(*kinds[2], Operation::Alltoall { bytes_per_pair: 4 });
    let Operation::Alltoallv(pairs) = kinds[3] else {
        panic!("{:?}", kinds[3]);
    };
    let sum: u64 = (0..8)
        .flat_map(|i| (0..8).map(move |j| (i, j)))
        .map(|(i, j)| pairs.of(i, j))
        .sum();
    let all = 4.0 * Class::A.keys() as f64;
    assert!((sum as f64 / all - 1.0).abs() < 1e-5, "{sum} of {all}");
    assert_eq!((pairs.of(8, 0), pairs.keys_before(0)), (0, 1 << 20));
    assert_eq!((traffic.untimed, traffic.timed), (1, 10));
}

#[test]
fn every_iteration_modifies_two_keys_of_the_sequence() {
    on_ranks(2, |fabric| {
        let mut sort = Sort::new(Class::S, fabric.rank().get(), 2);
        let mut wanted = sort.keys.clone();
        let mut watch = Stopwatch::start(fabric);
        for iteration in 1..=3 {
            sort.iterate(&mut watch, iteration, false).unwrap();
        }
        // The first rank generated all modified keys: 1 to 3 get 1 to 3, and 11 to 13 count down
        // from the largest.
        if sort.keys[1] == 1 {
            wanted[1..4].copy_from_slice(&[1, 2, 3]);
            wanted[11..14].copy_from_slice(&[2_047, 2_046, 2_045]);
        }
        assert_eq!(sort.keys, wanted);
        sort.keys[1] == 1
    })
    .into_iter()
    .zip([true, false])
    .for_each(|(first, wanted)| assert_eq!(first, wanted));
}
