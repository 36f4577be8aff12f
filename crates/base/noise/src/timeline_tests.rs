//! Timelines against hand-computed cases, a plain model on a grid of nanoseconds, and the laws of
//! their processes.

use super::*;
use crate::model::{Arrivals, Clock, Lengths, NoiseModel, Scope, Source, Together};
use proptest::prelude::*;

fn source(arrivals: Arrivals, length: Option<Lengths>) -> Source {
    Source::task("x", arrivals, length)
}

fn periodic(period_ns: u64, phase_ns: u64, ns: u64) -> Source {
    let arrivals = Arrivals::Periodic {
        period_ns,
        jitter_ns: 0,
        phase_ns: Some(phase_ns),
    };
    source(arrivals, Some(Lengths::Fixed { ns }))
}

fn noise(sources: Vec<Source>) -> Noise {
    let model = NoiseModel {
        sources,
        ..NoiseModel::default()
    };
    Noise::new(&model, 1, 0, |_| true).unwrap()
}

fn charged(
    noise: &Noise,
    timeline: &mut Timeline,
    start: u64,
    work: u64,
) -> (u64, Vec<(u32, u64)>) {
    let mut charges = Vec::new();
    let end = timeline.end(noise, start, work, |c| charges.push((c.source, c.ns)));
    let sum: u64 = charges.iter().map(|c| c.1).sum();
    assert_eq!(end - start - work, sum, "the parts add up");
    (end, charges)
}

#[test]
fn work_ends_later_by_what_strikes_it_and_waits_absorb() {
    // At 0, 100, 200 ... for 10 ns each.
    let noise = noise(vec![periodic(100, 0, 10)]);
    let mut t = Timeline::new(&noise, noise.place(0));
    // The event at 0 is being served, the next one is at 100: 10 + 90 just fits.
    assert_eq!(charged(&noise, &mut t, 0, 90), (100, vec![(0, 10)]));
    // From 105, within the event of 100..110.
    assert_eq!(charged(&noise, &mut t, 105, 20), (130, vec![(0, 5)]));
    // Three events pass while the rank waits.
    assert_eq!(charged(&noise, &mut t, 450, 50), (500, vec![]));
    assert_eq!(
        charged(&noise, &mut t, 500, 181),
        (711, vec![(0, 10), (0, 10), (0, 10)])
    );
    assert_eq!(charged(&noise, &mut t, 720, 0), (720, vec![]));
}

#[test]
fn an_event_that_begins_during_another_follows_it() {
    let noise = noise(vec![periodic(1_000, 10, 50), periodic(1_000, 30, 50)]);
    let mut t = Timeline::new(&noise, noise.place(0));
    // 10..60, then 60..110, although the second event started at 30.
    assert_eq!(
        charged(&noise, &mut t, 0, 20),
        (120, vec![(0, 50), (1, 50)])
    );
    // The first is over before the start; the last 30 ns of the second are not.
    let mut t = Timeline::new(&noise, noise.place(0));
    assert_eq!(charged(&noise, &mut t, 80, 20), (130, vec![(1, 30)]));
}

#[test]
fn slower_levels_stretch_work_and_stand_stills_lie_within() {
    let mut slow = periodic(1_000, 100, 200);
    slow.keeps = 0.5;
    let noise = noise(vec![slow, periodic(1_000, 150, 20)]);
    let mut t = Timeline::new(&noise, noise.place(0));
    // 100 at full speed, 50 at half (25), 20 stopped, 130 at half (65): 190 at 300.
    assert_eq!(
        charged(&noise, &mut t, 0, 190),
        (300, vec![(1, 20), (0, 90)])
    );
    assert_eq!(charged(&noise, &mut t, 300, 100), (400, vec![]));
    // From 1,100 at half speed: an odd amount ends on the next whole nanosecond.
    assert_eq!(charged(&noise, &mut t, 1_100, 3), (1_106, vec![(0, 3)]));
    let mut third = periodic(1_000, 0, 500);
    third.keeps = 1.0 / 3.0;
    let noise = super::tests::noise(vec![third]);
    let mut t = Timeline::new(&noise, noise.place(0));
    // 341/1,024 of full speed: 7 ns of work take 21.02.
    assert_eq!(charged(&noise, &mut t, 0, 7).0, 22);
}

