//! Synthetic runs with known disturbances: what must be charged to whom is known beforehand.

#![allow(clippy::unwrap_used)]

use idlewave_explain::explain;
use idlewave_run::findings::{ChargedFinding, Estimate, Findings, LateFinding, SourceFinding};
use idlewave_run::tables::{
    Burst, Bursts, Detour, Detours, EndReason, LateSteps, Region, RegionKind, Regions, Table, Task,
    TaskKind, Tasks,
};
use idlewave_run::testing::empty_manifest;
use idlewave_run::{
    Alignment, Coupling, Phase, PhaseKind, RankSheet, RunReader, RunWriter, SourceKind, TraceMode,
    Unavailable,
};
use idlewave_units::{Cpu, Nanos, NodeId, Pid, Rank};
use std::sync::atomic::AtomicBool;

const WORK: u64 = 20_000;
const SEND: u64 = 200;
const LATENCY: u64 = 300;
const NODE: NodeId = NodeId::new(0);

/// Where in an iteration a rank loses its CPU.
#[derive(Clone, Copy, PartialEq)]
enum Point {
    Computing,
    /// After its arrival, before its message is out.
    Sending,
    /// After its message is out.
    Waiting,
    /// While the message is on its way: nobody loses a CPU.
    Underway,
}

/// In place of a task: the rank sees that time is missing, and the kernel recorded nothing.
const GAP: u32 = 9;

/// Task `by` takes the CPU of `rank` for `length` nanoseconds.
struct Strike {
    iteration: usize,
    rank: usize,
    point: Point,
    length: u64,
    by: u32,
}

#[derive(Default)]
struct Made {
    regions: Regions,
    /// (start, end, task) per rank.
    taken: Vec<Vec<(u64, u64, u32)>>,
    end: u64,
}

/// Runs the ranks: a rank begins its next iteration when its own message and those of the others
/// are there.
fn made(ranks: usize, iterations: usize, coupling: Coupling, strikes: &[Strike]) -> Made {
    let mut made = Made {
        taken: vec![Vec::new(); ranks],
        ..Made::default()
    };
    let mut begin = vec![1_000_000_u64; ranks];
    for k in 0..iterations {
        let mut arrival = vec![0; ranks];
        let mut sent = vec![0; ranks];
        let mut free = vec![0; ranks];
        for r in 0..ranks {
            let mut strike = |point, at: u64| {
                let mut all = strikes.iter();
                let hit = all.find(|s| s.iteration == k && s.rank == r && s.point == point);
                hit.map_or(0, |s| {
                    if point != Point::Underway {
                        made.taken[r].push((at, at + s.length, s.by));
                    }
                    s.length
                })
            };
            arrival[r] = begin[r] + WORK + strike(Point::Computing, begin[r] + WORK / 2);
            sent[r] = arrival[r] + SEND + strike(Point::Sending, arrival[r] + SEND / 2);
            free[r] = sent[r] + strike(Point::Waiting, sent[r] + 10);
            sent[r] += strike(Point::Underway, sent[r]);
        }
        for r in 0..ranks {
            let others = match coupling {
                Coupling::Neighbours => vec![(r + ranks - 1) % ranks, r, (r + 1) % ranks],
                _ => (0..ranks).collect(),
            };
            let message = others.iter().map(|&j| sent[j]).max().unwrap() + LATENCY;
            let end = message.max(free[r]);
            let region = |kind, begin_ns, end_ns| Region {
                rank: Rank::new(r as u32),
                phase: 0,
                iteration: k as u64,
                kind,
                begin_ns,
                end_ns,
                bytes: None,
            };
            let compute = region(RegionKind::Compute, begin[r], arrival[r]);
            made.regions.push(compute);
            let wait = region(RegionKind::Exchange, arrival[r], end);
            made.regions.push(wait);
            begin[r] = end;
            made.end = made.end.max(end);
        }
    }
    made
}

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

