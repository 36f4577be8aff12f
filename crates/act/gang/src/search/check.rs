//! Invariants of every state.

use super::world::{GANGS, World, bits};
use crate::protocol::{Epoch, Order, Slot};
use idlewave_units::NodeId;

impl World {
    /// After an agent handled an event: S2, the outcome of its epoch, and whether it is ready.
    pub(super) fn look(&mut self, node: NodeId, before: Option<Epoch>) {
        let Some(place) = self.nodes.get_mut(node.index()) else {
            return;
        };
        let (Some(agent), Some(before)) = (&place.agent, before) else {
            return;
        };
        if agent.epoch() < before {
            self.wrong
                .get_or_insert(format!("S2: node {node} went back from {before}"));
        }
        if agent.ready() {
            let drained = place.drained.filter(|d| d.0 == agent.epoch());
            place
                .ready
                .insert(agent.epoch(), drained.map(|d| (d.1, d.2)));
        }
        if let Some(done) = agent.carried_out() {
            let fate = self.fates.entry(agent.epoch()).or_default();
            if done {
                fate.0 = true;
            } else {
                fate.1 = true;
            }
        }
    }

    /// S5.
    pub(super) fn said_switch(&mut self, order: &Order) {
        self.fates.entry(order.epoch).or_default().0 = true;
        let nodes = || {
            order
                .roster
                .members
                .iter()
                .filter_map(|n| self.nodes.get(n.index()))
        };
        let unready = nodes()
            .filter(|n| !n.ready.contains_key(&order.epoch))
            .count();
        let counts: Option<Vec<_>> = nodes()
            .map(|n| n.ready.get(&order.epoch).copied().flatten())
            .collect();
        // `None`: a node did not drain.
        let sums = counts.map(|c| c.iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)));
        let drained = self.drains.get(&order.epoch) != Some(&true)
            || sums.is_some_and(|(sent, received)| sent == received);
        if unready > 0 || !drained {
            let epoch = order.epoch;
            self.wrong.get_or_insert(format!(
                "S5: {epoch} is switched with {unready} nodes not ready; sent and received: {sums:?}"
            ));
        }
    }

    /// The violation in this state, if any.
    pub(super) fn verdict(&self) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        if let Some((epoch, _)) = self.fates.iter().find(|(_, fate)| **fate == (true, true)) {
            return Err(format!("S3: {epoch} is carried out and aborted"));
        }
        let in_step = self
            .nodes
            .iter()
            .filter(|n| n.agent.as_ref().is_some_and(|a| a.coordinated()));
        let running = in_step.fold(0, |all, n| all | (GANGS & !n.frozen));
        if running.count_ones() > 1 {
            return Err("S1: two gangs run at once on coordinated nodes".to_owned());
        }
        Ok(())
    }

    /// S4: nothing is in progress, and no node stays frozen.
    pub(super) fn at_rest(&self) -> Result<(), String> {
        let mut common = None;
        for (i, node) in self.nodes.iter().enumerate() {
            let wrong = |what: &str| Err(format!("S4: node {i} {what} at the end"));
            let Some(agent) = &node.agent else { continue };
            if !agent.settled() || !node.tasks.is_empty() {
                return wrong("is not settled");
            }
            let running = GANGS & !node.frozen;
            if !agent.coordinated() {
                if running != GANGS {
                    return wrong("is uncoordinated and has frozen gangs");
                }
            } else if self.controller.is_none() {
                return wrong("is coordinated without a controller");
            } else if running.count_ones() != 1 || *common.get_or_insert(running) != running {
                return wrong("does not run the one gang");
            }
        }
        Ok(())
    }

    /// S4: whether every node that is up runs `slot`, in step.
    pub(super) fn all_run(&self, slot: Slot) -> bool {
        self.nodes.iter().filter(|n| !n.leaving).all(|n| {
            n.agent
                .as_ref()
                .is_none_or(|a| a.coordinated() && a.settled())
                && (n.agent.is_none() || GANGS & !n.frozen == bits(slot))
        })
    }
}
