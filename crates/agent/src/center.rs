//! The controller: carries events and actions between the protocol's state machine, the desk, the agents and whoever asks.
//! One thread, which sleeps in one place.

mod asked;
mod heard;
mod keys;
mod steer;
#[cfg(test)]
mod tests;
mod told;

use crate::clients::{ClientId, Clients};
use crate::control::Stage;
use crate::courier::Courier;
use crate::desk::{Desk, DeskError, DeskSettings, NodeFacts};
use crate::fault::{self, Phase};
use crate::parcel::{Parcel, Place, State};
use crate::tallies::{Tallies, reason};
use crate::wait::{Timers, wait};
use heard::Heard;
use idlewave_freeze::clock;
use idlewave_gang::GangId;
use idlewave_gang::protocol::{
    Action, Command, Controller, ControllerSettings, Epoch, Event, Message, Outcome, Peer, Report,
    Slot,
};
use idlewave_units::{Nanos, NodeId};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use steer::{Sorted, Turn};

/// How soon who has not taken an answer, or was not answered, is looked at again.
const BEHIND: Nanos = Nanos::from_millis(2);
/// How often agents are told all gangs, though nothing changed.
const SAY_AGAIN: Nanos = Nanos::from_millis(250);

/// What the controller is told.
#[derive(Clone, Debug)]
pub struct CenterSettings {
    /// Of the protocol.
    pub protocol: ControllerSettings,
    /// Of admission and policy.
    pub desk: DeskSettings,
    /// Switches at the end of every slice, also when only one row wants the CPUs: to measure what switching costs one program.
    pub always: bool,
    /// The user that the service is of: it and root may stop it.
    pub owner: u32,
    /// Users who may bring and release gangs of all users: the one that slurmctld runs as.
    pub operators: Vec<u32>,
    /// When this controller starts, in seconds since 1970: its epochs are above those of earlier ones.
    pub start: u32,
}

/// What people may want to read in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A node greeted.
    Node(String),
    /// Something changed with a gang.
    Gang(u32, Stage),
    /// A switch was aborted.
    Aborted(String),
    /// Nodes did not acknowledge.
    Missing(Vec<NodeId>),
    /// Another controller took over.
    Superseded,
    /// Messages cannot be sent or received.
    Trouble(String),
}

/// The controller with all it talks to.
pub struct Center<C> {
    settings: CenterSettings,
    protocol: Controller,
    desk: Desk,
    courier: C,
    clients: Clients,
    timers: Timers,
    tallies: Tallies,
    turn: Turn,
    /// What the last switch left behind, and what the one under way will.
    sorted: Sorted,
    coming: Sorted,
    /// When gangs with network contexts were last stopped, drained and looked at, all of those that have the networks of their nodes.
    quiet_at: Nanos,
    /// Length of the turn after the switch under way, and whose turn it ends.
    slice: Nanos,
    left: Slot,
    began: Nanos,
    /// Something was heard since admission and ends were looked at: they change with that alone.
    news: bool,
    say_at: Nanos,
    said: u64,
    changed_at: Nanos,
    places: BTreeMap<NodeId, Place>,
    /// Frames between nodes that were dropped there, as nobody with their key made them.
    forged: BTreeMap<NodeId, u64>,
    heard: Heard,
    /// Gangs whose end is that of a connection.
    tied: BTreeMap<ClientId, Vec<GangId>>,
    told: BTreeMap<GangId, (Stage, bool)>,
    /// What was last said of who waits for whom for ever.
    deadlocks: BTreeMap<GangId, Vec<String>>,
    stop: bool,
    notes: Vec<Note>,
}

