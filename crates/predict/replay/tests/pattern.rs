//! The loop of a run, and the same loop at other rank counts.

#![allow(clippy::unwrap_used)]

use crate::made::Made;
use crate::made::world::{CALL, LATENCY, World};
use crate::rings::{STEPS, US, WORK, costs, meet, of, options, ring};
use idlewave_noise::NoiseModel;
use idlewave_replay::{PhaseKindOfRun, Scaling, pattern_of};
use idlewave_simulate::bulk::Collective;
use idlewave_simulate::{Shape, Stencil};

fn stencil(x: usize, y: usize, periodic: bool, one_sided: bool) -> Stencil {
    Stencil {
        shape: Shape { x, y, z: 1 },
        reach: 1,
        periodic,
        one_sided,
    }
}

#[test]
fn the_loop_of_all_ranks_is_found_and_stretched() {
    for (steps, one_sided) in [(&[1][..], true), (&[1, -1][..], false)] {
        let world = ring(6, steps);
        let mut options = options();
        options.ranks = vec![6, 24];
        let found = of(&world.made, &options);
        let pattern = found.pattern.unwrap();
        assert_eq!((pattern.ranks, pattern.steps), (6, STEPS));
        assert_eq!(pattern.notes, [] as [String; 0]);
        let [exchange, allreduce] = &pattern.phases[..] else {
            panic!("{:?}", pattern.phases);
        };
        assert_eq!(
            exchange.kind,
            PhaseKindOfRun::Exchange {
                stencil: stencil(6, 1, true, one_sided),
                bytes: 64,
                blocking: false,
                overlapped: false,
            }
        );
        assert_eq!(
            allreduce.kind,
            PhaseKindOfRun::Collective {
                operation: Collective::Allreduce,
                bytes: 8,
            }
        );
        for times in &exchange.work {
            // The calls that post receives count as work.
            assert!(
                (times.mean - WORK as f64).abs() <= 2.0 * CALL as f64,
                "{times:?}"
            );
            assert_eq!(times.spread, 0.0);
        }
        assert!(allreduce.work.iter().all(|t| t.mean == 5.0 * US as f64));
        let [six, more] = &found.extrapolated[..] else {
            panic!("{:?}", found.extrapolated);
        };
        // The run itself: two computations, an exchange with one message after the other, three
        // rounds.
        let percent = (six.quiet.step_ns() / (pattern.span_ns as f64 / STEPS as f64) - 1.0).abs();
        assert!(percent < 0.06, "{percent}");
        // 24 ranks need two rounds more than 6: recursive doubling takes four instead of two, and
        // folding in and out takes one each in both cases.
        let rounds = more.quiet.step_ns() - six.quiet.step_ns();
        assert!((0.0..=3.0 * LATENCY as f64).contains(&rounds), "{rounds}");
        assert!(six.noisy.is_empty());
    }
}

#[test]
fn ranks_may_compute_most_in_different_places() {
    let mut world = World::new(4);
    for _ in 0..STEPS {
        for rank in 0..4 {
            world.compute(rank, if rank < 2 { 90 * US } else { 40 * US });
        }
        world.exchange(&[1]);
        for rank in 0..4 {
            world.compute(rank, if rank < 2 { 30 * US } else { 80 * US });
        }
        meet(&mut world);
    }
    let pattern = pattern_of(&world.made.write().open()).unwrap().unwrap();
    let on = pattern.extrapolate(8, Scaling::Weak, costs(), &Default::default());
    let works: Vec<Vec<u64>> = on
        .program
        .phases
        .iter()
        .filter_map(|p| match p {
            idlewave_simulate::bulk::Phase::Compute(work) => {
                Some((0..8).map(|r| work.of(r) / US).collect())
            }
            _ => None,
        })
        .collect();
    // Neighbours of the run stay neighbours: each rank becomes two of eight.
    assert_eq!(
        works,
        [
            [90, 90, 90, 90, 40, 40, 40, 40],
            [30, 30, 30, 30, 80, 80, 80, 80]
        ]
    );
}

