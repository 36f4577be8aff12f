//! A synthetic calibration: a link of 12 MB/s that all pairs share.

use crate::calibration::{
    AllToAllPoint, CalibratedParameter, CalibrationSheet, ParameterUnit, PingPongPoint,
    SlowDownPoint, StreamPoint, TypicalMisfit,
};
use idlewave_run::findings::Estimate;

fn estimate(value: f64) -> Estimate {
    Estimate {
        value,
        low: 0.97 * value,
        high: 1.03 * value,
        n: 9,
        method: "median over rounds, 95 %".to_owned(),
    }
}

/// Up to `ranks` pairs, with lengths from 1 KiB to 1 MiB.
pub fn calibration_sheet(ranks: u32) -> CalibrationSheet {
    let mut streams = Vec::new();
    for (way, full) in [("inside a node", 5e9), ("between nodes", 12e6)] {
        for both_ways in [false, true] {
            for pairs in 1..=ranks {
                for bytes in [1 << 10, 64 << 10, 1 << 20] {
                    let model = full / f64::from(pairs);
                    let alone = 1.0 + 4_096.0 / bytes as f64;
                    let measured = if bytes < 1 << 20 {
                        model / alone
                    } else {
                        model
                    };
                    streams.push(StreamPoint {
                        way: way.to_owned(),
                        pairs,
                        both_ways,
                        bytes,
                        per_pair: estimate(measured),
                        model_per_pair: Some(model),
                    });
                }
            }
        }
    }
    let all_to_all = (1..=ranks).flat_map(|k| {
        [64 << 10, 1 << 20].map(|bytes| {
            let time = 1e9 * f64::from(k * k) * bytes as f64 / 12e6;
            AllToAllPoint {
                nodes: 2,
                per_node: k,
                bytes,
                time_ns: estimate(1.1 * time),
                model_ns: Some(time),
            }
        })
    });
    let ping_pongs = std::iter::once(0)
        .chain((3..=22).map(|p| 1 << p))
        .map(|bytes| {
            let time = 20_000.0 + 1e9 * bytes as f64 / 12e6;
            PingPongPoint {
                way: "between nodes".to_owned(),
                bytes,
                time_ns: estimate(time),
                model_ns: Some(1.05 * time),
            }
        });
    let slow_down = (1..=ranks).map(|ranks| SlowDownPoint {
        ranks,
        time_ns: estimate(5e6 * (1.0 + 0.2 * f64::from(ranks - 1))),
        shared_cpus: ranks > 2,
    });
    CalibrationSheet {
        what: format!("between one and two, {ranks} ranks on each"),
        details: vec!["9 rounds in 60 s".to_owned()],
        notes: Vec::new(),
        warnings: vec!["2 ranks shared 1 CPU".to_owned()],
        command: ["idlewave", "place", "calibrate"]
            .map(str::to_owned)
            .to_vec(),
        idlewave: "0.1.0".to_owned(),
        seed: 1,
        misfit: Some(TypicalMisfit {
            of: "between nodes".to_owned(),
            value: 0.08,
        }),
        parameters: vec![CalibratedParameter {
            name: "adapter.out".to_owned(),
            unit: ParameterUnit::BytesPerSecond,
            value: estimate(12e6),
            assumed: false,
        }],
        ping_pongs: ping_pongs.collect(),
        streams,
        all_to_all: all_to_all.collect(),
        slow_down: slow_down.collect(),
    }
}
