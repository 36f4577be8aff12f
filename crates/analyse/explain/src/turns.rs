//! Ways that took turns, as recorded in a run: what each takes, and how much its computations vary.
//!
//! The lockstep runs of one way are its turns. The way of a turn is how its exchange was programmed
//! and what the other hardware threads of the cores did; rounds count from 0.

use crate::ExplainError;
use crate::series::{RankTimes, SeriesFindings, findings};
use crate::step_series::StepSeries;
use crate::watched::{clock_error, taking_part};
use crate::ways::{WayOf, ways};
use idlewave_run::findings::Ways;
use idlewave_run::tables::{RegionKind, Regions};
use idlewave_run::{Coupling, Phase, PhaseKind, RunReader, Turn};
use std::collections::BTreeMap;

/// A turn.
struct Part {
    phase: u32,
    of: WayOf,
    round: usize,
    coupling: Coupling,
    sides: Vec<u32>,
    ranks: usize,
}

/// Turns that are read in one pass: more than a measurement has rounds. It bounds the memory that a
/// damaged manifest can request.
const TOGETHER: usize = 16;

/// The turns of a run, and its ways in the order of their first turns.
fn turns(run: &RunReader) -> (Vec<Part>, Vec<WayOf>) {
    let manifest = run.manifest();
    let part = |(phase, kind): (u32, &Phase)| match &kind.kind {
        PhaseKind::Lockstep {
            coupling,
            sides,
            variant,
            ranks,
            turn: Some(Turn { round, siblings }),
            ..
        } => Some(Part {
            phase,
            of: (*variant, *siblings),
            round: *round as usize,
            coupling: *coupling,
            sides: sides.clone(),
            ranks: taking_part(manifest, *ranks),
        }),
        _ => None,
    };
    let parts: Vec<Part> = (0..).zip(&manifest.phases).filter_map(part).collect();
    let mut ways = Vec::new();
    for part in &parts {
        if !ways.contains(&part.of) {
            ways.push(part.of);
        }
    }
    (parts, ways)
}

/// The records of one rank.
#[derive(Clone, Default)]
struct Record {
    begins: Vec<u64>,
    arrivals: Vec<u64>,
    /// End of the last wait.
    end: u64,
}

/// The records of these turns, read in one pass.
fn read(run: &RunReader, parts: &[&Part]) -> Result<Vec<Vec<Record>>, ExplainError> {
    let phases = parts.iter().map(|part| part.phase);
    let places: BTreeMap<u32, usize> = phases.zip(0..).collect();
    let mut turns: Vec<Vec<Record>> = parts
        .iter()
        .map(|part| vec![Record::default(); part.ranks])
        .collect();
    run.for_each::<Regions>(|r| {
        let place = places.get(&r.phase);
        let Some(record) = place.and_then(|place| turns[*place].get_mut(r.rank.index())) else {
            return;
        };
        // After a lost block, the rest of this rank's records cannot be used.
        let next = record.begins.len() as u64;
        if r.kind == RegionKind::Compute && r.iteration == next && r.begin_ns <= r.end_ns {
            record.begins.push(r.begin_ns);
            record.arrivals.push(r.end_ns);
        } else if r.kind != RegionKind::Compute && r.iteration.checked_add(1) == Some(next) {
            record.end = r.end_ns;
        }
    })?;
    for record in turns.iter_mut().flatten() {
        record.begins.push(record.end);
    }
    Ok(turns)
}

fn times(records: &[Record]) -> Vec<RankTimes<'_>> {
    let times = records.iter().map(|r| RankTimes {
        begins: &r.begins,
        arrivals: &r.arrivals,
    });
    times.collect()
}

/// The ways of a run, compared, on the number of ranks of the first turn; `None` if none took turns,
/// or no round is complete.
pub fn compared(run: &RunReader) -> Result<Option<Ways>, ExplainError> {
    let (mut parts, of) = turns(run);
    let ranks = parts.first().map(|part| part.ranks);
    parts.retain(|part| Some(part.ranks) == ranks);
    let mut rounds: Vec<Vec<Option<SeriesFindings>>> = Vec::new();
    for (way, of_way) in of.iter().enumerate() {
        let own: Vec<&Part> = parts.iter().filter(|part| part.of == *of_way).collect();
        for own in own.chunks(TOGETHER) {
            for (part, records) in own.iter().zip(read(run, own)?) {
                if part.round >= parts.len() {
                    continue;
                }
                if rounds.len() <= part.round {
                    rounds.resize(part.round + 1, vec![None; of.len()]);
                }
                let error = clock_error(run.manifest(), part.ranks);
                rounds[part.round][way] =
                    findings(&times(&records), part.coupling, &part.sides, error);
            }
        }
    }
    let mut found = ways(&of, &rounds);
    for (way, of) in found.iter_mut().flat_map(|f| f.ways.iter_mut()).zip(&of) {
        let own = parts.iter().filter(|part| part.of == *of);
        way.phases = own.map(|part| part.phase).collect();
    }
    Ok(found)
}