/// Writes the run as it would have been recorded, and explains it.
fn explained(
    ranks: usize,
    iterations: usize,
    coupling: Coupling,
    strikes: &[Strike],
) -> (Findings, LateSteps) {
    explained_on(ranks, ranks, iterations, coupling, strikes)
}

/// Bound of the error of the second node's clock.
const CLOCK_ERROR: u64 = 15_000;

/// The same with the ranks from `traced` on a second node that was not traced. Task 0 is seen there
/// only as a detour, the others not at all. On the first node, tasks take the same CPUs at the same
/// times; they disturb nobody.
fn explained_on(
    ranks: usize,
    traced: usize,
    iterations: usize,
    coupling: Coupling,
    strikes: &[Strike],
) -> (Findings, LateSteps) {
    let made = made(ranks, iterations, coupling, strikes);
    let dir = tempfile::tempdir().unwrap();
    let mut manifest = empty_manifest();
    if traced < ranks {
        let mut other = manifest.nodes[0].clone();
        other.node = NodeId::new(1);
        other.trace.mode = TraceMode::Off;
        other.trace.unavailable = vec![Unavailable {
            what: "names".to_owned(),
            why: "not traced".to_owned(),
            allow: None,
        }];
        other.alignment = Some(Alignment {
            points: Vec::new(),
            error: Nanos::from_nanos(CLOCK_ERROR),
            method: String::new(),
        });
        manifest.nodes.push(other);
    }
    manifest.phases.push(Phase {
        kind: PhaseKind::Lockstep {
            coupling,
            work_steps: 1,
            work_target: Nanos::from_nanos(WORK),
            message_bytes: 1_024,
            sides: Vec::new(),
            neighbourhood: Default::default(),
            variant: idlewave_run::ExchangeVariant::NonBlocking,
            ranks: None,
            iterations: iterations as u64,
            threshold: Nanos::from_nanos(1_000),
            turn: None,
        },
        begin_ns: 1_000_000,
        end_ns: made.end,
    });
    let mut tasks = Tasks::default();
    let mut task = |pid, name: &str, kind| {
        tasks.push(Task {
            node: NODE,
            pid,
            process: None,
            name: name.to_owned(),
            kind,
        })
    };
    let (mut bursts, mut detours) = (Bursts::default(), Detours::default());
    for (i, name) in NAMES.iter().enumerate() {
        task(Pid::new(500 + i as u32), name, TaskKind::User);
    }
    for (r, taken) in made.taken.iter().enumerate() {
        let (cpu, pid) = (Cpu::new(r as u32), Pid::new(100 + r as u32));
        task(pid, &format!("iw-rank-{r}"), TaskKind::Rank);
        manifest.ranks.push(RankSheet {
            process: None,
            rank: Rank::new(r as u32),
            node: NodeId::new(u32::from(r >= traced)),
            cpu: Some(cpu),
            threads: vec![pid],
            priority: None,
        });
        let mut burst = |pid, begin_ns, end_ns, end_reason| {
            bursts.push(Burst {
                node: NODE,
                cpu,
                pid,
                begin_ns,
                end_ns,
                end_reason,
                certain: true,
            })
        };
        let mut from = 900_000;
        for &(begin_ns, end_ns, by) in taken {
            if by == GAP {
                detours.push(Detour {
                    phase: 0,
                    cpu,
                    rank: Some(Rank::new(r as u32)),
                    begin_ns,
                    length: Nanos::from_nanos(end_ns - begin_ns),
                });
                continue;
            }
            burst(pid, from, begin_ns, EndReason::Preempted);
            let seen = r < traced || by == 0;
            let by = Pid::new(500 + by);
            burst(by, begin_ns, end_ns, EndReason::Sleeping);
            from = end_ns;
            if !seen {
                continue;
            }
            detours.push(Detour {
                phase: 0,
                cpu,
                rank: Some(Rank::new(r as u32)),
                begin_ns,
                length: Nanos::from_nanos(end_ns - begin_ns),
            });
        }
        burst(pid, from, made.end + 1_000, EndReason::Sleeping);
    }
    let path = dir.path().join("run");
    let mut out = RunWriter::create(&path, manifest).unwrap();
    out.write_table(&tasks).unwrap();
    out.write_table(&bursts).unwrap();
    out.write_table(&detours).unwrap();
    out.write_table(&made.regions).unwrap();
    out.close(None).unwrap();
    let run = RunReader::open(&path).unwrap();
    let explanation = explain(&run, &AtomicBool::new(false)).unwrap();
    (explanation.findings, explanation.late_steps)
}

