//! The analysis of a simulated run finds what was put into it.

#![allow(clippy::unwrap_used)]

use crate::made::*;
use idlewave_noise::{Arrivals, NoiseModel, ServedEvents, Source};
use idlewave_run::tables::{Bursts, Interrupts, RegionKind, Regions, Table};
use idlewave_run::{RunReader, SourceKind};
use idlewave_simulate::Shape;
use idlewave_simulate::Stencil;
use idlewave_simulate::Work;
use idlewave_simulate::bulk::{Algorithm, Collective, Engine, OneOff, Phase, Program, Wait};
use idlewave_simulate::bundle::Run;
use idlewave_simulate::goal::Parameters;
use idlewave_units::{Nanos, Rank};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Whatever its class, noise on one CPU is charged to itself alone, and strikes where it was
/// planted.
#[test]
fn all_lateness_is_charged_to_the_only_source_there_is() {
    let ring = |ranks| Program {
        costs: costs(0),
        ..ring(ranks)
    };
    for (kind, program) in [
        (SourceKind::Task, ring(8)),
        (SourceKind::KernelThread, barrier(8)),
        (SourceKind::Irq, ring(8)),
        (SourceKind::TimerTick, barrier(8)),
        (SourceKind::Hypervisor, ring(8)),
    ] {
        let planted = Source {
            cpus: Some(vec![3]),
            ..source(kind, "culprit", poisson(20.0), 400_000)
        };
        let model = model(8, vec![planted]);
        let (explanation, _, _dir) = explained(&run(&program, &model, 400));
        let findings = explanation.findings;
        parts_add_up(&findings);
        assert!(findings.lateness.get() > 1_000_000, "{kind:?}");
        assert_eq!(findings.named, findings.lateness, "{kind:?}");
        let culprit = found(&findings, "culprit").unwrap();
        assert_eq!(culprit.kind, kind);
        assert_eq!(culprit.lateness, findings.lateness, "{kind:?}");
        assert_eq!(culprit.cpus.to_string(), "3");
        let late = |l: &idlewave_run::findings::LateFinding| l.last_rank == Rank::new(3);
        assert!(findings.latest.iter().all(late), "{kind:?}");
    }
}

/// A long event among many short ones is not mistaken for a jump of the clock: in a simulated run
/// nothing is inferred.
#[test]
fn an_event_far_beyond_the_median_stays_its_source_s() {
    let lengths = vec![[0, 3_000], [9_000_000, 3_000], [18_000_000, 5_000_000]];
    let trace = Source {
        length: None,
        ..source(
            SourceKind::Irq,
            "eth0",
            Arrivals::Trace {
                watched_ns: 30_000_000,
                block_ns: None,
                events: lengths,
            },
            0,
        )
    };
    let (program, model) = (barrier(4), model(4, vec![trace]));
    let (explanation, _, _dir) = explained(&run(&program, &model, 600));
    let findings = explanation.findings;
    assert!(found(&findings, "hypervisor gap").is_none_or(|s| s.lateness == Nanos::ZERO));
    assert_eq!(
        found(&findings, "eth0").unwrap().lateness,
        findings.lateness
    );
}

