//! The service's metrics in Prometheus' text format, version 0.0.4.

use crate::control::{GangStatus, Status};
use idlewave_units::Nanos;
use idlewave_units::foreign::one_line;
use std::fmt::Write as _;

/// The metrics of a service.
pub fn metrics(status: &Status) -> String {
    let mut text = String::new();
    let mut one = |name: &str, kind: &str, help: &str, lines: Vec<(String, f64)>| {
        let _ = writeln!(
            text,
            "# HELP idlewave_gang_{name} {help}\n# TYPE idlewave_gang_{name} {kind}"
        );
        for (labels, value) in lines {
            let _ = writeln!(text, "idlewave_gang_{name}{labels} {value}");
        }
    };
    let plain = |value: f64| vec![(String::new(), value)];
    let seconds = |time: Nanos| time.as_f64() / 1e9;
    let s = &status.switches;
    one(
        "switches_total",
        "counter",
        "Switches carried out.",
        plain(s.switched as f64),
    );
    let aborted = s
        .aborted
        .iter()
        .map(|(why, n)| (format!("{{reason=\"{}\"}}", label(why)), *n as f64));
    one(
        "aborts_total",
        "counter",
        "Switches aborted, by reason.",
        aborted.collect(),
    );
    one(
        "missing_total",
        "counter",
        "Nodes that did not acknowledge a switch.",
        plain(s.missing as f64),
    );
    one(
        "slice_seconds",
        "gauge",
        "Length of a turn.",
        plain(seconds(status.slice)),
    );
    let nodes = status.nodes.iter().filter(|node| node.coordinated).count();
    one(
        "nodes",
        "gauge",
        "Nodes that take part in switches.",
        plain(nodes as f64),
    );
    let forged = status.nodes.iter().map(|node| {
        let label = format!("{{node=\"{}\"}}", node.node);
        (label, node.forged as f64)
    });
    one(
        "forged_frames_total",
        "counter",
        "Frames of network contexts that a node dropped because they were not made with their key.",
        forged.collect(),
    );
    one(
        "rows",
        "gauge",
        "Rows of the matrix.",
        plain(status.rows.len() as f64),
    );
    let of = |f: fn(&GangStatus) -> f64| {
        let gangs = status.gangs.iter();
        gangs
            .map(|g| {
                (
                    format!("{{gang=\"{}\",command=\"{}\"}}", g.gang, label(&g.name)),
                    f(g),
                )
            })
            .collect()
    };
    one(
        "turns_seconds_total",
        "counter",
        "Time for which a gang had the CPUs.",
        of(|g| g.turns.as_f64() / 1e9),
    );
    one(
        "cpu_seconds_total",
        "counter",
        "CPU time that a gang used.",
        of(|g| g.cpu.as_f64() / 1e9),
    );
    one(
        "idle",
        "gauge",
        "Whether a gang does not use its turns.",
        of(|g| f64::from(u8::from(g.idle))),
    );
    one(
        "deadlocked",
        "gauge",
        "Whether ranks of a gang are deadlocked.",
        of(|g| f64::from(u8::from(g.is_deadlocked()))),
    );
    let phases = s.phases.iter().flat_map(|(name, q)| {
        let quantile = |of: &str, time: Nanos| {
            (
                format!("{{phase=\"{}\",quantile=\"{of}\"}}", label(name)),
                seconds(time),
            )
        };
        [
            quantile("0.5", q.median),
            quantile("0.9", q.p90),
            quantile("0.99", q.p99),
        ]
    });
    one(
        "phase_seconds",
        "gauge",
        "Quantiles of the phases of recent switches; drain and context cover gangs with network contexts.",
        phases.collect(),
    );
    let mut sum = 0;
    let mut buckets = Vec::new();
    for (upper, n) in &s.histogram {
        sum += n;
        buckets.push((format!("_bucket{{le=\"{}\"}}", seconds(*upper)), sum as f64));
    }
    buckets.push(("_bucket{le=\"+Inf\"}".to_owned(), sum as f64));
    buckets.push(("_sum".to_owned(), seconds(s.total)));
    buckets.push(("_count".to_owned(), sum as f64));
    one(
        "switch_seconds",
        "histogram",
        "Time of a switch during which not all nodes compute.",
        buckets,
    );
    text
}

/// A label's value: backslash, quote and line end escaped.
fn label(text: &str) -> String {
    let text = one_line(text);
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
