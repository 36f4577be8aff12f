//! States, events and communications as rows.

use crate::import::app::{Call, is_collective};
use crate::import::error::ImportError;
use crate::import::paraver::live::{DEEPEST, OpenCall};
use crate::import::paraver::run::{Build, WORLD};
use crate::prv;
use idlewave_run::tables::{Burst, Direction, EndReason, Interrupt, Table, Transfer};
use idlewave_units::Bytes;

/// The deepest nesting of interrupts that a run can hold.
const DEEPEST_INTERRUPT: u32 = prv::INTERRUPT + u8::MAX as u32;

impl Build {
    pub(super) fn state(
        &mut self,
        at: usize,
        cpu: u32,
        begin: u64,
        end: i64,
        state: i64,
    ) -> Result<(), ImportError> {
        let end = match end {
            // Still open.
            -1 => Some(self.end),
            end => self.time(end),
        };
        let (Some(end), Ok(state)) = (end.filter(|end| *end >= begin), u64::try_from(state)) else {
            self.dropped.outside += 1;
            return Ok(());
        };
        self.threads[at].state = Some((begin, state));
        if self.by_events || state != prv::RUNNING || cpu == 0 {
            return Ok(());
        }
        self.burst(at, cpu, begin, end, EndReason::Unknown)
    }

    pub(super) fn burst(
        &mut self,
        at: usize,
        cpu: u32,
        begin: u64,
        end: u64,
        end_reason: EndReason,
    ) -> Result<(), ImportError> {
        let Some(&(node, number)) = self.cpus.get((cpu as usize).wrapping_sub(1)) else {
            self.dropped.undeclared += 1;
            return Ok(());
        };
        self.ran += 1;
        self.bursts.push(Burst {
            node,
            cpu: number,
            pid: self.threads[at].pid,
            begin_ns: begin,
            end_ns: end,
            end_reason,
            certain: true,
        })?;
        Ok(())
    }

    pub(super) fn event(
        &mut self,
        at: usize,
        cpu: u32,
        time: u64,
        kind: u32,
        value: u64,
    ) -> Result<(), ImportError> {
        match kind {
            prv::CPU if self.by_events => {
                let before = self.threads[at].running.take();
                if let Ok(cpu) = u32::try_from(value) {
                    self.threads[at].running = (cpu > 0).then_some((cpu, time));
                }
                match before {
                    Some((cpu, since)) => {
                        let reason = self.reason(at, time);
                        self.burst(at, cpu, since, time, reason)
                    }
                    None => Ok(()),
                }
            }
            prv::POINT_TO_POINT | prv::COLLECTIVE | prv::OTHER => self.call(at, time, kind, value),
            prv::BYTES_SENT | prv::BYTES_RECEIVED | prv::ROOT | prv::COMMUNICATOR => {
                if let Some(call) = &mut self.threads[at].call {
                    match kind {
                        prv::BYTES_SENT => call.sent = Some(value),
                        prv::BYTES_RECEIVED => call.received = Some(value),
                        prv::ROOT => call.is_root = value != 0,
                        _ => call.comm = u32::try_from(value).ok(),
                    }
                }
                Ok(())
            }
            prv::REGION => {
                let before = self.threads[at].region.take();
                if value > 0 {
                    self.threads[at].region = Some((value, time));
                }
                before.map_or(Ok(()), |(value, begin)| {
                    self.mark(at, prv::REGION, value, begin, Some(time))
                })
            }
            prv::MARK if value == 0 => match self.threads[at].marks.pop() {
                Some((value, begin)) => self.mark(at, prv::MARK, value, begin, Some(time)),
                None => Ok(()),
            },
            prv::MARK => {
                if self.threads[at].marks.len() < DEEPEST {
                    self.threads[at].marks.push((value, time));
                } else {
                    self.dropped.unfinished += 1;
                }
                Ok(())
            }
            prv::POINT => self.mark(at, prv::POINT, value, time, Some(time)),
            // The analysis finds these itself, or other records imply them.
            prv::ITERATION | prv::LATE..=prv::WHILE_LATE | prv::WAIT | prv::WAIT_KIND => Ok(()),
            prv::INTERRUPT..=DEEPEST_INTERRUPT if self.by_events => {
                self.interrupt(at, cpu, time, (kind - prv::INTERRUPT) as u8, value)
            }
            other => {
                // Types come from the trace: they must not exhaust memory.
                if self.dropped.others.len() < 4_096 || self.dropped.others.contains_key(&other) {
                    *self.dropped.others.entry(other).or_insert(0) += 1;
                }
                Ok(())
            }
        }
    }

    /// Why a thread left its CPU, from the state that begins then.
    pub(super) fn reason(&self, at: usize, time: u64) -> EndReason {
        let thread = &self.threads[at];
        match thread.state.filter(|(begin, _)| *begin == time) {
            _ if thread.is_idle => EndReason::Preempted,
            Some((_, prv::READY)) => EndReason::Preempted,
            Some((_, prv::BLOCKED)) => EndReason::Sleeping,
            Some((_, prv::UNINTERRUPTIBLE)) => EndReason::Uninterruptible,
            Some((_, prv::STOPPED)) => EndReason::Stopped,
            None if time < self.end => EndReason::Exited,
            _ => EndReason::Unknown,
        }
    }

