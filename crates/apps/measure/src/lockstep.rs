//! Lockstep runs with one or several rank counts.

use crate::clocks::Clocks;
use crate::first::on_first;
use crate::keeping::Keeping;
use crate::rank_run::{RankPlan, RankRecord, run};
use crate::ranks::Ranks;
use crate::{MeasureError, MeasureOptions, Scaling, What, gather};
use idlewave_clock::Calibration;
use idlewave_explain::series::{SeriesFindings, efficiency, findings};
use idlewave_explain::ways;
use idlewave_fabric::Fabric;
use idlewave_run::findings::Ways;
use idlewave_run::{Coupling, Decomposition, ExchangeVariant, Siblings, Turn as Place};
use idlewave_session::{Progress, SessionError, Stop};
use idlewave_units::Nanos;
use idlewave_units::counted;
use idlewave_workloads::lockstep::{MESSAGE_BYTES, Pattern};
use idlewave_workloads::speed::Speed;
use serde::Serialize;

/// The most iterations that all ranks record together: 100 MB on rank 0.
const MOST_RECORDS: u64 = 4 << 20;

/// How often each of several ways is measured.
pub(crate) const ROUNDS: u32 = 12;

/// Results of lockstep runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LockstepOutcome {
    /// How the ranks met.
    pub coupling: Coupling,
    /// How the exchange was programmed: one way, or several that were compared.
    pub variants: Vec<ExchangeVariant>,
    /// Bytes of a message, or of the values of each rank.
    pub bytes: u64,
    /// The requested computation.
    pub work: Nanos,
    /// The kind of scaling, if it is a series over rank counts.
    pub scaling: Option<Scaling>,
    /// One per rank count; of several ways, one per round and way, in order of time.
    pub series: Vec<SeriesFindings>,
    /// The ways compared, if there are several.
    pub ways: Option<Ways>,
    /// Whether the ranks were on several nodes. Their clocks are compared by messages; if that is
    /// too coarse, the exchange is the shortest wait of an iteration (see
    /// [`SeriesFindings::one_clock`]).
    pub several_nodes: bool,
}

/// The request of the options, for any number of ranks.
pub(crate) struct Request {
    coupling: Coupling,
    dims: u32,
    variants: Vec<ExchangeVariant>,
    bytes: usize,
}

/// One lockstep run among those of a request.
pub(crate) struct Turn {
    ranks: u32,
    /// Which of the ways that take turns.
    pub way: usize,
    /// Counted from 0.
    pub round: usize,
    duration: Nanos,
}

impl Turn {
    /// Its place, as the bundle keeps it.
    pub fn place(&self, siblings: Option<Siblings>) -> Place {
        Place {
            round: self.round as u32,
            siblings,
        }
    }
}

impl Request {
    pub fn of(what: &What) -> Option<Self> {
        let &What::Lockstep {
            coupling,
            dims,
            ref variants,
            bytes,
        } = what
        else {
            return None;
        };
        let usual = match coupling {
            Coupling::Neighbours | Coupling::Alltoall => MESSAGE_BYTES as u64,
            Coupling::Barrier => 0,
            Coupling::Allreduce | Coupling::Reduce => 8,
        };
        let bytes = bytes.unwrap_or(usual) as usize;
        Some(Self {
            coupling,
            dims,
            variants: variants.clone(),
            bytes,
        })
    }

    pub fn pattern(&self, ranks: u32, way: usize) -> Pattern {
        let grid = Decomposition::balanced(ranks, self.dims);
        let exchange = self.coupling == Coupling::Neighbours;
        Pattern {
            coupling: self.coupling,
            sides: if exchange {
                grid.sides().to_vec()
            } else {
                Vec::new()
            },
            variant: self.variants[way],
            bytes: self.bytes,
        }
    }
}

/// The runs, in order of time. Several ways take turns, forwards and backwards; each has the whole
/// `duration` in all its rounds together.
pub(crate) fn turns(ways: usize, numbers: &[u32], duration: Nanos) -> Vec<Turn> {
    let rounds = if ways == 1 { 1 } else { ROUNDS as usize };
    let duration = Nanos::from_nanos(duration.get() / rounds as u64);
    let mut turns = Vec::new();
    for &ranks in numbers {
        for round in 0..rounds {
            turns.extend((0..ways).map(|turn| Turn {
                ranks,
                way: if round % 2 == 0 {
                    turn
                } else {
                    ways - 1 - turn
                },
                round,
                duration,
            }));
        }
    }
    turns
}

/// The number of Fibonacci steps that take `time` at the CPU's highest speed. Rank 0 determines it
/// for all, so the work is the same everywhere.
pub(crate) fn work_steps<F: Fabric>(
    fabric: &mut F,
    calibration: &Calibration,
    time: Nanos,
) -> Result<u64, MeasureError> {
    let steps = match fabric.rank().get() {
        0 => Speed::measure(calibration).steps(time),
        _ => 0,
    };
    Ok(gather::from_root(fabric, [steps])?[0])
}

