//! Converts the numbers that each node assigned to those of the whole run.

use idlewave_run::tables::*;
use idlewave_run::{RunError, RunReader};
use idlewave_units::NodeId;
use std::collections::{BTreeMap, HashMap};

/// The merged tables, and for each node the map from old numbers to new ones.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// All sources, without duplicates.
    pub sources: Sources,
    /// All operations, each name once.
    pub operations: Operations,
    /// All communicators, each key once.
    pub communicators: Communicators,
    source: Vec<HashMap<u32, u32>>,
    operation: Vec<HashMap<u32, u32>>,
    communicator: Vec<HashMap<u32, u32>>,
}

/// Old numbers without a row in their table are moved this far above all others, so that they stay
/// distinct.
const DANGLING: u32 = 1 << 31;

fn renumbered(maps: &[HashMap<u32, u32>], node: NodeId, old: u32) -> u32 {
    let map = maps.get(node.index());
    map.and_then(|map| map.get(&old).copied())
        .unwrap_or(old | DANGLING)
}

impl Ids {
    /// Reads the small tables of all nodes.
    pub fn unite(nodes: &[&RunReader]) -> Result<Self, RunError> {
        let mut all = Self::default();
        all.unite_sources(nodes)?;
        all.unite_operations(nodes)?;
        all.unite_communicators(nodes)?;
        Ok(all)
    }

    fn unite_sources(&mut self, nodes: &[&RunReader]) -> Result<(), RunError> {
        let mut known: HashMap<(SourceKind, String), u32> = HashMap::new();
        for node in nodes {
            let mut map = HashMap::new();
            for row in node.read::<Sources>()?.rows() {
                let next = known.len() as u32;
                let id = *known.entry((row.kind, row.name.clone())).or_insert(next);
                map.insert(row.id, id);
                if id == next {
                    self.sources.push(Source { id, ..row });
                }
            }
            self.source.push(map);
        }
        Ok(())
    }

    fn unite_operations(&mut self, nodes: &[&RunReader]) -> Result<(), RunError> {
        let mut known: HashMap<String, u32> = HashMap::new();
        for node in nodes {
            let mut map = HashMap::new();
            for row in node.read::<Operations>()?.rows() {
                let next = known.len() as u32;
                let id = *known.entry(row.name.clone()).or_insert(next);
                map.insert(row.id, id);
                if id == next {
                    self.operations.push(Operation { id, ..row });
                }
            }
            self.operation.push(map);
        }
        Ok(())
    }

    fn unite_communicators(&mut self, nodes: &[&RunReader]) -> Result<(), RunError> {
        let mut known: HashMap<u64, u32> = HashMap::new();
        // Number 0 is MPI_COMM_WORLD on every node, whichever of them knows it.
        let mut members: BTreeMap<u32, Vec<Communicator>> = BTreeMap::new();
        let tables = nodes
            .iter()
            .map(|node| node.read::<Communicators>())
            .collect::<Result<Vec<_>, _>>()?;
        let world = tables
            .iter()
            .flat_map(Table::rows)
            .find(|row| row.comm == 0);
        if let Some(world) = world {
            known.insert(world.key, 0);
        }
        for table in &tables {
            let mut map = HashMap::new();
            let mut own: BTreeMap<u32, Vec<Communicator>> = BTreeMap::new();
            for row in table.rows() {
                let next = known.len() as u32;
                let comm = *known.entry(row.key).or_insert(next);
                map.insert(row.comm, comm);
                own.entry(comm)
                    .or_default()
                    .push(Communicator { comm, ..row });
            }
            for (comm, rows) in own {
                // Every member knows all members; if records were lost, the longest list is the
                // best.
                let best = members.entry(comm).or_default();
                if rows.len() > best.len() {
                    *best = rows;
                }
            }
            self.communicator.push(map);
        }
        for row in members.into_values().flatten() {
            self.communicators.push(row);
        }
        Ok(())
    }

    /// The run's number of a node's source.
    pub fn source(&self, node: NodeId, old: u32) -> u32 {
        renumbered(&self.source, node, old)
    }
    /// The run's number of a node's operation.
    pub fn operation(&self, node: NodeId, old: u32) -> u32 {
        renumbered(&self.operation, node, old)
    }
    /// The run's number of a node's communicator.
    pub fn communicator(&self, node: NodeId, old: u32) -> u32 {
        renumbered(&self.communicator, node, old)
    }
}
