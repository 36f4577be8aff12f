//! The state machine of each CPU, driven by the hooks in order.
//!
//! A dispatch (106, 10C) gives the CPU to a thread and ends every open interrupt: the kernel does
//! not return to what was interrupted. 100 begins an interrupt, 102 and 103 nest a handler in it,
//! 200 ends it and whatever is nested in it. After a dispatch, 200 says that the thread starts.

use super::hooks::{First, Hook, Named, program};
use super::threads::Threads;
use crate::import::error::ImportError;
use idlewave_ftrace::Feed;
use idlewave_ftrace::event::{Event, Handler};
use idlewave_units::{Cpu, Pid};
use std::collections::HashMap;

/// Limit on the handlers open at once; more are damage.
const MAX_DEPTH: usize = 32;
/// Limit on the handler names that are told apart.
const MAX_NAMES: usize = 4096;

/// States of `task_struct.__state`, by which [`Event::Switch`] says why a thread leaves its CPU.
const RUNNABLE: u64 = 0x100;
const SLEEPS: u64 = 0x01;
const ENDS: u64 = 0x20;

/// One CPU.
#[derive(Debug, Default)]
struct Lane {
    running: Option<Pid>,
    /// Open handlers, and whether each is of the first level.
    open: Vec<(Handler, bool)>,
    /// Why the running thread is about to leave, if known.
    leaving: Option<u64>,
}

/// All CPUs, and what they have in common.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: HashMap<Cpu, Lane>,
    handlers: HashMap<Vec<u8>, u32>,
    pub(crate) threads: Threads,
    /// Dispatches.
    pub(crate) switches: u64,
    /// Threads that left a CPU for a reason that the report does not give.
    pub(crate) unexplained: u64,
    /// Returns from handlers whose start is not in the report.
    pub(crate) strays: u64,
}

/// Where and when a hook was recorded, and by which thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) cpu: Cpu,
    pub(crate) time_ns: u64,
    /// The thread of the line, if it has one.
    pub(crate) tid: Option<u32>,
}

impl Lanes {
    /// Takes the next hook of a CPU.
    ///
    /// # Errors
    /// A table cannot be written.
    pub(crate) fn hook(
        &mut self,
        at: At,
        hook: Hook<'_>,
        feed: &mut Feed,
    ) -> Result<(), ImportError> {
        let lane = self.lanes.entry(at.cpu).or_default();
        let by = at.tid.map(|tid| self.threads.pid(tid)).or(lane.running);
        let mut tell = |event| feed.event(at.cpu, at.time_ns, by, event);
        match hook {
            Hook::Switch {
                next,
                idle,
                prev,
                prev_idle,
            } => return self.switch(at, (next, idle), (prev, prev_idle), feed),
            Hook::Interrupt(first) => {
                let (handler, name) = match first {
                    First::Decrementer => (Handler::Vector(0), &[][..]),
                    First::PageFault => (Handler::Trap, &[][..]),
                    First::Other(name) => (numbered(&mut self.handlers, name), name),
                };
                lane.enter(handler, true);
                tell(Event::Enter { handler, name })?;
            }
            Hook::Second(name) => {
                let handler = numbered(&mut self.handlers, name);
                lane.enter(handler, false);
                tell(Event::Enter { handler, name })?;
            }
            Hook::Return => match lane.open.last() {
                Some(&(handler, false)) => {
                    lane.open.pop();
                    tell(Event::Leave { handler })?;
                }
                _ => {
                    self.strays += 1;
                    feed.unknown(at.cpu);
                }
            },
            Hook::Resume => {
                let begun = lane.open.iter().rposition(|(_, first)| *first);
                let ended = lane.open.split_off(begun.unwrap_or(0));
                for (handler, _) in ended.into_iter().rev() {
                    tell(Event::Leave { handler })?;
                }
            }
            Hook::Ready(named) => return self.ready(at, by, named, feed),
            Hook::Sleep => lane.leaving = Some(SLEEPS),
            Hook::Exit => lane.leaving = Some(ENDS),
            Hook::Call => {
                // The thread runs on, whatever it was about to do.
                lane.leaving = None;
                feed.unknown(at.cpu);
            }
            Hook::Exec(named) => {
                let name = program(named.name);
                self.threads.see(named.tid, named.pid, name);
            }
            Hook::Fork(child) => {
                if let Some(parent) = by {
                    self.threads.inherit(child.tid, parent);
                    tell(Event::Fork {
                        parent,
                        child: Pid::new(child.tid),
                        comm: None,
                    })?;
                }
                self.threads.see(child.tid, child.pid, child.name);
            }
            Hook::On => self.gap(at.cpu, Some(0), feed),
            Hook::Wrapped(missed) => self.gap(at.cpu, missed, feed),
            Hook::Other => feed.unknown(at.cpu),
        }
        Ok(())
    }

