//! Kernel traces: files of trace-cmd and perf, raw sub-buffers, and text.
//!
//! ```text
//! detect     which format a file has, by its content
//! dat        trace.dat 6 and 7: sub-buffers in a container
//! perf       perf.data, as a file and as a pipe
//! raw        the directory raw/ of an idlewave run
//! aix        what trcrpt of AIX prints
//! perfetto   Perfetto's protobuf
//! text       what tracefs, trace-cmd report and perf script print
//! program    which threads are the program under study
//! sheet      what the manifest says of the machine and its clock
//! ```
//! Containers of sub-buffers go through [`idlewave_ftrace::decode_pages`], text through
//! [`idlewave_ftrace::Feed`]: the same timelines, the same tables.

mod aix;
mod dat;
mod detect;
mod error;
mod events;
mod input;
mod kinds;
mod perf;
mod perfetto;
mod program;
mod raw;
mod run;
mod sheet;
mod text;

pub use aix::read_report_lines;
pub use dat::read_head as read_dat_head;
pub use detect::{Format, detect};
pub use error::ImportError;
pub use program::{Chosen, Program, Rule};
pub use run::{Ask, Imported, import};
pub use text::read_line as read_text_line;
