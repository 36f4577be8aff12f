//! Many nodes in simulated time: the cost of a switch, with the same state machines.
//!
//! Model: a message takes a fixed latency plus an exponential tail; waking its receiver takes a
//! fixed time plus an exponential tail, too. Each peer sends and receives messages one after the
//! other, each in a fixed time. Messages are lost independently. Each clock is off by a uniformly
//! distributed constant. Not modelled: shared links, differences between nodes, and other load on
//! the agents' CPUs.
//!
//! Events at equal times run in the order in which they were set. The same seed gives the same
//! bytes.

use crate::GangId;
use crate::protocol::{
    Action, Agent, AgentSettings, Controller, ControllerSettings, Epoch, Event, Notice, Peer,
    Phases, Report, Roster, Slot, Timer,
};
use idlewave_stats::random::SplitMix;
use idlewave_units::{Nanos, NodeId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// A time with a fixed part and an exponential tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Never less than this.
    pub least: Nanos,
    /// Mean of the tail.
    pub tail: Nanos,
}

impl Spread {
    fn draw(&self, random: &mut SplitMix) -> u64 {
        self.least.get() + (-random.uniform().ln() * self.tail.as_f64()) as u64
    }
    /// The 99th percentile.
    pub fn p99(&self) -> Nanos {
        Nanos::from_nanos(self.least.get() + (self.tail.as_f64() * 100_f64.ln()) as u64)
    }
}

/// A cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Nodes, at least 1.
    pub nodes: u32,
    /// Children of each node in the tree.
    pub arity: u16,
    /// Of a message, from send to arrival.
    pub link: Spread,
    /// From a message or the time of a timer until a sleeping agent runs.
    pub wake: Spread,
    /// To send or receive one message.
    pub handling: Nanos,
    /// To drain the network of a gang.
    pub drain: Spread,
    /// To freeze, confirmed.
    pub freeze: Spread,
    /// To change the network context.
    pub context: Spread,
    /// To thaw, confirmed.
    pub thaw: Spread,
    /// Largest error of a clock, in either direction.
    pub clock_error: Nanos,
    /// Probability that a message is lost.
    pub loss: f64,
    /// From one switch to the next request.
    pub slice: Nanos,
}

impl Cluster {
    /// Ethernet with a latency of 20 us, and nodes as measured on one host with two CPUs (cgroup v2
    /// freezer, confirmed; pointers to contexts; agents with real-time priority).
    pub fn new(nodes: u32, arity: u16) -> Self {
        let spread = |least, tail| Spread {
            least: Nanos::from_micros(least),
            tail: Nanos::from_micros(tail),
        };
        Self {
            nodes,
            arity,
            link: spread(20, 5),
            wake: spread(15, 18),
            handling: Nanos::from_micros(3),
            drain: spread(50, 20),
            freeze: spread(70, 70),
            context: spread(0, 0),
            thaw: spread(20, 10),
            clock_error: Nanos::ZERO,
            loss: 0.0,
            slice: Nanos::from_millis(20),
        }
    }

    /// Suitable timeouts: each level of the tree gets the 99th percentile of a message, and its
    /// share of the largest difference between two clocks. A time is set on one clock and awaited
    /// on another, however many levels lie in between.
    pub fn settings(&self) -> ControllerSettings {
        let burst = self.handling.get() * (u64::from(self.nodes.min(self.arity.into())) + 1);
        let tree = Roster {
            members: (0..self.nodes).map(NodeId::new).collect(),
            arity: self.arity,
        };
        let apart = 2 * self.clock_error.get();
        let share = Nanos::from_nanos(apart.div_ceil(u64::from(tree.depth().max(1))));
        let hop = self.link.p99() + self.wake.p99() + Nanos::from_nanos(burst) + share;
        ControllerSettings {
            arity: self.arity,
            lease: Nanos::from_secs(1),
            margin: Nanos::from_millis(10),
            repeat: Nanos::from_nanos(hop.get() * 4),
            limit: Nanos::from_millis(300),
            hop,
            beat: Nanos::from_millis(200),
        }
    }
}

/// Results of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simulated {
    /// Per completed switch: from the first node that stopped to the last that thawed, during which
    /// not all nodes compute.
    pub cost: Vec<u64>,
    /// Per completed switch: from the first node that thawed to the last, in true time.
    pub skew: Vec<u64>,
    /// Per completed switch: the longest duration of each phase.
    pub phases: Vec<Phases>,
    /// Aborted switches.
    pub aborts: u32,
    /// Uncoordinated nodes at the end of each switch, added up.
    pub left: u64,
    /// Messages sent.
    pub messages: u64,
}

