//! Global definitions: what the numbers in events stand for.

use super::anchor::Anchor;
use super::bytes::Bytes;
use super::chunks::Chunks;
use super::losses::COPY;
use crate::import::error::ImportError;
use crate::otf2;
use std::collections::{BTreeMap, HashMap};

/// Limit on the locations: more are damage.
const MOST_LOCATIONS: usize = 1 << 20;

/// Kinds of definitions, by number (OTF2 3.0: otf2_global_definitions.h).
mod code {
    pub(super) const CLOCK: u8 = 5;
    pub(super) const STRING: u8 = 10;
    pub(super) const TREE_NODE: u8 = 12;
    pub(super) const LOCATION_GROUP: u8 = 13;
    pub(super) const LOCATION: u8 = 14;
    pub(super) const REGION: u8 = 15;
    pub(super) const GROUP: u8 = 18;
    pub(super) const COMM: u8 = 22;
    pub(super) const TREE_DOMAIN: u8 = 27;
    pub(super) const LOCATION_PROPERTY: u8 = 29;
    pub(super) const INTER_COMM: u8 = 43;
}

/// Roles of collectives other than barriers.
const COLLECTIVES: std::ops::RangeInclusive<u8> = otf2::ONE_TO_ALL..=otf2::OTHER_COLLECTIVE;

/// A node of the system tree.
#[derive(Debug)]
pub(super) struct TreeNode {
    pub name: u32,
    pub class: u32,
    pub parent: u32,
    pub is_shared_memory: bool,
}

/// A process or a device.
#[derive(Debug)]
pub(super) struct LocationGroup {
    pub tree_node: u32,
}

/// What a location is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocationKind {
    Thread,
    /// A stream of an accelerator, or a series of metrics.
    Other,
}

/// A location: a thread of a process, or what else records events.
#[derive(Debug)]
pub(super) struct Location {
    pub name: u32,
    pub kind: LocationKind,
    /// Events that the recorder wrote.
    pub events: u64,
    pub group: u32,
    /// Thread number, if idlewave wrote the archive.
    pub thread: Option<u32>,
}

/// A region of the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub name: u32,
    pub is_mpi: bool,
    /// Whether its role is that of a collective.
    pub is_collective: bool,
    /// Of the recorder, not of the program: idlewave's export shows what took a CPU as such
    /// regions.
    pub is_artificial: bool,
}

/// What the members of a group are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupKind {
    /// Ranks.
    Ranks,
    /// The caller alone.
    Caller,
    Other,
}

#[derive(Debug)]
pub(super) struct Group {
    pub kind: GroupKind,
    pub is_mpi: bool,
    pub members: Vec<u64>,
}

/// A communicator: its group, or its two groups.
#[derive(Clone, Copy, Debug)]
pub(super) enum Comm {
    Intra { group: u32, is_root: bool },
    Inter { groups: [u32; 2] },
}

/// All definitions that matter here, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// Of the clock of the archive.
    pub ticks_per_second: Option<u64>,
    pub strings: HashMap<u32, String>,
    pub tree: HashMap<u32, TreeNode>,
    pub location_groups: BTreeMap<u32, LocationGroup>,
    pub locations: BTreeMap<u64, Location>,
    pub regions: HashMap<u32, Region>,
    pub groups: BTreeMap<u32, Group>,
    /// Groups of MPI's locations, by number; the position of a member is its rank. Nothing refers
    /// to them, and EZTrace also gives the number of one to another group.
    pub ranks: BTreeMap<u32, Vec<u64>>,
    pub comms: BTreeMap<u32, Comm>,
    /// Thread numbers of locations: properties may come before or after their location.
    threads: HashMap<u64, u32>,
}

impl Definitions {
    pub(super) fn read(anchor: &Anchor) -> Result<Self, ImportError> {
        let path = anchor.definitions();
        let lacks = || ImportError::Lacks {
            path: anchor.path().to_owned(),
            what: format!(
                "its definitions are missing: there is no {}",
                path.display()
            ),
            next: COPY.to_owned(),
        };
        let mut file = Chunks::open(path.clone(), anchor.definition_chunk)?.ok_or_else(lacks)?;
        let mut found = Self::default();
        file.definitions(|kind, fields| {
            let room = found.locations.len() < MOST_LOCATIONS || kind != code::LOCATION;
            room.then(|| found.define(kind, fields)).flatten()
        })?;
        for (location, thread) in std::mem::take(&mut found.threads) {
            if let Some(location) = found.locations.get_mut(&location) {
                location.thread = Some(thread);
            }
        }
        Ok(found)
    }

    /// The text with this number.
    pub(super) fn text(&self, number: u32) -> Option<&str> {
        self.strings.get(&number).map(String::as_str)
    }

