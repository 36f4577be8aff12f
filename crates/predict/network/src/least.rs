//! A lower bound on the time on any network: the longest chain of a program's operations and
//! messages, as if every rank had unlimited CPUs.
//!
//! A replay on a faster network is no such bound: a message that arrives earlier can delay a
//! computation that others wait for (R. Graham, "Bounds on multiprocessing timing anomalies", SIAM
//! J. Appl. Math., 1969). Without waiting for CPUs every time is a sum or a maximum of earlier
//! ones, so it never decreases when a part of it takes longer.

use crate::program::{Does, Message, Program};

/// The least times of operations and messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Least {
    /// How much longer ranks compute than in the measurement.
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
    /// A lower bound on the time of [`play`](crate::play), in nanoseconds, on any stage whose
    /// slow-down, overhead, latencies and transfers are not below these. `message` returns the
    /// transfer time and the latency of a message in nanoseconds.
    ///
    /// Proof. Consider the times when an operation becomes ready, when its CPU finishes it, when a
    /// message starts to flow, and when it arrives. In `play` each of these is at least the maximum
    /// of the times it waits for, plus the least duration of its own part: a busy CPU or a shared
    /// resource only adds to that. Here each is exactly that sum. By induction along the
    /// dependencies, none is later here than in `play`. A CPU does one thing at a time, so no
    /// replay ends before the largest sum of the operations of one CPU.
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
    /// CPU time of an operation.
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

    /// Starts a rendezvous message once it is sent and its receive is posted.
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

    /// Ends a receive once it is posted and its message has arrived.
    fn receive(&mut self, message: u32) {
        let at = message as usize;
        if let (Some(posted), Some(arrived)) = (self.posted[at], self.arrived[at]) {
            let end = posted.max(arrived).saturating_add(self.least.overhead_ns);
            // This may be called again, but the receive ends only once.
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
