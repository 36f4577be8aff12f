//! Replays a program on a network that its messages share.
//!
//! Every rank executes its operations as soon as their dependencies are complete and its CPU is
//! free, in the order in which they become ready. A message takes the CPU of both ranks for the
//! overhead; its bytes flow at the max-min fair rate; the receiver has them one latency after the
//! last byte left. A message above the eager limit starts to flow when its receive is posted and
//! one latency has passed each way, and its sender waits until the last byte has left.
//! docs/network.md describes the model and its limits.

use crate::flows::{Ended, Flows};
use crate::maxmin::Limit;
use crate::program::{Does, Program};
use crate::stage::Stage;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The last thing that an event waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Nothing.
    Begin,
    /// The end of an operation's CPU time.
    Step(u32),
    /// The start of an operation.
    Start(u32),
    /// The departure of a message's last byte.
    Flowed(u32),
    /// The arrival of a message.
    Arrival(u32),
}

/// The times of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Journey {
    /// What it waited for before it could start: the end of the send's overhead, or its receive
    /// being posted.
    pub cause: Cause,
    /// When it could start.
    pub ready_ns: u64,
    /// When its first byte left.
    pub begin_ns: u64,
    /// When its last byte left.
    pub end_ns: u64,
    pub limit: Limit,
}

/// The result of a replay.
#[derive(Clone, Debug)]
pub struct Played {
    /// When each rank had finished, nanoseconds.
    pub finish_ns: Vec<u64>,
    /// The first rank with an operation that never ended, in a deadlock. `None` if everything
    /// finished.
    pub stuck: Option<u32>,
    /// For each operation, start and end of its CPU time, and what it waited for.
    pub(crate) begin_ns: Vec<u64>,
    pub(crate) end_ns: Vec<u64>,
    pub(crate) causes: Vec<Cause>,
    pub(crate) journeys: Vec<Journey>,
    /// For each message, when its receive was posted, and what the receive had waited for.
    pub(crate) posted: Vec<Option<(u64, Cause)>>,
}

impl Played {
    /// When the last rank had finished, nanoseconds.
    pub fn makespan_ns(&self) -> u64 {
        self.finish_ns.iter().copied().max().unwrap_or(0)
    }

    /// The last event of an operation, and its time.
    pub(crate) fn last_of(&self, program: &Program, stage: &Stage, step: u32) -> (Cause, u64) {
        match program.steps[step as usize].does {
            Does::Send(message) if program.messages[message as usize].bytes > stage.eager_limit => {
                (
                    Cause::Flowed(message),
                    self.journeys[message as usize].end_ns,
                )
            }
            _ => (Cause::Step(step), self.end_ns[step as usize]),
        }
    }
}

/// An event. Events at the same time are handled in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// An operation ends.
    End(u32),
    /// An operation whose start is awaited starts.
    Begin(u32),
    /// The handshake of a message is complete, or not needed.
    Flow(u32),
    /// A message arrives.
    Arrive(u32),
}

struct Player<'a> {
    program: &'a Program,
    stage: &'a Stage,
    flows: Flows,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    missing: Vec<u32>,
    /// For each CPU, when it becomes free, and what occupied it last.
    free_ns: Vec<u64>,
    last_on: Vec<Cause>,
    /// For each message, when its send's overhead ended, and when it arrived.
    sent: Vec<Option<u64>>,
    arrived: Vec<Option<u64>>,
    played: Played,
}

/// Replays a program. The same program and stage give the same times on every machine.
///
/// # Panics
/// If the stage belongs to another program: it has too few message paths or ranks.
pub fn play(program: &Program, stage: &Stage) -> Played {
    play_from(program, stage, &vec![0; program.ranks() as usize])
}

