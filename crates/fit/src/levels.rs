//! Speed levels: stays at a speed below the fastest one, as sources that leave a share of the speed.

use crate::input::SourceEvents;
use crate::line::Line;
use idlewave_run::tables::{Quanta, Table};
use idlewave_run::{PhaseKind, RunError, RunReader, SourceKind};
use idlewave_stats::levels::{Segment, segment};
use idlewave_units::Cpu;
use std::collections::BTreeMap;

/// Shares of the speed closer than this are one level.
const DISTINCT: f64 = 0.1;

/// Ends and durations of the quanta of a CPU, nanoseconds.
type Series = (Vec<u64>, Vec<u64>);

/// Levels of a run from its fixed work quanta; `None` if it has none. `place` gives node and CPU in the model.
pub fn levels(
    run: &RunReader,
    place: impl Fn(Cpu) -> Option<(u32, u32)>,
) -> Result<Option<Vec<SourceEvents>>, RunError> {
    let phases = &run.manifest().phases;
    let fixed = |phase: u32| {
        let phase = phases.get(phase as usize);
        phase.is_some_and(|p| matches!(p.kind, PhaseKind::FixedWork { .. }))
    };
    let mut series: BTreeMap<(u32, Cpu), Series> = BTreeMap::new();
    if let Some(mut reader) = run.table_if_present::<Quanta>()? {
        let mut batch = Quanta::default();
        loop {
            batch.clear();
            if !reader.next_into(&mut batch)? {
                break;
            }
            for q in batch.rows().filter(|q| fixed(q.phase)) {
                let (ends, durations) = series.entry((q.phase, q.cpu)).or_default();
                ends.push(q.begin_ns.saturating_add(q.duration.get()));
                durations.push(q.duration.get());
            }
        }
    }
    if series.is_empty() {
        return Ok(None);
    }
    // Node, CPU, stays; one per CPU and phase.
    let mut watched: Vec<((u32, u32), Vec<Segment>)> = Vec::new();
    for ((_, cpu), (ends, durations)) in series {
        let found = segment(&ends, &durations);
        if let (Some(place), false) = (place(cpu), found.segments().is_empty()) {
            watched.push((place, found.segments().to_vec()));
        }
    }
    Ok(Some(sources(&watched)))
}

/// A source for each share of the speed at which somebody stayed.
fn sources(watched: &[((u32, u32), Vec<Segment>)]) -> Vec<SourceEvents> {
    // Share of the speed, line, begin, length.
    let mut stays: Vec<(f64, usize, u64, u64)> = Vec::new();
    for (line, (_, segments)) in watched.iter().enumerate() {
        let fastest = segments.iter().map(|s| s.duration).min().unwrap_or(1);
        for s in segments.iter().filter(|s| s.duration > fastest) {
            let keeps = fastest as f64 / s.duration as f64;
            stays.push((keeps, line, s.begin, s.end.saturating_sub(s.begin)));
        }
    }
    stays.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut groups: Vec<Vec<(f64, usize, u64, u64)>> = Vec::new();
    for stay in stays {
        match groups.last_mut() {
            Some(group) if stay.0 > group[0].0 * (1.0 - DISTINCT) => group.push(stay),
            _ => groups.push(vec![stay]),
        }
    }
    groups
        .into_iter()
        .map(|group| {
            let time: f64 = group.iter().map(|s| s.3 as f64).sum();
            let keeps = group.iter().map(|s| s.0 * s.3 as f64).sum::<f64>() / time.max(1.0);
            let mut lines: Vec<Line> = watched
                .iter()
                .map(|((node, cpu), segments)| Line {
                    node: *node,
                    cpu: *cpu,
                    watched: vec![(segments[0].begin, segments[segments.len() - 1].end)],
                    events: Vec::new(),
                })
                .collect();
            for (_, line, begin, length) in group {
                lines[line].events.push((begin, length));
            }
            for line in &mut lines {
                line.events.sort_unstable();
            }
            SourceEvents {
                kind: SourceKind::SlowLevel,
                name: format!("{:.0} % of the speed", 100.0 * keeps),
                keeps,
                lines,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_below_the_fastest_speed_are_sources_by_their_share() {
        let stay = |begin, end, duration| Segment {
            begin,
            end,
            duration,
        };
        let found = sources(&[
            (
                (0, 0),
                vec![
                    stay(0, 100, 1_000),
                    stay(100, 150, 2_000),
                    stay(150, 200, 1_000),
                    stay(200, 230, 1_250),
                ],
            ),
            ((0, 1), vec![stay(0, 50, 2_020), stay(50, 200, 1_000)]),
            ((0, 2), vec![stay(5, 200, 1_500)]),
        ]);
        let named: Vec<_> = found.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(named, ["80 % of the speed", "50 % of the speed"]);
        assert!((found[1].keeps - (0.5 * 50.0 + 50.0 / 2.02) / 100.0).abs() < 1e-9);
        let events: Vec<_> = found[1].lines.iter().map(|l| l.events.clone()).collect();
        assert_eq!(events, [vec![(100, 50)], vec![(0, 50)], vec![]]);
        assert_eq!(found[0].lines[2].watched, [(5, 200)]);
    }
}
