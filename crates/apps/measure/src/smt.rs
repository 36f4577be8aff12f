//! `idlewave measure smt`: one rank per core in lockstep, while the other hardware threads of the
//! cores are idle, free for the kernel to use, or busy (docs/measure.md#hardware-threads-of-a-core).

mod plan;
mod render;

use crate::load::LoadMeter;
use crate::lockstep::{Request, Turn, plan, turns, work_steps};
use crate::place::{allowed_of, bound};
use crate::rank_run::{RankRecord, run};
use crate::series::warm_up_of;
use crate::threads::{MOST_THREADS, on_threads};
use crate::ways::ROUNDS;
use crate::{MeasureError, MeasureOptions, NodeLoad, gather};
use idlewave_capture::host::read_host;
use idlewave_clock::{Calibration, Counter};
use idlewave_explain::compare::{Comparison, compare_steps};
use idlewave_explain::{StepSeries, jitter_of};
use idlewave_fabric::{Endpoint, Fabric, PointToPoint, Waiting};
use idlewave_mpi::Launch;
use idlewave_run::Neighbour;
use idlewave_run::findings::JitterFindings;
use idlewave_session::{Progress, SessionError, Stop, check_machine};
use idlewave_units::Nanos;
use idlewave_workloads::Neighbours;
use plan::why_none;
pub use plan::{Core, Layout, Siblings};
pub use render::render_smt;
use serde::Serialize;
use std::path::Path;

/// Results with the siblings in different states.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SmtOutcome {
    /// Host name.
    pub node: String,
    /// The cores measured.
    pub layout: Layout,
    /// The requested computation.
    pub work: Nanos,
    /// Rounds in which every state was measured.
    pub rounds: u64,
    /// One per state.
    pub states: Vec<SmtState>,
    /// How busy other processes kept the node.
    pub machine: Vec<NodeLoad>,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// Results with the siblings in one state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SmtState {
    /// The state.
    pub siblings: Siblings,
    /// How much the computation varies, all rounds together; `None` with fewer than two steps.
    pub jitter: Option<JitterFindings>,
    /// This state against the first; `None` for the first, or if there are too few steps.
    pub against_idle: Option<Comparison>,
}