/// Replays a program whose ranks start at these times, in nanoseconds. Ranks that start together
/// with equal work stay in lockstep forever, as on no real machine. If they start slightly apart,
/// messages of different steps meet and may take far longer.
///
/// # Panics
/// As for [`play`], and if there is not one start time for each rank.
pub fn play_from(program: &Program, stage: &Stage, begin_ns: &[u64]) -> Played {
    let steps = program.steps.len();
    let messages = program.messages.len();
    let mut flows = Flows::new(stage.capacity.clone()).with_slack(stage.slack);
    for way in &stage.ways {
        flows.add_class(&way.uses, way.limit);
    }
    let journey = Journey {
        cause: Cause::Begin,
        ready_ns: 0,
        begin_ns: 0,
        end_ns: 0,
        limit: Limit::Own,
    };
    let mut player = Player {
        program,
        stage,
        flows,
        events: BinaryHeap::new(),
        missing: program.steps.iter().map(|s| s.waits_for).collect(),
        free_ns: vec![0; program.cpus as usize],
        last_on: vec![Cause::Begin; program.cpus as usize],
        sent: vec![None; messages],
        arrived: vec![None; messages],
        played: Played {
            finish_ns: Vec::new(),
            stuck: None,
            begin_ns: vec![0; steps],
            end_ns: vec![0; steps],
            causes: vec![Cause::Begin; steps],
            journeys: vec![journey; messages],
            posted: vec![None; messages],
        },
    };
    for (rank, &begin) in begin_ns.iter().enumerate() {
        let steps = program.ranks[rank] as usize..program.ranks[rank + 1] as usize;
        for step in &program.steps[steps] {
            player.free_ns[step.cpu as usize] = begin;
        }
    }
    player.run();
    let stuck = (0..steps as u32).find(|&step| !player.is_done(step));
    let mut played = player.played;
    played.stuck = stuck.map(|step| program.rank_of(step));
    let of_rank = |w: &[u32]| {
        let last = (w[0]..w[1]).map(|step| played.last_of(program, stage, step).1);
        last.max().unwrap_or(0)
    };
    played.finish_ns = program.ranks.windows(2).map(of_rank).collect();
    played
}

