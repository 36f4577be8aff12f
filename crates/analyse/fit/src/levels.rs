//! Speed levels: stretches below the fastest speed, as sources that leave part of the speed.

use crate::input::SourceEvents;
use idlewave_explain::{NoiseOf, fixed_work};
use idlewave_run::tables::{RegionKind, Regions};
use idlewave_run::{RunError, RunReader, SourceKind};
use idlewave_stats::levels::{Segment, segment};
use idlewave_stats::line::Line;
use idlewave_units::{Cpu, NodeId, Rank};
use std::collections::BTreeMap;

/// Shares of the speed closer than this are one level.
const DISTINCT: f64 = 0.1;

/// Levels of a run from its fixed work: quanta, or the ranks' computations in a phase; `None` if it
/// has none. `place` gives node and CPU in the model.
pub fn levels(
    run: &RunReader,
    of: NoiseOf,
    place: impl Fn(NodeId, Cpu) -> Option<(u32, u32)>,
) -> Result<Option<Vec<SourceEvents>>, RunError> {
    let watched = match of {
        NoiseOf::Machine => of_quanta(run, place)?,
        NoiseOf::Phase(phase) => of_ranks(run, phase, place)?,
    };
    Ok((!watched.is_empty()).then(|| sources(&watched)))
}

/// Node and CPU in the model, and the stays of a series there.
type Stays = ((u32, u32), Vec<Segment>);

fn of_quanta(
    run: &RunReader,
    place: impl Fn(NodeId, Cpu) -> Option<(u32, u32)>,
) -> Result<Vec<Stays>, RunError> {
    let manifest = run.manifest();
    let work = fixed_work(run)?.into_iter();
    let stays = work.filter_map(|((phase, cpu), work)| {
        let place = place(manifest.measured_node(phase)?, cpu)?;
        Some((place, work.levels.segments().to_vec()))
    });
    // Of several phases the last counts: the first may show a warm-up.
    let last: BTreeMap<(u32, u32), Vec<Segment>> =
        stays.filter(|(_, stays)| !stays.is_empty()).collect();
    Ok(last.into_iter().collect())
}

/// Of ranks that share a CPU, only the first counts.
fn of_ranks(
    run: &RunReader,
    phase: u32,
    place: impl Fn(NodeId, Cpu) -> Option<(u32, u32)>,
) -> Result<Vec<Stays>, RunError> {
    let mut places: BTreeMap<(u32, u32), Rank> = BTreeMap::new();
    for sheet in run.manifest().ranks.iter().rev() {
        if let Some(place) = sheet.cpu.and_then(|cpu| place(sheet.node, cpu)) {
            places.insert(place, sheet.rank);
        }
    }
    let of_rank: BTreeMap<Rank, (u32, u32)> = places.into_iter().map(|(p, r)| (r, p)).collect();
    // Ends and durations, nanoseconds.
    let mut series: BTreeMap<(u32, u32), (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    run.for_each::<Regions>(|region| {
        let compute = region.phase == phase && region.kind == RegionKind::Compute;
        if let (true, Some(&place)) = (compute, of_rank.get(&region.rank)) {
            let (ends, durations) = series.entry(place).or_default();
            ends.push(region.end_ns);
            durations.push(region.end_ns.saturating_sub(region.begin_ns));
        }
    })?;
    let stays = series
        .into_iter()
        .map(|(place, (ends, durations))| (place, segment(&ends, &durations).segments().to_vec()));
    Ok(stays.collect())
}

/// One source for each distinct share of the speed.
fn sources(watched: &[Stays]) -> Vec<SourceEvents> {
    // Share of the speed, line, start, length.
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
