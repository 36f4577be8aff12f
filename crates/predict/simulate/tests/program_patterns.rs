//! Finish times of ready-made parts of programs, by closed forms and by hand; and CPU time taken
//! away.

#![allow(clippy::unwrap_used)]

use idlewave_noise::CpuTime;
use idlewave_simulate::Shape;
use idlewave_simulate::Stencil;
use idlewave_simulate::bulk::{Algorithm, Collective};
use idlewave_simulate::goal::{self, Parameters, PerByte};
use idlewave_simulate::program::{Bindings, Program, Statement, patterns, simulate, simulate_with};
use idlewave_units::Nanos;

/// One message of n bytes takes 2 * 10 + 100 + (n - 1) * 3.
fn parameters() -> Parameters {
    Parameters {
        latency: Nanos::from_nanos(100),
        overhead: Nanos::from_nanos(10),
        gap: Nanos::from_nanos(5),
        gap_per_byte: PerByte::from_nanos(3),
        ..Parameters::default()
    }
}

fn finish(ranks: u32, body: Vec<Statement>) -> Vec<u64> {
    let program = Program {
        ranks: Some(ranks),
        body,
        ..Program::default()
    };
    let bound = program.bind(&Bindings::default()).unwrap();
    let lazy = simulate(&bound, &parameters()).unwrap();
    let plain = goal::simulate(&bound.expand(1_000_000).unwrap(), &parameters()).unwrap();
    assert_eq!(lazy, plain);
    lazy.finish_ns
}

fn of(collective: Collective, algorithm: Algorithm, ranks: u32, bytes: i64) -> Vec<u64> {
    finish(
        ranks,
        patterns::collective(collective, algorithm, bytes).unwrap(),
    )
}

const SIZES: [u32; 9] = [1, 2, 3, 5, 8, 9, 16, 100, 257];

#[test]
fn a_dissemination_takes_the_logarithm_of_the_ranks_rounded_up() {
    for ranks in SIZES {
        let rounds = u64::from(ranks.next_power_of_two().ilog2());
        let seen = of(Collective::Barrier, Algorithm::Dissemination, ranks, 1);
        assert_eq!(seen, vec![rounds * 120; ranks as usize]);
    }
}

#[test]
fn a_binomial_broadcast_takes_the_logarithm_of_the_ranks_along_its_longest_path() {
    for log in 1..8 {
        let ranks = 1 << log;
        let seen = of(Collective::Broadcast, Algorithm::Binomial, ranks, 11);
        // The last rank comes after every bit; the root has only sent.
        assert_eq!(seen[ranks as usize - 1], log * 150);
        assert_eq!(seen.iter().max(), Some(&(log * 150)));
        // Of two sends the second starts when the bytes of the first are out: 5 + 30.
        assert_eq!(seen[0], (log - 1) * 35 + 10);
    }
}

#[test]
fn a_binomial_reduction_among_four_by_hand() {
    // 1 -> 0 and 3 -> 2 at 0, received by 120; 2 -> 0 at 120, received by 240.
    let seen = of(Collective::Reduce, Algorithm::Binomial, 4, 1);
    assert_eq!(seen, [240, 10, 130, 10]);
    // Among three, 2 sends at once, so its message arrives with that of 1; each takes 10 of the
    // CPU.
    let seen = of(Collective::Reduce, Algorithm::Binomial, 3, 1);
    assert_eq!(seen, [130, 10, 10]);
}

#[test]
fn recursive_doubling_folds_what_exceeds_a_power_of_two() {
    for ranks in SIZES {
        let seen = of(
            Collective::Allreduce,
            Algorithm::RecursiveDoubling,
            ranks,
            1,
        );
        let log = u64::from(ranks.ilog2());
        if ranks.is_power_of_two() {
            assert_eq!(seen, vec![120 * log; ranks as usize]);
        }
    }
    // Rank 1 and rank 2, which folds in, both send to rank 0 at 0: received by 130. Then rank 0
    // sends to 1, ends its round at 140, since the message of rank 1 has arrived, and sends to 2.
    let seen = of(Collective::Allreduce, Algorithm::RecursiveDoubling, 3, 1);
    assert_eq!(seen, [150, 250, 260]);
}

#[test]
fn a_ring_takes_twice_the_ranks_less_one_with_a_piece_each() {
    for ranks in [1, 2, 3, 10] {
        let seen = of(Collective::Allreduce, Algorithm::Ring, ranks, 100);
        let piece = 100_u64.div_ceil(ranks.into());
        let step = 120 + (piece - 1) * 3;
        assert_eq!(seen, vec![2 * u64::from(ranks - 1) * step; ranks as usize]);
    }
}

#[test]
fn an_all_to_all_at_once_keeps_every_cpu_busy_until_its_last_message() {
    // Each sends at 0, 10 and 20 and is free at 30. The messages arrive at 110, 120 and 130 and
    // take 10 each.
    assert_eq!(finish(4, vec![patterns::linear_alltoall(1)]), [140; 4]);
    // With 11 bytes: sends at 0, 35 and 70; messages arrive at 110, 145 and 180 and take 40 each:
    // until 150, 190, 230.
    assert_eq!(finish(4, vec![patterns::linear_alltoall(11)]), [230; 4]);
    // One after the other: three rounds.
    let seen = of(Collective::Alltoall, Algorithm::Pairwise, 4, 1);
    assert_eq!(seen, [360; 4]);
}