#[test]
fn work_is_kept_or_shared() {
    let world = ring(4, &[1, -1]);
    let run = world.made.write();
    let pattern = pattern_of(&run.open()).unwrap().unwrap();
    let work = |ranks, scaling| {
        let on = pattern.extrapolate(ranks, scaling, costs(), &Default::default());
        let idlewave_simulate::bulk::Phase::Compute(work) = &on.program.phases[0] else {
            panic!("{:?}", on.program);
        };
        (work.of(0), work.of(ranks as usize - 1), on.assumptions)
    };
    let (first, last, assumed) = work(16, Scaling::Weak);
    assert!(
        first.abs_diff(WORK) <= 2 * CALL && first == last,
        "{first} {last}"
    );
    assert!(assumed[0].contains("does not depend"), "{assumed:?}");
    let (shared, _, assumed) = work(16, Scaling::Strong);
    assert_eq!(shared, first.div_ceil(4));
    assert!(assumed[0].contains("4 / 16"), "{assumed:?}");
}

/// Bytes of the collectives and exchanges on this many ranks, and what was assumed.
fn lengths_on(made: &Made, ranks: u32, scaling: Scaling) -> (Vec<u64>, String) {
    let pattern = pattern_of(&made.write().open()).unwrap().unwrap();
    let on = pattern.extrapolate(ranks, scaling, costs(), &Default::default());
    let bytes = on.program.phases.iter().filter_map(|p| match p {
        idlewave_simulate::bulk::Phase::Exchange { bytes, .. }
        | idlewave_simulate::bulk::Phase::Collective { bytes, .. } => Some(*bytes),
        _ => None,
    });
    (bytes.collect(), on.assumptions.join("; "))
}

#[test]
fn lengths_of_collectives_follow_what_they_do() {
    // A transpose of 2 MB per rank, counts of 4 bytes, a sum of 800 bytes.
    let mut made = Made::new(2);
    for step in 0..STEPS {
        let parts = [
            ("MPI_Alltoall", 2_000_000),
            ("MPI_Alltoall", 8),
            ("MPI_Allreduce", 800),
        ];
        for (i, (name, sent)) in (0..).zip(parts) {
            let at = 1_000 * US * (step + 1) + 200 * US * i;
            let members = [(0, at, at + 100 * US), (1, at, at + 100 * US)];
            made.collective_of(name, 0, None, &members, sent);
        }
    }
    let on = |ranks, scaling| lengths_on(&made, ranks, scaling);
    assert_eq!(on(2, Scaling::Strong).0, [1_000_000, 4, 800]);
    // Each of 64 ranks gets a 64th of a rank's 2 MB; under strong scaling, a 32nd of that.
    let (weak, said) = on(64, Scaling::Weak);
    assert_eq!(weak, [31_250, 4, 800]);
    assert!(
        said.contains("1000000 bytes") && said.contains("31250"),
        "{said}"
    );
    let (strong, said) = on(64, Scaling::Strong);
    assert_eq!(strong, [977, 4, 800]);
    assert!(
        said.contains("keep their length") && said.contains("977"),
        "{said}"
    );
}

#[test]
fn faces_shrink_with_the_part_of_a_rank_if_all_share_the_work() {
    // A torus of 4 x 3. On 48 ranks it is 8 x 6, and both sides of a rank's part are halved.
    let torus = blocking_program(12, |r| {
        let (x, y) = (r % 4, r / 4);
        vec![
            4 * y + (x + 1) % 4,
            4 * y + (x + 3) % 4,
            4 * ((y + 1) % 3) + x,
            4 * ((y + 2) % 3) + x,
        ]
    });
    assert_eq!(lengths_on(&torus, 48, Scaling::Weak).0, [800, 0]);
    let (strong, said) = lengths_on(&torus, 48, Scaling::Strong);
    assert_eq!(strong, [400, 0]);
    assert!(said.contains("400"), "{said}");
    // Slabs have the same faces as the whole.
    let line = ring(4, &[1, -1]).made;
    let (strong, said) = lengths_on(&line, 64, Scaling::Strong);
    assert_eq!(
        (strong[0], said.contains("keep their length")),
        (64, true),
        "{said}"
    );
}

