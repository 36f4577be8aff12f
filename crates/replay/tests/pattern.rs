//! The loop of a run, and the same on other numbers of ranks.

#![allow(clippy::unwrap_used)]

#[path = "../../explain/tests/made/mod.rs"]
mod made;
mod rings;

use idlewave_noise::NoiseModel;
use idlewave_replay::{PhaseKindOfRun, Scaling, pattern_of};
use idlewave_simulate::bulk::Collective;
use idlewave_simulate::{Shape, Stencil};
use made::Made;
use made::world::{CALL, LATENCY, World};
use rings::{STEPS, US, WORK, costs, meet, of, options, ring};

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
            // The calls that post receives are work.
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
        // The run itself: two works, an exchange of one message after the other, three rounds.
        let percent = (six.0.step_ns() / (pattern.span_ns as f64 / STEPS as f64) - 1.0).abs();
        assert!(percent < 0.06, "{percent}");
        // On 24 ranks five rounds instead of three (one folds in, one out: four and two of 6).
        let rounds = more.0.step_ns() - six.0.step_ns();
        assert!((0.0..=3.0 * LATENCY as f64).contains(&rounds), "{rounds}");
        assert!(six.1.is_empty());
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
    // Neighbours of the run stay neighbours: each is two of eight.
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

/// An exchange by blocking calls with a list of neighbours of each rank, 100 ns apart: all sends, then all receives.
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
    // A line whose ends leave calls out.
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
    // The message is there long before the computation ends.
    assert!((98.0e3..101.0e3).contains(&step), "{step}");
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
