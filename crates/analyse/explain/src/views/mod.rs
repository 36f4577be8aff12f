//! Views: every process, daemon, interrupt, wait and message of a run, whether or not it delayed
//! anybody.
//!
//! The explanation of a run names the sources that made steps late; a view lists everything of one
//! kind, as an analyst of traces would. Each is one pass over the tables, in order of time, that
//! keeps sums per thread, CPU or pair of ranks. docs/views.md defines every number.

mod coarse;
mod daemons;
mod interrupts;
mod latency;
mod lengths;
mod losses;
mod matrix;
mod mpi;
mod processes;
mod scope;
mod seen;
mod states;
mod syscalls;
mod threads;
mod ticks;
mod view;
mod wakeups;
mod walk;

pub use coarse::{CoarseCounter, CoarseTask};
pub use daemons::{Daemon, Daemons, Phase};
pub use interrupts::{InterruptRow, Interrupts};
pub use latency::{CpuLatency, Latency, Ready, ThreadLatency};
pub use lengths::LengthSummary;
pub use losses::{Losses, all_losses};
pub use matrix::{Matrix, MatrixCell, MatrixRow};
pub use mpi::{CallRow, CommunicatorRow, Mpi, OpenTransfer, Traffic, UnfinishedRank};
pub use processes::{Ends, Process, Processes};
pub use scope::Filter;
pub use states::{States, StatesRow};
pub use syscalls::{CallingThread, SyscallRow, Syscalls};
pub use threads::Thread;
pub use ticks::{Clock, ClockCpu, Skew};
pub use view::{View, ViewKind, view};
pub use wakeups::{Back, Waker, Wakeups, Woken};
