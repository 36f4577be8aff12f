//! Kernel traces: files of trace-cmd, perf and LTTng, raw sub-buffers, and text.
//!
//! ```text
//! dat        trace.dat 6 and 7: sub-buffers in a container
//! perf       perf.data, as a file and as a pipe
//! ctf        the Common Trace Format of LTTng
//! raw        the directory raw/ of an idlewave run
//! aix        what AIX's trcrpt prints
//! perfetto   Perfetto's protobuf
//! text       what tracefs, trace-cmd report and perf script print
//! input      numbers and strings of a file, for dat and perf
//! events     descriptions of events, for dat and perf
//! people     names, processes and parents of threads, for perf and ctf
//! kinds      which threads are the kernel's
//! program    which threads are the program under study
//! sheet      what the manifest says about the machine and its clock
//! run        from any of these to a run
//! ```
//! Containers of sub-buffers go through [`idlewave_ftrace::decode_pages`], all others through
//! [`idlewave_ftrace::Feed`]. Both give the same timelines and the same tables.

pub(crate) mod aix;
pub(crate) mod ctf;
mod dat;
mod events;
mod input;
mod kinds;
mod people;
pub(crate) mod perf;
pub(crate) mod perfetto;
mod program;
mod raw;
mod run;
mod sheet;
pub(crate) mod text;

pub use aix::read_report_lines;
pub use dat::read_head as read_dat_head;
pub use program::{Chosen, NoProgramText, Program, Rule};
pub(crate) use run::read;
pub use text::read_line as read_text_line;