    fn define(&mut self, kind: u8, fields: &mut Bytes<'_>) -> Option<()> {
        match kind {
            code::CLOCK => self.ticks_per_second = Some(fields.u64()?),
            code::STRING => {
                let number = fields.u32()?;
                let text = String::from_utf8_lossy(fields.text()?).into_owned();
                self.strings.insert(number, text);
            }
            code::TREE_NODE => {
                let number = fields.u32()?;
                let node = TreeNode {
                    name: fields.u32()?,
                    class: fields.u32()?,
                    parent: fields.u32()?,
                    is_shared_memory: false,
                };
                self.tree.insert(number, node);
            }
            code::TREE_DOMAIN => {
                let number = fields.u32()?;
                if fields.u8()? == otf2::SHARED_MEMORY {
                    if let Some(node) = self.tree.get_mut(&number) {
                        node.is_shared_memory = true;
                    }
                }
            }
            code::LOCATION_GROUP => {
                let (number, _name, _kind) = (fields.u32()?, fields.u32()?, fields.u8()?);
                let tree_node = fields.u32()?;
                self.location_groups
                    .insert(number, LocationGroup { tree_node });
            }
            code::LOCATION => self.location(fields)?,
            code::LOCATION_PROPERTY => self.property(fields)?,
            code::REGION => self.region(fields)?,
            code::GROUP => self.group(fields)?,
            code::COMM => {
                let (number, _name, group) = (fields.u32()?, fields.u32()?, fields.u32()?);
                let is_root = fields.u32()? == otf2::NONE;
                self.comms.insert(number, Comm::Intra { group, is_root });
            }
            code::INTER_COMM => {
                let (number, _name) = (fields.u32()?, fields.u32()?);
                let groups = [fields.u32()?, fields.u32()?];
                self.comms.insert(number, Comm::Inter { groups });
            }
            _ => {}
        }
        Some(())
    }

    fn location(&mut self, fields: &mut Bytes<'_>) -> Option<()> {
        let (number, name) = (fields.u64()?, fields.u32()?);
        // A location without a type counts as a thread.
        let kind = match fields.u8()? {
            0 | otf2::CPU_THREAD => LocationKind::Thread,
            _ => LocationKind::Other,
        };
        let location = Location {
            name,
            kind,
            events: fields.u64()?,
            group: fields.u32()?,
            thread: None,
        };
        self.locations.insert(number, location);
        Some(())
    }

    fn property(&mut self, fields: &mut Bytes<'_>) -> Option<()> {
        let (location, name, _text) = (fields.u64()?, fields.u32()?, fields.u32()?);
        // Before version 2.0, the text was all.
        if !fields.is_empty()
            && self.text(name) == Some(otf2::THREAD_PROPERTY)
            && fields.u8()? == otf2::TYPE_UINT32
        {
            self.threads.insert(location, fields.u32()?);
        }
        Some(())
    }

    fn region(&mut self, fields: &mut Bytes<'_>) -> Option<()> {
        let (number, name, _about, _kind) =
            (fields.u32()?, fields.u32()?, fields.u32()?, fields.u8()?);
        // File, first and last line.
        for _ in 0..3 {
            fields.u32()?;
        }
        let (mut canonical, mut role, mut paradigm) = (name, 0, 0);
        // Since version 1.1.
        if !fields.is_empty() {
            (canonical, role, paradigm) = (fields.u32()?, fields.u8()?, fields.u8()?);
        }
        let named_mpi = [name, canonical]
            .into_iter()
            .any(|n| self.text(n).is_some_and(|n| n.starts_with("MPI_")));
        let region = Region {
            name,
            is_mpi: paradigm == otf2::MPI || named_mpi,
            is_collective: role == otf2::BARRIER || COLLECTIVES.contains(&role),
            is_artificial: role == otf2::ARTIFICIAL && paradigm == otf2::MEASUREMENT_SYSTEM,
        };
        self.regions.insert(number, region);
        Some(())
    }

    fn group(&mut self, fields: &mut Bytes<'_>) -> Option<()> {
        let (number, _name, old_kind) = (fields.u32()?, fields.u32()?, fields.u8()?);
        let count = fields.u32()? as usize;
        // Each member has a byte or more, so a claimed count cannot exhaust memory.
        let mut members = Vec::with_capacity(count.min(fields.len()));
        for _ in 0..count {
            members.push(fields.u64()?);
        }
        // Before version 1.2: OTF2_GROUP_TYPE_PRE_1_2_MPI_GROUP, ..._MPI_COMM_SELF and ..._MPI_LOCATIONS.
        let (kind, is_mpi) = match fields.is_empty() {
            true => match old_kind {
                4 => (otf2::GROUP_OF_RANKS, true),
                5 => (otf2::GROUP_OF_CALLER, true),
                6 => (otf2::GROUP_OF_LOCATIONS, true),
                other => (other, false),
            },
            false => (fields.u8()?, fields.u8()? == otf2::MPI),
        };
        let kind = match kind {
            otf2::GROUP_OF_LOCATIONS if is_mpi => {
                self.ranks.insert(number, members);
                return Some(());
            }
            otf2::GROUP_OF_RANKS => GroupKind::Ranks,
            otf2::GROUP_OF_CALLER => GroupKind::Caller,
            _ => GroupKind::Other,
        };
        let group = Group {
            kind,
            is_mpi,
            members,
        };
        self.groups.insert(number, group);
        Some(())
    }
}
