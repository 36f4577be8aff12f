//! The agent of a node: carries events and actions between the protocol's state machine, the
//! processes of the node, and the controller. One thread, which sleeps in one place.

use crate::common_clock::CommonClock;
use crate::courier::Courier;
use crate::fault::{self, Phase};
use crate::held::{Gangs, RENEW};
use crate::network::Network;
use crate::parcel::{Parcel, State};
use crate::scout::{Scout, USUAL};
use crate::wait::{Timers, wait};
use crate::witness::Witnesses;
use idlewave_fabric::netctx::Counts;
use idlewave_freeze::clock;
use idlewave_gang::protocol::{
    Action, Agent, AgentSettings, Epoch, Event, Message, Notice, Peer, Report, Slot,
};
use idlewave_units::{Nanos, NodeId};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Interval of registration with the controller until it answers, and least interval of reports,
/// except for ends.
const TELL: Nanos = Nanos::from_millis(100);
/// Interval of reports when the scout sees nothing new.
const TELL_SELDOM: Nanos = Nanos::from_millis(600);

/// Interval of requests for the time until the first answer, and afterwards.
const ASK: Nanos = Nanos::from_millis(20);
const ASK_SELDOM: Nanos = Nanos::from_millis(250);
/// The controller sends all gangs four times a second. After this long a silence, it may be another
/// controller that knows no nodes.
const SILENCE: Nanos = Nanos::from_secs(1);

/// Interval at which a starting watchdog is polled while nothing can be frozen.
const MEND: Nanos = Nanos::from_millis(5);

/// Settings of an agent.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The node's number.
    pub node: NodeId,
    /// Its host name.
    pub host: String,
    /// CPUs that gangs may have.
    pub cpus: u32,
    /// How it stops processes, in words.
    pub freezer: String,
    /// Limitations, in words.
    pub limits: Vec<String>,
    /// Time after which an order is repeated.
    pub repeat: Nanos,
    /// Interval at which an uncoordinated node asks to join.
    pub join: Nanos,
}

/// An entry for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeNote {
    /// Nothing was received for too long, an order came too late, or an action failed: everything
    /// runs.
    Uncoordinated(Epoch),
    /// The controller is heard again.
    HeardAgain(Epoch),
    /// Thawing failed and is retried.
    StillFrozen(Epoch),
    /// An epoch was to be both aborted and carried out. Impossible unless a machine is faulty.
    Conflict(Epoch),
    /// Messages cannot be sent or received.
    Trouble(String),
    /// The watchdog had ended, and another one took over.
    Guarded,
    /// This process was stalled for longer than its lease, so its watchdog thawed everything.
    StoodStill,
}

/// The agent of a node.
pub struct Node<C> {
    settings: NodeSettings,
    courier: C,
    pub(crate) scout: Scout,
    agent: Agent,
    gangs: Gangs,
    witnesses: Witnesses,
    network: Network,
    /// The epoch of the last order to thaw, in which injection continues.
    thawed: Epoch,
    /// On the controller's clock.
    timers: Timers,
    clock: CommonClock,
    ask_at: Nanos,
    version: u64,
    greeted: bool,
    heard: Nanos,
    eager: bool,
    /// The scout has news that was not reported yet. Old news is not repeated: the controller would
    /// count repeated CPU times as unused turns.
    news: bool,
    /// When news was last reported.
    told: Nanos,
    tell_at: Nanos,
    notes: Vec<NodeNote>,
    left: bool,
}

impl<C: Courier> Node<C> {
    /// A new agent; everything runs on its node.
    ///
    /// # Errors
    /// The thread that looks for processes cannot be started.
    pub fn new(settings: NodeSettings, courier: C, gangs: Gangs) -> io::Result<Self> {
        let agent = Agent::new(AgentSettings {
            node: settings.node,
            repeat: settings.repeat,
            join: settings.join,
        });
        Ok(Self {
            network: Network::new(settings.node, Ipv4Addr::LOCALHOST.into()),
            thawed: Epoch::ZERO,
            settings,
            courier,
            scout: Scout::start(USUAL)?,
            agent,
            gangs,
            witnesses: Witnesses::default(),
            timers: Timers::default(),
            clock: CommonClock::default(),
            ask_at: Nanos::ZERO,
            version: 0,
            greeted: false,
            heard: Nanos::ZERO,
            eager: false,
            news: false,
            told: Nanos::ZERO,
            tell_at: Nanos::ZERO,
            notes: Vec::new(),
            left: false,
        })
    }

    /// Receives frames of gangs with network contexts from other nodes at this address instead of
    /// the loopback address.
    pub fn listen_at(&mut self, address: IpAddr) {
        self.network = Network::new(self.settings.node, address);
    }

