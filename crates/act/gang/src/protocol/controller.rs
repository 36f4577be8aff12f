//! The controller: starts a switch, waits for all nodes, and decides once.

use super::agent::Step;
use super::gather::Gather;
use super::{
    Action, Command, Epoch, Event, Message, Nodes, Order, Outcome, Peer, Question, Report, Roster,
    Slot, Tally, Timer, Why,
};
use crate::GangId;
use idlewave_units::Nanos;
use std::collections::BTreeSet;

/// Timeouts of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControllerSettings {
    /// Children of each node in the tree, at least 1.
    pub arity: u16,
    /// How long an agent waits for news before it thaws everything.
    pub lease: Nanos,
    /// How far beyond its lease an agent may act: clock error, wake-up and thawing.
    pub margin: Nanos,
    /// Time after which an order is repeated to nodes that have not answered.
    pub repeat: Nanos,
    /// Time after PREPARE at which a switch is aborted if answers are missing. Less than the lease.
    pub limit: Nanos,
    /// Time per level of the tree: stop and thaw times lie this much ahead for each level.
    pub hop: Nanos,
    /// Interval at which leases are renewed. At most a third of the lease, so that one lost message
    /// does no harm.
    pub beat: Nanos,
}

impl ControllerSettings {
    /// For a service on one node, without network delays.
    pub const ONE_NODE: Self = Self {
        arity: 8,
        lease: Nanos::from_secs(1),
        margin: Nanos::from_millis(50),
        repeat: Nanos::from_millis(5),
        limit: Nanos::from_millis(300),
        hop: Nanos::ZERO,
        beat: Nanos::from_millis(200),
    };
    /// For a service on networked nodes, where stop and thaw times must allow for the delay of
    /// messages.
    pub const NETWORK: Self = Self {
        hop: Nanos::from_micros(300),
        ..Self::ONE_NODE
    };
}

/// The current phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Waits until leases expire: those of a previous controller, or of nodes that did not answer.
    Quiet {
        until: Nanos,
    },
    Idle,
    Preparing(Plan),
    /// Decided; waits until all nodes know.
    Deciding {
        plan: Plan,
        outcome: Outcome,
        thaw_at: Option<Nanos>,
        give_up: Nanos,
    },
    /// Another controller has taken over.
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
    /// The highest epoch used or seen.
    epoch: Epoch,
    running: Slot,
    members: Nodes,
    joining: Nodes,
    leaving: Nodes,
    /// Nodes that had not answered when a switch was aborted.
    late: Nodes,
    gone: BTreeSet<GangId>,
    phase: Phase,
    gather: Option<Gather>,
    /// The end of the longest lease granted.
    promised: Nanos,
    /// Whether this controller has ever completed a switch.
    proven: bool,
}

impl Controller {
    /// A controller with epochs above `base` (see [`Epoch::of_start`]). Nodes take part once they
    /// ask to join.
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

    /// The highest epoch it has used or seen.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
    /// Whether it accepts a request for a switch.
    pub fn idle(&self) -> bool {
        self.phase == Phase::Idle
    }
    /// Whether another controller has taken over, and this one is inactive.
    pub fn superseded(&self) -> bool {
        self.phase == Phase::Over
    }
    /// The running slot, as far as decided and acknowledged.
    pub fn running(&self) -> Slot {
        self.running
    }
    /// The participants of the next switch.
    pub fn members(&self) -> Nodes {
        let mut members = self.members.clone();
        members.add(&self.joining);
        members.subtract(&self.leaving);
        members
    }

    /// Handles an event at its time on the controller's corrected clock.
    pub fn handle(&mut self, now: Nanos, event: Event) -> Vec<Action> {
        let mut step = Step {
            now,
            out: Vec::new(),
        };
        match event {
            _ if self.phase == Phase::Over => {}
            Event::Start | Event::First => {
                let until = match event {
                    Event::First => now,
                    _ => now + self.settings.lease + self.settings.margin,
                };
                self.phase = Phase::Quiet { until };
                step.timer(Timer::Lease, self.epoch, until);
                step.timer(Timer::Beat, self.epoch, now + self.settings.beat);
            }
            Event::Message { from, message } => self.message(&mut step, from, message),
            Event::Timer { name, epoch } => self.timer(&mut step, name, epoch),
            Event::Switch { to, drain } => self.begin(&mut step, to, drain),
            // For agents only.
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
        // The base was too low: the clock was set back. The earlier controller may have used
        // further epochs that this node has not heard of.
        self.epoch = epoch.next_start();
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

    /// Renews the leases of nodes that have carried out the last epoch.
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
        // In-flight messages of a dead gang belong to no one.
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

    /// How far ahead a time must lie for all nodes to hear of it in advance.
    fn ahead(&self, roster: &Roster) -> Nanos {
        Nanos::from_nanos(
            self.settings
                .hop
                .get()
                .saturating_mul(u64::from(roster.depth())),
        )
    }

    /// Sends an order, and waits for the answers.
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

    /// All nodes know, or have left by the end of their lease.
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
            // These nodes may have carried it out and received beats since: no other slot may run
            // before they are uncoordinated.
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
