//! The header of every JSON document that idlewave writes.

use crate::{Manifest, RunState, SchemaVersion, is_contaminated};
use serde::{Deserialize, Serialize};

/// What wrote a JSON document, and which run or measurement it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Schema of the document: that of the run bundle, whose objects all documents share.
    pub schema: SchemaVersion,
    /// Version of idlewave that wrote it.
    pub idlewave: String,
    /// Where and when it was measured; `None` if it was only computed, so that the same seed gives
    /// the same bytes.
    pub measured: Option<Origin>,
}

/// Where and when something was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Wall-clock start, RFC 3339 in UTC; empty if it is not known.
    pub started: String,
    /// The command line.
    pub command: Vec<String>,
    /// Host names of the nodes.
    pub hosts: Vec<String>,
    /// Whether it finished.
    pub state: RunState,
    /// Whether other programs used so much of a node that what follows describes them as well; `None`
    /// if that is not known.
    #[serde(default)]
    pub contaminated: Option<bool>,
    /// What they used, a sentence for every such node.
    #[serde(default)]
    pub busy: Vec<String>,
}

impl Header {
    /// The header of a measured document, or of a computed one.
    pub fn of(measured: Option<Origin>) -> Self {
        Self {
            schema: SchemaVersion::CURRENT,
            idlewave: env!("CARGO_PKG_VERSION").to_owned(),
            measured,
        }
    }
}

impl Manifest {
    /// The header of findings about this run. A simulated run has no origin.
    pub fn header(&self) -> Header {
        let measured = self.simulated.is_none().then(|| Origin {
            started: self.started.clone(),
            command: self.command.clone(),
            hosts: self.nodes.iter().map(|n| n.host.name.clone()).collect(),
            state: self.state,
            contaminated: is_contaminated(self.nodes.iter().map(|n| &n.contamination)),
            busy: self.busy_nodes(),
        });
        Header::of(measured)
    }
}
