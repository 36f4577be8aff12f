//! Every benchmark on threads: its published values on any number of ranks, and what is found when
//! they are not met.

use super::kernel::{AGREEMENTS, Allowed};
use super::{Class, Message, Npb, Operation, Program};
use crate::testing::on_ranks;
use crate::{Call, Verified, WorkloadError};
use idlewave_units::Rank;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

fn run(npb: Npb, ranks: u32, halted: bool) -> Vec<Result<Verified, WorkloadError>> {
    let halt = AtomicBool::new(halted);
    on_ranks(ranks, |fabric| npb.run(fabric, &halt, &mut |_| ()))
}

#[test]
fn class_s_finds_the_published_values_with_the_traffic_that_is_stated() {
    let numbers: &[u32] = match idlewave_mpi::testing::long() {
        true => &[1, 2, 3, 4, 8, 9, 16],
        false => &[1, 2, 4, 8, 9],
    };
    for program in Program::ALL {
        let npb = Npb {
            program,
            class: Class::S,
        };
        for &ranks in numbers {
            let stated = npb.traffic(ranks, Rank::new(0));
            let refused = npb.allowed().refusal(ranks).is_some();
            assert_eq!(stated.is_none(), refused, "{npb} on {ranks}");
            if refused {
                continue;
            }
            for (rank, done) in (0..).zip(run(npb, ranks, false)) {
                let done = done.unwrap_or_else(|error| panic!("{npb} on {ranks}: {error}"));
                is_as_published(npb, ranks, &done);
                has_the_traffic_stated(npb, (rank, ranks), &done);
            }
        }
        assert_eq!(npb.traffic(0, Rank::new(0)), None, "{npb}");
        assert_eq!(npb.traffic(4, Rank::new(4)), None, "{npb}");
    }
}

fn is_as_published(npb: Npb, ranks: u32, done: &Verified) {
    assert!(done.verified, "{npb} on {ranks}");
    let iterations = npb.iterations();
    assert_eq!(done.iterations, iterations, "{npb}");
    assert_eq!(done.timed.iterations.len() as u64, iterations, "{npb}");
    assert!(done.timed.regions.len() > 1, "{npb} names its regions");
    let p = done.timed.parts;
    assert_eq!(p.collective + p.point_to_point + p.computation(), p.total);
    let sent = done.timed.calls.iter().map(|(_, calls)| calls.bytes.get());
    assert!(ranks == 1 || sent.sum::<u64>() > 0, "{npb} communicates");
    let barriers = done.timed.calls.of(Call::Barrier).count;
    assert_eq!(barriers, 0, "{npb} has no barrier");
}

fn has_the_traffic_stated(npb: Npb, (rank, ranks): (u32, u32), done: &Verified) {
    let traffic = npb.traffic(ranks, Rank::new(rank)).expect("allowed ranks");
    let iterations = npb.iterations();
    let all = [
        (1, &traffic.before),
        (iterations, &traffic.iteration),
        (1, &traffic.after),
    ];
    let mut stated = [(0, 0); Call::ALL.len()];
    let mut add = |times: u64, call: Call, bytes: u64| {
        let calls = &mut stated[call as usize];
        *calls = (calls.0 + times, calls.1 + times * bytes);
    };
    for (times, operations) in all {
        count(operations, ranks, times, &mut add);
    }
    // The agreements whether to stop.
    let every = iterations.div_ceil(AGREEMENTS.into());
    add((iterations - 1) / every, Call::Allreduce, 8);
    let counted = Call::ALL.map(|call| {
        let calls = done.timed.calls.of(call);
        (calls.count, calls.bytes.get())
    });
    assert_eq!(counted, stated, "{npb}, rank {rank} of {ranks}");
}

/// Calls with how often each call is made, and with how many bytes.
fn count(operations: &[Operation], ranks: u32, times: u64, add: &mut impl FnMut(u64, Call, u64)) {
    for operation in operations {
        match operation {
            Operation::Compute(_) | Operation::Flush => {}
            Operation::Allreduce { bytes } => add(times, Call::Allreduce, bytes.get()),
            Operation::Alltoall { bytes_per_pair } => {
                let bytes = u64::from(ranks) * bytes_per_pair.get();
                add(times, Call::Alltoall, bytes);
            }
            Operation::Send { bytes, .. } => add(times, Call::Send, bytes.get()),
            Operation::Exchange(messages) => {
                for message in messages {
                    match message {
                        Message::Send { bytes, .. } => add(times, Call::Send, bytes.get()),
                        Message::Receive { bytes, .. } => add(times, Call::Receive, bytes.get()),
                    }
                }
            }
            Operation::Repeat(more, operations) => {
                count(operations, ranks, times * u64::from(*more), add);
            }
        }
    }
}

/// Messages from each rank to each other one, in order: those stated as sent, and as received.
type Ends = BTreeMap<(u32, u32), Vec<u64>>;

fn ends(operations: &[Operation], rank: u32, sent: &mut Ends, received: &mut Ends) {
    for operation in operations {
        match operation {
            Operation::Send { to, bytes } => {
                sent.entry((rank, to.get())).or_default().push(bytes.get());
            }
            Operation::Exchange(messages) => {
                for message in messages {
                    match message {
                        Message::Send { to, bytes } => {
                            sent.entry((rank, to.get())).or_default().push(bytes.get());
                        }
                        Message::Receive { from, bytes } => {
                            let all = received.entry((from.get(), rank)).or_default();
                            all.push(bytes.get());
                        }
                    }
                }
            }
            Operation::Repeat(times, operations) => {
                for _ in 0..*times {
                    ends(operations, rank, sent, received);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn what_is_stated_as_sent_is_stated_as_received_in_the_same_order() {
    for program in Program::ALL {
        for class in [Class::S, Class::C] {
            let npb = Npb { program, class };
            for ranks in [2, 4, 9, 16, 25, 64, 128] {
                let (mut sent, mut received) = (Ends::new(), Ends::new());
                for rank in 0..ranks {
                    if let Some(traffic) = npb.traffic(ranks, Rank::new(rank)) {
                        for part in [&traffic.before, &traffic.iteration] {
                            ends(part, rank, &mut sent, &mut received);
                        }
                    }
                }
                assert!(sent == received, "{npb} on {ranks}");
            }
        }
    }
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
