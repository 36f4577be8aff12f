//! `idlewave measure smt`: one rank per core in lockstep, while the other hardware threads of the
//! cores are idle, free for the kernel to use, or busy (docs/measure.md#hardware-threads-of-a-core).

mod plan;
mod render;

use crate::bundle::Bundle;
use crate::keeping::Keeping;
use crate::load::LoadMeter;
use crate::lockstep::{ROUNDS, Request, Turn, plan, turns, work_steps};
use crate::place::{allowed_of, bound};
use crate::rank_run::{RankPlan, RankRecord, run};
use crate::ranks::Ranks;
use crate::threads::{MOST_THREADS, on_threads};
use crate::{MeasureError, MeasureOptions, NodeLoad, gather};
use idlewave_capture::host::read_host;
use idlewave_clock::{Calibration, Counter};
use idlewave_explain::compare::{Comparison, compare_steps};
use idlewave_explain::series::{SeriesFindings, findings};
use idlewave_explain::{StepSeries, jitter_of, ways};
use idlewave_fabric::{Endpoint, Fabric, PointToPoint, Waiting};
use idlewave_mpi::Launch;
pub use idlewave_run::Siblings;
use idlewave_run::findings::{JitterFindings, Ways};
use idlewave_run::{Coupling, ExchangeVariant, Neighbour};
use idlewave_session::{Progress, SessionError, Stop, check_machine};
use idlewave_units::Nanos;
use idlewave_workloads::Neighbours;
use plan::why_none;
pub use plan::{Core, Layout};
pub use render::render_smt;
use serde::Serialize;
use std::path::{Path, PathBuf};

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
    /// The steps of each state against the first, round by round.
    pub ways: Option<Ways>,
    /// How busy other processes kept the node.
    pub machine: Vec<NodeLoad>,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// The bundle, if one was requested.
    pub bundle: Option<PathBuf>,
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
    let (node, machine, rounds) = found.ok_or(MeasureError::Panicked)?;
    if rounds.count == 0 {
        let kept = "nothing was measured".to_owned();
        return Err(SessionError::Interrupted { kept }.into());
    }
    Ok(SmtOutcome {
        node,
        work: options.work,
        rounds: rounds.count,
        states: states(&rounds.series),
        ways: ways(&OF, &rounds.findings),
        machine,
        interrupted: stop.is_requested(),
        bundle: options.output.clone(),
        layout,
    })
}

/// What distinguishes the states.
const OF: [(ExchangeVariant, Option<Siblings>); 3] = [
    (ExchangeVariant::NonBlocking, Some(Siblings::Idle)),
    (ExchangeVariant::NonBlocking, Some(Siblings::Free)),
    (ExchangeVariant::NonBlocking, Some(Siblings::Busy)),
];

/// The complete rounds, on rank 0.
struct Rounds {
    count: u64,
    /// The computations in every state.
    series: Vec<StepSeries>,
    /// By round and state.
    findings: Vec<Vec<Option<SeriesFindings>>>,
}

impl Rounds {
    fn new(ranks: u32) -> Self {
        let empty = |_| StepSeries::empty(0, "computation".to_owned(), ranks as usize);
        Self {
            count: 0,
            series: Siblings::ALL.map(empty).to_vec(),
            findings: Vec::new(),
        }
    }

    /// Adds a complete round: of each state the plan and the records.
    fn add(&mut self, round: &[Option<(RankPlan, Vec<RankRecord>)>]) {
        self.count += 1;
        let mut found = Vec::new();
        for (series, turn) in self.series.iter_mut().zip(round) {
            found.push(turn.as_ref().and_then(|(plan, records)| {
                let times: Vec<_> = records.iter().map(RankRecord::times).collect();
                series.add_turn(&times);
                let sides = &plan.pattern.sides;
                findings(&times, Coupling::Neighbours, sides, Nanos::ZERO)
            }));
        }
        self.findings.push(found);
    }
}