/// What a rank does in its turn; `steps` of work take `options.work`.
pub(crate) fn plan(
    options: &MeasureOptions,
    pattern: Pattern,
    steps: u64,
    turn: &Turn,
) -> RankPlan {
    let divisor = match options.scaling {
        Some(Scaling::Strong) => u64::from(turn.ranks),
        Some(Scaling::Weak) | None => 1,
    };
    RankPlan {
        pattern,
        steps: (steps / divisor).max(1),
        work: Nanos::from_nanos((options.work.get() / divisor).max(1)),
        duration: turn.duration,
        max_iterations: MOST_RECORDS / u64::from(turn.ranks),
    }
}

/// What the progress display says of a turn.
fn turn_name(request: &Request, turn: &Turn) -> String {
    let name = request.coupling.name();
    let ranks = counted(turn.ranks, "rank");
    match request.variants.as_slice() {
        [_] => format!("{name} on {ranks}"),
        ways => {
            let way = ways[turn.way].name();
            let round = turn.round + 1;
            format!("{name} on {ranks}, {way}, round {round} of {ROUNDS}")
        }
    }
}

/// The records of the first `number` ranks, on the clock of the first node; `None` on ranks other
/// than rank 0.
fn gathered<F: Fabric>(
    fabric: &mut F,
    own: &RankRecord,
    number: u32,
    ranks: &Ranks,
    clocks: &Clocks,
) -> Result<Option<Vec<RankRecord>>, MeasureError> {
    let Some(all) = gather::to_root(fabric, &own.to_words(), number)? else {
        return Ok(None);
    };
    let mut records: Vec<RankRecord> = all
        .iter()
        .map(|words| RankRecord::of_words(words))
        .collect();
    for (record, correction) in records.iter_mut().zip(clocks.of_ranks(&ranks.nodes)) {
        record.correct(correction);
    }
    Ok(Some(records))
}

/// Measures; the outcome is on rank 0.
pub fn measure<F: Fabric>(
    fabric: &mut F,
    options: &MeasureOptions,
    ranks: &Ranks,
    mut calibration: Calibration,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<LockstepOutcome>, MeasureError> {
    let Some(request) = Request::of(&options.what) else {
        return Ok(None);
    };
    let leads = fabric.rank().get() == 0;
    let several_nodes = ranks.nodes.count() > 1;
    let numbers = options.numbers(fabric.size())?;
    progress.part("measuring the speed of the CPUs");
    let steps = work_steps(fabric, &calibration, options.work)?;
    let Some(mut keeping) = Keeping::begin(fabric, options, ranks, &calibration)? else {
        return Ok(None);
    };
    let mut series: Vec<SeriesFindings> = Vec::new();
    let number_of_ways = request.variants.len();
    let mut rounds: Vec<Vec<Option<SeriesFindings>>> = Vec::new();
    for turn in turns(number_of_ways, &numbers, options.duration) {
        let number = turn.ranks;
        let go_on = keeping.is_well() && (series.is_empty() || !stop.is_requested());
        if !gather::agree(fabric, go_on)? {
            break;
        }
        let plan = plan(options, request.pattern(number, turn.way), steps, &turn);
        progress.part(&turn_name(&request, &turn));
        let target = (request.coupling.name(), number);
        let own = on_first(fabric, target, progress, |fabric| {
            run(fabric, &plan, &mut calibration, &stop.flag)
        })?;
        let own = own.unwrap_or_default();
        keeping.compare(fabric)?;
        let Some(records) = gathered(fabric, &own, number, ranks, keeping.clocks())? else {
            continue;
        };
        let error = keeping.clocks().error_of(&ranks.nodes, number);
        let pattern = &plan.pattern;
        let times: Vec<_> = records.iter().map(RankRecord::times).collect();
        if let Some(mut found) = findings(&times, pattern.coupling, &pattern.sides, error) {
            if let Some(scaling) = options.scaling {
                let first = series.first().unwrap_or(&found);
                let divided = scaling == Scaling::Strong;
                found.efficiency = Some(efficiency(first, &found, divided));
            }
            rounds.resize(turn.round + 1, vec![None; number_of_ways]);
            rounds[turn.round][turn.way] = Some(found.clone());
            series.push(found);
        }
        let place = (number_of_ways > 1).then(|| turn.place(None));
        keeping.add(|bundle| bundle.add(&plan, &records, place));
    }
    keeping.finish(fabric, options, ranks, &mut calibration, stop)?;
    if !leads {
        return Ok(None);
    }
    if series.is_empty() {
        let kept = "nothing was measured".to_owned();
        return Err(SessionError::Interrupted { kept }.into());
    }
    let of: Vec<_> = request.variants.iter().map(|&v| (v, None)).collect();
    Ok(Some(LockstepOutcome {
        coupling: request.coupling,
        ways: match number_of_ways {
            1 => None,
            _ => ways(&of, &rounds),
        },
        variants: request.variants,
        bytes: request.bytes as u64,
        work: options.work,
        scaling: options.scaling,
        series,
        several_nodes,
    }))
}