    /// Serves until `stop` is set, or the controller says farewell; then everything is thawed.
    /// `log` receives entries for the log.
    ///
    /// # Errors
    /// Waiting fails. Everything was thawed, as far as that worked.
    pub fn run(&mut self, stop: &AtomicBool, mut log: impl FnMut(&NodeNote)) -> io::Result<()> {
        self.gangs.renew();
        self.event(Event::Start);
        let mut result = Ok(());
        while !stop.load(Ordering::Relaxed) && !self.left {
            if let Err(error) = self.turn() {
                result = Err(error);
                break;
            }
            for note in self.notes.drain(..) {
                log(&note);
            }
        }
        if !self.left {
            self.event(Event::Notice(Notice::Leave));
        }
        let _ = self.gangs.thaw(Slot::All);
        result
    }

    fn turn(&mut self) -> io::Result<()> {
        let timer = self.timers.next().map(|at| self.clock.own(at));
        let renewal = clock::now() + RENEW;
        let moments = [timer, self.courier.due(), Some(self.ask_at), Some(renewal)];
        let mut until = moments.into_iter().flatten().fold(self.tell_at, Nanos::min);
        if self.gangs.mending() {
            until = until.min(clock::now() + MEND);
        }
        let mut sockets = vec![
            self.courier.socket(),
            self.scout.socket(),
            self.gangs.socket(),
        ];
        sockets.extend(self.witnesses.sockets());
        let ready = wait(&sockets, Some(until))?;
        self.gangs.renew();
        if self.gangs.take_thawn() {
            // Before anything else is assumed about what runs here.
            self.notes.push(NodeNote::StoodStill);
            self.event(Event::Notice(Notice::Thawn));
        }
        while let Some((name, epoch)) = self.timers.due(self.clock.now(clock::now())) {
            self.event(Event::Timer { name, epoch });
        }
        while let Some((from, bytes)) = self.courier.receive(clock::now()) {
            self.receive(from, &bytes);
        }
        if ready.get(1) == Some(&true) {
            self.sighted();
        }
        // The next look reports what has come under control.
        if ready.get(2) == Some(&true) && self.gangs.moved(clock::now()) {
            self.renew_witnesses();
            self.scout.look_now();
        }
        if ready.iter().skip(3).any(|ready| *ready) {
            self.renew_witnesses();
        }
        if clock::now() >= self.tell_at {
            self.tell();
        }
        if clock::now() >= self.ask_at {
            self.ask_time();
        }
        if self.gangs.mend(clock::now()) {
            self.notes.push(NodeNote::Guarded);
            // What could not be brought under control before can be now.
            self.scout.look_now();
        }
        let trouble = self.courier.trouble().map(NodeNote::Trouble);
        self.notes.extend(trouble);
        Ok(())
    }

    fn receive(&mut self, from: Peer, bytes: &[u8]) {
        match Parcel::decode(bytes) {
            Ok(Parcel::Protocol(message)) => self.event(Event::Message { from, message }),
            Ok(Parcel::State(state)) if from == Peer::Controller => self.state(state),
            // Agents send nothing else to each other; anything invalid is from another version.
            Ok(Parcel::State(_)) | Err(_) => {}
        }
    }

    fn state(&mut self, state: State) {
        self.heard = clock::now();
        match state {
            State::Gangs {
                version,
                gangs,
                contexts,
                devices,
                eager,
            } => {
                self.greeted = true;
                if version != self.version {
                    self.network.prepare(&gangs);
                    self.gangs.set(&gangs);
                    self.network.set(&gangs, &contexts, &devices);
                    self.renew_witnesses();
                    self.version = version;
                    self.tell_at = clock::now();
                    self.scout.look_for(self.gangs.specs(), eager);
                } else if eager != self.eager {
                    self.scout.look_for(self.gangs.specs(), eager);
                }
                self.eager = eager;
            }
            State::Directory(places) => {
                self.greeted = true;
                for (node, place) in places {
                    self.courier.know(Peer::Agent(node), &place);
                }
            }
            State::Farewell => {
                self.left = true;
                // No controller is left to coordinate the gangs.
                self.gangs.set(&[]);
                self.network.set(&[], &[], &[]);
            }
            State::Time { sent, now } => {
                let by = self.clock.answer(sent, clock::now(), now);
                self.timers.shift(by);
            }
            State::Hello { .. } | State::Sight { .. } | State::AskTime { .. } => {}
        }
    }

    fn sighted(&mut self) {
        let Some(mut seen) = self.scout.take() else {
            return;
        };
        let now = clock::now();
        let ended = self.gangs.sighted(&seen.found, now);
        // Ranks that still have to be moved belong to no gang yet.
        seen.found.retain(|gang, _| !self.gangs.is_moving(*gang));
        if self.network.sighted(&seen.found) {
            self.tell_at = now;
        }
        self.gangs.measured(&seen.cpu);
        self.renew_witnesses();
        self.news = true;
        // Ends are reported at once: another gang can use the turn.
        let soon = match ended.is_empty() {
            true => self.told + TELL,
            false => now,
        };
        self.tell_at = self.tell_at.min(soon.max(now));
    }

    /// Ensures that the end of each gang will be noticed; a gang whose last witness has ended is
    /// noticed now.
    fn renew_witnesses(&mut self) {
        if self.witnesses.renew(&self.gangs.members()) {
            self.scout.look_now();
        }
    }