/// An exchange of a rank with its neighbours by blocking calls, 100 ns apart: all sends, then all
/// receives.
fn halo(made: &mut Made, rank: u32, begin: u64, neighbours: &[u32]) {
    for (sends, from) in [(true, begin), (false, begin + 2 * US)] {
        for (i, &peer) in neighbours.iter().enumerate() {
            let span = (from + 200 * i as u64, from + 200 * i as u64 + 100);
            made.call(if sends { "MPI_Send" } else { "MPI_Recv" }, rank, span);
            made.transfer(sends, rank, Some(peer), 0, 1, 800, span.0, Some(span));
        }
    }
}

fn blocking_program(ranks: u32, neighbours: impl Fn(u32) -> Vec<u32>) -> Made {
    let mut made = Made::new(ranks);
    for step in 0..STEPS {
        for rank in 0..ranks {
            halo(&mut made, rank, 50 * US * (step + 1), &neighbours(rank));
        }
        let end = 50 * US * (step + 1) + 10 * US;
        let members: Vec<(u32, u64, u64)> = (0..ranks).map(|r| (r, end - US, end)).collect();
        made.collective("MPI_Barrier", 0, None, &members);
    }
    made
}

#[test]
fn open_ends_and_planes_are_seen_and_stay_what_they_are() {
    // A line whose end ranks make fewer calls.
    let line = blocking_program(5, |r| {
        [r.checked_sub(1), (r + 1 < 5).then_some(r + 1)]
            .into_iter()
            .flatten()
            .collect()
    });
    // A torus of 4 x 3, rank = 4 y + x.
    let torus = blocking_program(12, |r| {
        let (x, y) = (r % 4, r / 4);
        vec![
            4 * y + (x + 1) % 4,
            4 * y + (x + 3) % 4,
            4 * ((y + 1) % 3) + x,
            4 * ((y + 2) % 3) + x,
        ]
    });
    for (made, wanted, more, stretched) in [
        (
            line,
            stencil(5, 1, false, false),
            9,
            stencil(9, 1, false, false),
        ),
        (
            torus,
            stencil(4, 3, true, false),
            30,
            stencil(6, 5, true, false),
        ),
    ] {
        let run = made.write();
        let pattern = pattern_of(&run.open()).unwrap().unwrap();
        let PhaseKindOfRun::Exchange {
            stencil,
            blocking,
            bytes,
            ..
        } = pattern.phases[0].kind
        else {
            panic!("{:?}", pattern.phases);
        };
        assert_eq!((stencil, blocking, bytes), (wanted, true, 800));
        let on = pattern.extrapolate(more, Scaling::Weak, costs(), &Default::default());
        let found = on.program.phases.iter().find_map(|p| match p {
            idlewave_simulate::bulk::Phase::Exchange { stencil, .. } => Some(*stencil),
            _ => None,
        });
        assert_eq!(found, Some(stretched));
    }
}

#[test]
fn what_has_no_pattern_says_which_rank_and_why() {
    let broken = |made: &Made| pattern_of(&made.write().open()).unwrap().unwrap_err();
    let partners = broken(&blocking_program(8, |r| vec![r ^ 3]));
    assert!(partners.reason.contains("rank xor 3"), "{partners}");
    let pairs = [1, 0, 3, 2, 7, 6, 5, 4];
    let far = broken(&blocking_program(8, |r| vec![pairs[r as usize]]));
    assert!(
        far.call.is_some() && far.reason.contains("no line"),
        "{far}"
    );
    let mut once = Made::new(2);
    once.message(1, 0, (50 * US, 51 * US), (20 * US, 92 * US));
    let none = broken(&once);
    assert_eq!(
        (none.rank, none.reason.contains("one loop")),
        (0, true),
        "{none}"
    );
    // Rank 2 has a barrier with itself in every step.
    let mut more = World::new(4);
    more.made.communicator(1, &[2]);
    for _ in 0..STEPS {
        more.compute_all(WORK);
        more.exchange(&[1]);
        let at = more.now[2];
        more.made
            .collective("MPI_Barrier", 1, None, &[(2, at, at + CALL)]);
        more.compute(2, CALL);
    }
    let some = broken(&more.made);
    assert_eq!(some.rank, 2, "{some}");
}

