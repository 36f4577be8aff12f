//! Totals of a topology, level by level.

use crate::model::{Link, Vertex};
use crate::topology::Topology;
use std::cmp::Ordering;
use std::collections::BTreeMap;

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
    /// Capacity from below over capacity upwards, or numbers of cables if a capacity is unknown.
    /// Above 1 the level is oversubscribed; `None` if nothing goes up.
    pub oversubscription: Option<f64>,
}

impl Topology {
    /// Its levels, leaves first.
    pub fn levels(&self) -> Vec<Level> {
        let mut all: BTreeMap<(bool, u32), Sums> = BTreeMap::new();
        // Switches without a level come last.
        let key = |level: Option<u32>| (level.is_none(), level.unwrap_or(0));
        for switch in self.switches() {
            all.entry(key(switch.level)).or_default().switches += 1;
        }
        let of = |v| match v {
            Vertex::Node(_) => Some(0),
            Vertex::Switch(s) => self.switches()[s.get()].level,
        };
        for link in self.links() {
            let own = of(link.from);
            if let (Vertex::Switch(_), Some(sums)) = (link.from, all.get_mut(&key(own))) {
                sums.add(link, of(link.to).cmp(&own));
            }
        }
        let level =
            |((none, level), sums): ((bool, u32), Sums)| sums.level((!none).then_some(level));
        all.into_iter().map(level).collect()
    }

    /// Separate parts of the network; 1 if everything is connected. A node on the switches of two
    /// parts connects them here, although it does not forward.
    pub fn parts(&self) -> usize {
        self.part_of_nodes()
            .into_iter()
            .max()
            .map_or(0, |last| last as usize + 1)
    }

    /// The part of each node, counted from 0 in the order of the nodes. Nodes of different parts
    /// cannot reach each other.
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
}

/// Sums over a level.
struct Sums {
    switches: usize,
    /// Cables down, across (each end of a cable counts) and up.
    cables: [u64; 3],
    /// Capacity down and up, where known.
    rates: [Option<f64>; 2],
}

impl Default for Sums {
    fn default() -> Self {
        Self {
            switches: 0,
            cables: [0; 3],
            rates: [Some(0.0); 2],
        }
    }
}

impl Sums {
    fn add(&mut self, link: &Link, to: Ordering) {
        let (cables, rate) = match to {
            Ordering::Less => (0, Some(0)),
            Ordering::Equal => (1, None),
            Ordering::Greater => (2, Some(1)),
        };
        self.cables[cables] += u64::from(link.cables);
        if let Some(rate) = rate {
            let own = link.capacity.map(|c| c.get());
            self.rates[rate] = self.rates[rate].zip(own).map(|(a, b)| a + b);
        }
    }

    fn level(self, level: Option<u32>) -> Level {
        let [down, across, up] = self.cables;
        let rates = self.rates[0].zip(self.rates[1]);
        let (below, above) = rates.unwrap_or((down as f64, up as f64));
        Level {
            level,
            switches: self.switches,
            down,
            across: across / 2,
            up,
            oversubscription: (up > 0).then(|| below / above),
        }
    }
}
