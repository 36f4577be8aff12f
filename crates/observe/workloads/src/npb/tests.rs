//! Every benchmark on threads: its published values on any number of ranks, and what is found when
//! they are not met.

use super::kernel::{AGREEMENTS, Allowed};
use super::{Class, Npb, Operation, Program};
use crate::testing::on_ranks;
use crate::{Call, Verified, WorkloadError};
use std::sync::atomic::AtomicBool;

fn run(npb: Npb, ranks: u32, halted: bool) -> Vec<Result<Verified, WorkloadError>> {
    let halt = AtomicBool::new(halted);
    on_ranks(ranks, |fabric| npb.run(fabric, &halt, &mut |_| ()))
}

#[test]
fn class_s_finds_the_published_values_on_every_number_of_ranks() {
    for program in Program::ALL {
        let npb = Npb {
            program,
            class: Class::S,
        };
        let long = std::env::var_os("IDLEWAVE_LONG").is_some();
        let numbers: &[u32] = if long { &[1, 2, 3, 4, 8, 9] } else { &[1, 4] };
        for &ranks in numbers {
            if npb.allowed().refusal(ranks).is_some() {
                continue;
            }
            let done = run(npb, ranks, false);
            for rank in done {
                let rank = rank.unwrap_or_else(|error| panic!("{npb} on {ranks}: {error}"));
                assert!(rank.verified);
                assert_eq!(rank.iterations, npb.iterations(), "{npb}");
                assert_eq!(
                    rank.timed.iterations.len() as u64,
                    npb.iterations(),
                    "{npb}"
                );
                assert!(rank.timed.regions.len() > 1, "{npb} names its regions");
                let p = rank.timed.parts;
                assert_eq!(p.collective + p.point_to_point + p.computation(), p.total);
                let sent = rank.timed.calls.iter().map(|(_, calls)| calls.bytes.get());
                assert!(ranks == 1 || sent.sum::<u64>() > 0, "{npb} communicates");
                assert_eq!(
                    rank.timed.calls.of(Call::Barrier).count,
                    0,
                    "{npb} has no barrier"
                );
            }
        }
    }
}

#[test]
fn the_traffic_stated_is_what_a_run_has() {
    let mut known = 0;
    for program in Program::ALL {
        let npb = Npb {
            program,
            class: Class::S,
        };
        for ranks in [1, 2, 4, 16] {
            let Some(traffic) = npb.traffic(ranks) else {
                continue;
            };
            known += 1;
            let iterations = npb.iterations();
            let all = [
                (1, &traffic.before),
                (iterations, &traffic.iteration),
                (1, &traffic.after),
            ];
            for (rank, done) in run(npb, ranks, false).into_iter().enumerate() {
                let mut stated = [(0, 0); Call::ALL.len()];
                let mut add = |times: u64, call: Call, bytes: u64| {
                    let calls = &mut stated[call as usize];
                    *calls = (calls.0 + times, calls.1 + times * bytes);
                };
                for (times, operation) in all.iter().flat_map(|(n, o)| o.iter().map(|o| (*n, o))) {
                    match operation {
                        Operation::Compute => {}
                        Operation::Allreduce { bytes } => add(times, Call::Allreduce, bytes.get()),
                        Operation::Alltoall { bytes_per_pair } => {
                            let bytes = u64::from(ranks) * bytes_per_pair.get();
                            add(times, Call::Alltoall, bytes);
                        }
                    }
                }
                // The agreements whether to stop.
                let every = iterations.div_ceil(AGREEMENTS.into());
                add((iterations - 1) / every, Call::Allreduce, 8);
                let calls = done.expect("no rank fails").timed.calls;
                let counted = Call::ALL.map(|call| {
                    let calls = calls.of(call);
                    (calls.count, calls.bytes.get())
                });
                assert_eq!(counted, stated, "{npb}, rank {rank} of {ranks}");
            }
        }
        assert_eq!(npb.traffic(0), None, "{npb}");
    }
    assert_eq!(known, 8, "of EP and FT on each number of ranks");
}

#[test]
fn a_halted_run_ends_on_all_ranks_after_the_same_iteration_and_is_not_called_verified() {
    for program in Program::ALL {
        let npb = Npb {
            program,
            class: Class::S,
        };
        for rank in run(npb, 4, true) {
            let rank = rank.expect("no rank fails");
            assert!(!rank.verified);
            assert_eq!(rank.iterations, npb.iterations().div_ceil(20), "{npb}");
        }
    }
}

#[test]
fn numbers_of_ranks_that_do_not_fit_are_refused_with_those_that_do() {
    for (allowed, ranks, says) in [
        (
            Allowed::Any(8),
            9,
            Some("any number of ranks up to 8, not on 9"),
        ),
        (Allowed::Any(8), 7, None),
        (Allowed::PowersOfTwo(8), 8, None),
        (Allowed::PowersOfTwo(8), 6, Some("power of two")),
        (Allowed::PowersOfTwo(8), 16, Some("up to 8")),
        (Allowed::Squares(16), 9, None),
        (Allowed::Squares(16), 8, Some("square")),
        (Allowed::Squares(16), 0, Some("not on 0")),
    ] {
        let refusal = allowed.refusal(ranks);
        match says {
            Some(part) => assert!(refusal.expect("refused").contains(part)),
            None => assert_eq!(refusal, None),
        }
    }
}
