//! Which nodes are heard of.

use idlewave_units::{Nanos, NodeId};
use std::collections::BTreeMap;

/// Agents ask for the time four times a second. One that said nothing for this long is gone, and with it the frames of gangs with network
/// contexts: these would be drained for ever, and all others wait for that.
const SILENCE: Nanos = Nanos::from_secs(3);

/// When something was heard of each node last.
#[derive(Debug, Default)]
pub struct Heard(BTreeMap<NodeId, Nanos>);

impl Heard {
    /// A node said something.
    pub fn of(&mut self, node: NodeId, now: Nanos) {
        self.0.insert(node, now);
    }

    /// Nodes that have said nothing for too long, each once.
    pub fn silent(&mut self, now: Nanos) -> Vec<NodeId> {
        let silent = self.0.iter().filter(|(_, at)| now > **at + SILENCE);
        let silent: Vec<NodeId> = silent.map(|(node, _)| *node).collect();
        self.0.retain(|node, _| !silent.contains(node));
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_silent_once_when_nothing_was_heard_of_it_for_long() {
        let mut heard = Heard::default();
        let (one, other) = (NodeId::new(1), NodeId::new(2));
        heard.of(one, Nanos::ZERO);
        heard.of(other, Nanos::from_millis(1));
        assert_eq!(heard.silent(SILENCE), []);
        assert_eq!(heard.silent(SILENCE + Nanos::from_millis(1)), [one]);
        assert_eq!(heard.silent(SILENCE + Nanos::from_millis(1)), []);
        heard.of(one, SILENCE);
        assert_eq!(heard.silent(SILENCE + SILENCE), [other]);
        assert_eq!(heard.silent(SILENCE + SILENCE + SILENCE), [one]);
    }
}
