//! Studies of gang switching, as in the evaluation of Hori, Tezuka and Ishikawa (SC'98): programs
//! alone, one after the other, together without coscheduling, and in turns.
//!
//! Everything is real: the service of `idlewave gang start`, programs over MPI (or threads without
//! MPI), the kernel's scheduler. Every repeat runs all cases once, and compares them with each
//! other.

mod bench;
mod case;
mod contexts;
mod error;
mod keep;
mod npb;
mod sheet;
mod skew;
mod spread;
mod study;
mod text;
mod words;

pub use bench::{Bench, Seen, Trial};
pub use case::{Case, Compares, Program, Table, Treatment, baselines, built_in, given};
pub use contexts::{Contexts, contexts};
pub use error::TrialError;
pub use keep::Kept;
pub use npb::{Extent, NpbPlan, choose, names, npb};
pub use sheet::sheet;
pub use spread::Spread;
pub use study::{Filled, Repeats, Row, Study, study};
pub use text::text;
