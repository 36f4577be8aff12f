//! The manifest of a run from a Paraver trace.

use crate::import::app::NodeFacts;
use crate::import::paraver::header::Header;
use crate::import::paraver::names::Names;
use idlewave_run::{ClockSheet, Manifest, Phase, PhaseKind, TraceMode, Unavailable};
use idlewave_units::{Cpu, CpuSet, Nanos, NodeId};

/// Enters what the first lines and the labels say.
pub(super) fn describe(
    manifest: &mut Manifest,
    header: &Header,
    names: &Names,
    cpus: &[(NodeId, Cpu)],
) {
    let mut online = vec![CpuSet::default(); header.cpus.len()];
    for &(node, cpu) in cpus {
        online[node.index()].insert(cpu);
    }
    let node = |at: usize| {
        NodeFacts {
            node: NodeId::new(at as u32),
            host: names
                .nodes
                .get(at)
                .cloned()
                .unwrap_or_else(|| format!("node {at}")),
            cpus: online.get(at).cloned().unwrap_or_default(),
            traced_cpus: header.cpus.get(at).copied().unwrap_or(0),
            clock: ClockSheet::PARAVER,
            counts_per_second: 1e9 / header.unit as f64,
            method: "times of the trace, from its start".to_owned(),
            wall: Nanos::from_nanos(header.end_ns()),
            mode: TraceMode::Tracefs,
            unavailable: vec![Unavailable {
                what: "wake-ups, kinds of threads and settings of the machine".to_owned(),
                why: "a Paraver trace holds none".to_owned(),
                allow: Some("idlewave record -- mpirun ./program".to_owned()),
            }],
        }
        .sheet()
    };
    manifest.nodes = (0..header.cpus.len().max(1)).map(node).collect();
    manifest.phases = vec![Phase {
        kind: PhaseKind::Recorded {
            library: None,
            exit_code: None,
        },
        begin_ns: 0,
        end_ns: header.end_ns(),
    }];
    if !header.date.is_empty() {
        manifest.started = started(&header.date);
    }
}

/// `31/01/2026 at 12:00` as `2026-01-31T12:00:00Z`; anything else as it is.
fn started(date: &str) -> String {
    let numbers: Vec<&str> = date
        .split(|c: char| !c.is_ascii_digit())
        .filter(|n| !n.is_empty())
        .collect();
    match numbers.as_slice() {
        [day, month, year, hour, minute] if year.len() == 4 => {
            format!("{year}-{month:0>2}-{day:0>2}T{hour:0>2}:{minute:0>2}:00Z")
        }
        _ => date.to_owned(),
    }
}
