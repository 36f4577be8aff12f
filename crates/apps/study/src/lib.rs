//! `idlewave study` as a library: measure a machine while recording the kernel, explain, predict,
//! report.
//!
//! [`study`] records into a bundle; everything after that reads only the bundle, through
//! [`idlewave_pipeline`].

mod options;
mod plan;
mod record;
mod size;

pub use options::StudyOptions;
pub use record::study;
