//! The nodes whose ranks are watched from here: asks all of them, repeatedly until they answer, and
//! keeps their answers.

use crate::sighting::Sighting;
use crate::told::{Ask, Page, Told, ToldError};
use idlewave_units::NodeId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Delay before a silent node is asked again.
const AGAIN: Duration = Duration::from_millis(30);
/// A node that is silent for this long counts as gone, and its ranks are unknown until it returns.
const SILENCE: Duration = Duration::from_secs(4);
/// The most parts of an answer; no node has more ranks.
const PARTS: u32 = 4_096;

/// Other nodes. `Far` has no sockets: outgoing messages are [taken](Self::take), incoming ones are
/// [heard](Self::hear).
#[derive(Debug, Default)]
pub struct Far {
    nodes: BTreeMap<NodeId, Node>,
    round: Round,
    out: Vec<(NodeId, Vec<u8>)>,
}

/// Number of the look, and the request.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    number: u64,
    regular: bool,
    begun: Option<Instant>,
}

#[derive(Debug)]
struct Node {
    host: String,
    still: Option<bool>,
    asked: Instant,
    /// It was silent for too long, and is no longer waited for until it answers.
    lost: bool,
    /// The last round that it has answered completely.
    answered: u64,
    /// Parts of the current answer.
    parts: BTreeMap<u32, Vec<Page>>,
    pages: BTreeMap<u32, Sighting>,
}

impl Far {
    /// Whether no other node is known.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Host names of the known nodes.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.nodes.values().map(|node| node.host.as_str())
    }

    /// Applies a node's message.
    ///
    /// # Errors
    /// The message is not valid. Then nothing has changed.
    pub fn hear(&mut self, now: Instant, from: NodeId, bytes: &[u8]) -> Result<(), ToldError> {
        match Told::decode(bytes)? {
            Told::Here { host, still } => {
                let node = self.nodes.entry(from).or_insert_with(|| Node {
                    host: String::new(),
                    still: None,
                    asked: now,
                    lost: false,
                    answered: 0,
                    parts: BTreeMap::new(),
                    pages: BTreeMap::new(),
                });
                (node.host, node.still) = (host, still);
            }
            Told::Looked {
                round,
                part,
                parts,
                ranks,
            } => {
                let current = self.round.number;
                let Some(node) = self.nodes.get_mut(&from) else {
                    return Ok(());
                };
                let fits = part < parts && parts <= PARTS;
                if !fits || round != current || node.answered == current {
                    return Ok(());
                }
                node.parts.insert(part, ranks);
                if node.parts.len() < parts as usize {
                    return Ok(());
                }
                (node.answered, node.lost) = (current, false);
                let mut before = std::mem::take(&mut node.pages);
                for page in std::mem::take(&mut node.parts).into_values().flatten() {
                    let number = page.number;
                    let sighting = page.sighting(
                        from.get().wrapping_add(1),
                        before.remove(&number),
                        now,
                        current,
                    );
                    node.pages.insert(number, sighting);
                }
            }
        }
        Ok(())
    }

    /// Starts a round: asks all nodes for a look. Their answers count once all have arrived, see
    /// [`is_complete`](Self::is_complete).
    pub fn ask(&mut self, now: Instant, regular: bool) {
        self.round = Round {
            number: self.round.number + 1,
            regular,
            begun: Some(now),
        };
        for (id, node) in &mut self.nodes {
            node.parts.clear();
            node.ask(*id, now, self.round, &mut self.out);
        }
    }

    /// Asks silent nodes again, and gives up on those that were silent for too long.
    pub fn ask_again(&mut self, now: Instant) {
        let round = self.round;
        let late = round.begun.is_some_and(|begun| now >= begun + SILENCE);
        let missing = self.nodes.iter_mut();
        for (id, node) in missing.filter(|(_, node)| node.answered != round.number) {
            if late {
                node.lost = true;
                node.pages.clear();
            }
            if now >= node.asked + AGAIN && !node.lost {
                node.ask(*id, now, round, &mut self.out);
            }
        }
    }

    /// Whether all nodes have answered, except those given up on.
    pub fn is_complete(&self) -> bool {
        let mut nodes = self.nodes.values();
        nodes.all(|node| node.lost || node.answered == self.round.number)
    }

    /// Number of the latest round; 0 before the first.
    pub(crate) fn round(&self) -> u64 {
        self.round.number
    }

    /// Tells all nodes that no more requests follow.
    pub fn end(&mut self) {
        let nodes = self.nodes.keys();
        self.out.extend(nodes.map(|id| (*id, Ask::End.encode())));
    }

    /// Outgoing messages with their receivers.
    pub fn take(&mut self) -> Vec<(NodeId, Vec<u8>)> {
        std::mem::take(&mut self.out)
    }

    /// Whether no rank of any node moves, according to the nodes; `None` without ranks.
    pub(crate) fn is_still(&self) -> Option<bool> {
        let nodes = self.nodes.values().filter(|node| !node.lost);
        let said = nodes.filter_map(|node| node.still);
        said.reduce(|one, other| one && other)
    }

    /// Processes of all nodes.
    pub(crate) fn sightings(&self) -> impl Iterator<Item = &Sighting> {
        self.nodes.values().flat_map(|node| node.pages.values())
    }
}

impl Node {
    fn ask(&mut self, id: NodeId, now: Instant, round: Round, out: &mut Vec<(NodeId, Vec<u8>)>) {
        self.asked = now;
        let whole = self.pages.iter().filter(|(_, seen)| seen.has_tables());
        let ask = Ask::Look {
            round: round.number,
            regular: round.regular,
            have: whole
                .filter_map(|(number, seen)| Some((*number, seen.epoch?)))
                .collect(),
        };
        out.push((id, ask.encode()));
    }
}