#[test]
fn computation_while_messages_travel_is_seen_and_so_are_lengths_that_differ() {
    let mut made = Made::new(3);
    for step in 0..STEPS {
        for rank in 0..3_u32 {
            let (to, from) = ((rank + 1) % 3, (rank + 2) % 3);
            let at = 100 * US * (step + 1);
            let wait = (at + 30 * US, at + 31 * US);
            made.call("MPI_Irecv", rank, (at, at + 100));
            made.call("MPI_Isend", rank, (at + 100, at + 200));
            made.call("MPI_Waitall", rank, wait);
            made.transfer(
                false,
                rank,
                Some(from),
                0,
                1,
                10 + u64::from(from),
                at,
                Some(wait),
            );
            made.transfer(
                true,
                rank,
                Some(to),
                0,
                1,
                10 + u64::from(rank),
                at + 100,
                Some(wait),
            );
        }
    }
    let pattern = pattern_of(&made.write().open()).unwrap().unwrap();
    let PhaseKindOfRun::Exchange {
        bytes,
        blocking,
        overlapped,
        ..
    } = pattern.phases[0].kind
    else {
        panic!("{:?}", pattern.phases);
    };
    assert_eq!((bytes, blocking, overlapped), (12, false, true));
    assert_eq!(pattern.phases[0].meanwhile[0].mean, (30 * US - 200) as f64);
    assert_eq!(pattern.phases[0].work[0].mean, (69 * US + 100) as f64);
    assert!(
        pattern.notes.iter().any(|n| n.contains("10 to 12 bytes")),
        "{:?}",
        pattern.notes
    );
    let on = pattern.extrapolate(9, Scaling::Weak, costs(), &Default::default());
    let silent = idlewave_noise::Noise::new(&NoiseModel::default(), 0, 0, |_| true).unwrap();
    let step = on.play(&silent).unwrap().step_ns();
    // The message arrives long before the computation ends.
    assert!((98.0e3..101.0e3).contains(&step), "{step}");
}

/// Each rank exchanges a face with each of two neighbours along an axis, with blocking sends, in a
/// microsecond; `neighbours` has one entry per rank.
fn faces(made: &mut Made, begin: u64, neighbours: &[[u32; 2]], bytes: u64) {
    for (rank, &[below, above]) in (0..).zip(neighbours) {
        let wait = (begin + 800, begin + 900);
        for (i, peer) in [below, above].into_iter().enumerate() {
            let at = begin + 100 * i as u64;
            made.call("MPI_Irecv", rank, (at, at + 100));
            made.transfer(false, rank, Some(peer), 0, i as i32, bytes, at, Some(wait));
        }
        for (i, peer) in [above, below].into_iter().enumerate() {
            let span = (begin + 200 + 100 * i as u64, begin + 300 + 100 * i as u64);
            made.call("MPI_Send", rank, span);
            made.transfer(
                true,
                rank,
                Some(peer),
                0,
                i as i32,
                bytes,
                span.0,
                Some(span),
            );
        }
        made.call("MPI_Waitall", rank, wait);
    }
}

#[test]
fn a_periodic_cuboid_with_sides_of_one_and_two_ranks_is_a_cuboid() {
    // 1 x 2 x 2, axis after axis as in NAS MG, where each rank sends to itself along the axis of
    // one rank. Only brief computation lies between levels.
    let mut made = Made::new(4);
    for step in 0..STEPS {
        let mut at = 1_000 * US * (step + 1);
        for bytes in [4_000, 1_000, 1_000] {
            faces(&mut made, at, &[[0, 0], [1, 1], [2, 2], [3, 3]], bytes);
            faces(&mut made, at + US, &[[1, 1], [0, 0], [3, 3], [2, 2]], bytes);
            faces(
                &mut made,
                at + 2 * US,
                &[[2, 2], [3, 3], [0, 0], [1, 1]],
                bytes,
            );
            at += 5 * US;
        }
    }
    let pattern = pattern_of(&made.write().open()).unwrap().unwrap();
    let found: Vec<(Stencil, u64)> = pattern
        .phases
        .iter()
        .map(|p| match p.kind {
            PhaseKindOfRun::Exchange { stencil, bytes, .. } => (stencil, bytes),
            PhaseKindOfRun::Collective { .. } => panic!("{p:?}"),
        })
        .collect();
    let cuboid = Stencil::nearest(Shape { x: 1, y: 2, z: 2 });
    assert_eq!(found, [(cuboid, 4_000), (cuboid, 1_000), (cuboid, 1_000)]);
    let on = pattern.extrapolate(64, Scaling::Weak, costs(), &Default::default());
    let sides = on.program.phases.iter().find_map(|p| match p {
        idlewave_simulate::bulk::Phase::Exchange { stencil, .. } => Some(stencil.shape),
        _ => None,
    });
    assert_eq!(sides, Some(Shape::cuboid(64)));
}

