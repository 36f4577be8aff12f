//! How far each switch is from a node, computed once per set of leaf switches and kept.

use crate::model::{NodeIndex, SwitchIndex, Vertex};
use crate::topology::Topology;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Distance of a switch that does not reach the node.
pub(crate) const UNREACHED: u16 = u16::MAX;

/// Entries that are kept in all, 256 MiB of them. Beyond that a table is made for each route.
const MOST_ENTRIES: usize = 128 << 20;

/// Tables of distances, one for all nodes that hang on the same switches, made when first asked for.
#[derive(Debug, Default)]
pub(crate) struct Distances {
    /// Of each node, the place of its table.
    class_of: Vec<u32>,
    /// Of each class, the switches on which its nodes hang.
    classes: Vec<Vec<SwitchIndex>>,
    tables: Vec<OnceLock<Box<[u16]>>>,
    entries: AtomicUsize,
}

/// What was computed stays with the original: it is computed again when it is asked for.
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
    pub(crate) fn new(topology: &Topology) -> Self {
        let mut places: HashMap<Vec<SwitchIndex>, u32> = HashMap::new();
        let mut classes = Vec::new();
        let class = |node| {
            let mut switches: Vec<_> = topology.switches_of(node).collect();
            switches.sort_unstable();
            *places.entry(switches.clone()).or_insert_with(|| {
                classes.push(switches);
                classes.len() as u32 - 1
            })
        };
        let class_of = topology.node_indices().map(class).collect();
        Self {
            class_of,
            tables: classes.iter().map(|_| OnceLock::new()).collect(),
            classes,
            entries: AtomicUsize::new(0),
        }
    }

    /// Of each switch, how many switches a message still passes to reach the node, itself included.
    pub(crate) fn to<'a>(&'a self, topology: &Topology, node: NodeIndex) -> Cow<'a, [u16]> {
        let class = self.class_of.get(node.get()).map_or(0, |c| *c as usize);
        let (Some(switches), Some(table)) = (self.classes.get(class), self.tables.get(class))
        else {
            return Cow::Owned(vec![UNREACHED; topology.switches().len()]);
        };
        if let Some(kept) = table.get() {
            return Cow::Borrowed(kept);
        }
        let size = topology.switches().len();
        // Only a bound on memory hangs on the order in which threads count.
        if self.entries.fetch_add(size, Ordering::Relaxed) + size > MOST_ENTRIES {
            self.entries.fetch_sub(size, Ordering::Relaxed);
            return Cow::Owned(distances(topology, switches));
        }
        let made = || distances(topology, switches).into_boxed_slice();
        Cow::Borrowed(table.get_or_init(made))
    }
}

/// Breadth first from the switches on which the nodes hang. Nodes forward nothing.
fn distances(topology: &Topology, from: &[SwitchIndex]) -> Vec<u16> {
    let mut distances = vec![UNREACHED; topology.switches().len()];
    let mut front = Vec::new();
    for switch in from {
        distances[switch.get()] = 1;
        front.push(*switch);
    }
    // A way with more switches than that is none that a network has; it counts as unreached.
    for distance in 2..UNREACHED {
        let mut next = Vec::new();
        for switch in front {
            for link in topology.links_from(Vertex::Switch(switch)) {
                if let Vertex::Switch(other) = topology.links()[link.get()].to {
                    if distances[other.get()] == UNREACHED {
                        distances[other.get()] = distance;
                        next.push(other);
                    }
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
