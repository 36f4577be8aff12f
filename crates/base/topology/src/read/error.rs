//! Errors in text that describes a topology.

use crate::error::TopologyError;
use crate::hostlist::HostlistError;
use idlewave_units::foreign::cut;
use thiserror::Error;

/// Why text gives no topology. Lines are counted from 1. Fits "failed to ...".
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes are not UTF-8.
    #[error("read byte {offset}: the file is not UTF-8 text")]
    NoText {
        /// The first invalid byte.
        offset: usize,
    },
    /// The file is longer than any description of a million nodes.
    #[error("read a file of {bytes} bytes: at most {most} are supported")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The greatest one.
        most: usize,
    },
    /// Not a supported format.
    #[error("recognise the format: it is not one of {}", formats())]
    NoFormat,
    /// An invalid line.
    #[error("read line {line}, {text:?}: {why}")]
    Line {
        /// The line.
        line: usize,
        /// The offending text, cut.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// An invalid list of names.
    #[error("read line {line}: {source}")]
    Hostlist {
        /// The line.
        line: usize,
        /// What is wrong with it.
        source: HostlistError,
    },
    /// The same name defined twice.
    #[error("read line {line}: {what} {name} is already defined in line {first}")]
    Repeated {
        /// The second line.
        line: usize,
        /// What it is.
        what: &'static str,
        /// Its name.
        name: String,
        /// The first line.
        first: usize,
    },
    /// A child with two parents.
    #[error(
        "read line {line}: {name} is a child of {second} and of {first}, which makes it no tree"
    )]
    TwoParents {
        /// Line of the second parent.
        line: usize,
        /// The child.
        name: String,
        /// The first parent.
        first: String,
        /// The second parent.
        second: String,
    },
    /// A switch that is not defined.
    #[error("read line {line}: switch {parent} has the child {name}, which no line defines")]
    UnknownChild {
        /// Line of the parent.
        line: usize,
        /// The parent.
        parent: String,
        /// The child.
        name: String,
    },
    /// A switch above itself.
    #[error("read line {line}: switch {name} is above itself")]
    Ancestor {
        /// A line that defines one of the circle.
        line: usize,
        /// The switch.
        name: String,
    },
    /// Switches in a cycle.
    #[error("read line {line}: {}, which is a cycle", circle.join(" is above "))]
    Circle {
        /// The first line that defines one of them.
        line: usize,
        /// Their names from the top down; the first one is repeated at the end.
        circle: Vec<String>,
    },
    /// Text that is not YAML, XML or TOML, or not of the expected structure.
    #[error("read {format}: {why}")]
    Structure {
        /// The format.
        format: &'static str,
        /// The parser's message, in one line.
        why: String,
    },
    /// The file is in the format but describes nothing.
    #[error("find {what} in the file")]
    Nothing {
        /// What is missing.
        what: &'static str,
    },
    /// A list of nodes and a topology without common nodes.
    #[error(
        "join the files: no node of the list is in the topology: the list has {list}, the topology {topology}"
    )]
    NoneListed {
        /// Names of the list, folded and cut.
        list: String,
        /// Names of the topology, folded and cut.
        topology: String,
    },
    /// Files that cannot be combined.
    #[error("join the files: {why}")]
    Files {
        /// What prevents it.
        why: String,
    },
    /// An invalid topology.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

impl ReadError {
    /// An error in a line, with the offending text.
    pub(crate) fn line(line: usize, text: &str, why: impl Into<String>) -> Self {
        Self::Line {
            line,
            text: cut(text),
            why: why.into(),
        }
    }
}

fn formats() -> String {
    let names = crate::read::Format::ALL.map(crate::read::Format::name);
    names.join(", ")
}
