//! The controller: begins a switch, waits for everybody, and decides once.

use super::agent::Step;
use super::gather::Gather;
use super::{
    Action, Command, Epoch, Event, Message, Nodes, Order, Outcome, Peer, Question, Report, Roster,
    Slot, Tally, Timer, Why,
};
use crate::GangId;
use idlewave_units::Nanos;
use std::collections::BTreeSet;

/// How long the controller waits for what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControllerSettings {
    /// Children of each in the tree of nodes, 1 and more.
    pub arity: u16,
    /// How long an agent waits for news before it thaws everything.
    pub lease: Nanos,
    /// How much later than its lease an agent may act: clock error, wake-up and thawing.
    pub margin: Nanos,
    /// How long after an order it is said again to those that did not answer.
    pub repeat: Nanos,
    /// How long after PREPARE a switch is aborted for want of answers. Below the lease.
    pub limit: Nanos,
    /// For one level of the tree: moments to stop and to thaw at are as many of it ahead as there are levels.
    pub hop: Nanos,
    /// How often leases are prolonged. A third of the lease or less, so that one lost message does no harm.
    pub beat: Nanos,
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Leases that a controller before this one gave, or of nodes that did not answer, run out.
    Quiet {
        until: Nanos,
    },
    Idle,
    Preparing(Plan),
    /// It is decided; waits until everybody knows.
    Deciding {
        plan: Plan,
        outcome: Outcome,
        thaw_at: Option<Nanos>,
        give_up: Nanos,
    },
    /// Another controller is in charge.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Plan {
    to: Slot,
    stop_at: Nanos,
    drain: bool,
    limit: Nanos,
}

/// The state machine of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    settings: ControllerSettings,
    /// The highest epoch that was used, or heard of.
    epoch: Epoch,
    running: Slot,
    members: Nodes,
    joining: Nodes,
    leaving: Nodes,
    /// Who had not answered when a switch was aborted.
    late: Nodes,
    gone: BTreeSet<GangId>,
    phase: Phase,
    gather: Option<Gather>,
    /// The end of the longest lease that was given to anybody.
    promised: Nanos,
    /// Whether a switch of this controller was ever carried out.
    proven: bool,
}

impl Controller {
    /// A controller whose epochs are above `base` (see [`Epoch::of_start`]). Nobody takes part until they ask to.
    pub fn new(settings: ControllerSettings, base: Epoch) -> Self {
        Self {
            settings,
            epoch: base,
            running: Slot::All,
            members: Nodes::new(),
            joining: Nodes::new(),
            leaving: Nodes::new(),
            late: Nodes::new(),
            gone: BTreeSet::new(),
            phase: Phase::Quiet { until: Nanos::MAX },
            gather: None,
            promised: Nanos::ZERO,
            proven: false,
        }
    }

    /// The highest epoch that it used or heard of.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
    /// Whether it may be asked for a switch.
    pub fn idle(&self) -> bool {
        self.phase == Phase::Idle
    }
    /// Whether another controller took over, and this one does nothing any more.
    pub fn superseded(&self) -> bool {
        self.phase == Phase::Over
    }
    /// Who runs, as far as it is decided and acknowledged.
    pub fn running(&self) -> Slot {
        self.running
    }
    /// Who takes part in the next switch.
    pub fn members(&self) -> Nodes {
        let mut members = self.members.clone();
        members.add(&self.joining);
        members.subtract(&self.leaving);
        members
    }

    /// Takes an event at its time on the controller's corrected clock.
    pub fn handle(&mut self, now: Nanos, event: Event) -> Vec<Action> {
        let mut step = Step {
            now,
            out: Vec::new(),
        };
        match event {
            _ if self.phase == Phase::Over => {}
            Event::Start => {
                let until = now + self.settings.lease + self.settings.margin;
                self.phase = Phase::Quiet { until };
                step.timer(Timer::Lease, self.epoch, until);
                step.timer(Timer::Beat, self.epoch, now + self.settings.beat);
            }
            Event::Message { from, message } => self.message(&mut step, from, message),
            Event::Timer { name, epoch } => self.timer(&mut step, name, epoch),
            Event::Switch { to, drain } => self.begin(&mut step, to, drain),
            // It is for agents.
            Event::Notice(_) => {}
        }
        step.out
    }

