//! A synthetic simulation, with plausible numbers that are easy to recognise.

use crate::simulation::{PathSource, SimulatedPath, SimulationPoint, SimulationSheet, SourceCost};
use idlewave_run::SourceKind;
use idlewave_run::findings::Estimate;

fn estimate(value: f64, width: f64) -> Estimate {
    Estimate {
        value,
        low: value - width,
        high: value + width,
        n: 16,
        method: "mean over replications, 95 %".to_owned(),
    }
}

/// Three layouts with `ranks` times `granularities` points each, shares and amplification: noise of
/// 0.2 % costs more with more ranks and with less computation per step.
pub fn simulation_sheet(ranks: u32, granularities: u32) -> SimulationSheet {
    let mut points = Vec::new();
    for (layout, strength) in [("1D", 0.3), ("2D", 0.6), ("barrier", 1.0)] {
        for g in 0..granularities {
            for r in 0..ranks {
                let many = 100 * 4_u64.pow(r);
                let granularity_ns = 10_000 * 10_u64.pow(g);
                let slow =
                    strength * (many as f64).ln() * 0.002 * (1e7 / granularity_ns as f64).sqrt();
                points.push(SimulationPoint {
                    layout: layout.to_owned(),
                    ranks: many,
                    granularity_ns,
                    quiet_step_ns: granularity_ns as f64 + 2_500.0,
                    slowdown: estimate(slow, slow / 20.0),
                    amplification: Some(estimate(slow / 0.002, slow / 0.04)),
                    without: Vec::new(),
                    precise: r + 1 < ranks,
                    still_rises: r + 1 == ranks && layout == "1D",
                });
            }
        }
    }
    let last = points.len().saturating_sub(1);
    if let Some(point) = points.last_mut() {
        let cost = |name: &str, share: f64| SourceCost {
            name: name.to_owned(),
            left: estimate(point.slowdown.value * (1.0 - share), 0.001),
            saved: estimate(point.slowdown.value * share, 0.001),
        };
        point.without = vec![cost("kworker (kernel thread)", 0.6), cost("irq:*", 0.25)];
    }
    let source = |kind, name: &str, share| PathSource {
        kind,
        name: name.to_owned(),
        share: estimate(share, 0.004),
    };
    SimulationSheet {
        what: "a stencil & a barrier on <made> noise".to_owned(),
        details: vec![
            "messages of 1 KiB; latency 2.5 us".to_owned(),
            "noise: timer tick, kworker, eth0".to_owned(),
        ],
        command: [
            "idlewave",
            "simulate",
            "stencil",
            "--noise",
            "my noise.toml",
        ]
        .map(str::to_owned)
        .to_vec(),
        idlewave: "0.0.0-test".to_owned(),
        seed: 42,
        path: (!points.is_empty()).then(|| SimulatedPath {
            point: last,
            work: estimate(0.81, 0.01),
            communication: estimate(0.07, 0.002),
            noise: vec![
                source(Some(SourceKind::KernelThread), "kworker", 0.08),
                source(Some(SourceKind::Irq), "eth0", 0.03),
                source(None, "one-off delay", 0.01),
            ],
        }),
        points,
    }
}
