//! Decoder of the kernel's trace ring buffer: format files, raw pages, and the timeline of every
//! CPU.
//!
//! A recorder copies sub-buffers, format files and what it knows of the machine into the directory
//! `raw/` of a bundle ([`RawCapture`] describes its layout); nothing is interpreted while the
//! program under study runs. Afterwards the capture becomes the tables of the run.

mod capture;
mod decode;
mod error;
pub mod event;
mod events;
pub mod format;
mod ledger;
mod markers;
mod names;
pub mod page;
mod stream;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timeline;

pub use capture::{
    CpuStats, RawCapture, RawTask, capture_path, format_path, header_page_path, pages_path,
};
pub use decode::{DecodeSummary, decode_capture};
pub use error::FtraceError;
pub use events::EVENTS;
pub use markers::{MARKER_EVENT, MarkerLine};
