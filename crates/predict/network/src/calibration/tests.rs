//! Samples generated from known parameters give these back.

use super::*;
use crate::{NetworkError, Origin};
use idlewave_stats::random::SplitMix;

/// True parameters of a network: seconds and bytes per second.
#[derive(Clone, Copy)]
struct Truth {
    overhead: f64,
    latency: f64,
    flow: f64,
    adapter: f64,
    both: f64,
    memory: f64,
}

const TRUTH: Truth = Truth {
    overhead: 1e-6,
    latency: 20e-6,
    flow: 40e6,
    adapter: 100e6,
    both: 200e6,
    memory: 10e9,
};
/// Inside a node.
const INSIDE: (f64, f64) = (0.4e-6, 4e9);
const RANKS: u32 = 4;

fn all_to_all(t: Truth, k: f64, bytes: f64) -> f64 {
    // Two nodes: k k messages leave each node and as many arrive.
    let rank = (k * bytes / t.flow).max(k * k * bytes / t.adapter.min(t.both / 2.0));
    let memory = ((k - 1.0) * bytes / INSIDE.1).max(k * (k - 1.0) * bytes / (t.memory / 2.0));
    t.latency + 2.0 * t.overhead * (2.0 * k - 1.0) + rank.max(memory)
}

/// An ideal machine's measurements, times noise with this standard deviation.
fn samples(t: Truth, deviation: f64, repetitions: usize) -> CalibrationSamples {
    let mut random = SplitMix::new(7);
    let mut points = Vec::new();
    let mut put = |probe: Probe, time: f64| {
        let mut seconds = || {
            // A sum of twelve uniform numbers is close enough to normal.
            let sum: f64 = (0..12).map(|_| random.uniform()).sum();
            time * (1.0 + deviation * (sum - 6.0))
        };
        let seconds: Vec<f64> = (0..repetitions).map(|_| seconds()).collect();
        points.push(SamplePoint {
            probe,
            fastest_seconds: seconds.clone(),
            seconds,
        });
    };
    let lengths: Vec<u64> = std::iter::once(0).chain((3..=22).map(|p| 1 << p)).collect();
    for (way, latency, flow, full, both) in [
        (Distance::Inside, INSIDE.0, INSIDE.1, t.memory, t.memory),
        (Distance::Outside, t.latency, t.flow, t.adapter, t.both),
    ] {
        let empty = latency + 2.0 * t.overhead;
        for &bytes in &lengths {
            let rounds = 10;
            let probe = Probe::PingPong { way, bytes, rounds };
            put(probe, empty + bytes as f64 / flow);
        }
        for pairs in 1..=RANKS {
            let k = f64::from(pairs);
            for (both_ways, bytes) in [
                (false, 8),
                (false, 1 << 16),
                (false, 1 << 20),
                (true, 1 << 16),
                (true, 1 << 20),
            ] {
                let messages = 100;
                let share = match both_ways {
                    true => (full / k).min(both / (2.0 * k)),
                    false => full / k,
                };
                let wire = bytes as f64 / flow.min(share);
                let probe = Probe::Stream {
                    way,
                    pairs,
                    both_ways,
                    bytes,
                    messages,
                };
                let (ends, busy) = match both_ways {
                    true => (empty, 2.0 * t.overhead),
                    false => (2.0 * empty, t.overhead),
                };
                put(probe, ends + 100.0 * wire.max(busy));
            }
        }
    }
    for per_node in 1..=RANKS {
        for bytes in [1 << 16, 1 << 20] {
            let probe = Probe::AllToAll {
                nodes: 2,
                per_node,
                bytes,
                calls: 1,
            };
            put(probe, all_to_all(t, f64::from(per_node), bytes as f64));
        }
    }
    for (ranks, factor) in [(1, 1.0), (2, 1.25), (3, 1.75), (4, 2.5)] {
        let probe = Probe::Memory {
            ranks,
            bytes: 24 << 20,
            passes: 3,
        };
        put(probe, 5e-3 * factor);
    }
    CalibrationSamples {
        idlewave: "0".to_owned(),
        fabric: "none".to_owned(),
        nodes: vec!["a".to_owned(), "b".to_owned()],
        ranks_per_node: RANKS,
        // Inside a node, a pair takes two ranks.
        cpus_per_node: 2 * RANKS,
        budget_seconds: 60.0,
        seconds: 60.0,
        interrupted: false,
        points,
        notes: Vec::new(),
    }
}

#[track_caller]
fn near(found: f64, expected: f64, within: f64) {
    assert!(
        (found / expected - 1.0).abs() <= within,
        "{found} is not {expected}"
    );
}