enum What {
    Tell(Event),
    Done,
}

struct Machine {
    /// How far its clock is ahead (the simulation starts late enough).
    offset: u64,
    free: u64,
    tasks: VecDeque<(u64, Notice)>,
    agent: Option<Agent>,
    timers: BTreeMap<Timer, u64>,
}

struct Sim<'a> {
    cluster: &'a Cluster,
    random: SplitMix,
    controller: Controller,
    machines: Vec<Machine>,
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    what: BTreeMap<u64, What>,
    next: u64,
    out: Simulated,
    first_stop: Option<u64>,
    thawed: Option<(u64, u64)>,
}

/// Simulates `switches` switches between two gangs, after an uncounted first one that coordinates
/// the nodes.
pub fn simulate(cluster: &Cluster, switches: u32, seed: u64) -> Simulated {
    let mut random = SplitMix::new(seed);
    let settings = cluster.settings();
    let repeat = settings.repeat;
    let machines = (0..=cluster.nodes)
        .map(|i| Machine {
            offset: (random.uniform() * 2.0 * cluster.clock_error.as_f64()) as u64,
            free: 0,
            tasks: VecDeque::new(),
            timers: BTreeMap::new(),
            agent: i.checked_sub(1).map(|node| {
                let node = NodeId::new(node);
                Agent::new(AgentSettings {
                    node,
                    repeat,
                    join: Nanos::from_millis(500),
                })
            }),
        })
        .collect();
    let mut sim = Sim {
        cluster,
        random,
        controller: Controller::new(settings, Epoch::of_start(1)),
        machines,
        heap: BinaryHeap::new(),
        what: BTreeMap::new(),
        next: 0,
        out: Simulated::default(),
        first_stop: None,
        thawed: None,
    };
    for machine in 0..sim.machines.len() {
        sim.at(1_000_000, machine, What::Tell(Event::Start));
    }
    sim.run(switches);
    sim.out
}

