//! Distances of switches from a node, computed once per set of leaf switches.

use crate::model::{NodeIndex, SwitchIndex};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Distance of a switch that cannot reach the node.
pub(crate) const UNREACHED: u16 = u16::MAX;

/// Most cached entries, 256 MiB. Beyond that a table is computed for each route.
const MOST_ENTRIES: usize = 128 << 20;

/// Tables of distances, one for all nodes on the same switches, computed on first use.
#[derive(Debug, Default)]
pub(crate) struct Distances {
    /// For each node, the index of its table.
    class_of: Vec<u32>,
    /// For each class, the switches of its nodes.
    classes: Vec<Vec<SwitchIndex>>,
    tables: Vec<OnceLock<Box<[u16]>>>,
    entries: AtomicUsize,
}

/// A clone starts without tables and computes them again.
impl Clone for Distances {
    fn clone(&self) -> Self {
        Self {
            class_of: self.class_of.clone(),
            classes: self.classes.clone(),
            tables: self.classes.iter().map(|_| OnceLock::new()).collect(),
            entries: AtomicUsize::new(0),
        }
    }
}

impl Distances {
    /// For nodes on these switches.
    pub(crate) fn new(switches_of: impl Iterator<Item = Vec<SwitchIndex>>) -> Self {
        let mut places: HashMap<Vec<SwitchIndex>, u32> = HashMap::new();
        let mut classes = Vec::new();
        let class = |mut switches: Vec<SwitchIndex>| {
            switches.sort_unstable();
            *places.entry(switches.clone()).or_insert_with(|| {
                classes.push(switches);
                classes.len() as u32 - 1
            })
        };
        let class_of = switches_of.map(class).collect();
        Self {
            class_of,
            tables: classes.iter().map(|_| OnceLock::new()).collect(),
            classes,
            entries: AtomicUsize::new(0),
        }
    }

    /// For each switch, how many switches a message still passes to reach the node, itself
    /// included.
    pub(crate) fn to<N: Iterator<Item = SwitchIndex>>(
        &self,
        node: NodeIndex,
        switches: usize,
        neighbours: impl Fn(SwitchIndex) -> N,
    ) -> Cow<'_, [u16]> {
        let class = self.class_of.get(node.get()).map_or(0, |c| *c as usize);
        let (Some(from), Some(table)) = (self.classes.get(class), self.tables.get(class)) else {
            return Cow::Owned(vec![UNREACHED; switches]);
        };
        if let Some(kept) = table.get() {
            return Cow::Borrowed(kept);
        }
        // Only a bound on memory depends on the order in which threads count.
        if self.entries.fetch_add(switches, Ordering::Relaxed) + switches > MOST_ENTRIES {
            self.entries.fetch_sub(switches, Ordering::Relaxed);
            return Cow::Owned(distances(from, switches, neighbours));
        }
        let made = || distances(from, switches, neighbours).into_boxed_slice();
        Cow::Borrowed(table.get_or_init(made))
    }
}

/// Breadth-first search from the switches of the nodes. Nodes do not forward.
fn distances<N: Iterator<Item = SwitchIndex>>(
    from: &[SwitchIndex],
    switches: usize,
    neighbours: impl Fn(SwitchIndex) -> N,
) -> Vec<u16> {
    let mut distances = vec![UNREACHED; switches];
    let mut front = Vec::new();
    for switch in from {
        distances[switch.get()] = 1;
        front.push(*switch);
    }
    // No real network has a longer path; it counts as unreached.
    for distance in 2..UNREACHED {
        let mut next = Vec::new();
        for switch in front {
            for other in neighbours(switch) {
                if distances[other.get()] == UNREACHED {
                    distances[other.get()] = distance;
                    next.push(other);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        front = next;
    }
    distances
}
