//! `idlewave measure` as a library: parallel measurements between ranks that are threads of this process, or
//! processes of an MPI job.
//!
//! Every rank does the same ([`measure`] is called by each process of a job); rank 0 gathers what all have
//! recorded, evaluates it and writes it down. After computation and exchange in lockstep come their findings
//! ([`SeriesFindings`]): step, computation, exchange, and whether the expected maximum of the computations predicts the
//! step.

mod error;
mod gather;
mod options;
mod rank_run;
mod series;

pub use error::MeasureError;
pub use options::{FabricChoice, MeasureOptions, Scaling, What};
pub use series::SeriesFindings;
