//! What can be wrong with text that describes a topology.

use crate::error::TopologyError;
use crate::hostlist::HostlistError;
use idlewave_units::foreign::cut;
use thiserror::Error;

/// Why text gives no topology. Lines are counted from 1. Fits "failed to ...".
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes are no UTF-8.
    #[error("read byte {offset}: the file is no text")]
    NoText {
        /// The first byte that is none.
        offset: usize,
    },
    /// The file is longer than any description of a million nodes.
    #[error("read a file of {bytes} bytes: the longest that is read has {most}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The greatest one.
        most: usize,
    },
    /// None of the formats.
    #[error("recognise the format: it is none of {}", formats())]
    NoFormat,
    /// A line that the format does not know.
    #[error("read line {line}, {text:?}: {why}")]
    Line {
        /// The line.
        line: usize,
        /// The offending text, cut.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A list of names that is none.
    #[error("read line {line}: {source}")]
    Hostlist {
        /// The line.
        line: usize,
        /// What is wrong with it.
        source: HostlistError,
    },
    /// The same name defined twice.
    #[error("read line {line}: {what} {name} is already there in line {first}")]
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
    /// A child that has a parent already.
    #[error(
        "read line {line}: {name} is a child of {second} and of {first}, and the form is a tree"
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
    /// A switch that is defined nowhere.
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
    /// Switches above each other.
    #[error("read line {line}: {}, which is a circle", circle.join(" is above "))]
    Circle {
        /// The first line that defines one of them.
        line: usize,
        /// Their names from the top down; the first one comes again at the end.
        circle: Vec<String>,
    },
    /// Text that is no YAML, XML or TOML, or has another structure than the format.
    #[error("read {format}: {why}")]
    Structure {
        /// The format.
        format: &'static str,
        /// What its reader says, in one line.
        why: String,
    },
    /// The file is of the format and describes nothing.
    #[error("find {what} in it")]
    Nothing {
        /// What is missing.
        what: &'static str,
    },
    /// Files that do not speak of the same nodes.
    #[error("join the files: {count} nodes are in {present} and not in {missing}: {names}")]
    Unmatched {
        /// How many.
        count: usize,
        /// Where they are.
        present: &'static str,
        /// Where they are not.
        missing: &'static str,
        /// Their names, folded and cut.
        names: String,
    },
    /// Files that cannot be combined.
    #[error("join the files: {why}")]
    Files {
        /// What is in the way.
        why: String,
    },
    /// A topology that cannot be.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

impl ReadError {
    /// A line with the text that is wrong in it.
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