fn source<'a>(findings: &'a Findings, name: &str) -> &'a SourceFinding {
    let found = findings.sources.iter().find(|s| s.name == name);
    found.unwrap_or_else(|| panic!("{name} is not among {:?}", findings.sources))
}

fn strike(iteration: usize, rank: usize, point: Point, length: u64, by: u32) -> Strike {
    Strike {
        iteration,
        rank,
        point,
        length,
        by,
    }
}

fn check(ranks: usize, coupling: Coupling, point: Point) {
    // Every tenth iteration one rank is struck, in turn; lengths differ by task.
    let strikes: Vec<Strike> = (1..40)
        .map(|i| {
            let by = i as u32 % 3;
            let length = 50_000 + 10_000 * u64::from(by);
            strike(i * 10, i % ranks, point, length, by)
        })
        .collect();
    let (findings, late) = explained(ranks, 450, coupling, &strikes);
    assert_eq!(
        late.len(),
        strikes.len(),
        "every strike makes one step late"
    );
    for (row, strike) in late.rows().zip(&strikes) {
        assert_eq!(row.rank.index(), strike.rank, "{row:?}");
    }
    assert_eq!(findings.named, findings.lateness, "{:?}", findings.sources);
    for late in &findings.latest {
        drawn(late);
    }
    for (by, name) in NAMES.iter().enumerate() {
        let mine = strikes.iter().filter(|s| s.by == by as u32);
        let (n, sum) = mine.fold((0, 0), |(n, sum), s| (n + 1, sum + s.length));
        let found = source(&findings, name);
        assert_eq!(found.kind, SourceKind::Task);
        assert_eq!((found.events, found.late_steps), (Some(n), n));
        assert_eq!(found.stolen.get(), sum);
        // Only what hides behind the flight of messages that are awaited anyway may be missing.
        let hidden = if point == Point::Waiting { LATENCY } else { 0 };
        assert_eq!(found.lateness.get() + n * hidden, sum, "{name}");
    }
}

/// Checks that all charges of a step lie within it, except what is hidden behind the flight of
/// messages.
fn drawn(late: &LateFinding) {
    for part in &late.parts {
        let mine = late.charged.iter().filter(|c| c.source == part.source);
        let sum: u64 = mine.map(|c| c.end_ns - c.begin_ns).sum();
        let hidden = sum.checked_sub(part.time.get());
        assert!(hidden.is_some_and(|h| h <= LATENCY), "{late:?}");
    }
    let inside = |c: &ChargedFinding| {
        c.rank == late.last_rank && late.begin_ns <= c.begin_ns && c.end_ns <= late.end_ns
    };
    assert!(late.charged.iter().all(inside), "{late:?}");
}

#[test]
fn a_gap_without_a_record_is_charged_where_it_was() {
    let strikes: Vec<Strike> = (1..20)
        .map(|i| strike(i * 10, i % 2, Point::Computing, 70_000, GAP))
        .collect();
    let (findings, _) = explained(2, 250, Coupling::Barrier, &strikes);
    assert_eq!(findings.latest.len(), strikes.len());
    for late in &findings.latest {
        drawn(late);
        let [gap] = &late.charged[..] else {
            panic!("{late:?}");
        };
        let kind = findings.sources[gap.source as usize].kind;
        assert_eq!(
            (kind, gap.end_ns - gap.begin_ns),
            (SourceKind::Hypervisor, 70_000)
        );
    }
}

