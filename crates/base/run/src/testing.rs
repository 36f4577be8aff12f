//! A manifest and findings for tests of this crate and others.

use crate::findings::{Estimate, LockstepFindings};
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
            contamination: Contamination {
                wall: Nanos::from_secs(10),
                ..Contamination::default()
            },
            alignment: None,
        }],
        conditions: Default::default(),
        phases: Vec::new(),
        ranks: Vec::new(),
        losses: Ledger::default(),
        tables: Vec::new(),
    }
}

/// Findings about the first phase, a barrier of two ranks: ten undisturbed steps of 1 us of
/// computation and 50 ns of communication.
pub fn quiet_lockstep() -> LockstepFindings {
    LockstepFindings {
        phase: 0,
        name: "barrier".to_owned(),
        ranks: 2,
        iterations: 10,
        compute: vec![Nanos::from_nanos(1_000); 2],
        step: Nanos::from_nanos(1_050),
        total: Nanos::from_nanos(10_500),
        slowdown: Estimate {
            value: 0.0,
            low: 0.0,
            high: 0.0,
            n: 10,
            method: "test".to_owned(),
        },
        slowdown_not_known: None,
        late_steps: 0,
        lateness: Nanos::ZERO,
        small_variation_ns: 0,
        slow_messages: Some(Nanos::ZERO),
        by_rate: None,
        late_from: Nanos::from_nanos(1_000),
        last_counts: vec![5, 5],
        slow_ranks: Vec::new(),
        last_run_length: 1.0,
        histogram: Vec::new(),
    }
}
