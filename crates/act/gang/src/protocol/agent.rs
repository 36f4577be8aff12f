//! The agent of a node: carries out orders, forwards them, adds up the answers, and thaws
//! everything when it no longer hears from the controller. Orders are in `agent_orders`, local
//! events in `agent_local`.

use super::gather::Gather;
use super::{Action, Epoch, Event, Message, Notice, Peer, Question, Report, Slot, Tally, Timer};
use crate::GangId;
use idlewave_units::{Nanos, NodeId};
use std::collections::BTreeMap;

/// Settings of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentSettings {
    /// Its node.
    pub node: NodeId,
    /// Time after which an order is repeated to children that have not answered.
    pub repeat: Nanos,
    /// Interval at which an uncoordinated node asks to join.
    pub join: Nanos,
}

/// How an epoch ended here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    /// No order yet.
    Fresh,
    Switched,
    Aborted,
    /// This node refused and rolled back.
    Refused,
    /// The node thawed everything on its own.
    Left,
}

/// The agent's stage in its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Settled(End),
    /// Waiting for the stop time.
    Waiting,
    Draining,
    Freezing,
    /// Frozen; READY was sent.
    Frozen,
    /// SWITCH was received.
    Context,
    /// Waiting for the thaw time.
    Timed,
    Thawing(End),
}

/// The contents of PREPARE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Plan {
    pub from: Slot,
    pub to: Slot,
    pub stop_at: Nanos,
    pub drain: bool,
    pub thaw_at: Nanos,
}

/// The state machine of a node's agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Agent {
    pub(super) settings: AgentSettings,
    pub(super) epoch: Epoch,
    /// The slot that has this node's CPUs; `None` while the node is uncoordinated.
    pub(super) running: Option<Slot>,
    pub(super) stage: Stage,
    pub(super) plan: Option<Plan>,
    /// The current order and the children's answers to it.
    pub(super) gather: Option<Gather>,
    /// The node's own answer to that order, if there is one.
    pub(super) own: Option<Tally>,
    pub(super) answered: bool,
    pub(super) lease_until: Nanos,
    /// Start of the current phase.
    pub(super) since: Nanos,
    /// The node's answer in the current epoch.
    pub(super) tally: Tally,
    /// Thaw ordered but not confirmed.
    pub(super) thawing: Option<Slot>,
    /// Pending orders to thaw, neither confirmed nor failed; only the last one counts.
    pub(super) thaws: u32,
    /// Gangs that ended here (true: a rank died), until the controller acknowledges it.
    pub(super) gone: BTreeMap<GangId, bool>,
    pub(super) leaving: bool,
    pub(super) heard: bool,
}

/// One event: its time and the resulting actions.
pub(super) struct Step {
    pub now: Nanos,
    pub out: Vec<Action>,
}

impl Step {
    pub fn act(&mut self, action: Action) {
        self.out.push(action);
    }
    pub fn send(&mut self, to: Peer, message: Message) {
        self.act(Action::Send { to, message });
    }
    pub fn timer(&mut self, name: Timer, epoch: Epoch, at: Nanos) {
        self.act(Action::SetTimer { name, epoch, at });
    }
    pub fn report(&mut self, report: Report) {
        self.act(Action::Report(report));
    }
}

impl Agent {
    /// A new agent; its node is uncoordinated.
    pub fn new(settings: AgentSettings) -> Self {
        let tally = Tally::of(settings.node);
        Self {
            settings,
            epoch: Epoch::ZERO,
            running: None,
            stage: Stage::Settled(End::Fresh),
            plan: None,
            gather: None,
            own: None,
            answered: false,
            lease_until: Nanos::ZERO,
            since: Nanos::ZERO,
            tally,
            thawing: None,
            thaws: 0,
            gone: BTreeMap::new(),
            leaving: false,
            heard: false,
        }
    }

    /// The highest epoch it has seen.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
    /// Whether the node is in step with the others: only what the controller allowed runs here, or
    /// nothing.
    pub fn coordinated(&self) -> bool {
        let ready = matches!(
            self.stage,
            Stage::Frozen | Stage::Context | Stage::Timed | Stage::Thawing(End::Switched)
        );
        self.running.is_some() || ready
    }
    /// Whether no switch is in progress here.
    pub fn settled(&self) -> bool {
        matches!(self.stage, Stage::Settled(_)) && self.thawing.is_none()
    }
    /// Whether everything is frozen, READY was sent, and nothing has been received since.
    pub fn ready(&self) -> bool {
        self.stage == Stage::Frozen
    }
    /// Whether the epoch was carried out (`true`) or aborted here; `None` if neither.
    pub fn carried_out(&self) -> Option<bool> {
        match self.stage {
            Stage::Settled(End::Switched)
            | Stage::Thawing(End::Switched)
            | Stage::Context
            | Stage::Timed => Some(true),
            Stage::Settled(End::Aborted | End::Refused)
            | Stage::Thawing(End::Aborted | End::Refused) => Some(false),
            _ => None,
        }
    }

    /// Handles an event at its time on the node's corrected clock.
    pub fn handle(&mut self, now: Nanos, event: Event) -> Vec<Action> {
        let mut step = Step {
            now,
            out: Vec::new(),
        };
        match event {
            Event::Start | Event::First => self.start(&mut step),
            Event::Message { from, message } => self.message(&mut step, from, message),
            Event::Timer { name, epoch } => self.timer(&mut step, name, epoch),
            Event::Notice(notice) => self.notice(&mut step, notice),
            // For the controller only.
            Event::Switch { .. } => {}
        }
        step.out
    }