fn check(t: Truth, found: &Calibration, within: f64) {
    let p = &found.parameters;
    p.check().unwrap();
    near(p.outside.latency_ns.value, t.latency * 1e9, within);
    near(p.outside.bandwidth.value, t.flow, within);
    near(p.inside.bandwidth.value, INSIDE.1, within);
    near(p.overhead_ns.value, t.overhead * 1e9, 2.0 * within);
    near(p.adapter.out.value, t.adapter, within);
    near(p.adapter.into.value, t.adapter, within);
    near(p.memory.value, t.memory, within);
    let factors: Vec<f64> = p.slow_down.iter().map(|s| s.factor.value).collect();
    for (found, expected) in factors.iter().zip([1.25, 1.75, 2.5]) {
        near(*found, expected, within);
    }
    assert_eq!(factors.len(), 3);
    assert_eq!(p.adapter.out.origin, Origin::Measured);
    assert_eq!(p.hop_ns.origin, Origin::Assumed);
}

/// The largest misfit of all kinds.
fn off(found: &Calibration) -> f64 {
    let misfit = found.parameters.misfit;
    misfit.short.max(misfit.inside).max(misfit.outside)
}

#[test]
fn exact_samples_give_their_parameters_back() {
    let found = fit(&samples(TRUTH, 0.0, 3), 1).unwrap();
    check(TRUTH, &found, 1e-3);
    near(found.parameters.outside.bandwidth.value, 40e6, 1e-3);
    near(found.parameters.adapter.out.value, 100e6, 1e-3);
    near(found.stream_outside.unwrap().value, 40e6, 1e-3);
    assert_eq!(found.parameters.adapter.both, None);
    near(found.both_over_one.unwrap().value, 2.0, 1e-3);
    assert!(off(&found) < 0.03, "{found:?}");
    assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
    assert!(found.warnings[0].contains("3 repetitions"));
}

#[test]
fn noisy_samples_give_them_back_within_their_intervals() {
    let found = fit(&samples(TRUTH, 0.05, 9), 1).unwrap();
    check(TRUTH, &found, 0.1);
    for (quantity, truth) in [
        (found.parameters.outside.bandwidth, TRUTH.flow),
        (found.parameters.adapter.out, TRUTH.adapter),
        (found.parameters.inside.bandwidth, INSIDE.1),
    ] {
        near(quantity.value, truth, 0.05);
        // Twice the stated width: a few intervals may miss.
        let half = quantity.high - quantity.low;
        assert!(half > 0.0 && half < 0.2 * truth, "{quantity:?}");
        assert!((quantity.value - truth).abs() < half, "{quantity:?}");
    }
    assert!((0.01..0.1).contains(&off(&found)));
}

#[test]
fn an_adapter_slower_than_one_flow_is_found() {
    let narrow = Truth {
        adapter: 10e6,
        both: 20e6,
        ..TRUTH
    };
    let found = fit(&samples(narrow, 0.0, 5), 1).unwrap();
    near(found.parameters.adapter.out.value, 10e6, 1e-3);
    // One stream cannot show more than the adapter's bandwidth.
    near(found.stream_outside.unwrap().value, 10e6, 1e-3);
}

#[test]
fn a_long_way_is_not_taken_for_a_narrow_one() {
    let far = Truth {
        latency: 50e-3,
        ..TRUTH
    };
    let found = fit(&samples(far, 0.0, 5), 1).unwrap();
    near(found.parameters.outside.latency_ns.value, 50e6, 1e-3);
    near(found.parameters.adapter.out.value, 100e6, 1e-3);
    near(found.stream_outside.unwrap().value, 40e6, 1e-3);
}

#[test]
fn directions_that_take_from_each_other_are_found() {
    let half_duplex = Truth {
        both: 120e6,
        ..TRUTH
    };
    let found = fit(&samples(half_duplex, 0.0, 5), 1).unwrap();
    near(found.parameters.adapter.both.unwrap().value, 120e6, 1e-2);
    near(found.both_over_one.unwrap().value, 1.2, 1e-2);
    assert!(off(&found) < 0.03);
}

#[test]
fn what_the_model_cannot_explain_raises_the_misfit_and_is_named() {
    let mut broken = samples(TRUTH, 0.0, 5);
    for point in &mut broken.points {
        // Congestion above the adapter.
        if let Probe::AllToAll { per_node: 4, .. } = point.probe {
            point.seconds.iter_mut().for_each(|s| *s *= 8.0);
        }
    }
    let found = fit(&broken, 1).unwrap();
    assert!(off(&found) > 0.25, "{:?}", found.parameters);
    let worst = found.points[found.worst.unwrap()];
    assert!(matches!(worst.probe, Probe::AllToAll { per_node: 4, .. }));
    assert!(
        found.warnings.iter().any(|w| w.contains("does not explain")
            && w.contains("all-to-all")
            && w.contains("times as long")),
        "{:?}",
        found.warnings
    );
}

