//! Ranks, nodes and communicators of an archive.

use super::definitions::{Comm, Definitions, GroupKind, LocationKind};
use crate::import::app::App;
use crate::otf2;
use idlewave_units::{NodeId, Rank};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// No system tree is deeper; a longer way up is a cycle.
const DEEPEST: usize = 64;

/// A group of ranks. Many communicators may share one.
struct Ranks {
    all: Vec<Rank>,
    set: HashSet<Rank>,
    /// Whether these are all ranks, in order.
    is_world: bool,
}

/// A communicator as ranks of MPI_COMM_WORLD.
enum Members {
    Of(Arc<Ranks>),
    /// Each caller alone.
    Caller,
    /// Two groups that send to each other.
    Two([Arc<Ranks>; 2]),
}

/// Ranks and nodes of the locations, and the communicators.
pub(super) struct World {
    /// Ranks by location, for locations that are ranks themselves.
    locations: HashMap<u64, Rank>,
    /// Ranks by group of locations.
    groups: HashMap<u32, Rank>,
    /// Nodes by group of locations.
    places: HashMap<u32, NodeId>,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    comms: HashMap<u32, Members>,
}

impl World {
    /// Finds the ranks and nodes, and declares the communicators.
    pub(super) fn of(definitions: &Definitions, app: &mut App) -> Self {
        let mut world = Self {
            locations: HashMap::new(),
            groups: HashMap::new(),
            places: HashMap::new(),
            nodes: Vec::new(),
            comms: HashMap::new(),
        };
        world.find_ranks(definitions);
        world.find_nodes(definitions);
        world.find_comms(definitions);
        world.declare(definitions, app);
        world
    }

    /// The rank that a location belongs to.
    pub(super) fn rank(&self, location: u64, group: u32) -> Option<Rank> {
        let own = self.locations.get(&location);
        own.or_else(|| self.groups.get(&group)).copied()
    }

    /// The node of a group of locations.
    pub(super) fn node(&self, group: u32) -> NodeId {
        self.places.get(&group).copied().unwrap_or(NodeId::new(0))
    }

    /// Finds the ranks. The group of MPI's locations lists them in the order of MPI_COMM_WORLD.
    fn find_ranks(&mut self, definitions: &Definitions) {
        // There should be one; of several, take the largest, and of the largest the first.
        let all = definitions.ranks.values().rev();
        let members = all.max_by_key(|members| members.len());
        for (rank, location) in (0..).zip(members.into_iter().flatten()) {
            if let Some(sheet) = definitions.locations.get(location) {
                let rank = Rank::new(rank);
                self.locations.insert(*location, rank);
                self.groups.entry(sheet.group).or_insert(rank);
            }
        }
    }

    /// Finds the nodes: the nearest node of the system tree that is a machine with a memory of its
    /// own, or the parent if no node says so.
    fn find_nodes(&mut self, definitions: &Definitions) {
        let is_node = |number: u32| {
            definitions.tree.get(&number).is_some_and(|node| {
                let class = definitions.text(node.class).unwrap_or_default();
                node.is_shared_memory || class.eq_ignore_ascii_case("node")
            })
        };
        let mut found: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (&group, sheet) in &definitions.location_groups {
            let up = |number: &u32| definitions.tree.get(number).map(|node| node.parent);
            let ancestors = std::iter::successors(Some(sheet.tree_node), up).take(DEEPEST);
            let node = ancestors.filter(|n| *n != otf2::NONE).find(|n| is_node(*n));
            let node = node.unwrap_or(sheet.tree_node);
            found.entry(node).or_default().push(group);
        }
        for (node, groups) in found {
            let name = definitions.tree.get(&node);
            let name = name.and_then(|node| definitions.text(node.name));
            let id = NodeId::new(self.nodes.len() as u32);
            self.nodes
                .push(name.map_or_else(|| format!("node {id}"), str::to_owned));
            for group in groups {
                self.places.insert(group, id);
            }
        }
    }

