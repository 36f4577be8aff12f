//! `idlewave study` as a library: measure a machine, record the kernel meanwhile, explain, predict,
//! report.
//!
//! [`study`] records into a bundle; everything after that reads the bundle only, through
//! [`idlewave_pipeline`].

mod options;
mod plan;
mod record;
mod size;

pub use options::StudyOptions;
pub use record::study;
