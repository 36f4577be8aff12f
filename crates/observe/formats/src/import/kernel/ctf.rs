//! Traces in the Common Trace Format, CTF 1.8: the kernel's of LTTng, and what
//! `perf data convert --to-ctf` writes.
//!
//! ```text
//! find       the kernel's trace below a directory
//! text       the metadata, which may be in packets
//! words      its words: names, numbers, signs
//! types      types of fields
//! declare    from words to types
//! scalars    the same for single numbers
//! metadata   trace, clocks, streams and events that it declares
//! bits       numbers of any size at any bit
//! code       the steps that read a type
//! compile    from types to steps
//! syscalls   numbers of system calls, by the names of their events
//! meaning    what an event says about the kernel, by the names of its fields
//! layout     all of a trace: packets, streams, events
//! window     a part of a stream file
//! stream     the packets and events of a stream in order
//! reader     all of it together
//! ```
//! The metadata says where each field is, so nothing is assumed about the layout of an event:
//! fields are found by name.
//!
//! Source: the Common Trace Format specification 1.8.3 (diamon.org/ctf/v1.8.3); names of events and
//! fields from the headers of lttng-modules 2.13, and from what perf 6.1 writes.

mod bits;
mod code;
mod compile;
mod declare;
mod find;
mod layout;
mod meaning;
mod metadata;
mod reader;
mod scalars;
mod stream;
mod syscalls;
mod text;
mod types;
mod window;
mod words;

pub(crate) use find::find;
pub(crate) use reader::read;
pub(crate) use text::is_metadata;
