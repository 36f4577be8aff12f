//! System calls of the ranks: how often, how long, and how much of that on a CPU.
//!
//! A thread is in at most one call at a time, so its entries and returns, in order of time, are
//! pairs. An entry that another entry follows has lost its return (`exit` has none); a return
//! without an entry belongs to a call from before the recording. The time of a call that the thread
//! spent on a CPU is that of its bursts, interrupts included; the rest it was blocked or ready.

use super::lengths::{LengthSummary, Lengths};
use super::scope::Scope;
use super::threads::{Thread, Threads};
use crate::ExplainError;
use idlewave_run::RunReader;
use idlewave_run::tables::{Burst, Bursts, Syscall};
use idlewave_units::{Nanos, NodeId, Pid};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use syscalls::{aarch64, x86_64};

/// Calls between two checks of the flag that stops the pass.
const LOOK: u64 = 1 << 14;

/// System calls of all threads in the scope.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Syscalls {
    /// By call, most time first.
    pub calls: Vec<SyscallRow>,
    /// By thread, most time first.
    pub threads: Vec<CallingThread>,
}

/// A call, of all threads together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SyscallRow {
    /// Its name; "call 600" where this version of idlewave knows none, "cancelled" where a tracer
    /// had replaced the number.
    pub call: String,
    /// From entry to return, of those that returned.
    pub lengths: LengthSummary,
    /// How much of that time the threads were on a CPU.
    pub on_cpu: Nanos,
    /// Calls that were not seen to return.
    pub not_returned: u64,
}

/// A thread, with all its calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallingThread {
    /// Who it is.
    pub thread: Thread,
    /// Calls that returned.
    pub calls: u64,
    /// Their time.
    pub time: Nanos,
    /// How much of it the thread was on a CPU.
    pub on_cpu: Nanos,
}

/// A call that has not returned yet.
#[derive(Clone, Debug)]
struct Open {
    call: Syscall,
    /// Time that the thread had been on a CPU by then.
    on_cpu: u64,
}

/// What is known about a thread.
#[derive(Debug, Default)]
struct State {
    /// Its time on a CPU in the bursts before the last one.
    ran: u64,
    /// Its last burst.
    last: (u64, u64),
    open: Option<Open>,
    calls: u64,
    time: u64,
    on_cpu: u64,
}

impl State {
    fn burst(&mut self, burst: &Burst) {
        self.ran = self.ran.saturating_add(self.last.1 - self.last.0);
        // A damaged run may say that it ended before it began.
        self.last = (burst.begin_ns, burst.end_ns.max(burst.begin_ns));
    }

    /// Time on a CPU until `time`, which lies in the last burst or after it.
    fn on_cpu(&self, time: u64) -> u64 {
        let (begin, end) = self.last;
        self.ran.saturating_add(time.clamp(begin, end) - begin)
    }
}

#[derive(Debug, Default)]
struct Sums {
    lengths: Lengths,
    on_cpu: u64,
    not_returned: u64,
}

/// Collects calls that begin in the scope.
struct Pass<'a> {
    run: &'a RunReader,
    scope: &'a Scope,
    calls: BTreeMap<String, Sums>,
}

impl Pass<'_> {
    fn take(&mut self, state: &mut State, row: Syscall) {
        let on_cpu = state.on_cpu(row.time_ns);
        let open = state.open.take();
        if !row.returned {
            self.lost(open);
            state.open = Some(Open { call: row, on_cpu });
            return;
        }
        let Some(open) = open else {
            return;
        };
        // The return from a signal handler has no number.
        if row.number.is_some_and(|n| Some(n) != open.call.number) {
            self.lost(Some(open));
            return;
        }
        if let Some(sums) = self.sums(&open.call) {
            let (length, ran) = (row.time_ns - open.call.time_ns, on_cpu - open.on_cpu);
            sums.lengths.add(length);
            sums.on_cpu = sums.on_cpu.saturating_add(ran);
            state.calls += 1;
            state.time = state.time.saturating_add(length);
            state.on_cpu = state.on_cpu.saturating_add(ran);
        }
    }

    /// A call that was not seen to return.
    fn lost(&mut self, open: Option<Open>) {
        if let Some(sums) = open.and_then(|open| self.sums(&open.call)) {
            sums.not_returned += 1;
        }
    }

    /// Where a call counts; `None` if not in the scope.
    fn sums(&mut self, call: &Syscall) -> Option<&mut Sums> {
        let asked = self.scope.has_time(call.time_ns) && self.scope.has_cpu(call.node, call.cpu);
        asked.then(|| self.calls.entry(self.name(call)).or_default())
    }

    fn name(&self, call: &Syscall) -> String {
        let Some(number) = call.number else {
            return "cancelled".to_owned();
        };
        let mut nodes = self.run.manifest().nodes.iter();
        let node = nodes.find(|n| n.node == call.node);
        let name = match node.map(|n| n.host.architecture.as_str()) {
            Some("x86_64") => x86_64::Sysno::new(number as usize).map(|n| n.name()),
            Some("aarch64") => aarch64::Sysno::new(number as usize).map(|n| n.name()),
            _ => None,
        };
        name.map_or_else(|| format!("call {number}"), str::to_owned)
    }
}

/// The view.
pub fn syscalls(
    run: &RunReader,
    threads: &Threads,
    scope: &Scope,
    stop: &AtomicBool,
) -> Result<Syscalls, ExplainError> {
    let mut rows = run.in_order::<idlewave_run::tables::Syscalls>(|s| s.time_ns)?;
    let mut bursts = run.in_order::<Bursts>(|b| b.begin_ns)?;
    let mut states: BTreeMap<(NodeId, Pid), State> = BTreeMap::new();
    let mut pass = Pass {
        run,
        scope,
        calls: BTreeMap::new(),
    };
    let mut seen = 0_u64;
    while let Some(row) = rows.next_row()? {
        seen += 1;
        if seen % LOOK == 0 && stop.load(Ordering::Relaxed) {
            return Err(ExplainError::Interrupted);
        }
        while bursts.peek().is_some_and(|begin| begin <= row.time_ns) {
            if let Some(burst) = bursts.next_row()? {
                if burst.pid != Pid::IDLE && scope.has_thread(burst.node, burst.pid) {
                    states
                        .entry((burst.node, burst.pid))
                        .or_default()
                        .burst(&burst);
                }
            }
        }
        if scope.has_thread(row.node, row.pid) {
            pass.take(states.entry((row.node, row.pid)).or_default(), row);
        }
    }
    for state in states.values_mut() {
        pass.lost(state.open.take());
    }
    let row = |(call, sums): (String, Sums)| SyscallRow {
        call,
        lengths: sums.lengths.summary(),
        on_cpu: Nanos::from_nanos(sums.on_cpu),
        not_returned: sums.not_returned,
    };
    let mut calls: Vec<SyscallRow> = pass.calls.into_iter().map(row).collect();
    calls.sort_by_key(|row| Reverse(row.lengths.total));
    states.retain(|_, state| state.calls > 0);
    let thread = |((node, pid), state): ((NodeId, Pid), State)| CallingThread {
        thread: threads.of(node, pid),
        calls: state.calls,
        time: Nanos::from_nanos(state.time),
        on_cpu: Nanos::from_nanos(state.on_cpu),
    };
    let mut threads: Vec<CallingThread> = states.into_iter().map(thread).collect();
    threads.sort_by_key(|row| Reverse(row.time));
    Ok(Syscalls { calls, threads })
}
