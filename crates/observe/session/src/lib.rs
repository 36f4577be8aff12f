//! Common parts of `study`, `measure` and `record`: a bundle during the recording, and the kernel's
//! view beside it.
//!
//! [`Recording`] is the open bundle: records go to its spill and become tables when it is closed.
//! [`align`] converts between the clocks of several nodes. [`open_run`] recovers what a killed
//! writer left, before anything reads it.

pub mod align;
mod date;
mod early;
mod error;
mod gather;
mod kernel_view;
mod lock;
mod machine;
mod node_facts;
mod program;
mod progress;
mod recording;
mod salvage;

pub use date::Utc;
pub use early::{ended_after, failed, view_ended_after, without_tables};
pub use error::{COPY_AGAIN, SessionError};
pub use gather::gather;
pub use kernel_view::KernelView;
pub use lock::Lock;
pub use machine::check_machine;
pub use node_facts::NodeFacts;
pub use program::{
    ClockExchange, Drain, Drained, Gathered, NewThread, ProgramRing, Rings, clock_exchanges,
    complete_ranks, enter_without_rings, forget_rings, gather_program, no_room, note_rings,
};
pub use progress::{Progress, Quiet, Stop};
pub use recording::{Current, ITERATION_BYTES, QUANTUM_BYTES, Recording};
pub use salvage::{is_whole, open as open_run};
