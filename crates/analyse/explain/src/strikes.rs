//! Strikes: every occasion on which a source took time from a watched thread.

use crate::catalog::{Catalog, SourceId};
use crate::edges::Extra;
use crate::watch::{Charge, Watch};
use idlewave_run::SourceKind;
use idlewave_units::{Cpu, NodeId};

/// One interruption by one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The source.
    pub source: SourceId,
    /// Node on which it struck.
    pub node: NodeId,
    /// CPU on which it struck.
    pub cpu: Cpu,
    /// Start, nanoseconds.
    pub begin: u64,
    /// Net time taken, edges included; without what others took in between.
    pub length: u64,
    /// Whether its thread migrated here while running, so this is not a new event.
    pub continues: bool,
}

/// Whether the source runs as threads, which are switched to.
pub fn is_thread(kind: SourceKind) -> bool {
    matches!(
        kind,
        SourceKind::Task
            | SourceKind::KernelThread
            | SourceKind::Recorder
            | SourceKind::Rank
            | SourceKind::OtherTask
    )
}

/// The strikes of one watch from its charges and extras, both in order of time. A thread that was
/// interrupted in between strikes once, unless the watched thread ran in between.
pub fn strikes(
    watch: &Watch,
    charges: &[Charge],
    extras: &[Extra],
    catalog: &Catalog,
) -> Vec<Strike> {
    let mut out: Vec<Strike> = Vec::with_capacity(charges.len());
    // Thread strikes of the current absence, by index into `out`.
    let mut open: Vec<usize> = Vec::new();
    let mut until = 0;
    for charge in charges {
        if charge.begin > until {
            open.clear();
        }
        until = charge.end;
        if is_thread(catalog.kind(charge.source)) {
            if let Some(&i) = open.iter().find(|&&i| out[i].source == charge.source) {
                out[i].length += charge.length();
                continue;
            }
            open.push(out.len());
        }
        out.push(Strike {
            source: charge.source,
            node: watch.node,
            cpu: charge.cpu,
            begin: charge.begin,
            length: charge.length(),
            continues: false,
        });
    }
    let recorded = out.len();
    for extra in extras {
        if extra.alone {
            out.push(Strike {
                source: extra.source,
                node: watch.node,
                cpu: watch.cpu,
                begin: extra.begin,
                length: extra.ns,
                continues: false,
            });
        } else {
            add_edge(&mut out[..recorded], extra);
        }
    }
    out.sort_by_key(|s| (s.begin, s.source));
    out
}

/// Adds an edge to the strike that it surrounds: the first one of its source in the gap.
fn add_edge(strikes: &mut [Strike], extra: &Extra) {
    let first = strikes.partition_point(|s| s.begin + 1_000 < extra.begin);
    let found = strikes[first..]
        .iter_mut()
        .take_while(|s| s.begin <= extra.end + 1_000)
        .find(|s| s.source == extra.source);
    if let Some(strike) = found {
        strike.length += extra.ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_units::Pid;

    fn watch() -> Watch {
        Watch {
            phase: 0,
            rank: None,
            node: NodeId::new(0),
            cpu: Cpu::new(0),
            pid: Pid::new(1),
            begin: 0,
            end: 1_000_000,
        }
    }

    #[test]
    fn an_interrupted_culprit_strikes_once_and_gets_its_edge() {
        let mut catalog = Catalog::default();
        let task = catalog.intern(SourceKind::Task, "culprit");
        let tick = catalog.class(SourceKind::TimerTick);
        let charge = |source, begin, end| Charge {
            source,
            cpu: Cpu::new(0),
            begin,
            end,
        };
        let charges = [
            charge(task, 10_000, 20_000),
            charge(tick, 20_000, 23_000),
            charge(task, 23_000, 30_000),
            charge(task, 50_000, 51_000),
        ];
        let edge = Extra {
            begin: 9_500,
            end: 31_000,
            source: task,
            ns: 1_500,
            alone: false,
        };
        let found = strikes(&watch(), &charges, &[edge], &catalog);
        let text: Vec<_> = found
            .iter()
            .map(|s| (s.source, s.begin, s.length))
            .collect();
        assert_eq!(
            text,
            [
                (task, 10_000, 17_000 + 1_500),
                (tick, 20_000, 3_000),
                (task, 50_000, 1_000)
            ]
        );
    }

    #[test]
    fn a_gap_without_any_record_is_a_strike_of_its_own() {
        let mut catalog = Catalog::default();
        let hypervisor = catalog.class(SourceKind::Hypervisor);
        let gap = Extra {
            begin: 5_000,
            end: 9_000,
            source: hypervisor,
            ns: 4_000,
            alone: true,
        };
        let found = strikes(&watch(), &[], &[gap], &catalog);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].source, found[0].length), (hypervisor, 4_000));
    }
}
