//! A manifest for tests of this crate and others.

use crate::{
    ClockSheet, Contamination, HostSheet, Ledger, Manifest, NodeSheet, RunState, SchemaVersion,
    TraceCost, TraceMode, TraceSheet,
};
use idlewave_units::{Nanos, NodeId};

/// The manifest of a run that has not started: one node, no phases, no tables.
pub fn empty_manifest() -> Manifest {
    Manifest {
        schema: SchemaVersion::CURRENT,
        idlewave: "0.0.0-test".to_owned(),
        state: RunState::Recording,
        incomplete: None,
        command: vec!["idlewave".to_owned(), "study".to_owned()],
        started: "2026-01-01T00:00:00Z".to_owned(),
        seed: 1,
        simulated: None,
        nodes: vec![NodeSheet {
            node: NodeId::new(0),
            host: HostSheet {
                name: "node0".to_owned(),
                ..HostSheet::default()
            },
            clock: ClockSheet {
                counter: "clock_gettime".to_owned(),
                counts_per_second: 1e9,
                quantum_counts: 1,
                quantum_ns: 1.0,
                read_ns: 25.0,
                error: Nanos::ZERO,
                rate_change: 0.0,
                invariant: None,
                method: "test".to_owned(),
            },
            trace: TraceSheet {
                mode: TraceMode::Tracefs,
                unavailable: Vec::new(),
                cost: TraceCost::default(),
            },
            contamination: Contamination::default(),
            alignment: None,
        }],
        phases: Vec::new(),
        ranks: Vec::new(),
        losses: Ledger::default(),
        tables: Vec::new(),
    }
}
