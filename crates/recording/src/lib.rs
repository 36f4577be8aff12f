//! What `study`, `measure` and `record` share: a bundle while it is written, with the kernel's view beside it, and
//! what is made of it afterwards.
//!
//! [`Recording`] is the bundle under way: records go to its spill and become tables when it is closed.
//! [`align`] brings the clocks of several nodes together.
//! Everything after that reads the bundle only, through [`analyse`] and [`render`], so that doing it again
//! gives the same bytes; what a killed writer left is made whole first.

pub mod align;
mod analyse;
mod date;
mod error;
mod gather;
mod kernel_view;
mod like;
mod lock;
mod node_facts;
mod program;
mod progress;
mod recording;
mod salvage;
mod show;

pub use analyse::{Analysis, analyse, analyse_locked};
pub use date::Utc;
pub use error::RecordingError;
pub use gather::gather;
pub use kernel_view::KernelView;
pub use like::LikeLockstep;
pub use lock::Lock;
pub use node_facts::NodeFacts;
pub use program::{
    ClockExchange, Drain, Drained, Gathered, NewThread, ProgramRing, Rings, clock_exchanges,
    complete_ranks, forget_rings, gather_program, note_rings,
};
pub use progress::{Progress, Quiet, Stop};
pub use recording::{Current, Recording};
pub use salvage::open as open_run;
pub use show::{render, summary, write_report};
