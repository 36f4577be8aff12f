//! The controller: carries events and actions between the protocol's state machine, the desk, the
//! agents and the clients. One thread, which sleeps in one place.

mod asked;
mod heard;
mod keys;
mod steer;
#[cfg(test)]
mod tests;
mod told;
mod turn;

use crate::clients::{ClientId, Clients, Word};
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
use idlewave_sys::Uid;
use idlewave_units::{Nanos, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use turn::{Sorted, Turn};

/// Delay before a client that was not answered, or has not read its answer, is served again.
const BEHIND: Nanos = Nanos::from_millis(2);
/// Interval at which agents are sent all gangs, even without changes.
const SAY_AGAIN: Nanos = Nanos::from_millis(250);

/// Settings of the controller.
#[derive(Clone, Debug)]
pub struct CenterSettings {
    /// Settings of the protocol.
    pub protocol: ControllerSettings,
    /// Settings of admission and policy.
    pub desk: DeskSettings,
    /// Switch at the end of every slice, even if only one row wants the CPUs: to measure the cost
    /// of switching for one program.
    pub always: bool,
    /// The service's user: it and root may stop the service.
    pub owner: Uid,
    /// Users who may submit and release gangs of all users: the one that slurmctld runs as.
    pub operators: Vec<Uid>,
    /// When this controller starts, in seconds since 1970; its epochs are above those of earlier
    /// ones.
    pub start: u32,
}

/// An entry for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A node has registered.
    Node(String),
    /// A gang has changed.
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

/// The controller with everything it talks to.
pub struct Center<C> {
    settings: CenterSettings,
    /// No earlier controller can have granted leases that still hold.
    first: bool,
    protocol: Controller,
    desk: Desk,
    courier: C,
    clients: Clients,
    timers: Timers,
    tallies: Tallies,
    turn: Turn,
    /// What the last switch has arranged, and what the current one will.
    sorted: Sorted,
    coming: Sorted,
    /// When all gangs that hold the networks of their nodes were last stopped, drained and
    /// examined.
    quiet_at: Nanos,
    /// Length of the turn after the current switch; `left` is the slot whose turn the switch ends.
    slice: Nanos,
    left: Slot,
    began: Nanos,
    /// Something was received since admission and ends were last checked; they depend on nothing
    /// else.
    news: bool,
    say_at: Nanos,
    said: u64,
    changed_at: Nanos,
    places: BTreeMap<NodeId, Place>,
    /// By node: frames that it dropped because their authentication code was wrong.
    forged: BTreeMap<NodeId, u64>,
    heard: Heard,
    /// Gangs that end with a connection.
    tied: BTreeMap<ClientId, Vec<GangId>>,
    told: BTreeMap<GangId, (Stage, bool)>,
    /// Deadlocks as last reported.
    deadlocks: BTreeMap<GangId, Vec<String>>,
    stop: bool,
    notes: Vec<Note>,
}

impl<C: Courier> Center<C> {
    /// Switches from the start, without a wait, as its agents know no earlier controller.
    pub fn first(&mut self) {
        self.first = true;
    }

    /// A controller without agents so far.
    ///
    /// # Errors
    /// Settings out of range.
    pub fn new(settings: CenterSettings, courier: C, clients: Clients) -> Result<Self, DeskError> {
        let base = Epoch::of_start(settings.start);
        let now = clock::now();
        Ok(Self {
            first: false,
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

    /// Serves until `stop` is set, an authorised user stops it, or another controller takes over;
    /// then all nodes are told to let everything run. `log` receives entries for the log.
    ///
    /// # Errors
    /// Waiting fails.
    pub fn run(&mut self, stop: &AtomicBool, mut log: impl FnMut(&Note)) -> io::Result<()> {
        self.event(match self.first {
            true => Event::First,
            false => Event::Start,
        });
        while !self.stop && !stop.load(Ordering::Relaxed) && !self.protocol.superseded() {
            self.turn()?;
            for note in self.notes.drain(..) {
                log(&note);
            }
        }
        // Twice, as a message may be lost. If both are, agents thaw everything when their leases
        // end.
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
        let begin = clock::now();
        let mut asked = BTreeSet::new();
        if ready.iter().skip(1).any(|ready| *ready) || self.clients.behind() {
            for (client, word) in self.clients.take() {
                if let Word::Asked(_, user) = &word {
                    asked.insert(*user);
                }
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
        if !asked.is_empty() {
            // Work caused by a request is charged to its user as well.
            self.clients
                .charge(&asked, clock::now().saturating_sub(begin));
        }
        let trouble = self.courier.trouble().map(Note::Trouble);
        self.notes.extend(trouble);
        Ok(())
    }

    /// Passes the state machine an event, and carries out its actions.
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
                // For agents only.
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
            eager: self.desk.eager(now),
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
            // Agents send nothing else; anything invalid is from another version.
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

    /// Sends all nodes the addresses of the others, for the tree of orders.
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

/// The point at which a test may make the controller die.
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