    fn switch(
        &mut self,
        at: At,
        (next, idle): (Named<'_>, bool),
        (prev, prev_idle): (Option<u32>, bool),
        feed: &mut Feed,
    ) -> Result<(), ImportError> {
        self.switches += 1;
        self.threads.see(next.tid, next.pid, next.name);
        self.threads.runs(next.tid, at.cpu);
        if idle {
            self.threads.idle(next.tid);
        }
        if let (Some(prev), true) = (prev, prev_idle) {
            self.threads.idle(prev);
        }
        let next = self.threads.pid(next.tid);
        let lane = self.lanes.entry(at.cpu).or_default();
        let Some(prev) = prev.map(|tid| self.threads.pid(tid)).or(lane.running) else {
            // The thread that ran before is not known, so nothing ends.
            lane.running = Some(next);
            feed.unknown(at.cpu);
            return Ok(());
        };
        while let Some((handler, _)) = lane.open.pop() {
            feed.event(at.cpu, at.time_ns, Some(prev), Event::Leave { handler })?;
        }
        let told = lane.leaving.take();
        lane.running = Some(next);
        if prev == next {
            // Dispatched again after its time slice: it never left.
            return Ok(());
        }
        let idle = next == Pid::IDLE;
        let prev_state = match prev {
            Pid::IDLE => Some(RUNNABLE),
            // A CPU goes idle only if its last thread cannot run.
            _ => told.or(idle.then_some(SLEEPS)),
        };
        self.unexplained += u64::from(prev_state.is_none());
        let event = Event::Switch {
            prev,
            prev_comm: None,
            prev_state,
            next,
            next_comm: None,
        };
        Ok(feed.event(at.cpu, at.time_ns, None, event)?)
    }

    fn ready(
        &mut self,
        at: At,
        by: Option<Pid>,
        named: Named<'_>,
        feed: &mut Feed,
    ) -> Result<(), ImportError> {
        self.threads.see(named.tid, named.pid, named.name);
        let pid = self.threads.pid(named.tid);
        if pid == Pid::IDLE {
            feed.unknown(at.cpu);
            return Ok(());
        }
        let lane = self.lanes.entry(at.cpu).or_default();
        if lane.running == Some(pid) {
            // Back into the queue while it still runs: another thread takes its CPU.
            lane.leaving = Some(RUNNABLE);
            feed.unknown(at.cpu);
            return Ok(());
        }
        let event = Event::Wake {
            pid,
            comm: None,
            cpu: self.threads.cpu(named.tid).unwrap_or(at.cpu),
        };
        Ok(feed.event(at.cpu, at.time_ns, by, event)?)
    }

    /// Nothing is known of any CPU between its last line and its next.
    fn gap(&mut self, cpu: Cpu, missed: Option<u64>, feed: &mut Feed) {
        for (&each, lane) in &mut self.lanes {
            if feed.events() > 0 {
                feed.lose(each, if each == cpu { missed } else { Some(0) });
            }
            *lane = Lane::default();
        }
    }
}

impl Lane {
    fn enter(&mut self, handler: Handler, first: bool) {
        if self.open.len() >= MAX_DEPTH {
            self.open.clear();
        }
        self.open.push((handler, first));
    }
}

/// A number for each handler name.
fn numbered(handlers: &mut HashMap<Vec<u8>, u32>, name: &[u8]) -> Handler {
    let next = handlers.len();
    let number = match handlers.get(name) {
        Some(number) => *number,
        None if next < MAX_NAMES => {
            handlers.insert(name.to_vec(), next as u32);
            next as u32
        }
        None => MAX_NAMES as u32,
    };
    Handler::Irq(number)
}