    fn start(&mut self, step: &mut Step) {
        // A previous agent may have died with everything frozen, and its watchdog with it.
        self.thaw(step, Slot::All);
        self.join(step);
    }

    fn message(&mut self, step: &mut Step, from: Peer, message: Message) {
        match message {
            Message::Order(order) => self.order(step, from, order),
            Message::Answer {
                epoch,
                question,
                tally,
            } if epoch == self.epoch => {
                let refused = !tally.refused.is_empty();
                let taken = self
                    .gather
                    .as_mut()
                    .is_some_and(|g| g.take(from, question, tally));
                if taken && refused {
                    self.warn(step);
                } else {
                    self.advance(step);
                }
            }
            Message::Known { gang } if from == Peer::Controller => {
                self.gone.remove(&gang);
            }
            _ => {}
        }
    }

    fn timer(&mut self, step: &mut Step, name: Timer, epoch: Epoch) {
        match name {
            Timer::Join => return self.join(step),
            Timer::Lease => return self.lease_over(step),
            // What did not thaw in one epoch is still frozen in the next.
            Timer::Again => return self.thaw_again(step),
            _ if epoch != self.epoch => return,
            _ => {}
        }
        match (name, self.stage, self.plan) {
            (Timer::Stop, Stage::Waiting, Some(plan)) => {
                if step.now < plan.stop_at {
                    step.timer(Timer::Stop, epoch, plan.stop_at);
                } else {
                    self.stop(step, plan);
                }
            }
            (Timer::Thaw, Stage::Timed, Some(plan)) => self.thaw_when_due(step, plan),
            (Timer::Repeat, ..) => self.repeat(step),
            _ => {}
        }
    }

    /// Repeats a failed order to thaw, unless the stage takes care of it: all other stages end in a
    /// freeze or a thaw.
    fn thaw_again(&mut self, step: &mut Step) {
        if let (Some(slot), Stage::Settled(_) | Stage::Thawing(_)) = (self.thawing, self.stage) {
            self.thaw(step, slot);
        }
    }

    /// Asks to join and reports gone gangs, for as long as necessary.
    pub(super) fn join(&mut self, step: &mut Step) {
        let node = self.settings.node;
        for (gang, died) in &self.gone {
            let message = Message::Gone {
                node,
                gang: *gang,
                died: *died,
            };
            step.send(Peer::Controller, message);
        }
        if self.running.is_none() && !self.leaving {
            step.send(Peer::Controller, Message::Join { node });
        }
        if !self.gone.is_empty() || self.running.is_none() && !self.leaving {
            step.timer(Timer::Join, self.epoch, step.now + self.settings.join);
        }
    }

    fn lease_over(&mut self, step: &mut Step) {
        if self.running.is_none() && matches!(self.stage, Stage::Settled(_)) {
            return;
        }
        if step.now < self.lease_until {
            step.timer(Timer::Lease, self.epoch, self.lease_until);
        } else {
            self.leave(step);
        }
    }

    pub(super) fn renew(&mut self, step: &mut Step, until: Nanos) {
        if until > self.lease_until {
            self.lease_until = until;
            step.timer(Timer::Lease, self.epoch, until);
        }
    }

    fn repeat(&mut self, step: &mut Step) {
        let Some(gather) = &self.gather else { return };
        // An expired order is not obeyed.
        if gather.complete() || gather.order().lease_until <= step.now {
            return;
        }
        for (to, message) in gather.again() {
            step.send(to, message);
        }
        step.timer(Timer::Repeat, self.epoch, step.now + self.settings.repeat);
    }

    /// Sends the answers so far to the asking peer, or to the parent.
    pub(super) fn say(&self, step: &mut Step, to: Option<Peer>) {
        let Some(gather) = &self.gather else { return };
        let Some(question) = gather.order().question() else {
            return;
        };
        let to = to.or_else(|| gather.order().roster.parent(self.settings.node));
        let mut tally = gather.sum();
        if let Some(own) = &self.own {
            tally.add(own);
        }
        if let (Some(to), false) = (to, tally.who.is_empty()) {
            step.send(
                to,
                Message::Answer {
                    epoch: self.epoch,
                    question,
                    tally,
                },
            );
        }
    }

    /// Answers once the node and its whole subtree are done.
    pub(super) fn advance(&mut self, step: &mut Step) {
        let complete = self.gather.as_ref().is_some_and(Gather::complete);
        if complete && self.own.is_some() && !self.answered {
            self.answered = true;
            self.say(step, None);
        }
    }

    /// Reports a refusal at once, so that the controller need not wait for the others.
    pub(super) fn warn(&mut self, step: &mut Step) {
        self.advance(step);
        if !self.answered {
            self.say(step, None);
        }
    }

    /// The question to answer now.
    pub(super) fn asked(&self) -> Option<Question> {
        self.gather.as_ref().and_then(|g| g.order().question())
    }

    pub(super) fn notice_leave(&mut self, step: &mut Step) {
        self.leaving = true;
        if self.running.is_some() || !matches!(self.stage, Stage::Settled(_)) {
            self.leave(step);
        }
        step.send(
            Peer::Controller,
            Message::Leave {
                node: self.settings.node,
            },
        );
    }

    pub(super) fn notice_gone(&mut self, step: &mut Step, gang: GangId, died: bool) {
        let known = self.gone.entry(gang).or_insert(died);
        *known |= died;
        self.join(step);
    }

    fn notice(&mut self, step: &mut Step, notice: Notice) {
        self.local(step, notice);
        self.advance(step);
    }
}