    fn message(&mut self, step: &mut Step, from: Peer, message: Message) {
        match message {
            Message::Answer {
                epoch,
                question,
                tally,
            } => {
                self.answer(step, from, epoch, question, tally);
            }
            Message::Newer { epoch } if epoch > self.epoch => self.newer(step, epoch),
            Message::Join { node } if from == Peer::Agent(node) => {
                self.joining.insert(node);
                self.leaving.remove(node);
            }
            Message::Leave { node } if from == Peer::Agent(node) => {
                self.leaving.insert(node);
                self.joining.remove(node);
            }
            Message::Gone { node, gang, died } if from == Peer::Agent(node) => {
                step.send(from, Message::Known { gang });
                if self.gone.insert(gang) {
                    step.report(Report::GangGone { node, gang, died });
                    let gone = Slot::Gang(gang);
                    if let Phase::Preparing(plan) = self.phase {
                        if plan.to == gone || (plan.drain && self.running == gone) {
                            self.abort(step, plan, Why::GangGone);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn newer(&mut self, step: &mut Step, epoch: Epoch) {
        if self.proven {
            self.phase = Phase::Over;
            return step.report(Report::Superseded(epoch));
        }
        // The base was too low: the clock was set back.
        self.epoch = epoch;
        if let Phase::Preparing(plan) = self.phase {
            self.abort(step, plan, Why::Missing);
        }
    }

    fn timer(&mut self, step: &mut Step, name: Timer, _epoch: Epoch) {
        let now = step.now;
        match (name, self.phase) {
            (Timer::Lease, Phase::Quiet { until }) if now >= until => {
                self.phase = Phase::Idle;
                step.report(Report::Open);
            }
            (Timer::Lease, Phase::Deciding { give_up, .. }) if now >= give_up => self.finish(step),
            (Timer::Limit, Phase::Preparing(plan)) if now >= plan.limit => {
                self.abort(step, plan, Why::Missing);
            }
            (Timer::Repeat, Phase::Preparing(_) | Phase::Deciding { .. }) => {
                let Some(gather) = &self.gather else { return };
                for (to, message) in gather.again() {
                    step.send(to, message);
                }
                step.timer(Timer::Repeat, self.epoch, now + self.settings.repeat);
            }
            (Timer::Beat, _) => self.beat(step),
            _ => {}
        }
    }

    /// Prolongs leases of those that have carried out the last epoch.
    fn beat(&mut self, step: &mut Step) {
        step.timer(Timer::Beat, self.epoch, step.now + self.settings.beat);
        let last = self.gather.as_ref().map(Gather::order);
        let (Some(last), false) = (last, matches!(self.phase, Phase::Preparing(_))) else {
            return;
        };
        let roster = match self.phase {
            Phase::Idle | Phase::Quiet { .. } => Roster {
                members: self.members.clone(),
                arity: self.settings.arity,
            },
            _ => last.roster.clone(),
        };
        let lease_until = step.now + self.settings.lease;
        self.promised = lease_until;
        for child in roster.children(Peer::Controller) {
            let order = Order {
                epoch: last.epoch,
                lease_until,
                roster: roster.clone(),
                command: Command::Beat,
            };
            step.send(Peer::Agent(child), Message::Order(order));
        }
    }

    fn begin(&mut self, step: &mut Step, to: Slot, drain: bool) {
        let members = self.members();
        let (Phase::Idle, false, Some(epoch)) = (self.phase, members.is_empty(), self.epoch.next())
        else {
            return step.report(Report::Busy);
        };
        (self.members, self.joining) = (members, Nodes::new());
        self.epoch = epoch;
        self.late = Nodes::new();
        let roster = Roster {
            members: self.members.clone(),
            arity: self.settings.arity,
        };
        // What a dead gang had under way belongs to nobody.
        let lively = match self.running {
            Slot::Gang(gang) => !self.gone.contains(&gang),
            Slot::All => false,
        };
        let plan = Plan {
            to,
            stop_at: step.now + self.ahead(&roster),
            drain: drain && lively,
            limit: step.now + self.settings.limit,
        };
        self.phase = Phase::Preparing(plan);
        let command = Command::Prepare {
            from: self.running,
            to,
            stop_at: plan.stop_at,
            drain: plan.drain,
        };
        self.say(step, epoch, roster, command);
        step.timer(Timer::Limit, epoch, plan.limit);
    }

    /// How far ahead a moment must be for everybody to hear of it before.
    fn ahead(&self, roster: &Roster) -> Nanos {
        Nanos::from_nanos(
            self.settings
                .hop
                .get()
                .saturating_mul(u64::from(roster.depth())),
        )
    }

    /// Gives an order, and waits for the answers.
    fn say(&mut self, step: &mut Step, epoch: Epoch, roster: Roster, command: Command) {
        let lease_until = step.now + self.settings.lease;
        self.promised = lease_until;
        let order = Order {
            epoch,
            lease_until,
            roster,
            command,
        };
        let gather = Gather::new(order, Peer::Controller);
        for (to, message) in gather.again() {
            step.send(to, message);
        }
        self.gather = Some(gather);
        step.timer(Timer::Repeat, epoch, step.now + self.settings.repeat);
    }

    fn answer(
        &mut self,
        step: &mut Step,
        from: Peer,
        epoch: Epoch,
        question: Question,
        tally: Tally,
    ) {
        let Some(gather) = self.gather.as_mut().filter(|g| g.order().epoch == epoch) else {
            return;
        };
        if !gather.take(from, question, tally) {
            return;
        }
        let (complete, sum) = (gather.complete(), gather.sum());
        match self.phase {
            Phase::Preparing(plan) => {
                for (node, why) in &sum.refused {
                    if *why == Why::Leaving {
                        self.leaving.insert(*node);
                    }
                }
                if let Some((_, why)) = sum.refused.first() {
                    self.abort(step, plan, *why);
                } else if complete && plan.drain && sum.sent != sum.received {
                    self.abort(step, plan, Why::UnderWay);
                } else if complete {
                    self.go(step, plan);
                }
            }
            Phase::Deciding { .. } if complete => self.finish(step),
            _ => {}
        }
    }

    /// The point of no return.
    fn go(&mut self, step: &mut Step, plan: Plan) {
        let Some(roster) = self.gather.as_ref().map(|g| g.order().roster.clone()) else {
            return;
        };
        let thaw_at = step.now + self.ahead(&roster);
        self.decide(
            step,
            plan,
            Outcome::Switched,
            Some(thaw_at),
            Command::Switch { thaw_at },
        );
    }

    fn abort(&mut self, step: &mut Step, plan: Plan, why: Why) {
        self.late = self
            .gather
            .as_ref()
            .map(Gather::missing)
            .unwrap_or_default();
        self.decide(
            step,
            plan,
            Outcome::Aborted(why),
            None,
            Command::Abort { why },
        );
    }

    fn decide(
        &mut self,
        step: &mut Step,
        plan: Plan,
        outcome: Outcome,
        thaw_at: Option<Nanos>,
        command: Command,
    ) {
        let Some(order) = self.gather.as_ref().map(|g| g.order().clone()) else {
            return;
        };
        let give_up = step.now + self.settings.lease + self.settings.margin;
        self.phase = Phase::Deciding {
            plan,
            outcome,
            thaw_at,
            give_up,
        };
        self.say(step, order.epoch, order.roster, command);
        step.timer(Timer::Lease, order.epoch, give_up);
    }

    /// Everybody knows, or has left by the end of its lease.
    fn finish(&mut self, step: &mut Step) {
        let (
            Phase::Deciding {
                plan,
                outcome,
                thaw_at,
                ..
            },
            Some(gather),
        ) = (self.phase, &self.gather)
        else {
            return;
        };
        let (tally, missing) = (gather.sum(), gather.missing());
        let epoch = gather.order().epoch;
        if outcome == Outcome::Switched {
            self.running = plan.to;
            self.proven = true;
        }
        self.members.subtract(&missing);
        self.phase = Phase::Idle;
        if !missing.is_empty() {
            // They may have carried it out, and have heard beats since: nobody else may run before they are
            // uncoordinated.
            let until = self.promised + self.settings.margin;
            self.phase = Phase::Quiet { until };
            step.timer(Timer::Lease, epoch, until);
        }
        step.report(Report::Over {
            epoch,
            outcome,
            running: self.running,
            stop_at: plan.stop_at,
            thaw_at,
            late: self.late.clone(),
            missing,
            tally,
        });
    }
}
