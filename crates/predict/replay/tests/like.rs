//! Runs beside their predictions, and what messages cost.

#![allow(clippy::unwrap_used)]

use crate::made::Made;
use crate::made::world::{LATENCY, World};
use crate::rings::{STEPS, US, WORK, meet, of, options, ring};
use idlewave_noise::{Arrivals, Lengths, NoiseModel, Scope, Source, Together};
use idlewave_replay::{LikeOptions, MessageCosts, NoiseOfRun, ReplayError, message_costs, scaling};
use idlewave_run::SourceKind;
use idlewave_simulate::goal::{Parameters, PerByte};
use idlewave_units::Nanos;

#[test]
fn a_run_with_known_costs_is_predicted_as_it_was() {
    let mut world = ring(4, &[1, -1]);
    world.strike(2, 30 * US, 0);
    world.compute(2, WORK);
    meet(&mut world);
    let found = of(&world.made, &options());
    for (predicted, measured) in found.as_recorded.finish_ns.iter().zip(&found.measured_ns) {
        // Off by less than a message per step: it is unknown when a message that came before its
        // receive costs its overhead.
        assert!(
            predicted.abs_diff(*measured) <= STEPS * LATENCY / 2,
            "{predicted} {measured}"
        );
    }
    // With calls that take only what their messages cost, each message is off by the difference
    // between the two models.
    for (predicted, measured) in found.kept.finish_ns.iter().zip(&found.measured_ns) {
        assert!(
            predicted.abs_diff(*measured) <= STEPS * 4 * LATENCY,
            "{predicted} {measured}"
        );
    }
    assert!(found.kept.error_percent(&found.measured_ns).unwrap().abs() < 2.0);
    // The 30 us taken at the end are missing.
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

/// 100 us every millisecond, on every CPU at the same times.
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
            without: vec![vec![0]],
        }),
        ..options()
    };
    let found = of(&world.made, &noisy);
    // Without its only source nothing is left of the noise.
    assert_eq!(found.without, [vec![found.quiet.clone(); 3]]);
    assert_eq!(found.noisy.len(), 3);
    // 10 ms of work with a tenth taken: 11 events of 100 us until 11.1 ms, and at most one more.
    let extra = found.noisy[0].makespan_ns() - found.quiet.makespan_ns();
    assert!((1_100 * US..=1_300 * US).contains(&extra), "{extra}");
    assert_eq!(found.noisy[0], of(&world.made, &noisy).noisy[0]);
}