#[test]
fn a_delay_is_charged_to_itself_and_runs_through_the_ring() {
    let delays = [OneOff {
        rank: 5,
        step: 10,
        ns: 4_000_000,
    }];
    let (program, model) = (ring(16), NoiseModel::default());
    let run = Run {
        delays: &delays,
        ..run(&program, &model, 40)
    };
    let (explanation, reader, _dir) = explained(&run);
    let findings = explanation.findings;
    assert_eq!(findings.lockstep[0].late_steps, 1);
    let late = &findings.latest[0];
    assert_eq!((late.iteration, late.last_rank), (10, Rank::new(5)));
    // Exact to the nanosecond: nothing else disturbs.
    assert_eq!(late.lateness.get(), 4_000_000);
    let delay = found(&findings, "one-off delay").unwrap();
    assert_eq!(
        (delay.kind, delay.lateness.get()),
        (SourceKind::Imbalance, 4_000_000)
    );
    assert_eq!(findings.lockstep[0].step.get(), WORK + 10_000);
    // The wave: ranks at distance d wait in step 10 + d - 1, for the whole delay.
    let regions = reader.read::<Regions>().unwrap();
    for row in regions.rows().filter(|r| r.kind == RegionKind::Exchange) {
        let away = (i64::from(row.rank.get()) - 5).rem_euclid(16);
        let hops = away.min(16 - away);
        let long = row.end_ns - row.begin_ns > 1_000_000;
        let meets = hops > 0 && row.iteration as i64 == 10 + hops - 1;
        assert_eq!(long, meets, "rank {} step {}", row.rank, row.iteration);
        if long {
            assert_eq!(row.end_ns - row.begin_ns, 4_010_000);
        }
    }
}

/// Half of each period is a wait: an event in it costs nothing, but is known to have struck.
#[test]
fn what_strikes_in_a_wait_is_stolen_and_absorbed() {
    // Rank 1 computes half as long as rank 0; the event strikes while it waits.
    let program = Program {
        phases: vec![
            Phase::Compute(Work::Each(vec![WORK, WORK / 2])),
            barrier(2).phases[1].clone(),
        ],
        ..barrier(2)
    };
    let tick = Source {
        cpus: Some(vec![1]),
        ..source(
            SourceKind::TimerTick,
            "tick",
            Arrivals::Periodic {
                // One step.
                period_ns: WORK,
                jitter_ns: 0,
                phase_ns: Some(700_000),
            },
            100_000,
        )
    };
    let model = model(2, vec![tick]);
    let (explanation, reader, _dir) = explained(&run(&program, &model, 50));
    let tick = found(&explanation.findings, "tick").unwrap();
    assert_eq!(tick.stolen.get(), 50 * 100_000);
    assert_eq!((tick.lateness.get(), tick.absorbed), (0, Some(1.0)));
    assert_eq!(reader.read::<Interrupts>().unwrap().len(), 50);
}

/// A source that slows a rank down is charged under its own name, next to one that stops it.
#[test]
fn a_slow_level_is_charged_to_its_name() {
    let slow = Source {
        keeps: 0.5,
        cpus: Some(vec![2]),
        ..source(
            SourceKind::SlowLevel,
            "low frequency",
            poisson(5.0),
            3_000_000,
        )
    };
    let irq = source(SourceKind::Irq, "eth0", poisson(500.0), 5_000);
    let (program, model) = (barrier(4), model(4, vec![slow, irq]));
    let (explanation, reader, _dir) = explained(&run(&program, &model, 500));
    let findings = explanation.findings;
    parts_add_up(&findings);
    let slow = found(&findings, "low frequency").unwrap();
    assert_eq!(slow.kind, SourceKind::SlowLevel);
    // Half speed for 3 ms loses 1.5 ms of work, minus what falls into waits.
    assert!(slow.stolen.get() > 0 && slow.lateness.get() > slow.stolen.get() / 2);
    assert_eq!(findings.named, findings.lateness);
    // Rows of a CPU do not overlap.
    let mut rows: Vec<(u32, u64, u64)> = reader
        .read::<Interrupts>()
        .unwrap()
        .rows()
        .map(|r| (r.cpu.get(), r.begin_ns, r.end_ns))
        .collect();
    rows.sort_unstable();
    for pair in rows.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?}");
    }
}