#[test]
fn thousands_of_peers_are_matched_in_time_that_grows_with_messages() {
    // Linear: half a million events. Quadratic: a hundred million.
    let ranks = 400;
    let body = vec![patterns::linear_alltoall(1)];
    let program = Program {
        ranks: Some(ranks),
        body,
        ..Program::default()
    };
    let bound = program.bind(&Bindings::default()).unwrap();
    let outcome = simulate(&bound, &parameters()).unwrap();
    // From 110 on a message is always waiting: 399 sends and 399 receives of 10 each, without a
    // break.
    assert!(outcome.finish_ns.iter().all(|&ns| ns == 7_980));
    assert_eq!(outcome.messages, 400 * 399);
}

#[test]
fn an_exchange_costs_one_message_and_the_overheads_of_the_others() {
    let stencil = |periodic| Stencil {
        shape: Shape { x: 4, y: 1, z: 1 },
        reach: 1,
        periodic,
        one_sided: false,
    };
    // Sends at 0 and 10; messages arrive at 110 and 120.
    assert_eq!(
        finish(4, vec![patterns::exchange(&stencil(true), 1)]),
        [130; 4]
    );
    // Rank 0 sends once, upwards; rank 1 gets that at 110, and at 120 what rank 2 sends downwards,
    // second. Rank 0 gets what rank 1 sends second.
    assert_eq!(
        finish(4, vec![patterns::exchange(&stencil(false), 1)]),
        [130, 130, 130, 120]
    );
}

/// Rank 1 cannot run for 500 from 1000 on, once.
struct Once;

impl CpuTime for Once {
    fn end(&mut self, rank: u32, _cpu: u8, start_ns: u64, work_ns: u64) -> u64 {
        let (begin, length) = (1_000, 500);
        let end = start_ns + work_ns;
        if rank != 1 || work_ns == 0 || end <= begin || start_ns >= begin + length {
            end
        } else if start_ns >= begin {
            begin + length + work_ns
        } else {
            end + length
        }
    }
}

fn disturbed(text: &str) -> Vec<u64> {
    let program: Program = text.parse().unwrap();
    let bound = program.bind(&Bindings::default()).unwrap();
    let lazy = simulate_with(&bound, &parameters(), Once).unwrap();
    let plain = goal::simulate_with(&bound.expand(1_000).unwrap(), &parameters(), Once).unwrap();
    assert_eq!(lazy, plain);
    lazy.finish_ns
}

#[test]
fn noise_lengthens_computations() {
    let two = |ns| format!("program 1 ranks 2 calc {ns}");
    assert_eq!(disturbed(&two(1_000)), [1_000, 1_000]);
    assert_eq!(disturbed(&two(1_001)), [1_001, 1_501]);
    assert_eq!(disturbed(&two(5_000)), [5_000, 5_500]);
}

#[test]
fn noise_at_the_sender_holds_the_message_back() {
    // The overhead from 995 to 1005 is struck after 5: it ends at 1505, and the message arrives at
    // 1605.
    let text = "program 1 ranks 2
        if rank == 1 { calc 995 send 1 to 0 } else { recv 1 from 1 }";
    assert_eq!(disturbed(text), [1_615, 1_505]);
    // O for 20 more bytes at 2 each is struck alone: overhead from 985 to 995, then 40, of which 35
    // come after the strike.
    let per_byte = Parameters {
        overhead_per_byte: PerByte::from_nanos(2),
        ..parameters()
    };
    let text = "program 1 ranks 2
        if rank == 1 { calc 985 send 21 to 0 } else { recv 21 from 1 }";
    let bound = text
        .parse::<Program>()
        .unwrap()
        .bind(&Bindings::default())
        .unwrap();
    let outcome = simulate_with(&bound, &per_byte, Once).unwrap();
    // The message leaves at 995 and arrives at 1095: 10 and 20 * 3.
    assert_eq!(outcome.finish_ns, [1_165, 1_535]);
}

#[test]
fn noise_at_the_receiver_lengthens_the_taking_in() {
    // Sent at 885, arrives at 995, received by 1505 instead of 1005.
    let text = "program 1 ranks 2
        if rank == 0 { calc 885 send 1 to 1 } else { recv 1 from 0 }";
    assert_eq!(disturbed(text), [895, 1_505]);
    // The bytes count as CPU work: 10 + 20 * 3 from 945 on, struck after 55.
    let text = "program 1 ranks 2
        if rank == 0 { calc 835 send 21 to 1 } else { recv 21 from 0 }";
    assert_eq!(disturbed(text), [845, 1_515]);
}

#[test]
fn noise_while_a_rank_waits_is_absorbed() {
    // Rank 1 waits from 0 to 1995 and is struck in between.
    let text = "program 1 ranks 2
        if rank == 0 { calc 1885 send 1 to 1 } else { recv 1 from 0 }";
    assert_eq!(disturbed(text), [1_895, 2_005]);
}
