//! Totals of a topology, level by level.

use crate::model::Vertex;
use crate::topology::Topology;

/// Switches of one level with their cables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// 1 for leaves; `None` for switches that reach no node.
    pub level: Option<u32>,
    /// Switches of the level.
    pub switches: usize,
    /// Cables to nodes and to switches of lower levels.
    pub down: u64,
    /// Cables to switches of the same level, each counted once.
    pub across: u64,
    /// Cables to switches of higher levels.
    pub up: u64,
    /// What comes from below over what can go up, in capacity, or in cables where not every capacity is known. Above 1
    /// the level is oversubscribed; `None` where nothing goes up.
    pub oversubscription: Option<f64>,
}

impl Topology {
    /// Its levels, leaves first.
    pub fn levels(&self) -> Vec<Level> {
        let mut all: Vec<Option<u32>> = self.switches().iter().map(|s| s.level).collect();
        all.sort_unstable_by_key(|l| l.unwrap_or(u32::MAX));
        all.dedup();
        all.into_iter().map(|level| self.level(level)).collect()
    }

    /// Separate parts of the network; 1 where all is joined. A node on the switches of two parts makes them one here,
    /// although it forwards nothing.
    pub fn parts(&self) -> usize {
        self.part_of_nodes()
            .into_iter()
            .max()
            .map_or(0, |last| last as usize + 1)
    }

    /// The part of each node, counted from 0 in the order of the nodes. Nodes of different parts cannot reach each other.
    pub fn part_of_nodes(&self) -> Vec<u32> {
        let place = |v| match v {
            Vertex::Node(node) => node.get(),
            Vertex::Switch(switch) => self.nodes().len() + switch.get(),
        };
        let mut part_of = vec![None; self.nodes().len() + self.switches().len()];
        let mut parts = 0;
        for node in self.node_indices() {
            if part_of[node.get()].is_some() {
                continue;
            }
            part_of[node.get()] = Some(parts);
            let mut open = vec![Vertex::Node(node)];
            while let Some(vertex) = open.pop() {
                for link in self.links_from(vertex) {
                    let next = self.links()[link.get()].to;
                    if part_of[place(next)].replace(parts).is_none() {
                        open.push(next);
                    }
                }
            }
            parts += 1;
        }
        part_of.truncate(self.nodes().len());
        part_of.into_iter().flatten().collect()
    }

    fn level(&self, level: Option<u32>) -> Level {
        let of = |v| match v {
            Vertex::Node(_) => Some(0),
            Vertex::Switch(s) => self.switches()[s.get()].level,
        };
        let (mut down, mut across, mut up) = (0, 0, 0);
        let (mut rate_down, mut rate_up) = (Some(0.0), Some(0.0));
        let own = self.links().iter();
        let own = own.filter(|l| matches!(l.from, Vertex::Switch(_)) && of(l.from) == level);
        for link in own {
            let cables = u64::from(link.cables);
            let rate = link.capacity.map(|c| c.get());
            if of(link.to) < level {
                down += cables;
                rate_down = rate_down.zip(rate).map(|(a, b)| a + b);
            } else if of(link.to) > level {
                up += cables;
                rate_up = rate_up.zip(rate).map(|(a, b)| a + b);
            } else {
                across += cables;
            }
        }
        let rates = rate_down.zip(rate_up);
        let (below, above) = rates.unwrap_or((down as f64, up as f64));
        Level {
            level,
            switches: self.switches().iter().filter(|s| s.level == level).count(),
            down,
            across: across / 2,
            up,
            oversubscription: (up > 0).then(|| below / above),
        }
    }
}