/// An event that starts in a wait and ends in the next computation does not overlap what a slow
/// level took.
#[test]
fn a_slow_level_keeps_clear_of_what_began_in_the_wait() {
    // Rank 1 has little to do. The event starts while it waits and ends 1 ns into its next
    // computation.
    let program = Program {
        phases: vec![
            Phase::Compute(Work::Each(vec![WORK, 50_000])),
            barrier(2).phases[1].clone(),
        ],
        ..barrier(2)
    };
    let irq = Source {
        cpus: Some(vec![1]),
        ..source(
            SourceKind::Irq,
            "eth0",
            Arrivals::Periodic {
                period_ns: WORK,
                jitter_ns: 0,
                phase_ns: Some(900_000),
            },
            100_000 + 1,
        )
    };
    // Always slow: 50 us of work take 417 us.
    let slow = Source {
        keeps: 0.12,
        cpus: Some(vec![1]),
        ..source(
            SourceKind::SlowLevel,
            "slow",
            Arrivals::Periodic {
                period_ns: 1_000_000,
                jitter_ns: 0,
                phase_ns: Some(0),
            },
            1_000_000,
        )
    };
    let model = model(2, vec![irq, slow]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    written(&path, &run(&program, &model, 30));
    let table = RunReader::open(&path)
        .unwrap()
        .read::<Interrupts>()
        .unwrap();
    let mut rows: Vec<(u64, u64)> = table.rows().map(|r| (r.begin_ns, r.end_ns)).collect();
    rows.sort_unstable();
    assert!(rows.len() >= 59, "{}", rows.len());
    assert!(rows.windows(2).all(|p| p[0].1 <= p[1].0), "{rows:?}");
}

fn programs() -> impl Strategy<Value = Program> {
    let wait = prop_oneof![Just(Wait::All), Just(Wait::Blocking)];
    let grid = (1usize..5, 1usize..4, 1u32..3, any::<bool>(), any::<bool>());
    let stencil = grid.prop_map(|(x, y, reach, periodic, one_sided)| Stencil {
        shape: Shape { x, y, z: 1 },
        reach,
        periodic,
        one_sided,
    });
    (stencil, wait, any::<bool>(), 0u64..3_000, 0u64..2_000).prop_map(
        |(stencil, wait, collective, latency, overhead)| {
            let mut program = ring(stencil.ranks() as u32);
            let exchange = Phase::Exchange {
                stencil,
                bytes: 16,
                wait,
            };
            program.phases = vec![Phase::Compute(Work::Same(50_000)), exchange];
            if collective {
                program.phases.push(Phase::Collective {
                    operation: Collective::Allreduce,
                    algorithm: Algorithm::RecursiveDoubling,
                    bytes: 8,
                });
            }
            program.costs = Parameters {
                overhead: Nanos::from_nanos(overhead),
                ..costs(latency)
            };
            program
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Regions follow each other without a gap and end where the engine ends; every computation
    /// consists of its work, its delays, and what was served or slowed within it.
    #[test]
    fn the_tables_hold_the_whole_time_of_every_rank(
        program in programs(), seed: u64, keeps in prop_oneof![Just(0.0), Just(0.3)], late in 0u64..200_000,
    ) {
        let steps = 12;
        let model = model(3, vec![
            source(SourceKind::Task, "daemon", poisson(3_000.0), 20_000),
            Source { keeps, ..source(SourceKind::SlowLevel, "level", poisson(2_000.0), 60_000) },
            source(SourceKind::KernelThread, "kworker", poisson(2_000.0), 7_000),
            source(SourceKind::Irq, "eth0", poisson(9_000.0), 4_000),
        ]);
        let delays = [OneOff { rank: program.ranks - 1, step: 4, ns: late }];
        let run = Run { seed, delays: &delays, ..run(&program, &model, steps) };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let end = written(&path, &run);
        let noise = idlewave_noise::Noise::new(&model, seed, 0, |_| true).unwrap();
        let mut engine = Engine::new(&program, &noise, &delays).unwrap();
        for _ in 0..steps {
            engine.step().unwrap();
        }
        prop_assert_eq!(engine.times().iter().max(), Some(&end.finish_ns));
        let reader = RunReader::open(&path).unwrap();
        // Who else had a rank's CPU: (start, end).
        let cpu_of = |rank: usize| { let s = &reader.manifest().ranks[rank]; (s.node, s.cpu.unwrap()) };
        let mut others: Vec<Vec<(u64, u64)>> = vec![Vec::new(); program.ranks as usize];
        let rank_of = |place| (0..program.ranks as usize).find(|&r| cpu_of(r) == place).unwrap();
        for b in reader.read::<Bursts>().unwrap().rows() {
            if b.pid.get() > program.ranks {
                others[rank_of((b.node, b.cpu))].push((b.begin_ns, b.end_ns));
            }
        }
        for i in reader.read::<Interrupts>().unwrap().rows() {
            others[rank_of((i.node, i.cpu))].push((i.begin_ns, i.end_ns));
        }
        for list in &mut others {
            list.sort_unstable();
            prop_assert!(list.windows(2).all(|p| p[0].1 <= p[1].0 && p[0].0 < p[0].1));
        }
        // Every CPU always has a thread, and every thread stays on one CPU.
        let mut bursts: Vec<_> = reader.read::<Bursts>().unwrap().rows().collect();
        bursts.sort_by_key(|b| (b.node, b.cpu, b.begin_ns));
        let mut place = BTreeMap::new();
        for b in &bursts {
            prop_assert_eq!(*place.entry(b.pid).or_insert((b.node, b.cpu)), (b.node, b.cpu));
        }
        for all in bursts.chunk_by(|a, b| (a.node, a.cpu) == (b.node, b.cpu)) {
            prop_assert_eq!(all[0].begin_ns, 0);
            prop_assert!(all.windows(2).all(|p| p[0].end_ns == p[1].begin_ns));
            prop_assert!(all[all.len() - 1].end_ns >= end.finish_ns);
        }
        // All events until the last rank ended are there, threads as bursts.
        let interrupts = reader.read::<Interrupts>().unwrap();
        let mut served = [0; 4];
        for rank in 0..program.ranks {
            let mut events = ServedEvents::new(&noise, noise.place(rank));
            while let Some(event) = events.next_before(&noise, end.finish_ns) {
                served[event.source as usize] += 1;
            }
        }
        let by_rank = |b: &&idlewave_run::tables::Burst| b.pid.get() > program.ranks;
        prop_assert_eq!(bursts.iter().filter(by_rank).count(), served[0] + served[2]);
        prop_assert_eq!(interrupts.rows().filter(|i| i.source == 3).count(), served[3]);
        let mut now = vec![0; program.ranks as usize];
        for r in reader.read::<Regions>().unwrap().rows() {
            let rank = r.rank.index();
            prop_assert_eq!(r.begin_ns, now[rank]);
            now[rank] = r.end_ns;
            if r.kind == RegionKind::Compute {
                let within = |&(b, e): &(u64, u64)| e.min(r.end_ns).saturating_sub(b.max(r.begin_ns));
                let taken: u64 = others[rank].iter().map(within).sum();
                prop_assert_eq!(r.end_ns - r.begin_ns, 50_000 + taken, "rank {} step {}", rank, r.iteration);
            }
        }
        prop_assert_eq!(&now[..], engine.times());
    }
}

/// A wave that skips neighbours is traced back to its origin, because the manifest says how far
/// messages reach.
#[test]
fn a_wave_of_far_neighbours_is_one_late_step() {
    let mut program = ring(16);
    program.phases[1] = Phase::Exchange {
        stencil: Stencil {
            reach: 3,
            periodic: false,
            one_sided: true,
            ..Stencil::nearest(Shape { x: 16, y: 1, z: 1 })
        },
        bytes: 8,
        wait: Wait::All,
    };
    let delays = [OneOff {
        rank: 1,
        step: 5,
        ns: 4_000_000,
    }];
    let model = NoiseModel::default();
    let run = Run {
        delays: &delays,
        ..run(&program, &model, 30)
    };
    let (explanation, _, _dir) = explained(&run);
    let findings = explanation.findings;
    assert_eq!(findings.lockstep[0].late_steps, 1);
    assert_eq!(findings.latest[0].last_rank, Rank::new(1));
    assert_eq!(
        found(&findings, "one-off delay").unwrap().lateness,
        findings.lateness
    );
}
