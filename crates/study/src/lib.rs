//! `idlewave study` as a library: measure a machine, record the kernel meanwhile, explain, predict, report.
//!
//! [`study`] records into a bundle; everything after that reads the bundle only, through
//! [`idlewave_recording`].

mod options;
mod plan;
mod record;

pub use idlewave_recording::RecordingError as StudyError;
pub use options::StudyOptions;
pub use record::study;
