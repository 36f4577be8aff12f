//! The state of the search.

use crate::GangId;
use crate::protocol::{
    Action, Agent, AgentSettings, Command, Controller, ControllerSettings, Epoch, Event, Message,
    Notice, Peer, Report, Slot, Timer,
};
use idlewave_units::{Nanos, NodeId};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Number of faults of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Lost messages.
    pub lose: u8,
    /// Duplicated messages.
    pub double: u8,
    /// Messages that arrive at any later time.
    pub late: u8,
    /// Agent crashes: the watchdog thaws the node; the agent restarts after a while, or never.
    pub agent: u8,
    /// Crashes of the controller.
    pub controller: u8,
    /// Failed actions on a node.
    pub fail: u8,
    /// Rank deaths, or messages that never leave the drain.
    pub die: u8,
    /// Nodes that leave, or whose agent stalled until its watchdog thawed everything.
    pub leave: u8,
}

/// A configuration. Times are ticks; one tick is a nanosecond to the machines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Nodes.
    pub nodes: u32,
    /// Children of each node in the tree.
    pub arity: u16,
    /// Requested switches, in order: the target (0 and 1 are gangs), and whether to drain.
    pub requests: Vec<(u32, bool)>,
    /// Possible faults.
    pub faults: Faults,
    /// Ticks after the first request at which everything must be settled.
    pub horizon: u64,
    /// Ticks after the first request from which on there are no more faults.
    pub window: u64,
    /// Ticks within which a message that is neither lost nor late arrives, and an action completes.
    pub delay: u64,
    /// Largest delay of a timer, in ticks.
    pub lateness: u64,
    /// How far the clocks of the controller, then of each agent, are ahead.
    pub offsets: Vec<u64>,
    /// Timeouts of the controller; its arity is the one above.
    pub settings: ControllerSettings,
}

impl Shape {
    /// Exact clocks and short timeouts, no faults.
    pub fn new(nodes: u32, arity: u16, requests: &[(u32, bool)]) -> Self {
        let tick = Nanos::from_nanos;
        let settings = ControllerSettings {
            arity,
            lease: tick(9),
            margin: tick(2),
            repeat: tick(3),
            limit: tick(6),
            hop: tick(1),
            beat: tick(4),
        };
        Self {
            nodes,
            arity,
            requests: requests.to_vec(),
            faults: Faults::default(),
            horizon: 70,
            window: 25,
            delay: 0,
            lateness: 0,
            offsets: Vec::new(),
            settings,
        }
    }
}

/// A pending action of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Task {
    Drain(Epoch),
    Freeze(Slot, Epoch),
    Context(Epoch),
    Thaw(Slot, Epoch),
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Node {
    pub agent: Option<Agent>,
    /// Bit g: gang g is frozen here.
    pub frozen: u8,
    pub tasks: VecDeque<(Task, u64)>,
    /// When a crashed agent restarts.
    pub back: Option<u64>,
    pub leaving: bool,
    /// The epochs in which it was ready, and its drain counts at that time.
    pub ready: BTreeMap<Epoch, Option<(u64, u64)>>,
    pub drained: Option<(Epoch, u64, u64)>,
    /// Messages to it that are lost for good.
    pub lacks: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    pub from: Peer,
    pub to: Peer,
    pub message: Message,
    /// Latest arrival; `None` for any time.
    pub due: Option<u64>,
}

/// A state.
#[derive(Clone, Debug)]
pub struct World {
    pub(super) shape: Shape,
    pub(super) now: u64,
    pub(super) start: u64,
    pub(super) faults: Faults,
    pub(super) controller: Option<Controller>,
    pub(super) controller_back: Option<(u64, Epoch)>,
    pub(super) starts: u32,
    pub(super) nodes: Vec<Node>,
    pub(super) net: Vec<Flight>,
    pub(super) timers: BTreeMap<(Peer, Timer), (u64, Epoch)>,
    pub(super) asked: usize,
    /// Per epoch: carried out anywhere, aborted anywhere.
    pub(super) fates: BTreeMap<Epoch, (bool, bool)>,
    pub(super) drains: BTreeMap<Epoch, bool>,
    pub(super) wrong: Option<String>,
    /// Completed switches and aborts of the controller.
    pub(super) over: (u32, u32),
}

