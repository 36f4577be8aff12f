//! What the manifest of an imported run says.

use idlewave_ftrace::DecodeSummary;
use idlewave_run::{
    ClockSheet, Contamination, HostSheet, Manifest, NodeSheet, Phase, PhaseKind, TraceCost,
    TraceMode, TraceSheet, Unavailable,
};
use idlewave_units::{Nanos, NodeId};

/// What is known of the machine of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) host: HostSheet,
    /// The trace clock by the kernel's name; empty if the file does not say.
    pub(crate) clock: String,
    /// The resolution of its times, in nanoseconds.
    pub(crate) resolution_ns: u64,
    /// When the recording began and ended, if that is known.
    pub(crate) span: Option<(u64, u64)>,
}

/// The trace clock that programs can read too.
const COMPARABLE: &str = "mono";

impl Machine {
    /// From `uname -a` of the recorded machine: `Linux NAME RELEASE BUILD.. ARCHITECTURE`.
    pub(crate) fn of_uname(uname: &str) -> HostSheet {
        let words: Vec<&str> = uname.split_whitespace().collect();
        let word = |n: usize| words.get(n).map(|w| (*w).to_owned()).unwrap_or_default();
        let (build, last) = match words.get(3..) {
            Some([build @ .., last]) => (build.join(" "), (*last).to_owned()),
            _ => (String::new(), String::new()),
        };
        HostSheet {
            name: word(1),
            kernel: word(2),
            kernel_build: build,
            architecture: last,
            ..HostSheet::default()
        }
    }

    fn clock_sheet(&self) -> ClockSheet {
        let (counter, method) = match self.clock.as_str() {
            "" => (
                "unknown",
                "the trace's own stamps; the file does not name its clock".to_owned(),
            ),
            clock => (
                clock,
                format!("the trace's own stamps, of its clock `{clock}`"),
            ),
        };
        ClockSheet {
            counter: counter.to_owned(),
            counts_per_second: 1e9,
            quantum_counts: self.resolution_ns,
            quantum_ns: self.resolution_ns as f64,
            read_ns: 0.0,
            error: Nanos::ZERO,
            rate_change: 0.0,
            invariant: None,
            method,
        }
    }
}

/// Completes the manifest once the tables are written. `comparable` says how to record with a clock
/// that programs can read.
pub(crate) fn complete(
    manifest: &mut Manifest,
    machine: &Machine,
    summary: &DecodeSummary,
    comparable: &str,
) {
    let (begin, end) = machine.span.or(summary.span).unwrap_or((0, 0));
    let wall = Nanos::from_nanos(end.saturating_sub(begin));
    let mut host = machine.host.clone();
    if host.online.is_empty() {
        (host.allowed, host.online) = (summary.seen.clone(), summary.seen.clone());
    }
    if host.name.is_empty() {
        host.name = "unknown host".to_owned();
    }
    if host.kernel.is_empty() {
        host.kernel = "of unknown version".to_owned();
    }
    manifest.nodes = vec![NodeSheet {
        node: NodeId::new(0),
        host,
        clock: machine.clock_sheet(),
        trace: TraceSheet {
            mode: TraceMode::Tracefs,
            unavailable: vec![Unavailable {
                what: "ranks, MPI calls and regions".to_owned(),
                why: "a kernel trace holds none".to_owned(),
                allow: Some("idlewave record -- mpirun ./program".to_owned()),
            }],
            cost: TraceCost {
                events: summary.events,
                lost: summary.missed,
                reader: Nanos::ZERO,
                event_ns: None,
                wall,
                cpus: summary.cpus,
            },
        },
        contamination: Contamination {
            wall,
            cpus: summary.cpus,
            ..Contamination::default()
        },
        alignment: None,
    }];
    manifest.phases = vec![Phase {
        kind: PhaseKind::Recorded {
            library: None,
            exit_code: None,
        },
        begin_ns: begin,
        end_ns: end,
    }];
    manifest.losses.enter(
        "a trace clock that programs can read",
        u64::from(machine.clock != COMPARABLE),
        "the times cannot be compared directly with those of a program's trace",
        comparable,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read_from_its_uname() {
        let host = Machine::of_uname("Linux n17 6.1.0-9 #1 SMP PREEMPT_DYNAMIC x86_64");
        let read = (host.name, host.kernel, host.kernel_build, host.architecture);
        let expected = ("n17", "6.1.0-9", "#1 SMP PREEMPT_DYNAMIC", "x86_64");
        assert_eq!(
            (
                read.0.as_str(),
                read.1.as_str(),
                read.2.as_str(),
                read.3.as_str()
            ),
            expected
        );
        assert_eq!(Machine::of_uname("Linux").kernel, "");
    }
}