impl Sim<'_> {
    fn at(&mut self, time: u64, machine: usize, what: What) {
        self.heap.push(Reverse((time, self.next, machine)));
        self.what.insert(self.next, what);
        self.next += 1;
    }

    fn run(&mut self, switches: u32) {
        while let Some(Reverse((time, id, index))) = self.heap.pop() {
            let Some(what) = self.what.remove(&id) else {
                continue;
            };
            // No failure takes more than a minute per switch.
            let done = self.out.cost.len() as u32 + self.out.aborts;
            if done >= switches || time > 60_000_000_000 * (u64::from(switches) + 1) {
                break;
            }
            match what {
                What::Done => {
                    let Some((_, notice)) = self.machines[index].tasks.pop_front() else {
                        continue;
                    };
                    if let (Notice::Thawed { .. }, Some((first, last))) = (notice, self.thawed) {
                        self.thawed = Some((first.min(time), last.max(time)));
                    } else if matches!(notice, Notice::Thawed { .. }) {
                        self.thawed = Some((time, time));
                    }
                    if let Some((takes, _)) = self.machines[index].tasks.front() {
                        let end = time + takes;
                        self.at(end, index, What::Done);
                    }
                    self.tell(time, index, Event::Notice(notice));
                }
                What::Tell(Event::Timer { name, epoch }) => {
                    // A timer that was set again fires at its last time only.
                    if self.machines[index].timers.get(&name) == Some(&id) {
                        self.tell(time, index, Event::Timer { name, epoch });
                    }
                }
                What::Tell(event) => self.tell(time, index, event),
            }
        }
    }

    fn tell(&mut self, time: u64, index: usize, event: Event) {
        let machine = &mut self.machines[index];
        let mut time = time;
        if matches!(event, Event::Message { .. }) {
            time = time.max(machine.free) + self.cluster.handling.get();
            machine.free = time;
        }
        let now = Nanos::from_nanos(time + machine.offset);
        let actions = match &mut machine.agent {
            Some(agent) => agent.handle(now, event),
            None => self.controller.handle(now, event),
        };
        for action in actions {
            self.act(time, index, action);
        }
    }

    fn act(&mut self, time: u64, index: usize, action: Action) {
        let c = self.cluster;
        match action {
            Action::Send { to, message } => {
                self.out.messages += 1;
                let sent = time.max(self.machines[index].free) + c.handling.get();
                self.machines[index].free = sent;
                if self.random.uniform() >= c.loss {
                    let (from, to) = (peer(index), place(to));
                    let takes = c.link.draw(&mut self.random) + c.wake.draw(&mut self.random);
                    self.at(
                        sent + takes,
                        to,
                        What::Tell(Event::Message { from, message }),
                    );
                }
            }
            Action::SetTimer { name, epoch, at } => {
                let at = at
                    .get()
                    .saturating_sub(self.machines[index].offset)
                    .max(time);
                let late = c.wake.draw(&mut self.random);
                self.machines[index].timers.insert(name, self.next);
                self.at(at + late, index, What::Tell(Event::Timer { name, epoch }));
            }
            Action::Report(report) => self.reported(time, report),
            Action::ResumeInjection(_) => {}
            Action::StopInjection(_) => self.stopped(time),
            Action::Drain { epoch, .. } => {
                self.task(
                    time,
                    index,
                    c.drain,
                    Notice::Drained {
                        epoch,
                        sent: 1,
                        received: 1,
                    },
                );
            }
            Action::Freeze { epoch, .. } => {
                self.stopped(time);
                self.task(time, index, c.freeze, Notice::Frozen { epoch });
            }
            Action::SwitchContext { epoch, .. } => {
                self.task(time, index, c.context, Notice::ContextSwitched { epoch });
            }
            Action::Thaw { epoch, .. } => {
                self.task(time, index, c.thaw, Notice::Thawed { epoch });
            }
        }
    }

    fn stopped(&mut self, time: u64) {
        self.first_stop = Some(self.first_stop.map_or(time, |first| first.min(time)));
    }

    fn task(&mut self, time: u64, index: usize, takes: Spread, notice: Notice) {
        let takes = takes.draw(&mut self.random);
        let tasks = &mut self.machines[index].tasks;
        tasks.push_back((takes, notice));
        if tasks.len() == 1 {
            self.at(time + takes, index, What::Done);
        }
    }

    fn reported(&mut self, time: u64, report: Report) {
        let next = match report {
            Report::Open => self.controller.running(),
            Report::Over {
                running,
                thaw_at,
                tally,
                missing,
                ..
            } => {
                self.out.left += (missing.len() + tally.left.len()) as u64;
                match (thaw_at, self.first_stop, self.thawed) {
                    // The first switch is not counted: all nodes were uncoordinated before.
                    (Some(_), ..) if self.controller.epoch() == first() => self.out.left = 0,
                    (Some(_), Some(stop), Some((first, last))) => {
                        self.out.cost.push(last.saturating_sub(stop));
                        self.out.skew.push(last - first);
                        self.out.phases.push(tally.phases);
                    }
                    _ => self.out.aborts += 1,
                }
                running
            }
            _ => return,
        };
        if !self.controller.idle() {
            return;
        }
        let other = if next == Slot::Gang(GangId::new(0)) {
            1
        } else {
            0
        };
        let (to, drain) = (Slot::Gang(GangId::new(other)), true);
        (self.first_stop, self.thawed) = (None, None);
        self.at(
            time + self.cluster.slice.get(),
            0,
            What::Tell(Event::Switch { to, drain }),
        );
    }
}

fn first() -> Epoch {
    Epoch::new(Epoch::of_start(1).get() + 1)
}

fn peer(index: usize) -> Peer {
    match index.checked_sub(1) {
        None => Peer::Controller,
        Some(node) => Peer::Agent(NodeId::new(node as u32)),
    }
}