    fn find_comms(&mut self, definitions: &Definitions) {
        let size = self.locations.len();
        let mut known: HashMap<u32, Arc<Ranks>> = HashMap::new();
        let mut ranks = |group: u32| {
            let members = || {
                let all = definitions.groups.get(&group);
                let all = all.map_or(&[][..], |group| &group.members);
                let rank = |member: &u64| u32::try_from(*member).ok().map(Rank::new);
                let all: Vec<Rank> = all.iter().filter_map(rank).collect();
                let in_order = (0..).map(Rank::new).zip(&all).all(|(n, rank)| n == *rank);
                Arc::new(Ranks {
                    is_world: in_order && all.len() == size,
                    set: all.iter().copied().collect(),
                    all,
                })
            };
            known.entry(group).or_insert_with(members).clone()
        };
        let of_mpi = |group: &u32| {
            let group = definitions.groups.get(group);
            group.filter(|group| group.is_mpi).map(|group| group.kind)
        };
        for (&comm, definition) in &definitions.comms {
            let members = match definition {
                Comm::Intra { group, .. } => match of_mpi(group) {
                    Some(GroupKind::Ranks) => Members::Of(ranks(*group)),
                    Some(GroupKind::Caller) => Members::Caller,
                    _ => continue,
                },
                Comm::Inter { groups } => match groups.each_ref().map(of_mpi) {
                    [Some(GroupKind::Ranks), Some(GroupKind::Ranks)] => {
                        Members::Two(groups.map(&mut ranks))
                    }
                    _ => continue,
                },
            };
            self.comms.insert(comm, members);
        }
    }

    /// Declares MPI_COMM_WORLD first, then the others by their numbers.
    fn declare(&self, definitions: &Definitions, app: &mut App) {
        let is_world = |(comm, definition): &(&u32, &Comm)| {
            let is_root = matches!(definition, Comm::Intra { is_root: true, .. });
            let members = self.comms.get(comm);
            is_root && matches!(members, Some(Members::Of(ranks)) if ranks.is_world)
        };
        let world = definitions.comms.iter().find(is_world);
        match world {
            Some((&comm, _)) => self.declare_one(comm, app),
            None => app.comms.declare_world(u64::MAX),
        }
        for &comm in definitions.comms.keys() {
            self.declare_one(comm, app);
        }
    }

    fn declare_one(&self, comm: u32, app: &mut App) {
        match self.comms.get(&comm) {
            Some(Members::Of(ranks)) => app.comms.declare(comm.into(), ranks.all.iter().copied()),
            Some(Members::Two([first, second])) => {
                let all = first.all.iter().chain(&second.all).copied();
                app.comms.declare(comm.into(), all);
            }
            // Declared at its use, because it is another one for each caller.
            Some(Members::Caller) | None => {}
        }
    }

    /// The number in the run of a communicator that a rank uses.
    pub(super) fn comm(&self, comm: u32, caller: Rank, app: &mut App) -> Option<u32> {
        match self.comms.get(&comm) {
            Some(Members::Caller) => {
                let key = (u64::from(caller.get()) + 1) << 32 | u64::from(comm);
                app.comms.declare(key, [caller]);
                app.comms.of(key)
            }
            _ => app.comms.of(comm.into()),
        }
    }

    /// The other rank of a message.
    pub(super) fn peer(&self, comm: u32, caller: Rank, peer: u32) -> Option<Rank> {
        match self.comms.get(&comm)? {
            Members::Of(ranks) => ranks.all.get(peer as usize).copied(),
            Members::Caller => Some(caller),
            Members::Two([first, second]) => {
                let theirs = match first.set.contains(&caller) {
                    true => second,
                    false => first,
                };
                theirs.all.get(peer as usize).copied()
            }
        }
    }

    /// The root of a collective.
    pub(super) fn root(&self, comm: u32, caller: Rank, root: u32) -> Option<Rank> {
        match root {
            otf2::NONE | otf2::ROOT_OF_GROUP => None,
            otf2::ROOT_IS_CALLER => Some(caller),
            root => self.peer(comm, caller, root),
        }
    }

    /// Locations of threads by process, in the order of ranks; those of no rank come last.
    pub(super) fn processes(&self, definitions: &Definitions) -> Vec<Vec<u64>> {
        let mut found: BTreeMap<(bool, Option<Rank>, u32), Vec<u64>> = BTreeMap::new();
        for (&number, location) in &definitions.locations {
            if location.kind != LocationKind::Thread {
                continue;
            }
            let rank = self.rank(number, location.group);
            let key = (rank.is_none(), rank, location.group);
            found.entry(key).or_default().push(number);
        }
        found.into_values().collect()
    }
}
