//! The life of every thread, in order of time: when it ran, and what it did in between.
//!
//! Bursts and wake-ups are read side by side in order of time (see
//! [`RunReader::in_order`](idlewave_run::RunReader::in_order)), so memory holds one state per
//! thread, however long the trace. Between two bursts, a thread was ready from the end of the first
//! if it was preempted; otherwise it was blocked until it was woken, and ready from then on. If the
//! trace does not say (no wake-up was recorded, a burst has no certain end), the thread counts as
//! neither.

use super::scope::Scope;
use crate::ExplainError;
use idlewave_run::RunReader;
use idlewave_run::tables::{Burst, Bursts, EndReason, Wakeups};
use idlewave_units::{Cpu, NodeId, Pid};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// A stretch of time in which a thread was not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Its node.
    pub node: NodeId,
    /// The thread.
    pub pid: Pid,
    /// The CPU on which it ran next.
    pub cpu: Cpu,
    /// Start.
    pub begin: u64,
    /// End.
    pub end: u64,
    /// What it did.
    pub kind: GapKind,
}

/// What a thread did while it was not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapKind {
    /// Ready: from the wake-up to the switch-in.
    ReadyWoken,
    /// Ready: from the preemption to the switch-in.
    ReadyPreempted,
    /// Blocked: asleep until it was woken.
    Blocked,
    /// Blocked in uninterruptible sleep.
    BlockedUninterruptible,
    /// The trace does not say.
    Unknown,
}

impl GapKind {
    /// Whether the thread could have run.
    pub fn is_ready(self) -> bool {
        matches!(self, Self::ReadyWoken | Self::ReadyPreempted)
    }
}

/// A burst, and how it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its node.
    pub node: NodeId,
    /// The thread.
    pub pid: Pid,
    /// CPU.
    pub cpu: Cpu,
    /// Start, not cut to the scope.
    pub begin: u64,
    /// End, not cut to the scope.
    pub end: u64,
    /// Why it ended.
    pub end_reason: EndReason,
    /// When the thread was woken for it; `None` if it goes on after a preemption, or no wake-up was
    /// recorded.
    pub woken: Option<u64>,
    /// Whether it goes on after a preemption.
    pub resumed: bool,
    /// Whether the previous burst was on another CPU.
    pub moved: bool,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A thread did not run until now.
    Gap(Gap),
    /// A thread runs.
    Ran(Ran),
}

/// The last burst of a thread.
#[derive(Clone, Copy, Debug)]
struct Last {
    cpu: Cpu,
    end: u64,
    reason: EndReason,
}

/// What is known about a thread.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    last: Option<Last>,
    /// The first wake-up since the end of the last burst.
    woken: Option<u64>,
}

/// Steps between two checks of the flag that stops the walk.
const LOOK: u64 = 1 << 14;

/// Visits the life of every thread but the idle ones, in order of time. Gaps end in the scope and
/// on its CPUs; bursts overlap with it.
pub fn walk(
    run: &RunReader,
    scope: &Scope,
    stop: &AtomicBool,
    mut visit: impl FnMut(Step),
) -> Result<(), ExplainError> {
    let mut bursts = run.in_order::<Bursts>(|b| b.begin_ns)?;
    let mut wakeups = run.in_order::<Wakeups>(|w| w.time_ns)?;
    let mut states: BTreeMap<(NodeId, Pid), State> = BTreeMap::new();
    let mut steps = 0_u64;
    while let Some(begin) = bursts.peek() {
        steps += 1;
        if steps % LOOK == 0 && stop.load(Ordering::Relaxed) {
            return Err(ExplainError::Interrupted);
        }
        if wakeups.peek().is_some_and(|time| time <= begin) {
            let Some(wakeup) = wakeups.next_row()? else {
                continue;
            };
            if scope.has_thread(wakeup.node, wakeup.pid) {
                let state = states.entry((wakeup.node, wakeup.pid)).or_default();
                if state.last.is_none_or(|last| wakeup.time_ns >= last.end) {
                    state.woken.get_or_insert(wakeup.time_ns);
                }
            }
            continue;
        }
        let Some(burst) = bursts.next_row()? else {
            continue;
        };
        if burst.pid == Pid::IDLE || !scope.has_thread(burst.node, burst.pid) {
            continue;
        }
        let state = states.entry((burst.node, burst.pid)).or_default();
        enter(state, &burst, scope, &mut visit);
    }
    Ok(())
}

fn enter(state: &mut State, burst: &Burst, scope: &Scope, visit: &mut impl FnMut(Step)) {
    let last = state.last;
    let woken = state.woken.filter(|_| burst.certain);
    let resumed = last.is_some_and(|l| l.reason == EndReason::Preempted);
    if scope.has_cpu(burst.node, burst.cpu) && scope.has_time(burst.begin_ns) {
        let mut gap = |begin: u64, end: u64, kind| {
            if begin <= end {
                visit(Step::Gap(Gap {
                    node: burst.node,
                    pid: burst.pid,
                    cpu: burst.cpu,
                    begin,
                    end,
                    kind,
                }));
            }
        };
        let blocked = |reason| match reason {
            EndReason::Uninterruptible => GapKind::BlockedUninterruptible,
            _ => GapKind::Blocked,
        };
        match (last, woken) {
            (Some(l), _) if l.reason == EndReason::Preempted && burst.certain => {
                gap(l.end, burst.begin_ns, GapKind::ReadyPreempted);
            }
            (Some(l), Some(woken)) if l.reason != EndReason::Unknown => {
                gap(l.end, woken, blocked(l.reason));
                gap(woken, burst.begin_ns, GapKind::ReadyWoken);
            }
            (_, Some(woken)) => gap(woken, burst.begin_ns, GapKind::ReadyWoken),
            (Some(l), None) => gap(l.end, burst.begin_ns, GapKind::Unknown),
            (None, None) => {}
        }
    }
    let inside = scope.clip(burst.begin_ns, burst.end_ns).is_some();
    if inside && scope.has_cpu(burst.node, burst.cpu) {
        visit(Step::Ran(Ran {
            node: burst.node,
            pid: burst.pid,
            cpu: burst.cpu,
            begin: burst.begin_ns,
            end: burst.end_ns,
            end_reason: burst.end_reason,
            woken: woken.filter(|_| !resumed),
            resumed,
            moved: last.is_some_and(|l| l.cpu != burst.cpu),
        }));
    }
    *state = State {
        last: Some(Last {
            cpu: burst.cpu,
            end: burst.end_ns,
            reason: burst.end_reason,
        }),
        woken: None,
    };
}
