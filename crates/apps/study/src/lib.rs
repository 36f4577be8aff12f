//! `idlewave study`, `measure detour`, `measure fwq` and `measure ftq` as a library: measure a machine
//! while recording the kernel, explain, predict, report.
//!
//! [`study`] and [`measure_cpus`] record into a bundle; everything after that reads only the
//! bundle, through [`idlewave_pipeline`]. [`study_job`] records all nodes of a job into one bundle.

mod nodes;
mod options;
mod plan;
mod record;
mod size;

pub use nodes::{JobStudy, is_of_job, study_job};
pub use options::{CpuMeasurement, CpuOptions, Quantum, StudyOptions, Work};
pub use record::{CpuAnalysis, measure_cpus, study};