    pub(super) fn interrupt(
        &mut self,
        at: usize,
        cpu: u32,
        time: u64,
        depth: u8,
        value: u64,
    ) -> Result<(), ImportError> {
        let thread = &mut self.threads[at];
        let depth_index = usize::from(depth);
        if thread.interrupts.len() <= depth_index {
            thread.interrupts.resize(depth_index + 1, None);
        }
        let before = thread.interrupts[depth_index].take();
        let source = u32::try_from(value).ok().and_then(|v| v.checked_sub(1));
        if source.is_some_and(|source| source as usize >= self.sources.len()) {
            self.dropped.unnamed += 1;
        } else if let Some(source) = source {
            thread.interrupts[depth_index] = Some((source, cpu, time));
        }
        let Some((source, cpu, begin)) = before else {
            return Ok(());
        };
        let Some(&(node, number)) = self.cpus.get((cpu as usize).wrapping_sub(1)) else {
            self.dropped.undeclared += 1;
            return Ok(());
        };
        self.interrupts.push(Interrupt {
            node,
            cpu: number,
            source,
            pid: thread.pid,
            begin_ns: begin,
            end_ns: time,
            depth,
            certain: true,
        })?;
        Ok(())
    }

    pub(super) fn call(
        &mut self,
        at: usize,
        time: u64,
        kind: u32,
        value: u64,
    ) -> Result<(), ImportError> {
        if self.app.thread(self.threads[at].id).rank.is_none() {
            self.dropped.foreign += 1;
            return Ok(());
        }
        let open = self.threads[at].call.take();
        if value > 0 {
            let (operation, class) = self.functions.id(kind, value, &self.names, &mut self.app);
            self.threads[at].call = Some(OpenCall {
                kind,
                operation,
                class,
                begin: time,
                comm: None,
                sent: None,
                received: None,
                is_root: false,
            });
        }
        let Some(call) = open else {
            return Ok(());
        };
        if value == 0 && call.kind != kind {
            // This ends another kind of call.
            self.threads[at].call = Some(call);
            return Ok(());
        }
        let number = call.comm.unwrap_or(WORLD);
        let comm = is_collective(call.class)
            .then(|| self.app.comms.of(number.into()))
            .flatten();
        let id = self.threads[at].id;
        self.app.call(
            id,
            Call {
                operation: call.operation,
                class: call.class,
                begin_ns: call.begin,
                end_ns: time,
                comm,
                root: self.app.thread(id).rank.filter(|_| call.is_root),
                sent: call.sent.map(Bytes::new),
                received: call.received.map(Bytes::new),
                request: None,
            },
        )?;
        Ok(())
    }

    pub(super) fn mark(
        &mut self,
        at: usize,
        kind: u32,
        value: u64,
        begin: u64,
        end: Option<u64>,
    ) -> Result<(), ImportError> {
        let name = self.names.value(kind, value);
        let name = name.map_or_else(|| format!("region {value}"), str::to_owned);
        self.app.mark(self.threads[at].id, name, begin, end)
    }

    pub(super) fn message(
        &mut self,
        from: usize,
        sent: u64,
        rest: &[i64],
    ) -> Result<(), ImportError> {
        let &[left, cpu, appl, task, thread, posted, received, bytes, tag] = rest else {
            return Ok(());
        };
        let Some(to) = self.object(cpu, appl, task, thread) else {
            self.dropped.undeclared += 1;
            return Ok(());
        };
        let times = (self.time(left), self.time(posted), self.time(received));
        let (Some(left), Some(posted), Some(received)) = times else {
            self.dropped.outside += 1;
            return Ok(());
        };
        let rank = |at: usize| self.app.thread(self.threads[at].id).rank;
        let ranks = (rank(from), rank(to));
        let ((Some(sender), Some(receiver)), Ok(bytes), Ok(tag)) =
            (ranks, u64::try_from(bytes), i32::try_from(tag))
        else {
            self.dropped.foreign += 1;
            return Ok(());
        };
        self.dropped.messages += 1;
        let end = |rank, thread, direction, peer, begin, end| Transfer {
            rank,
            thread,
            direction,
            comm: 0,
            peer: Some(peer),
            tag,
            bytes: Some(Bytes::new(bytes)),
            posted_ns: begin,
            wait_ns: Some(begin),
            completed_ns: Some(std::cmp::max(begin, end)),
        };
        let (from, to) = (self.threads[from].pid, self.threads[to].pid);
        self.app
            .transfer(end(sender, from, Direction::Send, receiver, sent, left))?;
        self.app.transfer(end(
            receiver,
            to,
            Direction::Receive,
            sender,
            posted,
            received,
        ))
    }
}
