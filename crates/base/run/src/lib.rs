//! The run bundle: typed tables, manifest, findings and loss ledger, and how they are read and
//! written.
//!
//! A *run* is what every command of idlewave reads or writes: a live recording or a
//! simulation. On disk it is a directory with `run.json` (the [`Manifest`]), Arrow IPC tables and,
//! once explained, `findings.json`. The schema is written down in docs/run-bundle.md.

mod batches;
mod benchmark;
mod bundle;
mod codes;
mod column;
mod compressed;
mod conditions;
mod contamination;
mod coupling;
mod error;
pub mod findings;
mod header;
mod host;
mod ledger;
mod manifest;
mod ordered;
mod profile;
mod simulated;
pub mod spill;
mod table_io;
pub mod tables;
#[doc(hidden)]
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod turn;
mod work;

pub use batches::for_each_batch;
pub use benchmark::{
    BenchmarkCalls, BenchmarkRank, BenchmarkRegion, BenchmarkSheet, IterationTimes, Scaling,
    ScalingPoint, ScalingSheet,
};
pub use bundle::{RunReader, RunWriter, is_run};
pub use column::Cell;
pub use conditions::{Conditions, Neighbour, Realtime, Reserve, ReservedBy};
pub use contamination::{Contamination, busy_nodes, is_contaminated};
pub use coupling::{Coupling, Decomposition, ExchangeVariant, Link, Neighbourhood, WaitsFor};
pub use error::RunError;
pub use header::{Header, Origin};
pub use host::{Cache, CgroupQuota, CpuTopology, HostSheet};
pub use ledger::{Ledger, Loss};
pub use manifest::{
    Alignment, AlignmentPoint, ClockSheet, DetourLoop, Incomplete, Manifest, NodeSheet, Phase,
    PhaseKind, Priority, RankSheet, RunState, SchemaVersion, TableEntry, TraceCost, TraceMode,
    TraceSheet, Unavailable, clock_error_between,
};
pub use ordered::Ordered;
pub use profile::{LengthBin, NoiseProfile, NoiseSource};
pub use simulated::{Simulated, SimulatedDelay};
pub use table_io::{TableReader, TableWriter};
pub use tables::{SourceKind, Table};
pub use turn::{Siblings, Turn};
pub use work::WorkKernel;