#[test]
fn no_noise_is_the_identity() {
    let noise = noise(vec![]);
    let mut t = Timeline::new(&noise, noise.place(3));
    assert_eq!(charged(&noise, &mut t, 17, 1_000), (1_017, vec![]));
    assert_eq!(t.quiet_until(), u64::MAX);
    assert_eq!(t.end(&noise, u64::MAX - 3, 10, |_| {}), u64::MAX);
}

/// Start and length of an event, and the speed that it leaves, in units of 1/1,024.
type OneEvent = (u64, u64, u64);

/// The same computed nanosecond by nanosecond: is an event served, and how fast does the rank run?
fn on_a_grid(all: &[OneEvent], start: u64, work: u64) -> u64 {
    let mut served = vec![false; 20_000];
    let mut speed = vec![1_024_u64; 20_000];
    let mut stops: Vec<&OneEvent> = all.iter().filter(|e| e.2 == 0).collect();
    stops.sort_by_key(|e| e.0);
    let mut free = 0;
    for (begin, length, _) in stops {
        let begin = free.max(*begin);
        free = begin + length;
        served[begin as usize..free as usize].fill(true);
    }
    for &(begin, length, keeps) in all.iter().filter(|e| e.2 > 0) {
        for s in &mut speed[begin as usize..(begin + length) as usize] {
            *s = (*s * keeps / 1_024).max(1);
        }
    }
    let mut left = work * 1_024;
    let mut at = start;
    while left > 0 {
        if !served[at as usize] {
            left = left.saturating_sub(speed[at as usize]);
        }
        at += 1;
    }
    at
}

fn one_event() -> impl Strategy<Value = OneEvent> {
    let keeps = prop_oneof![Just(0), 100_u64..1_024];
    (0_u64..2_000, 0_u64..40, keeps)
}

#[test]
fn by_exposure_time_stands_still_while_the_rank_waits() {
    // At 0, 100, 200 ... of the time that it computes, for 10 ns each.
    let model = NoiseModel {
        clock: Clock::Work,
        sources: vec![periodic(100, 0, 10)],
        ..NoiseModel::default()
    };
    let noise = Noise::new(&model, 1, 0, |_| true).unwrap();
    assert!(noise.lone_stream().is_none());
    let mut t = Timeline::new(&noise, noise.place(0));
    assert_eq!(charged(&noise, &mut t, 0, 90), (100, vec![(0, 10)]));
    // The event at 100 of computed time, however late that is.
    assert_eq!(charged(&noise, &mut t, 5_000, 20), (5_030, vec![(0, 10)]));
    assert_eq!(charged(&noise, &mut t, 9_000, 70), (9_070, vec![]));
    assert_eq!(charged(&noise, &mut t, 9_070, 1), (9_081, vec![(0, 10)]));
    assert_eq!(t.quiet_until(), 0, "no moment of the wall clock is known");
    assert_eq!(t.end(&noise, u64::MAX - 3, 10, |_| {}), u64::MAX);
}

