//! Runs beside their predictions, and on other numbers of ranks.

#![allow(clippy::unwrap_used)]

#[path = "../../explain/tests/made/mod.rs"]
mod made;

use idlewave_noise::{Arrivals, Lengths, NoiseModel, Scope, Source, Together};
use idlewave_replay::{
    Like, LikeOptions, NoiseOfRun, PhaseKindOfRun, ReplayError, Scaling, like, message_costs,
    pattern_of, scaling,
};
use idlewave_run::SourceKind;
use idlewave_simulate::Shape;
use idlewave_simulate::Stencil;
use idlewave_simulate::bulk::Collective;
use idlewave_simulate::goal::{Parameters, PerByte};
use idlewave_units::Nanos;
use made::Made;
use made::world::{CALL, LATENCY, World};

const US: u64 = 1_000;
const STEPS: u64 = 20;
const WORK: u64 = 100 * US;

/// Ranks on a line around its ends: they compute, exchange with `steps`, and meet.
fn ring(ranks: u32, steps: &[i32]) -> World {
    let mut world = World::new(ranks);
    // Before the loop: not part of its work.
    world.compute_all(7 * WORK);
    for _ in 0..STEPS {
        world.compute_all(WORK);
        world.exchange(steps);
        world.compute_all(5 * US);
        meet(&mut world);
    }
    world
}

/// An allreduce that ends so long after its last member's entry as its rounds take.
fn meet(world: &mut World) {
    let ranks = world.now.len() as u32;
    let rounds = u64::from(ranks.next_power_of_two().trailing_zeros());
    let end = world.now.iter().max().unwrap() + rounds * LATENCY;
    let members: Vec<(u32, u64, u64)> = (0..ranks)
        .zip(&world.now)
        .map(|(r, &t)| (r, t, end))
        .collect();
    world.made.collective("MPI_Allreduce", 0, None, &members);
    world.now.fill(end);
}

/// What a message of the made-up world costs: [`LATENCY`] in all, of which [`CALL`] is the sender's.
fn costs() -> Parameters {
    Parameters {
        latency: Nanos::from_nanos(LATENCY - 2 * CALL),
        overhead: Nanos::from_nanos(CALL),
        ..Parameters::FREE
    }
}

fn options() -> LikeOptions {
    LikeOptions {
        costs: Some(costs()),
        ..LikeOptions::default()
    }
}

fn of(made: &Made, options: &LikeOptions) -> Like {
    like(&made.write().open(), options).unwrap()
}

#[test]
fn a_run_with_known_costs_is_predicted_as_it_was() {
    let mut world = ring(4, &[1, -1]);
    world.strike(2, 30 * US, 0);
    world.compute(2, WORK);
    meet(&mut world);
    let found = of(&world.made, &options());
    for (predicted, measured) in found.as_recorded.finish_ns.iter().zip(&found.measured_ns) {
        // Less than a message per step: when a message that came before its receive costs its overhead is not known.
        assert!(
            predicted.abs_diff(*measured) <= STEPS * LATENCY / 2,
            "{predicted} {measured}"
        );
    }
    // With calls as long as messages cost: as much off per message as the models of both worlds differ.
    for (predicted, measured) in found.kept.finish_ns.iter().zip(&found.measured_ns) {
        assert!(
            predicted.abs_diff(*measured) <= STEPS * 4 * LATENCY,
            "{predicted} {measured}"
        );
    }
    assert!(found.kept.error_percent(&found.measured_ns).unwrap().abs() < 2.0);
    // The 30 us that were taken at the end are missing.
    assert_eq!(
        found.kept.makespan_ns() - found.quiet.makespan_ns(),
        30 * US
    );
    assert_eq!(found.taken_ns, [0, 0, 30 * US, 0]);
    assert!(found.noisy.is_empty() && found.extrapolated.is_empty() && found.estimated.is_none());
}

#[test]
fn errors_are_percent_of_what_was_measured() {
    let predicted = idlewave_replay::Predicted {
        finish_ns: vec![90, 205, 100],
    };
    assert!((predicted.error_percent(&[100, 200, 100]).unwrap() - 2.5).abs() < 1e-9);
    let (rank, percent) = predicted.worst_rank(&[100, 200, 100]).unwrap();
    assert_eq!((rank, percent.round() as i64), (0, -10));
    assert_eq!(predicted.error_percent(&[0, 0, 0]), None);
}

/// Every millisecond 100 us, on every CPU at the same times.
fn noise() -> NoiseModel {
    NoiseModel {
        cpus_per_node: 4,
        sources: vec![Source {
            kind: SourceKind::Task,
            name: "daemon".to_owned(),
            arrivals: Arrivals::Periodic {
                period_ns: 1_000_000,
                jitter_ns: 0,
                phase_ns: Some(0),
            },
            length: Some(Lengths::Fixed { ns: 100_000 }),
            keeps: 0.0,
            strikes: Scope::EachCpu,
            together: Together::All,
            cpus: None,
            fit: None,
        }],
        ..NoiseModel::default()
    }
}

#[test]
fn noise_that_is_put_back_costs_what_it_takes() {
    let mut world = World::new(2);
    world.compute_all(10_000 * US);
    meet(&mut world);
    let noisy = LikeOptions {
        noise: Some(NoiseOfRun {
            model: noise(),
            seed: 1,
            repetitions: 3,
        }),
        ..options()
    };
    let found = of(&world.made, &noisy);
    assert_eq!(found.noisy.len(), 3);
    // 10 ms of work with a tenth taken: 11 events of 100 us until 11.1 ms, and one more at the most.
    let extra = found.noisy[0].makespan_ns() - found.quiet.makespan_ns();
    assert!((1_100 * US..=1_300 * US).contains(&extra), "{extra}");
    assert_eq!(found.noisy[0], of(&world.made, &noisy).noisy[0]);
}

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

