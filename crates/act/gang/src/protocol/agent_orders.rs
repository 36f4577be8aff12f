//! Reactions of an agent to orders: any order, in any sequence, any number of times.

use super::agent::{Agent, End, Plan, Stage, Step};
use super::gather::Gather;
use super::{
    Action, Command, Epoch, Message, Order, Peer, Question, Report, Slot, Tally, Timer, Why,
};
use idlewave_units::Nanos;

impl Agent {
    pub(super) fn order(&mut self, step: &mut Step, from: Peer, order: Order) {
        if order.lease_until <= step.now {
            return;
        }
        if order.epoch < self.epoch {
            return step.send(Peer::Controller, Message::Newer { epoch: self.epoch });
        }
        if self.running.is_none() && !self.heard {
            self.heard = true;
            step.report(Report::HeardAgain(order.epoch));
        }
        match order.command {
            Command::Beat => self.beat(step, &order),
            Command::Prepare {
                from: old,
                to,
                stop_at,
                drain,
            } => {
                let thaw_at = stop_at;
                let plan = Plan {
                    from: old,
                    to,
                    stop_at,
                    drain,
                    thaw_at,
                };
                self.prepare(step, from, order, plan);
            }
            Command::Switch { thaw_at } => self.switch(step, from, order, thaw_at),
            Command::Abort { .. } => self.abort(step, from, order),
        }
    }

    fn beat(&mut self, step: &mut Step, order: &Order) {
        // A node that has not carried out this epoch has missed something; beats must not keep it
        // waiting.
        let settled = matches!(self.stage, Stage::Settled(End::Switched | End::Aborted));
        if order.epoch == self.epoch && settled && self.running.is_some() {
            self.renew(step, order.lease_until);
        }
        for child in order.roster.children(Peer::Agent(self.settings.node)) {
            step.send(Peer::Agent(child), Message::Order(order.clone()));
        }
    }

    /// Whether an order of a newer epoch can be accepted now; if so, the current epoch is
    /// abandoned.
    fn overtaken(&mut self, step: &mut Step, epoch: Epoch) -> bool {
        match self.stage {
            Stage::Settled(_) => {}
            Stage::Waiting | Stage::Draining | Stage::Freezing | Stage::Frozen => self.leave(step),
            // These stages cannot be undone, but are short: the order will be repeated.
            Stage::Context | Stage::Timed | Stage::Thawing(_) => return false,
        }
        self.epoch = epoch;
        self.plan = None;
        self.gather = None;
        self.own = None;
        true
    }

    /// Makes this the order that is forwarded and answered.
    fn begin(&mut self, step: &mut Step, order: Order) {
        let gather = Gather::new(order, Peer::Agent(self.settings.node));
        for (to, message) in gather.again() {
            step.send(to, message);
        }
        if !gather.complete() {
            step.timer(Timer::Repeat, self.epoch, step.now + self.settings.repeat);
        }
        self.gather = Some(gather);
        self.own = None;
        self.answered = false;
    }

    fn prepare(&mut self, step: &mut Step, from: Peer, order: Order, plan: Plan) {
        if order.epoch == self.epoch {
            return self.say(step, Some(from));
        }
        if !self.overtaken(step, order.epoch) {
            return;
        }
        self.stage = Stage::Waiting;
        self.plan = Some(plan);
        self.tally = Tally::of(self.settings.node);
        self.lease_until = order.lease_until;
        step.timer(Timer::Lease, self.epoch, order.lease_until);
        self.begin(step, order);
        if self.leaving {
            self.refuse(step, Why::Leaving);
        } else if step.now >= plan.stop_at {
            self.stop(step, plan);
        } else {
            step.timer(Timer::Stop, self.epoch, plan.stop_at);
        }
    }