/// Calls `each` with the computations of every way, all rounds together, each turn without its
/// warm-up. Turns on different numbers of ranks are series of their own. One is in memory at a time.
pub fn for_each_way(
    run: &RunReader,
    mut each: impl FnMut(StepSeries) -> Result<(), ExplainError>,
) -> Result<(), ExplainError> {
    let (parts, _) = turns(run);
    let mut rest: Vec<&Part> = parts.iter().collect();
    while let Some(&first) = rest.first() {
        let same = |part: &&Part| part.of == first.of && part.ranks == first.ranks;
        let (own, others) = rest.into_iter().partition::<Vec<_>, _>(same);
        rest = others;
        let name = match first.of {
            (_, Some(siblings)) => format!("computation (siblings {})", siblings.name()),
            (variant, None) => format!("computation ({})", variant.name()),
        };
        let mut series = StepSeries::empty(first.phase, name, first.ranks);
        for own in own.chunks(TOGETHER) {
            for records in read(run, own)? {
                series.add_turn(&times(&records));
            }
        }
        if !series.durations.is_empty() {
            each(series)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use idlewave_run::tables::{Region, Table};
    use idlewave_run::testing::empty_manifest;
    use idlewave_run::{ExchangeVariant, RankSheet, RunWriter};
    use idlewave_units::{Nanos, NodeId, Pid, Rank};

    /// Steps of every turn.
    const STEPS: u64 = 4;

    /// A bundle with turns of these ways on so many ranks, round by round. The computations of the
    /// n-th turn take 100 (n + 1) ns, its steps 1000 (n + 1) ns.
    fn made(rounds: &[&[(ExchangeVariant, u32)]]) -> (tempfile::TempDir, RunReader) {
        let mut manifest = empty_manifest();
        manifest.ranks = (0..2)
            .map(|rank| RankSheet {
                process: None,
                rank: Rank::new(rank),
                node: NodeId::new(0),
                cpu: None,
                threads: vec![Pid::new(100 + rank)],
                priority: None,
            })
            .collect();
        let mut regions = Regions::default();
        for (round, turns) in (0..).zip(rounds) {
            for &(variant, ranks) in *turns {
                let phase = manifest.phases.len() as u32;
                let turn = Some(Turn {
                    round,
                    siblings: None,
                });
                manifest.phases.push(Phase {
                    kind: PhaseKind::Lockstep {
                        coupling: Coupling::Barrier,
                        work_steps: 1,
                        work_target: Nanos::from_nanos(100),
                        message_bytes: 0,
                        sides: Vec::new(),
                        neighbourhood: Default::default(),
                        variant,
                        ranks: Some(ranks),
                        iterations: STEPS,
                        threshold: Nanos::from_nanos(1_000),
                        turn,
                    },
                    begin_ns: 0,
                    end_ns: 0,
                });
                let unit = 100 * u64::from(phase + 1);
                for rank in 0..ranks {
                    let mut add = |iteration, kind, begin_ns, end_ns| {
                        regions.push(Region {
                            rank: Rank::new(rank),
                            phase,
                            iteration,
                            kind,
                            begin_ns,
                            end_ns,
                            bytes: None,
                        });
                    };
                    for step in 0..STEPS {
                        let begin = 1_000_000 * u64::from(phase + 1) + 10 * unit * step;
                        add(step, RegionKind::Compute, begin, begin + unit);
                        add(step, RegionKind::Barrier, begin + unit, begin + 10 * unit);
                    }
                    // As no recorder writes it.
                    add(u64::MAX, RegionKind::Barrier, 0, u64::MAX);
                }
            }
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("run");
        let mut out = RunWriter::create(&path, manifest).expect("a bundle");
        out.write_table(&regions).expect("a table");
        out.close(None).expect("a bundle");
        let run = RunReader::open(&path).expect("a bundle");
        (directory, run)
    }

    fn series(run: &RunReader) -> Vec<(u32, usize, Vec<u64>)> {
        let mut all = Vec::new();
        for_each_way(run, |series| {
            all.push((series.phase, series.ranks, series.durations));
            Ok(())
        })
        .expect("a table");
        all
    }

    #[test]
    fn the_turns_of_a_way_are_read_in_order_and_compared_round_by_round() {
        let [a, b] = [ExchangeVariant::Blocking, ExchangeVariant::NonBlocking].map(|v| (v, 2));
        let (_kept, run) = made(&[&[a, b], &[b, a]]);
        let times = |turns: [u64; 2]| turns.map(|ns| vec![ns; 2 * STEPS as usize]).concat();
        assert_eq!(
            series(&run),
            [(0, 2, times([100, 400])), (1, 2, times([200, 300]))]
        );
        let found = compared(&run).expect("a table").expect("two rounds");
        let phases = found.ways.iter().map(|way| way.phases.clone());
        assert_eq!(phases.collect::<Vec<_>>(), [[0, 3], [1, 2]]);
        // Steps of 1000 and 4000 ns against 2000 and 3000 ns: ratios of 2 and 3/4.
        assert_eq!((found.rounds, found.ways[0].step.value), (2, 2_500.0));
        let longer = found.ways[1].longer.as_ref().expect("the second");
        assert_eq!((longer.low, longer.high), (-0.25, 1.0));
    }

    #[test]
    fn turns_on_different_numbers_of_ranks_do_not_mix() {
        let [a, b] = [ExchangeVariant::Blocking, ExchangeVariant::NonBlocking];
        let (_kept, run) = made(&[&[(a, 2), (b, 2)], &[(b, 1), (a, 1)]]);
        let of = series(&run)
            .into_iter()
            .map(|(phase, ranks, d)| (phase, ranks, d.len() as u64 / STEPS));
        assert_eq!(
            of.collect::<Vec<_>>(),
            [(0, 2, 2), (1, 2, 2), (2, 1, 1), (3, 1, 1)]
        );
        let found = compared(&run).expect("a table").expect("a round");
        assert_eq!((found.rounds, &found.ways[1].phases), (1, &vec![1]));
    }
}
