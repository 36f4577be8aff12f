//! Lockstep runs with one or several rank counts.

use crate::bundle::Bundle;
use crate::clocks::Clocks;
use crate::node_watch::NodeWatch;
use crate::rank_run::{RankPlan, RankRecord, run};
use crate::ranks::Ranks;
use crate::series::{SeriesFindings, efficiency, findings};
use crate::{MeasureError, MeasureOptions, Scaling, What, gather};
use idlewave_clock::Calibration;
use idlewave_fabric::Fabric;
use idlewave_run::{Coupling, Decomposition, ExchangeVariant};
use idlewave_session::{Progress, SessionError, Stop};
use idlewave_units::Nanos;
use idlewave_units::counted;
use idlewave_workloads::lockstep::{MESSAGE_BYTES, Pattern};
use idlewave_workloads::speed::Speed;
use serde::Serialize;

/// The most iterations that all ranks record together: 100 MB on rank 0.
const MOST_RECORDS: u64 = 4 << 20;

/// Results of lockstep runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LockstepOutcome {
    /// How the ranks met.
    pub coupling: Coupling,
    /// How the exchange was programmed.
    pub variant: ExchangeVariant,
    /// Bytes of a message, or of the values of each rank.
    pub bytes: u64,
    /// The requested computation.
    pub work: Nanos,
    /// The kind of scaling, if it is a series over rank counts.
    pub scaling: Option<Scaling>,
    /// One per rank count.
    pub series: Vec<SeriesFindings>,
    /// Whether the ranks were on several nodes. Their clocks are compared by messages; if that is
    /// too coarse, the exchange is the shortest wait of an iteration (see
    /// [`SeriesFindings::one_clock`]).
    pub several_nodes: bool,
}

/// The request of the options, for any number of ranks.
struct Request {
    coupling: Coupling,
    dims: u32,
    variant: ExchangeVariant,
    bytes: usize,
}

impl Request {
    fn of(what: &What) -> Option<Self> {
        let What::Lockstep {
            coupling,
            dims,
            variant,
            bytes,
        } = *what
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
            variant,
            bytes,
        })
    }

    fn pattern(&self, ranks: u32) -> Pattern {
        let grid = Decomposition::balanced(ranks, self.dims);
        let exchange = self.coupling == Coupling::Neighbours;
        Pattern {
            coupling: self.coupling,
            sides: if exchange {
                grid.sides().to_vec()
            } else {
                Vec::new()
            },
            variant: self.variant,
            bytes: self.bytes,
        }
    }
}

/// The number of Fibonacci steps that take `time` at the CPU's highest speed. Rank 0 determines it
/// for all, so the work is the same everywhere.
fn work_steps<F: Fabric>(
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

/// What a rank does in the run on `number` ranks; `steps` of work take `options.work`.
fn plan(options: &MeasureOptions, pattern: Pattern, steps: u64, number: u32) -> RankPlan {
    let divisor = match options.scaling {
        Some(Scaling::Strong) => u64::from(number),
        Some(Scaling::Weak) | None => 1,
    };
    RankPlan {
        pattern,
        steps: (steps / divisor).max(1),
        work: Nanos::from_nanos((options.work.get() / divisor).max(1)),
        duration: options.duration,
        max_iterations: MOST_RECORDS / u64::from(number),
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
    let mut clocks = Clocks::begin(fabric, &ranks.nodes)?;
    let (watch, sheets) = NodeWatch::begin(fabric, options, ranks, &calibration)?;
    // Only rank 0 can fail here; the others end cleanly with it.
    let bundle = match leads {
        true => Bundle::begin(options, ranks, sheets),
        false => Ok(None),
    };
    if !gather::agree(fabric, bundle.is_ok())? {
        return bundle.map(|_| None);
    }
    let mut bundle = bundle?;
    let mut series: Vec<SeriesFindings> = Vec::new();
    let mut failure: Option<MeasureError> = None;
    for &number in &numbers {
        let go_on = failure.is_none() && (series.is_empty() || !stop.is_requested());
        if !gather::agree(fabric, go_on)? {
            break;
        }
        let plan = plan(options, request.pattern(number), steps, number);
        progress.part(&format!(
            "{} on {number}",
            request.coupling.name(),
            number = counted(number, "rank")
        ));
        let own = fabric.with_first(number, |fabric| {
            let done = run(fabric, &plan, &mut calibration, &stop.flag);
            if let Err(error) = &done {
                progress.note(&error.to_string());
                fabric.fail();
            }
            done
        })?;
        let own = own.transpose()?.unwrap_or_default();
        clocks.compare(fabric)?;
        let Some(records) = gathered(fabric, &own, number, ranks, &clocks)? else {
            continue;
        };
        let error = clocks.error_of(&ranks.nodes, number);
        let pattern = &plan.pattern;
        if let Some(mut found) = findings(&records, pattern.coupling, &pattern.sides, error) {
            if let Some(scaling) = options.scaling {
                let first = series.first().unwrap_or(&found);
                let divided = scaling == Scaling::Strong;
                found.efficiency = Some(efficiency(first, &found, divided));
            }
            series.push(found);
        }
        if let Some(bundle) = &mut bundle {
            bundle.align(&clocks);
            failure = bundle.add(&plan, &records).err();
        }
    }
    let ends = NodeWatch::finish(fabric, watch, options, ranks, &calibration)?;
    if let Some(bundle) = bundle {
        let closed = bundle.close(ends, &mut clocks, stop.signal(), failure.as_ref());
        failure = failure.or(closed.err());
    }
    match failure {
        Some(error) => Err(error),
        None if !leads => Ok(None),
        None if series.is_empty() => Err(SessionError::Interrupted {
            kept: "nothing was measured".to_owned(),
        }
        .into()),
        None => Ok(Some(LockstepOutcome {
            coupling: request.coupling,
            variant: request.variant,
            bytes: request.bytes as u64,
            work: options.work,
            scaling: options.scaling,
            series,
            several_nodes,
        })),
    }
}
