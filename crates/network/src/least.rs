//! A time that no network can undercut: the longest chain of a program's operations and messages, as if every rank had CPUs enough.
//!
//! Playing a program on a faster network is no such bound: a message that comes earlier can take the CPU from a computation that
//! others wait for (R. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math., 1969). Without waiting for CPUs every
//! moment is a sum or the largest of earlier ones, and none can come earlier where a part of it takes longer.

use crate::program::{Does, Message, Program};

/// The least that operations and messages take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Least {
    /// How much longer ranks compute than where they were measured.
    pub slow_down: f64,
    /// Overhead of each end of a message, nanoseconds.
    pub overhead_ns: u64,
    /// Longer messages wait for their receive, bytes.
    pub eager_limit: u64,
}

struct Chain<'p, F> {
    program: &'p Program,
    least: Least,
    message: F,
    missing: Vec<u32>,
    ready_ns: Vec<u64>,
    stack: Vec<u32>,
    sent: Vec<Option<u64>>,
    posted: Vec<Option<u64>>,
    arrived: Vec<Option<u64>>,
    last_ns: u64,
}

impl Program {
    /// Nanoseconds that [`play`](crate::play) needs at least on every stage whose slow-down, overhead, latencies and transfers are not
    /// below these; `message` gives transfer and latency of a message, nanoseconds.
    ///
    /// Proof. Let a moment be the one at which an operation is ready, its CPU is done with it, a message begins to flow, or it arrives.
    /// In `play` each moment is at least the largest of the moments that it waits for, plus the least that its own part takes: a CPU that
    /// is taken and a flow that is shared only add to that. Here each is exactly that. By induction along the order in which moments
    /// wait for each other, none is later here than there. And a CPU does one thing at a time, so that no play ends before the longest
    /// sum of the operations of one CPU.
    pub fn least_ns(&self, least: Least, message: impl Fn(&Message) -> (u64, u64)) -> u64 {
        let mut chain = Chain {
            program: self,
            least,
            message,
            missing: self.steps.iter().map(|s| s.waits_for).collect(),
            ready_ns: vec![0; self.steps.len()],
            stack: Vec::new(),
            sent: vec![None; self.messages.len()],
            posted: vec![None; self.messages.len()],
            arrived: vec![None; self.messages.len()],
            last_ns: 0,
        };
        let first = (0..self.steps.len()).filter(|&s| self.steps[s].waits_for == 0);
        chain.stack.extend(first.map(|step| step as u32));
        while let Some(step) = chain.stack.pop() {
            chain.ready(step);
        }
        let mut busy = vec![0_u64; self.cpus as usize];
        for step in &self.steps {
            let cpu = &mut busy[step.cpu as usize];
            *cpu = cpu.saturating_add(chain.takes(step.does));
        }
        chain.last_ns.max(busy.into_iter().max().unwrap_or(0))
    }
}

impl<F: Fn(&Message) -> (u64, u64)> Chain<'_, F> {
    /// What an operation takes of its CPU.
    fn takes(&self, does: Does) -> u64 {
        match does {
            Does::Compute(ns) => (ns as f64 * self.least.slow_down).round() as u64,
            _ => self.least.overhead_ns,
        }
    }

    fn ready(&mut self, step: u32) {
        let of = self.program.steps[step as usize];
        let now = self.ready_ns[step as usize];
        let end = now.saturating_add(self.takes(of.does));
        self.release(step, now, true);
        match of.does {
            Does::Compute(_) => self.release(step, end, false),
            Does::Send(message) => {
                self.sent[message as usize] = Some(end);
                if self.waits(message) {
                    self.shake_hands(message);
                } else {
                    self.release(step, end, false);
                    self.flow(message, end);
                }
            }
            Does::Receive(message) => {
                self.posted[message as usize] = Some(now);
                if self.waits(message) {
                    self.shake_hands(message);
                }
                self.receive(message);
            }
        }
    }

    fn waits(&self, message: u32) -> bool {
        self.program.messages[message as usize].bytes > self.least.eager_limit
    }

    /// Sets a message off once both of its ends are there.
    fn shake_hands(&mut self, message: u32) {
        let at = message as usize;
        if let (Some(sent), Some(posted)) = (self.sent[at], self.posted[at]) {
            let of = &self.program.messages[at];
            let latency = (self.message)(of).1;
            let begin = posted.max(sent.saturating_add(latency));
            let end = self.flow(message, begin.saturating_add(latency));
            self.release(of.send, end, false);
        }
    }

    /// A message leaves, and arrives at the receiver.
    fn flow(&mut self, message: u32, begin: u64) -> u64 {
        let (transfer, latency) = (self.message)(&self.program.messages[message as usize]);
        let end = begin.saturating_add(transfer);
        self.arrived[message as usize] = Some(end.saturating_add(latency));
        self.receive(message);
        end
    }

    /// Ends a receive once it is posted and its message is there.
    fn receive(&mut self, message: u32) {
        let at = message as usize;
        if let (Some(posted), Some(arrived)) = (self.posted[at], self.arrived[at]) {
            let end = posted.max(arrived).saturating_add(self.least.overhead_ns);
            // Once: the second of the two moments calls this last.
            self.posted[at] = None;
            self.release(self.program.messages[at].receive, end, false);
        }
    }

    fn release(&mut self, step: u32, now: u64, start: bool) {
        self.last_ns = self.last_ns.max(now);
        let program = self.program;
        for &(later, at_start) in program.waiting_for(step) {
            if at_start != start {
                continue;
            }
            let at = later as usize;
            self.ready_ns[at] = self.ready_ns[at].max(now);
            self.missing[at] -= 1;
            if self.missing[at] == 0 {
                self.stack.push(later);
            }
        }
    }
}

#[cfg(test)]
#[path = "least_tests.rs"]
mod tests;