/// Host name, its load, and the rounds.
type Measured = (String, Vec<NodeLoad>, Rounds);

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
    let leads = fabric.rank().get() == 0;
    let mut calibration = Calibration::begin(Counter::choose(Path::new("/")));
    let ranks = Ranks::gather(fabric, core.cpu, "threads of one process")?;
    let load = LoadMeter::begin(fabric, &ranks.nodes)?;
    progress.part("measuring the speed of the CPUs");
    let steps = bound(&core.of_rank(Siblings::Idle), || {
        work_steps(fabric, &calibration, options.work)
    })?;
    let beside = layout.cpus();
    let begun = Keeping::begin_beside(fabric, options, &ranks, &calibration, &beside)?;
    let Some(mut keeping) = begun else {
        return Ok(None);
    };
    let turns = turns(Siblings::ALL.len(), &[size], options.duration);
    let mut rounds = Rounds::new(size);
    for round in turns.chunks(Siblings::ALL.len()) {
        let mut of_round = Siblings::ALL.map(|_| None);
        for turn in round {
            let state = Siblings::ALL[turn.way];
            progress.part(&turn_name(state, turn));
            let mut plan = plan(options, request.pattern(size, 0), steps, turn);
            plan.max_iterations /= turns.len() as u64;
            let own = bound(&core.of_rank(state), || {
                let busy = match leads {
                    true => layout.busy(state),
                    false => Vec::new(),
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
                of_round[turn.way] = Some((plan, records.collect()));
            }
        }
        // A round that was cut short neither counts nor is kept.
        let whole = !stop.is_requested();
        if whole {
            keeping.add(|bundle| keep(bundle, round, &of_round));
        }
        // The bundle must have room for the others.
        if !gather::agree(fabric, keeping.is_well() && whole)? {
            break;
        }
        rounds.add(&of_round);
    }
    let kept = keeping.finish(fabric, options, &ranks, &mut calibration, stop);
    let machine = load.finish(fabric)?;
    kept?;
    let node = ranks.nodes.names().first().cloned().unwrap_or_default();
    Ok(leads.then_some((node, machine, rounds)))
}

/// Adds a round to the bundle, in order of time.
fn keep(
    bundle: &mut Bundle,
    round: &[Turn],
    found: &[Option<(RankPlan, Vec<RankRecord>)>],
) -> Result<(), MeasureError> {
    for turn in round {
        if let Some((plan, records)) = &found[turn.way] {
            let place = turn.place(Some(Siblings::ALL[turn.way]));
            bundle.add(plan, records, Some(place))?;
        }
    }
    Ok(())
}

fn turn_name(state: Siblings, turn: &Turn) -> String {
    let (name, round) = (state.name(), turn.round + 1);
    format!("siblings {name}, round {round} of {ROUNDS}")
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
    fn the_bundle_holds_every_turn_and_gives_the_same_comparison_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut options = options();
        options.output = Some(directory.path().join("run"));
        options.trace = false;
        let live = on_cores(&options, made_up(), &Stop::default(), &Quiet).expect("a result");
        assert_eq!(live.bundle, options.output);
        let path = options.output.expect("a bundle");
        let run = idlewave_run::RunReader::open(&path).expect("a bundle");
        let states = run.manifest().phases.iter().map(|p| match &p.kind {
            idlewave_run::PhaseKind::Lockstep { turn, .. } => {
                turn.and_then(|t| Some((t.round, t.siblings?.name())))
            }
            _ => None,
        });
        let states: Vec<_> = states.collect();
        // Forwards, then backwards.
        let first = ["idle", "free", "busy"].map(|name| Some((0, name)));
        let second = ["busy", "free", "idle"].map(|name| Some((1, name)));
        assert_eq!(states[..6], [first, second].concat());
        assert_eq!(states.len(), 36);
        let never = std::sync::atomic::AtomicBool::new(false);
        let found = idlewave_explain::explain(&run, &never).expect("an explanation");
        let mut again = found.findings.ways.expect("ways");
        for way in &mut again.ways {
            assert_eq!(way.phases.len(), 12);
            way.phases.clear();
        }
        assert_eq!(Some(&again), live.ways.as_ref());
        let jitter = &found.findings.jitter;
        let names: Vec<_> = jitter.iter().map(|j| j.name.as_str()).collect();
        let of = |name| format!("computation (siblings {name})");
        assert_eq!(names, ["idle", "free", "busy"].map(of));
        for (kept, live) in jitter.iter().zip(&live.states) {
            let live = live.jitter.as_ref().expect("steps");
            assert_eq!((kept.steps, kept.median), (live.steps, live.median));
            assert_eq!(kept.slowest.duration, live.slowest.duration);
        }
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
            let mut series = StepSeries::empty(0, String::new(), 2);
            let record = |rank: u64| RankRecord {
                begins: (0..=400).map(|k| k * 2_000).collect(),
                arrivals: (0..400)
                    .map(|k| k * 2_000 + 1_000 + more + (k * 7 + rank * 5) % 13)
                    .collect(),
                ..RankRecord::default()
            };
            let records = [record(0), record(1)];
            series.add_turn(&records.each_ref().map(RankRecord::times));
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