impl<C: Courier> Center<C> {
    /// A controller that knows nobody yet.
    ///
    /// # Errors
    /// Settings out of range.
    pub fn new(settings: CenterSettings, courier: C, clients: Clients) -> Result<Self, DeskError> {
        let base = Epoch::of_start(settings.start);
        let now = clock::now();
        Ok(Self {
            protocol: Controller::new(settings.protocol.clone(), base),
            desk: Desk::new(settings.desk)?,
            courier,
            clients,
            timers: Timers::default(),
            tallies: Tallies::default(),
            turn: Turn {
                since: now,
                until: now,
            },
            sorted: Sorted::default(),
            coming: Sorted::default(),
            quiet_at: now,
            slice: settings.desk.policy.longest,
            left: Slot::All,
            began: now,
            news: false,
            say_at: now,
            said: 0,
            changed_at: now,
            places: BTreeMap::new(),
            forged: BTreeMap::new(),
            heard: Heard::default(),
            tied: BTreeMap::new(),
            told: BTreeMap::new(),
            deadlocks: BTreeMap::new(),
            stop: false,
            notes: Vec::new(),
            settings,
        })
    }

    /// Serves until `stop` is set, somebody who may says so, or another controller takes over; then all nodes are told to let
    /// everything run. `log` gets what people may want to know.
    ///
    /// # Errors
    /// Waiting fails.
    pub fn run(&mut self, stop: &AtomicBool, mut log: impl FnMut(&Note)) -> io::Result<()> {
        self.event(Event::Start);
        while !self.stop && !stop.load(Ordering::Relaxed) && !self.protocol.superseded() {
            self.turn()?;
            for note in self.notes.drain(..) {
                log(&note);
            }
        }
        // Twice: a message may be lost. Without it leases end what is frozen.
        for _ in 0..2 {
            for node in self.desk.nodes().keys() {
                let bytes = Parcel::State(State::Farewell).encode();
                self.courier.send(clock::now(), Peer::Agent(*node), &bytes);
            }
        }
        Ok(())
    }

    fn turn(&mut self) -> io::Result<()> {
        let behind = self.clients.behind().then(|| clock::now() + BEHIND);
        let moments = [self.timers.next(), self.courier.due(), self.due(), behind];
        let until = moments.into_iter().flatten().fold(self.say_at, Nanos::min);
        let mut sockets = vec![self.courier.socket()];
        sockets.extend(self.clients.sockets());
        let ready = wait(&sockets, Some(until))?;
        while let Some((name, epoch)) = self.timers.due(clock::now()) {
            self.event(Event::Timer { name, epoch });
        }
        while let Some((from, bytes)) = self.courier.receive(clock::now()) {
            self.receive(from, &bytes);
        }
        if ready.iter().skip(1).any(|ready| *ready) || self.clients.behind() {
            for (client, word) in self.clients.take() {
                self.word(client, word);
            }
        }
        let now = clock::now();
        for node in self.heard.look(now) {
            self.desk.lose_contexts(node);
            self.news = true;
        }
        if std::mem::take(&mut self.news) {
            self.look(now);
        }
        if now >= self.say_at || self.said != self.desk.version() {
            self.tell_agents(now);
        }
        self.steer(now);
        let trouble = self.courier.trouble().map(Note::Trouble);
        self.notes.extend(trouble);
        Ok(())
    }

    /// Gives the state machine an event, and carries out what it wants.
    fn event(&mut self, event: Event) {
        for action in self.protocol.handle(clock::now(), event) {
            match action {
                Action::Send { to, message } => {
                    let phase = phase(&message);
                    let bytes = Parcel::Protocol(message).encode();
                    self.courier.send(clock::now(), to, &bytes);
                    if let Some(phase) = phase {
                        fault::die_at(phase);
                    }
                }
                Action::SetTimer { name, epoch, at } => self.timers.set(name, epoch, at),
                Action::Report(report) => self.report(&report),
                // These are for agents.
                _ => {}
            }
        }
    }

