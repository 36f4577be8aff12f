//! Tracks which nodes are alive.

use idlewave_units::{Nanos, NodeId};
use std::collections::BTreeMap;

/// Agents ask for the time four times a second. An agent that was silent for this long is gone, and
/// so are its in-flight frames of gangs with network contexts, for which draining would wait
/// forever. With all CPUs busy, an agent was silent for up to 5.0 s: it moved a process into a
/// cgroup, for which the kernel waits until all CPUs have passed a quiescent state
/// (`synchronize_rcu`).
const SILENCE: Nanos = Nanos::from_secs(10);
/// Most time counted between two checks: while the controller, or the whole machine, was stalled,
/// no node could be heard.
const AWAKE: Nanos = Nanos::from_millis(500);

/// How long each node has been silent.
#[derive(Debug, Default)]
pub struct Heard {
    silent: BTreeMap<NodeId, Nanos>,
    looked: Option<Nanos>,
}

impl Heard {
    /// A message arrived from a node.
    pub fn of(&mut self, node: NodeId) {
        self.silent.insert(node, Nanos::ZERO);
    }

    /// Nodes that were silent for too long, each reported once. Called several times a second.
    pub fn look(&mut self, now: Nanos) -> Vec<NodeId> {
        let since = now.saturating_sub(self.looked.replace(now).unwrap_or(now));
        let mut gone = Vec::new();
        self.silent.retain(|node, silent| {
            *silent += since.min(AWAKE);
            let lives = *silent <= SILENCE;
            if !lives {
                gone.push(*node);
            }
            lives
        });
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_gone_once_when_nothing_was_heard_of_it_while_others_could_be() {
        let mut heard = Heard::default();
        let (one, other) = (NodeId::new(1), NodeId::new(2));
        let mut gone = Vec::new();
        for tenth in 0..200 {
            if tenth <= 20 {
                heard.of(one);
            }
            heard.of(other);
            let now = Nanos::from_millis(100 * tenth);
            gone.extend(heard.look(now).into_iter().map(|node| (tenth, node)));
        }
        assert_eq!(gone, [(120, one)]);
        // The machine was stalled, and then all nodes report again.
        assert_eq!(heard.look(Nanos::from_secs(3_600)), []);
        heard.of(other);
        assert_eq!(heard.look(Nanos::from_secs(3_601)), []);
    }
}
