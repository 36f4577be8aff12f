//! Reduces a model to fewer streams of events by merging sources that take very little time.

use idlewave_noise::{Arrivals, Lengths, NoiseModel, Scope, Source, Together};
use idlewave_run::SourceKind;
use std::collections::BTreeMap;

/// A source is small if it takes less than this share of the time that all sources take.
const SMALL: f64 = 0.01;

/// The model with its small sources replaced by random ones of the same rate and lengths that
/// strike any CPU, and the numbers of these sources. For a million ranks they are then one stream
/// of events instead of one each. Sources keep their numbers; those in `kept` are unchanged.
pub(crate) fn thinned(
    model: &NoiseModel,
    kept: &[(SourceKind, String, Vec<usize>)],
) -> (NoiseModel, Vec<usize>) {
    let taken = |source: &Source| source.stolen(model.cpus_per_node).unwrap_or(f64::INFINITY);
    let all: f64 = model.sources.iter().map(taken).sum();
    let small: Vec<usize> = (0..model.sources.len())
        .filter(|&i| {
            let source = &model.sources[i];
            source.keeps == 0.0
                && taken(source) < SMALL * all
                && !kept.iter().any(|(_, _, numbers)| numbers.contains(&i))
        })
        .collect();
    let mut thinned = model.clone();
    for &i in &small {
        as_random(&mut thinned.sources[i], model.cpus_per_node);
    }
    (thinned, small)
}

fn as_random(source: &mut Source, cpus_per_node: u32) {
    let cpus = f64::from(cpus_per_node.max(1));
    let (per_s, length) = match &source.arrivals {
        Arrivals::Poisson { rate_per_s } => (*rate_per_s, None),
        Arrivals::Periodic { period_ns, .. } => (1e9 / *period_ns as f64, None),
        Arrivals::Trace {
            watched_ns, events, ..
        } => {
            let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
            for event in events {
                *bins.entry(event[1]).or_default() += 1;
            }
            let bins = bins.into_iter().map(|(ns, count)| [ns, count]).collect();
            let rate = 1e9 * events.len() as f64 / *watched_ns as f64;
            (rate, Some(Lengths::Empirical { bins, tail: None }))
        }
    };
    let struck = source.cpus.as_ref().map_or(cpus, |c| c.len() as f64) / cpus;
    let rate_per_s = match source.strikes {
        Scope::EachCpu => per_s * struck,
        Scope::OneCpuOfNode => per_s * struck / cpus,
    };
    source.arrivals = Arrivals::Poisson { rate_per_s };
    source.length = length.or(source.length.take());
    source.strikes = Scope::EachCpu;
    source.together = Together::Alone;
    source.cpus = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A large source, and small ones with every kind of arrivals.
    fn model() -> NoiseModel {
        let fixed = |ns| Some(Lengths::Fixed { ns });
        let mut trace = Source::task(
            "trace",
            Arrivals::Trace {
                watched_ns: 1_000_000_000,
                block_ns: None,
                events: vec![[0, 100], [500, 300], [600, 100]],
            },
            None,
        );
        trace.cpus = Some(vec![1]);
        let mut periodic = Source::task(
            "comb",
            Arrivals::Periodic {
                period_ns: 10_000_000,
                jitter_ns: 0,
                phase_ns: None,
            },
            fixed(50),
        );
        periodic.strikes = Scope::OneCpuOfNode;
        periodic.together = Together::All;
        let large = Source::task(
            "large",
            Arrivals::Poisson { rate_per_s: 100.0 },
            fixed(100_000),
        );
        let level = Source {
            keeps: 0.99,
            ..Source::task("level", Arrivals::Poisson { rate_per_s: 1.0 }, fixed(100))
        };
        NoiseModel {
            cpus_per_node: 4,
            sources: vec![trace, large, periodic, level],
            ..NoiseModel::default()
        }
    }

    #[test]
    fn small_sources_take_as_much_as_before_and_the_others_stay() {
        let before = model();
        let (after, small) = thinned(&before, &[]);
        assert_eq!(small, [0, 2]);
        for i in small {
            let (a, b) = (&after.sources[i], &before.sources[i]);
            let (a_takes, b_takes) = (a.stolen(4).unwrap(), b.stolen(4).unwrap());
            assert!((a_takes / b_takes - 1.0).abs() < 1e-12, "{a:?}");
            assert!(matches!(a.arrivals, Arrivals::Poisson { .. }));
            assert_eq!(
                (a.strikes, a.together, &a.cpus),
                (Scope::EachCpu, Together::Alone, &None)
            );
        }
        assert_eq!(after.sources[1], before.sources[1]);
        assert_eq!(after.sources[3], before.sources[3]);
        let kept = [(SourceKind::Task, "comb".to_owned(), vec![2])];
        assert_eq!(thinned(&before, &kept).1, [0]);
    }
}