/// All gangs of the world.
pub(super) const GANGS: u8 = 0b11;

pub(super) fn bits(slot: Slot) -> u8 {
    match slot {
        Slot::All => GANGS,
        Slot::Gang(gang) => 1 << gang.get(),
    }
}

impl World {
    /// A configuration in which all nodes have started and asked to join, right before the first
    /// request.
    pub fn new(shape: &Shape) -> Self {
        let node = |id: u32| Node {
            agent: Some(Self::agent(shape, id)),
            frozen: 0,
            tasks: VecDeque::new(),
            back: None,
            leaving: false,
            ready: BTreeMap::new(),
            drained: None,
            lacks: 0,
        };
        let mut world = Self {
            now: 100,
            start: 100,
            faults: Faults::default(),
            controller: None,
            controller_back: Some((100, Epoch::of_start(2))),
            starts: 2,
            nodes: (0..shape.nodes).map(node).collect(),
            net: Vec::new(),
            timers: BTreeMap::new(),
            asked: usize::MAX,
            fates: BTreeMap::new(),
            drains: BTreeMap::new(),
            wrong: None,
            over: (0, 0),
            shape: shape.clone(),
        };
        for id in 0..shape.nodes {
            world.tell(Peer::Agent(NodeId::new(id)), Event::Start);
        }
        let open = |w: &World| w.controller.as_ref().is_some_and(Controller::idle);
        while !open(&world) && world.now < 1_000 {
            world.step_fairly();
        }
        world.start = world.now;
        // Only events from here on count.
        world.over = (0, 0);
        world.faults = shape.faults;
        world.asked = 0;
        world.ask();
        world
    }

    pub(super) fn agent(shape: &Shape, id: u32) -> Agent {
        Agent::new(AgentSettings {
            node: NodeId::new(id),
            repeat: shape.settings.repeat,
            join: Nanos::from_nanos(7),
        })
    }

    pub(super) fn offset(&self, peer: Peer) -> u64 {
        let index = match peer {
            Peer::Controller => 0,
            Peer::Agent(node) => node.index() + 1,
        };
        self.shape.offsets.get(index).copied().unwrap_or(0)
    }

    /// Requests the next switch, if the controller accepts it.
    pub(super) fn ask(&mut self) {
        if let (Some(controller), Some((to, drain))) =
            (&self.controller, self.shape.requests.get(self.asked))
        {
            if controller.idle() && !controller.members().is_empty() {
                self.asked += 1;
                let to = Slot::Gang(GangId::new(*to));
                self.tell(Peer::Controller, Event::Switch { to, drain: *drain });
            }
        }
    }

    /// Delivers an event to a machine that is up, and applies its actions.
    pub(super) fn tell(&mut self, peer: Peer, event: Event) {
        let now = Nanos::from_nanos(self.now + self.offset(peer));
        let actions = match peer {
            Peer::Controller => self.controller.as_mut().map(|c| c.handle(now, event)),
            Peer::Agent(node) => {
                let agent = self
                    .nodes
                    .get_mut(node.index())
                    .and_then(|n| n.agent.as_mut());
                let before = agent.as_ref().map(|a| a.epoch());
                let actions = agent.map(|a| a.handle(now, event));
                self.look(node, before);
                actions
            }
        };
        for action in actions.unwrap_or_default() {
            self.act(peer, action);
        }
    }