/// Measures, on this node alone, in this process; of the options, CPUs, time per state and work
/// count, and the way of the exchange.
///
/// # Errors
/// See [`MeasureError`]; no core has two hardware threads that may be used.
pub fn smt(
    options: &MeasureOptions,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<SmtOutcome, MeasureError> {
    options.check()?;
    check_machine()?;
    let several = |launch: &Launch| launch.size.is_none_or(|size| size > 1);
    if let Some(launch) = Launch::of_this_process().filter(several) {
        return Err(MeasureError::option(
            launch.launcher.name(),
            "measure smt is for one node, and is one process",
            "start it without the launcher",
        ));
    }
    let usable = allowed_of(options)?;
    let places = read_host(Path::new("/")).topology;
    let layout = Layout::of(&places, &usable);
    if layout.cores.is_empty() {
        let (reason, next) = why_none(&places, &usable);
        let next = next.to_owned();
        return Err(SessionError::NotPossible { reason, next }.into());
    }
    on_cores(options, layout, stop, progress)
}

/// Measures on these cores.
fn on_cores(
    options: &MeasureOptions,
    layout: Layout,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<SmtOutcome, MeasureError> {
    let size = layout.cores.len();
    if size > MOST_THREADS as usize {
        return Err(MeasureError::option(
            format!("{size} cores"),
            format!("as threads of one process there are at most {MOST_THREADS} ranks"),
            "choose the CPUs of fewer cores with --cpus",
        ));
    }
    let Some(request) = Request::of(&options.what) else {
        return Err(MeasureError::Panicked);
    };
    let all = |fabric: &mut Endpoint, progress: &dyn Progress| {
        rank(fabric, (options, &request), &layout, stop, progress)
    };
    let found = on_threads(size as u32, Waiting::Spin, progress, all)?;
    let (node, machine, rounds, series) = found.ok_or(MeasureError::Panicked)?;
    if rounds == 0 {
        let kept = "nothing was measured".to_owned();
        return Err(SessionError::Interrupted { kept }.into());
    }
    Ok(SmtOutcome {
        node,
        work: options.work,
        rounds,
        states: states(&series),
        machine,
        interrupted: stop.is_requested(),
        layout,
    })
}

/// Host name, its load, complete rounds, and the computations in every state.
type Measured = (String, Vec<NodeLoad>, u64, Vec<StepSeries>);

/// The work of every rank.
fn rank(
    fabric: &mut Endpoint,
    (options, request): (&MeasureOptions, &Request),
    layout: &Layout,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Measured>, MeasureError> {
    let core = &layout.cores[fabric.rank().index()];
    let size = fabric.size();
    let mut calibration = Calibration::begin(Counter::choose(Path::new("/")));
    let nodes = fabric.nodes()?;
    let load = LoadMeter::begin(fabric, &nodes)?;
    progress.part("measuring the speed of the CPUs");
    let steps = bound(&core.of_rank(Siblings::Idle), || {
        work_steps(fabric, &calibration, options.work)
    })?;
    let turns = turns(Siblings::ALL.len(), &[size], options.duration);
    let mut series = Siblings::ALL.map(|_| empty(size as usize)).to_vec();
    let mut rounds = 0;
    for round in turns.chunks(Siblings::ALL.len()) {
        let mut of_round = Siblings::ALL.map(|_| Vec::new());
        for turn in round {
            let state = Siblings::ALL[turn.way];
            progress.part(&turn_name(state, turn));
            let mut plan = plan(options, request.pattern(size, 0), steps, turn);
            plan.max_iterations /= turns.len() as u64;
            let own = bound(&core.of_rank(state), || {
                let leads = fabric.rank().get() == 0;
                let busy = if leads {
                    layout.busy(state)
                } else {
                    Vec::new()
                };
                let load = Neighbours::start(&[Neighbour::Cpu], &busy, None, Path::new("/"))?;
                // The others wait until the load is there.
                fabric.barrier(&mut || ())?;
                let own = run(fabric, &plan, &mut calibration, &stop.flag)?;
                load.stop()?;
                Ok(own)
            })?;
            if let Some(all) = gather::to_root(fabric, &own.to_words(), size)? {
                let records = all.iter().map(|words| RankRecord::of_words(words));
                of_round[turn.way] = records.collect();
            }
        }
        // A round that was cut short does not count.
        if !gather::agree(fabric, !stop.is_requested())? {
            break;
        }
        rounds += 1;
        for (series, records) in series.iter_mut().zip(&of_round) {
            add(series, records);
        }
    }
    let machine = load.finish(fabric)?;
    let node = nodes.names().first().cloned().unwrap_or_default();
    let leads = fabric.rank().get() == 0;
    Ok(leads.then_some((node, machine, rounds, series)))
}

fn turn_name(state: Siblings, turn: &Turn) -> String {
    let (name, round) = (state.name(), turn.round + 1);
    format!("siblings {name}, round {round} of {ROUNDS}")
}

/// Without any step.
fn empty(ranks: usize) -> StepSeries {
    StepSeries {
        phase: 0,
        name: "computation".to_owned(),
        ranks,
        durations: Vec::new(),
        begins: Vec::new(),
    }
}

/// Adds the computations of a turn, without its warm-up.
fn add(series: &mut StepSeries, records: &[RankRecord]) {
    let steps = records.iter().map(RankRecord::iterations).min();
    let (_, skipped) = warm_up_of(records);
    for step in skipped..steps.unwrap_or(0) {
        for record in records {
            let begin = record.begins[step];
            series.begins.push(begin);
            let duration = record.arrivals[step].saturating_sub(begin);
            series.durations.push(duration);
        }
    }
}

/// Findings on every state, and each against the first.
fn states(series: &[StepSeries]) -> Vec<SmtState> {
    let first = series.first();
    let each = Siblings::ALL.into_iter().zip(series).enumerate();
    each.map(|(i, (siblings, own))| {
        let against = first.filter(|_| i > 0).map(std::slice::from_ref);
        SmtState {
            siblings,
            jitter: jitter_of(
                &own.name,
                own.ranks,
                own.begins.clone(),
                own.durations.clone(),
            ),
            against_idle: against.and_then(|idle| compare_steps([idle, std::slice::from_ref(own)])),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::What;
    use idlewave_explain::compare::{Quantity, Verdict};
    use idlewave_run::{Coupling, ExchangeVariant};
    use idlewave_session::Quiet;
    use idlewave_units::CpuSet;
    use std::sync::atomic::Ordering;

    fn options() -> MeasureOptions {
        let mut options = MeasureOptions::new(What::Lockstep {
            coupling: Coupling::Neighbours,
            dims: 1,
            variants: vec![ExchangeVariant::NonBlocking],
            bytes: None,
        });
        options.duration = Nanos::from_millis(100);
        options
    }

    /// Two CPUs of this machine as if they were siblings; one, if there is only one.
    fn made_up() -> Layout {
        let allowed = idlewave_sys::affinity::allowed().expect("CPUs");
        let cpus: Vec<_> = allowed.iter().take(2).collect();
        Layout {
            cores: vec![Core {
                cpu: cpus[0],
                siblings: cpus[cpus.len() - 1..].iter().copied().collect(),
            }],
            left_out: CpuSet::default(),
        }
    }

    #[test]
    fn all_states_are_measured_and_compared_with_the_first() {
        let before = idlewave_sys::affinity::allowed().expect("CPUs");
        let found = on_cores(&options(), made_up(), &Stop::default(), &Quiet).expect("a result");
        assert_eq!(found.rounds, u64::from(ROUNDS));
        let names: Vec<_> = found.states.iter().map(|s| s.siblings.name()).collect();
        assert_eq!(names, ["idle", "free", "busy"]);
        for state in &found.states {
            let jitter = state.jitter.as_ref().expect("steps");
            assert_eq!(jitter.ranks, 1);
            // One rank waits for nobody.
            assert_eq!(jitter.efficiency.value, 1.0);
            assert!(jitter.slowest.duration >= jitter.median);
            let compared = state.siblings != Siblings::Idle;
            assert_eq!(state.against_idle.is_some(), compared, "{state:?}");
        }
        // The calling thread was rank 0.
        assert_eq!(idlewave_sys::affinity::allowed().expect("CPUs"), before);
        let text = render_smt(&found);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }

    #[test]
    fn an_interrupted_first_round_has_no_result() {
        let stop = Stop::default();
        stop.flag.store(true, Ordering::Relaxed);
        let error = on_cores(&options(), made_up(), &stop, &Quiet).expect_err("no round");
        assert!(
            error.to_string().contains("nothing was measured"),
            "{error}"
        );
    }

    #[test]
    fn a_state_with_longer_computations_is_found() {
        // Two ranks, 400 steps of 1000 to 1012 ns; with busy siblings 200 ns more.
        let series = [0, 0, 200].map(|more| {
            let mut series = empty(2);
            let record = |rank: u64| RankRecord {
                begins: (0..=400).map(|k| k * 2_000).collect(),
                arrivals: (0..400)
                    .map(|k| k * 2_000 + 1_000 + more + (k * 7 + rank * 5) % 13)
                    .collect(),
                ..RankRecord::default()
            };
            add(&mut series, &[record(0), record(1)]);
            series
        });
        assert_eq!(series[0].durations[..4], [1_000, 1_005, 1_007, 1_012]);
        assert_eq!(series[0].begins[..4], [0, 0, 2_000, 2_000]);
        let states = states(&series);
        let mean = |i: usize| {
            let comparison: &Option<Comparison> = &states[i].against_idle;
            let mut rows = comparison.iter().flat_map(|c| &c.rows);
            let row = rows.find(|row| row.quantity == Quantity::Mean);
            let row = row.expect("means are compared");
            (row.verdict, row.shift.value.round())
        };
        assert_eq!(mean(1), (Verdict::NotSignificant, 0.0));
        assert_eq!(mean(2), (Verdict::More, 200.0));
        assert!(states[0].against_idle.is_none());
    }
}