fn place(peer: Peer) -> usize {
    match peer {
        Peer::Controller => 0,
        Peer::Agent(node) => node.index() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No jitter, errors or losses, and free handling.
    fn exact(nodes: u32, arity: u16) -> Cluster {
        let us = |n| Spread {
            least: Nanos::from_micros(n),
            tail: Nanos::ZERO,
        };
        Cluster {
            link: us(20),
            wake: us(10),
            handling: Nanos::ZERO,
            drain: us(40),
            freeze: us(100),
            context: us(7),
            thaw: us(30),
            ..Cluster::new(nodes, arity)
        }
    }

    #[test]
    fn without_spread_a_switch_takes_what_the_model_says_in_closed_form() {
        for (nodes, arity, depth) in [(1, 8, 1), (8, 8, 1), (14, 2, 3), (84, 4, 3)] {
            let out = simulate(&exact(nodes, arity), 5, 1);
            assert_eq!((out.cost.len(), out.aborts, out.left), (5, 0, 0));
            // The lowest level gets PREPARE at the stop time, and SWITCH at the thaw time, late by
            // the context (7); all others wait for a timer (10). From the first stop: drain (40),
            // freeze (100), READY up and SWITCH down (30 per level), thaw (30, late by the timer).
            let (stop, last, skew, thaw) =
                [(10, 10, 3, 40), (0, 7, 0, 30)][usize::from(depth == 1)];
            let cost = 40 + 100 + 30 * depth + 30 * depth + last + 30;
            assert_eq!(out.cost, [cost * 1_000; 5], "{nodes} nodes, arity {arity}");
            assert_eq!(out.skew, [skew * 1_000; 5]);
            let phases = out.phases[0];
            let us = Nanos::from_micros;
            let times = [
                phases.stop,
                phases.drain,
                phases.freeze,
                phases.context,
                phases.thaw,
            ];
            assert_eq!(times, [us(stop), us(40), us(100), us(7), us(thaw)]);
        }
    }

    #[test]
    fn clocks_that_are_wrong_spread_the_thaws_by_no_more_than_twice_their_error() {
        let mut cluster = exact(64, 8);
        cluster.clock_error = Nanos::from_micros(50);
        let out = simulate(&cluster, 5, 3);
        assert_eq!(out.cost.len(), 5);
        for skew in out.skew {
            assert!((50_000..=100_000).contains(&skew), "{skew}");
        }
    }

    #[test]
    fn moments_are_ahead_by_the_way_down_the_tree_and_once_by_how_far_clocks_are_apart() {
        for (nodes, arity, depth) in [(1, 8, 1), (8, 8, 1), (14, 2, 3), (84, 4, 3)] {
            let mut cluster = exact(nodes, arity);
            cluster.clock_error = Nanos::from_micros(50);
            // Rounded up for each level.
            let ahead = cluster.settings().hop.get() * depth;
            let exact = (30 * depth + 2 * 50) * 1_000;
            assert!((exact..exact + depth).contains(&ahead), "{nodes} nodes");
            // As without errors, plus the spread of stop times over all clocks, the same for thaw
            // times, and the additional lead time of SWITCH.
            cluster.clock_error = Nanos::ZERO;
            let exact = simulate(&cluster, 1, 1).cost[0];
            cluster.clock_error = Nanos::from_micros(50);
            for seed in 1..9 {
                let out = simulate(&cluster, 3, seed);
                assert_eq!(out.cost.len(), 3);
                let more = out.cost.iter().map(|cost| cost.saturating_sub(exact));
                assert!(
                    more.clone().all(|more| more <= 6 * 50_000 + 2 * depth),
                    "{more:?}"
                );
            }
        }
    }

    #[test]
    fn messages_are_counted_in_closed_form_and_lost_ones_cost_time_but_no_switch() {
        let mut cluster = Cluster::new(64, 8);
        let none = simulate(&cluster, 20, 5);
        cluster.loss = 0.01;
        let some = simulate(&cluster, 20, 5);
        assert_eq!((none.cost.len(), some.cost.len(), some.aborts), (20, 20, 0));
        let mean = |v: &[u64]| v.iter().sum::<u64>() / v.len() as u64;
        assert!(mean(&some.cost) > mean(&none.cost), "{some:?} {none:?}");
        assert_eq!(some.left, 0);
        // Per switch, each node gets PREPARE and SWITCH, and answers both.
        assert!(none.messages >= 21 * 4 * 64, "{}", none.messages);
    }

    #[test]
    fn the_same_seed_gives_the_same_times_and_another_one_others() {
        let mut cluster = Cluster::new(30, 4);
        cluster.loss = 0.02;
        cluster.clock_error = Nanos::from_micros(20);
        assert_eq!(simulate(&cluster, 10, 7), simulate(&cluster, 10, 7));
        assert_ne!(simulate(&cluster, 10, 7), simulate(&cluster, 10, 8));
    }

    #[test]
    fn a_thousand_nodes_are_switched() {
        let out = simulate(&Cluster::new(1024, 8), 3, 2);
        assert_eq!((out.cost.len(), out.aborts, out.left), (3, 0, 0));
    }
}