#[test]
fn a_change_of_protocol_is_found_as_the_eager_limit() {
    let mut changed = samples(TRUTH, 0.0, 5);
    for point in &mut changed.points {
        match point.probe {
            Probe::PingPong {
                way: Distance::Outside,
                bytes,
                ..
            } if bytes > 4096 => point.seconds.iter_mut().for_each(|s| *s += 300e-6),
            _ => {}
        }
    }
    let found = fit(&changed, 1).unwrap();
    assert_eq!(found.parameters.eager_limit, 4096);
}

#[test]
fn one_node_alone_leaves_the_network_assumed_and_says_so() {
    let mut alone = samples(TRUTH, 0.0, 5);
    alone.nodes.truncate(1);
    alone.points.retain(|p| match p.probe {
        Probe::PingPong { way, .. } | Probe::Stream { way, .. } => way == Distance::Inside,
        Probe::AllToAll { .. } => false,
        Probe::Memory { .. } => true,
    });
    let found = fit(&alone, 1).unwrap();
    found.parameters.check().unwrap();
    assert_eq!(found.parameters.adapter.out.origin, Origin::Assumed);
    near(found.parameters.inside.bandwidth.value, INSIDE.1, 1e-2);
    assert!(found.warnings[0].contains("assumed"));
}

#[test]
fn ranks_that_wait_for_cpus_tell_nothing_of_memory() {
    let mut crowded = samples(TRUTH, 0.0, 5);
    crowded.cpus_per_node = 2;
    for point in &mut crowded.points {
        // Two pairs take as long as if memory were slow, but they wait for the CPUs.
        if let Probe::Stream {
            way: Distance::Inside,
            pairs: 2..,
            ..
        } = point.probe
        {
            point.seconds.iter_mut().for_each(|s| *s *= 50.0);
        }
    }
    let found = fit(&crowded, 1).unwrap();
    let ranks: Vec<u32> = found.parameters.slow_down.iter().map(|s| s.ranks).collect();
    assert_eq!(ranks, [2]);
    near(found.stream_inside.unwrap().value, INSIDE.1, 1e-2);
    assert!(found.parameters.memory.value >= INSIDE.1 * 0.99);
    assert!(off(&found) < 0.03);
    assert!(found.warnings.iter().any(|w| w.contains("2 CPUs")));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_other_intervals() {
    let samples = samples(TRUTH, 0.05, 7);
    let of = |seed| fit(&samples, seed).unwrap().parameters.write();
    assert_eq!(of(5), of(5));
    assert_ne!(of(5), of(6));
}

#[test]
fn samples_that_cannot_be_are_refused() {
    let good = samples(TRUTH, 0.0, 3);
    let refused = |change: &dyn Fn(&mut CalibrationSamples)| {
        let mut bad = good.clone();
        change(&mut bad);
        matches!(fit(&bad, 1), Err(NetworkError::Samples(_)))
    };
    assert!(refused(&|s| s.points.clear()));
    assert!(refused(&|s| s.points[3].seconds[1] = f64::NAN));
    assert!(refused(&|s| s.points[3].seconds[1] = 0.0));
    assert!(refused(&|s| s.points[3].seconds.clear()));
    assert!(refused(&|s| {
        if let Probe::PingPong { rounds, .. } = &mut s.points[0].probe {
            *rounds = 0;
        }
    }));
}

#[test]
fn one_rank_and_one_node_are_told_as_one() {
    let mut one = samples(TRUTH, 0.0, 3);
    one.ranks_per_node = 1;
    one.points.retain(|p| match p.probe {
        Probe::PingPong { way, .. } => way == Distance::Outside,
        _ => false,
    });
    let about = |samples: &CalibrationSamples| fit(samples, 1).unwrap().parameters.about;
    assert_eq!(about(&one), "calibrated between a and b, 1 rank on each");
    let several = samples(TRUTH, 0.0, 3);
    let said = about(&several);
    assert!(
        said.ends_with(&format!(", {RANKS} ranks on each")),
        "{said}"
    );
    let probe = |ranks| Probe::Memory {
        ranks,
        bytes: 8,
        passes: 1,
    };
    assert_eq!(probe(1).words(), "streaming through memory by 1 rank");
    assert_eq!(probe(2).words(), "streaming through memory by 2 ranks");
}