    fn report(&mut self, report: &Report) {
        let cost = self.tallies.add(report, self.coming.drained);
        match report {
            Report::Over {
                outcome,
                stop_at,
                thaw_at,
                missing,
                ..
            } => {
                let now = clock::now();
                if !missing.is_empty() {
                    self.notes.push(Note::Missing(missing.iter().collect()));
                }
                match (outcome, thaw_at) {
                    (Outcome::Switched, Some(thaw_at)) => {
                        self.account(self.left, *stop_at);
                        self.sorted = std::mem::take(&mut self.coming);
                        self.quiet_at = now;
                        if let Some(cost) = cost {
                            self.desk.switched(cost);
                        }
                        self.turn = Turn {
                            since: *thaw_at,
                            until: *thaw_at + self.slice,
                        };
                        if self.is_out_of_order() {
                            self.turn.until = *thaw_at;
                        }
                    }
                    (Outcome::Aborted(why), _) => {
                        self.notes.push(Note::Aborted(reason(*why).to_owned()));
                        self.turn.until = now + self.settings.desk.policy.shortest;
                    }
                    _ => {}
                }
            }
            Report::Superseded(_) => self.notes.push(Note::Superseded),
            _ => {}
        }
    }

    fn tell_agents(&mut self, now: Nanos) {
        let version = self.desk.version();
        if self.said != version {
            self.changed_at = now;
            self.sorted.forget_others(self.desk.matrix());
            if self.is_out_of_order() {
                self.turn.until = self.turn.until.min(now);
            }
        }
        let state = State::Gangs {
            version,
            gangs: self.desk.specs(),
            contexts: self.desk.context_specs(),
            devices: self.desk.devices(),
            eager: self.desk.eager(),
        };
        let bytes = Parcel::State(state).encode();
        for node in self.desk.nodes().keys() {
            self.courier.send(now, Peer::Agent(*node), &bytes);
        }
        self.said = version;
        self.say_at = now + SAY_AGAIN;
    }

    fn receive(&mut self, from: Peer, bytes: &[u8]) {
        if let Peer::Agent(node) = from {
            self.heard.of(node);
        }
        match (Parcel::decode(bytes), from) {
            (Ok(Parcel::Protocol(message)), _) => self.event(Event::Message { from, message }),
            (Ok(Parcel::State(state)), Peer::Agent(node)) => self.state(node, state),
            // Nobody but agents says anything else; what is no parcel is of another version.
            _ => {}
        }
    }

    fn state(&mut self, from: NodeId, state: State) {
        match state {
            State::Hello {
                node,
                host,
                cpus,
                freezer,
                limits,
            } if node == from => {
                let text = format!("node {node}, {host}: {cpus} CPUs, {freezer}");
                let facts = NodeFacts {
                    host,
                    cpus,
                    freezer,
                    limits,
                    version: 0,
                };
                if self.desk.hello(node, facts) {
                    self.notes.push(Note::Node(text));
                    self.directory();
                    self.said = 0;
                }
            }
            State::Sight {
                node,
                version,
                seen,
                contexts,
                devices,
                forged,
            } if node == from => {
                self.forged.insert(node, forged);
                self.keep_key();
                self.desk.sight(node, version, seen);
                self.desk.sight_contexts(node, contexts, &devices);
                self.news = true;
            }
            State::AskTime { sent } => {
                let now = clock::now();
                let bytes = Parcel::State(State::Time { sent, now }).encode();
                self.courier.send(now, Peer::Agent(from), &bytes);
            }
            _ => {}
        }
    }

    /// Tells all nodes where the others are: orders go down a tree of them.
    fn directory(&mut self) {
        for node in self.desk.nodes().keys() {
            if let Some(place) = self.courier.place(Peer::Agent(*node)) {
                self.places.insert(*node, place);
            }
        }
        let places = self
            .places
            .iter()
            .map(|(node, place)| (*node, place.clone()));
        let bytes = Parcel::State(State::Directory(places.collect())).encode();
        for node in self.desk.nodes().keys() {
            self.courier.send(clock::now(), Peer::Agent(*node), &bytes);
        }
    }
}

/// The point at which a test may have the controller die.
fn phase(message: &Message) -> Option<Phase> {
    match message {
        Message::Order(order) => match order.command {
            Command::Prepare { .. } => Some(Phase::Prepared),
            Command::Switch { .. } => Some(Phase::Decided),
            _ => None,
        },
        _ => None,
    }
}
