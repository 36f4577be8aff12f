//! What a file says besides its events.

use crate::import::kineto::value::{Any, Fields, Place, Ranks};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess};

/// Limit on the process groups: each is a communicator of NCCL or gloo, of which a rank has few.
const MOST_GROUPS: usize = 1 << 12;

/// What a file says besides its events.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// The field `distributedInfo`.
    pub distributed: Option<Distributed>,
    /// Empty if the file does not name it.
    pub host: String,
    /// What the times count from, in nanoseconds since the epoch.
    pub base_ns: Option<u64>,
    /// Whether the file was cut short.
    pub cut: bool,
}

/// What a file says about the program.
#[derive(Debug, Default)]
pub(super) struct Distributed {
    pub rank: Option<u64>,
    /// How many ranks there are.
    pub ranks: Option<u64>,
    /// Empty if it is not named.
    pub backend: String,
    pub groups: Vec<Group>,
}

/// A process group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Group {
    pub name: String,
    pub members: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(field_identifier)]
pub(super) enum DistributedField {
    #[serde(rename = "rank")]
    Rank,
    #[serde(rename = "world_size")]
    Ranks,
    #[serde(rename = "backend")]
    Backend,
    #[serde(rename = "pg_config")]
    Groups,
    #[serde(other)]
    Other,
}

impl<'de> Fields<'de> for Distributed {
    type Field = DistributedField;
    fn take<M: MapAccess<'de>>(
        &mut self,
        field: DistributedField,
        map: &mut M,
    ) -> Result<(), M::Error> {
        match field {
            DistributedField::Rank => map.next_value_seed(Any(&mut self.rank)),
            DistributedField::Ranks => map.next_value_seed(Any(&mut self.ranks)),
            DistributedField::Backend => map.next_value_seed(Any(&mut self.backend)),
            DistributedField::Groups => map.next_value_seed(Any(&mut self.groups)),
            DistributedField::Other => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

/// Leaves out groups whose name or members are missing.
impl<'de> Place<'de> for &mut Vec<Group> {
    fn list<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        loop {
            let mut config = Config::default();
            if list.next_element_seed(Any(&mut config))?.is_none() {
                return Ok(());
            }
            let members = config.members.all().filter(|_| !config.name.is_empty());
            if let Some(members) = members.filter(|_| self.len() < MOST_GROUPS) {
                let name = config.name;
                self.push(Group { name, members });
            }
        }
    }
}

/// An entry of the list of groups.
#[derive(Default)]
struct Config {
    name: String,
    members: Ranks,
}

#[derive(Deserialize)]
#[serde(field_identifier)]
enum ConfigField {
    #[serde(rename = "pg_name")]
    Name,
    #[serde(rename = "ranks")]
    Members,
    #[serde(other)]
    Other,
}

impl<'de> Fields<'de> for Config {
    type Field = ConfigField;
    fn take<M: MapAccess<'de>>(&mut self, field: ConfigField, map: &mut M) -> Result<(), M::Error> {
        match field {
            ConfigField::Name => map.next_value_seed(Any(&mut self.name)),
            ConfigField::Members => map.next_value_seed(Any(&mut self.members)),
            ConfigField::Other => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}
