//! What the manifest says about a node of such a trace.

use idlewave_run::{
    ClockSheet, Contamination, HostSheet, NodeSheet, TraceCost, TraceMode, TraceSheet, Unavailable,
};
use idlewave_units::{CpuSet, Nanos, NodeId};

/// What is known of a node.
pub(in crate::import) struct NodeFacts {
    pub node: NodeId,
    pub host: String,
    /// Its CPUs that the trace names.
    pub cpus: CpuSet,
    /// CPUs whose use was traced.
    pub traced_cpus: u32,
    /// Name of the clock, for [`ClockSheet::counter`].
    pub clock: &'static str,
    pub counts_per_second: f64,
    /// How times became nanoseconds, in words.
    pub method: String,
    /// The length of the trace.
    pub wall: Nanos,
    /// Whether the trace tells which thread had which CPU.
    pub mode: TraceMode,
    pub unavailable: Vec<Unavailable>,
}

impl NodeFacts {
    pub(in crate::import) fn sheet(self) -> NodeSheet {
        let step_ns = 1e9 / self.counts_per_second;
        NodeSheet {
            node: self.node,
            host: HostSheet {
                name: self.host,
                online: self.cpus.clone(),
                allowed: self.cpus,
                kernel: "of unknown version".to_owned(),
                ..HostSheet::default()
            },
            clock: ClockSheet {
                counter: self.clock.to_owned(),
                counts_per_second: self.counts_per_second,
                quantum_counts: 1,
                quantum_ns: step_ns,
                read_ns: 0.0,
                error: Nanos::from_nanos(step_ns.ceil() as u64),
                rate_change: 0.0,
                invariant: None,
                method: self.method,
            },
            trace: TraceSheet {
                mode: self.mode,
                unavailable: self.unavailable,
                cost: TraceCost {
                    cpus: self.traced_cpus,
                    wall: self.wall,
                    ..TraceCost::default()
                },
            },
            contamination: Contamination::default(),
            alignment: None,
        }
    }
}
