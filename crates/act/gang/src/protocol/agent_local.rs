//! Reactions of an agent to completed or failed actions and events on its node.

use super::agent::{Agent, End, Plan, Stage, Step};
use super::{Action, Notice, Report, Slot, Timer, Why};

impl Agent {
    /// The stop time has come.
    pub(super) fn stop(&mut self, step: &mut Step, plan: Plan) {
        self.tally.phases.stop = step.now.saturating_sub(plan.stop_at);
        self.since = step.now;
        match plan.from {
            Slot::Gang(gang) if plan.drain => {
                self.stage = Stage::Draining;
                step.act(Action::StopInjection(plan.from));
                step.act(Action::Drain {
                    gang,
                    epoch: self.epoch,
                });
            }
            _ => self.freeze(step, plan),
        }
    }

    fn freeze(&mut self, step: &mut Step, plan: Plan) {
        self.stage = Stage::Freezing;
        self.thawing = None;
        // If all gangs ran until now, all are frozen.
        let slot = if self.running == Some(plan.from) {
            plan.from
        } else {
            Slot::All
        };
        step.act(Action::Freeze {
            slot,
            epoch: self.epoch,
        });
    }

    /// Enables injection along with the processes: thawed processes may send.
    pub(super) fn thaw(&mut self, step: &mut Step, slot: Slot) {
        self.thawing = Some(slot);
        self.thaws += 1;
        step.act(Action::Thaw {
            slot,
            epoch: self.epoch,
        });
        step.act(Action::ResumeInjection(slot));
    }

    pub(super) fn thaw_when_due(&mut self, step: &mut Step, plan: Plan) {
        if step.now < plan.thaw_at {
            self.stage = Stage::Timed;
            step.timer(Timer::Thaw, self.epoch, plan.thaw_at);
        } else {
            self.stage = Stage::Thawing(End::Switched);
            self.thaw(step, plan.to);
        }
    }

    /// Ends the epoch here.
    pub(super) fn settle(&mut self, step: &mut Step, end: End) {
        self.stage = Stage::Settled(end);
        match (end, self.plan) {
            (End::Switched, Some(plan)) => {
                let begun = plan.thaw_at.max(self.since);
                self.tally.phases.thaw = step.now.saturating_sub(begun);
                self.tally.thawed = Some((step.now, step.now));
                self.running = (plan.to != Slot::All).then_some(plan.to);
            }
            // It has answered already.
            (End::Refused, _) => return,
            _ => {}
        }
        let mut own = self.tally.clone();
        own.refused.clear();
        if self.running.is_none() {
            own.left.insert(self.settings.node);
            self.join(step);
        }
        step.report(Report::Done {
            epoch: self.epoch,
            tally: own.clone(),
        });
        self.own = Some(own);
    }

    /// This node refuses. It has not sent READY, so no node can have been told to switch.
    pub(super) fn refuse(&mut self, step: &mut Step, why: Why) {
        let mut tally = self.tally.clone();
        tally.refused.push((self.settings.node, why));
        self.own = Some(tally);
        match (self.stage, self.plan) {
            (Stage::Draining | Stage::Freezing, Some(plan)) => self.undo(step, plan, End::Refused),
            _ => self.stage = Stage::Settled(End::Refused),
        }
        self.warn(step);
    }

    pub(super) fn local(&mut self, step: &mut Step, notice: Notice) {
        if matches!(notice, Notice::Thawed { .. } | Notice::ThawFailed { .. }) {
            self.thaws = self.thaws.saturating_sub(1);
        }
        match notice {
            Notice::GangEnded(gang) => return self.gang_gone(step, gang, false),
            Notice::RankDied(gang) => return self.gang_gone(step, gang, true),
            Notice::Leave => return self.notice_leave(step),
            Notice::Thawn => return self.thawn(step),
            Notice::Thawed { epoch } | Notice::ThawFailed { epoch } if epoch != self.epoch => {
                // From a past epoch: it counts if there was no order since.
                if matches!(self.stage, Stage::Waiting | Stage::Settled(_)) {
                    self.thawed_or_not(step, notice);
                }
                return;
            }
            Notice::Drained { epoch, .. }
            | Notice::Frozen { epoch }
            | Notice::ContextSwitched { epoch }
            | Notice::DrainFailed { epoch }
            | Notice::FreezeFailed { epoch }
            | Notice::ContextFailed { epoch }
                if epoch != self.epoch =>
            {
                return;
            }
            _ => {}
        }
        let Some(plan) = self.plan else {
            return self.thawed_or_not(step, notice);
        };
        let took = step.now.saturating_sub(self.since);
        match (notice, self.stage) {
            (Notice::Drained { sent, received, .. }, Stage::Draining) => {
                self.tally.sent = sent;
                self.tally.received = received;
                self.tally.phases.drain = took;
                self.since = step.now;
                self.freeze(step, plan);
            }
            (Notice::Frozen { .. }, Stage::Freezing) => {
                self.tally.phases.freeze = took;
                self.stage = Stage::Frozen;
                self.own = Some(self.tally.clone());
            }
            (Notice::ContextSwitched { .. }, Stage::Context) => {
                self.tally.phases.context = took;
                self.since = step.now;
                self.thaw_when_due(step, plan);
            }
            (Notice::DrainFailed { .. }, Stage::Draining | Stage::Freezing) => {
                self.refuse(step, Why::Drain)
            }
            (Notice::FreezeFailed { .. }, Stage::Freezing) => self.refuse(step, Why::Freeze),
            (Notice::ContextFailed { .. }, Stage::Context) => self.leave(step),
            _ => self.thawed_or_not(step, notice),
        }
    }

    fn thawed_or_not(&mut self, step: &mut Step, notice: Notice) {
        match (notice, self.thawing) {
            (Notice::Thawed { .. }, Some(_)) if self.thaws == 0 => {
                self.thawing = None;
                if let Stage::Thawing(end) = self.stage {
                    self.settle(step, end);
                }
            }
            (Notice::ThawFailed { .. }, Some(_)) => {
                step.report(Report::StillFrozen(self.epoch));
                step.timer(Timer::Again, self.epoch, step.now + self.settings.repeat);
            }
            _ => {}
        }
    }

    /// What was frozen runs: the node is no longer in step, whatever the controller's lease says.
    fn thawn(&mut self, step: &mut Step) {
        if self.running.is_some() || !matches!(self.stage, Stage::Settled(_)) {
            self.leave(step);
        }
    }

    fn gang_gone(&mut self, step: &mut Step, gang: crate::GangId, died: bool) {
        self.notice_gone(step, gang, died);
        // Its remaining messages will never arrive.
        if self.stage == Stage::Draining && self.plan.is_some_and(|p| p.from == Slot::Gang(gang)) {
            self.refuse(step, Why::GangGone);
        }
    }
}