#[test]
fn what_a_message_costs_is_read_off_those_that_were_waited_for() {
    let mut made = Made::new(2);
    // A message of n bytes takes 900 + 0.5 (n - 1), and a send costs 200. One message is very late,
    // and one arrived before its receiver.
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
    made.call("MPI_Recv", 1, (at + 950, at + 1_000));
    made.transfer(
        false,
        1,
        Some(0),
        0,
        1,
        1,
        at + 950,
        Some((at + 950, at + 1_000)),
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

/// A message of `bytes` that is sent at `at` and takes `took`. `comes` is how long after the send
/// its receiver comes; with `None`, it already waits.
fn message_of(made: &mut Made, at: u64, bytes: u64, took: u64, comes: Option<u64>) {
    made.call("MPI_Send", 0, (at, at + 200));
    made.transfer(true, 0, Some(1), 0, 1, bytes, at, Some((at, at + 200)));
    let span = (comes.map_or(at - 100, |late| at + late), at + took);
    made.call("MPI_Recv", 1, span);
    made.transfer(false, 1, Some(0), 0, 1, bytes, span.0, Some(span));
}

/// What a message of this many bytes costs, in nanoseconds.
fn cost_of(found: &MessageCosts, bytes: u64) -> u64 {
    let p = &found.parameters;
    p.latency.get() + 2 * p.overhead.get() + p.gap_per_byte.cost(bytes - 1).unwrap()
}

#[test]
fn no_message_costs_more_than_one_was_seen_to_take() {
    // A receiver waited only for 8 and 16 bytes, and the 30 ns between the two say nothing about
    // 56,000.
    let mut made = Made::new(2);
    message_of(&mut made, 200 * US, 8, 1_000, None);
    message_of(&mut made, 400 * US, 16, 1_030, None);
    message_of(&mut made, 600 * US, 56_000, 12_100, Some(11_000));
    let found = message_costs(&made.write().open()).unwrap();
    assert!(cost_of(&found, 56_000) <= 12_100, "{found:?}");
    let byte = found.per_byte.as_ref().unwrap();
    let (low, high) = byte.interval.unwrap();
    assert!(low == 0.0 && high < 0.2 && byte.value == high, "{byte:?}");
    assert!(found.doubts[0].contains("measure pingpong"), "{found:?}");
    // If lengths are far apart, the line through them is still bounded, and so is the latency.
    let mut made = Made::new(2);
    for (i, bytes) in [1, 64, 2_048].into_iter().enumerate() {
        message_of(
            &mut made,
            200 * US * (1 + i as u64),
            bytes,
            1_000 + bytes,
            None,
        );
    }
    assert_eq!(
        cost_of(&message_costs(&made.write().open()).unwrap(), 56_001),
        57_001
    );
    message_of(&mut made, 1_000 * US, 56_001, 14_001, Some(13_000));
    message_of(&mut made, 1_200 * US, 1, 400, Some(300));
    let found = message_costs(&made.write().open()).unwrap();
    assert!(
        cost_of(&found, 56_001) <= 14_001 && cost_of(&found, 1) <= 400,
        "{found:?}"
    );
}

#[test]
fn collectives_of_many_bytes_have_a_cost_per_byte() {
    // An all-to-all of 1 MB to each other rank in 500 us; nothing else.
    let mut made = Made::new(2);
    let long = |made: &mut Made, at: u64| {
        let members = [(0, at, at + 500 * US), (1, at, at + 500 * US)];
        made.collective_of("MPI_Alltoall", 0, None, &members, 2_000_000);
    };
    long(&mut made, 1_000 * US);
    long(&mut made, 2_000 * US);
    let found = message_costs(&made.write().open()).unwrap();
    assert_eq!(
        (found.parameters.latency.get(), cost_of(&found, 1_000_000)),
        (0, 500 * US)
    );
    assert!(
        found.doubts.iter().any(|d| d.contains("latency")),
        "{found:?}"
    );
    // The first member to leave bounds the cost: no call was shorter.
    let members = [(0, 2_500 * US, 2_900 * US), (1, 2_500 * US, 3_500 * US)];
    made.collective_of("MPI_Alltoall", 0, None, &members, 2_000_000);
    let found = message_costs(&made.write().open()).unwrap();
    assert_eq!(cost_of(&found, 1_000_000), 400 * US);
    // A reduction of 8 bytes takes 2 us and shows the latency.
    made.collective(
        "MPI_Reduce",
        0,
        Some(0),
        &[(0, 4_000 * US, 4_003 * US), (1, 4_001 * US, 4_002 * US)],
    );
    let found = message_costs(&made.write().open()).unwrap();
    let latency = found.parameters.latency.get();
    assert!((1_900..=2_000).contains(&latency), "{found:?}");
    assert!(
        cost_of(&found, 1_000_000).abs_diff(400 * US) < 3 * US,
        "{found:?}"
    );
}

#[test]
fn messages_that_nobody_waited_for_bound_what_one_costs() {
    let mut made = Made::new(2);
    message_of(&mut made, 200 * US, 8, 3_000, Some(2_500));
    message_of(&mut made, 400 * US, 100_000, 53_000, Some(50_000));
    let found = message_costs(&made.write().open()).unwrap();
    assert!(
        cost_of(&found, 8) <= 3_000 && cost_of(&found, 100_000) <= 53_000,
        "{found:?}"
    );
    assert!(!found.doubts.is_empty(), "{found:?}");
}

#[test]
fn a_schedule_that_does_not_give_the_run_back_is_said_first() {
    let mut world = ring(2, &[1]);
    meet(&mut world);
    assert_eq!(of(&world.made, &options()).warnings, [] as [String; 0]);
    let dear = LikeOptions {
        costs: Some(Parameters {
            latency: Nanos::from_micros(100),
            ..Parameters::FREE
        }),
        ..options()
    };
    let found = of(&world.made, &dear);
    let error = found.as_recorded.error_percent(&found.measured_ns).unwrap();
    assert!(
        error > 20.0 && found.warnings[0].contains("as recorded"),
        "{error} {:?}",
        found.warnings
    );
}

#[test]
fn ranks_that_shared_cpus_are_said_first_and_ranks_with_their_own_are_not() {
    let mut world = ring(4, &[1, -1]);
    world.made.places = vec![(0, 0), (0, 1), (0, 0), (0, 1)];
    world.made.turns = Some(10 * US);
    let found = of(&world.made, &options());
    assert!(
        found.warnings[0]
            .starts_with("4 ranks of node 0 shared 2 CPUs, and waited for each other for 49.7 %"),
        "{:?}",
        found.warnings
    );
    world.made.places = (0..4).map(|r| (0, r)).collect();
    let found = of(&world.made, &options());
    assert!(
        found.warnings.iter().all(|w| !w.contains("shared")),
        "{:?}",
        found.warnings
    );
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
    // Three length classes have a scatter; exactly on a line, only the clock error is left.
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
fn the_loops_of_a_series_are_predicted_by_the_run_with_fewest_ranks() {
    let mut random = World::new(6);
    random.compute_all(WORK);
    let runs = [
        of(&ring(8, &[1, -1]).made, &options()),
        of(&ring(4, &[1, -1]).made, &options()),
        of(&random.made, &options()),
    ];
    let rows = scaling(&runs, &options()).unwrap();
    for (row, ranks) in rows.iter().zip([8, 4]) {
        let row = row.as_ref().unwrap();
        assert_eq!((row.quiet.ranks, row.noisy.len()), (ranks, 0));
        let percent = row.quiet.makespan_ns as f64 / row.measured_ns as f64 - 1.0;
        assert!(percent.abs() < 0.06, "{ranks}: {percent}");
    }
    assert_eq!(rows[2], None, "a run without a loop");
    // The prediction has as many steps as the run itself, not as the smallest one.
    let mut longer = ring(8, &[1, -1]);
    longer.compute_all(WORK);
    longer.exchange(&[1, -1]);
    longer.compute_all(5 * US);
    meet(&mut longer);
    let both = [
        of(&longer.made, &options()),
        of(&ring(4, &[1, -1]).made, &options()),
    ];
    let rows = scaling(&both, &options()).unwrap();
    let steps = rows.iter().map(|r| r.as_ref().unwrap().quiet.steps);
    assert_eq!(steps.collect::<Vec<_>>(), [STEPS + 1, STEPS]);
    // If the run with the fewest ranks has no loop, nothing is predicted for any run.
    let mut lone = World::new(2);
    lone.compute_all(WORK);
    let rows = scaling(
        &[
            of(&ring(8, &[1, -1]).made, &options()),
            of(&lone.made, &options()),
        ],
        &options(),
    )
    .unwrap();
    assert_eq!(rows, [None, None]);
    // Noise that takes a tenth of the time makes steps longer by at least that.
    let noise = NoiseOfRun {
        model: noise(),
        seed: 1,
        repetitions: 2,
        without: Vec::new(),
    };
    let noisy = LikeOptions {
        noise: Some(noise),
        ..options()
    };
    let rows = scaling(&runs[..2], &noisy).unwrap();
    let row = rows[0].as_ref().unwrap();
    assert_eq!(row.noisy.len(), 2);
    for noisy in &row.noisy {
        let longer = noisy.step_ns() / row.quiet.step_ns();
        assert!((1.09..1.5).contains(&longer), "{longer}");
    }
}
