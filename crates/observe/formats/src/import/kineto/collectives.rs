//! Turns launches and runs into calls.

use crate::import::kineto::head::Group;
use crate::import::kineto::names;
use crate::import::kineto::trace::{By, Lane, Launch, Name, Run, Trace};
use idlewave_run::tables::OperationClass;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A call of a rank.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub lane: Lane,
    pub name: String,
    pub class: OperationClass,
    /// Whether nobody returns from it before all have called it.
    pub waits_for_all: bool,
    pub begin: u64,
    pub end: u64,
    /// Index into the groups.
    pub group: Option<usize>,
    /// A rank of the program.
    pub root: Option<u32>,
    pub sent: Option<u64>,
    pub received: Option<u64>,
    /// When it was launched, which gives the order of a group's collectives.
    order: u64,
}

/// What is uncertain about calls.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Collectives whose group the trace does not name.
    pub ungrouped: u64,
    /// Collectives whose group was inferred from the threads that ran them.
    pub by_thread: u64,
    /// Collectives from a root, or to one, that the trace does not name.
    pub rootless: u64,
    /// Collectives that their thread seems to have waited for.
    pub blocking: u64,
    /// Collectives that ran while their thread did other work.
    pub beside: u64,
    /// Collectives that were launched on a GPU whose kernels are not in the trace.
    pub unseen: u64,
}

/// The calls of a rank in the order of their launches, and what is uncertain about them. `groups`
/// are those of the trace, the whole program first; `own` are those of the rank.
pub(super) fn calls(trace: &Trace, groups: &[Group], own: &[usize]) -> (Vec<Found>, Doubts) {
    let mut doubts = Doubts::default();
    let own = Own::of(trace, groups, own);
    let mut launches = Launches::of(trace);
    let mut runs: Vec<&Run> = trace.runs.iter().collect();
    runs.sort_by_key(|run| (run.begin, run.lane));
    let mut found: Vec<Found> = Vec::with_capacity(runs.len());
    for run in runs {
        let class = trace.class(run.plain);
        let launch = match run.lane {
            Lane::Thread(_) if !is_message(class) => launches.of_run(run),
            _ => None,
        };
        found.push(call(trace, &own, run, class, launch, &mut doubts));
    }
    launched(trace, &mut found, &mut doubts);
    found.sort_by_key(|call| (call.order, call.begin, call.lane));
    (found, doubts)
}

/// Whether a call is between two ranks, not of a group.
pub(super) fn is_message(class: OperationClass) -> bool {
    use OperationClass::{Receive, Send, SendReceive};
    matches!(class, Send | Receive | SendReceive)
}

/// Turns a run into a call.
fn call(
    trace: &Trace,
    own: &Own<'_>,
    run: &Run,
    class: OperationClass,
    launch: Option<&Launch>,
    doubts: &mut Doubts,
) -> Found {
    let (group, by_thread) = own.group(trace, run, launch);
    let of_root = matches!(class, OperationClass::FromRoot | OperationClass::ToRoot);
    let root = launch
        .filter(|_| of_root)
        .and_then(|launch| launch.root)
        .zip(group)
        .and_then(|(root, group)| own.groups[group].members.get(root as usize).copied());
    if !is_message(class) {
        doubts.ungrouped += u64::from(group.is_none());
        doubts.by_thread += u64::from(by_thread);
    }
    doubts.rootless += u64::from(of_root && root.is_none());
    let blocked = launch.and_then(|launch| Some((launch, released(launch, run)?)));
    doubts.blocking += u64::from(blocked.is_some());
    doubts.beside += u64::from(launch.is_some() && blocked.is_none());
    let (lane, begin, end) = match blocked {
        Some((launch, end)) => (Lane::Thread(launch.thread), launch.begin, end),
        None => (run.lane, run.begin, run.end),
    };
    Found {
        lane,
        name: trace.names.text(run.label).to_owned(),
        class,
        waits_for_all: names::waits_for_all(trace.names.text(run.plain)),
        begin,
        end,
        group,
        root,
        sent: run.sent,
        received: run.received,
        order: launch.map_or(run.begin, |l| l.begin),
    }
}

