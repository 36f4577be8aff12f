//! How long every thread stayed in its states: running, ready, blocked.

use super::lengths::{LengthSummary, Lengths};
use super::scope::Scope;
use super::seen::Seen;
use super::threads::{Thread, Threads};
use super::walk::{GapKind, Step, walk};
use crate::ExplainError;
use idlewave_run::RunReader;
use idlewave_units::{Nanos, NodeId, Pid};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// How long the stays of every thread in its states lasted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct States {
    /// From the first to the last burst in the scope.
    pub watched: Nanos,
    /// The threads, most CPU time first.
    pub threads: Vec<StatesRow>,
}

/// The stays of a thread in its states.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatesRow {
    /// Who it is.
    pub thread: Thread,
    /// On a CPU.
    pub running: LengthSummary,
    /// Woken or preempted, and not on a CPU.
    pub ready: LengthSummary,
    /// Asleep, interruptible or not.
    pub blocked: LengthSummary,
    /// Time between bursts in a state that the trace does not show.
    pub unknown: Nanos,
}

/// The view.
pub fn states(
    run: &RunReader,
    threads: &Threads,
    scope: &Scope,
    stop: &AtomicBool,
) -> Result<States, ExplainError> {
    #[derive(Default)]
    struct Stays {
        running: Lengths,
        ready: Lengths,
        blocked: Lengths,
        unknown: u64,
    }
    let mut all: BTreeMap<(NodeId, Pid), Stays> = BTreeMap::new();
    let mut seen = Seen::default();
    walk(run, scope, stop, |step| match step {
        Step::Gap(gap) => {
            let stays = all.entry((gap.node, gap.pid)).or_default();
            let length = gap.end - gap.begin;
            match gap.kind {
                GapKind::ReadyWoken | GapKind::ReadyPreempted => stays.ready.add(length),
                GapKind::Blocked | GapKind::BlockedUninterruptible => stays.blocked.add(length),
                GapKind::Unknown => stays.unknown += length,
            }
        }
        Step::Ran(ran) => {
            if let Some((begin, end)) = scope.clip(ran.begin, ran.end) {
                seen.add(&ran, begin, end);
                let stays = all.entry((ran.node, ran.pid)).or_default();
                stays.running.add(end - begin);
            }
        }
    })?;
    let mut rows: Vec<StatesRow> = all
        .into_iter()
        .map(|((node, pid), stays)| StatesRow {
            thread: threads.of(node, pid),
            running: stays.running.summary(),
            ready: stays.ready.summary(),
            blocked: stays.blocked.summary(),
            unknown: Nanos::from_nanos(stays.unknown),
        })
        .collect();
    rows.sort_by_key(|r| (Reverse(r.running.total), r.thread.node, r.thread.pid));
    Ok(States {
        watched: Nanos::from_nanos(seen.watched()),
        threads: rows,
    })
}
