//! `idlewave measure` as a library: parallel measurements between ranks that are threads of this
//! process, or processes of an MPI job.
//!
//! Every rank does the same ([`measure`] is called by each process of a job); rank 0 gathers,
//! evaluates and writes all records. For molecular dynamics it reports how much the force
//! computation varies. Runs of computation and exchange in lockstep yield findings
//! ([`SeriesFindings`]): step, computation, exchange, and whether the expected maximum of the
//! computations predicts the step. Benchmarks ([`What::Benchmark`]) verify their own results and
//! report where the time of each rank went ([`BenchmarkSheet`](idlewave_run::BenchmarkSheet)).

mod benchmark;
mod bundle;
mod calibrate;
mod clocks;
mod error;
mod first;
mod fixed_steps;
pub mod gather;
mod iterations;
mod job;
mod keeping;
mod load;
mod lockstep;
mod md;
mod node_watch;
mod on_each_node;
mod options;
mod outcome;
mod ping_pong;
mod place;
mod placements;
mod rank_run;
mod ranks;
mod render;
mod render_benchmark;
mod render_common;
mod render_md;
mod render_scaling;
mod scaling;
pub mod smt;
mod threads;

pub use benchmark::{BenchmarkRow, Ended};
pub use calibrate::{CalibrateOptions, Calibrated, calibrate};
pub use clocks::Clocks;
pub use error::MeasureError;
pub use fixed_steps::{Counted, FixedSteps, FixedStepsOptions, FixedWork, RankSteps, fixed_steps};
pub use idlewave_explain::series::SeriesFindings;
pub use idlewave_run::Scaling;
pub use idlewave_run::findings::{Way, Ways};
pub use idlewave_workloads::halo::Halo;
pub use idlewave_workloads::is::Class;
pub use idlewave_workloads::npb;
pub use idlewave_workloads::{Benchmark, ParseBenchmarkError};
pub use job::measure;
pub use load::{NodeLoad, busy_nodes};
pub use lockstep::LockstepOutcome;
pub use md::MdOutcome;
pub use on_each_node::on_each_node;
pub use options::{FabricChoice, MeasureOptions, What};
pub use outcome::{Outcome, Results, Where};
pub use ping_pong::{PingPongFindings, SizeFindings};
pub use placements::{PlacedRun, PlacedRuns, PlacementOptions, PlacementOutcome, placements};
pub use render::render;