proptest! {
    #[test]
    fn by_exposure_waits_change_nothing(
        all in proptest::collection::vec(one_event(), 0..20),
        spans in proptest::collection::vec((0_u64..300, 0_u64..200), 1..10),
    ) {
        let sources: Vec<Source> = all.iter().map(|&(begin, length, keeps)| {
            let mut source = periodic(1 << 60, begin, length);
            source.keeps = keeps as f64 / 1_024.0;
            source
        }).collect();
        let model = |clock| NoiseModel { clock, sources: sources.clone(), ..NoiseModel::default() };
        let [wall, work] = [Clock::Wall, Clock::Work].map(|clock| Noise::new(&model(clock), 1, 0, |_| true).unwrap());
        let mut by_wall = Timeline::new(&wall, wall.place(0));
        let mut by_work = Timeline::new(&work, work.place(0));
        let (mut at, mut computed) = (0, 0);
        for (wait, ns) in spans {
            let (end, charges) = charged(&work, &mut by_work, at + wait, ns);
            let (expected, same) = charged(&wall, &mut by_wall, computed, ns);
            prop_assert_eq!((end - at - wait, charges), (expected - computed, same));
            (at, computed) = (end, expected);
        }
    }

    #[test]
    fn every_end_is_that_of_the_walk_over_single_nanoseconds(
        all in proptest::collection::vec(one_event(), 0..30),
        spans in proptest::collection::vec((0_u64..300, 0_u64..200), 1..10),
    ) {
        let sources = all.iter().map(|&(begin, length, keeps)| {
            let mut source = periodic(1 << 60, begin, length);
            source.keeps = keeps as f64 / 1_024.0;
            source
        });
        let noise = noise(sources.collect());
        let mut t = Timeline::new(&noise, noise.place(0));
        let mut at = 0;
        for (wait, work) in spans {
            let start = at + wait;
            let quiet = t.quiet_until();
            let (end, _) = charged(&noise, &mut t, start, work);
            let expected = if work == 0 { start } else { on_a_grid(&all, start, work) };
            prop_assert_eq!(end, expected);
            if start + work <= quiet {
                prop_assert_eq!(end, start + work);
            }
            at = end;
        }
    }
}

#[test]
fn poisson_sources_have_their_rates_and_lengths_and_removing_one_leaves_the_others() {
    let poisson = |rate_per_s, ns| {
        source(
            Arrivals::Poisson { rate_per_s },
            Some(Lengths::Fixed { ns }),
        )
    };
    let model = NoiseModel {
        sources: vec![poisson(30_000.0, 5), poisson(10_000.0, 70)],
        ..NoiseModel::default()
    };
    let all = Noise::new(&model, 7, 0, |_| true).unwrap();
    let seen = all.events(0, 1_000_000_000);
    let of = |source| seen.iter().filter(|e| e.source == source).count() as f64;
    assert!((of(0) - 30_000.0).abs() < 4.5 * 30_000_f64.sqrt());
    assert!((of(1) - 10_000.0).abs() < 4.5 * 10_000_f64.sqrt());
    // Exponential gaps: the variance is the square of the mean.
    let gaps: Vec<f64> = seen
        .windows(2)
        .map(|w| (w[1].begin - w[0].begin) as f64)
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((variance / mean.powi(2) - 1.0).abs() < 0.06, "{variance}");
    let without = Noise::new(&model, 7, 0, |i| i != 0).unwrap();
    let kept: Vec<Event> = seen.iter().copied().filter(|e| e.source == 1).collect();
    assert_eq!(kept, without.events(0, 1_000_000_000));
    let other = Noise::new(&model, 7, 1, |_| true).unwrap();
    assert_ne!(other.events(0, 10_000_000), all.events(0, 10_000_000));
    assert_ne!(all.events(1, 10_000_000), all.events(0, 10_000_000));
}

#[test]
fn sources_that_strike_together_or_one_of_a_node_do_so() {
    let mut one = source(
        Arrivals::Poisson { rate_per_s: 1e5 },
        Some(Lengths::Exponential { mean_ns: 80.0 }),
    );
    one.strikes = Scope::OneCpuOfNode;
    let mut node = one.clone();
    (node.strikes, node.together) = (Scope::EachCpu, Together::Node);
    let mut everywhere = node.clone();
    everywhere.together = Together::All;
    everywhere.cpus = Some(vec![1]);
    let of = |source: &Source| {
        let model = NoiseModel {
            cpus_per_node: 2,
            sources: vec![source.clone()],
            ..NoiseModel::default()
        };
        let noise = Noise::new(&model, 3, 0, |_| true).unwrap();
        [0, 1, 2, 3].map(|cpu| noise.events(cpu, 100_000_000))
    };
    // One CPU of a node: both CPUs together have the node's events, and share none.
    let [a, b, c, _] = of(&one);
    let count = (a.len() + b.len()) as f64;
    assert!((count - 10_000.0).abs() < 450.0, "{count}");
    assert!((a.len() as f64 - 5_000.0).abs() < 320.0);
    assert!(a.iter().all(|e| !b.contains(e)));
    assert_ne!(a, c);
    let [a, b, c, d] = of(&node);
    assert!(a.len() > 9_000 && a == b && c == d && a != c);
    let [a, b, c, d] = of(&everywhere);
    assert!(a.is_empty() && c.is_empty() && b.len() > 9_000 && b == d);
}