#[test]
fn one_message_to_the_neighbour_on_both_sides_of_an_axis_of_two_is_enough() {
    // A torus of 4 x 2 whose ranks send one message along the short axis.
    let torus = blocking_program(8, |r| {
        let (x, y) = (r % 4, r / 4);
        vec![4 * y + (x + 1) % 4, 4 * y + (x + 3) % 4, 4 * (1 - y) + x]
    });
    let pattern = pattern_of(&torus.write().open()).unwrap().unwrap();
    let PhaseKindOfRun::Exchange { stencil: found, .. } = pattern.phases[0].kind else {
        panic!("{:?}", pattern.phases);
    };
    assert_eq!(found, stencil(4, 2, true, false));
    assert!(
        pattern.notes.iter().any(|n| n.contains("one message")),
        "{:?}",
        pattern.notes
    );
}

#[test]
fn exchanges_with_one_neighbour_after_another_need_not_be_one() {
    // As in NAS CG: three exchanges between two ranks, with little computation between them.
    let mut made = Made::new(2);
    for step in 0..STEPS {
        for (i, bytes) in [(0, 56_000), (1, 8), (2, 8)] {
            let at = 1_000 * US * (step + 1) + 2 * US * i;
            for (rank, peer) in [(0, 1), (1, 0)] {
                let (sent, received) = ((at, at + 100), (at + 100, at + 900));
                made.call("MPI_Send", rank, sent);
                made.transfer(true, rank, Some(peer), 0, 1, bytes, sent.0, Some(sent));
                made.call("MPI_Recv", rank, received);
                made.transfer(
                    false,
                    rank,
                    Some(peer),
                    0,
                    1,
                    bytes,
                    received.0,
                    Some(received),
                );
            }
        }
    }
    let pattern = pattern_of(&made.write().open()).unwrap().unwrap();
    let lengths = pattern.phases.iter().map(|p| match p.kind {
        PhaseKindOfRun::Exchange { bytes, .. } => bytes,
        PhaseKindOfRun::Collective { .. } => 0,
    });
    assert_eq!(lengths.collect::<Vec<_>>(), [56_000, 8]);
}

#[test]
fn a_rank_that_does_more_than_others_is_named_with_what_it_does() {
    let mut more = World::new(4);
    more.made.communicator(1, &[2]);
    for _ in 0..STEPS {
        more.compute_all(WORK);
        more.exchange(&[1]);
        let at = more.now[2];
        more.made
            .collective("MPI_Barrier", 1, None, &[(2, at, at + CALL)]);
        more.compute(2, CALL);
    }
    let none = pattern_of(&more.made.write().open()).unwrap().unwrap_err();
    assert_eq!(
        none.reason,
        "each turn of its loop has 2 exchanges and collectives, each of rank 0's has 1: its second, a barrier, has no counterpart on rank 0"
    );
    let mut other = World::new(4);
    other.made.communicator(1, &[0, 1]);
    other.made.communicator(2, &[2, 3]);
    for _ in 0..STEPS {
        other.compute_all(WORK);
        for (comm, name, first) in [(1, "MPI_Barrier", 0), (2, "MPI_Allreduce", 2)] {
            let at = other.now[0];
            let members = [(first, at, at + CALL), (first + 1, at, at + CALL)];
            other.made.collective(name, comm, None, &members);
        }
        other.compute_all(CALL);
    }
    let none = pattern_of(&other.made.write().open()).unwrap().unwrap_err();
    assert_eq!(
        (none.rank, &none.reason[..]),
        (
            2,
            "the first thing in each turn of its loop is an allreduce of 8 bytes, where rank 0 has a barrier"
        )
    );
}

#[test]
fn two_ranks_have_several_neighbourhoods_and_that_is_said() {
    let world = ring(2, &[1]);
    let pattern = pattern_of(&world.made.write().open()).unwrap().unwrap();
    assert!(
        pattern.notes[0].contains("could as well be"),
        "{:?}",
        pattern.notes
    );
}
