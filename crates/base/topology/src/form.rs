//! The TOML text of idlewave's own format. Amounts are text with units.

use serde::{Deserialize, Serialize};

/// The kind of topology.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Tables of nodes, switches and links.
    #[default]
    Graph,
    Star,
    FatTree,
    Torus,
    Hypercube,
    Dragonfly,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Graph => "graph",
            Kind::Star => "star",
            Kind::FatTree => "fat-tree",
            Kind::Torus => "torus",
            Kind::Hypercube => "hypercube",
            Kind::Dragonfly => "dragonfly",
        }
    }

    /// Keys that only some kinds use.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Kind::Graph => &["switch", "link"],
            Kind::Star => &["nodes"],
            Kind::FatTree => &[
                "nodes_per_leaf",
                "leaves",
                "spines",
                "cables_per_spine",
                "pods",
                "cores_per_spine",
                "cables_per_core",
            ],
            Kind::Torus => &["dims", "wrap", "nodes_per_switch"],
            Kind::Hypercube => &["dimension", "nodes_per_switch"],
            Kind::Dragonfly => &[
                "groups",
                "switches_per_group",
                "nodes_per_switch",
                "global_links_per_switch",
            ],
        }
    }
}

macro_rules! form {
    ($($key:ident: $kind:ty,)*) => {
        /// The whole text.
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct Form {
            #[serde(default)]
            pub(crate) kind: Kind,
            $(pub(crate) $key: Option<$kind>,)*
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub(crate) node: Vec<NodeForm>,
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub(crate) switch: Vec<SwitchForm>,
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub(crate) link: Vec<LinkForm>,
        }

        /// Keys before the first table, by which the format is recognised.
        pub(crate) const KEYS: &[&str] = &[
            "kind", $(stringify!($key),)* "node", "switch", "link",
        ];

        impl Form {
            /// Keys with whether the text has them.
            fn present(&self) -> Vec<(&'static str, bool)> {
                vec![
                    $((stringify!($key), self.$key.is_some()),)*
                    ("switch", !self.switch.is_empty()),
                    ("link", !self.link.is_empty()),
                ]
            }
        }
    };
}

form! {
    cores: u32,
    memory: String,
    capacity: String,
    uplink_capacity: String,
    nodes: u32,
    nodes_per_leaf: u32,
    leaves: u32,
    spines: u32,
    cables_per_spine: u32,
    pods: u32,
    cores_per_spine: u32,
    cables_per_core: u32,
    dims: Vec<u32>,
    wrap: bool,
    dimension: u32,
    nodes_per_switch: u32,
    groups: u32,
    switches_per_group: u32,
    global_links_per_switch: u32,
}

impl Form {
    /// Rejects keys of other kinds: they would have no effect.
    pub(crate) fn only_keys_of_its_kind(&self) -> Result<(), String> {
        let general = ["cores", "memory", "capacity", "uplink_capacity"];
        let own = self.kind.keys();
        for (key, present) in self.present() {
            if present && !general.contains(&key) && !own.contains(&key) {
                let kind = self.kind.name();
                let own = own.join(", ");
                return Err(format!("kind {kind} has no key {key}; its keys are {own}"));
            }
        }
        Ok(())
    }
}

/// Nodes with equal properties.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeForm {
    /// A name or a list, `n[1-16]`.
    pub(crate) name: String,
    pub(crate) cores: Option<u32>,
    pub(crate) memory: Option<String>,
    pub(crate) free: Option<bool>,
    pub(crate) compute: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) features: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) domains: Vec<DomainForm>,
}

/// A NUMA domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DomainForm {
    pub(crate) cores: u32,
    pub(crate) memory: Option<String>,
}

/// Switches of the same level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SwitchForm {
    pub(crate) name: String,
    pub(crate) level: Option<u32>,
}

/// Cables between each of some vertices and each of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkForm {
    pub(crate) from: String,
    pub(crate) to: String,
    /// Parallel cables of each pair.
    pub(crate) cables: Option<u32>,
    /// Of one cable in one direction.
    pub(crate) capacity: Option<String>,
}
