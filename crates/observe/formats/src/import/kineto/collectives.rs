//! Launches and runs as calls.

use crate::import::kineto::names;
use crate::import::kineto::trace::{By, Lane, Launch, Name, Run, Trace};
use idlewave_run::tables::OperationClass;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A process group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub name: String,
    pub members: Vec<u32>,
}

/// A call of a rank.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub lane: Lane,
    pub name: String,
    pub class: OperationClass,
    pub begin: u64,
    pub end: u64,
    /// Index among the groups.
    pub group: Option<usize>,
    /// A rank of the program.
    pub root: Option<u32>,
    pub sent: Option<u64>,
    pub received: Option<u64>,
    /// When it was launched: the order of a group's collectives.
    order: u64,
}

/// The calls of a rank, and what is uncertain of them.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// In the order in which they were launched.
    pub all: Vec<Found>,
    /// Collectives whose group the trace does not name.
    pub ungrouped: u64,
    /// Collectives whose group follows from the threads that carried them out.
    pub by_thread: u64,
    /// Collectives from a root, or to one, that the trace does not name.
    pub rootless: u64,
    /// Collectives that ran beside what their thread did.
    pub beside: u64,
    /// Collectives that were launched on a GPU whose kernels are not in the trace.
    pub unseen: u64,
}

/// The calls of a rank. `groups` are those of the trace, the whole program first; `own` are those
/// that the rank is in.
pub(super) fn calls(trace: &Trace, groups: &[Group], own: &[usize]) -> Calls {
    let mut out = Calls::default();
    let workers = workers(trace, own);
    let mut launches = Launches::of(trace);
    let mut runs: Vec<&Run> = trace.runs.iter().collect();
    runs.sort_by_key(|run| (run.begin, run.lane));
    for run in runs {
        let class = trace.class(run.plain);
        let is_message = matches!(class, OperationClass::Send | OperationClass::Receive);
        let launch = match run.lane {
            Lane::Thread(_) if !is_message => launches.of_run(run),
            _ => None,
        };
        let named = run.group.or(launch.and_then(|l| l.group));
        let group = match (named, run.lane) {
            (Some(name), _) => place(groups, own, trace.names.text(name)),
            (None, _) if own.len() == 1 => own.first().copied(),
            (None, Lane::Thread(thread)) => {
                let group = workers.get(&thread).copied();
                out.by_thread += u64::from(group.is_some() && !is_message);
                group
            }
            (None, Lane::Stream(..)) => None,
        };
        let is_rooted = matches!(class, OperationClass::FromRoot | OperationClass::ToRoot);
        let root = launch
            .and_then(|l| l.root)
            .zip(group)
            .and_then(|(root, group)| groups[group].members.get(root as usize).copied());
        let root = root.filter(|_| is_rooted);
        out.ungrouped += u64::from(group.is_none() && !is_message);
        out.rootless += u64::from(is_rooted && root.is_none());
        let blocked = launch.and_then(|launch| Some((launch, released(launch, run)?)));
        out.beside += u64::from(launch.is_some() && blocked.is_none());
        let (lane, begin, end) = match blocked {
            Some((launch, end)) => (Lane::Thread(launch.thread), launch.begin, end),
            None => (run.lane, run.begin, run.end),
        };
        out.all.push(Found {
            lane,
            name: trace.names.text(run.label).to_owned(),
            class,
            begin,
            end,
            group,
            root,
            sent: run.sent,
            received: run.received,
            order: launch.map_or(run.begin, |l| l.begin),
        });
    }
    launched(trace, &mut out);
    out.all
        .sort_by_key(|call| (call.order, call.begin, call.lane));
    out
}

/// When the thread that launched a collective went on, if it waited for it; `None` if the
/// collective ran beside other work.
///
/// The trace does not say that a thread waits, only when it does something: it waited if it did
/// nothing for more than half of the time. A worker tells the thread first and notes its own end
/// then, so the thread may go on a little before that.
fn released(launch: &Launch, run: &Run) -> Option<u64> {
    let went_on = launch.next.map_or(run.end, |next| next.min(run.end));
    let idle = went_on.saturating_sub(launch.end);
    (went_on >= run.begin && idle >= run.end.saturating_sub(went_on)).then_some(went_on)
}

/// The group of this name, of those that the rank is in.
fn place(groups: &[Group], own: &[usize], name: &str) -> Option<usize> {
    own.iter().copied().find(|&at| groups[at].name == name)
}

/// Launches on a GPU: what the CPU did for its collectives.
fn launched(trace: &Trace, out: &mut Calls) {
    let on_gpu = trace
        .runs
        .iter()
        .any(|run| matches!(run.lane, Lane::Stream(..)));
    let told = trace.launches.iter().filter(|l| l.by == By::Parameters);
    let mut count = 0;
    for launch in told {
        count += 1;
        let name = names::spelled(trace.names.text(launch.name));
        out.all.push(Found {
            lane: Lane::Thread(launch.thread),
            name: format!("launch of nccl:{name}"),
            class: OperationClass::Other,
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
        out.unseen = trace.on_gpu.max(count);
    }
}

/// Launches by operators that wait for their run, by their names, in order.
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

    /// The launch of a run. Workers take collectives in the order in which they were launched, and
    /// runs are asked for in the order of their starts.
    fn of_run(&mut self, run: &Run) -> Option<&'t Launch> {
        let waiting = self.0.get_mut(&run.plain)?;
        let first = waiting.front()?;
        // A run that began before was launched before the trace.
        if first.begin > run.begin {
            return None;
        }
        waiting.pop_front()
    }
}

/// Worker threads that gloo starts for a group
/// (`ProcessGroupGloo::Options`).
const WORKERS: usize = 2;

/// The groups of worker threads, by the order in which groups and threads were made; empty unless
/// every group has its threads.
fn workers(trace: &Trace, own: &[usize]) -> BTreeMap<u32, usize> {
    let main: BTreeSet<u32> = trace.launches.iter().map(|l| l.thread).collect();
    let threads: BTreeSet<u32> = trace
        .runs
        .iter()
        .filter_map(|run| match run.lane {
            Lane::Thread(thread) if !main.contains(&thread) => Some(thread),
            _ => None,
        })
        .collect();
    if threads.len() != WORKERS * own.len() {
        return BTreeMap::new();
    }
    let of = |(at, thread): (usize, u32)| (thread, own[at / WORKERS]);
    threads.into_iter().enumerate().map(of).collect()
}
