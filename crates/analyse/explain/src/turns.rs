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

/// A turn.
struct Part {
    phase: u32,
    of: WayOf,
    round: usize,
    coupling: Coupling,
    sides: Vec<u32>,
    ranks: usize,
}

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

/// The records of a turn.
fn read(run: &RunReader, part: &Part) -> Result<Vec<Record>, ExplainError> {
    let mut records = vec![Record::default(); part.ranks];
    run.for_each::<Regions>(|r| {
        let record = records.get_mut(r.rank.index());
        let Some(record) = record.filter(|_| r.phase == part.phase) else {
            return;
        };
        // After a lost block, the rest of this rank's records cannot be used.
        let next = record.begins.len() as u64;
        if r.kind == RegionKind::Compute && r.iteration == next && r.begin_ns <= r.end_ns {
            record.begins.push(r.begin_ns);
            record.arrivals.push(r.end_ns);
        } else if r.kind != RegionKind::Compute && r.iteration + 1 == next {
            record.end = r.end_ns;
        }
    })?;
    for record in &mut records {
        record.begins.push(record.end);
    }
    Ok(records)
}

fn times(records: &[Record]) -> Vec<RankTimes<'_>> {
    let times = records.iter().map(|r| RankTimes {
        begins: &r.begins,
        arrivals: &r.arrivals,
    });
    times.collect()
}

/// The ways of a run, compared; `None` if none took turns, or no round is complete.
pub fn compared(run: &RunReader) -> Result<Option<Ways>, ExplainError> {
    let (parts, of) = turns(run);
    let mut rounds: Vec<Vec<Option<SeriesFindings>>> = Vec::new();
    for part in &parts {
        let error = clock_error(run.manifest(), part.ranks);
        let records = read(run, part)?;
        let way = of.iter().position(|way| *way == part.of);
        let Some(way) = way.filter(|_| part.round < parts.len()) else {
            continue;
        };
        if rounds.len() <= part.round {
            rounds.resize(part.round + 1, vec![None; of.len()]);
        }
        rounds[part.round][way] = findings(&times(&records), part.coupling, &part.sides, error);
    }
    let mut found = ways(&of, &rounds);
    for (way, of) in found.iter_mut().flat_map(|f| f.ways.iter_mut()).zip(&of) {
        let own = parts.iter().filter(|part| part.of == *of);
        way.phases = own.map(|part| part.phase).collect();
    }
    Ok(found)
}

/// Calls `each` with the computations of every way, all rounds together, each turn without its
/// warm-up. One way is in memory at a time.
pub fn for_each_way(
    run: &RunReader,
    mut each: impl FnMut(StepSeries) -> Result<(), ExplainError>,
) -> Result<(), ExplainError> {
    let (parts, ways) = turns(run);
    for way in ways {
        let mut own = parts.iter().filter(|part| part.of == way).peekable();
        let Some(first) = own.peek() else { continue };
        let name = match way {
            (_, Some(siblings)) => format!("computation (siblings {})", siblings.name()),
            (variant, None) => format!("computation ({})", variant.name()),
        };
        let mut series = StepSeries::empty(first.phase, name, first.ranks);
        for part in own {
            let records = read(run, part)?;
            series.add_turn(&times(&records));
        }
        if !series.durations.is_empty() {
            each(series)?;
        }
    }
    Ok(())
}
