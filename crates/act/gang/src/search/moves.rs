//! Possible next events.

use super::world::{Faults, Task, World};
use crate::GangId;
use crate::protocol::{Controller, Epoch, Event, Notice, Peer, Timer};
use idlewave_units::NodeId;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// A message arrives, by its index among those in flight.
    Deliver(usize),
    /// A message is lost.
    Lose(usize),
    /// A message arrives, and stays in flight.
    Double(usize),
    /// A message may arrive at any later time.
    Late(usize),
    /// A node's action completed, or failed.
    Task(usize, bool),
    /// A timer fires.
    Timer(Peer, Timer),
    /// An agent crashes, temporarily or for good; its watchdog thaws everything.
    CrashAgent(usize, bool),
    /// The controller crashes for good, or restarts with a base above or below its own.
    CrashController(Option<bool>),
    /// A rank of the first gang dies on a node.
    Die(usize),
    /// Two ranks disagree on what was sent: the drain of a node lacks a message.
    Lack(usize),
    /// A node is told to leave.
    Leave(usize),
    /// The agent of a node is stalled, and its watchdog has thawed everything.
    Stall(usize),
    /// Time passes.
    Tick,
}

impl Move {
    /// Whether it counts as a fault.
    pub fn fault(&self) -> bool {
        !matches!(
            self,
            Move::Deliver(_) | Move::Task(_, true) | Move::Timer(..) | Move::Tick
        )
    }
}

impl World {
    /// All possible next events.
    pub fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        let mut overdue = false;
        for (i, flight) in self.net.iter().enumerate() {
            if self.net[..i].contains(flight) {
                continue;
            }
            overdue |= flight.due.is_some_and(|due| due <= self.now);
            moves.push(Move::Deliver(i));
            if self.faults.lose > 0 {
                moves.push(Move::Lose(i));
            }
            if self.faults.double > 0 {
                moves.push(Move::Double(i));
            }
            if self.faults.late > 0 && flight.due.is_some() {
                moves.push(Move::Late(i));
            }
        }
        for (i, node) in self.nodes.iter().enumerate() {
            if let Some((task, due)) = node.tasks.front() {
                overdue |= *due <= self.now;
                moves.push(Move::Task(i, true));
                if self.faults.fail > 0 {
                    moves.push(Move::Task(i, false));
                }
                if self.faults.die > 0 && matches!(task, Task::Drain(_)) && node.lacks == 0 {
                    moves.push(Move::Lack(i));
                }
            }
            if node.agent.is_some() {
                if self.faults.agent > 0 {
                    moves.extend([Move::CrashAgent(i, false), Move::CrashAgent(i, true)]);
                }
                if self.faults.die > 0 {
                    moves.push(Move::Die(i));
                }
                if self.faults.leave > 0 {
                    moves.extend([Move::Leave(i), Move::Stall(i)]);
                }
            }
        }
        for ((peer, name), (at, _)) in &self.timers {
            if *at <= self.now {
                moves.push(Move::Timer(*peer, *name));
                overdue |= at + self.shape.lateness <= self.now;
            }
        }
        if self.faults.controller > 0 && self.controller.is_some() {
            moves.extend([None, Some(true), Some(false)].map(Move::CrashController));
        }
        if !overdue {
            moves.push(Move::Tick);
        }
        moves
    }

    /// Applies it. Err names the invariant that is violated then.
    pub fn apply(&mut self, step: Move) -> Result<(), String> {
        match step {
            Move::Deliver(i) => {
                let flight = self.net.remove(i);
                let (from, message) = (flight.from, flight.message);
                self.tell(flight.to, Event::Message { from, message });
            }
            Move::Lose(i) => {
                self.faults.lose -= 1;
                self.net.remove(i);
            }
            Move::Double(i) => {
                self.faults.double -= 1;
                let flight = self.net[i].clone();
                let (from, message) = (flight.from, flight.message);
                self.tell(flight.to, Event::Message { from, message });
            }
            Move::Late(i) => {
                self.faults.late -= 1;
                self.net[i].due = None;
            }
            Move::Task(i, well) => {
                self.faults.fail -= u8::from(!well);
                self.finish_task(i, well);
            }
            Move::Timer(peer, name) => {
                if let Some((_, epoch)) = self.timers.remove(&(peer, name)) {
                    self.tell(peer, Event::Timer { name, epoch });
                }
            }
            Move::CrashAgent(i, back) => self.crash_agent(i, back),
            Move::CrashController(back) => {
                self.faults.controller -= 1;
                self.controller = None;
                self.timers.retain(|(peer, _), _| *peer != Peer::Controller);
                self.starts += 1;
                let base = |above| Epoch::of_start(if above { self.starts } else { 1 });
                self.controller_back = back.map(|above| (self.now + 2, base(above)));
            }
            Move::Die(i) => {
                self.faults.die -= 1;
                let notice = Notice::RankDied(GangId::new(0));
                self.tell(Peer::Agent(NodeId::new(i as u32)), Event::Notice(notice));
            }
            Move::Lack(i) => {
                self.faults.die -= 1;
                self.nodes[i].lacks = 1;
            }
            Move::Leave(i) => {
                self.faults.leave -= 1;
                self.nodes[i].leaving = true;
                let peer = Peer::Agent(NodeId::new(i as u32));
                self.tell(peer, Event::Notice(Notice::Leave));
            }
            Move::Stall(i) => {
                self.faults.leave -= 1;
                self.nodes[i].frozen = 0;
                let peer = Peer::Agent(NodeId::new(i as u32));
                self.tell(peer, Event::Notice(Notice::Thawn));
            }
            Move::Tick => self.tick(),
        }
        self.ask();
        self.verdict()
    }

    fn crash_agent(&mut self, i: usize, back: bool) {
        self.faults.agent -= 1;
        let peer = Peer::Agent(NodeId::new(i as u32));
        self.timers.retain(|(p, _), _| *p != peer);
        let node = &mut self.nodes[i];
        node.agent = None;
        node.frozen = 0;
        node.tasks.clear();
        node.back = back.then_some(self.now + 2);
    }

    fn tick(&mut self) {
        self.now += 1;
        if self.now >= self.start + self.shape.window {
            self.faults = Faults::default();
        }
        if let Some((at, base)) = self.controller_back {
            if at <= self.now {
                self.controller_back = None;
                self.controller = Some(Controller::new(self.shape.settings.clone(), base));
                self.tell(Peer::Controller, Event::Start);
            }
        }
        for i in 0..self.nodes.len() {
            if self.nodes[i].back.is_some_and(|at| at <= self.now) {
                self.nodes[i].back = None;
                self.nodes[i].agent = Some(Self::agent(&self.shape, i as u32));
                self.tell(Peer::Agent(NodeId::new(i as u32)), Event::Start);
            }
        }
    }

    /// The fault-free next event: the first one due, or time.
    pub(super) fn step_fairly(&mut self) {
        let moves = self.moves();
        if let Some(step) = moves.into_iter().find(|m| !m.fault()) {
            let result = self.apply(step);
            if let Err(wrong) = result {
                self.wrong.get_or_insert(wrong);
            }
        }
    }
}