#[test]
fn an_interval_that_reaches_from_nothing_to_more_than_double_says_nothing() {
    let of = |value: f64, half: f64| {
        Estimate {
            value,
            low: value - half,
            high: value + half,
            n: 40,
            method: String::new(),
        }
        .not_known_slowdown()
    };
    assert_eq!(
        of(165.08, 271.41).as_deref(),
        Some("not known: 40 steps, too noisy")
    );
    assert!(of(0.9, 0.95).is_some());
    // Wide, and yet it excludes something: no slow-down at all, or a large one.
    assert_eq!(
        (of(5.0, 4.9), of(0.01, 0.02), of(0.0, 0.0)),
        (None, None, None)
    );
    // One gap of a second in 100 steps of 20 microseconds.
    let (findings, _) = explained(
        2,
        100,
        Coupling::Barrier,
        &[strike(50, 1, Point::Computing, 1_000_000_000, GAP)],
    );
    let run = &findings.lockstep[0];
    assert_eq!(
        run.slowdown_not_known.as_deref(),
        Some("not known: 100 steps, too noisy")
    );
    assert!(run.slowdown.low >= 0.0, "{:?}", run.slowdown);
}

#[test]
fn who_interrupts_the_computation_is_charged_with_all_of_it() {
    for ranks in [2, 3, 8] {
        check(ranks, Coupling::Neighbours, Point::Computing);
        check(ranks, Coupling::Barrier, Point::Computing);
    }
}

#[test]
fn who_holds_back_a_message_is_charged_though_its_sender_had_arrived() {
    for ranks in [2, 3, 8] {
        check(ranks, Coupling::Neighbours, Point::Sending);
        check(ranks, Coupling::Barrier, Point::Sending);
    }
}

#[test]
fn who_keeps_a_rank_beyond_its_wait_is_charged() {
    for ranks in [2, 3, 8] {
        check(ranks, Coupling::Neighbours, Point::Waiting);
        check(ranks, Coupling::Barrier, Point::Waiting);
    }
}

#[test]
fn of_two_ranks_struck_in_the_same_step_the_longer_strike_is_charged() {
    let strikes: Vec<Strike> = (1..20)
        .flat_map(|i| {
            [
                strike(i * 10, 0, Point::Computing, 80_000, 0),
                strike(i * 10, 1, Point::Computing, 30_000, 1),
            ]
        })
        .collect();
    let (findings, _) = explained(2, 250, Coupling::Barrier, &strikes);
    assert_eq!(source(&findings, "alpha").lateness.get(), 19 * 80_000);
    let beta = source(&findings, "beta");
    assert_eq!((beta.lateness.get(), beta.stolen.get()), (0, 19 * 30_000));
    assert_eq!(
        beta.absorbed,
        Some(1.0),
        "all of it was hidden behind alpha's"
    );
}

