//! perf.data: what `perf record` writes, into a file or a pipe.
//!
//! ```text
//! head     header and sections of a file: attributes, features, descriptions of tracepoints
//! attrs    where each value is in the records of an event
//! facts    what the features say about the machine
//! stream   the records in order
//! packed   records in compressed ones
//! pass     what each record means
//! rounds   events in order of time
//! reader   all of it together
//! ```
//! The payload of a tracepoint's sample is the record that ftrace would have written, so it is
//! decoded by the same formats. A pipe has no header: its records describe themselves.
//!
//! Source: tools/perf/Documentation/perf.data-file-format.txt in the kernel's sources.

mod attrs;
mod facts;
mod head;
mod packed;
mod pass;
mod reader;
mod rounds;
mod stream;

pub(crate) use reader::{is_perf_data, read};
