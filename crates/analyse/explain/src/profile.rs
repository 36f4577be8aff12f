//! The noise profile: strikes per second of watched time, by source, with their lengths.

use crate::catalog::{Catalog, SourceId};
use crate::strikes::Strike;
use idlewave_run::findings::SourceFinding;
use idlewave_run::{NoiseProfile, NoiseSource, SourceKind};
use idlewave_units::Nanos;
use std::collections::BTreeMap;

/// Up to this many events of a source keep their exact lengths.
const LENGTHS_KEPT: usize = 512;

/// Builds the profile. `watched` is the time for which measuring threads were watched, all CPUs
/// together.
pub fn profile(
    catalog: &Catalog,
    strikes: &BTreeMap<SourceId, Vec<Strike>>,
    findings: &[(SourceId, SourceFinding)],
    watched: Nanos,
    work: Nanos,
    exchange: Option<Nanos>,
    barrier: Option<Nanos>,
) -> NoiseProfile {
    let seconds = watched.as_secs_f64();
    let sources = strikes
        .iter()
        .filter(|(_, s)| !s.is_empty() && seconds > 0.0)
        .map(|(&id, strikes)| {
            let period = findings
                .iter()
                .find(|(f, _)| *f == id)
                .and_then(|(_, f)| f.period.as_ref())
                .map(|p| Nanos::from_nanos(p.period.value as u64));
            let mut lengths: Vec<u64> = strikes.iter().map(|s| s.length).collect();
            lengths.sort_unstable();
            NoiseSource {
                kind: catalog.kind(id),
                name: catalog.name(id).to_owned(),
                rate_per_s: strikes.len() as f64 / seconds,
                events: strikes.len() as u64,
                watched,
                period,
                lengths: NoiseSource::bin_lengths(&lengths, LENGTHS_KEPT),
            }
        })
        .filter(|s| is_of_the_machine(s.kind))
        .collect();
    NoiseProfile {
        sources,
        work,
        exchange,
        barrier,
    }
}

/// Whether a program would meet this noise without a measurement. Ranks sharing a CPU belong to
/// this run's set-up, and recorder and tracing come and go with it.
pub fn is_of_the_machine(kind: SourceKind) -> bool {
    !matches!(
        kind,
        SourceKind::Rank | SourceKind::Recorder | SourceKind::Tracing
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_units::{Cpu, NodeId};

    #[test]
    fn the_recorder_itself_is_no_noise_of_the_machine() {
        let mut catalog = Catalog::default();
        let strikes: BTreeMap<_, _> = [
            (SourceKind::Task, "crond"),
            (SourceKind::Recorder, "idlewave"),
            (SourceKind::Tracing, "tracing"),
            (SourceKind::Rank, "rank"),
        ]
        .into_iter()
        .map(|(kind, name)| {
            let source = catalog.intern(kind, name);
            let strike = |begin| Strike {
                source,
                node: NodeId::new(0),
                cpu: Cpu::new(0),
                begin,
                length: 5_000,
                continues: false,
            };
            (source, vec![strike(10), strike(20)])
        })
        .collect();
        let watched = Nanos::from_secs(4);
        let found = profile(&catalog, &strikes, &[], watched, Nanos::ZERO, None, None);
        let [crond] = found.sources.as_slice() else {
            panic!("{:?}", found.sources);
        };
        assert_eq!((crond.name.as_str(), crond.events), ("crond", 2));
        assert_eq!(crond.rate_per_s, 0.5);
    }
}