    /// Registers with the controller, or reports what is seen.
    fn tell(&mut self) {
        let now = clock::now();
        if now > self.heard + SILENCE {
            // Its first state counts as new here, whatever its version.
            (self.greeted, self.version) = (false, 0);
            // The controller may be on another node, with another clock.
            self.clock.forget();
            self.ask_at = now;
        }
        self.tell_at = now + if self.greeted { TELL_SELDOM } else { TELL };
        let node = self.settings.node;
        let state = if self.greeted {
            let news = std::mem::take(&mut self.news);
            if news {
                self.told = now;
            }
            State::Sight {
                node,
                version: self.version,
                seen: if news {
                    self.gangs.seen(now)
                } else {
                    Vec::new()
                },
                contexts: self.network.seen(),
                devices: self.network.addresses(),
                forged: self.network.forged(),
            }
        } else {
            State::Hello {
                node,
                host: self.settings.host.clone(),
                cpus: self.settings.cpus,
                freezer: self.settings.freezer.clone(),
                limits: self.settings.limits.clone(),
            }
        };
        let bytes = Parcel::State(state).encode();
        self.courier.send(now, Peer::Controller, &bytes);
    }

    /// Asks often until the first answer, then often enough for clocks that drift by 100 ppm.
    fn ask_time(&mut self) {
        let sent = clock::now();
        self.ask_at = sent
            + if self.clock.is_known() {
                ASK_SELDOM
            } else {
                ASK
            };
        let bytes = Parcel::State(State::AskTime { sent }).encode();
        self.courier.send(sent, Peer::Controller, &bytes);
    }

    /// Passes the state machine an event, carries out its actions, and passes back the results.
    fn event(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let now = self.clock.now(clock::now());
            for action in self.agent.handle(now, event) {
                // In order; their notices are handled after all actions of this event.
                if let Some(notice) = self.act(action) {
                    events.push_back(Event::Notice(notice));
                }
            }
        }
    }

    fn act(&mut self, action: Action) -> Option<Notice> {
        match action {
            // Without the common clock the times in orders mean nothing here.
            Action::Send {
                message: Message::Join { .. },
                ..
            } if !self.clock.is_known() => None,
            Action::Send { to, message } => {
                let bytes = Parcel::Protocol(message).encode();
                self.courier.send(clock::now(), to, &bytes);
                None
            }
            Action::SetTimer { name, epoch, at } => {
                self.timers.set(name, epoch, at);
                None
            }
            Action::Report(report) => {
                self.notes.extend(note(&report));
                None
            }
            // The kernel's network keeps what is in flight: this is for gangs with contexts of
            // their own.
            Action::StopInjection(_) => {
                self.network.stop();
                None
            }
            Action::Drain { epoch, .. } => {
                fault::die_at(Phase::Drain);
                Some(match self.network.drain() {
                    Ok(Counts { sent, received }) => Notice::Drained {
                        epoch,
                        sent,
                        received,
                    },
                    Err(_) => Notice::DrainFailed { epoch },
                })
            }
            Action::SwitchContext { to, epoch, .. } => {
                let switched = self.network.switch(to, epoch);
                fault::die_at(Phase::Context);
                Some(match switched {
                    Ok(()) => Notice::ContextSwitched { epoch },
                    Err(error) => {
                        self.notes.push(NodeNote::Trouble(error.to_string()));
                        Notice::ContextFailed { epoch }
                    }
                })
            }
            Action::ResumeInjection(slot) => {
                fault::die_at(Phase::Resume);
                self.network.resume(slot, self.thawed);
                self.notes
                    .extend(self.network.trouble().map(NodeNote::Trouble));
                None
            }
            Action::Freeze { slot, epoch } => {
                fault::die_at(Phase::Freeze);
                // If everything ran until now, nothing was told to stop.
                self.network.stop();
                let frozen = self.network.drain().map(|_| self.gangs.freeze(slot));
                fault::die_at(Phase::Frozen);
                Some(match (frozen, self.network.check_drained()) {
                    (Ok(Ok(())), Ok(())) => {
                        self.network.look();
                        Notice::Frozen { epoch }
                    }
                    (Ok(Err(_)), _) => Notice::FreezeFailed { epoch },
                    _ => Notice::DrainFailed { epoch },
                })
            }
            Action::Thaw { slot, epoch } => {
                fault::die_at(Phase::Thaw);
                self.thawed = epoch;
                let thawed = self.gangs.thaw(slot);
                fault::die_at(Phase::Thawed);
                Some(match thawed {
                    Ok(()) => Notice::Thawed { epoch },
                    Err(_) => Notice::ThawFailed { epoch },
                })
            }
        }
    }
}

/// Entries for the log; the controller counts completed switches.
fn note(report: &Report) -> Option<NodeNote> {
    match report {
        Report::Uncoordinated(epoch) => Some(NodeNote::Uncoordinated(*epoch)),
        Report::HeardAgain(epoch) => Some(NodeNote::HeardAgain(*epoch)),
        Report::StillFrozen(epoch) => Some(NodeNote::StillFrozen(*epoch)),
        Report::Conflict(epoch) => Some(NodeNote::Conflict(*epoch)),
        _ => None,
    }
}
