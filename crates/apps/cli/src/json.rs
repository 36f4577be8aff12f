//! All JSON output passes through here: every document of `--json` begins with a header that says
//! what wrote it and what it is about.

use crate::exit::Failure;
use crate::output::printed;
use idlewave_measure::{NodeLoad, busy_nodes};
use idlewave_run::{Header, Origin, RunState, is_contaminated};
use idlewave_session::Utc;
use idlewave_sys::terminal;
use serde::Serialize;
use std::io::Write;

/// A document with its header.
#[derive(Serialize)]
struct Document<T> {
    header: Header,
    #[serde(flatten)]
    content: T,
}

/// The time at which this command began to measure.
pub struct Begun(String);

impl Begun {
    /// The current time.
    pub fn now() -> Self {
        Self(Utc::now().rfc3339())
    }

    /// The header of a measurement on these hosts that began at this time. `machine`: how busy others
    /// kept each node; empty if that was not measured.
    pub fn header(self, hosts: Vec<String>, interrupted: bool, machine: &[NodeLoad]) -> Header {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        Header::of(Some(Origin {
            started: self.0,
            command: words.collect(),
            hosts,
            state: match interrupted {
                true => RunState::Incomplete,
                false => RunState::Complete,
            },
            contaminated: match machine {
                [] => None,
                nodes => is_contaminated(nodes.iter().map(|n| &n.contamination)),
            },
            busy: busy_nodes(machine),
        }))
    }
}

/// Prints a computed object, below its header.
pub fn print_computed(content: impl Serialize) -> Result<(), Failure> {
    print_below(Header::of(None), content)
}

/// Prints an object, below its header.
pub fn print_below(header: Header, content: impl Serialize) -> Result<(), Failure> {
    print(&Document { header, content })
}

/// Prints a document that already has its header. It is written in pieces: with a million nodes,
/// its text is larger than all the data behind it.
pub fn print(document: &impl Serialize) -> Result<(), Failure> {
    let mut out = terminal::pieces();
    let written = serde_json::to_writer_pretty(&mut out, document).map_err(std::io::Error::from);
    let written = written.and_then(|()| out.write_all(b"\n"));
    printed(written.and_then(|()| out.flush()))
}