#[test]
fn what_a_message_costs_is_read_off_those_that_were_waited_for() {
    let mut made = Made::new(2);
    // L + 2 o = 900 + 0.5 (n - 1), a send costs 200; one message in ten is late by far, and one was there before its receiver.
    for (i, bytes) in [1_u64, 1, 9, 129, 1_025, 1_025, 65_537]
        .into_iter()
        .enumerate()
    {
        let at = 200 * US * (i as u64 + 1);
        let late = if i == 1 { 5 * US } else { 0 };
        let end = at + 900 + (bytes - 1) / 2 + late;
        made.call("MPI_Send", 0, (at, at + 200));
        made.transfer(true, 0, Some(1), 0, 1, bytes, at, Some((at, at + 200)));
        made.call("MPI_Recv", 1, (at - 100, end));
        made.transfer(
            false,
            1,
            Some(0),
            0,
            1,
            bytes,
            at - 100,
            Some((at - 100, end)),
        );
    }
    let at = 2_000 * US;
    made.call("MPI_Send", 0, (at, at + 200));
    made.transfer(true, 0, Some(1), 0, 1, 1, at, Some((at, at + 200)));
    made.call("MPI_Recv", 1, (at + 250, at + 300));
    made.transfer(
        false,
        1,
        Some(0),
        0,
        1,
        1,
        at + 250,
        Some((at + 250, at + 300)),
    );
    let found = message_costs(&made.write().open()).unwrap();
    assert!((found.shortest.value - 900.0).abs() < 1e-6, "{found:?}");
    assert_eq!(found.shortest.n, 7);
    assert!((found.per_byte.as_ref().unwrap().value - 0.5).abs() < 1e-9);
    assert_eq!(found.parameters.overhead.get(), 200);
    assert_eq!(found.parameters.latency.get(), 500);
    assert_eq!(found.parameters.gap_per_byte, "0.5".parse().unwrap());
    assert_eq!(found.parameters.overhead_per_byte, PerByte::ZERO);
}

#[test]
fn the_error_of_the_clocks_is_told_and_in_the_interval() {
    let mut made = Made::new(2);
    made.places = vec![(0, 0), (1, 0)];
    made.clock_error = 300;
    made.message(0, 1, (50 * US, 51 * US), (20 * US, 53 * US));
    let found = message_costs(&made.write().open()).unwrap();
    assert_eq!(found.clock_error.get(), 300);
    assert_eq!(found.shortest.interval, None);
    assert_eq!(found.per_byte, None);
    // Three classes of lengths have a scatter; on a line exactly, only the clocks are left.
    for (i, bytes) in [(1, 16), (2, 256)] {
        let at = i * 100 * US;
        made.transfer(true, 0, Some(1), 0, 7, bytes, at, Some((at, at + US)));
        let end = at + US + 2 * bytes;
        made.transfer(
            false,
            1,
            Some(0),
            0,
            7,
            bytes,
            at - 9 * US,
            Some((at - 9 * US, end)),
        );
    }
    let found = message_costs(&made.write().open()).unwrap();
    let (low, high) = found.shortest.interval.unwrap();
    assert!(high - low >= 600.0, "{found:?}");
}

#[test]
fn a_send_costs_no_more_than_half_of_its_message() {
    let mut made = Made::new(2);
    made.message(0, 1, (50 * US, 53 * US), (20 * US, 54 * US));
    let parameters = message_costs(&made.write().open()).unwrap().parameters;
    assert_eq!(
        (parameters.overhead.get(), parameters.latency.get()),
        (2_000, 0)
    );
}

#[test]
fn without_messages_collectives_say_what_one_costs_and_without_both_nothing_does() {
    let mut world = World::new(4);
    world.compute_all(WORK);
    world.compute(1, 70 * US);
    meet(&mut world);
    let found = message_costs(&world.made.write().open()).unwrap();
    // Two rounds.
    assert_eq!(found.parameters.latency.get(), LATENCY);
    assert_eq!(found.parameters.overhead, Nanos::ZERO);
    let mut alone = Made::new(1);
    alone.call("MPI_Waitall", 0, (1, 2));
    let error = message_costs(&alone.write().open()).unwrap_err();
    assert!(matches!(error, ReplayError::NoCosts), "{error}");
}

#[test]
fn a_series_is_predicted_each_by_itself_and_all_by_the_smallest() {
    let bundles: Vec<_> = [8, 4]
        .map(|ranks| ring(ranks, &[1, -1]).made.write())
        .into();
    let runs: Vec<_> = bundles.iter().map(|b| b.open()).collect();
    let rows = scaling(&runs, &options()).unwrap();
    assert_eq!(rows.iter().map(|r| r.ranks).collect::<Vec<_>>(), [4, 8]);
    for row in &rows {
        assert!(
            row.like
                .as_recorded
                .error_percent(&row.like.measured_ns)
                .unwrap()
                .abs()
                < 3.0
        );
        let (measured, predicted) = row.from_smallest.as_ref().unwrap();
        let percent = predicted.makespan_ns as f64 / *measured as f64 - 1.0;
        assert!(percent.abs() < 0.06, "{}: {percent}", row.ranks);
    }
}