    fn switch(&mut self, step: &mut Step, from: Peer, order: Order, thaw_at: Nanos) {
        if order.epoch > self.epoch {
            // READY came from a previous agent, which has died.
            if !self.overtaken(step, order.epoch) {
                return;
            }
            self.leave(step);
        }
        match (self.stage, self.plan) {
            (Stage::Frozen, Some(plan)) => {
                self.stage = Stage::Context;
                self.plan = Some(Plan { thaw_at, ..plan });
                self.since = step.now;
                self.renew(step, order.lease_until);
                self.begin(step, order);
                step.act(Action::SwitchContext {
                    from: plan.from,
                    to: plan.to,
                    epoch: self.epoch,
                });
            }
            (Stage::Context | Stage::Timed | Stage::Thawing(End::Switched), _)
            | (Stage::Settled(End::Switched), _) => self.say(step, Some(from)),
            (Stage::Settled(End::Left), _) => self.acknowledge_left(step, from, order),
            (Stage::Settled(End::Aborted | End::Refused), _)
            | (Stage::Thawing(End::Aborted | End::Refused), _) => {
                step.report(Report::Conflict(self.epoch));
                self.say(step, Some(from));
            }
            // READY came from a previous agent.
            _ => {
                self.leave(step);
                self.acknowledge_left(step, from, order);
            }
        }
    }

    fn abort(&mut self, step: &mut Step, from: Peer, order: Order) {
        if order.epoch > self.epoch {
            if !self.overtaken(step, order.epoch) {
                return;
            }
            if self.running.is_some() {
                self.renew(step, order.lease_until);
            }
            self.begin(step, order);
            return self.aborted(step);
        }
        match (self.stage, self.plan) {
            (Stage::Waiting | Stage::Settled(End::Refused), _) if self.thawing.is_none() => {
                self.renew(step, order.lease_until);
                self.begin(step, order);
                self.aborted(step);
            }
            (
                Stage::Waiting
                | Stage::Draining
                | Stage::Freezing
                | Stage::Frozen
                | Stage::Settled(End::Refused),
                Some(plan),
            ) => {
                self.renew(step, order.lease_until);
                self.begin(step, order);
                self.undo(step, plan, End::Aborted);
            }
            (Stage::Thawing(End::Refused), _) => {
                self.stage = Stage::Thawing(End::Aborted);
                self.renew(step, order.lease_until);
                self.begin(step, order);
            }
            (Stage::Thawing(End::Aborted) | Stage::Settled(End::Aborted), _) => {
                self.say(step, Some(from));
            }
            (Stage::Settled(End::Left), _) => self.acknowledge_left(step, from, order),
            _ => {
                step.report(Report::Conflict(self.epoch));
                self.say(step, Some(from));
            }
        }
    }

    fn aborted(&mut self, step: &mut Step) {
        self.settle(step, End::Aborted);
        self.advance(step);
    }

    /// To any question, an uncoordinated node answers that it left, so that no one waits for it.
    fn acknowledge_left(&mut self, step: &mut Step, from: Peer, order: Order) {
        let question = order.question();
        if self.asked() == question && self.own.is_some() {
            return self.say(step, Some(from));
        }
        self.begin(step, order);
        self.own = Some(self.left());
        self.advance(step);
    }

    pub(super) fn left(&self) -> Tally {
        let mut tally = Tally::of(self.settings.node);
        tally.left.insert(self.settings.node);
        tally
    }

    /// Thaws the old gang.
    pub(super) fn undo(&mut self, step: &mut Step, plan: Plan, end: End) {
        self.stage = Stage::Thawing(end);
        if self.running != Some(plan.from) {
            // It was not in step before, and is not now.
            self.running = None;
            self.thaw(step, Slot::All);
        } else {
            self.thaw(step, plan.from);
        }
    }

    /// Thaws everything on the node's own initiative.
    pub(super) fn leave(&mut self, step: &mut Step) {
        self.stage = Stage::Settled(End::Left);
        self.running = None;
        self.heard = false;
        // It is not READY; to any other question it answers that it left.
        self.own = (self.asked() != Some(Question::Prepare)).then(|| self.left());
        self.thaw(step, Slot::All);
        step.report(Report::Uncoordinated(self.epoch));
        self.join(step);
        self.advance(step);
    }
}