    fn act(&mut self, peer: Peer, action: Action) {
        let due = self.now + self.shape.delay;
        let task = match action {
            Action::Send { to, message } => {
                if let (Peer::Controller, Message::Order(order)) = (peer, &message) {
                    match order.command {
                        Command::Switch { .. } => self.said_switch(order),
                        Command::Abort { .. } => {
                            self.fates.entry(order.epoch).or_default().1 = true
                        }
                        Command::Prepare { drain, .. } => {
                            self.drains.insert(order.epoch, drain);
                        }
                        Command::Beat => {}
                    }
                }
                return self.net.push(Flight {
                    from: peer,
                    to,
                    message,
                    due: Some(due),
                });
            }
            Action::SetTimer { name, epoch, at } => {
                let at = at.get().saturating_sub(self.offset(peer));
                self.timers.insert((peer, name), (at, epoch));
                return;
            }
            Action::Report(report) => return self.reported(peer, report),
            Action::StopInjection(_) | Action::ResumeInjection(_) => return,
            Action::Drain { epoch, .. } => Task::Drain(epoch),
            Action::Freeze { slot, epoch } => Task::Freeze(slot, epoch),
            Action::SwitchContext { epoch, .. } => Task::Context(epoch),
            Action::Thaw { slot, epoch } => Task::Thaw(slot, epoch),
        };
        if let Peer::Agent(node) = peer {
            self.nodes[node.index()].tasks.push_back((task, due));
        }
    }

    fn reported(&mut self, peer: Peer, report: Report) {
        match report {
            Report::Conflict(epoch) => {
                self.wrong
                    .get_or_insert(format!("S3: {peer:?} was told both ways of {epoch}"));
            }
            Report::Over { thaw_at, .. } => {
                if thaw_at.is_some() {
                    self.over.0 += 1;
                } else {
                    self.over.1 += 1;
                }
            }
            _ => {}
        }
    }

    /// The first pending action of a node completes or fails.
    pub(super) fn finish_task(&mut self, index: usize, well: bool) {
        let node = &mut self.nodes[index];
        let Some((task, _)) = node.tasks.pop_front() else {
            return;
        };
        let delay = self.shape.delay;
        if let Some(next) = node.tasks.front_mut() {
            next.1 = self.now + delay;
        }
        let notice = match (task, well) {
            (Task::Drain(epoch), true) => {
                let (sent, received) = (10 + index as u64, 10 + index as u64 - node.lacks);
                node.drained = Some((epoch, sent, received));
                Notice::Drained {
                    epoch,
                    sent,
                    received,
                }
            }
            (Task::Freeze(slot, epoch), true) => {
                node.frozen |= bits(slot);
                Notice::Frozen { epoch }
            }
            (Task::Thaw(slot, epoch), true) => {
                node.frozen &= !bits(slot);
                Notice::Thawed { epoch }
            }
            (Task::Context(epoch), true) => Notice::ContextSwitched { epoch },
            (Task::Drain(epoch), false) => Notice::DrainFailed { epoch },
            (Task::Freeze(slot, epoch), false) => {
                // Part of it is frozen.
                node.frozen |= bits(slot);
                Notice::FreezeFailed { epoch }
            }
            (Task::Thaw(_, epoch), false) => Notice::ThawFailed { epoch },
            (Task::Context(epoch), false) => Notice::ContextFailed { epoch },
        };
        self.tell(
            Peer::Agent(NodeId::new(index as u32)),
            Event::Notice(notice),
        );
    }

    /// Number of completed and aborted switches.
    pub fn over(&self) -> (u32, u32) {
        self.over
    }

    /// A hash of the state; the order of messages in flight does not matter.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (
            self.now,
            &self.faults,
            &self.controller,
            &self.controller_back,
        )
            .hash(&mut hasher);
        (
            &self.nodes,
            &self.timers,
            self.asked,
            &self.fates,
            &self.drains,
        )
            .hash(&mut hasher);
        let mut sum = 0_u64;
        for flight in &self.net {
            let mut one = DefaultHasher::new();
            flight.hash(&mut one);
            sum = sum.wrapping_add(one.finish());
        }
        sum.hash(&mut hasher);
        hasher.finish()
    }
}
