//! Studies of gang switching, as Hori, Tezuka and Ishikawa evaluated theirs (SC'98): programs
//! alone, one after the other, together without anything, and in turns.
//!
//! Everything is the real thing: the service of `idlewave gang start`, programs over MPI (or
//! threads where there is none), the kernel's scheduler. A case is run again in every repeat, and
//! compared within it.

mod bench;
mod case;
mod contexts;
mod error;
mod sheet;
mod study;
mod text;

pub use bench::{Bench, Seen, Trial};
pub use case::{Case, Compares, Program, Table, Treatment, baselines, built_in, given};
pub use contexts::{Contexts, contexts};
pub use error::TrialError;
pub use sheet::sheet;
pub use study::{Filled, Row, Spread, Study, program_words, slice, study, treatment_words, words};
pub use text::text;