#[test]
fn events_of_a_trace_that_wanders_strike_one_cpu_or_the_other() {
    for block_ns in [None, Some(20_000)] {
        let mut wandering = periodic(1, 0, 0);
        wandering.length = None;
        wandering.arrivals = Arrivals::Trace {
            watched_ns: 100_000,
            block_ns,
            events: (0..100).map(|i| [i * 1_000, 7]).collect(),
        };
        let of = |strikes| {
            let model = NoiseModel {
                cpus_per_node: 2,
                sources: vec![Source {
                    strikes,
                    together: match strikes {
                        Scope::EachCpu => Together::Node,
                        Scope::OneCpuOfNode => Together::Alone,
                    },
                    ..wandering.clone()
                }],
                ..NoiseModel::default()
            };
            let noise = Noise::new(&model, 3, 0, |_| true).unwrap();
            [0, 1].map(|cpu| noise.events(cpu, 1_000_000))
        };
        let [all, _] = of(Scope::EachCpu);
        let [a, b] = of(Scope::OneCpuOfNode);
        assert!(a.len() > 400 && b.len() > 400, "{} {}", a.len(), b.len());
        let mut both = [a, b].concat();
        both.sort_by_key(|e| e.begin);
        assert_eq!(both, all);
    }
}

#[test]
fn blocks_of_a_trace_keep_its_rate_and_what_lies_close_together() {
    let mut s = periodic(1, 0, 0);
    s.length = None;
    // Pairs 3 ns apart, 100 of them in 100,000 ns.
    let pairs: Vec<[u64; 2]> = (0..100)
        .flat_map(|i| [[i * 1_000, 1], [i * 1_000 + 3, 2]])
        .collect();
    for block_ns in [Some(20_000), Some(250_000), None] {
        s.arrivals = Arrivals::Trace {
            watched_ns: 100_000,
            block_ns,
            events: pairs.clone(),
        };
        let noise = noise(vec![s.clone()]);
        let seen = noise.events(0, 100_000_000);
        assert!(
            (seen.len() as f64 / 200_000.0 - 1.0).abs() < 0.01,
            "{}",
            seen.len()
        );
        assert!(seen.windows(2).all(|w| w[0].begin <= w[1].begin));
        let close = seen
            .windows(2)
            .filter(|w| w[0].length == 1 && w[1].begin - w[0].begin == 3)
            .count();
        assert!(close as f64 > 0.99 * 100_000.0, "{close}");
    }
}

#[test]
fn periodic_events_are_late_by_no_more_than_their_jitter_and_phases_differ() {
    let s = source(
        Arrivals::Periodic {
            period_ns: 1_000,
            jitter_ns: 100,
            phase_ns: None,
        },
        Some(Lengths::Fixed { ns: 1 }),
    );
    let noise = noise(vec![s]);
    let mut phases = Vec::new();
    for cpu in 0..200 {
        let seen = noise.events(cpu, 1_000_000);
        let least = seen.iter().map(|e| e.begin % 1_000).min().unwrap();
        let late: Vec<u64> = (0..).zip(&seen).map(|(k, e)| e.begin - k * 1_000).collect();
        let (low, high) = (late.iter().min().unwrap(), late.iter().max().unwrap());
        assert!(high - low <= 100 && high - low > 80, "{low} {high}");
        assert!(seen.len() == 1_000 || seen.len() == 999 || least < 100);
        phases.push(*low as f64);
    }
    let mean = phases.iter().sum::<f64>() / 200.0;
    assert!(
        (mean - 500.0).abs() < 4.5 * 289.0 / 200_f64.sqrt(),
        "{mean}"
    );
}

#[test]
fn a_million_ranks_fit_into_memory() {
    assert_eq!((size_of::<Timeline>(), size_of::<Pending>()), (120, 40));
}
