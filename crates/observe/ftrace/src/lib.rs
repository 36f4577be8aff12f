//! Decoder of the kernel's trace ring buffer: format files, raw pages, and the timeline of every
//! CPU.
//!
//! A recorder copies sub-buffers, format files and what it knows about the machine into the
//! directory `raw/` of a bundle ([`RawCapture`] describes its layout); nothing is interpreted while
//! the program under study runs. Afterwards, [`decode_capture`] turns the capture into the tables
//! of the run. Sub-buffers in other containers take the same path ([`decode_pages`]), and readers
//! of other formats feed their events to the same timelines ([`Feed`]).

mod capture;
mod decode;
mod error;
pub mod event;
mod events;
mod feed;
pub mod format;
mod ledger;
mod markers;
mod names;
pub mod page;
mod pages;
mod scale;
mod stream;
mod summary;
mod tables;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timeline;
mod wakes;

pub use capture::{
    CpuStats, RawCapture, RawTask, capture_path, format_path, header_page_path, pages_path,
};
pub use decode::{decode_capture, decode_capture_with};
pub use error::FtraceError;
pub use events::{EVENTS, STANDS_IN, SYSCALLS, understood};
pub use feed::{Feed, MOST_CPUS};
pub use markers::{MARKER_EVENT, MarkerLine};
pub use names::SeenTask;
pub use pages::{MOST_PAGE_BYTES, PageSheet, PageSource, decode_pages};
pub use scale::Scale;
pub use summary::DecodeSummary;