impl Player<'_> {
    fn run(&mut self) {
        for step in 0..self.program.steps.len() {
            if self.program.steps[step].waits_for == 0 {
                self.ready(step as u32, 0, Cause::Begin);
            }
        }
        let mut ended: Vec<Ended> = Vec::new();
        loop {
            let event = self.events.peek().map(|Reverse((at, _))| *at);
            let end = self.flows.next_end();
            match (event, end) {
                (None, None) => return,
                (event, Some(end)) if event.is_none_or(|event| end <= event) => {
                    self.flows.end_next(&mut ended);
                    for one in ended.drain(..) {
                        self.flowed(one, end);
                    }
                }
                _ => {
                    // Handle all events of this time first: flows that start together need only one
                    // solution.
                    let now = event.unwrap_or(0);
                    while let Some(&Reverse((at, event))) = self.events.peek() {
                        if at > now {
                            break;
                        }
                        self.events.pop();
                        self.happen(event, now);
                    }
                }
            }
        }
    }

    /// Whether an operation had finished when no event was left.
    fn is_done(&self, step: u32) -> bool {
        self.missing[step as usize] == 0
            && match self.program.steps[step as usize].does {
                Does::Compute(_) => true,
                Does::Send(message) => {
                    !self.waits(message) || self.played.posted[message as usize].is_some()
                }
                Does::Receive(message) => self.arrived[message as usize].is_some(),
            }
    }

    fn at(&mut self, ns: u64, event: Event) {
        self.events.push(Reverse((ns, event)));
    }

    fn happen(&mut self, event: Event, now: u64) {
        match event {
            Event::End(step) => self.end(step, now),
            Event::Begin(step) => self.release(step, now, Cause::Start(step)),
            Event::Flow(message) => self.flow(message, now),
            Event::Arrive(message) => self.arrive(message, now),
        }
    }

    /// All dependencies of an operation are complete.
    fn ready(&mut self, step: u32, now: u64, cause: Cause) {
        let overhead = self.stage.overhead_ns;
        match self.program.steps[step as usize].does {
            Does::Compute(ns) => {
                let rank = self.program.rank_of(step) as usize;
                let ns = (ns as f64 * self.stage.slow_down[rank]).round() as u64;
                self.occupy(step, now, cause, ns);
            }
            Does::Send(_) => self.occupy(step, now, cause, overhead),
            Does::Receive(message) => {
                let at = message as usize;
                self.played.posted[at] = Some((now, cause));
                if self.program.steps[step as usize].start_is_awaited {
                    self.at(now, Event::Begin(step));
                }
                if self.arrived[at].is_some() {
                    self.occupy(step, now, cause, overhead);
                } else if self.sent[at].is_some() && self.waits(message) {
                    self.shake_hands(message, now, cause);
                }
            }
        }
    }

    /// An operation takes its CPU once it is free.
    fn occupy(&mut self, step: u32, now: u64, cause: Cause, ns: u64) {
        let cpu = self.program.steps[step as usize].cpu as usize;
        let (begin, cause) = match self.free_ns[cpu] > now {
            true => (self.free_ns[cpu], self.last_on[cpu]),
            false => (now, cause),
        };
        let end = begin.saturating_add(ns);
        self.free_ns[cpu] = end;
        self.last_on[cpu] = Cause::Step(step);
        self.played.causes[step as usize] = cause;
        self.played.begin_ns[step as usize] = begin;
        self.played.end_ns[step as usize] = end;
        let of = self.program.steps[step as usize];
        // A receive starts when it is posted.
        if of.start_is_awaited && !matches!(of.does, Does::Receive(_)) {
            self.at(begin, Event::Begin(step));
        }
        self.at(end, Event::End(step));
    }

    /// Whether a message waits for its receive.
    fn waits(&self, message: u32) -> bool {
        self.program.messages[message as usize].bytes > self.stage.eager_limit
    }

    fn latency(&self, message: u32) -> u64 {
        let way = self.stage.way_of_message[message as usize];
        self.stage.ways[way as usize].latency_ns
    }

    /// The CPU part of an operation has ended.
    fn end(&mut self, step: u32, now: u64) {
        let Does::Send(message) = self.program.steps[step as usize].does else {
            return self.release(step, now, Cause::Step(step));
        };
        let at = message as usize;
        self.sent[at] = Some(now);
        if !self.waits(message) {
            self.set_off(message, now, Cause::Step(step), now);
            return self.release(step, now, Cause::Step(step));
        }
        if self.played.posted[at].is_some() {
            self.shake_hands(message, now, Cause::Step(step));
        }
    }

    /// The second of a rendezvous message's ends, send or receive, is ready now.
    fn shake_hands(&mut self, message: u32, now: u64, cause: Cause) {
        let latency = self.latency(message);
        let sent = self.sent[message as usize].unwrap_or(now);
        // The receiver learns of the message one latency after the send; its answer takes another
        // one.
        let known = now.max(sent.saturating_add(latency));
        let (ready, cause) = match known > now {
            true => (
                sent,
                Cause::Step(self.program.messages[message as usize].send),
            ),
            false => (now, cause),
        };
        self.set_off(message, ready, cause, known.saturating_add(latency));
    }

    /// The first byte leaves at `begin`.
    fn set_off(&mut self, message: u32, ready_ns: u64, cause: Cause, begin_ns: u64) {
        let journey = &mut self.played.journeys[message as usize];
        (journey.ready_ns, journey.cause, journey.begin_ns) = (ready_ns, cause, begin_ns);
        self.at(begin_ns, Event::Flow(message));
    }

    fn flow(&mut self, message: u32, now: u64) {
        let bytes = self.program.messages[message as usize].bytes;
        if bytes == 0 {
            let limit = Limit::Own;
            return self.flowed(
                Ended {
                    flow: message,
                    limit,
                },
                now,
            );
        }
        let way = self.stage.way_of_message[message as usize];
        self.flows.start(now, way, bytes, message);
    }

    /// The last byte has left.
    fn flowed(&mut self, ended: Ended, now: u64) {
        let message = ended.flow;
        let journey = &mut self.played.journeys[message as usize];
        (journey.end_ns, journey.limit) = (now, ended.limit);
        if self.waits(message) {
            let send = self.program.messages[message as usize].send;
            self.release(send, now, Cause::Flowed(message));
        }
        self.at(
            now.saturating_add(self.latency(message)),
            Event::Arrive(message),
        );
    }

    fn arrive(&mut self, message: u32, now: u64) {
        self.arrived[message as usize] = Some(now);
        if self.played.posted[message as usize].is_some() {
            let receive = self.program.messages[message as usize].receive;
            self.occupy(
                receive,
                now,
                Cause::Arrival(message),
                self.stage.overhead_ns,
            );
        }
    }

    /// Releases what waited for the start of an operation, or for its end.
    fn release(&mut self, step: u32, now: u64, cause: Cause) {
        let start = matches!(cause, Cause::Start(_));
        let program = self.program;
        for &(later, at_start) in program.waiting_for(step) {
            if at_start != start {
                continue;
            }
            let missing = &mut self.missing[later as usize];
            *missing -= 1;
            if *missing == 0 {
                self.ready(later, now, cause);
            }
        }
    }
}

#[cfg(test)]
#[path = "play_tests.rs"]
mod tests;