/// When the thread that launched a collective went on, if it waited; `None` if the collective ran
/// beside other work.
///
/// The trace does not say that a thread waits, only when it does something: it waited if it did
/// nothing for at least half of the time. A worker wakes the thread before it notes its own end, so
/// the thread may go on a little earlier than that.
fn released(launch: &Launch, run: &Run) -> Option<u64> {
    let went_on = launch.next.map_or(run.end, |next| next.min(run.end));
    let idle = went_on.saturating_sub(launch.end);
    (went_on >= run.begin && idle >= run.end.saturating_sub(went_on)).then_some(went_on)
}

/// Adds the launches on a GPU: what the CPU did for its collectives.
fn launched(trace: &Trace, found: &mut Vec<Found>, doubts: &mut Doubts) {
    let on_gpu = trace
        .runs
        .iter()
        .any(|run| matches!(run.lane, Lane::Stream(..)));
    let told = trace.launches.iter().filter(|l| l.by == By::Parameters);
    let mut count = 0;
    for launch in told {
        count += 1;
        let name = names::spelled(trace.names.text(launch.name));
        found.push(Found {
            lane: Lane::Thread(launch.thread),
            name: format!("launch of nccl:{name}"),
            class: OperationClass::Other,
            waits_for_all: false,
            begin: launch.begin,
            end: launch.end,
            group: None,
            root: None,
            sent: None,
            received: None,
            order: launch.begin,
        });
    }
    if !on_gpu {
        doubts.unseen = trace.on_gpu.max(count);
    }
}

/// Launches by operators that are still without their run, by name, in order.
struct Launches<'t>(BTreeMap<Name, VecDeque<&'t Launch>>);

impl<'t> Launches<'t> {
    fn of(trace: &'t Trace) -> Self {
        let mut by_name: BTreeMap<Name, VecDeque<&Launch>> = BTreeMap::new();
        let mut all: Vec<&Launch> = trace.launches.iter().collect();
        all.retain(|launch| launch.by == By::Operator);
        all.sort_by_key(|launch| launch.begin);
        for launch in all {
            by_name.entry(launch.name).or_default().push_back(launch);
        }
        Self(by_name)
    }

    /// The launch of a run. Workers take collectives in the order of their launches, and runs come
    /// here in the order of their starts.
    fn of_run(&mut self, run: &Run) -> Option<&'t Launch> {
        let waiting = self.0.get_mut(&run.plain)?;
        let first = waiting.front()?;
        // A run that began earlier was launched before the trace.
        if first.begin > run.begin {
            return None;
        }
        waiting.pop_front()
    }
}

/// Worker threads that gloo starts for a group
/// (`ProcessGroupGloo::Options`).
const WORKERS: usize = 2;

/// The groups that a rank is in.
struct Own<'t> {
    groups: &'t [Group],
    by_name: BTreeMap<&'t str, usize>,
    /// The only group, if there is just one.
    only: Option<usize>,
    /// The groups of worker threads, by the order in which groups and threads were created; empty
    /// unless every group has its threads.
    of_workers: BTreeMap<u32, usize>,
}

impl<'t> Own<'t> {
    fn of(trace: &Trace, groups: &'t [Group], own: &[usize]) -> Self {
        let main: BTreeSet<u32> = trace.launches.iter().map(|l| l.thread).collect();
        let threads: BTreeSet<u32> = trace
            .runs
            .iter()
            .filter_map(|run| match run.lane {
                Lane::Thread(thread) if !main.contains(&thread) => Some(thread),
                _ => None,
            })
            .collect();
        let numbered = threads.iter().zip(0..);
        let of_workers = match threads.len() == WORKERS * own.len() {
            true => numbered
                .map(|(thread, at): (_, usize)| (*thread, own[at / WORKERS]))
                .collect(),
            false => BTreeMap::new(),
        };
        Self {
            groups,
            by_name: own
                .iter()
                .rev()
                .map(|&at| (groups[at].name.as_str(), at))
                .collect(),
            only: own.first().copied().filter(|_| own.len() == 1),
            of_workers,
        }
    }

    /// The group of a run: the one that it or its launch names, or the only one, or that of its
    /// thread. Also whether it was inferred from the thread.
    fn group(&self, trace: &Trace, run: &Run, launch: Option<&Launch>) -> (Option<usize>, bool) {
        if let Some(name) = run.group.or(launch.and_then(|l| l.group)) {
            return (self.by_name.get(trace.names.text(name)).copied(), false);
        }
        let of_thread = match run.lane {
            Lane::Thread(thread) if self.only.is_none() => self.of_workers.get(&thread).copied(),
            _ => None,
        };
        (self.only.or(of_thread), of_thread.is_some())
    }
}