#[test]
fn nobody_on_a_traced_node_is_charged_for_what_delays_a_rank_on_one_that_was_not() {
    let (mut on_first, mut seen, mut unseen) = ((0, 0), 0, 0);
    let strikes: Vec<Strike> = (1..40)
        .map(|i| {
            let (rank, by) = (i % 2, i as u32 / 2 % 2);
            let length = 50_000 + 10_000 * u64::from(by);
            match (rank, by) {
                (0, 0) => on_first = (on_first.0 + 1, on_first.1 + length),
                (0, _) => {}
                (_, 0) => seen += length,
                _ => unseen += length,
            }
            strike(i * 10, rank, Point::Computing, length, by)
        })
        .collect();
    let (findings, late) = explained_on(2, 1, 450, Coupling::Barrier, &strikes);
    assert_eq!(late.len(), strikes.len());
    let alpha = source(&findings, "alpha");
    assert_eq!((alpha.late_steps, alpha.lateness.get()), on_first);
    let gap = source(&findings, "gap (the kernel's view was not recorded)");
    assert_eq!(
        (gap.kind, gap.lateness.get()),
        (SourceKind::Unexplained, seen)
    );
    let none = source(&findings, "not traced (a node without kernel's view)");
    assert_eq!(
        (none.kind, none.lateness.get()),
        (SourceKind::Unexplained, unseen)
    );
    // What was taken there is not known, which is not the same as nothing.
    assert_eq!(none.events, None);
    assert_eq!(findings.trace.unavailable[0].why, "not traced");
    // The noise on which predictions are based was seen on the first node only.
    let noise = findings.profile.sources.iter().find(|s| s.name == "alpha");
    let noise = noise.expect("alpha struck");
    assert_eq!(noise.events, on_first.0);
    let watched = noise.watched.get();
    assert!((450 * WORK..2 * 450 * WORK).contains(&watched), "{watched}");
    let only_first = |s: &idlewave_run::NoiseSource| s.kind == SourceKind::Task;
    assert!(findings.profile.sources.iter().all(only_first));
}

#[test]
fn what_is_late_by_less_than_the_clocks_are_apart_is_not_late() {
    let strikes = |length| -> Vec<Strike> {
        (1..40)
            .map(|i| strike(i * 10, 0, Point::Computing, length, 0))
            .collect()
    };
    let late = |traced, length| {
        let (findings, late) = explained_on(2, traced, 450, Coupling::Barrier, &strikes(length));
        let from = findings.lockstep[0].late_from.get();
        assert_eq!(from >= CLOCK_ERROR, traced < 2, "{from}");
        let coarse = |l: &idlewave_run::Loss| l.what.contains("clocks may be off");
        assert_eq!(findings.losses.entries().iter().any(coarse), traced < 2);
        late.len()
    };
    assert_eq!((late(2, 10_000), late(1, 10_000)), (39, 0));
    assert_eq!(late(1, 20_000), 39);
}

#[test]
fn an_undisturbed_run_has_no_late_step() {
    let (findings, late) = explained(3, 200, Coupling::Neighbours, &[]);
    assert!(late.is_empty());
    assert_eq!(findings.lateness, Nanos::ZERO);
    // The first step of a run has nothing to wait for, so it is shorter than the others.
    let (step, steps) = ((WORK + SEND + LATENCY) as f64, 200.0);
    let shorter = (SEND + LATENCY) as f64 / (step * steps);
    let slowdown = findings.lockstep[0].slowdown.value;
    assert!((slowdown + shorter).abs() < 1e-12, "{slowdown}");
}

#[test]
fn messages_that_are_slow_for_a_while_are_no_slow_cpu() {
    const SLOWER: u64 = 1_500;
    const SLOW: std::ops::Range<usize> = 1_000..1_600;
    let slow = SLOW.flat_map(|iteration| {
        (0..2).map(move |rank| Strike {
            iteration,
            rank,
            point: Point::Underway,
            length: SLOWER,
            by: 0,
        })
    });
    let slow: Vec<Strike> = slow.collect();
    for coupling in [Coupling::Neighbours, Coupling::Barrier] {
        let (findings, _) = explained(2, 3_000, coupling, &slow);
        let charged = |kind| {
            let of_kind = findings.sources.iter().filter(|s| s.kind == kind);
            of_kind.map(|s| s.lateness.get()).sum::<u64>()
        };
        let all = SLOWER * SLOW.len() as u64;
        assert_eq!(
            findings.lockstep[0].slow_messages,
            Some(Nanos::from_nanos(all))
        );
        assert_eq!(charged(SourceKind::SharedMemory), all);
        assert_eq!(findings.lateness.get(), all);
    }
}
